"""What the curves say about sizes that were not measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.markdown import grid, number
from benchmarks.scaling.axis import EXPONENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.table import PartResult, Table

SNAPSHOTS: Final = 100_000_000


def outlook(result: PartResult) -> str:
    """The extrapolations as one table."""
    tables = {table.name: table for table in result.tables}
    lines = list(_history(tables.get("history")))
    return "\n".join(grid(["", "extrapolated", "from"], lines))


def extended(table: Table, row: str, size: float, *, power: float | None = None) -> float | None:
    """A row's last value carried on to another size, along its own exponent or along ``power``."""
    last = table.columns[-2]
    value = table.value(table.row(row), last)
    slope = table.value(table.row(row), EXPONENT) if power is None else power
    if value is None or slope is None:
        return None
    return float(value * (size / _size(last)) ** slope)


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
