// Settings of the brokers with the source of each value; secrets come without their value.

import { clusterPath } from "../api.js";
import { bytes, span } from "../format.js";
import { html, useState } from "../lib.js";
import { Empty, Failure, Field, Loaded, Page, Panel, Text } from "../parts.js";
import { useResource } from "../resource.js";
import { Search, Table } from "../table.js";

// A number of milliseconds or bytes as text; small ones and "no limit" need none.
function inWords({ name, value }) {
  if (!/^\d{4,15}$/.test(value ?? "")) return null;
  if (/(\.|^)ms$/.test(name)) return span(Number(value));
  return /(\.|^)bytes$/.test(name) ? bytes(Number(value)) : null;
}

const isDefault = (row) => row.default ?? /default/i.test(row.source ?? "");

const COLUMNS = [
  { key: "name", label: "Setting", cell: (row) => html`<span class="name">${row.name}</span>` },
  {
    key: "value",
    label: "Value",
    className: "wrap",
    cell: (row) => {
      if (row.sensitive) return html`<span class="muted">hidden</span>`;
      if (row.value === null || row.value === "") return html`<span class="muted">none</span>`;
      const value = html`<${Text} text=${String(row.value)} oneLine=${true} />`;
      const words = inWords(row);
      return html`<span class="name">${isDefault(row) ? value : html`<b>${value}</b>`}</span>${words && html` <span class="muted">${words}</span>`}`;
    },
  },
  { key: "source", label: "Source", cell: (row) => (row.source ?? "–").toLowerCase().replaceAll("_", " ") },
];

const READ_ONLY = { key: "read_only", label: "Change", cell: (row) => (row.read_only ? "at a restart" : "while it runs"), value: (row) => (row.read_only ? 1 : 0) };

export function SettingsTable({ caption, settings, changeable = false }) {
  const [search, setSearch] = useState("");
  const [own, setOwn] = useState(false);
  const rows = settings.filter((row) => row.name.includes(search.trim()) && !(own && isDefault(row)));
  return html`<div>
    <div class="bar">
      <${Search} label="Search settings" value=${search} onSearch=${setSearch} />
      <label class="check"><input type="checkbox" checked=${own} onInput=${(event) => setOwn(event.target.checked)} /> Only those that differ from the default</label>
    </div>
    <${Table} caption=${`${caption}: ${rows.length}`} columns=${changeable ? [...COLUMNS, READ_ONLY] : COLUMNS} rows=${rows} rowKey=${(row) => row.name} firstSort="name" empty="No setting matches." />
  </div>`;
}

// Shown in place of an empty table.
function settingsOf(settings) {
  if (settings === null) return html`<${Empty}>This broker is too old to describe its settings.<//>`;
  return settings.error ? html`<${Failure} error=${{ message: settings.error }} />` : null;
}

export function Settings() {
  const found = useResource(clusterPath("settings"));
  return html`<${Page} title="Settings"><${Loaded} of=${found}>${(data) => html`<${Body} brokers=${data.brokers} />`}<//><//>`;
}

function Body({ brokers }) {
  const ids = Object.keys(brokers).sort((one, other) => one - other);
  const [chosen, setChosen] = useState(null);
  const id = chosen in brokers ? chosen : ids[0];
  if (id === undefined) return html`<p class="empty">No broker answered with its settings.</p>`;
  const choice = html`<${Field} label="Broker"><select value=${id} onInput=${(event) => setChosen(event.target.value)}>
    ${ids.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
  </select><//>`;
  return html`<${Panel} id="broker-settings" title=${`Broker ${id}`} aside=${choice}>
    ${settingsOf(brokers[id]) ?? html`<${SettingsTable} key=${id} caption=${`Settings of broker ${id}`} settings=${brokers[id]} changeable=${true} />`}
  <//>`;
}
