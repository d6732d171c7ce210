// A sample of rows as a table, or the first bytes of a blob.

import { h } from "./dom.js";
import { count, number } from "./format.js";
import { note, notice } from "./parts.js";
import { numeral, table } from "./table.js";

// A table of so many rows need not scroll by itself.
const FEW = 12;

/** The rows at an address of the API. What is wrong with them is shown in their place. */
export async function readRows(visit, segments, parameters) {
  try {
    return await visit.get(segments, parameters);
  } catch (error) {
    if (visit.signal.aborted || error.status === 401) throw error;
    return { problem: error.message };
  }
}

export function* sample(found, caption = "The first rows") {
  if (found.problem) return yield notice(found.problem, "bad");
  if (found.blob) return yield* blob(found.blob);
  if (!found.rows.length) return yield notice("This snapshot has no rows.");
  yield table({
    caption,
    tall: found.rows.length <= FEW,
    rows: found.rows,
    columns: found.columns.map((column, place) => ({
      label: column.name,
      numeric: column.numeric,
      class: "value",
      sort: (row) => (column.numeric ? numeral(row[place]) : row[place]),
      cell: (row) => value(row[place]),
    })),
  });
  const { columns_total: total, columns } = found;
  if (found.more) yield note(`The first ${count(found.rows.length, "row")}. Sorting sorts these only.`);
  if (total > columns.length) yield note(`The first ${number(columns.length)} of ${count(total, "column")}.`);
}

function value(text) {
  if (text === null) return h("span", { class: "null" }, "null");
  return h("span", { title: text.length > 40 ? text : null }, text);
}

function* blob(found) {
  yield h("pre", { tabindex: "0", "aria-label": "The first bytes" }, found.text ?? found.hex ?? "");
  if (found.more) yield note("Only the beginning is shown.");
}
