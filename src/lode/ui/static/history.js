// The history of a dataset as a table, newest first: the same as the chain, for everybody.

import { moved, together } from "./chain.js";
import { bytes, number } from "./format.js";
import { PagedTable } from "./paged.js";
import { idLink, snapshotLink, timeOrAgo } from "./parts.js";

export function history(visit, name) {
  return new PagedTable(visit, {
    caption: `Snapshots of ${name}`,
    key: "sequence",
    direction: "descending",
    read: async (asked) => {
      const found = await visit.get(["datasets", name, "history"], asked);
      return { rows: found.snapshots, total: found.total };
    },
    columns: [
      { label: "#", key: "sequence", numeric: true, cell: (line) => number(line.sequence) },
      { label: "Snapshot", header: true, cell: (line) => idLink(visit, snapshotLink(name, line.id), { ...line, name: `snapshot ${line.sequence}` }) },
      { label: "Time", key: "created_at", cell: (line) => timeOrAgo(line.created_at) },
      { label: "Rows", key: "rows", numeric: true, cell: rows },
      { label: "Size", key: "bytes", numeric: true, cell: (line) => bytes(line.bytes) },
      { label: "Files", key: "files", numeric: true, wide: true, cell: (line) => number(line.files) },
      { label: "Notes", wide: true, cell: notes },
    ],
  });
}

// Rows that a snapshot only rewrote are in neither number.
function rows(line) {
  if (!line.removed) return number(line.added);
  return line.added ? `+${number(line.added)} −${number(line.removed)}` : `−${number(line.removed)}`;
}

function notes(line) {
  const found = [line.operation !== "append" && line.operation, line.rebased && moved(line), line.group > 1 && together(line), line.keyed && "idempotent"];
  return found.filter(Boolean).join(", ");
}
