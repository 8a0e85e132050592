// Messages of a topic: from an offset or a time, by key or content, or as they arrive.

import { apiUrl, clusterPath, get, otherGeneration } from "../api.js";
import { count, number } from "../format.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { Empty, Failure, Field, Page, Panel, State } from "../parts.js";
import { useResource } from "../resource.js";
import { address, go, route } from "../router.js";
import { useStore } from "../store.js";
import { MessageTable } from "./message_table.js";

// Most partitions that are read side by side.
const MOST_ON = 12;
const LIMITS = [20, 50, 100, 200];
const WAYS = [
  ["newest", "The newest"],
  ["earliest", "The earliest"],
  ["offset", "From an offset"],
  ["time", "From a time"],
];

// The form's value for the address's `from`.
function wayOf(from) {
  if (from === "earliest") return { way: "earliest", at: "" };
  if (/^\d+$/.test(from)) return { way: "offset", at: from };
  if (from.startsWith("@")) return { way: "time", at: localInput(from.slice(1)) };
  return { way: otherGeneration() ? "earliest" : "newest", at: "" };
}

// A time as <input type=datetime-local> has it: in the reader's zone, without one.
function localInput(iso) {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

// Where a message of another generation begins is known from the start of its log on.
const waysOf = () => (otherGeneration() ? WAYS.filter(([way]) => way !== "newest") : WAYS);
const firstFrom = (limit) => (otherGeneration() ? "earliest" : `-${limit}`);

function fromOf({ way, at, limit }) {
  if (way === "earliest") return "earliest";
  if (way === "offset" && at !== "") return String(Number(at));
  if (way === "time" && at) return `@${new Date(at).toISOString()}`;
  return firstFrom(limit);
}

export function Messages() {
  const { query } = useStore(route);
  const asked = Object.fromEntries(["topic", "partition", "from", "limit", "key", "contains"].map((name) => [name, query.get(name) ?? ""]));
  const tailing = query.get("tail") === "1";
  const limit = Number(asked.limit) || 50;
  return html`<${Page} title="Messages">
    <${Form} key=${query.toString()} asked=${asked} limit=${limit} tailing=${tailing} />
    ${!asked.topic && html`<${Empty}>Name a topic to see its messages.<//>`}
    ${asked.topic && (tailing ? html`<${Tail} key=${`${asked.topic} ${asked.partition}`} asked=${asked} />` : html`<${Found} key=${query.toString()} asked=${asked} limit=${limit} />`)}
  <//>`;
}

function Form({ asked, limit, tailing }) {
  const [form, setForm] = useState({ ...asked, limit, ...wayOf(asked.from) });
  const set = (name) => (event) => setForm((was) => ({ ...was, [name]: event.target.value, ...(name === "way" ? { at: "" } : {}) }));
  const leave = (more) => {
    const { topic, partition, key, contains } = form;
    go(address(["messages"], { topic: topic.trim(), partition, from: fromOf(form), limit: form.limit, key, contains, ...more }), { focus: false });
  };
  const submit = (event) => {
    event.preventDefault();
    leave({});
  };
  const kind = { offset: "number", time: "datetime-local" }[form.way];
  return html`<form class="bar search-form" role="search" aria-label="Messages" onSubmit=${submit}>
    <${Field} label="Topic"><${TopicInput} value=${form.topic} onInput=${set("topic")} /><//>
    <${Field} label="Partition"><input type=${otherGeneration() ? "text" : "number"} min="0" placeholder="all" class="short" value=${form.partition} onInput=${set("partition")} /><//>
    <${Field} label="Read"><select value=${form.way} onInput=${set("way")}>${waysOf().map(([way, label]) => html`<option key=${way} value=${way}>${label}</option>`)}</select><//>
    ${kind && html`<${Field} label=${form.way === "offset" ? "Offset" : "Time, in your zone"}><input type=${kind} min="0" step=${form.way === "offset" ? "1" : "any"} value=${form.at} onInput=${set("at")} required /><//>`}
    ${!otherGeneration() && html`<${Field} label="Key is"><input value=${form.key} onInput=${set("key")} autocomplete="off" spellcheck=${false} /><//>`}
    <${Field} label="Contains"><input value=${form.contains} onInput=${set("contains")} autocomplete="off" spellcheck=${false} /><//>
    <${Field} label="At most"><select value=${form.limit} onInput=${set("limit")}>${LIMITS.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select><//>
    <div class="actions">
      <button type="submit" class="primary">Read</button>
      ${!otherGeneration() && html`<button type="button" aria-pressed=${tailing} disabled=${!form.topic.trim()} onClick=${() => leave({ tail: tailing ? "" : "1" })}>${tailing ? "Stop the tail" : "Live tail"}</button>`}
    </div>
  </form>`;
}

// The server suggests names while the user types: there may be thousands.
function TopicInput({ value, onInput }) {
  const [names, setNames] = useState([]);
  useEffect(() => {
    const control = new AbortController();
    const timer = setTimeout(() => {
      get(clusterPath("topics"), { search: value.trim(), limit: 20, sort: "name" }, control.signal).then(
        (answer) => setNames(answer.topics.map((each) => each.name)),
        () => {}, // suggestions are optional: the form works without them
      );
    }, 200);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [value]);
  return html`<input class="search" type="text" list="topic-names" value=${value} onInput=${onInput} required autocomplete="off" spellcheck=${false} />
    <datalist id="topic-names">${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`;
}

function Found({ asked, limit }) {
  const query = { ...asked, limit, from: asked.from || firstFrom(limit) };
  const first = useResource(clusterPath("messages"), query);
  const [more, setMore] = useState({ page: null, busy: false, error: null });
  const found = more.page ?? first.data;
  if (first.error && !found) return html`<${Failure} error=${first.error} retry=${first.reload} />`;
  if (!found) return html`<p class="empty" role="status">Reading…</p>`;
  const next = Object.entries(found.next ?? {});
  const readOn = async () => {
    setMore((was) => ({ ...was, busy: true, error: null }));
    try {
      const page = await after(query, next, limit);
      setMore({ page, busy: false, error: null });
    } catch (error) {
      setMore((was) => ({ ...was, busy: false, error }));
    }
  };
  // The newest messages are on top.
  const newest = query.from.startsWith("-");
  const messages = newest ? [...found.messages].reverse() : found.messages;
  return html`<${Panel} id="found" title="Messages" aside=${html`<span class="muted">${count(found.scanned, "message")} looked at</span>`}>
    ${messages.length ? html`<${MessageTable} topic=${asked.topic} messages=${messages} caption=${`Messages of ${asked.topic}: ${number(messages.length)}${newest ? ", the newest first" : ""}`} />` : html`<${Empty}>${asked.key || asked.contains ? "None of the messages read so far matches." : "There is no message here."}<//>`}
    ${more.error && html`<${Failure} error=${more.error} retry=${readOn} />`}
    <div class="pager">
      ${more.page && html`<button type="button" onClick=${() => setMore({ page: null, busy: false, error: null })}>Back to the first</button>`}
      ${found.ended && html`<span class="muted">This is the end of the log.</span>`}
      ${!found.ended && next.length > MOST_ON && html`<span class="muted">Name one partition to go on in: there are ${next.length}.</span>`}
      ${!found.ended && next.length > 0 && next.length <= MOST_ON && html`<button type="button" disabled=${more.busy} onClick=${readOn}>${more.busy ? "Reading…" : newest ? "Read newer ones" : "Read on"}</button>`}
    </div>
  <//>`;
}

// The next messages of each partition, in order of time; a share of the limit from each.
async function after(query, next, limit) {
  const share = Math.ceil(limit / next.length);
  const pages = await Promise.all(
    next.map(([partition, from]) => get(clusterPath("messages"), { ...query, partition, from, limit: share })),
  );
  const messages = pages.flatMap((each) => each.messages);
  messages.sort((one, other) => one.time_ms - other.time_ms || one.partition - other.partition || one.offset - other.offset);
  return {
    messages,
    next: Object.assign({}, ...pages.map((each) => each.next)),
    scanned: pages.reduce((sum, each) => sum + each.scanned, 0),
    ended: pages.every((each) => each.ended),
  };
}

const KEPT = 200;
const DRAW_EVERY_MS = 250;

// Messages as they arrive: the newest on top, at most KEPT of them, drawn four times a second.
function Tail({ asked }) {
  const [shown, setShown] = useState({ messages: [], seen: 0, skipped: 0 });
  const [link, setLink] = useState("connecting");
  const [trouble, setTrouble] = useState(null);
  const [paused, setPaused] = useState(false);
  const [attempt, setAttempt] = useState(0);
  const waiting = useRef({ messages: [], seen: 0, skipped: 0 });
  const still = useRef(false);
  still.current = paused;

  useEffect(() => {
    const source = new EventSource(apiUrl(clusterPath("messages", "tail"), { topic: asked.topic, partition: asked.partition }));
    source.addEventListener("open", () => setLink("live"));
    source.addEventListener("message", (event) => {
      const held = waiting.current;
      held.seen += 1;
      setTrouble(null);
      held.messages.unshift(JSON.parse(event.data));
      if (held.messages.length > KEPT) held.messages.length = KEPT;
    });
    source.addEventListener("skipped", (event) => {
      waiting.current.skipped += JSON.parse(event.data).n;
    });
    source.addEventListener("error", (event) => {
      // An event with data is the server's own error; one without is a lost connection.
      if (event.data) setTrouble(JSON.parse(event.data).error);
      else setLink(source.readyState === EventSource.CLOSED ? "refused" : "connecting");
    });
    const drawing = setInterval(() => {
      const held = waiting.current;
      if (still.current || (!held.seen && !held.skipped)) return;
      waiting.current = { messages: [], seen: 0, skipped: 0 };
      setShown((was) => ({
        messages: [...held.messages, ...was.messages].slice(0, KEPT),
        seen: was.seen + held.seen,
        skipped: was.skipped + held.skipped,
      }));
    }, DRAW_EVERY_MS);
    return () => {
      source.close();
      clearInterval(drawing);
    };
  }, [attempt]);

  const states = { live: ["ok", "live"], connecting: ["warning", "connecting"], refused: ["error", "refused"] };
  const [kind, words] = states[link];
  const aside = html`<span class="actions">
    <${State} kind=${paused ? "idle" : kind}>${paused ? "paused" : words}<//>
    <span class="muted">${count(shown.seen, "message")}${shown.skipped > 0 && `, ${number(shown.skipped)} more came too fast to show`}</span>
    <button type="button" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? "Go on" : "Pause"}</button>
  </span>`;
  return html`<${Panel} id="tail" title="Live tail" aside=${aside}>
    ${trouble && html`<p class="notice warning"><${State} kind="warning">Trouble<//> <span>${trouble}</span></p>`}
    ${link === "refused" && html`<${Failure} error=${{ message: "The console refused the tail: check that the topic and the partition exist." }} retry=${() => setAttempt(attempt + 1)} />`}
    ${shown.messages.length ? html`<${MessageTable} topic=${asked.topic} messages=${shown.messages} caption=${`Messages of ${asked.topic} as they arrive, newest first`} />` : html`<${Empty}>Waiting for the next message…<//>`}
  <//>`;
}
