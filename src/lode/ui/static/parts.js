// The parts pages are made of: facts, tables, notices, links.

import { h } from "./dom.js";
import { ago, moment, shortId } from "./format.js";

export const datasetLink = (name) => `#/datasets/${encodeURIComponent(name)}`;
export const snapshotLink = (name, id) => `${datasetLink(name)}/${encodeURIComponent(id)}`;
export const volumeLink = (name, id = null) =>
  `#/volumes/${encodeURIComponent(name)}${id ? `/${encodeURIComponent(id)}` : ""}`;

/** The heading of a page, with the way back to where it belongs. */
export function heading(title, { trail = [], note = null } = {}) {
  const crumbs = trail.length
    ? h(
        "nav",
        { class: "trail", "aria-label": "Breadcrumb" },
        h("ol", {}, trail.map(([label, href]) => h("li", {}, h("a", { href }, label)))),
      )
    : null;
  return h("div", { class: "heading" }, crumbs, h("h1", { tabindex: "-1" }, title), note && h("p", { class: "note" }, note));
}

/** Names and values; those without a value are left out. */
export function facts(pairs) {
  const told = pairs.filter(([, value]) => value !== null && value !== undefined);
  return h("dl", { class: "facts" }, told.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function section(title, ...children) {
  const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

export function notice(text, kind = "plain") {
  return h("p", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null }, text);
}

export const time = (text) => h("time", { datetime: text }, moment(text));
/** A moment, or how long ago it was where there is no room. */
export const timeOrAgo = (text) => [h("span", { class: "wide" }, time(text)), h("span", { class: "narrow" }, timeAgo(text))];
export const timeAgo = (text) => h("time", { datetime: text, title: moment(text) }, ago(text));
export const idText = (id) => h("span", { class: "mono", title: id }, shortId(id));

/**
 * A table with headers. A column is {label, cell(row), numeric, wide, header}: a wide one is left out where
 * there is no room, and the header of a row names it. A table that is not tall scrolls by itself.
 */
export function table({ caption, columns, rows, empty = "There is nothing here.", tall = false }) {
  const classes = (column) =>
    [column.numeric && "number", column.wide && "wide", column.class].filter(Boolean).join(" ") || null;
  const cell = (column, row) =>
    column.header
      ? h("th", { scope: "row", class: classes(column) }, column.cell(row))
      : h("td", { class: classes(column) }, column.cell(row));
  return h(
    "div",
    { class: tall ? "scroll" : "scroll low", role: "region", "aria-label": caption, tabindex: "0" },
    h(
      "table",
      {},
      h("caption", { class: "visually-hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: classes(column) }, column.label)))),
      h(
        "tbody",
        {},
        rows.length
          ? rows.map((row) => h("tr", {}, columns.map((column) => cell(column, row))))
          : h("tr", {}, h("td", { colspan: columns.length, class: "empty" }, empty)),
      ),
    ),
  );
}
