// One group: lag over time, its members and what each owns, its offsets.

import { resetOffsets } from "../actions/groups.js";
import { clusterPath, isOperator, otherGeneration, partitionName } from "../api.js";
import { Chart } from "../chart.js";
import { bytes, digits, number } from "../format.js";
import { html } from "../lib.js";
import { Loaded, Page, Panel, Text, Tile, Tiles, TopicLink } from "../parts.js";
import { useResource } from "../resource.js";
import { Table } from "../table.js";
import { GroupState, keptBy, lagText } from "./groups.js";

const MOST_OWNED = 6;

const label = ({ topic, partition }) => `${topic}-${partitionName(partition)}`;

function Owned({ owns }) {
  if (!owns.length) return html`<span class="muted">nothing</span>`;
  const shown = owns.slice(0, MOST_OWNED).map(label).join(", ");
  const rest = owns.length - MOST_OWNED;
  return html`<span class="name" title=${owns.slice(0, 200).map(label).join(", ")}>${shown}${rest > 0 && ` and ${rest} more`}</span>`;
}

const MEMBER_COLUMNS = [
  { key: "id", label: "Member", cell: (row) => html`<span class="name"><${Text} text=${row.id ?? "–"} oneLine=${true} /></span>` },
  { key: "client_id", label: "Client", cell: (row) => html`<${Text} text=${row.client_id ?? "–"} oneLine=${true} />` },
  { key: "host", label: "Host", cell: (row) => html`<span class="name">${row.host ?? "–"}</span>` },
  { key: "owned", label: "Partitions", number: true, cell: (row) => row.owns.length, value: (row) => row.owns.length },
  { key: "owns", label: "Owns", unsorted: true, className: "wrap", cell: (row) => html`<${Owned} owns=${row.owns} />` },
];

const OFFSET_COLUMNS = [
  { key: "topic", label: "Topic", cell: (row) => html`<${TopicLink} name=${row.topic} />` },
  { key: "partition", label: "Partition", number: true, cell: (row) => partitionName(row.partition) },
  { key: "offset", label: "Committed", number: true, cell: (row) => digits(row.offset) },
  { key: "end", label: "End", number: true, cell: (row) => digits(row.end) },
  { key: "lag", label: "Lag", number: true, cell: (row) => lagText(row.lag) },
  { key: "owner", label: "Owner", cell: (row) => (row.owner ? html`<span class="name"><${Text} text=${row.owner} oneLine=${true} /></span>` : "–") },
  { key: "metadata", label: "Metadata", cell: (row) => (row.metadata ? html`<${Text} text=${row.metadata} oneLine=${true} />` : "–") },
];

export function Group({ kind, name }) {
  const found = useResource(clusterPath("groups", kind, name), {}, { live: true });
  const aside = isOperator() && found.data && html`<div class="actions"><button type="button" onClick=${() => resetOffsets(found.data, found.reload)}>Reset offsets</button></div>`;
  return html`<${Page} title=${name} crumbs=${[["Groups", ["groups"]]]} aside=${aside}>
    <${Loaded} of=${found}>${(group) => html`<${Body} group=${group} kind=${kind} name=${name} />`}<//>
  <//>`;
}

function Body({ group, kind, name }) {
  return html`<div class="stack">
    <${Tiles}>
      <${Tile} label="State"><${GroupState} state=${group.state} /><//>
      <${Tile} label="Lag" note=${otherGeneration() ? null : "messages"}>${lagText(group.lag)}<//>
      <${Tile} label="Members">${number(group.members.length)}<//>
      <${Tile} label="Kept by" note=${group.coordinator === null || group.coordinator === undefined ? null : `broker ${group.coordinator}`}>${keptBy({ kind })}<//>
    <//>
    <${Panel} id="lag" title="Lag over time">
      <div class="charts"><${Chart} title="Lag" lines=${[{ name: `group.${kind}.${name}.lag`, label: otherGeneration() ? "bytes" : "messages" }]} format=${otherGeneration() ? bytes : number} /></div>
    <//>
    <${Panel} id="members" title="Members">
      <${Table} caption=${`Members of ${name}`} columns=${MEMBER_COLUMNS} rows=${group.members} rowKey=${(row) => row.id} firstSort="id" empty="The group has no member now." />
    <//>
    <${Panel} id="offsets" title="Offsets">
      <${Table} caption=${`Offsets of ${name}`} columns=${OFFSET_COLUMNS} rows=${group.offsets} rowKey=${(row) => `${row.topic} ${row.partition}`} firstSort="-lag" empty="The group has committed nothing yet." />
    <//>
  </div>`;
}
