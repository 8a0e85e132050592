// Events from the server: one EventSource for the shown cluster. The page reconnects for
// ever, with growing pauses, and shows since when its data is not live.
//
// `overview` comes with every sample and is the heartbeat: three times as long a silence as usual
// counts as a lost connection, too, since a dead network closes nothing.

import { apiUrl, clusterPath, currentCluster, readSession } from "./api.js";
import { createStore } from "./store.js";

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 15000;
const LEAST_SILENCE_MS = 30000;

// {state: "connecting" | "live" | "lost", since_ms: of the state, heard_ms: of the last event}
export const liveness = createStore({ state: "connecting", since_ms: Date.now(), heard_ms: null });
export const overview = createStore(null);

const readers = { topics: new Set(), groups: new Set(), gone: new Set(), series: new Set(), sample: new Set() };
const wanted = new Map(); // name of a series: how many charts show it
let source = null;
let opened = ""; // address of the source
let pause = FIRST_PAUSE_MS;
let retry = 0;
let refresh = 0;
let spacing = 0; // between samples, in ms

function become(state) {
  const now = Date.now();
  liveness.set((was) => ({
    state,
    since_ms: was.state === state ? was.since_ms : now,
    heard_ms: state === "live" ? now : was.heard_ms,
  }));
}

function tell(kind, value) {
  for (const reader of [...readers[kind]]) reader(value);
}

// Calls the reader with each event of a kind: topics and groups (changed rows), gone (names of those
// that are gone), series, or sample (every overview).
export function listen(kind, reader) {
  readers[kind].add(reader);
  scheduleOpen();
  return () => {
    readers[kind].delete(reader);
    scheduleOpen();
  };
}

// Asks for the values of some series while a chart shows them.
export function watchSeries(names) {
  for (const name of names) wanted.set(name, (wanted.get(name) ?? 0) + 1);
  scheduleOpen();
  return () => {
    for (const name of names) {
      const left = wanted.get(name) - 1;
      if (left) wanted.set(name, left);
      else wanted.delete(name);
    }
    scheduleOpen();
  };
}

export const seriesNames = (names) => names.map(encodeURIComponent).join(",");

// Charts come and go together when the view changes: one new connection for all of them.
function scheduleOpen() {
  clearTimeout(refresh);
  refresh = setTimeout(() => {
    if (target() !== opened) open();
  }, 100);
}

function target() {
  const cluster = currentCluster();
  if (!cluster) return "";
  const what = ["overview", ...["topics", "groups"].filter((kind) => readers[kind].size)].join(",");
  return apiUrl(clusterPath("events"), { what, names: seriesNames([...wanted.keys()].sort()) });
}

export function open() {
  close();
  opened = target();
  if (!opened) return;
  const mine = new EventSource(opened);
  source = mine;
  const on = (kind, act) =>
    mine.addEventListener(kind, (event) => {
      if (source !== mine) return;
      pause = FIRST_PAUSE_MS;
      act(JSON.parse(event.data || "null"));
    });
  on("overview", (value) => {
    const apart = value.time_ms - (overview.get()?.time_ms ?? value.time_ms);
    if (apart > 0) spacing = apart;
    overview.set((was) => ({ ...was, ...value, brokers: withDetails(was, value) }));
    become("live");
    tell("sample", value);
  });
  on("topics", (rows) => tell("topics", rows));
  on("groups", (rows) => tell("groups", rows));
  on("series", (values) => tell("series", values));
  on("gone", (names) => tell("gone", names));
  mine.addEventListener("error", () => {
    if (source === mine) lose();
  });
}

// Events leave out a broker's listeners and directories, which the first answer had.
function withDetails(was, value) {
  const known = new Map((was?.brokers ?? []).map((each) => [each.id, each]));
  return value.brokers.map((each) => {
    const { listeners = [], directories = [] } = known.get(each.id) ?? {};
    return { listeners, directories, ...each };
  });
}

function lose() {
  source?.close();
  source = null;
  become("lost");
  clearTimeout(retry);
  const mine = pause;
  pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  retry = setTimeout(async () => {
    // An EventSource does not tell 401 from a stopped server: the session does.
    await readSession().catch(() => {});
    if (currentCluster()) open();
    else lose();
  }, mine);
}

export function close() {
  clearTimeout(retry);
  source?.close();
  source = null;
  opened = "";
}

export function tryNow() {
  pause = FIRST_PAUSE_MS;
  open();
}

setInterval(() => {
  const { state, heard_ms } = liveness.get();
  const longest = Math.max(LEAST_SILENCE_MS, 3 * spacing);
  if (state === "live" && Date.now() - heard_ms > longest) lose();
}, 5000);
addEventListener("online", tryNow);
addEventListener("offline", lose);
