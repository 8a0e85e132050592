// A real table: caption, column heads with scope, sort buttons with aria-sort. Many rows are drawn
// as a window over them: only those in sight are in the document, at most about a hundred.
//
// A column: {key, label, cell(row), value(row) to sort by, number: true for figures, hint, className}.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./lib.js";

const WINDOWED_FROM = 150;
const BEYOND = 12; // rows drawn above and below what is in sight

// null and undefined come last in both directions; text compares with its numbers: topic-9 < topic-10.
const collator = new Intl.Collator(undefined, { numeric: true });

export function sorted(rows, column, descending) {
  if (!column) return rows;
  const value = column.value ?? ((row) => row[column.key]);
  const missing = (one) => one === null || one === undefined;
  const compare = (one, other) =>
    typeof one === "number" && typeof other === "number" ? one - other : collator.compare(String(one), String(other));
  return [...rows].sort((first, second) => {
    const [one, other] = [value(first), value(second)];
    if (missing(one) || missing(other)) return missing(one) - missing(other);
    return descending ? compare(other, one) : compare(one, other);
  });
}

function Head({ column, sort, onSort }) {
  const key = column.sort ?? column.key;
  const active = sort && sort.replace(/^-/, "") === key;
  const descending = active && sort.startsWith("-");
  const classes = column.number ? "number" : "";
  if (column.unsorted || !onSort)
    return html`<th scope="col" class=${classes} title=${column.hint}>${column.label}</th>`;
  const order = active ? (descending ? "descending" : "ascending") : "none";
  // Figures are wanted largest first.
  const next = active ? (descending ? key : `-${key}`) : column.number ? `-${key}` : key;
  return html`<th scope="col" class=${classes} aria-sort=${order}>
    <button type="button" class="sort" title=${column.hint} onClick=${() => onSort(next)}>
      ${column.label}<span class="arrow" aria-hidden="true">${active ? (descending ? "↓" : "↑") : ""}</span>
    </button>
  </th>`;
}

const Row = ({ columns, row, at, state }) =>
  html`<tr aria-rowindex=${at} class=${state}>
    ${columns.map((column, place) =>
      place === 0
        ? html`<th scope="row" class=${column.number ? "number" : ""}>${column.cell ? column.cell(row) : row[column.key]}</th>`
        : html`<td class=${`${column.number ? "number" : ""} ${column.className ?? ""}`}>
            ${column.cell ? column.cell(row) : row[column.key]}
          </td>`,
    )}
  </tr>`;

// sort and onSort given: the server sorts, and rows come in order. Otherwise the table sorts by itself.
export function Table({ caption, columns, rows, rowKey, sort, onSort, firstSort = "", rowState = () => "", empty = null }) {
  const [own, setOwn] = useState(firstSort);
  const order = onSort ? sort : own;
  const shown = useMemo(() => {
    if (onSort || !order) return rows;
    const key = order.replace(/^-/, "");
    const column = columns.find((each) => (each.sort ?? each.key) === key);
    return sorted(rows, column, order.startsWith("-"));
  }, [rows, order, onSort]);
  const box = useRef(null);
  const windowed = shown.length > WINDOWED_FROM;
  const { from, until, height } = useWindow(box, shown.length, windowed);
  if (!rows.length && empty) return html`<p class="empty">${empty}</p>`;
  const part = shown.slice(from, until);
  const spacer = (many) =>
    many > 0 && html`<tr class="spacer" aria-hidden="true" style=${{ height: `${many * height}px` }}><td colspan=${columns.length}></td></tr>`;
  return html`<div
    class=${windowed ? "table-box windowed" : "table-box"}
    ref=${box}
    tabindex="0"
    role="region"
    aria-label=${caption}
  >
    <table aria-rowcount=${windowed ? shown.length + 1 : undefined}>
      <caption>${caption}</caption>
      <thead>
        <tr>${columns.map((column) => html`<${Head} key=${column.key} column=${column} sort=${order} onSort=${onSort ?? setOwn} />`)}</tr>
      </thead>
      <tbody>
        ${spacer(from)}
        ${part.map((row, at) => html`<${Row} key=${rowKey(row)} columns=${columns} row=${row} at=${windowed ? from + at + 2 : undefined} state=${rowState(row)} />`)}
        ${spacer(shown.length - until)}
      </tbody>
    </table>
  </div>`;
}

// The visible rows of a scrolling box; all rows have the height of the first.
function useWindow(box, count, windowed) {
  const [place, setPlace] = useState({ from: 0, until: 60, height: 32 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!windowed || !element) return undefined;
    let frame = 0;
    const measure = () => {
      frame = 0;
      const row = element.querySelector("tbody tr:not(.spacer)");
      const height = row?.getBoundingClientRect().height || 32;
      const first = Math.max(0, Math.floor(element.scrollTop / height) - BEYOND);
      const from = Math.min(first, Math.max(0, count - 1));
      const until = Math.min(count, first + Math.ceil(element.clientHeight / height) + 2 * BEYOND);
      setPlace((was) =>
        was.from === from && was.until === until && was.height === height ? was : { from, until, height },
      );
    };
    const later = () => {
      frame ||= requestAnimationFrame(measure);
    };
    measure();
    element.addEventListener("scroll", later, { passive: true });
    const resized = new ResizeObserver(later);
    resized.observe(element);
    return () => {
      cancelAnimationFrame(frame);
      element.removeEventListener("scroll", later);
      resized.disconnect();
    };
  }, [windowed, count]);
  return windowed ? place : { from: 0, until: count, height: 0 };
}

// Pages of a list that the server cuts.
export function Pager({ total, offset, limit, onOffset, what }) {
  if (total <= limit && offset === 0) return null;
  const last = Math.min(offset + limit, total);
  return html`<nav class="pager" aria-label=${`Pages of ${what}`}>
    <button type="button" disabled=${offset === 0} onClick=${() => onOffset(Math.max(0, offset - limit))}>Previous</button>
    <span>${total ? offset + 1 : 0}–${last} of ${total} ${what}</span>
    <button type="button" disabled=${last >= total} onClick=${() => onOffset(offset + limit)}>Next</button>
  </nav>`;
}

// Text of a search field, some time after the last key: one request for a word, not for each letter.
export function Search({ value, onSearch, label }) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    const wanted = event.target.value;
    setText(wanted);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onSearch(wanted), 200);
  };
  return html`<input type="search" class="search" aria-label=${label} placeholder=${`${label}  ( / )`} value=${text} onInput=${typed} spellcheck=${false} autocomplete="off" />`;
}
