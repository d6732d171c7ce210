"""What a part measured, as values that go to JSON and come back, and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = float | str | None


class Row(msgspec.Struct, frozen=True):
    """One contender's numbers, in the order of the table's columns; None was not measured.

    ``against`` names the row whose numbers the ratios divide by.
    """

    name: str
    values: list[Value]
    against: str | None = None


class Table(msgspec.Struct, frozen=True):
    """Numbers of several contenders, measured in one run.

    ``ratios`` are the columns in which a row is set in relation to the row it is compared with.
    """

    title: str
    columns: list[str]
    rows: list[Row]
    ratios: list[str] = []
    notes: list[str] = []


class PartResult(msgspec.Struct, frozen=True):
    """All tables of one part and how long they took to make."""

    part: str
    tables: list[Table]
    seconds: float


class Run(msgspec.Struct, frozen=True):
    """One run of the benchmarks: where, with what, and the results."""

    command: str
    started: str
    machine: str
    versions: dict[str, str]
    parts: list[PartResult]


def markdown(table: Table) -> str:
    """The table with each ratio in brackets behind its number."""
    by_name = {row.name: row for row in table.rows}
    body = [
        [row.name, *_cells(table, row, by_name.get(row.against) if row.against else None)]
        for row in table.rows
    ]
    lines = [f"### {table.title}", "", *_grid(["", *table.columns], body)]
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join(lines)


def _cells(table: Table, row: Row, baseline: Row | None) -> list[str]:
    cells = []
    for at, column in enumerate(table.columns):
        value = row.values[at]
        text = number(value)
        base = baseline.values[at] if baseline is not None and column in table.ratios else None
        if isinstance(value, int | float) and isinstance(base, int | float) and base:
            text += f" ({number(value / base)}x)"
        cells.append(text)
    return cells


def number(value: Value) -> str:
    """Three significant digits at most, no exponent."""
    match value:
        case None:
            return "-"
        case str():
            return value
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _grid(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    lines = [list(head), ["---"] * len(head), *map(list, body)]
    return [f"| {' | '.join(cells)} |" for cells in lines]
