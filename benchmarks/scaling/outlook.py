"""What the curves say about sizes nobody measured: 10,000 writers, 100 million snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.markdown import grid, number
from benchmarks.scaling.axis import EXPONENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.table import PartResult, Table

WRITERS: Final = 10_000
SNAPSHOTS: Final = 100_000_000
# What S3 promises for one prefix.
WRITES_PER_SECOND: Final = 3_500


def outlook(result: PartResult) -> str:
    """The extrapolations as one table."""
    tables = {table.name: table for table in result.tables}
    lines = [*_crowd(tables.get("crowd")), *_history(tables.get("history"))]
    return "\n".join(grid(["", "extrapolated", "from"], lines))


def extended(table: Table, row: str, size: float, *, power: float | None = None) -> float | None:
    """A row's last value carried on to another size, along its own exponent or along ``power``."""
    last = table.columns[-2]
    value = table.value(table.row(row), last)
    slope = table.value(table.row(row), EXPONENT) if power is None else power
    if value is None or slope is None:
        return None
    return float(value * (size / _size(last)) ** slope)


def crossing(table: Table, row: str, limit: float) -> float | None:
    """The size at which a row reaches a limit, on its own line; None if it falls or is flat."""
    value = table.value(table.row(row), table.columns[-2])
    slope = table.value(table.row(row), EXPONENT)
    if value is None or slope is None or slope <= 0:
        return None
    return float(_size(table.columns[-2]) * (limit / value) ** (1 / slope))


def _crowd(table: Table | None) -> Iterator[list[str]]:
    if table is None:
        return
    for row in ("all together, commits/s", "a commit, requests", "1,000 commits, $"):
        found = extended(table, row, WRITERS)
        if found is not None:
            yield [
                f"{WRITERS:,} busy writers on one dataset: {row}",
                number(found),
                f"{table.columns[-2]} writers",
            ]
    busy = crossing(table, "all together, requests/s", WRITES_PER_SECOND)
    if busy is not None:
        what = f"busy writers on one dataset that make {WRITES_PER_SECOND:,} requests a second"
        yield [what, number(round(busy)), "where the line crosses"]


def _history(table: Table | None) -> Iterator[list[str]]:
    """A plan is linear where all segments are of the largest kind, which is where it is carried on to."""
    if table is None:
        return
    for row, divisor, unit in (("plan, ms", 60_000, "minutes"), ("plan reads, bytes", 1e9, "GB")):
        found = extended(table, row, SNAPSHOTS, power=1.0)
        if found is not None:
            what = f"{SNAPSHOTS:,} snapshots: {row.rpartition(', ')[0]} of all of them, {unit}"
            yield [what, number(found / divisor), f"{table.columns[-2]} commits"]


def _size(column: str) -> int:
    return int(column.replace(",", ""))
