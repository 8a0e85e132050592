// Bulk loads into lakes: runs, positions of partitions, gaps, quarantine.

import { clusterPath } from "../api.js";
import { bytes, digits, number, span } from "../format.js";
import { html } from "../lib.js";
import { Empty, Failure, Loaded, Page, Panel, State, Text, Tile, Tiles, Time, TopicLink } from "../parts.js";
import { useResource } from "../resource.js";
import { Table } from "../table.js";

// A run that is in the table is done, whatever kind it is.
const kind = (run) => (run.ended_ms === null ? "info" : "ok");

const took = (row) => (row.ended_ms === null || row.started_ms === null ? null : row.ended_ms - row.started_ms);

const RUN_COLUMNS = [
  { key: "id", label: "Run", cell: (row) => html`<span class="name"><${Text} text=${String(row.id)} oneLine=${true} /></span>` },
  { key: "state", label: "Kind", cell: (row) => html`<${State} kind=${kind(row)}>${row.state}<//>` },
  { key: "started_ms", label: "Started", cell: (row) => html`<${Time} ms=${row.started_ms} />` },
  { key: "ended_ms", label: "Ended", cell: (row) => html`<${Time} ms=${row.ended_ms} />`, value: (row) => row.ended_ms ?? row.started_ms },
  { key: "took", label: "Took", number: true, cell: (row) => span(took(row)), value: took },
  { key: "rows", label: "Rows", number: true, cell: (row) => number(row.rows) },
  { key: "bytes", label: "Size", number: true, cell: (row) => bytes(row.bytes) },
  { key: "files", label: "Files", number: true, cell: (row) => number(row.files) },
];

const PARTITION_COLUMNS = [
  { key: "topic", label: "Topic", cell: (row) => html`<${TopicLink} name=${row.topic} />` },
  { key: "partition", label: "Partition", number: true },
  { key: "loaded_to", label: "Loaded to", number: true, cell: (row) => digits(row.loaded_to) },
  { key: "end", label: "End", number: true, cell: (row) => digits(row.end) },
  { key: "lag", label: "Lag", number: true, cell: (row) => number(row.lag) },
];

const GAP_COLUMNS = [
  { key: "topic", label: "Topic", cell: (row) => html`<${TopicLink} name=${row.topic} />` },
  { key: "partition", label: "Partition", number: true },
  { key: "from", label: "From offset", number: true, cell: (row) => digits(row.from) },
  { key: "to", label: "To offset", number: true, cell: (row) => digits(row.to) },
  { key: "reason", label: "Why", className: "wrap", cell: (row) => html`<${Text} text=${row.reason ?? "–"} oneLine=${true} />` },
];

export function Loads() {
  const found = useResource(clusterPath("loads"), {}, { live: true });
  return html`<${Page} title="Loads">
    <${Loaded} of=${found}>${(data) =>
      data.lakes.length
        ? html`<div class="stack">${data.lakes.map((lake, at) => html`<${Lake} key=${lake.path} lake=${lake} at=${at} />`)}</div>`
        : html`<${Panel} id="loads" title="Lakes"><${Empty}>The console has no lake. Name lakes at its start to see their loads here.<//><//>`}<//>
  <//>`;
}

function Lake({ lake, at }) {
  const lag = lake.partitions.length && lake.partitions.every((each) => each.lag !== null) ? lake.partitions.reduce((sum, each) => sum + each.lag, 0) : null;
  const aside = { ...(lake.quarantine ?? { rows: null, files: null }) };
  const [last] = lake.runs; // the newest comes first
  return html`<${Panel} id=${`lake-${at}`} title=${lake.path}>
    ${lake.error && html`<${Failure} error=${{ message: lake.error }} />`}
    <div class="stack">
      <${Tiles}>
        <${Tile} label="Last run" note=${last && html`<${Time} ms=${last.ended_ms ?? last.started_ms} />`}>${last ? html`<${State} kind=${kind(last)}>${last.state}<//>` : "–"}<//>
        <${Tile} label="Lag" note="messages not loaded">${number(lag)}<//>
        <${Tile} label="Gaps" kind=${lake.gaps.length ? "bad" : ""} note="ranges lost">${number(lake.gaps.length)}<//>
        <${Tile} label="Quarantine" kind=${aside.rows ? "warn" : ""} note=${`rows in ${number(aside.files)} files`}>${number(aside.rows)}<//>
      <//>
      <${Table} caption="Runs" columns=${RUN_COLUMNS} rows=${lake.runs} rowKey=${(row) => row.id} firstSort="-ended_ms" empty="No run has published anything yet." />
      <${Table} caption="Loaded partitions" columns=${PARTITION_COLUMNS} rows=${lake.partitions} rowKey=${(row) => `${row.topic} ${row.partition}`} firstSort="-lag" empty="Nothing is loaded yet." />
      ${lake.gaps.length > 0 && html`<${Table} caption="Gaps" columns=${GAP_COLUMNS} rows=${lake.gaps} rowKey=${(row) => `${row.topic} ${row.partition} ${row.from}`} firstSort="topic" />`}
    </div>
  <//>`;
}
