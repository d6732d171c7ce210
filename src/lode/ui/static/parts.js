// The parts that pages are made of: headings, facts, notices, links.

import { copyButton } from "./copy.js";
import { h } from "./dom.js";
import { ago, count, moment, number } from "./format.js";

export const datasetLink = (name) => `#/datasets/${encodeURIComponent(name)}`;
export const snapshotLink = (name, id) => `${datasetLink(name)}/${encodeURIComponent(id)}`;
export const volumeLink = (name, id = null) =>
  `#/volumes/${encodeURIComponent(name)}${id ? `/${encodeURIComponent(id)}` : ""}`;

/** The heading of a page, with the way back to where it belongs. */
export function heading(title, { trail = [], remark = null, mark = null } = {}) {
  const crumbs = trail.length
    ? h(
        "nav",
        { class: "trail", "aria-label": "Breadcrumb" },
        h("ol", {}, trail.map(([label, href]) => h("li", {}, h("a", { href }, label)))),
      )
    : null;
  // A mark is beside the heading and not in it: the heading is the name alone.
  const named = h("div", { class: "title" }, h("h1", { tabindex: "-1" }, title), mark);
  return h("div", { class: "heading" }, crumbs, named, remark && note(remark));
}

const known = (pairs) => pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
const pair = ([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value));

/** A few short values, large; those without a value are left out. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, known(pairs).map(pair));
}

/** Values of any length, a row each; those without a value are left out. */
export function details(pairs) {
  const shown = known(pairs);
  return shown.length ? h("dl", { class: "pairs" }, shown.map(pair)) : null;
}

export function section(title, ...children) {
  const id = `s-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), ...children);
}

export function notice(text, kind = "plain") {
  return h("p", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null }, text);
}

/** A remark below what it is about. */
export const note = (...text) => h("p", { class: "note" }, text);

export const time = (text) => h("time", { datetime: text }, moment(text));
/** A moment, or how long ago it was where there is no room. */
export const timeOrAgo = (text) => [h("span", { class: "wide" }, time(text)), h("span", { class: "narrow" }, timeAgo(text))];
export const timeAgo = (text) => h("time", { datetime: text, title: moment(text) }, ago(text));

/** The beginning of an id, which is a link to its snapshot, with a button that copies all of it. */
export function idLink(visit, href, { id, short, name = "snapshot" }, attributes = {}) {
  return h(
    "span",
    { class: "id-link" },
    h("a", { href, title: id, ...attributes }, h("span", { class: "mono" }, short)),
    copyButton(visit, id, `the id of ${name}`),
  );
}

/** A mark with words: what is wrong is never said by a colour alone. */
export const badge = (text, kind) => h("span", { class: `badge ${kind}` }, text);

/** A command to copy. */
export function command(visit, text, what) {
  return h("div", { class: "command" }, h("pre", { tabindex: "0", "aria-label": what }, text), copyButton(visit, text, what));
}

/** Said below a list that was cut; sorting such a list sorts what is shown. */
export function cut(shown, total, noun) {
  if (total <= shown.length) return "";
  return note(`The first ${number(shown.length)} of ${count(total, noun)}. Sorting sorts these only.`);
}
