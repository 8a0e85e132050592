// All topics: searched, sorted and cut into pages by the server, since there may be thousands.

import { createTopic } from "../actions/topics.js";
import { clusterPath, isOperator, otherGeneration } from "../api.js";
import { bytes, bytesRate, number, rate } from "../format.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { listen, overview } from "../live.js";
import { Loaded, Page, State, TopicLink, Trouble } from "../parts.js";
import { useResource } from "../resource.js";
import { address, go, route } from "../router.js";
import { useStore } from "../store.js";
import { Pager, Search, Table } from "../table.js";

const LIMIT = 100;

const COLUMNS = [
  { key: "name", label: "Topic", cell: (row) => html`<${TopicLink} name=${row.name} />${row.internal && html` <span class="tag">internal</span>`}` },
  { key: "partitions", label: "Partitions", number: true, cell: (row) => number(row.partitions) },
  { key: "replication", label: "Replicas", number: true, cell: (row) => number(row.replication), hint: "Replicas of each partition" },
  { key: "under_replicated", label: "Under-replicated", number: true, cell: (row) => html`<${Trouble} value=${row.under_replicated} />` },
  { key: "offline", label: "Offline", number: true, cell: (row) => html`<${Trouble} value=${row.offline} kind="error" />` },
  { key: "messages", label: "Messages", number: true, cell: (row) => number(row.messages), hint: "End minus start offset, summed" },
  { key: "messages_in_s", label: "Messages in", number: true, cell: (row) => rate(row.messages_in_s) },
  { key: "bytes_s", label: "Growth", number: true, cell: (row) => bytesRate(row.bytes_s) },
  { key: "bytes", label: "Size", number: true, cell: (row) => bytes(row.bytes), hint: "All replicas" },
  { key: "settings_changed", label: "Own settings", number: true, unsorted: true, cell: (row) => row.settings_changed || "–" },
];

const OF_OTHERS = ["name", "partitions", "bytes_s", "bytes"];

export function Topics() {
  const { query } = useStore(route);
  const search = query.get("search") ?? "";
  const sort = query.get("sort") ?? "name";
  const offset = Number(query.get("offset") ?? 0) || 0;
  const list = useResource(clusterPath("topics"), { search, sort, offset, limit: LIMIT });
  const [changed, setChanged] = useState(new Map());
  const known = useStore(overview);

  // Rows that the server says have changed; a topic that came or went needs the list again.
  useEffect(() => {
    setChanged(new Map());
  }, [list.data]);
  useEffect(
    () => listen("topics", (rows) => setChanged((was) => new Map([...was, ...rows.map((row) => [row.name, row])]))),
    [],
  );
  const counted = useRef(null);
  useEffect(() => {
    if (!known) return;
    if (counted.current !== null && counted.current !== known.topics) list.reload();
    counted.current = known.topics;
  }, [known?.topics]);

  const move = (change) => go(address(["topics"], { search, sort, offset, ...change }), { replace: true, focus: false });
  const create = isOperator() && html`<button type="button" class="primary" onClick=${() => createTopic(known?.brokers.filter((each) => each.alive).length, list.reload)}>Create a topic</button>`;
  return html`<${Page} title="Topics" aside=${create}>
    <div class="bar">
      <${Search} label="Search topics" value=${search} onSearch=${(text) => move({ search: text, offset: 0 })} />
    </div>
    <${Loaded} of=${list}>${(data) => {
      const rows = data.topics.map((row) => ({ ...row, ...changed.get(row.name) }));
      return html`<div>
        <${Table} caption=${`Topics${search ? ` with “${search}” in the name` : ""}: ${number(data.total)}`} columns=${otherGeneration() ? COLUMNS.filter(({ key }) => OF_OTHERS.includes(key)) : COLUMNS} rows=${rows} rowKey=${(row) => row.name}
          sort=${sort} onSort=${(next) => move({ sort: next, offset: 0 })} rowState=${(row) => (row.offline ? "down" : "")}
          empty=${search ? `No topic has “${search}” in its name.` : "There is no topic yet."} />
        <${Pager} what="topics" total=${data.total} offset=${offset} limit=${LIMIT} onOffset=${(next) => move({ offset: next })} />
      </div>`;
    }}<//>
  <//>`;
}
