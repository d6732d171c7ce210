// One volume: what of it is there, and where the holes are.

import { copyButton } from "./copy.js";
import { freshId, h, onWidth, s } from "./dom.js";
import { bytes, count, number, share } from "./format.js";
import { cut, details, facts, heading, idLink, notice, section, timeAgo, timeOrAgo, volumeLink } from "./parts.js";
import { table } from "./table.js";

const AGAIN = 5_000;
const BAR = 56;

export async function volume(visit, name, at = null) {
  const found = await visit.get(["volumes", name], { at });
  const isNewest = found.latest === found.newest;
  if (isNewest && !at) {
    visit.every(AGAIN, async () => {
      const next = await visit.get(["volumes", name]);
      if (next.latest !== found.latest) dispatchEvent(new HashChangeEvent("hashchange"));
    });
  }
  return [
    heading(name, {
      trail: [["Overview", "#/"], ...(at ? [[name, volumeLink(name)]] : [])],
      remark: h("span", { class: "id-link" }, h("span", { class: "mono id" }, found.latest), copyButton(visit, found.latest, "the id of this snapshot")),
    }),
    isNewest ? "" : notice(`This is snapshot ${number(found.snapshots)}, not the newest.`, "warn"),
    facts([
      ["There", share(found.bytes / found.length)],
      ["Held", bytes(found.bytes)],
      ["Length", bytes(found.length)],
      ["Blocks", number(found.blocks)],
      ["Written", timeAgo(found.last_write)],
    ]),
    section("About", details([["Snapshot", number(found.snapshots)], ["Checksum", found.checksum ?? "none"], ...found.metadata])),
    section("Coverage", coverage(visit, found)),
    section("Holes", holes(found)),
    section("Snapshots", history(visit, name, found)),
  ];
}

function coverage(visit, found) {
  const missing = found.length - found.bytes;
  const summary = found.gaps_total
    ? `${bytes(missing)} are missing, in ${count(found.gaps_total, "hole")}.`
    : "Nothing is missing.";
  const readout = h("output", { class: "readout" }, summary);
  const plot = h("div", { class: "plot" });
  const spoken = `${share(found.bytes / found.length)} of ${bytes(found.length)} is there. ${summary}`;
  visit.leave(onWidth(plot, (width) => plot.replaceChildren(bar(width, found, spoken, readout, summary))));
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, h("span", {}, "From the first byte to the last"), readout),
    plot,
    h(
      "p",
      { class: "legend" },
      h("span", {}, swatch(1), "there"),
      h("span", {}, swatch(0.5), "partly there"),
      h("span", {}, swatch(0), "hole"),
    ),
  );
}

function hatch(id) {
  return s(
    "pattern",
    { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { class: "hole", width: 6, height: 6 }),
    s("line", { class: "hatch", x1: 0, x2: 0, y1: 0, y2: 6 }),
  );
}

function swatch(part) {
  const id = freshId("hatch");
  return s(
    "svg",
    { width: 16, height: 16, "aria-hidden": "true" },
    hatch(id),
    s("rect", { x: 1, y: 1, width: 14, height: 14, fill: `url(#${id})` }),
    s("rect", { class: "fill", x: 1, y: 1 + 14 * (1 - part), width: 14, height: 14 * part }),
  );
}

function bar(width, found, spoken, readout, summary) {
  const id = freshId("hatch");
  const cells = found.coverage;
  const wide = width / cells.length;
  const point = (event) => {
    const place = Math.min(cells.length - 1, Math.max(0, Math.floor(event.offsetX / wide)));
    const start = (place * found.length) / cells.length;
    readout.textContent = `${bytes(start)} to ${bytes(start + found.length / cells.length)}: ${share(cells[place])} there`;
  };
  const rest = () => (readout.textContent = summary);
  const marks = width < 500 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1];
  return s(
    "svg",
    { class: "coverage", width, height: BAR + 24, role: "img", "aria-label": spoken, onpointermove: point, onpointerleave: rest },
    hatch(id),
    s("rect", { width, height: BAR, fill: `url(#${id})` }),
    runs(cells).map(([first, last, part]) =>
      s("rect", {
        class: "fill",
        x: (first * wide).toFixed(2),
        y: (BAR * (1 - part)).toFixed(2),
        width: ((last - first + 1) * wide).toFixed(2),
        height: (BAR * part).toFixed(2),
      }),
    ),
    s("rect", { class: "frame", x: 0.5, y: 0.5, width: width - 1, height: BAR - 1 }),
    marks.map((mark) =>
      s(
        "text",
        { class: "tick", x: width * mark, y: BAR + 18, "text-anchor": mark === 0 ? "start" : mark === 1 ? "end" : "middle" },
        bytes(found.length * mark),
      ),
    ),
  );
}

/** Neighbours that are alike are one rectangle, without seams. */
function runs(cells) {
  const found = [];
  cells.forEach((part, place) => {
    const last = found.at(-1);
    if (last && last[2] === part && last[1] === place - 1) last[1] = place;
    else if (part > 0) found.push([place, place, part]);
  });
  return found;
}

function holes(found) {
  if (!found.gaps_total) return notice("There are none: the volume is complete.");
  const list = table({
    caption: "Holes, by offset",
    rows: found.gaps,
    columns: [
      { label: "From byte", header: true, numeric: true, sort: ([offset]) => offset, cell: ([offset]) => number(offset) },
      { label: "To byte", numeric: true, cell: ([offset, length]) => number(offset + length) },
      { label: "Length", numeric: true, sort: ([, length]) => length, cell: ([, length]) => bytes(length) },
    ],
  });
  return h("div", {}, list, cut(found.gaps, found.gaps_total, "hole"));
}

function history(visit, name, found) {
  const list = table({
    caption: `Snapshots of ${name}, newest first`,
    rows: found.snapshots_shown,
    columns: [
      { label: "#", numeric: true, sort: (row) => row.sequence, cell: (row) => number(row.sequence) },
      {
        label: "Snapshot",
        header: true,
        // The command line takes the number of a volume's snapshot or all of its id.
        cell: (row) =>
          idLink(visit, volumeLink(name, row.id), { id: row.id, short: row.id, name: `snapshot ${row.sequence}` }, { "aria-current": row.id === found.latest ? "true" : null }),
      },
      { label: "Time", sort: (row) => row.created_at, cell: (row) => timeOrAgo(row.created_at) },
      { label: "There", numeric: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
      { label: "Blocks", numeric: true, wide: true, sort: (row) => row.blocks, cell: (row) => number(row.blocks) },
    ],
  });
  return h("div", {}, list, found.broken ? notice(found.broken, "bad") : "");
}
