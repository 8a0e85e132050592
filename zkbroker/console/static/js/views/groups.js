// Consumer groups of both kinds: those that a coordinator keeps, and those in ZooKeeper.

import { clusterPath, otherGeneration } from "../api.js";
import { bytes, number } from "../format.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { listen } from "../live.js";
import { GroupLink, Loaded, Page, State, TopicLink } from "../parts.js";
import { useResource } from "../resource.js";
import { address, go, route } from "../router.js";
import { useStore } from "../store.js";
import { Pager, Search, Table } from "../table.js";

const LIMIT = 100;
const MOST_TOPICS = 3;

const STATES = { stable: "ok", active: "ok", empty: "idle", dead: "idle", inactive: "idle" };

export const GroupState = ({ state }) => html`<${State} kind=${STATES[state?.toLowerCase()] ?? "info"}>${state ?? "unknown"}<//>`;

export const keptBy = ({ kind }) => (kind === "zookeeper" ? "ZooKeeper" : "coordinator");

// Of another generation the lag is in bytes.
export const lagText = (lag) => (otherGeneration() ? bytes : number)(lag);

const TopicList = ({ names }) =>
  html`<span>${names.slice(0, MOST_TOPICS).map((name, at) => html`${at > 0 && ", "}<${TopicLink} name=${name} />`)}${names.length > MOST_TOPICS && ` and ${names.length - MOST_TOPICS} more`}</span>`;

const key = (row) => `${row.kind} ${row.name}`;

const COLUMNS = [
  { key: "name", label: "Group", cell: (row) => html`<${GroupLink} kind=${row.kind} name=${row.name} />` },
  { key: "kind", label: "Kept by", cell: keptBy },
  { key: "state", label: "State", cell: (row) => html`<${GroupState} state=${row.state} />` },
  { key: "members", label: "Members", number: true, cell: (row) => number(row.members) },
  { key: "lag", label: "Lag", number: true, cell: (row) => lagText(row.lag), hint: "Messages after its committed offsets" },
  { key: "topics", label: "Topics", unsorted: true, cell: (row) => html`<${TopicList} names=${row.topics} />` },
  { key: "coordinator", label: "Coordinator", number: true, unsorted: true, cell: (row) => row.coordinator ?? "–" },
];

export function Groups() {
  const { query } = useStore(route);
  const search = query.get("search") ?? "";
  const sort = query.get("sort") ?? "name";
  const offset = Number(query.get("offset") ?? 0) || 0;
  const list = useResource(clusterPath("groups"), { search, sort, offset, limit: LIMIT });
  const [changed, setChanged] = useState(new Map());

  // Rows that the server says have changed; the list is read again when a group came or went.
  const latest = useRef(list);
  latest.current = list;
  useEffect(() => {
    setChanged(new Map());
  }, [list.data]);
  useEffect(() => {
    const changes = listen("groups", (rows) => {
      setChanged((was) => new Map([...was, ...rows.map((row) => [key(row), row])]));
      const { data, reload } = latest.current;
      const known = new Set((data?.groups ?? []).map(key));
      if (data && data.total <= LIMIT && !search && rows.some((row) => !known.has(key(row)))) reload();
    });
    const losses = listen("gone", (names) => names.groups?.length && latest.current.reload());
    return () => {
      changes();
      losses();
    };
  }, [search]);

  const move = (change) => go(address(["groups"], { search, sort, offset, ...change }), { replace: true, focus: false });
  return html`<${Page} title="Groups">
    <div class="bar"><${Search} label="Search groups" value=${search} onSearch=${(text) => move({ search: text, offset: 0 })} /></div>
    <${Loaded} of=${list}>${(data) => html`<div>
      <${Table} caption=${`Groups${search ? ` with “${search}” in the name` : ""}: ${number(data.total)}`} columns=${COLUMNS}
        rows=${data.groups.map((row) => ({ ...row, ...changed.get(key(row)) }))} rowKey=${key} sort=${sort}
        onSort=${(next) => move({ sort: next, offset: 0 })}
        empty=${search ? `No group has “${search}” in its name.` : "No group has read anything yet."} />
      <${Pager} what="groups" total=${data.total} offset=${offset} limit=${LIMIT} onOffset=${(next) => move({ offset: next })} />
    </div>`}<//>
  <//>`;
}
