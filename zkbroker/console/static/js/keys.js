// Keys of the whole page. None acts in a text field, or with Ctrl, Alt or the system's key.

import { address, go } from "./router.js";
import { SECTIONS, help } from "./shell.js";

const SEQUENCE_MS = 3000;

const typing = (element) => element.closest?.("input, textarea, select, [contenteditable]") !== null;

export function startKeys() {
  let since = -Infinity; // of the last g
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (document.querySelector("dialog[open]") || !document.querySelector(".shell")) return;
    const goes = event.timeStamp - since < SEQUENCE_MS;
    since = -Infinity;
    if (goes) {
      const found = SECTIONS.find(([, , key]) => key === event.key);
      if (found) go(address([found[0]]));
    } else if (event.key === "g") since = event.timeStamp;
    else if (event.key === "/") {
      event.preventDefault();
      search();
    } else if (event.key === "?") help();
  });
}

function search() {
  const field = () => document.querySelector("main .search");
  if (field()) {
    field().focus();
    field().select();
    return;
  }
  go(address(["topics"]), { focus: false });
  requestAnimationFrame(() => field()?.focus());
}
