// Mirrors into and out of the cluster.

import { clusterPath } from "../api.js";
import { number } from "../format.js";
import { html } from "../lib.js";
import { Loaded, Page, Panel, State, Text, Time, TopicLink } from "../parts.js";
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

export function Mirrors() {
  const found = useResource(clusterPath("mirrors"), {}, { live: true });
  return html`<${Page} title="Mirrors">
    <${Loaded} of=${found}>${(data) => html`<${Panel} id="mirrors" title="Mirrors">
      <${Table} caption="Mirrors" columns=${COLUMNS} rows=${data.mirrors} rowKey=${(row) => row.name} firstSort="name" empty="No mirror copies from or to this cluster. Start one with zkbroker mirror." />
    <//>`}<//>
  <//>`;
}
