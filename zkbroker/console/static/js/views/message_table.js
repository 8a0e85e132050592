// Messages as rows; one opens to its whole key, value and headers.

import { apiUrl, clusterPath, partitionName } from "../api.js";
import { bytes, count, digits, number } from "../format.js";
import { html, useState } from "../lib.js";
import { State, Text, Time } from "../parts.js";
import { hexLines, indentJson } from "../text.js";

const PREVIEW = 160;

const STATES = {
  aborted: ["warning", "aborted"],
  control: ["info", "control"],
  open: ["idle", "open transaction"],
  corrupt: ["error", "corrupt"],
};

// The text of a value in one line; bytes that are no text as hex.
function Preview({ value, length = PREVIEW }) {
  if (value === null) return html`<span class="muted">null</span>`;
  if (value.bytes === 0) return html`<span class="muted">empty</span>`;
  const isText = value.text !== null;
  const whole = isText ? value.text : value.hex;
  const cut = whole.length > length || value.shown < value.bytes;
  return html`<bdi class="preview">${!isText && html`<span class="muted">0x</span>`}<${Text} text=${whole.slice(0, length)} oneLine=${true} />${cut && html`<span class="muted">…</span>`}</bdi>`;
}

const TIMES = { create: "the producer", append: "the broker" };
const identity = (message) => `${message.partition}:${message.offset}:${message.inside}`;
const COLUMNS = 7;

export function MessageTable({ topic, messages, caption }) {
  const [opened, setOpened] = useState(new Set());
  const toggle = (id) =>
    setOpened((was) => {
      const now = new Set(was);
      if (!now.delete(id)) now.add(id);
      return now;
    });
  return html`<div class="table-box" tabindex="0" role="region" aria-label=${caption}>
    <table class="messages">
      <caption>${caption}</caption>
      <thead>
        <tr>
          <th scope="col" class="number">Offset</th>
          <th scope="col" class="number">Partition</th>
          <th scope="col">Time</th>
          <th scope="col">State</th>
          <th scope="col">Key</th>
          <th scope="col">Value</th>
          <th scope="col" class="number">Size</th>
        </tr>
      </thead>
      ${messages.map((message) => {
        const id = identity(message);
        return html`<${Message} key=${id} topic=${topic} message=${message} open=${opened.has(id)} toggle=${() => toggle(id)} />`;
      })}
    </table>
  </div>`;
}

function Message({ topic, message, open, toggle }) {
  const [kind, words] = STATES[message.state] ?? ["ok", message.state];
  return html`<tbody class=${`message ${message.state}`}>
    <tr>
      <th scope="row" class="number">
        <button type="button" class="toggle" aria-expanded=${open} onClick=${toggle}>
          <span class="arrow" aria-hidden="true">${open ? "▾" : "▸"}</span>${digits(message.offset)}${message.inside > 0 && html`<span class="muted" title="In a compressed set at this position">+${message.inside}</span>`}
        </button>
      </th>
      <td class="number partition">${partitionName(message.partition)}</td>
      <td><${Time} ms=${message.time_ms} milliseconds=${true} /></td>
      <td class=${message.state === "committed" ? "plain-state" : ""}>${message.state === "committed" ? html`<span class="muted">committed</span>` : html`<${State} kind=${kind}>${words}<//>`}</td>
      <td class="preview-cell key-cell"><${Preview} value=${message.key} length=${40} /></td>
      <td class="preview-cell value-cell"><${Preview} value=${message.value} /></td>
      <td class="number size">${bytes(message.bytes)}</td>
    </tr>
    ${open && html`<tr class="detail"><td colspan=${COLUMNS}><${Detail} topic=${topic} message=${message} /></td></tr>`}
  </tbody>`;
}

const Detail = ({ topic, message }) =>
  html`<div class="message-detail">
    <dl class="facts">
      <div><dt>Message format</dt><dd>v${message.format}</dd></div>
      <div><dt>Compression</dt><dd>${message.compression || "none"}</dd></div>
      <div><dt>Time given by</dt><dd>${TIMES[message.time_type] ?? "–"}</dd></div>
      <div><dt>Headers</dt><dd>${number(message.headers.length + (message.headers_left_out ?? 0))}</dd></div>
    </dl>
    ${message.error && html`<p class="notice error"><${State} kind="error">Corrupt<//> <span><${Text} text=${message.error} oneLine=${true} /></span></p>`}
    <${Value} label="Key" value=${message.key} href=${download(topic, message, "key")} />
    <${Value} label="Value" value=${message.value} href=${download(topic, message, "value")} />
    ${message.headers.length > 0 && html`<${Headers} headers=${message.headers} left=${message.headers_left_out ?? 0} />`}
  </div>`;

const download = (topic, { partition, offset, inside }, part) =>
  apiUrl(clusterPath("messages", "value"), { topic, partition: String(partition), offset: String(offset), inside: String(inside || ""), part });

// 10 MB are shown by their first 64 KiB, and downloaded whole.
function Value({ label, value, href }) {
  const [chosen, setChosen] = useState(null);
  if (value === null) return html`<section class="value"><h3>${label}</h3><p class="muted">null</p></section>`;
  const ways = [value.text !== null && "text", isJson(value) && "JSON", "hex"].filter(Boolean);
  const way = ways.includes(chosen) ? chosen : ways.includes("JSON") ? "JSON" : ways[0];
  const text = { text: value.text, JSON: value.text, hex: null }[way];
  return html`<section class="value">
    <header>
      <h3>${label}</h3>
      <div class="choice" role="group" aria-label=${`${label} as`}>
        ${ways.map((each) => html`<button key=${each} type="button" aria-pressed=${way === each} onClick=${() => setChosen(each)}>${each}</button>`)}
      </div>
      <span class="muted">${value.shown < value.bytes ? `the first ${bytes(value.shown)} of ${bytes(value.bytes)}` : bytes(value.bytes)}</span>
      <a href=${href} download>Download</a>
    </header>
    <pre tabindex="0" role="region" aria-label=${`${label} as ${way}`} dir=${way === "hex" ? "ltr" : "auto"}>${way === "hex" ? hexLines(value.hex) : html`<${Text} text=${way === "JSON" ? indentJson(text) : text} />`}</pre>
  </section>`;
}

// Only objects and arrays get this form; a cut value is not whole JSON.
const isJson = (value) => value.json !== null && typeof value.json === "object" && value.text !== null && value.shown === value.bytes;

const Headers = ({ headers, left }) =>
  html`<section class="value">
    <h3>${left ? `The first ${count(headers.length, "header")} of ${number(headers.length + left)}` : count(headers.length, "header")}</h3>
    <table class="headers">
      <caption class="spoken">Headers</caption>
      <thead><tr><th scope="col">Name</th><th scope="col">Value</th></tr></thead>
      <tbody>${headers.map((header, at) => html`<tr key=${at}><th scope="row"><bdi><${Text} text=${header.key} oneLine=${true} /></bdi></th><td><${Preview} value=${header.value} length=${2000} /></td></tr>`)}</tbody>
    </table>
  </section>`;
