// Clients by the oldest request version that they use, for migrations.

import { clusterPath } from "../api.js";
import { count, number } from "../format.js";
import { html, useState } from "../lib.js";
import { Empty, Field, Loaded, Page, Panel, State, Text, Tile, Tiles, Time } from "../parts.js";
import { useResource } from "../resource.js";
import { Table } from "../table.js";

// Oldest versions first: those are what a migration looks for.
const apis = (row) => [...row.apis].sort((one, other) => one.api.localeCompare(other.api) || one.version - other.version);

const Apis = ({ row }) =>
  html`<ul class="apis">${apis(row).map((each) => html`<li key=${`${each.api} ${each.version}`} title=${`${count(each.count, "request")}; the version is of Kafka ${each.since}`}>${each.api} <b>v${each.version}</b></li>`)}</ul>`;

const requests = (row) => row.apis.reduce((sum, each) => sum + each.count, 0);

const COLUMNS = [
  { key: "client_id", label: "Client", cell: (row) => html`<span class="name"><${Text} text=${row.client_id || "(no id)"} oneLine=${true} /></span>` },
  { key: "host", label: "Host", cell: (row) => html`<span class="name">${row.host ?? "–"}</span>` },
  { key: "oldest", label: "Speaks", cell: (row) => html`<b>${row.oldest ?? "–"}</b>`, hint: "Kafka's release with the oldest request version that it used" },
  { key: "requests", label: "Requests", number: true, cell: (row) => number(requests(row)), value: requests },
  { key: "last_seen_ms", label: "Last seen", cell: (row) => html`<${Time} ms=${row.last_seen_ms} />` },
  { key: "apis", label: "Requests and versions", unsorted: true, className: "wrap", cell: (row) => html`<${Apis} row=${row} />` },
];

export function Clients() {
  const found = useResource(clusterPath("clients"), {}, { live: true });
  return html`<${Page} title="Clients"><${Loaded} of=${found}>${(data) => html`<${Body} data=${data} />`}<//><//>`;
}

function Body({ data }) {
  const [generation, setGeneration] = useState("");
  // Known from the second reading of a client on.
  const columns = COLUMNS.filter((each) => each.key !== "last_seen_ms" || data.clients.some((client) => client.last_seen_ms !== null));
  const rows = generation ? data.clients.filter((each) => each.oldest === generation) : data.clients;
  return html`<div class="stack">
    ${data.missing.length > 0 &&
    html`<p class="notice warning"><${State} kind="warning">Incomplete<//> ${data.missing.length === 1 ? "Broker" : "Brokers"} ${data.missing.join(", ")} did not answer: clients of ${data.missing.length === 1 ? "it" : "them"} may be missing.</p>`}
    <${Tiles}>
      ${data.by_generation.map((each) => html`<${Tile} key=${each.generation} label=${`Speak ${each.generation}`} note=${each.clients === 1 ? "client" : "clients"}>${number(each.clients)}<//>`)}
    <//>
    <${Panel} id="clients" title="Clients and their versions" aside=${html`<${Field} label="Speaks"><select value=${generation} onInput=${(event) => setGeneration(event.target.value)}>
        <option value="">any release</option>
        ${data.by_generation.map((each) => html`<option key=${each.generation} value=${each.generation}>${each.generation}</option>`)}
      </select><//>`}>
      ${data.sources.length
        ? html`<${Table} caption=${`Clients${generation ? ` that speak ${generation}` : ""}: ${number(rows.length)}`} columns=${columns} rows=${rows} rowKey=${(row) => `${row.client_id} ${row.host}`} firstSort="oldest" empty="No client has been seen since the brokers started." />`
        : html`<${Empty}>No broker reported its clients. Set admin.port on the brokers, so that the console can ask them.<//>`}
    <//>
  </div>`;
}
