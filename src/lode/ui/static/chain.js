// The chain: commits along a line, oldest left. Only those in sight are drawn, so its length costs nothing.

import { copyButton } from "./copy.js";
import { freshId, h, onWidth, s } from "./dom.js";
import { bytes, count, moment, number } from "./format.js";
import { snapshotLink, time } from "./parts.js";

const STEP = 30;
const PAD = 36;
// Room for the date of the last commit.
const END = 72;
const HEIGHT = 124;
const AXIS = 78;
const PAGE = 200;
const LEAP = 10;
const MAP_HEIGHT = 34;
const DAY_WIDTH = 80;

export class Chain {
  #visit;
  #facts;
  #pages = new Map();
  #active;
  #hovered = null;
  #width = 0;
  #asked = false;
  #wanted = null;
  #id = freshId("chain");

  constructor(visit, facts) {
    this.#visit = visit;
    this.#facts = facts;
    this.#active = facts.snapshots;
    this.layer = s("svg", { role: "presentation", height: HEIGHT });
    this.spacer = h("div", { class: "spacer", role: "presentation" }, this.layer);
    this.box = h(
      "div",
      {
        class: "chain",
        role: "listbox",
        tabindex: "0",
        "aria-orientation": "horizontal",
        "aria-describedby": `${this.#id}-help`,
        onscroll: () => this.#soon(),
        onkeydown: (event) => this.#key(event),
        onfocus: () => {
          this.#reveal(this.#active);
          this.#draw();
        },
        onblur: () => this.#draw(),
        onpointermove: (event) => this.#point(event),
        onpointerleave: () => this.#hover(null),
        onclick: (event) => this.#click(event),
      },
      this.spacer,
    );
    this.map = h("div", { class: "map", onpointerdown: (event) => this.#jump(event), "aria-hidden": "true" });
    this.details = h("div", { class: "details" });
    this.groups = h("span", {}, mark("bar"), "a group: committed together");
    this.node = h(
      "div",
      { class: "chain-frame" },
      this.map,
      this.box,
      this.details,
      h(
        "p",
        { class: "legend", id: `${this.#id}-help` },
        h("span", {}, mark("circle"), "commit, larger with more rows"),
        h("span", {}, mark("diamond"), "rebased: began before its parent was there"),
        this.groups,
        h("span", {}, mark("ring"), "not yet published"),
        h("span", { class: "keys" }, "Arrow keys, Home and End move along, Enter opens."),
      ),
    );
    visit.leave(
      onWidth(this.box, (width) => {
        const isFirst = !this.#width;
        this.#width = width;
        this.#size();
        if (isFirst) this.box.scrollLeft = this.box.scrollWidth;
        this.#draw();
      }),
    );
    this.#label();
  }

  /** Show new snapshots. If the newest one was selected, the newest stays selected. */
  update(facts) {
    const wasAtEnd = this.box.scrollLeft + this.#width >= this.box.scrollWidth - STEP;
    if (this.#active === this.#facts.snapshots) this.#active = facts.snapshots;
    this.#facts = facts;
    for (const [page, lines] of this.#pages) if (!lines || lines.length < PAGE) this.#pages.delete(page);
    this.#label();
    this.#size();
    if (wasAtEnd) this.box.scrollLeft = this.box.scrollWidth;
    this.#draw();
  }

  get #first() {
    return this.#facts.first;
  }

  get #last() {
    return this.#facts.snapshots;
  }

  /** The rows of a large commit: the greatest mean of a run, so that one giant does not dwarf the rest. */
  get #usual() {
    return Math.max(1, ...this.#facts.buckets.map(({ rows, first, last }) => rows / (last - first + 1)));
  }

  #label() {
    const { name, snapshots, rebased, pending, broken } = this.#facts;
    const more = [rebased && `${number(rebased)} rebased`, pending && "one not yet published", broken && "with a hole"].filter(Boolean);
    this.box.setAttribute("aria-label", [`${count(snapshots, "commit")} of ${name}, oldest first`, ...more].join(", "));
    this.groups.hidden = !this.#facts.contention.grouped;
    this.box.dataset.commits = String(this.#last - this.#first + 1);
  }

  #x(sequence) {
    return PAD + (sequence - this.#first) * STEP;
  }

  #size() {
    const ends = this.#x(this.#last) + END + (this.#facts.pending ? STEP : 0);
    this.spacer.style.width = `${Math.max(ends, this.#width)}px`;
    this.map.hidden = ends <= this.#width;
  }

  #soon() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      this.#draw();
    });
  }

  #line(sequence) {
    const page = Math.floor((sequence - this.#first) / PAGE);
    if (!this.#pages.has(page)) this.#fetch(page);
    return this.#pages.get(page)?.[(sequence - this.#first) % PAGE] ?? null;
  }

  async #fetch(page) {
    this.#pages.set(page, null);
    try {
      const from = this.#first + page * PAGE;
      const found = await this.#visit.get(["datasets", this.#facts.name, "history"], { from, limit: PAGE });
      this.#pages.set(page, found.snapshots);
      this.#draw();
      if (this.#wanted !== null) this.#open(this.#wanted);
    } catch (error) {
      this.#pages.delete(page); // asked for again when it is next in sight
      if (!this.#visit.signal.aborted) this.#visit.announce(`The chain could not be read: ${error.message}`);
    }
  }

  #draw() {
    if (!this.#width) return;
    const left = this.box.scrollLeft;
    const from = Math.max(this.#first, this.#first + Math.floor((left - PAD) / STEP) - 8);
    const to = Math.min(this.#last, this.#first + Math.ceil((left + this.#width - PAD) / STEP) + 8);
    const origin = Math.max(0, this.#x(from) - PAD);
    const shown = new Set();
    for (let sequence = from; sequence <= to; sequence += 1) shown.add(sequence);
    shown.add(this.#active); // what has the focus exists, in sight or not
    this.layer.style.left = `${origin}px`;
    this.layer.setAttribute("width", this.#x(to) - origin + END);
    const place = (sequence) => this.#x(sequence) - origin;
    const commits = [...shown].sort((one, other) => one - other);
    this.layer.replaceChildren(
      ...this.#backbone(from, to, place),
      ...commits.flatMap((sequence) => this.#arc(sequence, place) ?? []),
      ...this.#groups(from, to, place),
      ...this.#days(from, to, place),
      ...commits.map((sequence) => this.#commit(sequence, place(sequence))),
      ...this.#unpublished(to, place),
    );
    this.box.setAttribute("aria-activedescendant", `${this.#id}-${this.#active}`);
    this.#tell(this.#hovered ?? this.#active);
    this.#drawMap();
  }

  #backbone(from, to, place) {
    const start = from === this.#first ? place(from) : 0;
    const parts = [s("line", { class: "backbone", x1: start, x2: place(to) + (to < this.#last ? PAD : 0), y1: AXIS, y2: AXIS })];
    if (from === this.#first && this.#first > 1) {
      // History goes on to the left, but those snapshots are not shown.
      parts.push(s("line", { class: "backbone gap", x1: place(from) - PAD, x2: place(from), y1: AXIS, y2: AXIS }));
      parts.push(s("path", { class: "tear", d: `M${place(from) - 18},${AXIS - 9}l5,6l-6,6l5,6` }));
    }
    return parts;
  }

  #arc(sequence, place) {
    const line = this.#line(sequence);
    if (!line?.rebased) return null;
    const from = place(Math.max(this.#first, sequence - line.place - line.rebased));
    const to = place(sequence);
    const lift = Math.min(46, 14 + line.rebased * 8);
    return [s("path", { class: "arc", d: `M${from},${AXIS}C${from + 10},${AXIS - lift} ${to - 10},${AXIS - lift} ${to},${AXIS}` })];
  }

  /** A bar below the members of each group, as far as they are drawn. */
  #groups(from, to, place) {
    const parts = [];
    for (let sequence = from; sequence <= to; sequence += 1) {
      const line = this.#line(sequence);
      if (!line || line.group === 1) continue;
      const last = Math.min(to, sequence - line.place + line.group);
      parts.push(s("line", { class: "group", x1: place(sequence) - 9, x2: place(last) + 9, y1: AXIS + 17, y2: AXIS + 17 }));
      sequence = last;
    }
    return parts;
  }

  #days(from, to, place) {
    const parts = [];
    let free = -Infinity;
    for (let sequence = from; sequence <= to; sequence += 1) {
      const line = this.#line(sequence);
      const before = sequence > this.#first ? this.#line(sequence - 1) : null;
      const day = line?.created_at.slice(0, 10);
      const isNew = day && (sequence === this.#first || (before && before.created_at.slice(0, 10) !== day));
      if (isNew) {
        const x = place(sequence) - (sequence === this.#first ? 0 : STEP / 2);
        parts.push(s("line", { class: "day", x1: x, x2: x, y1: 20, y2: AXIS - (sequence === this.#first ? 12 : -12) }));
        if (x >= free) {
          parts.push(s("text", { class: "label", x: x + 5, y: 24 }, day));
          free = x + DAY_WIDTH;
        }
      }
      if (sequence === this.#first || sequence % 10 === 0) {
        parts.push(s("text", { class: "label", x: place(sequence), y: AXIS + 34, "text-anchor": "middle" }, number(sequence)));
      }
    }
    return parts;
  }

  #commit(sequence, x) {
    const line = this.#line(sequence);
    const isActive = sequence === this.#active && document.activeElement === this.box;
    const kind = ["commit", !line && "coming", line?.rebased && "rebased", isActive && "active", sequence === this.#hovered && "hovered"];
    const size = line ? 3.5 + 6 * Math.sqrt(Math.min(1, Math.max(line.added, line.removed) / this.#usual)) : 3;
    return s(
      "g",
      {
        class: kind.filter(Boolean).join(" "),
        id: `${this.#id}-${sequence}`,
        role: "option",
        "aria-selected": String(sequence === this.#active),
        "aria-posinset": sequence - this.#first + 1,
        "aria-setsize": this.#last - this.#first + 1,
        "aria-label": line ? spoken(line) : `Snapshot ${number(sequence)}`,
        "data-sequence": sequence,
      },
      s("circle", { class: "halo", cx: x, cy: AXIS, r: 13 }),
      shape(line?.rebased ? "diamond" : "circle", x, AXIS, size),
    );
  }

  #unpublished(to, place) {
    if (!this.#facts.pending || to !== this.#last) return [];
    const x = place(to) + STEP;
    return [
      s("line", { class: "backbone gap", x1: place(to), x2: x, y1: AXIS, y2: AXIS }),
      s("g", { class: "commit pending" }, shape("ring", x, AXIS, 7)),
    ];
  }

  #tell(sequence) {
    if (this.details.dataset.sequence === String(sequence) && this.details.dataset.known) return;
    const line = this.#line(sequence);
    this.details.dataset.sequence = sequence;
    if (!line) {
      delete this.details.dataset.known;
      this.details.replaceChildren(h("span", {}, `Snapshot ${number(sequence)}`));
      return;
    }
    this.details.dataset.known = "yes";
    this.details.replaceChildren(
      h("a", { href: snapshotLink(this.#facts.name, line.id) }, `Snapshot ${number(sequence)}`),
      h("span", { class: "id-link" }, h("span", { class: "mono", title: line.id }, line.short), copyButton(this.#visit, line.id, `the id of snapshot ${sequence}`)),
      time(line.created_at),
      h("span", {}, `+${count(line.added, "row")}`),
      line.removed ? h("span", {}, `−${count(line.removed, "row")}`) : "",
      h("span", {}, `${bytes(line.bytes)} in ${count(line.files, "file")}`),
      line.partitions ? h("span", {}, count(line.partitions, "partition")) : "",
      line.operation === "append" ? "" : h("span", { class: "mark" }, line.operation),
      line.rebased ? h("span", { class: "mark" }, moved(line)) : "",
      line.group > 1 ? h("span", { class: "mark" }, together(line)) : "",
    );
  }

  #at(event) {
    const x = event.clientX - this.spacer.getBoundingClientRect().left;
    const sequence = this.#first + Math.round((x - PAD) / STEP);
    return sequence >= this.#first && sequence <= this.#last ? sequence : null;
  }

  #point(event) {
    if (event.pointerType === "mouse") this.#hover(this.#at(event));
  }

  #hover(sequence) {
    if (sequence === this.#hovered) return;
    this.#hovered = sequence;
    this.#soon();
  }

  #click(event) {
    const sequence = this.#at(event);
    if (sequence === null) return;
    this.#active = sequence;
    // A finger cannot hover: its first touch shows the details, which hold a link.
    if (event.pointerType === "mouse") this.#open(sequence);
    else this.#draw();
  }

  #open(sequence) {
    const line = this.#line(sequence);
    this.#wanted = line ? null : sequence; // opened as soon as it is known which one it is
    if (line) location.hash = snapshotLink(this.#facts.name, line.id);
  }

  #key(event) {
    const moves = {
      ArrowLeft: this.#active - 1,
      ArrowRight: this.#active + 1,
      PageUp: this.#active - LEAP,
      PageDown: this.#active + LEAP,
      Home: this.#first,
      End: this.#last,
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") this.#open(this.#active);
    else if (event.key in moves) {
      this.#active = Math.min(this.#last, Math.max(this.#first, moves[event.key]));
      this.#hovered = null;
      this.#reveal(this.#active);
      this.#draw();
    } else return;
    event.preventDefault();
  }

  #reveal(sequence) {
    const x = this.#x(sequence);
    if (x < this.box.scrollLeft + PAD) this.box.scrollLeft = x - this.#width / 2;
    else if (x > this.box.scrollLeft + this.#width - PAD) this.box.scrollLeft = x - this.#width / 2;
  }

  #drawMap() {
    if (this.map.hidden) return;
    const { buckets } = this.#facts;
    const most = Math.sqrt(Math.max(1, ...buckets.map((bucket) => bucket.rows)));
    const whole = this.#last - this.#first + 1;
    const wide = this.#width;
    const bars = buckets.map((bucket) => {
      const x = ((bucket.first - this.#first) / whole) * wide;
      const tall = Math.max(1, (Math.sqrt(bucket.rows) / most) * (MAP_HEIGHT - 6));
      return s("rect", { class: "column", x, y: MAP_HEIGHT - tall, width: Math.max(0.5, ((bucket.last - bucket.first + 1) / whole) * wide - 0.5), height: tall });
    });
    const scale = wide / this.spacer.offsetWidth;
    const view = s("rect", {
      class: "view",
      x: Math.min(wide - 7, this.box.scrollLeft * scale + 1),
      y: 1,
      width: Math.max(6, wide * scale - 2),
      height: MAP_HEIGHT - 2,
      rx: 3,
    });
    this.map.replaceChildren(s("svg", { width: wide, height: MAP_HEIGHT }, bars, view));
  }

  #jump(event) {
    const go = (at) => {
      const part = (at.clientX - this.map.getBoundingClientRect().left) / this.#width;
      this.box.scrollLeft = part * this.spacer.offsetWidth - this.#width / 2;
    };
    go(event);
    this.map.setPointerCapture(event.pointerId);
    this.map.onpointermove = go;
    this.map.onpointerup = () => (this.map.onpointermove = null);
  }
}

export const moved = (line) => `rebased behind ${count(line.rebased, "other")}`;
export const together = (line) => `${number(line.place)} of ${number(line.group)} in a group`;

function spoken(line) {
  const parts = [`Snapshot ${number(line.sequence)}`, moment(line.created_at), count(line.added, "row"), bytes(line.bytes)];
  if (line.removed) parts.push(`${count(line.removed, "row")} removed`);
  if (line.operation !== "append") parts.push(line.operation);
  if (line.rebased) parts.push(moved(line));
  if (line.group > 1) parts.push(together(line));
  return parts.join(", ");
}

function shape(kind, x, y, size) {
  if (kind !== "diamond") return s("circle", { class: `dot ${kind}`, cx: x, cy: y, r: size });
  const reach = size * 1.3;
  return s("path", { class: "dot diamond", d: `M${x},${y - reach}l${reach},${reach}l${-reach},${reach}l${-reach},${-reach}z` });
}

function mark(kind) {
  if (kind === "bar") return s("svg", { width: 20, height: 16, "aria-hidden": "true" }, s("line", { class: "group", x1: 2, x2: 18, y1: 8, y2: 8 }));
  const own = { circle: "commit", diamond: "commit rebased", ring: "commit pending" }[kind];
  return s("svg", { width: 16, height: 16, "aria-hidden": "true" }, s("g", { class: own }, shape(kind, 8, 8, 5)));
}
