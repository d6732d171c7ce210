// The write streams of the server this page comes from, as they move.

import { copyButton } from "./copy.js";
import { h, replace } from "./dom.js";
import { bytes, count, number, perSecond } from "./format.js";
import { datasetLink, facts, heading, notice, section, timeAgo } from "./parts.js";
import { table } from "./table.js";

const AGAIN = 2_000;
const STATES = { open: "○ open", finalized: "◐ finalized", committed: "● committed" };

export async function streams(visit) {
  let found = await visit.get(["streams"]);
  if (!found.live) return [heading("Streams"), notice("This console looks at a store. Write streams are shown by lode serve.")];
  let rates = new Map();
  let paused = false;
  const body = h("div", { class: "stack" });
  const draw = () => replace(body, ...contents(visit, found, rates));

  visit.every(AGAIN, async () => {
    if (paused) return;
    const next = await visit.get(["streams"]);
    rates = ratesOf(found, next, rates);
    const was = tally(found);
    found = next;
    draw();
    if (tally(found) !== was) visit.announce(tally(found));
  });
  const pause = h("button", {
    type: "button",
    "aria-pressed": "false",
    onclick: () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      visit.announce(paused ? "Updates are paused" : "Updates go on");
    },
  }, "Pause updates");
  draw();
  return [h("div", { class: "topline" }, heading("Streams"), pause), body];
}

function tally(found) {
  const of = (state) => found.streams.filter((stream) => stream.state === state).length;
  return `${count(found.total, "stream")}: ${of("open")} open, ${of("finalized")} finalized, ${of("committed")} committed`;
}

/** Rows a second, smoothed: one burst between two looks is not yet a speed. */
function ratesOf(before, now, rates) {
  const seconds = now.at - before.at;
  const rows = new Map(before.streams.map((stream) => [stream.name, stream.rows]));
  return new Map(
    now.streams.map((stream) => {
      const grown = rows.has(stream.name) ? stream.rows - rows.get(stream.name) : stream.rows;
      const rate = seconds > 0 ? Math.max(0, grown / seconds) : 0;
      const earlier = rates.get(stream.name);
      return [stream.name, earlier === undefined ? rate : 0.5 * earlier + 0.5 * rate];
    }),
  );
}

function contents(visit, found, rates) {
  const sum = (key) => found.streams.reduce((total, stream) => total + stream[key], 0);
  const speed = rates.size ? [...rates.values()].reduce((total, rate) => total + rate, 0) : null;
  return [
    facts([
      ["Streams", number(found.total)],
      ["Open", number(found.streams.filter((stream) => stream.state === "open").length)],
      ["Rows taken", number(sum("rows"))],
      ["Staged", bytes(sum("staged_bytes"))],
      ["Speed", perSecond(speed, "rows")],
    ]),
    section(
      "Write streams",
      table({
        caption: "Write streams, newest first",
        tall: true,
        rows: found.streams,
        empty: "No write stream is open. The default streams of tables are counted under Health.",
        columns: [
          {
            label: "Stream",
            header: true,
            sort: (row) => row.id,
            cell: (row) => [
              h(
                "span",
                { class: "id-link" },
                h("span", { class: "mono", title: row.name }, `${row.id.slice(0, 10)}${row.id.length > 10 ? "…" : ""}`),
                copyButton(visit, row.name, `the name of stream ${row.id}`),
              ),
              h("small", { class: "narrow" }, row.type.toLowerCase()),
              h("small", {}, row.dataset ? h("a", { href: datasetLink(row.dataset) }, row.table) : row.table),
            ],
          },
          { label: "Type", wide: true, sort: (row) => row.type, cell: (row) => row.type.toLowerCase() },
          { label: "State", class: "state", sort: (row) => row.state, cell: (row) => STATES[row.state] ?? row.state },
          { label: "Next offset", numeric: true, sort: (row) => row.rows, cell: (row) => number(row.rows) },
          { label: "Visible rows", numeric: true, sort: (row) => row.visible, cell: (row) => number(row.visible) },
          { label: "Staged", numeric: true, wide: true, sort: (row) => row.staged_bytes, cell: (row) => bytes(row.staged_bytes) },
          { label: "Rate", numeric: true, sort: (row) => rates.get(row.name), cell: (row) => perSecond(rates.get(row.name) ?? null, "rows") },
          { label: "Created", numeric: true, wide: true, sort: (row) => Date.parse(row.created), cell: (row) => timeAgo(row.created) },
        ],
      }),
      found.total > found.streams.length ? notice(`The newest ${number(found.streams.length)} of ${number(found.total)}. Sorting sorts these only.`) : "",
    ),
  ];
}
