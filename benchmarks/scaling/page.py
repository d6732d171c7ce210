"""The measured part of ``docs/understanding/performance.md``, made from the results and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.markdown import grid, number
from benchmarks.scaling.axis import ABOUT, EXPONENT
from benchmarks.scaling.outlook import outlook

if TYPE_CHECKING:
    from benchmarks.table import PartResult, Row, Table

BEGIN: Final = "<!-- measured: made by `./run bench report`, do not edit -->"
END: Final = "<!-- /measured -->"
# Below each of these an exponent is called so.
_SHAPES: Final = (
    (-0.15, "falls"),
    (0.15, "flat"),
    (0.85, "less than linear"),
    (1.15, "linear"),
    (1.85, "more than linear"),
)
_STEEPEST: Final = "quadratic"


def render(result: PartResult) -> str:
    """Every curve as a picture, and below it from where to where each cost goes and with which exponent."""
    made = f"`{result.command}` on {result.started[:10]}; {result.machine}."
    sections = [*map(_section, result.tables), f"### Beyond what was measured\n\n{outlook(result)}"]
    return "\n\n".join([made, *sections])


def filled(page: str, result: PartResult) -> str:
    """The page with what lies between its marks made anew."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"the page has no {BEGIN} … {END} to fill: put both lines back")
    return f"{before}{BEGIN}\n\n{render(result)}\n\n{END}{after}"


def shape(exponent: float) -> str:
    """An exponent in a word."""
    return next((word for limit, word in _SHAPES if exponent < limit), _STEEPEST)


def _section(table: Table) -> str:
    figures = dict.fromkeys(curve.figure for curve in table.curves)
    pictures = [f"![{table.title}](../images/bench-{figure}.svg)" for figure in figures]
    head = ["", table.columns[0], table.columns[-2], EXPONENT, "shape"]
    lines = grid(head, [_line(table, row) for row in table.rows])
    notes = "\n".join(f"- {note}" for note in table.notes if not note.startswith(ABOUT))
    return "\n\n".join([f"### {table.title}", *pictures, "\n".join(lines), notes])


def _line(table: Table, row: Row) -> list[str]:
    ends = [table.value(row, column) for column in (table.columns[0], table.columns[-2])]
    slope = table.value(row, EXPONENT)
    cells = ["-" if value is None else number(value) for value in ends]
    return [
        row.name,
        *cells,
        "-" if slope is None else f"{slope + 0.0:.2f}",
        "-" if slope is None else shape(slope),
    ]
