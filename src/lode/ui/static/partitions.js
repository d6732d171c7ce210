// The partitions of a dataset, or of one snapshot of it.

import { h } from "./dom.js";
import { bytes, number } from "./format.js";
import { PagedTable } from "./paged.js";
import { timeAgo } from "./parts.js";

export function partitions(visit, name, snapshot = null) {
  return new PagedTable(visit, {
    caption: snapshot ? "Partitions of this snapshot" : `Partitions of ${name}`,
    key: "partition",
    direction: "descending",
    size: 10,
    read: async (asked) => {
      const found = await visit.get(["datasets", name, "partitions"], { ...asked, snapshot });
      return { rows: found.partitions, total: found.total, least: found.more };
    },
    columns: [
      { label: "Partition", key: "partition", header: true, cell: (row) => h("span", { class: "mono" }, row.partition) },
      { label: "Rows", key: "rows", numeric: true, cell: (row) => number(row.rows) },
      { label: "Size", key: "bytes", numeric: true, cell: (row) => bytes(row.bytes) },
      { label: "Files", key: "files", numeric: true, wide: true, cell: (row) => number(row.files) },
      ...(snapshot ? [] : [{ label: "Last write", key: "last_write", numeric: true, cell: (row) => timeAgo(row.last_write) }]),
    ],
  });
}
