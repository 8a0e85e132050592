// An answer of the API for a view: read once, again when its address changes, and, where it is live,
// with each sample of the server. Its data stays visible while the next answer loads.

import { get } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./lib.js";
import { listen } from "./live.js";

// {data, error, loading, reload}; path null: nothing is read.
export function useResource(path, query = {}, { live = false } = {}) {
  const key = path === null ? null : `${path}?${new URLSearchParams(clean(query))}`;
  const [state, setState] = useState({ key: null, data: null, error: null });
  const running = useRef(null);

  const read = useCallback(
    async (again) => {
      if (key === null || (again && running.current)) return;
      running.current?.abort();
      const mine = new AbortController();
      running.current = mine;
      try {
        const data = await get(path, query, mine.signal);
        if (running.current === mine) setState({ key, data, error: null });
      } catch (error) {
        if (error.name === "AbortError" || running.current !== mine) return;
        setState((was) => ({ key, data: was.key === key ? was.data : null, error }));
      } finally {
        if (running.current === mine) running.current = null;
      }
    },
    [key],
  );

  useEffect(() => {
    read(false);
    return () => {
      running.current?.abort();
      running.current = null;
    };
  }, [read]);

  useEffect(() => {
    if (!live) return undefined;
    return listen("sample", () => document.hidden || read(true));
  }, [live, read]);

  return { ...state, loading: state.key !== key, reload: () => read(false) };
}

const clean = (query) =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== ""));
