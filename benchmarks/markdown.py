"""Tables as Markdown: medians, what they are to the row compared with, and how they spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.table import Cell, Row, Table


def markdown(table: Table) -> str:
    """The table with its title and notes."""
    body = [[row.name, *_cells(table, row)] for row in table.rows]
    lines = [f"### {table.title}", "", *grid(["", *table.columns], body)]
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join(lines)


def _cells(table: Table, row: Row) -> list[str]:
    if row.failed is not None:
        return [row.failed.replace("|", "\\|"), *[""] * (len(table.columns) - 1)]
    cells = []
    for at, column in enumerate(table.columns):
        text = spread(row.cells[at]) if at < len(row.cells) else "-"
        ratio = table.ratio(row, column) if column in table.ratios else None
        cells.append(text if ratio is None else f"{text} ({number(ratio)}x)")
    return cells


def spread(cell: Cell) -> str:
    """The median, and behind it the lowest and highest of several samples."""
    if cell.value is None:
        return cell.note or "-"
    low, high = number(min(cell.samples)), number(max(cell.samples))
    text = number(cell.value) if low == high else f"{number(cell.value)} [{low}-{high}]"
    return f"{text} {cell.note}".rstrip()


def number(value: float) -> str:
    """Three significant digits at most, no exponent."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def grid(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [list(head), ["---"] * len(head), *map(list, body)]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def filled(page: str, begin: str, end: str, text: str) -> str:
    """The page with this text between two marks, in place of what was there."""
    before, mark, rest = page.partition(begin)
    _, closing, after = rest.partition(end)
    if not (mark and closing):
        raise ValueError(f"the page has no {begin} … {end} to fill: put both lines back")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
