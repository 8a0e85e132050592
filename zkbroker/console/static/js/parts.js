// The small parts of every view. A state is a word and a sign, and its colour comes third.

import { html, useEffect } from "./lib.js";
import { UNKNOWN, localTime, utcTime } from "./format.js";
import { address } from "./router.js";
import { visible } from "./text.js";

const SIGNS = { ok: "✓", warning: "▲", error: "✕", idle: "○", info: "●" };

export const State = ({ kind, children }) =>
  html`<span class=${`state ${kind}`}><span class="sign" aria-hidden="true">${SIGNS[kind]}</span> ${children}</span>`;

// A count that should be 0: then plain, otherwise a state.
export function Trouble({ value, kind = "warning", label }) {
  if (!value) return html`<span>${value ?? UNKNOWN}</span>`;
  return html`<${State} kind=${kind}>${value}${label ? ` ${label}` : ""}<//>`;
}

export const Time = ({ ms, milliseconds = false }) =>
  ms === null || ms === undefined
    ? html`<span>${UNKNOWN}</span>`
    : html`<time title=${utcTime(ms)} datetime=${utcTime(ms).split(" ")[0]}>${localTime(ms, { milliseconds })}</time>`;

export const Text = ({ text, oneLine = false }) =>
  visible(text, { oneLine }).map((piece) =>
    piece.escaped ? html`<span class="escape">${piece.text}</span>` : piece.text,
  );

export function Page({ title, crumbs = [], aside = null, children }) {
  useEffect(() => {
    document.title = `${title} · zkbroker console`;
  }, [title]);
  return html`<div class="page">
    <header class="page-head">
      ${crumbs.length > 0 &&
      html`<nav aria-label="Above this page" class="crumbs">
        ${crumbs.map(([label, parts]) => html`<a key=${label} href=${address(parts)}>${label}</a>`)}
      </nav>`}
      <h1 tabindex="-1"><bdi><${Text} text=${title} oneLine=${true} /></bdi></h1>
      <div class="page-aside">${aside}</div>
    </header>
    ${children}
  </div>`;
}

export const Panel = ({ title, aside = null, id, children }) =>
  html`<section class="panel" aria-labelledby=${id}>
    <header><h2 id=${id}>${title}</h2><div class="panel-aside">${aside}</div></header>
    ${children}
  </section>`;

export const Tile = ({ label, children, note = null, kind = "" }) =>
  html`<div class=${`tile ${kind}`}><dt>${label}</dt><dd><span class="figure">${children}</span>${note &&
  html`<span class="note">${note}</span>`}</dd></div>`;

export const Tiles = ({ children }) => html`<dl class="tiles">${children}</dl>`;

export const Failure = ({ error, retry = null }) =>
  html`<div class="notice error" role="alert">
    <${State} kind="error">Failed<//> <span>${error.message}</span>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

// The view of a resource: its error, a note while it loads, or its data (old data stays visible).
export function Loaded({ of, children }) {
  if (of.error && !of.data) return html`<${Failure} error=${of.error} retry=${of.reload} />`;
  if (!of.data) return html`<p class="empty" role="status">Reading…</p>`;
  return html`<div>
    ${of.error && html`<${Failure} error=${of.error} retry=${of.reload} />`}${children(of.data)}
  </div>`;
}

export const Field = ({ label, hint = null, wide = false, children }) =>
  html`<label class=${wide ? "field wide" : "field"}><span>${label}</span>${children}${hint &&
  html`<small>${hint}</small>`}</label>`;

export const TopicLink = ({ name }) => html`<a href=${address(["topics", name])} class="name">${name}</a>`;

export const GroupLink = ({ kind, name }) =>
  html`<a href=${address(["groups", kind, name])} class="name"><bdi><${Text} text=${name} oneLine=${true} /></bdi></a>`;
