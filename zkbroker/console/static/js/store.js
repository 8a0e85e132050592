// Values that outlive a view: a store tells its readers of each change, and a view reads it by a hook.

import { useEffect, useState } from "./lib.js";

export function createStore(initial) {
  let value = initial;
  const readers = new Set();
  return {
    get: () => value,
    set(next) {
      value = typeof next === "function" ? next(value) : next;
      for (const reader of [...readers]) reader(value);
    },
    subscribe(reader) {
      readers.add(reader);
      return () => readers.delete(reader);
    },
  };
}

// The store's value; the view is drawn again when it changes.
export function useStore(store) {
  const [, draw] = useState(0);
  useEffect(() => {
    draw((count) => count + 1); // it may have changed since the view was drawn
    return store.subscribe(() => draw((count) => count + 1));
  }, [store]);
  return store.get();
}
