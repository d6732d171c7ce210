// Everything on the store: datasets and volumes.

import { h, replace, s } from "./dom.js";
import { bytes, compact, count, number, share } from "./format.js";
import { badge, datasetLink, facts, heading, section, timeAgo, volumeLink } from "./parts.js";
import { table } from "./table.js";

const AGAIN = 10_000;

export async function overview(visit) {
  let after = null;
  const before = [];
  let found = await visit.get(["overview"]);
  let filter = "";
  const body = h("div", { class: "stack" });
  const draw = () => replace(body, ...contents(found, filter, turn, before.length > 0));

  async function load(start) {
    found = await visit.get(["overview"], { after: start });
    after = start;
    draw();
  }
  async function turn(direction) {
    if (direction > 0) {
      before.push(after);
      await load(found.next);
    } else await load(before.pop() ?? null);
    visit.announce(`${count(found.datasets.length, "dataset")} shown`);
  }

  const field = h("input", {
    id: "filter",
    type: "search",
    autocomplete: "off",
    oninput: () => {
      filter = field.value.trim().toLowerCase();
      draw();
      visit.announce(`${matching(found.datasets, filter).length} datasets match`);
    },
  });
  visit.every(AGAIN, async () => {
    const seen = JSON.stringify(found);
    const next = await visit.get(["overview"], { after });
    if (JSON.stringify(next) === seen) return;
    found = next;
    draw();
    visit.announce("The overview is up to date again.");
  });
  draw();
  return [
    h(
      "div",
      { class: "topline" },
      heading("Overview"),
      h("div", { class: "filter" }, h("label", { for: "filter" }, "Filter by name"), field),
    ),
    body,
  ];
}

const matching = (rows, filter) => rows.filter((row) => row.name.toLowerCase().includes(filter));

function contents(found, filter, turn, hasBefore) {
  const datasets = matching(found.datasets, filter);
  const volumes = matching(found.volumes, filter);
  const healthy = found.datasets.filter((row) => !row.error);
  const latest = [...healthy, ...found.volumes.filter((row) => !row.error)].map((row) => row.last_write).sort().at(-1);
  const sum = (name) => healthy.reduce((total, row) => total + row[name], 0);
  const isPart = found.next || hasBefore;
  const wrong = [...found.datasets, ...found.volumes].filter((row) => row.error || row.problem).length;
  return [
    facts([
      ["Datasets", number(found.datasets_total)],
      ["Volumes", number(found.volumes_total)],
      [isPart ? "Rows on this page" : "Rows", compact(sum("rows"))],
      [isPart ? "Size on this page" : "Size", bytes(sum("bytes"))],
      ["Last write", latest ? timeAgo(latest) : "–"],
      [isPart ? "Damaged on this page" : "Damaged", wrong ? number(wrong) : null],
    ]),
    section("Datasets", datasetTable(datasets, filter)),
    isPart &&
      h(
        "p",
        { class: "pager" },
        h("button", { type: "button", disabled: !hasBefore, onclick: () => turn(-1) }, "Before"),
        h("button", { type: "button", disabled: !found.next, onclick: () => turn(1) }, "More"),
        h("span", {}, "Pages are by name. Filter and sorting apply to this page."),
      ),
    volumes.length || found.volumes_total ? section("Volumes", volumeTable(volumes)) : null,
  ];
}

function datasetTable(rows, filter) {
  return table({
    caption: "Datasets",
    tall: true,
    alone: (row) => row.error,
    rows,
    empty: filter ? "No dataset has this in its name." : "There are no datasets here yet.",
    columns: [
      { label: "Name", header: true, class: "named", sort: (row) => row.name, cell: (row) => [named(datasetLink(row.name), row), under(row)] },
      { label: "Kind", wide: true, class: "state", sort: (row) => (row.error ? null : kind(row)), cell: (row) => kind(row) },
      { label: "Growth", wide: true, cell: (row) => spark(row.growth) },
      { label: "Rows", numeric: true, sort: (row) => row.rows, cell: (row) => `${row.whole ? "" : "at least "}${number(row.rows)}` },
      { label: "Size", numeric: true, wide: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
      { label: "Snapshots", numeric: true, wide: true, sort: (row) => row.snapshots, cell: (row) => number(row.snapshots) },
      { label: "Last write", numeric: true, sort: (row) => row.last_write, cell: (row) => timeAgo(row.last_write) },
    ],
  });
}

function kind(row) {
  const keys = row.partitioned_by.length ? ` by ${row.partitioned_by.join(", ")}` : "";
  return `${row.codec ?? "blobs"}${keys}`;
}

function under(row) {
  if (row.error) return h("small", { class: "wrong" }, row.error);
  return [
    h("small", { class: "narrow" }, `${kind(row)} · ${bytes(row.bytes)} · ${count(row.snapshots, "snapshot")}`),
    row.problem ? h("small", { class: "wrong" }, row.problem) : null,
    row.pending ? h("small", { class: "mark" }, "one snapshot not yet published") : null,
  ];
}

/** The name as a link, with a mark if something is wrong. */
function named(href, row) {
  return h("span", { class: "marked" }, h("a", { href, title: row.name }, row.name), row.error || row.problem ? badge("Damaged", "bad") : null);
}

function volumeTable(rows) {
  return table({
    caption: "Volumes",
    tall: true,
    alone: (row) => row.error,
    rows,
    columns: [
      { label: "Name", header: true, class: "named", sort: (row) => row.name, cell: (row) => [named(volumeLink(row.name), row), row.error && h("small", { class: "wrong" }, row.error)] },
      { label: "Filled", sort: (row) => (row.error ? null : row.bytes / row.length), cell: (row) => filled(row) },
      { label: "Length", numeric: true, wide: true, sort: (row) => row.length, cell: (row) => bytes(row.length) },
      { label: "Snapshots", numeric: true, wide: true, sort: (row) => row.snapshots, cell: (row) => number(row.snapshots) },
      { label: "Last write", numeric: true, sort: (row) => row.last_write, cell: (row) => timeAgo(row.last_write) },
    ],
  });
}

function filled(row) {
  const part = row.bytes / row.length;
  return h(
    "span",
    { class: "filled" },
    s(
      "svg",
      { width: 72, height: 8, viewBox: "0 0 72 8", "aria-hidden": "true" },
      s("rect", { class: "track", width: 72, height: 8, rx: 2 }),
      s("rect", { class: "fill", width: Math.max(part ? 1 : 0, 72 * part), height: 8, rx: 2 }),
    ),
    share(part),
  );
}

/** A line so small that only its shape tells; the numbers are beside it. */
function spark(values) {
  if (values.length < 2) return "";
  const most = Math.max(1, ...values);
  const points = values.map((value, place) => `${(2 + (place * 92) / (values.length - 1)).toFixed(1)},${(22 - (20 * value) / most).toFixed(1)}`);
  return s(
    "svg",
    { class: "spark", width: 96, height: 24, viewBox: "0 0 96 24", "aria-hidden": "true" },
    s("polygon", { points: `2,23 ${points.join(" ")} 94,23` }),
    s("polyline", { points: points.join(" ") }),
  );
}
