// One snapshot: its rows, columns, partitions, files and metadata.

import { h } from "./dom.js";
import { bytes, count, number } from "./format.js";
import { datasetLink, facts, heading, notice, section, snapshotLink, table, time, timeAgo } from "./parts.js";

export async function snapshot(visit, name, id) {
  const [found, rows] = await Promise.all([
    visit.get(["datasets", name, "snapshots", id]),
    visit.get(["datasets", name, "snapshots", id, "rows"]).catch((error) => {
      if (visit.signal.aborted || error.status === 401) throw error;
      return { problem: error.message };
    }),
  ]);
  return [
    heading(`Snapshot ${number(found.sequence)}`, {
      trail: [["Overview", "#/"], [name, datasetLink(name)]],
      note: h("span", { class: "mono id" }, found.id),
    }),
    neighbours(name, found),
    facts([
      ["Operation", found.operation === "append" ? null : found.operation],
      ["Written", timeAgo(found.created_at)],
      ["Rows", number(found.rows)],
      ["Size", bytes(found.bytes)],
      ["Files", number(found.files_total)],
      ["Codec", `${found.codec ?? "none, a blob"}${found.compressor === "noop" ? "" : ` + ${found.compressor}`}`],
      ["Checksum", found.checksum ?? "none"],
      ["Covers", found.min_timestamp ? [time(found.min_timestamp), " to ", time(found.max_timestamp)] : null],
      ["Writer", found.writer],
      ["Rebased", found.rebased ? `behind ${count(found.rebased, "other")}` : null],
      ["Idempotency key", found.idempotency ? found.idempotency.filter(Boolean).join(" / ") : null],
    ]),
    section("Rows", ...sample(rows)),
    found.columns.length ? section("Columns", columns(found), cut(found.columns, found.columns_total, "column")) : "",
    found.partitions.length ? section("Partitions", partitions(found), cut(found.partitions, found.partitions_total, "partition")) : "",
    section("Files", files(found), cut(found.files, found.files_total, "file")),
    section("Metadata", metadata(found)),
  ];
}

function neighbours(name, found) {
  const step = (label, id) => (id ? h("a", { href: snapshotLink(name, id) }, label) : h("span", { "aria-disabled": "true" }, label));
  return h(
    "nav",
    { class: "pager", "aria-label": "Snapshots beside this one" },
    step("← Parent", found.parent),
    step("Child →", found.child),
    h("span", {}, `${number(found.sequence)} of ${number(found.of)}`),
  );
}

const cut = (shown, total, noun) => (total > shown.length ? notice(`The first ${number(shown.length)} of ${count(total, noun)}.`) : "");

function* sample(found) {
  if (found.problem) return yield notice(found.problem, "bad");
  if (found.blob) return yield* blob(found.blob);
  if (!found.rows.length) return yield notice("This snapshot has no rows.");
  yield table({
    caption: "The first rows",
    rows: found.rows,
    columns: found.columns.map((column, place) => ({
      label: column.name,
      numeric: column.numeric,
      class: "value",
      cell: (row) => value(row[place]),
    })),
  });
  const more = [];
  if (found.more) more.push(`the first ${count(found.rows.length, "row")}`);
  if (found.columns_total > found.columns.length) more.push(`${number(found.columns.length)} of ${count(found.columns_total, "column")}`);
  if (more.length) yield notice(`Shown: ${more.join(", ")}.`);
}

function value(text) {
  if (text === null) return h("span", { class: "null" }, "null");
  return h("span", { title: text.length > 40 ? text : null }, text);
}

function* blob(found) {
  yield h("pre", { tabindex: "0", "aria-label": "The first bytes" }, found.text ?? found.hex ?? "");
  if (found.more) yield notice("Only the beginning is shown.");
}

function columns(found) {
  return table({
    caption: "Columns and their statistics",
    rows: found.columns,
    columns: [
      { label: "Column", header: true, cell: (row) => row.name },
      { label: "Least", class: "value", cell: (row) => row.min ?? "–" },
      { label: "Greatest", class: "value", cell: (row) => row.max ?? "–" },
      { label: "Nulls", numeric: true, cell: (row) => number(row.nulls) },
    ],
  });
}

function partitions(found) {
  return table({
    caption: "Partitions",
    rows: found.partitions,
    columns: [
      { label: "Partition", header: true, cell: (row) => h("span", { class: "mono" }, row.partition) },
      { label: "Rows", numeric: true, cell: (row) => number(row.rows) },
      { label: "Size", numeric: true, cell: (row) => bytes(row.bytes) },
      { label: "Files", numeric: true, cell: (row) => number(row.files) },
    ],
  });
}

function files(found) {
  return table({
    caption: "Files",
    rows: found.files,
    empty: "This snapshot has no files.",
    columns: [
      { label: "File", header: true, class: "value", cell: (row) => h("span", { class: "mono", title: row.path }, row.path) },
      { label: "Rows", numeric: true, cell: (row) => number(row.rows) },
      { label: "Size", numeric: true, cell: (row) => bytes(row.bytes) },
      { label: "Checksum", wide: true, cell: (row) => (row.checksum ? h("span", { class: "mono", title: row.checksum }, `${row.checksum.slice(0, 12)}…`) : "–") },
    ],
  });
}

function metadata(found) {
  if (!found.metadata.length) return notice("It has none.");
  return h("dl", { class: "pairs" }, found.metadata.map(([key, text]) => h("div", {}, h("dt", {}, key), h("dd", {}, text))));
}
