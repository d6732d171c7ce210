// One quantity over time, as a line of steps: it stays until the next snapshot changes it.

import { freshId, h, onWidth, s } from "./dom.js";
import { moment, tick } from "./format.js";
import { table } from "./table.js";

const HEIGHT = 190;
const EDGE = { top: 12, right: 14, bottom: 26, left: 64 };
const MOST_ROWS = 24;

/** A figure of points [{time, value}], with the same numbers as a table below. */
export function chart(visit, { title, points, format }) {
  const plot = h("div", { class: "plot" });
  const readout = h("output", { class: "readout" });
  const id = freshId("chart");
  const last = points.at(-1);
  const say = (point) => (readout.textContent = `${format(point.value)} · ${moment(point.time)}`);
  say(last);
  const spoken = `${title}: from ${format(points[0].value)} at ${moment(points[0].time)} to ${format(last.value)} at ${moment(last.time)}.`;
  const stop = onWidth(plot, (width) => plot.replaceChildren(drawing(width, points, format, say, spoken)));
  visit.leave(stop);
  return h(
    "figure",
    { class: "chart", "aria-labelledby": id },
    h("figcaption", {}, h("span", { id }, title), readout),
    plot,
    h("details", {}, h("summary", {}, `${title} as a table`), numbers(title, points, format)),
  );
}

function numbers(title, points, format) {
  const step = Math.max(1, Math.ceil(points.length / MOST_ROWS));
  const rows = points.filter((_, place) => (points.length - 1 - place) % step === 0);
  return table({
    caption: title,
    rows,
    columns: [
      { label: "Time", header: true, cell: (point) => moment(point.time) },
      { label: title, numeric: true, cell: (point) => format(point.value) },
    ],
  });
}

function drawing(width, points, format, say, spoken) {
  const times = points.map((point) => Date.parse(point.time));
  const span = Math.max(1, times.at(-1) - times[0]);
  const { top, scale } = niceTop(Math.max(1, ...points.map((point) => point.value)));
  const inner = width - EDGE.left - EDGE.right;
  const tall = HEIGHT - EDGE.top - EDGE.bottom;
  const x = (time) => EDGE.left + (points.length === 1 ? inner : ((time - times[0]) / span) * inner);
  const y = (value) => EDGE.top + tall - (value / top) * tall;

  let line = `M${x(times[0]).toFixed(1)},${y(points[0].value).toFixed(1)}`;
  points.forEach((point, place) => {
    if (place) line += `H${x(times[place]).toFixed(1)}V${y(point.value).toFixed(1)}`;
  });
  if (points.length === 1) line = `M${EDGE.left},${y(points[0].value)}H${EDGE.left + inner}`;
  const start = points.length === 1 ? EDGE.left : x(times[0]);
  const area = `${line}V${y(0)}H${start.toFixed(1)}Z`;

  const cross = s("g", { class: "cross", visibility: "hidden" }, s("line", { y1: EDGE.top, y2: EDGE.top + tall }), s("circle", { r: 4 }));
  const follow = (event) => {
    const at = times[0] + ((event.offsetX - EDGE.left) / inner) * span;
    const next = times.findIndex((time) => time > at);
    const place = next === -1 ? points.length - 1 : Math.max(0, next - 1);
    cross.setAttribute("visibility", "visible");
    cross.setAttribute("transform", `translate(${x(times[place])},0)`);
    cross.querySelector("circle").setAttribute("cy", y(points[place].value));
    say(points[place]);
  };
  const rest = () => {
    cross.setAttribute("visibility", "hidden");
    say(points.at(-1));
  };
  const ticks = Math.max(1, Math.min(6, Math.floor(inner / 110)));
  return s(
    "svg",
    { width, height: HEIGHT, role: "img", "aria-label": spoken, onpointermove: follow, onpointerleave: rest },
    scale.map((value) =>
      s(
        "g",
        { class: "grid" },
        s("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
        s("text", { x: EDGE.left - 10, y: y(value) + 4, "text-anchor": "end" }, format(value)),
      ),
    ),
    points.length > 1 &&
      Array.from({ length: ticks + 1 }, (_, place) => {
        const at = times[0] + (span * place) / ticks;
        const anchor = place === 0 ? "start" : place === ticks ? "end" : "middle";
        return s("text", { class: "tick", x: x(at), y: HEIGHT - 6, "text-anchor": anchor }, tick(at, span));
      }),
    s("path", { class: "area", d: area }),
    s("path", { class: "line", d: line }),
    cross,
  );
}

/** A round number above the greatest value, and the marks below it. */
function niceTop(most) {
  const rough = most / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough - 1e-9));
  const marks = Math.ceil(most / step);
  return { top: step * marks, scale: Array.from({ length: marks + 1 }, (_, place) => place * step) };
}
