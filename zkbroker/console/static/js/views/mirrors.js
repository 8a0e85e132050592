// Mirrors into and out of the cluster.

import { clusterPath } from "../api.js";
import { digits, number } from "../format.js";
import { html } from "../lib.js";
import { Empty, Loaded, Page, Panel, State, Text, Time, TopicLink } from "../parts.js";
import { useResource } from "../resource.js";
import { Table } from "../table.js";

const STATES = { moving: "ok", "caught up": "ok", silent: "warning" };

const Topics = ({ topics }) =>
  Array.isArray(topics) ? html`<span>${topics.map((name, at) => html`${at > 0 && ", "}<${TopicLink} name=${name} />`)}</span>` : html`<span>${topics ?? "–"}</span>`;

const COLUMNS = [
  { key: "name", label: "Mirror", cell: (row) => html`<span class="name"><${Text} text=${row.name} oneLine=${true} /></span>` },
  { key: "state", label: "State", cell: (row) => html`<${State} kind=${STATES[row.state] ?? "info"}>${row.state}<//>` },
  { key: "source", label: "From", cell: (row) => html`<span class="name">${row.source ?? "–"}</span>` },
  { key: "target", label: "To", cell: (row) => html`<span class="name">${row.target ?? "–"}</span>` },
  { key: "topics", label: "Topics", unsorted: true, className: "wrap", cell: (row) => html`<${Topics} topics=${row.topics} />` },
  { key: "lag", label: "Lag", number: true, cell: (row) => number(row.lag), hint: "Messages" },
  { key: "last_ms", label: "Last copied", cell: (row) => html`<${Time} ms=${row.last_ms} />` },
  {
    key: "errors",
    label: "Errors",
    className: "wrap",
    cell: (row) => (row.errors.length ? row.errors.map((each) => html`<div><${State} kind="error"><${Text} text=${each} oneLine=${true} /><//></div>`) : "none"),
    value: (row) => row.errors.length,
  },
];

const PARTITION_COLUMNS = [
  { key: "topic", label: "Topic", cell: (row) => html`<span class="name"><${Text} text=${row.topic} oneLine=${true} /></span>` },
  { key: "partition", label: "Partition", number: true },
  { key: "offset", label: "Copied to", number: true, cell: (row) => digits(row.offset), hint: "The source's next offset to copy" },
  { key: "end", label: "End", number: true, cell: (row) => digits(row.end), hint: "In the source" },
  { key: "lag", label: "Lag", number: true, cell: (row) => number(row.lag), hint: "Messages" },
];

const Partitions = ({ mirror, at }) =>
  html`<${Panel} id=${`mirror-${at}`} title=${html`Partitions of <bdi><${Text} text=${mirror.name} oneLine=${true} /></bdi>`}>
    <${Table} caption=${`Partitions of ${mirror.name}`} columns=${PARTITION_COLUMNS} rows=${mirror.partitions} rowKey=${(row) => `${row.topic} ${row.partition}`} firstSort="-lag" empty="Nothing has been copied yet." />
    ${mirror.lag === null && html`<${Empty}>The lag is known if the source is also a cluster of this console, under the mirror’s name for it.<//>`}
  <//>`;

export function Mirrors() {
  const found = useResource(clusterPath("mirrors"), {}, { live: true });
  return html`<${Page} title="Mirrors">
    <${Loaded} of=${found}>${(data) => html`<div class="stack"><${Panel} id="mirrors" title="Mirrors">
      <${Table} caption="Mirrors" columns=${COLUMNS} rows=${data.mirrors} rowKey=${(row) => row.name} firstSort="name" empty="No mirror copies from or to this cluster. Start one with zkbroker mirror." />
    <//>
    ${data.mirrors.map((each, at) => html`<${Partitions} key=${each.name} mirror=${each} at=${at} />`)}</div>`}<//>
  <//>`;
}
