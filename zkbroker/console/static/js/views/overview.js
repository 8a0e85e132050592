// The cluster at a glance: problems first, then throughput, then its brokers.

import { clusterPath, otherGeneration } from "../api.js";
import { Chart, MOST_LINES } from "../chart.js";
import { bytes, bytesRate, digits, number, percent, rate } from "../format.js";
import { html } from "../lib.js";
import { overview as liveOverview } from "../live.js";
import { Empty, Loaded, Page, Panel, State, Text, Tile, Tiles, Time, Trouble } from "../parts.js";
import { ROOT } from "../router.js";
import { useResource } from "../resource.js";
import { useStore } from "../store.js";
import { Table } from "../table.js";

const SESSION = { connected: "ok", suspended: "warning", lost: "error" };

export function Problems({ problems }) {
  if (!problems.length) return html`<${Empty}><${State} kind="ok">No problems.<//><//>`;
  return html`<ul class="problems">
    ${problems.map(
      (each) => html`<li key=${each.text}>
        <${State} kind=${each.severity}>${each.severity === "error" ? "Error" : "Warning"}<//>
        ${each.link ? html`<a href=${inside(each.link)}><${Text} text=${each.text} oneLine=${true} /></a>` : html`<span><${Text} text=${each.text} oneLine=${true} /></span>`}
      </li>`,
    )}
  </ul>`;
}

// A path that the server names, below the mount prefix; never another host.
const inside = (path) => ROOT.pathname + path.replace(/^[/\\]+/, "");

// Whether some row has a value in a column that not all brokers can fill.
const known = (key, rows) => rows.some((row) => row[key] !== null && row[key] !== undefined);
const NEWER_ONLY = ["replicas", "under_replicated", "disk_bytes", "messages_in_s", "since_ms"];
const OPTIONAL = ["cpu", "resident_bytes", "connections", "version", "rack", "bytes_in_s", "bytes_out_s"];

const COLUMNS = [
  { key: "id", label: "Broker" },
  { key: "host", label: "Address", cell: (row) => html`<span class="name">${row.host}:${row.port}</span>`, value: (row) => `${row.host}:${row.port}` },
  {
    key: "alive",
    label: "State",
    cell: (row) => html`<${State} kind=${row.alive ? "ok" : "error"}>${row.alive ? "up" : "down"}<//>`,
    value: (row) => (row.alive ? 1 : 0),
  },
  { key: "leaders", label: "Leads", number: true, cell: (row) => number(row.leaders), hint: "Partitions that it leads" },
  { key: "replicas", label: "Replicas", number: true, cell: (row) => number(row.replicas) },
  {
    key: "under_replicated",
    label: "Behind",
    number: true,
    cell: (row) => html`<${Trouble} value=${row.under_replicated} />`,
    hint: "Its replicas that are not in sync",
  },
  { key: "messages_in_s", label: "Messages in", number: true, cell: (row) => rate(row.messages_in_s) },
  { key: "bytes_in_s", label: "In", number: true, cell: (row) => bytesRate(row.bytes_in_s) },
  { key: "bytes_out_s", label: "Out", number: true, cell: (row) => bytesRate(row.bytes_out_s) },
  { key: "disk_bytes", label: "On disk", number: true, cell: (row) => bytes(row.disk_bytes) },
  { key: "cpu", label: "CPU", number: true, cell: (row) => percent(row.cpu), hint: "Of one core" },
  { key: "resident_bytes", label: "Memory", number: true, cell: (row) => bytes(row.resident_bytes) },
  { key: "connections", label: "Connections", number: true, cell: (row) => number(row.connections) },
  { key: "version", label: "Version", cell: (row) => row.version ?? "–" },
  { key: "rack", label: "Rack", cell: (row) => row.rack ?? "–" },
  { key: "since_ms", label: "Up since", cell: (row) => html`<${Time} ms=${row.since_ms} />` },
];

const directories = (brokers) =>
  brokers.flatMap((broker) => (broker.directories ?? []).map((each) => ({ ...each, broker: broker.id })));

const DIRECTORY_COLUMNS = [
  { key: "broker", label: "Broker" },
  { key: "path", label: "Directory", cell: (row) => html`<span class="name">${row.path}</span>` },
  { key: "bytes", label: "Used", number: true, cell: (row) => bytes(row.bytes) },
  {
    key: "error",
    label: "State",
    cell: (row) => (row.error ? html`<${State} kind="error">${row.error}<//>` : html`<${State} kind="ok">in use<//>`),
    value: (row) => row.error ?? "",
  },
];

const listeners = (brokers) =>
  brokers.flatMap((broker) => (broker.listeners ?? []).map((each) => ({ ...each, broker: broker.id })));

const LISTENER_COLUMNS = [
  { key: "broker", label: "Broker" },
  { key: "name", label: "Listener" },
  { key: "protocol", label: "Protocol" },
  { key: "host", label: "Address", cell: (row) => html`<span class="name">${row.host}:${row.port}</span>` },
];

export function Overview() {
  const first = useResource(clusterPath("overview"));
  const now = useStore(liveOverview);
  // Events leave out listeners and directories: those are from the first answer.
  const merged = first.data && {
    ...first.data,
    ...now,
    brokers: (now?.brokers ?? first.data.brokers).map((each) => ({
      ...first.data.brokers.find((was) => was.id === each.id),
      ...each,
      ...(each.listeners?.length ? {} : { listeners: first.data.brokers.find((was) => was.id === each.id)?.listeners }),
      ...(each.directories?.length ? {} : { directories: first.data.brokers.find((was) => was.id === each.id)?.directories }),
    })),
  };
  return html`<${Page} title="Overview">
    <${Loaded} of=${{ ...first, data: merged }}>${(data) => html`<${Body} data=${data} />`}<//>
  <//>`;
}

function Body({ data }) {
  const up = data.brokers.filter((each) => each.alive).length;
  const { zookeeper } = data;
  const charted = data.brokers.slice(0, MOST_LINES);
  const per = (measure) => charted.map((each) => ({ name: `broker.${each.id}.${measure}`, label: `broker ${each.id}` }));
  // Brokers without an admin port do not report their traffic.
  const measured = data.brokers.some((each) => each.bytes_in_s !== null);
  const more = data.brokers.length > MOST_LINES ? `first ${MOST_LINES} brokers` : null;
  const other = otherGeneration();
  return html`<div class="stack">
    <${Tiles}>
      <${Tile} label="Brokers up" kind=${up < data.brokers.length ? "bad" : ""} note=${`of ${data.brokers.length}`}>${up}<//>
      ${!other && html`<${Tile} label="Controller" kind=${data.controller === null ? "bad" : ""} note=${data.controller === null ? "no broker leads the cluster" : "broker"}>${digits(data.controller)}<//>`}
      <${Tile} label="ZooKeeper" note=${zookeeper.servers.join(", ") + (zookeeper.chroot && zookeeper.chroot !== "/" ? zookeeper.chroot : "")}>
        <${State} kind=${SESSION[zookeeper.session] ?? "info"}>${zookeeper.session}<//>
      <//>
      <${Tile} label="Topics" note=${`${number(data.partitions)} partitions`}>${number(data.topics)}<//>
      ${!other && html`<${Tile} label="Under-replicated" kind=${data.under_replicated ? "warn" : ""} note="partitions">${number(data.under_replicated)}<//>
      <${Tile} label="Offline" kind=${data.offline ? "bad" : ""} note="partitions">${number(data.offline)}<//>
      <${Tile} label="Below min ISR" kind=${data.below_min_isr ? "warn" : ""} note="partitions">${number(data.below_min_isr)}<//>
      <${Tile} label="Messages in" note=${bytesRate(data.bytes_in_s)}>${rate(data.messages_in_s)}<//>`}
      ${other && html`<${Tile} label="Bytes in">${bytesRate(data.bytes_in_s)}<//>`}
      <${Tile} label="On disk" note=${other ? null : "all replicas"}>${bytes(data.bytes_on_disk)}<//>
    <//>
    ${other && html`<p class="notice info">A cluster of Kafka ${other}: it has no controller, no replicas and no settings of topics, its messages have no keys and no times, and offsets are positions in bytes. Nothing can be changed here.</p>`}
    <${Panel} id="problems" title="Problems"><${Problems} problems=${data.problems} /><//>
    <${Panel} id="throughput" title="Throughput">
      <div class="charts">
        ${!other && html`<${Chart} title="Messages in" lines=${[{ name: "cluster.messages_in_s", label: "cluster" }]} format=${rate} />`}
        ${measured
          ? [
              html`<${Chart} key="in" title="Bytes in" lines=${per("bytes_in_s")} format=${bytesRate} note=${more} />`,
              html`<${Chart} key="out" title="Bytes out" lines=${per("bytes_out_s")} format=${bytesRate} note=${more} />`,
            ]
          : html`<${Chart} key="all" title="Bytes in" lines=${[{ name: "cluster.bytes_in_s", label: "cluster" }]} format=${bytesRate} note=${other ? null : "of brokers: unknown without admin.port"} />`}
        ${!other && html`<${Chart} title="Partitions in trouble" lines=${[
          { name: "cluster.under_replicated", label: "under-replicated" },
          { name: "cluster.offline", label: "offline" },
        ]} format=${number} />`}
      </div>
    <//>
    <${Panel} id="brokers" title="Brokers">
      <${Table} caption="Brokers" columns=${COLUMNS.filter(({ key }) => (!OPTIONAL.includes(key) || known(key, data.brokers)) && !(other && NEWER_ONLY.includes(key)))} rows=${data.brokers} rowKey=${(row) => row.id} firstSort="id" rowState=${(row) => (row.alive ? "" : "down")} empty="No broker is registered in ZooKeeper." />
    <//>
    ${!other && html`<div class="columns">
      <${Panel} id="directories" title="Log directories">
        <${Table} caption="Log directories" columns=${DIRECTORY_COLUMNS} rows=${directories(data.brokers)} rowKey=${(row) => `${row.broker} ${row.path}`} empty="No broker reported its log directories." />
      <//>
      <${Panel} id="listeners" title="Listeners" aside=${html`<span class="muted">cluster id <span class="name">${data.cluster_id ?? "–"}</span></span>`}>
        <${Table} caption="Listeners" columns=${LISTENER_COLUMNS} rows=${listeners(data.brokers)} rowKey=${(row) => `${row.broker} ${row.name}`} empty="No listener is known." />
      <//>
    </div>`}
  </div>`;
}
