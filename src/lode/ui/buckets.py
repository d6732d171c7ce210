"""A long history in few points: runs of snapshots of equal length, summed up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.times import ns_to_rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lode.ui.timeline import Line


def buckets(lines: Sequence[Line], most: int) -> list[dict[str, Any]]:
    """At most ``most`` runs, oldest first; a short history has one snapshot in each."""
    return list(_buckets(lines, most))


def growth(lines: Sequence[Line], most: int) -> list[int]:
    """How many rows there were after each run: a line small enough for a table's cell."""
    return [bucket["total_rows"] for bucket in _buckets(lines, most)]


def _buckets(lines: Sequence[Line], most: int) -> Iterator[dict[str, Any]]:
    runs = min(most, len(lines))
    total_rows = total_bytes = 0
    for number in range(runs):
        run = lines[number * len(lines) // runs : (number + 1) * len(lines) // runs]
        rows, size = sum(line.rows for line in run), sum(line.bytes for line in run)
        total_rows += rows
        total_bytes += size
        yield {
            "first": run[0].sequence,
            "last": run[-1].sequence,
            "from": ns_to_rfc3339(run[0].created_ns),
            "to": ns_to_rfc3339(run[-1].created_ns),
            "rows": rows,
            "bytes": size,
            "rebased": sum(line.rebased > 0 for line in run),
            "total_rows": total_rows,
            "total_bytes": total_bytes,
        }
