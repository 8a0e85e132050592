// Reset the offsets of a group.

import { clusterPath } from "../api.js";
import { Action, show } from "../dialog.js";
import { html, useState } from "../lib.js";
import { Field } from "../parts.js";

const WAYS = [
  ["earliest", "The earliest message", null],
  ["latest", "The end: skip the present messages", null],
  ["time", "A time", "datetime-local"],
  ["back", "Back by a number of messages", "number"],
  ["forward", "Forward by a number of messages", "number"],
  ["offset", "An offset", "number"],
];

function target(form) {
  if (form.way === "earliest" || form.way === "latest") return form.way;
  if (!form.value) return null;
  if (form.way === "time") return `@${new Date(form.value).toISOString()}`;
  return { back: "-", forward: "+", offset: "" }[form.way] + String(Number(form.value));
}

function Reset({ group, close, done }) {
  const topics = [...new Set(group.offsets.map((each) => each.topic))].sort();
  const [form, setForm] = useState({ topic: topics.length === 1 ? topics[0] : "", partition: "", way: "earliest", value: "" });
  const set = (name) => (event) => setForm((was) => ({ ...was, [name]: event.target.value, ...(name === "way" ? { value: "" } : {}) }));
  const [, , kind] = WAYS.find(([way]) => way === form.way);
  const body = () => {
    const to = target(form);
    if (to === null) return "Give the time, the number of messages or the offset to go to.";
    if (form.partition !== "" && !form.topic) return "A partition needs its topic.";
    return { topic: form.topic || null, partition: form.partition === "" ? null : Number(form.partition), to };
  };
  const fields = html`
    <div class="fields">
      <${Field} label="Topic"><select value=${form.topic} onInput=${set("topic")}>
        <option value="">All topics of the group</option>
        ${topics.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select><//>
      <${Field} label="Partition" hint="Empty for all"><input type="number" min="0" value=${form.partition} onInput=${set("partition")} /><//>
    </div>
    <${Field} label="Go to" wide=${true}><select value=${form.way} onInput=${set("way")}>
      ${WAYS.map(([way, label]) => html`<option key=${way} value=${way}>${label}</option>`)}
    </select><//>
    ${kind && html`<${Field} label=${kind === "number" ? "Number" : "Time, in your zone"}><input type=${kind} min="0" step=${kind === "number" ? 1 : "any"} value=${form.value} onInput=${set("value")} required /><//>`}`;
  const path = () => `${clusterPath("groups", group.kind, group.name)}/reset`;
  return html`<${Action} path=${path} body=${body} fields=${fields} verb="Reset the offsets" danger=${true} close=${close}
    said=${() => `Offsets of ${group.name} were reset.`} done=${done} />`;
}

export const resetOffsets = (group, done) =>
  show(`Reset offsets of ${group.name}`, (close) => html`<${Reset} group=${group} done=${done} close=${close} />`);
