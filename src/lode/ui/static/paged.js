// A table of which one page at a time is loaded. The server sorts all of it, not the page alone.

import { h, replace } from "./dom.js";
import { number } from "./format.js";
import { table } from "./table.js";

const ORDERS = { ascending: "asc", descending: "desc" };

export class PagedTable {
  #visit;
  #read;
  #key;
  #direction;
  #skip = 0;
  #found = null;

  /**
   * ``read(parameters)`` gives {rows, total, least}: ``least`` is true if there may be more than ``total``.
   * ``columns`` have a ``key`` where they can be sorted by.
   */
  constructor(visit, { caption, columns, read, key, direction, size = 25 }) {
    this.#visit = visit;
    this.#read = read;
    this.#key = key;
    this.#direction = direction;
    this.caption = caption;
    this.columns = columns;
    this.size = size;
    this.node = h("div", {});
  }

  get found() {
    return this.#found;
  }

  async load(skip = this.#skip) {
    const asked = { sort: this.#key, order: ORDERS[this.#direction], skip, limit: this.size };
    this.#found = await this.#read(asked);
    this.#skip = skip;
    this.#draw();
    return this;
  }

  /** Read again what changes: the first page, while the others are left to the reader. */
  async refresh() {
    if (this.#skip === 0) await this.load();
  }

  async #turn(skip) {
    await this.load(skip);
    this.#visit.announce(`${this.caption}: ${this.#range()}`);
  }

  async #sort(key, direction) {
    this.#key = key;
    this.#direction = direction;
    await this.load(0);
    const { label } = this.columns.find((column) => column.key === key);
    this.#visit.announce(`Sorted by ${label}, ${direction}, ${this.#range()}`);
  }

  #range() {
    const { rows, total, least } = this.#found;
    const all = `${least ? "at least " : ""}${number(total)}`;
    return rows.length ? `${number(this.#skip + 1)} to ${number(this.#skip + rows.length)} of ${all}` : `none of ${all}`;
  }

  #draw() {
    const { rows, total } = this.#found;
    const order = total > 1 ? { key: this.#key, direction: this.#direction, choose: (key, direction) => this.#sort(key, direction) } : null;
    const button = (label, skip, disabled) =>
      h("button", { type: "button", disabled, "data-focus": `page ${label}`, onclick: () => this.#turn(skip) }, label);
    const isLast = this.#skip + this.size >= total;
    const isPaged = total > this.size;
    replace(
      this.node,
      table({ caption: this.caption, tall: true, rows, columns: this.columns, order }),
      isPaged &&
        h(
          "p",
          { class: "pager" },
          button("First", 0, this.#skip === 0),
          button("Previous", Math.max(0, this.#skip - this.size), this.#skip === 0),
          button("Next", this.#skip + this.size, isLast),
          h("span", {}, `${this.#range()}, sorted as a whole`),
        ),
    );
  }
}
