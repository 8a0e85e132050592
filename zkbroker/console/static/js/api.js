// Requests to the console's own server, and the session that they belong to. An answer other than
// 2xx is an ApiError with the server's sentence; 401 brings back the login form.

import { ROOT, route } from "./router.js";
import { createStore } from "./store.js";

export class ApiError extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// null: not known yet; otherwise the answer of api/session.
export const session = createStore(null);

export function apiUrl(path, query = {}) {
  const url = new URL(`api/${path}`, ROOT);
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  return url.href;
}

// The shown cluster: the one in the address, else the first.
export function currentCluster() {
  const clusters = session.get()?.clusters ?? [];
  const wanted = route.get().query.get("cluster");
  return clusters.find((each) => each.id === wanted) ?? clusters[0] ?? null;
}

export const clusterPath = (...parts) =>
  ["clusters", currentCluster()?.id ?? "", ...parts].map(encodeURIComponent).join("/");

async function answer(request) {
  let response;
  try {
    response = await request();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The console does not answer. It may be stopped, or the network is down.", "unreachable");
  }
  const text = await response.text();
  let body = null;
  try {
    body = text ? JSON.parse(text) : null;
  } catch {
    throw new ApiError(response.status, `The console answered ${response.status} with something that is not JSON.`, "format");
  }
  if (response.ok) return body;
  if (response.status === 401 && body?.login) session.set({ login: true, user: null, clusters: [] });
  throw new ApiError(response.status, body?.error ?? `The console answered ${response.status}.`, body?.code ?? "");
}

export const get = (path, query, signal) =>
  answer(() => fetch(apiUrl(path, query), { signal, headers: { Accept: "application/json" } }));

export const post = (path, body) =>
  answer(() =>
    fetch(apiUrl(path), {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": session.get()?.csrf ?? "" },
      body: JSON.stringify(body),
    }),
  );

export async function readSession() {
  try {
    session.set(await get("session"));
  } catch (error) {
    if (error.status !== 401) throw error;
    session.set({ login: true, user: null, clusters: [] });
  }
}

export async function login(user, password) {
  await post("login", { user, password });
  await readSession();
}

export async function logout() {
  await post("logout", {});
  await readSession();
}

// Another generation of Kafka than 0.8 and later, such as "0.7": its offsets are positions in bytes.
export const otherGeneration = () => currentCluster()?.generation ?? null;

// A partition's name: in 0.7 its broker and its number on that broker.
export const partitionName = (id) => (otherGeneration() ? `${Math.floor(id / 65536)}-${id % 65536}` : String(id));

export const isOperator = () => session.get()?.role === "operator" && !otherGeneration();
