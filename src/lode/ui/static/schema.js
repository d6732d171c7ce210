// The columns of a dataset: name, type, whether null is allowed, and what each is used for.

import { h } from "./dom.js";
import { number } from "./format.js";
import { badge, cut, notice } from "./parts.js";
import { table } from "./table.js";

const NAME = { label: "Column", header: true, sort: (row) => row.name, cell: (row) => [h("span", { class: "name" }, row.name), row.roles.map((role) => badge(role, "plain"))] };
const TYPE = { label: "Type", class: "value", sort: (row) => row.type, cell: (row) => h("span", { class: "mono", title: row.type }, row.type ?? "–") };
const NULLABLE = { label: "Nullable", sort: (row) => row.nullable, cell: (row) => (row.nullable === null ? "–" : row.nullable ? "yes" : "no") };

/** The declared columns. */
export function schema({ columns, columns_total: total }) {
  if (!columns.length) return notice("It has no declared columns: blobs, or records without a schema.");
  return h("div", {}, table({ caption: "Columns of the dataset", rows: columns, columns: [NAME, TYPE, NULLABLE] }), cut(columns, total, "column"));
}

/** The columns of a snapshot, with what its files recorded about them. */
export function statistics({ columns, columns_total: total }) {
  const shown = [
    NAME,
    TYPE,
    { ...NULLABLE, wide: true },
    { label: "Least", class: "value", cell: (row) => row.min ?? "–" },
    { label: "Greatest", class: "value", cell: (row) => row.max ?? "–" },
    { label: "Nulls", numeric: true, sort: (row) => row.nulls, cell: (row) => number(row.nulls) },
  ];
  return h("div", {}, table({ caption: "Columns and their statistics", rows: columns, columns: shown }), cut(columns, total, "column"));
}
