// Paths of the page. The mount prefix comes from the script's own address, so that the same files
// serve at / and at /console/. A link is a plain <a href>: it can be copied, and opened in a new tab.

import { createStore } from "./store.js";

export const ROOT = new URL("../../", import.meta.url);

function read() {
  const rest = location.pathname.slice(ROOT.pathname.length);
  const parts = rest.split("/").filter(Boolean).map(decodeURIComponent);
  return { parts, query: new URLSearchParams(location.search) };
}

export const route = createStore(read());

const segment = (part) => encodeURIComponent(part);

// The address of a view: segments of its path, then its query; a value that is "" or null is left out.
export function address(parts, query = {}) {
  const url = new URL(parts.map(segment).join("/"), ROOT);
  const cluster = route.get().query.get("cluster");
  for (const [name, value] of Object.entries({ cluster, ...query }))
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  return url.pathname + url.search;
}

export function go(target, { replace = false, focus = true } = {}) {
  if (target === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", target);
  arrive(focus);
}

// A reader of the screen hears the new view's heading, and Tab goes on from there.
function arrive(focus) {
  route.set(read());
  if (!focus) return;
  scrollTo(0, 0);
  requestAnimationFrame(() => document.querySelector("h1")?.focus({ preventScroll: true }));
}

export function startRouter() {
  addEventListener("popstate", () => arrive(true));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const other = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button;
    if (!link || other || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || !url.pathname.startsWith(ROOT.pathname)) return;
    if (link.getAttribute("href").startsWith("#") || /^(api|static)\//.test(url.pathname.slice(ROOT.pathname.length)))
      return;
    event.preventDefault();
    go(url.pathname + url.search);
  });
}
