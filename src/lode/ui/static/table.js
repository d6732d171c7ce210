// Tables: headers, sorting by a click on a header, and a box that scrolls where there is no room.

import { h, s } from "./dom.js";

const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
// How each table of this tab was last sorted, by page and caption: a table is made anew when its page changes.
const chosen = new Map();

/**
 * A table with headers. A column is {label, cell(row), numeric, wide, header, class, sort(row), key}: a wide one
 * is left out where there is no room, and the header of a row names it. ``sort`` gives the value by which the
 * rows of this table are sorted. A ``key`` is sorted by the server: see ``order``. A table that is not tall
 * scrolls by itself.
 *
 * A row that is ``alone`` has its header only, over the whole width.
 * ``order`` is {key, direction, choose(key, direction)} for a table whose other rows are on the server.
 */
export function table({ caption, columns, rows, empty = "There is nothing here.", tall = false, order = null, alone = () => false }) {
  const place = `${location.hash} ${caption}`;
  let sorted = chosen.get(place) ?? { label: null, direction: "none" };
  const classes = (column) => [column.numeric && "number", column.wide && "wide", column.class].filter(Boolean).join(" ") || null;
  const cell = (column, row) =>
    column.header ? h("th", { scope: "row", class: classes(column) }, column.cell(row)) : h("td", { class: classes(column) }, column.cell(row));
  const only = columns.find((column) => column.header);
  const line = (row) => h("tr", {}, alone(row) ? h("th", { scope: "row", colspan: columns.length }, only.cell(row)) : columns.map((column) => cell(column, row)));
  const lines = rows.map(line);
  const body = h("tbody", {}, lines.length ? null : h("tr", {}, h("td", { colspan: columns.length, class: "empty" }, empty)));

  function arrange() {
    const column = columns.find((one) => one.label === sorted.label);
    const ordered = column?.sort && sorted.direction !== "none" ? arranged(rows, column.sort, sorted.direction) : rows.map((_, number) => number);
    body.append(...ordered.map((number) => lines[number]));
    columns.forEach((one, number) => {
      if (one.sort) headers[number].setAttribute("aria-sort", one.label === sorted.label ? sorted.direction : "none");
    });
  }

  function header(column) {
    if (rows.length < 2 && !order) return h("th", { scope: "col", class: classes(column) }, column.label);
    if (column.key && order) {
      const direction = order.key === column.key ? order.direction : "none";
      // A server has no order of its own to go back to: two directions only.
      const next = direction === "none" ? (column.numeric ? "descending" : "ascending") : direction === "ascending" ? "descending" : "ascending";
      return sortHeader(column, classes(column), direction, () => order.choose(column.key, next));
    }
    if (!column.sort) return h("th", { scope: "col", class: classes(column) }, column.label);
    return sortHeader(column, classes(column), "none", () => {
      const direction = sorted.label === column.label ? sorted.direction : "none";
      sorted = { label: column.label, direction: NEXT[direction] };
      chosen.set(place, sorted);
      arrange();
    });
  }

  const headers = columns.map(header);
  if (lines.length) arrange();
  return h(
    "div",
    { class: tall ? "scroll" : "scroll low", role: "region", "aria-label": caption, tabindex: "0" },
    h("table", {}, h("caption", { class: "visually-hidden" }, caption), h("thead", {}, h("tr", {}, headers)), body),
  );
}

function sortHeader(column, classes, direction, choose) {
  return h(
    "th",
    { scope: "col", class: classes, "aria-sort": direction },
    h("button", { type: "button", class: "sort", "data-focus": `sort ${column.label}`, onclick: choose }, column.label, arrows()),
  );
}

function arrows() {
  return s(
    "svg",
    { class: "arrows", width: 9, height: 12, viewBox: "0 0 9 12", "aria-hidden": "true", focusable: "false" },
    s("path", { class: "up", d: "M1 4.5L4.5 1L8 4.5" }),
    s("path", { class: "down", d: "M1 7.5L4.5 11L8 7.5" }),
  );
}

/** The numbers of the rows in the order of their values. Rows without a value come last in either direction. */
export function arranged(rows, value, direction) {
  const sign = direction === "descending" ? -1 : 1;
  const values = rows.map(value);
  const isMissing = (one) => one === null || one === undefined || Number.isNaN(one);
  return values
    .map((_, number) => number)
    .sort((one, other) => {
      const [left, right] = [values[one], values[other]];
      if (isMissing(left) || isMissing(right)) return Number(isMissing(left)) - Number(isMissing(right)) || one - other;
      return sign * compared(left, right) || one - other;
    });
}

function compared(left, right) {
  if (typeof left === "string" && typeof right === "string") return words.compare(left, right);
  return left < right ? -1 : left > right ? 1 : 0;
}

/** The value of a number that came as text: whole numbers of any length stay exact. */
export function numeral(text) {
  if (text === null) return null;
  if (/^-?\d+$/.test(text)) return BigInt(text);
  return Number(text);
}
