// Numbers with their units and times in the reader's zone. An unknown value is a dash, never 0.

export const UNKNOWN = "–";

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1, minimumFractionDigits: 1 });

const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

export const number = (value) => (known(value) ? whole.format(value) : UNKNOWN);

// Offsets and ids: plain digits, as a person types them.
export const digits = (value) => (known(value) ? String(value) : UNKNOWN);

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 1024 && unit < BYTES.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const sign = value < 0 ? "−" : "";
  return `${sign}${(unit && size < 100 ? fine : whole).format(size)} ${BYTES[unit]}`;
}

export const bytesRate = (value) => (known(value) ? `${bytes(value)}/s` : UNKNOWN);

export function rate(value) {
  if (!known(value)) return UNKNOWN;
  return `${(value !== 0 && Math.abs(value) < 10 ? fine : whole).format(value)}/s`;
}

export const percent = (value) => (known(value) ? `${fine.format(value * 100)} %` : UNKNOWN);

export function count(value, one, many = `${one}s`) {
  return `${number(value)} ${value === 1 ? one : many}`;
}

const two = (value) => String(value).padStart(2, "0");

// 2026-11-23 14:55:21, in the reader's zone; with milliseconds where they matter.
export function localTime(ms, { milliseconds = false } = {}) {
  if (!known(ms)) return UNKNOWN;
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return `${ms} ms`; // beyond what a date can be
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = clock(ms);
  return `${day} ${time}${milliseconds ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : ""}`;
}

export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function utcTime(ms) {
  if (!known(ms)) return "";
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? "" : `${at.toISOString()} (UTC)`;
}

export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";

const SPANS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

// 3 d 4 h: the two largest units.
export function span(ms) {
  if (!known(ms)) return UNKNOWN;
  let seconds = Math.max(0, Math.round(ms / 1000));
  const shown = [];
  for (const [length, unit] of SPANS) {
    const many = Math.floor(seconds / length);
    seconds -= many * length;
    if (many) shown.push(`${many} ${unit}`);
    if (shown.length === 2) break;
  }
  return shown.join(" ") || "0 s";
}
