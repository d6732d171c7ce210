// Whether the store and the server are well, what runs here, and what the server counts.

import { h, replace } from "./dom.js";
import { count, number, perSecond } from "./format.js";
import { badge, command, datasetLink, details, facts, heading, notice, section, volumeLink } from "./parts.js";
import { table } from "./table.js";

const AGAIN = 5_000;

export async function health(visit) {
  let seen = await look(visit);
  let rates = new Map();
  const body = h("div", { class: "stack" });
  const draw = () => replace(body, ...contents(visit, seen, rates));
  visit.every(AGAIN, async () => {
    const next = await look(visit);
    rates = ratesOf(seen.metrics, next.metrics);
    const [was, is] = [verdict(seen), verdict(next)];
    seen = next;
    draw();
    if (was !== is) visit.announce(is);
  });
  draw();
  return [heading("Health"), body];
}

async function look(visit) {
  const [found, listed, metrics] = await Promise.all([visit.get(["health"]), overview(visit), visit.get(["metrics"])]);
  return { found, listed, metrics };
}

/** What is on the store. A store that does not answer is a finding of this page, and no reason to show nothing. */
async function overview(visit) {
  try {
    return await visit.get(["overview"]);
  } catch (error) {
    if (visit.signal.aborted || error.status === 401) throw error;
    return { datasets: [], volumes: [], datasets_total: null, volumes_total: null, next: null };
  }
}

const failing = ({ found }) => found.checks.filter((check) => !check.ok);
const unhealthy = ({ listed }) => [
  ...listed.datasets.filter((row) => row.error ?? row.problem).map((row) => ({ ...row, what: "dataset", href: datasetLink(row.name) })),
  ...listed.volumes.filter((row) => row.error).map((row) => ({ ...row, what: "volume", href: volumeLink(row.name) })),
];

function verdict(seen) {
  const problems = failing(seen).length + unhealthy(seen).length;
  return problems ? count(problems, "problem") : "No problem found";
}

const key = (sample) => `${sample.name}${JSON.stringify(sample.labels)}`;

function ratesOf(before, now) {
  const seconds = now.at - before.at;
  const values = new Map(before.metrics.map((sample) => [key(sample), sample.value]));
  return new Map(
    now.metrics
      .filter((sample) => sample.kind === "counter" && seconds > 0)
      .map((sample) => [key(sample), (sample.value - (values.get(key(sample)) ?? 0)) / seconds]),
  );
}

function contents(visit, seen, rates) {
  const { found, listed, metrics } = seen;
  const version = Object.fromEntries(found.versions);
  const problems = unhealthy(seen);
  return [
    facts([
      ["Verdict", verdict(seen)],
      ["Datasets", number(listed.datasets_total)],
      ["Volumes", number(listed.volumes_total)],
      ["Lode", version.lode],
    ]),
    section("Checks", checks(found)),
    problems.length || listed.next ? section("Datasets and volumes with problems", unwell(problems), part(listed)) : "",
    found.probed ? "" : section(
      "Concurrent writers",
      h("p", {}, "Whether the store keeps its promises to concurrent writers is found out by writing a few small objects, which this page never does. This command does, and removes them again:"),
      command(visit, found.doctor, "the command that probes the store"),
    ),
    h(
      "div",
      { class: "split" },
      section("Versions", details(found.versions.map(([name, number]) => [name, number ?? "not installed"]))),
      found.live ? section("Access", details(found.access)) : "",
    ),
    found.live ? section("Limits", limits(found.limits)) : "",
    section("Metrics", metrics.live ? counted(metrics, rates) : notice("This console looks at a store. Limits and metrics are those of lode serve.")),
  ];
}

function checks(found) {
  return table({
    caption: found.probed ? "Checks of the store and the server" : "Checks that only read",
    tall: true,
    rows: found.checks,
    columns: [
      { label: "Check", header: true, cell: (row) => row.check },
      { label: "Result", cell: (row) => (row.ok ? badge("ok", "good") : badge("problem", "bad")) },
      { label: "Detail", cell: (row) => row.detail },
    ],
  });
}

function unwell(rows) {
  return table({
    caption: "Datasets and volumes with problems",
    tall: true,
    rows,
    empty: "None among those that were looked at.",
    columns: [
      {
        label: "Name and reason",
        header: true,
        sort: (row) => row.name,
        cell: (row) => [h("a", { href: row.href }, row.name), h("small", { class: "wrong" }, row.error ?? row.problem)],
      },
      { label: "Is a", wide: true, cell: (row) => row.what },
    ],
  });
}

const part = (listed) => (listed.next ? notice(`The first ${number(listed.datasets.length)} of ${count(listed.datasets_total, "dataset")} were looked at.`) : "");

function limits(rows) {
  return table({
    caption: "Limits of the server",
    tall: true,
    rows,
    columns: [
      { label: "Limit", header: true, cell: (row) => [h("span", { class: "mono" }, row.name), h("small", {}, row.help)] },
      { label: "Value", numeric: true, cell: (row) => row.text },
    ],
  });
}

const labels = (row) => Object.values(row.labels).join(", ");

function counted(metrics, rates) {
  return table({
    caption: "What the server counts",
    tall: true,
    rows: metrics.metrics,
    columns: [
      { label: "Metric", header: true, sort: (row) => row.name, cell: (row) => [h("span", { class: "mono" }, row.name), h("small", { class: "narrow" }, labels(row)), h("small", {}, row.help)] },
      { label: "Of", wide: true, cell: labels },
      { label: "Value", numeric: true, sort: (row) => row.value, cell: (row) => (Number.isInteger(row.value) ? number(row.value) : row.value.toPrecision(3)) },
      { label: "Rate", numeric: true, wide: true, sort: (row) => rates.get(key(row)), cell: (row) => (rates.has(key(row)) ? perSecond(rates.get(key(row)), "") : "") },
    ],
  });
}
