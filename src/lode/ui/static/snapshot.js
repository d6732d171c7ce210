// One snapshot: its rows, columns, partitions, files and metadata.

import { together } from "./chain.js";
import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { bytes, count, number } from "./format.js";
import { cut, datasetLink, details, facts, heading, note, notice, section, snapshotLink, time, timeAgo } from "./parts.js";
import { partitions } from "./partitions.js";
import { readRows, sample } from "./rows.js";
import { statistics } from "./schema.js";
import { snippets } from "./snippets.js";
import { table } from "./table.js";

export async function snapshot(visit, name, id) {
  const path = ["datasets", name, "snapshots", id];
  const [found, rows] = await Promise.all([visit.get(path), readRows(visit, [...path, "rows"])]);
  const parts = partitions(visit, name, found.id);
  const isPartitioned = found.partitioned_by.length && found.files_total;
  if (isPartitioned) await parts.load();
  return [
    heading(`Snapshot ${number(found.sequence)}`, {
      trail: [["Overview", "#/"], [name, datasetLink(name)]],
      remark: h("span", { class: "id-link" }, h("span", { class: "mono id" }, found.id), copyButton(visit, found.id, "the id of this snapshot")),
    }),
    neighbours(name, found),
    found.problem ? notice(found.problem, "bad") : "",
    facts([
      ["Rows", number(found.rows)],
      ["Size", bytes(found.bytes)],
      ["Files", number(found.files_total)],
      ...(found.removed.files ? [["Rows removed", number(found.removed.rows)], ["Files removed", number(found.removed.files)]] : []),
      ["Written", timeAgo(found.created_at)],
    ]),
    h("div", { class: "split" }, section("About", details(described(found))), section("Open this snapshot", snippets(visit, found.open))),
    section("Rows", ...sample(rows)),
    found.columns.length ? section("Columns", statistics(found)) : "",
    isPartitioned ? section("Partitions", parts.node) : "",
    section("Files", files(found), cut(found.files, found.files_total, "file")),
    section("Metadata", details(found.metadata) ?? notice("It has none."), found.metadata_total > found.metadata.length ? note(`The first ${number(found.metadata.length)} of ${number(found.metadata_total)}.`) : ""),
  ];
}

function described(found) {
  return [
    ["Operation", found.operation],
    ["Restores", found.restores ? h("a", { href: snapshotLink(found.dataset, found.restores) }, found.restores) : null],
    ["Replaces", replaced(found)],
    ["Rewritten", found.rewritten ? `${count(found.rewritten, "file")} with rows of removed files` : null],
    ["Time", time(found.created_at)],
    ["Covers", found.min_timestamp ? [time(found.min_timestamp), " to ", time(found.max_timestamp)] : null],
    ["Writer", found.writer],
    ["Rebased", found.rebased ? `behind ${count(found.rebased, "other")}` : null],
    ["Committed with", found.group > 1 ? `${count(found.group - 1, "other")}: ${together(found)}` : null],
    ["Idempotency key", found.idempotency ? found.idempotency.filter(Boolean).join(" / ") : null],
    ["Stored as", `${found.codec ?? "a blob, without a codec"}${found.compressor === "noop" ? "" : ` + ${found.compressor}`}`],
    ["Checksum", found.checksum ?? "none"],
  ];
}

function replaced(found) {
  if (!found.replaced_total) return null;
  const more = found.replaced_total - found.replaced.length;
  return `${found.replaced.map((name) => name || "everything").join(", ")}${more ? ` and ${number(more)} more` : ""}`;
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

function files(found) {
  return table({
    caption: "Files",
    rows: found.files,
    empty: "This snapshot has no files.",
    columns: [
      { label: "File", header: true, class: "value", sort: (row) => row.path, cell: (row) => h("span", { class: "mono", title: row.path }, row.path) },
      { label: "Rows", numeric: true, sort: (row) => row.rows, cell: (row) => number(row.rows) },
      { label: "Size", numeric: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
      { label: "Checksum", wide: true, cell: (row) => (row.checksum ? h("span", { class: "mono", title: row.checksum }, `${row.checksum.slice(0, 12)}…`) : "–") },
    ],
  });
}
