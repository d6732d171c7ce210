// Whether the store answers, how fast, and what the server counts.

import { h, replace } from "./dom.js";
import { number, perSecond } from "./format.js";
import { facts, heading, notice, section, table } from "./parts.js";

const AGAIN = 5_000;

export async function health(visit) {
  let seen = await look(visit);
  let rates = new Map();
  const body = h("div", { class: "stack" });
  const draw = () => replace(body, ...contents(seen, rates));
  visit.every(AGAIN, async () => {
    const next = await look(visit);
    rates = ratesOf(seen.metrics, next.metrics);
    seen = next;
    draw();
  });
  draw();
  return [heading("Health"), body];
}

async function look(visit) {
  const began = performance.now();
  const status = await visit.get(["status"]);
  const answered = performance.now();
  const listed = await visit.get(["overview"], { limit: 1 });
  const ended = performance.now();
  const metrics = await visit.get(["metrics"]);
  return { status, listed, metrics, server: answered - began, store: ended - answered };
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

function contents(seen, rates) {
  const { status, listed, metrics } = seen;
  return [
    facts([
      ["Server", "answers"],
      ["Server's answer", `${number(seen.server)} ms`],
      ["Store", "answers"],
      ["Store's listing", `${number(seen.store)} ms`],
      ["Datasets", number(listed.datasets_total)],
      ["Volumes", number(listed.volumes_total)],
      ["Version", status.version],
    ]),
    section(
      "Metrics",
      metrics.live
        ? table({
            caption: "What the server counts",
            tall: true,
            rows: metrics.metrics,
            columns: [
              { label: "Metric", header: true, cell: (row) => [h("span", { class: "mono" }, row.name), h("small", {}, row.help)] },
              { label: "Of", cell: (row) => Object.values(row.labels).join(", ") },
              { label: "Value", numeric: true, cell: (row) => (Number.isInteger(row.value) ? number(row.value) : row.value.toPrecision(3)) },
              { label: "Rate", numeric: true, wide: true, cell: (row) => (rates.has(key(row)) ? perSecond(rates.get(key(row)), "") : "") },
            ],
          })
        : notice("This console looks at a store. Metrics are those of lode serve."),
    ),
  ];
}
