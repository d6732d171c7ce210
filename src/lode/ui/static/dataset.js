// One dataset: its chain, how it grew, and its history as a table.

import { Chain, moved } from "./chain.js";
import { chart } from "./chart.js";
import { h, replace } from "./dom.js";
import { bytes, compact, count, number } from "./format.js";
import { facts, heading, idText, notice, section, snapshotLink, table, timeAgo, timeOrAgo } from "./parts.js";

const AGAIN = 5_000;
const PAGE = 25;

export async function dataset(visit, name) {
  const history = new HistoryTable(visit, name);
  let [found] = await Promise.all([visit.get(["datasets", name]), history.load(null)]);
  const chain = new Chain(visit, found);
  const summary = h("div", { class: "stack" });
  const growth = h("div", { class: "charts" });
  const schema = h("div", {});

  function draw() {
    replace(summary, found.definition.description ? h("p", {}, found.definition.description) : "", told(found), ...warnings(found));
    schema.replaceChildren(columns(found.definition));
    const series = (key) => found.buckets.map((bucket) => ({ time: bucket.to, value: bucket[key] }));
    growth.replaceChildren(
      chart(visit, { title: "Rows", points: series("total_rows"), format: compact }),
      chart(visit, { title: "Bytes", points: series("total_bytes"), format: bytes }),
    );
  }

  visit.every(AGAIN, async () => {
    const next = await visit.get(["datasets", name]);
    const isSame = ["latest", "pending", "broken"].every((key) => next[key] === found[key]);
    if (isSame) return;
    const more = next.snapshots - found.snapshots;
    found = next;
    draw();
    chain.update(found);
    await history.refresh();
    visit.announce(more > 0 ? `${count(more, "new snapshot")}, ${count(found.snapshots, "snapshot")} now` : "The dataset changed.");
  });

  draw();
  return [
    heading(name, { trail: [["Overview", "#/"]] }),
    summary,
    section("Chain", chain.node),
    section("Growth", growth),
    section("Columns", schema),
    section("History", history.node),
  ];
}

function told(found) {
  const least = found.whole ? "" : "at least ";
  return facts([
    ["Rows", `${least}${compact(found.rows)}`],
    ["Size", `${least}${bytes(found.bytes)}`],
    ["Snapshots", number(found.snapshots)],
    ["Last write", timeAgo(found.last_write)],
    ["Codec", `${found.codec ?? "none, blobs"}${found.compressor === "noop" ? "" : ` + ${found.compressor}`}`],
    ["Checksum", found.checksum ?? "none"],
    ["Partitioned by", found.partitioned_by.length ? found.partitioned_by.join(", ") : "nothing"],
    ["Primary key", found.definition.primary_key?.join(", ") || null],
    ["Sorted by", found.definition.sort_by?.join(", ") || null],
    ["Timestamp", found.definition.timestamp_column],
    ...(found.definition.properties ?? []),
  ]);
}

/** The columns that the dataset has now. */
function columns({ columns: shown, columns_total: total, problem }) {
  if (problem) return notice(`The definition cannot be read: ${problem}`, "bad");
  if (!shown.length) return notice("It has no columns: blobs, or records without a schema.");
  const list = table({
    caption: "Columns of the dataset",
    rows: shown,
    columns: [
      { label: "Column", header: true, cell: (row) => row.name },
      { label: "Type", class: "value", cell: (row) => h("span", { class: "mono" }, row.type) },
      { label: "Required", cell: (row) => (row.required ? "yes" : "no") },
    ],
  });
  return total > shown.length ? h("div", {}, list, notice(`The first ${number(shown.length)} of ${count(total, "column")}.`)) : list;
}

function* warnings(found) {
  if (found.broken) yield notice(`The history cannot be followed further back than snapshot ${number(found.first)}: ${found.broken}`, "bad");
  else if (!found.whole) yield notice(`Only the newest ${number(found.snapshots - found.first + 1)} snapshots are shown.`);
  if (found.pending) {
    yield notice(`Snapshot ${found.pending} has its place but is not published yet: its writer is at it, or died, and then the next write publishes it.`, "warn");
  }
}

/** The history newest first, a page at a time: the same as the chain, for everybody. */
class HistoryTable {
  #visit;
  #name;
  #top = null;
  #found = null;

  constructor(visit, name) {
    this.#visit = visit;
    this.#name = name;
    this.node = h("div", { class: "history" });
  }

  async load(top) {
    const from = top === null ? null : Math.max(1, top - PAGE + 1);
    this.#found = await this.#visit.get(["datasets", this.#name, "history"], { from, limit: top === null ? PAGE : Math.min(PAGE, top) });
    this.#top = top;
    this.#draw();
  }

  /** Read again, unless somebody is looking at older pages, which do not change. */
  async refresh() {
    if (this.#top === null) await this.load(null);
  }

  async #turn(top) {
    await this.load(top);
    const [last, first] = [this.#found.snapshots.at(-1), this.#found.snapshots[0]];
    this.#visit.announce(`Snapshots ${number(last.sequence)} to ${number(first.sequence)}`);
  }

  #draw() {
    const { snapshots, first, last } = this.#found;
    const [oldest, newest] = [snapshots[0].sequence, snapshots.at(-1).sequence];
    const button = (label, top, disabled) =>
      h("button", { type: "button", disabled, onclick: () => this.#turn(top >= last ? null : top) }, label);
    replace(
      this.node,
      table({
        caption: `Snapshots of ${this.#name}, newest first`,
        tall: true,
        rows: [...snapshots].reverse(),
        columns: [
          { label: "#", numeric: true, cell: (line) => number(line.sequence) },
          { label: "Snapshot", header: true, cell: (line) => h("a", { href: snapshotLink(this.#name, line.id) }, idText(line.id)) },
          { label: "Time", cell: (line) => timeOrAgo(line.created_at) },
          { label: "Rows", numeric: true, cell: (line) => number(line.rows) },
          { label: "Size", numeric: true, cell: (line) => bytes(line.bytes) },
          { label: "Files", numeric: true, wide: true, cell: (line) => number(line.files) },
          { label: "Notes", wide: true, cell: (line) => [line.operation !== "append" && line.operation, line.rebased && moved(line), line.keyed && "idempotent"].filter(Boolean).join(", ") },
        ],
      }),
      h(
        "p",
        { class: "pager" },
        button("Newest", last, newest >= last),
        button("Newer", newest + PAGE, newest >= last),
        button("Older", oldest - 1, oldest <= first),
        h("span", {}, `${number(newest)} to ${number(oldest)} of ${number(last)}`),
      ),
    );
  }
}
