"""The measured part of ``docs/understanding/costs.md``, made from the results and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.markdown import grid, number
from benchmarks.scaling.axis import EXPONENT
from benchmarks.scaling.outlook import outlook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.table import PartResult, Row, Table

BEGIN: Final = "<!-- measured: made by `./run bench report`, do not edit -->"
END: Final = "<!-- /measured -->"
# The others are in the page of all results.
_PICTURED: Final = ("history", "partitions", "crowd")
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
    """Some curves as pictures, and from where to where each cost goes and with which exponent."""
    made = f"`{result.command}` on {result.started[:10]}; {result.machine}."
    pictures = [_picture(table) for table in result.tables if table.name in _PICTURED]
    lines = [line for table in result.tables for line in _lines(table)]
    costs = "\n".join(grid(["what grows", "cost", "smallest", "largest", EXPONENT, "shape"], lines))
    return "\n\n".join([made, *pictures, costs, f"### Beyond what was measured\n\n{outlook(result)}"])


def shape(exponent: float) -> str:
    """An exponent in a word."""
    return next((word for limit, word in _SHAPES if exponent < limit), _STEEPEST)


def _picture(table: Table) -> str:
    figures = dict.fromkeys(curve.figure for curve in table.curves)
    return "\n\n".join(f"![{table.title}](../images/bench-{figure}.svg)" for figure in figures)


def _lines(table: Table) -> Iterator[list[str]]:
    """A line for each cost; the first one says what grows."""
    for place, row in enumerate(table.rows):
        ends = [_end(table, row, column) for column in (table.columns[0], table.columns[-2])]
        slope = table.value(row, EXPONENT)
        said = ["-", "-"] if slope is None else [f"{slope + 0.0:.2f}", shape(slope)]
        yield [f"**{table.title}**" if place == 0 else "", row.name, *ends, *said]


def _end(table: Table, row: Row, column: str) -> str:
    value = table.value(row, column)
    return "-" if value is None else f"{number(value)} at {column}"
