// Dialogs: the browser's own <dialog>, which keeps the focus inside, closes on Escape and gives the
// focus back. An action is described first (a dry run of the server), then typed, then done.

import { post } from "./api.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { State } from "./parts.js";
import { createStore, useStore } from "./store.js";

// The last action, for the line that a screen reader speaks: {text, time}.
export const announced = createStore(null);

const open = createStore(null);
let opened = 0;

// show(close => view): one dialog at a time.
export const show = (title, view) => open.set({ title, view, number: ++opened });

export function Dialogs() {
  const wanted = useStore(open);
  const element = useRef(null);
  useEffect(() => {
    const dialog = element.current;
    if (!wanted || !dialog || dialog.open) return;
    dialog.showModal();
    dialog.querySelector("input, select, textarea")?.focus();
  }, [wanted]);
  if (!wanted) return null;
  const close = () => element.current?.close();
  return html`<dialog ref=${element} aria-labelledby="dialog-title" onClose=${() => open.set(null)}>
    <header>
      <h2 id="dialog-title">${wanted.title}</h2>
      <button type="button" class="quiet" aria-label="Close" onClick=${close}>✕</button>
    </header>
    <div key=${wanted.number}>${wanted.view(close)}</div>
  </dialog>`;
}

// An action in two steps. body(): the request, or a sentence that names the missing input.
// path(): its address; done(): called after success; fields: the form's inputs.
export function Action({ path, body, fields = null, verb, danger = false, said, done, close }) {
  const [state, setState] = useState({ plan: null, sent: null, error: null, busy: false });
  const [typed, setTyped] = useState("");
  const input = useRef(null);

  const run = async (work) => {
    setState((was) => ({ ...was, busy: true, error: null }));
    try {
      await work();
    } catch (error) {
      setState((was) => ({ ...was, busy: false, error }));
    }
  };

  const prepare = (event) => {
    event?.preventDefault();
    return run(async () => {
      const sent = body();
      if (typeof sent === "string") throw new Error(sent);
      const plan = await post(path(), { ...sent, dry_run: true });
      setState({ plan, sent, error: null, busy: false });
    });
  };

  const perform = (event) => {
    event.preventDefault();
    if (typed !== state.plan.confirm) return;
    run(async () => {
      await post(path(), { ...state.sent, confirm: typed });
      announced.set({ text: said(state.sent), time: Date.now() });
      close();
      done?.(state.sent);
    });
  };

  useEffect(() => {
    if (!fields) prepare(); // no inputs: plan at once
  }, []);
  useEffect(() => {
    if (state.plan) input.current?.focus();
  }, [state.plan]);

  const failed = state.error && html`<p class="notice error" role="alert"><${State} kind="error">Failed<//> ${state.error.message}</p>`;
  if (!state.plan)
    return html`<form onSubmit=${prepare} class="action">
      ${fields} ${failed}
      <footer>
        <button type="button" onClick=${close}>Cancel</button>
        <button type="submit" class="primary" disabled=${state.busy}>${state.busy ? "Planning…" : "Show the plan"}</button>
      </footer>
    </form>`;
  const { plan, warnings = [], confirm } = state.plan;
  return html`<form onSubmit=${perform} class="action">
    <p>This will be done:</p>
    <ol class="plan">${plan.map((line) => html`<li>${line}</li>`)}</ol>
    ${warnings.map((line) => html`<p class="notice warning"><${State} kind="warning">Warning<//> ${line}</p>`)}
    <label class="field wide">
      <span>Type <kbd>${confirm}</kbd> to confirm</span>
      <input ref=${input} value=${typed} onInput=${(event) => setTyped(event.target.value)} autocomplete="off" autocapitalize="off" spellcheck=${false} required />
    </label>
    ${failed}
    <footer>
      <button type="button" onClick=${() => (fields ? setState({ ...state, plan: null, error: null }) : close())}>${fields ? "Back" : "Cancel"}</button>
      <button type="submit" class=${danger ? "primary danger" : "primary"} disabled=${state.busy || typed !== confirm}>
        ${state.busy ? "Working…" : verb}
      </button>
    </footer>
  </form>`;
}
