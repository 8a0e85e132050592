// A chart of series over time, drawn by uPlot and kept up by the server's events. Each line has a
// colour and a dash of its own, and its last value, or the one under the pointer, as text.

import uPlot from "../vendor/uplot.js";
import { clusterPath, get } from "./api.js";
import { bytes, bytesRate, clock, localTime, number } from "./format.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { listen, seriesNames, watchSeries } from "./live.js";
import { theme } from "./theme.js";
import { useStore } from "./store.js";

const MOST_POINTS = 720;
const HEIGHT = 150;
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 4], [4, 2]];
// Steps of an axis of bytes: 64 KiB, 128 KiB, not 97.7 KiB.
const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);
// Counts have no halves.
const COUNTS = Array.from({ length: 45 }, (_, at) => [1, 2, 5][at % 3] * 10 ** Math.floor(at / 3));
const STEPS = new Map([[bytes, POWERS], [bytesRate, POWERS], [number, COUNTS]]);
export const MOST_LINES = DASHES.length;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// lines: [{name of the series, label}]; format: of a value with its unit.
export function Chart({ title, lines, format, note = null }) {
  const place = useRef(null);
  const plot = useRef(null);
  const data = useRef({ times: [], values: lines.map(() => []) });
  const [shown, setShown] = useState({ at: null, error: null, drawn: 0 });
  const { dark } = useStore(theme);
  const names = lines.map((line) => line.name);
  const key = names.join("\n");

  useEffect(() => {
    const control = new AbortController();
    data.current = { times: [], values: lines.map(() => []) };
    let held = []; // events that come before the history
    let ready = false;
    const draw = () => {
      plot.current?.setData(columns(data.current));
      setShown((was) => ({ ...was, error: null, drawn: was.drawn + 1 }));
    };
    const append = (event) => {
      const { times, values } = data.current;
      if (times.length && event.time_ms <= times[times.length - 1]) return;
      times.push(event.time_ms);
      names.forEach((name, at) => values[at].push(event.values[name] ?? null));
      if (times.length > MOST_POINTS) [times, ...values].forEach((column) => column.shift());
    };
    const forget = watchSeries(names);
    const deaf = listen("series", (event) => {
      if (!ready) held.push(event);
      else {
        append(event);
        draw();
      }
    });
    get(clusterPath("series"), { names: seriesNames(names) }, control.signal).then(
      (answer) => {
        data.current = {
          times: [...answer.times_ms],
          values: names.map((name) => [...(answer.series[name] ?? answer.times_ms.map(() => null))]),
        };
        held.forEach(append);
        held = [];
        ready = true;
        draw();
      },
      (error) => error.name === "AbortError" || setShown((was) => ({ ...was, error })),
    );
    return () => {
      control.abort();
      forget();
      deaf();
    };
  }, [key]);

  useEffect(() => {
    const element = place.current;
    plot.current = new uPlot(options(lines, format, element.clientWidth, setShown), columns(data.current), element);
    const resized = new ResizeObserver(() => {
      if (element.clientWidth) plot.current?.setSize({ width: element.clientWidth, height: HEIGHT });
    });
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [key, dark]);

  const { times, values } = data.current;
  const at = shown.at ?? times.length - 1;
  const known = values.map((column) => column[at]);
  const spoken = lines.map((line, which) => `${line.label} ${format(known[which])}`).join(", ");
  return html`<figure class="chart">
    <figcaption>
      <h3>${title}</h3>
      <span class="chart-time">${shown.at === null ? note : localTime(times[at])}</span>
    </figcaption>
    <div class="plot" ref=${place} role="img" aria-label=${`${title} over time. Now: ${spoken}`}></div>
    <ul class="legend">
      ${lines.map(
        (line, which) => html`<li key=${line.name}>
          <svg width="22" height="8" aria-hidden="true">
            <line x1="0" y1="4" x2="22" y2="4" class=${`line-${which}`} stroke-dasharray=${DASHES[which].join(" ")} />
          </svg>
          ${line.label} <b>${format(known[which])}</b>
        </li>`,
      )}
    </ul>
    ${shown.error && html`<p class="empty">${shown.error.message}</p>`}
    ${!shown.error && shown.drawn > 0 && times.length < 2 && html`<p class="empty">No history yet: it grows with each sample.</p>`}
  </figure>`;
}

const columns = ({ times, values }) => [times.map((ms) => ms / 1000), ...values];

function options(lines, format, width, setShown) {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    width: width || 300,
    height: HEIGHT,
    legend: { show: false },
    padding: [12, 24, 0, 0],
    cursor: { sync: { key: "console" }, y: false, points: { size: 6 } },
    scales: { y: { range: (_, least, most) => [Math.min(0, least ?? 0), most > 0 ? most * 1.1 : 1] } },
    axes: [
      { ...axis, size: 28, space: 70, values: (_, ticks) => ticks.map((tick) => clock(tick * 1000).slice(0, ticks.length > 1 && ticks[1] - ticks[0] < 60 ? 8 : 5)) },
      { ...axis, size: 76, space: 30, incrs: STEPS.get(format), values: (_, ticks) => ticks.map((tick) => format(tick)) },
    ],
    series: [
      {},
      ...lines.map((line, which) => ({
        label: line.label,
        stroke: colour(`--line-${which}`),
        dash: DASHES[which],
        width: 1.5,
        fill: lines.length === 1 ? colour("--fill-0") : undefined,
        points: { show: false },
        spanGaps: false,
      })),
    ],
    hooks: {
      setCursor: [
        (self) => {
          const at = self.cursor.idx ?? null;
          setShown((was) => (was.at === at ? was : { ...was, at }));
        },
      ],
    },
  };
}
