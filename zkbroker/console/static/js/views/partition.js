// The log of a partition: its segments, formats, and the offsets of times.

import { clusterPath, otherGeneration, partitionName } from "../api.js";
import { bytes, digits, number } from "../format.js";
import { html } from "../lib.js";
import { Empty, Loaded, Page, Panel, State, Tile, Tiles, Time } from "../parts.js";
import { useResource } from "../resource.js";
import { address } from "../router.js";
import { Table } from "../table.js";

const segmentColumns = [
  { key: "base_offset", label: "Base offset", cell: (row) => digits(row.base_offset) },
  { key: "active", label: "State", cell: (row) => (row.active ? html`<${State} kind="ok">being written<//>` : "closed"), value: (row) => (row.active ? 1 : 0) },
  { key: "bytes", label: "Size", number: true, cell: (row) => bytes(row.bytes) },
  { key: "records", label: "Messages", number: true, cell: (row) => number(row.records) },
  { key: "formats", label: "Formats", cell: (row) => row.formats.map((each) => `v${each}`).join(", ") || "–", value: (row) => row.formats.join(), hint: "Message formats: v0 of 0.8, v1 of 0.10, v2 of 0.11" },
  { key: "compression", label: "Compression", cell: (row) => row.compression.join(", ") || "none", value: (row) => row.compression.join() },
  { key: "first_time_ms", label: "First time", cell: (row) => html`<${Time} ms=${row.first_time_ms} />` },
  { key: "last_time_ms", label: "Last time", cell: (row) => html`<${Time} ms=${row.last_time_ms} />` },
];

const timeColumns = (topic, partition) => [
  { key: "time_ms", label: "Time", cell: (row) => html`<${Time} ms=${row.time_ms} />` },
  {
    key: "offset",
    label: "First offset at or after",
    number: true,
    cell: (row) => (row.offset === null ? "–" : html`<a href=${address(["messages"], { topic, partition, from: String(row.offset) })}>${digits(row.offset)}</a>`),
  },
];

export function Partition({ topic, partition }) {
  const found = useResource(clusterPath("topics", topic, "partitions", partition, "log"));
  const crumbs = [["Topics", ["topics"]], [topic, ["topics", topic]]];
  const aside = html`<div class="actions">
    <button type="button" onClick=${found.reload}>Read again</button>
    <a class="button" href=${address(["messages"], { topic, partition })}>Browse messages</a>
  </div>`;
  return html`<${Page} title=${`${topic}, partition ${partitionName(Number(partition))}`} crumbs=${crumbs} aside=${aside}>
    <${Loaded} of=${found}>${(log) => html`<${Body} log=${log} topic=${topic} partition=${partition} />`}<//>
  <//>`;
}

function Body({ log, topic, partition }) {
  const { segments } = log;
  const total = (of) => (segments?.every((each) => of(each) !== null) ? segments.reduce((sum, each) => sum + of(each), 0) : null);
  return html`<div class="stack">
    <${Tiles}>
      <${Tile} label="Segments">${number(segments?.length)}<//>
      <${Tile} label="Size" note="of this replica">${bytes(segments && total((each) => each.bytes))}<//>
      ${!otherGeneration() && html`<${Tile} label="Messages">${number(segments && total((each) => each.records))}<//>`}
      <${Tile} label="Read from" note=${log.directory ?? "the leader"}>${log.source === "files" ? "files" : "the wire"}<//>
    <//>
    <${Panel} id="segments" title="Segments">
      ${segments
        ? html`<${Table} caption="Segments" columns=${otherGeneration() ? segmentColumns.filter(({ key }) => ["base_offset", "active", "bytes"].includes(key)) : segmentColumns} rows=${segments} rowKey=${(row) => row.base_offset} firstSort="base_offset" empty="The log has no segment." />`
        : html`<${Empty}>The console is not on the machine with this partition’s files, so its segments are unknown. Start one on a broker's machine to see them.<//>`}
    <//>
    <${Panel} id="times" title="Offsets by time">
      <${Table} caption="Offsets by time" columns=${timeColumns(topic, partition)} rows=${log.offsets_by_time} rowKey=${(row) => row.time_ms} firstSort="time_ms" empty="The messages have no times." />
    <//>
  </div>`;
}
