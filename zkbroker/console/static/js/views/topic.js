// One topic: its partitions, growth, groups and settings.

import { alterTopic, deleteTopic, electLeaders, reassignTopic, removeThrottle } from "../actions/topics.js";
import { clusterPath, isOperator, otherGeneration, partitionName } from "../api.js";
import { Chart } from "../chart.js";
import { bytes, bytesRate, digits, number, rate } from "../format.js";
import { keptBy, lagText } from "./groups.js";
import { html } from "../lib.js";
import { overview } from "../live.js";
import { Empty, GroupLink, Loaded, Page, Panel, State, Tile, Tiles, Trouble } from "../parts.js";
import { useResource } from "../resource.js";
import { address } from "../router.js";
import { useStore } from "../store.js";
import { Table } from "../table.js";
import { SettingsTable } from "./settings.js";

const STATES = { ok: ["ok", "in sync"], under: ["warning", "under-replicated"], offline: ["error", "offline"] };

const messages = (row) => (row.end === null || row.start === null ? null : row.end - row.start);

const partitionColumns = (topic) => [
  { key: "id", label: "Partition", cell: (row) => html`<a href=${address(["topics", topic, "partitions", String(row.id)])}>${partitionName(row.id)}</a>` },
  {
    key: "state",
    label: "State",
    cell: (row) => {
      const [kind, words] = STATES[row.state] ?? ["info", row.state];
      return html`<${State} kind=${kind}>${words}<//>`;
    },
  },
  { key: "leader", label: "Leader", number: true, cell: (row) => digits(row.leader) },
  { key: "replicas", label: "Replicas", cell: (row) => html`<${Replicas} row=${row} />`, value: (row) => row.replicas.join(",") },
  { key: "isr", label: "In sync", cell: (row) => row.isr.join(", ") || "none", value: (row) => row.isr.length },
  { key: "start", label: "Start", number: true, cell: (row) => digits(row.start) },
  { key: "end", label: "End", number: true, cell: (row) => digits(row.end) },
  { key: "messages", label: "Messages", number: true, cell: (row) => number(messages(row)), value: messages },
  { key: "bytes", label: "Size", number: true, cell: (row) => bytes(row.bytes) },
  { key: "leader_epoch", label: "Epoch", number: true, cell: (row) => digits(row.leader_epoch), hint: "How often the leader has changed" },
  { key: "look", label: "Content", unsorted: true, cell: (row) => html`<a href=${address(["messages"], { topic, partition: String(row.id) })}>Browse<span class="spoken"> partition ${partitionName(row.id)}</span></a>` },
];

const NEWER_ONLY = ["state", "replicas", "isr", "messages", "leader_epoch"];

// Replicas out of sync are struck through, with a text for screen readers.
const Replicas = ({ row }) =>
  row.replicas.map((id, at) => [
    at > 0 && ", ",
    row.isr.includes(id) ? String(id) : html`<s title=${`Replica ${id} is not in sync`}>${id}</s>`,
  ]);

const GROUP_COLUMNS = [
  { key: "name", label: "Group", cell: (row) => html`<${GroupLink} kind=${row.kind} name=${row.name} />` },
  { key: "kind", label: "Kept by", cell: keptBy },
  { key: "lag", label: "Lag", number: true, cell: (row) => lagText(row.lag) },
];

export function Topic({ name }) {
  const found = useResource(clusterPath("topics", name), {}, { live: true });
  return html`<${Page} title=${name} crumbs=${[["Topics", ["topics"]]]} aside=${found.data && html`<${Actions} topic=${found.data} reload=${found.reload} />`}>
    <${Loaded} of=${found}>${(topic) => html`<${Body} topic=${topic} />`}<//>
  <//>`;
}

// Whether a reassignment limits the copying of its replicas.
const isThrottled = (topic) =>
  (topic.settings ?? []).some((each) => each.source === "topic" && each.name.endsWith(".replication.throttled.replicas"));

function Actions({ topic, reload }) {
  const known = useStore(overview);
  const brokers = (known?.brokers ?? []).filter((each) => each.alive).map((each) => each.id);
  return html`<div class="actions">
    <a class="button" href=${address(["messages"], { topic: topic.name })}>Browse messages</a>
    ${isOperator() &&
    html`<button type="button" onClick=${() => alterTopic(topic, reload)}>Change</button>
      <button type="button" onClick=${() => electLeaders(topic, reload)}>Elect leaders</button>
      <button type="button" onClick=${() => reassignTopic(topic, brokers, reload)}>Move replicas</button>
      ${isThrottled(topic) && html`<button type="button" onClick=${() => removeThrottle(topic, reload)}>Remove the limit</button>`}
      <button type="button" class="danger" onClick=${() => deleteTopic(topic)}>Delete</button>`}
  </div>`;
}

function Body({ topic }) {
  const other = otherGeneration();
  const columns = partitionColumns(topic.name).filter(({ key }) => !other || !NEWER_ONLY.includes(key));
  const series = (measure) => [{ name: `topic.${topic.name}.${measure}`, label: topic.name }];
  return html`<div class="stack">
    <${Tiles}>
      <${Tile} label="Partitions" note=${other ? null : `${number(topic.replication)} replicas each`}>${number(topic.partitions.length)}<//>
      ${!other && html`<${Tile} label="Under-replicated" kind=${topic.under_replicated ? "warn" : ""} note="partitions">${number(topic.under_replicated)}<//>
      <${Tile} label="Offline" kind=${topic.offline ? "bad" : ""} note="partitions">${number(topic.offline)}<//>
      <${Tile} label="Messages" note="end minus start">${number(topic.messages)}<//>
      <${Tile} label="Messages in">${rate(topic.messages_in_s)}<//>`}
      <${Tile} label="Size" note=${`${bytesRate(topic.bytes_s)} growth`}>${bytes(topic.bytes)}<//>
    <//>
    <${Moving} topic=${topic.name} />
    <${Panel} id="traffic" title="Throughput and growth">
      <div class="charts">
        ${!other && html`<${Chart} title="Messages in" lines=${series("messages_in_s")} format=${rate} />`}
        <${Chart} title="Size" lines=${series("bytes")} format=${bytes} />
      </div>
    <//>
    <${Panel} id="partitions" title="Partitions">
      <${Table} caption=${`Partitions of ${topic.name}: ${number(topic.partitions.length)}`} columns=${columns} rows=${topic.partitions} rowKey=${(row) => row.id} firstSort="id"
        rowState=${(row) => (row.state === "offline" ? "down" : "")} />
    <//>
    <${Panel} id="groups" title="Groups that read it">
      <${Table} caption="Groups that read it" columns=${GROUP_COLUMNS} rows=${topic.groups} rowKey=${(row) => `${row.kind} ${row.name}`} empty="No group has committed offsets of this topic." />
    <//>
    <${Panel} id="settings" title="Settings">
      ${topic.settings ? html`<${SettingsTable} caption=${`Settings of ${topic.name}`} settings=${topic.settings} />` : html`<${Empty}>${topic.settings_error ?? "The settings could not be read."}<//>`}
    <//>
  </div>`;
}

// Replicas that are moving, if any.
function Moving({ topic }) {
  const found = useResource(clusterPath("reassignments"), {}, { live: true });
  const rows = (found.data?.moving ?? []).filter((each) => each.topic === topic);
  if (!rows.length) return null;
  const columns = [
    { key: "partition", label: "Partition" },
    { key: "from", label: "From brokers", cell: (row) => row.from.join(", ") },
    { key: "to", label: "To brokers", cell: (row) => row.to.join(", ") },
  ];
  return html`<${Panel} id="moving" title="Moving replicas">
    <${Table} caption="Moving replicas" columns=${columns} rows=${rows} rowKey=${(row) => row.partition} />
  <//>`;
}
