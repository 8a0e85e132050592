// Dark or light: as the reader's system says, until the switch says otherwise; kept in this browser.

import { createStore } from "./store.js";

const KEY = "zkbroker-console-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function kept() {
  try {
    return localStorage.getItem(KEY) ?? "auto";
  } catch {
    return "auto"; // a browser without storage
  }
}

const now = (choice) => ({ choice, dark: choice === "dark" || (choice === "auto" && system.matches) });

export const theme = createStore(now(kept()));

function apply() {
  document.documentElement.dataset.theme = theme.get().dark ? "dark" : "light";
}

export function choose(choice) {
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // The choice holds until the page is left.
  }
  theme.set(now(choice));
}

theme.subscribe(apply);
system.addEventListener("change", () => theme.set(now(theme.get().choice)));
apply();
