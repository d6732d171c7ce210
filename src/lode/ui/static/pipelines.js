// The pipelines of a lake: a picture of what flows where, and a table of what waits and what failed.

import { h, replace, s } from "./dom.js";
import { compact, count, number } from "./format.js";
import { badge, datasetLink, facts, heading, note, notice, section, snapshotLink, timeAgo } from "./parts.js";
import { table } from "./table.js";

const AGAIN = 5_000;
const BOX = { width: 132, height: 46, across: 32, down: 18 };
const LANE = 12;
const STATES = { done: "good", failed: "bad", skipped: "bad" };

export async function pipelines(visit) {
  let found = await visit.get(["pipelines"]);
  const body = h("div", { class: "stack" });
  const draw = () => replace(body, ...contents(found));
  visit.every(AGAIN, async () => {
    const was = failures(found);
    found = await visit.get(["pipelines"]);
    draw();
    if (failures(found) !== was) visit.announce(`${count(failures(found), "pipeline")} failed`);
  });
  draw();
  return [heading("Pipelines"), body];
}

// A pipeline that was skipped has an error too: the name of the one that failed.
const failures = (found) => found.pipelines.filter((row) => row.last_run?.error && row.last_run.state !== "skipped").length;

function contents(found) {
  if (!found.pipelines.length) return [notice("No dataset here was written by a pipeline.")];
  const sum = (key) => found.pipelines.reduce((total, row) => total + (row[key] ?? 0), 0);
  return [
    facts([
      ["Pipelines", number(found.total)],
      ["Snapshots waiting", number(sum("waiting"))],
      ["Longest wait", duration(Math.max(0, ...found.pipelines.map(lag)))],
      ["Failed", number(failures(found))],
    ]),
    section("Graph", picture(found.graph, found.pipelines)),
    section("State", stateTable(found.pipelines), found.total > found.pipelines.length ? note(`The first ${number(found.pipelines.length)} of ${number(found.total)}.`) : ""),
    section("Lineage", lineageTable(found.pipelines)),
    expectationSection(found.pipelines),
  ];
}

/** How long the oldest snapshot has been waiting, in seconds. */
const lag = (row) => (row.oldest ? Math.max(0, (Date.now() - Date.parse(row.oldest)) / 1000) : 0);

function duration(seconds) {
  if (!seconds) return "–";
  for (const [unit, length] of [["d", 86_400], ["h", 3_600], ["min", 60]]) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return `${Math.ceil(seconds)} s`;
}

/** Datasets are boxes, pipelines are pills between them; every node is a link. */
function picture(graph, pipelines) {
  const states = new Map(pipelines.map((row) => [row.name, row.last_run?.state === "skipped" ? "skipped" : row.last_run?.error ? "failed" : row.waiting ? "waiting" : "current"]));
  const x = (node) => 12 + node.column * (BOX.width + BOX.across);
  const y = (node) => 12 + node.row * (BOX.height + BOX.down);
  const places = new Map(graph.nodes.map((node) => [node.id, node]));
  const width = Math.max(...graph.nodes.map(x)) + BOX.width + 12;
  const floor = Math.max(...graph.nodes.map(y)) + BOX.height + 6;
  // An edge over several columns runs below all nodes, in a lane of its own: it would be hidden behind them.
  const far = graph.edges.filter(({ from, to }) => places.get(to).column - places.get(from).column > 1);
  const height = floor + LANE * far.length + 8;
  const edge = (one) => {
    const [start, end] = [places.get(one.from), places.get(one.to)];
    const [left, right] = [x(start) + BOX.width, x(end)];
    const [top, bottom] = [y(start) + BOX.height / 2, y(end) + BOX.height / 2];
    const bend = BOX.across * 0.6;
    const lane = floor + LANE * (far.indexOf(one) + 0.5);
    const way = far.includes(one) ? `C${left + bend},${top} ${left},${lane} ${left + BOX.across},${lane}H${right - BOX.across}C${right},${lane} ${right - bend - 7},${bottom}` : `C${left + bend},${top} ${right - bend},${bottom}`;
    return s("path", { class: "edge", d: `M${left},${top}${way} ${right - 7},${bottom}`, "marker-end": "url(#arrow)" });
  };
  const drawing = s(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}` },
    s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 2, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" }, s("path", { class: "tip", d: "M0 0L8 4L0 8z" }))),
    graph.edges.map(edge),
    graph.nodes.map((node) => box(node, x(node), y(node), states.get(node.name))),
  );
  return h("div", { class: "flow scroll", role: "region", "aria-label": "Graph of datasets and pipelines", tabindex: "0" }, drawing);
}

function box(node, x, y, state) {
  const isPipeline = node.kind === "pipeline";
  const short = node.name.length > 16 ? `${node.name.slice(0, 15)}…` : node.name;
  const below = isPipeline ? { failed: "✕ failed", skipped: "✕ skipped", waiting: "○ waiting", current: "● up to date" }[state] : node.rows === null ? "elsewhere" : `${compact(node.rows)} rows`;
  const shape = s("rect", { width: BOX.width, height: BOX.height, rx: isPipeline ? BOX.height / 2 : 6 });
  const attributes = { class: `node ${node.kind} ${isPipeline ? state : ""}`, transform: `translate(${x},${y})` };
  const texts = [s("text", { class: "name", x: BOX.width / 2, y: 20 }, short), s("text", { class: "below", x: BOX.width / 2, y: 36 }, below)];
  const title = s("title", {}, `${node.kind} ${node.name}: ${below}`);
  if (isPipeline) return s("g", attributes, title, shape, texts);
  return s("a", { ...attributes, href: datasetLink(node.name), "aria-label": `dataset ${node.name}, ${below}` }, title, shape, texts);
}

function stateTable(rows) {
  return table({
    caption: "State of the pipelines",
    tall: true,
    rows,
    columns: [
      { label: "Pipeline", header: true, class: "named", sort: (row) => row.name, cell: (row) => [row.name, row.last_run?.error ? h("small", { class: "wrong" }, row.last_run.error) : null] },
      { label: "Last run", class: "state", sort: (row) => row.last_run?.state ?? null, cell: (row) => (row.last_run ? badge(row.last_run.error && row.last_run.state === "running" ? "failing" : row.last_run.state, row.last_run.error ? "bad" : STATES[row.last_run.state] ?? "") : "–") },
      { label: "Ended", numeric: true, wide: true, sort: (row) => row.last_run?.ended_at ?? null, cell: (row) => (row.last_run ? timeAgo(row.last_run.ended_at) : "–") },
      { label: "Waiting", numeric: true, sort: (row) => row.waiting, cell: (row) => (row.waiting === null ? "–" : number(row.waiting)) },
      { label: "Lag", numeric: true, sort: lag, cell: (row) => duration(lag(row)) },
      { label: "Rows in", numeric: true, wide: true, sort: (row) => row.last_run?.rows_in ?? null, cell: (row) => number(row.last_run?.rows_in) },
      { label: "Rows out", numeric: true, wide: true, sort: (row) => row.last_run?.rows_out ?? row.rows, cell: (row) => number(row.last_run?.rows_out ?? row.rows) },
    ],
  });
}

function lineageTable(rows) {
  const read = (each) => [h("a", { href: datasetLink(each.dataset) }, each.dataset), ` up to ${number(each.sequence)}`];
  return table({
    caption: "Lineage of the newest snapshot of each pipeline",
    tall: true,
    rows: rows.filter((row) => row.sink),
    columns: [
      { label: "Snapshot of", header: true, class: "named", sort: (row) => row.sink, cell: (row) => h("a", { href: snapshotLink(row.sink, row.snapshot) }, row.sink) },
      { label: "Made by", sort: (row) => row.name, cell: (row) => row.name },
      { label: "From", cell: (row) => [...row.inputs.map(read), ...row.sources].map((each, place) => [place ? ", " : "", each]) },
      { label: "Tables", wide: true, cell: (row) => Object.values(row.tables).join(", ") || "–" },
      { label: "Version of the steps", wide: true, cell: (row) => h("span", { class: "mono" }, row.steps || "–") },
      { label: "Made", numeric: true, sort: (row) => row.made_at, cell: (row) => timeAgo(row.made_at) },
    ],
  });
}

function expectationSection(rows) {
  const all = rows.flatMap((row) => row.expectations.map((each) => ({ ...each, pipeline: row.name })));
  if (!all.length) return null;
  return section(
    "Expectations",
    table({
      caption: "Expectations in the newest snapshot of each pipeline",
      tall: true,
      rows: all,
      columns: [
        { label: "Expectation", header: true, class: "named", sort: (row) => row.name, cell: (row) => row.name },
        { label: "Pipeline", sort: (row) => row.pipeline, cell: (row) => row.pipeline },
        { label: "If not met", cell: (row) => row.on_fail },
        { label: "Rows met", numeric: true, wide: true, sort: (row) => row.passed, cell: (row) => number(row.passed) },
        { label: "Rows not met", numeric: true, sort: (row) => row.failed, cell: (row) => number(row.failed) },
      ],
    }),
  );
}
