// The frame of each view: navigation, whether the page is live, the user, dark or light.

import { currentCluster, logout, otherGeneration, session } from "./api.js";
import { Dialogs, announced, show } from "./dialog.js";
import { clock, localTime, zone } from "./format.js";
import { html, useEffect } from "./lib.js";
import { liveness, overview, tryNow } from "./live.js";
import { State, Text } from "./parts.js";
import { address, go, route } from "./router.js";
import { useStore } from "./store.js";
import { choose, theme } from "./theme.js";

export const SECTIONS = [
  ["overview", "Overview", "o"],
  ["topics", "Topics", "t"],
  ["groups", "Groups", "g"],
  ["messages", "Messages", "m"],
  ["clients", "Clients", "c"],
  ["mirrors", "Mirrors", "i"],
  ["loads", "Loads", "l"],
  ["settings", "Settings", "s"],
];

const KEYS = [
  ["/", "search in this view, or among topics"],
  ...SECTIONS.map(([, label, key]) => [`g ${key}`, `go to ${label.toLowerCase()}`]),
  ["?", "this list"],
  ["Esc", "close a dialog"],
];

// Views that another generation of Kafka does not have are left out.
const NEWER_ONLY = ["clients", "mirrors", "loads", "settings"];

function Navigation({ section }) {
  const now = useStore(overview);
  const errors = now?.problems.filter((each) => each.severity === "error").length ?? 0;
  const warnings = (now?.problems.length ?? 0) - errors;
  return html`<nav class="sections" aria-label="Views">
    <ul>
      ${SECTIONS.filter(([path]) => !otherGeneration() || !NEWER_ONLY.includes(path)).map(
        ([path, label]) => html`<li key=${path}>
          <a href=${address([path])} aria-current=${section === path ? "page" : undefined}>
            ${label}
            ${path === "overview" && errors + warnings > 0 && html`<span class=${`badge ${errors ? "error" : "warning"}`} title=${`${errors} errors, ${warnings} warnings`}>${errors + warnings}<span class="spoken"> problems</span></span>`}
          </a>
        </li>`,
      )}
    </ul>
  </nav>`;
}

function Clusters() {
  const { clusters = [] } = useStore(session);
  const chosen = currentCluster();
  if (clusters.length < 2) return chosen && html`<span class="cluster name">${chosen.name}</span>`;
  const pick = (event) => {
    const url = new URL(address(["overview"]), location.href);
    url.searchParams.set("cluster", event.target.value);
    go(url.pathname + url.search);
  };
  return html`<select class="cluster" aria-label="Cluster" value=${chosen?.id} onInput=${pick}>
    ${clusters.map((each) => html`<option key=${each.id} value=${each.id}>${each.name}</option>`)}
  </select>`;
}

function Live() {
  const { state, heard_ms } = useStore(liveness);
  if (state === "live") return html`<span class="live" title=${`Last sample ${localTime(heard_ms)}`}><${State} kind="ok">live<//></span>`;
  if (state === "connecting") return html`<span class="live"><${State} kind="idle">connecting<//></span>`;
  return html`<span class="live"><${State} kind="error">not live<//></span>`;
}

// Shown above every view while its data may be out of date.
function Lost() {
  const { state, since_ms, heard_ms } = useStore(liveness);
  const lost = state === "lost";
  return html`<div role="status" class=${lost ? "notice error lost" : "spoken"}>
    ${lost &&
    html`<${State} kind="error">Not live since ${clock(heard_ms ?? since_ms)}.<//>
      <span>${heard_ms ? "The page may be out of date." : "The console has sent no data yet."} Connecting again…</span>
      <button type="button" onClick=${tryNow}>Try now</button>`}
  </div>`;
}

function Announcement() {
  const last = useStore(announced);
  useEffect(() => {
    if (!last) return undefined;
    const timer = setTimeout(() => announced.set(null), 10000);
    return () => clearTimeout(timer);
  }, [last]);
  return html`<div role="status" class=${last ? "notice ok toast" : "spoken"}>
    ${last && html`<${State} kind="ok"><${Text} text=${last.text} oneLine=${true} /><//> <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => announced.set(null)}>✕</button>`}
  </div>`;
}

const CHOICES = [
  ["auto", "◐ Auto"],
  ["light", "◐ Light"],
  ["dark", "◐ Dark"],
];

function Themes() {
  const { choice } = useStore(theme);
  return html`<select class="theme" aria-label="Colours" title="Colours: auto follows your system" value=${choice} onInput=${(event) => choose(event.target.value)}>
    ${CHOICES.map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}
  </select>`;
}

function Reader() {
  const { user, role } = useStore(session);
  return html`<span class="reader">
    ${user && html`<span class="name">${user}</span>`}
    <span class="tag" title=${role === "operator" ? "May change the cluster" : "May not change anything"}>${role}</span>
    ${user && html`<button type="button" class="quiet" onClick=${() => logout().catch((error) => announced.set({ text: error.message, time: Date.now() }))}>Log out</button>`}
  </span>`;
}

export const help = () =>
  show(
    "Keys",
    () => html`<dl class="keys">${KEYS.map(([key, what]) => html`<div><dt>${key.split(" ").map((part) => html`<kbd>${part}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>`,
  );

export function Shell({ section, children }) {
  const { version } = useStore(session);
  useStore(route);
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.getElementById("main").focus())}>Skip to the content</a>
    <header class="top">
      <a class="brand" href=${address(["overview"])}>zkbroker<span> console</span></a>
      <${Clusters} />
      <${Live} />
      <div class="top-end"><${Reader} /><${Themes} /><button type="button" class="quiet" aria-label="Keys" title="Keys ( ? )" onClick=${help}>?</button></div>
    </header>
    <${Navigation} section=${section} />
    <main id="main" tabindex="-1"><${Lost} />${children}</main>
    <footer class="foot">Times are in ${zone()}${zone() !== "UTC" && "; point at one to see it in UTC"}. zkbroker ${version}</footer>
    <${Announcement} /><${Dialogs} />
  </div>`;
}
