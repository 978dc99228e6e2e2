// Line charts of the last minutes, drawn as SVG.

import { el, svg } from "./dom.js";

const WIDTH = 420;
const HEIGHT = 150;
const LEFT = 52;
const BOTTOM = 20;
const TOP = 8;
const KINDS = ["first", "second", "third"];

/** The smallest of 1, 2 and 5 times a power of ten that is not below the value. */
function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value * 0.999999);
}

/**
 * A chart. `lines`: [name, values] with one value for each of `times` (milliseconds); `span` is the
 * time shown, up to the last sample.
 */
export function chart({ title, times, span, lines, format }) {
  const top = ceiling(Math.max(0, ...lines.flatMap(([, values]) => values)));
  const end = times.at(-1) ?? 0;
  const x = (time) => LEFT + (WIDTH - LEFT - 4) * (1 - (end - time) / span);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const grid = [0, 0.5, 1].map((part) => [
    svg("line", { class: "grid", x1: LEFT, x2: WIDTH - 4, y1: y(part * top), y2: y(part * top) }),
    svg("text", { x: LEFT - 6, y: y(part * top) + 4, "text-anchor": "end" }, format(part * top)),
  ]);
  const minutes = Math.round(span / 60000);
  const labels = [
    svg("text", { x: LEFT, y: HEIGHT - 5 }, `${minutes} min ago`),
    svg("text", { x: WIDTH - 4, y: HEIGHT - 5, "text-anchor": "end" }, "now"),
  ];
  const plots = lines.map(([, values], at) => svg("polyline", {
    class: `plot ${KINDS[at]}`,
    points: values.map((value, n) => `${x(times[n]).toFixed(1)},${y(value).toFixed(1)}`).join(" "),
  }));
  const last = lines.map(([name, values]) => `${name} ${format(values.at(-1) ?? 0)}`);
  const legend = lines.map(([name, values], at) =>
    el("span", { class: `key ${KINDS[at]}` }, `${name} ${format(values.at(-1) ?? 0)}`));
  const label = `${title}, now: ${last.join(", ")}`;
  return el("figure", { class: "chart" },
    el("figcaption", null, title, el("span", { class: "legend" }, legend)),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label }, grid, labels, plots));
}
