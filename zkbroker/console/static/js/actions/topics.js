// Create, alter and delete a topic; elect its preferred leaders; move its replicas.

import { clusterPath } from "../api.js";
import { Action, show } from "../dialog.js";
import { html, useState } from "../lib.js";
import { Field } from "../parts.js";
import { address, go } from "../router.js";

const topicPath = (topic, action) => `${clusterPath("topics")}/${encodeURIComponent(topic)}/${action}`;

// Lines of "name=value"; for any other line, a sentence with the mistake. "name=" removes the topic's own value.
export function parseSettings(text, { removable = false } = {}) {
  const settings = {};
  for (const line of text.split("\n").map((each) => each.trim())) {
    if (!line) continue;
    const at = line.indexOf("=");
    if (at < 1) return `Write each setting as name=value on a line of its own: "${line}" is not.`;
    const value = line.slice(at + 1).trim();
    if (!value && !removable) return `The setting ${line.slice(0, at)} has no value: leave the line out for the default.`;
    settings[line.slice(0, at).trim()] = value || null;
  }
  return settings;
}

// Numbers out of "1, 2 3"; null if something is not a number.
export function parseNumbers(text) {
  const parts = text.split(/[\s,]+/).filter(Boolean);
  return parts.every((part) => /^\d+$/.test(part)) ? parts.map(Number) : null;
}

function useForm(first) {
  const [form, setForm] = useState(first);
  const bind = (name) => ({
    value: form[name],
    onInput: (event) => setForm((was) => ({ ...was, [name]: event.target.value })),
  });
  return [form, bind];
}

function Create({ close, brokers, done }) {
  const [form, bind] = useForm({ name: "", partitions: "1", replication: String(Math.min(3, brokers || 1)), settings: "" });
  const body = () => {
    const settings = parseSettings(form.settings);
    if (typeof settings === "string") return settings;
    return { name: form.name.trim(), partitions: Number(form.partitions), replication: Number(form.replication), settings };
  };
  const fields = html`
    <${Field} label="Name" wide=${true}><input ...${bind("name")} required pattern="[a-zA-Z0-9._\\-]{1,249}" title="Letters, digits, dots, underscores and hyphens; at most 249" autocomplete="off" spellcheck=${false} /><//>
    <div class="fields">
      <${Field} label="Partitions"><input type="number" min="1" max="100000" ...${bind("partitions")} required /><//>
      <${Field} label="Replicas of each"><input type="number" min="1" max="100" ...${bind("replication")} required /><//>
    </div>
    <${Field} label="Settings" hint="One name=value a line, such as retention.ms=86400000" wide=${true}><textarea rows="3" spellcheck=${false} ...${bind("settings")}></textarea><//>`;
  return html`<${Action} path=${() => clusterPath("topics")} body=${body} fields=${fields} verb="Create the topic" close=${close}
    said=${(sent) => `Topic ${sent.name} was created.`} done=${(sent) => (done?.(), go(address(["topics", sent.name])))} />`;
}

function Alter({ topic, close, done }) {
  const [form, bind] = useForm({ partitions: "", settings: "" });
  const body = () => {
    const settings = parseSettings(form.settings, { removable: true });
    if (typeof settings === "string") return settings;
    const sent = {};
    if (form.partitions) sent.partitions = Number(form.partitions);
    if (Object.keys(settings).length) sent.settings = settings;
    return Object.keys(sent).length ? sent : "There is nothing to change: give more partitions, or a setting.";
  };
  const fields = html`
    <${Field} label="Partitions" hint=${`It has ${topic.partitions.length}. Partitions can be added, but not removed.`}>
      <input type="number" min=${topic.partitions.length + 1} max="100000" ...${bind("partitions")} />
    <//>
    <${Field} label="Settings" hint="One name=value a line; name= alone goes back to the default" wide=${true}>
      <textarea rows="4" spellcheck=${false} ...${bind("settings")}></textarea>
    <//>`;
  return html`<${Action} path=${() => topicPath(topic.name, "alter")} body=${body} fields=${fields} verb="Change the topic" close=${close}
    said=${() => `Topic ${topic.name} was changed.`} done=${done} />`;
}

function Elect({ topic, close, done }) {
  const [form, bind] = useForm({ partitions: "" });
  const body = () => {
    const partitions = form.partitions.trim() ? parseNumbers(form.partitions) : topic.partitions.map((each) => each.id);
    return partitions ? { partitions } : "Give partitions as numbers, such as 0, 2, 5.";
  };
  const fields = html`<p>The first replica in sync of each partition's list becomes its leader again.</p>
    <${Field} label="Partitions" hint="Such as 0, 2, 5; empty for all" wide=${true}><input inputmode="numeric" ...${bind("partitions")} autocomplete="off" /><//>`;
  return html`<${Action} path=${() => topicPath(topic.name, "elect")} body=${body} fields=${fields} verb="Elect preferred leaders" close=${close}
    said=${() => `Leaders of ${topic.name} were elected.`} done=${done} />`;
}

function Reassign({ topic, brokers, close, done }) {
  const [form, bind] = useForm({ way: "brokers", brokers: brokers.join(", "), assignment: "", throttle: "" });
  const body = () => {
    const moves = replicas();
    return typeof moves !== "string" && form.throttle ? { ...moves, throttle: Number(form.throttle) } : moves;
  };
  const replicas = () => {
    if (form.way === "brokers") {
      const chosen = parseNumbers(form.brokers);
      return chosen?.length ? { brokers: chosen } : "Give the ids of brokers, such as 1, 2, 3.";
    }
    const assignment = {};
    for (const line of form.assignment.split("\n").filter((each) => each.trim())) {
      const [partition, replicas = ""] = line.split(":");
      const chosen = parseNumbers(replicas);
      if (!/^\s*\d+\s*$/.test(partition) || !chosen?.length) return `Write "partition: replicas" on each line, such as 0: 1, 2. "${line}" is not.`;
      assignment[Number(partition)] = chosen;
    }
    return Object.keys(assignment).length ? { assignment } : "Give at least one partition and its replicas.";
  };
  const example = topic.partitions.slice(0, 3).map((each) => `${each.id}: ${each.replicas.join(", ")}`).join("\n");
  const fields = html`
    <${Field} label="Way"><select ...${bind("way")}><option value="brokers">Spread over brokers</option><option value="assignment">Replicas of each partition</option></select><//>
    ${form.way === "brokers"
      ? html`<${Field} label="Brokers" hint="The partitions are spread evenly over these brokers" wide=${true}><input ...${bind("brokers")} autocomplete="off" /><//>`
      : html`<${Field} label="Assignment" hint="One partition a line; the first replica is the preferred leader" wide=${true}>
          <textarea rows="5" placeholder=${example} spellcheck=${false} ...${bind("assignment")}></textarea><//>`}
    <${Field} label="Limit" hint="Bytes a second that each broker copies at most; empty for none"><input type="number" min="1" ...${bind("throttle")} /><//>`;
  return html`<${Action} path=${() => topicPath(topic.name, "reassign")} body=${body} fields=${fields} verb="Move the replicas" close=${close}
    said=${() => `Replicas of ${topic.name} are moving.`} done=${done} />`;
}

const RemoveThrottle = ({ topic, close, done }) =>
  html`<${Action} path=${() => topicPath(topic.name, "remove-throttle")} body=${() => ({})} verb="Remove the limit" close=${close}
    said=${() => `Copies of ${topic.name} are no longer limited.`} done=${done} />`;

const Delete = ({ topic, close }) =>
  html`<${Action} path=${() => topicPath(topic.name, "delete")} body=${() => ({})} verb="Delete the topic" danger=${true} close=${close}
    said=${() => `Topic ${topic.name} was deleted.`} done=${() => go(address(["topics"]))} />`;

export const createTopic = (brokers, done) =>
  show("Create a topic", (close) => html`<${Create} brokers=${brokers} done=${done} close=${close} />`);
export const alterTopic = (topic, done) =>
  show(`Change ${topic.name}`, (close) => html`<${Alter} topic=${topic} done=${done} close=${close} />`);
export const electLeaders = (topic, done) =>
  show(`Elect leaders of ${topic.name}`, (close) => html`<${Elect} topic=${topic} done=${done} close=${close} />`);
export const reassignTopic = (topic, brokers, done) =>
  show(`Move replicas of ${topic.name}`, (close) => html`<${Reassign} topic=${topic} brokers=${brokers} done=${done} close=${close} />`);
export const removeThrottle = (topic, done) =>
  show(`Remove the limit of ${topic.name}`, (close) => html`<${RemoveThrottle} topic=${topic} done=${done} close=${close} />`);
export const deleteTopic = (topic) =>
  show(`Delete ${topic.name}`, (close) => html`<${Delete} topic=${topic} close=${close} />`);
