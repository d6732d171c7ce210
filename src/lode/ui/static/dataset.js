// One dataset: what it is, how to open it, its chain, columns, rows, partitions, growth and history.

import { Chain } from "./chain.js";
import { chart } from "./chart.js";
import { h, replace } from "./dom.js";
import { bytes, compact, count, number } from "./format.js";
import { history } from "./history.js";
import { badge, command, details, facts, heading, note, notice, section, snapshotLink, time, timeAgo } from "./parts.js";
import { partitions } from "./partitions.js";
import { readRows, sample } from "./rows.js";
import { schema } from "./schema.js";
import { snippets } from "./snippets.js";

const AGAIN = 5_000;
const TRAIL = [["Overview", "#/"]];

export async function dataset(visit, name) {
  try {
    return await healthy(visit, name);
  } catch (error) {
    if (!error.damaged) throw error;
    return damaged(visit, name, error);
  }
}

async function healthy(visit, name) {
  const lines = history(visit, name);
  const parts = partitions(visit, name);
  const readSample = () => readRows(visit, ["datasets", name, "rows"], { limit: 10 });
  let [found, rows] = await Promise.all([visit.get(["datasets", name]), readSample(), lines.load()]);
  const { command: verify } = problem(found) ? await visit.get(["datasets", name, "verify"]) : { command: null };
  if (found.partitioned_by.length) await parts.load();
  const chain = new Chain(visit, found);
  const top = h("div", { class: "stack" });
  const about = h("div", {});
  const columns = h("div", {});
  const shown = h("div", {});
  const growth = h("div", { class: "charts" });
  const busy = h("div", {});

  function draw() {
    replace(top, found.definition.description ? h("p", { class: "lead" }, found.definition.description) : "", ...warnings(visit, found, verify), numbers(found));
    replace(about, details(described(found)));
    replace(columns, schema(found.definition));
    replace(shown, ...sample(rows, "A sample of rows"), rows.snapshot ? origin(name, rows) : "");
    const series = (key) => found.buckets.map((bucket) => ({ time: bucket.to, value: bucket[key] }));
    growth.replaceChildren(
      chart(visit, { title: "Rows", points: series("total_rows"), format: compact }),
      chart(visit, { title: "Bytes", points: series("total_bytes"), format: bytes }),
    );
    replace(busy, ...contention(visit, found.contention));
  }

  visit.every(AGAIN, async () => {
    const next = await visit.get(["datasets", name]);
    const isSame = ["latest", "pending", "broken"].every((key) => next[key] === found[key]);
    if (isSame) return;
    const more = next.snapshots - found.snapshots;
    found = next;
    rows = await readSample();
    draw();
    chain.update(found);
    await Promise.all([lines.refresh(), found.partitioned_by.length ? parts.refresh() : null]);
    visit.announce(more > 0 ? `${count(more, "new snapshot")}, ${count(found.snapshots, "snapshot")} now` : "The dataset changed.");
  });

  draw();
  return [
    heading(name, { trail: TRAIL, mark: problem(found) ? badge("Damaged", "bad") : null }),
    top,
    h("div", { class: "split" }, section("About", about), section("Open this dataset", snippets(visit, found.open))),
    section("Chain", chain.node),
    section("Columns", columns),
    section("Rows", shown),
    found.partitioned_by.length ? section("Partitions", parts.node) : "",
    section("Growth", growth),
    busy,
    section("History", lines.node),
  ];
}

/** A dataset that cannot be opened: why, and what finds out more. */
async function damaged(visit, name, error) {
  const { command: verify } = await visit.get(["datasets", name, "verify"]);
  return [
    heading(name, { trail: TRAIL, mark: badge("Damaged", "bad") }),
    notice(`This dataset cannot be opened: ${error.message}`, "bad"),
    section("What to do", h("p", {}, "This command reads all of it and lists what is wrong:"), command(visit, verify, "the command that checks it")),
    h("p", {}, h("button", { type: "button", onclick: () => dispatchEvent(new HashChangeEvent("hashchange")) }, "Try again")),
  ];
}

const problem = (found) => found.broken ?? found.definition.problem;

function numbers(found) {
  const least = found.whole ? "" : "at least ";
  return facts([
    ["Rows", `${least}${compact(found.rows)}`],
    ["Size", `${least}${bytes(found.bytes)}`],
    ["Snapshots", number(found.snapshots)],
    ["Partitions", found.partitioned_by.length ? number(found.partitions) : null],
    ["Last write", timeAgo(found.last_write)],
  ]);
}

function described(found) {
  const { definition } = found;
  const list = (names) => names?.join(", ") || null;
  return [
    ["Stored as", `${found.codec ?? "blobs, without a codec"}${found.compressor === "noop" ? "" : ` + ${found.compressor}`}`],
    ["Checksum", found.checksum ?? "none"],
    ["Partitioned by", list(found.partitioned_by) ?? "nothing"],
    ["Primary key", list(definition.primary_key)],
    ["Sorted by", list(definition.sort_by)],
    ["Timestamp column", definition.timestamp_column],
    ["First write", time(found.first_write)],
    ...(definition.properties ?? []),
  ];
}

/** How the writers of recent snapshots met; nothing if none of them did. */
function* contention(visit, { recent, rebased, grouped, groups, largest, points }) {
  if (!rebased && !grouped) return;
  const sentences = [`Of the newest ${count(recent, "snapshot")}, ${number(rebased)} ${rebased === 1 ? "was" : "were"} rebased behind others.`];
  if (grouped) sentences.push(`${number(grouped)} were committed in ${count(groups, "group")}, the largest of ${number(largest)}, each by one swap.`);
  const series = (key) => points.map((point) => ({ time: point.time, value: point[key] }));
  yield section(
    "Contention",
    h(
      "div",
      { class: "charts" },
      chart(visit, { title: "Rebased behind", points: series("rebased"), format: number }),
      chart(visit, { title: "Group size", points: series("group"), format: number }),
    ),
    note(sentences.join(" ")),
  );
}

function origin(name, rows) {
  return note("From ", h("a", { href: snapshotLink(name, rows.snapshot) }, `snapshot ${number(rows.sequence)}`), ", the newest with data.");
}

function* warnings(visit, found, verify) {
  if (found.broken) yield notice(`The history cannot be followed further back than snapshot ${number(found.first)}: ${found.broken}`, "bad");
  else if (!found.whole) yield notice(`Only the newest ${number(found.snapshots - found.first + 1)} snapshots are shown.`);
  if (found.definition.problem) yield notice(found.definition.problem, "bad");
  if (verify) yield command(visit, verify, "the command that checks it");
  if (found.pending) {
    yield notice(`Snapshot ${found.pending} has its place but is not published yet. Its writer is still at work, or the next write publishes it.`, "warn");
  }
}
