"""What a part measured, as values that go to JSON and come back.

A part is a module ``benchmarks.<part>`` (or a package of that name) with two names:

    CONTENDERS: tuple[str, ...]                    the contenders, for ``--only``
    def run(options: Options) -> list[Table]: ...  measures, checks, and returns its tables

``run`` measures in rounds (``benchmarks.rounds.in_rounds``: every contender once, then the next round;
``options.rounds`` of them), checks what was written before a time counts (raise ``VerificationError`` from
the work), and makes a row of each contender's rounds (``benchmarks.rounds.row_of``). A contender that fails
is a row with its reason. Sizes follow ``options.quick``, data goes below ``options.scratch()``, progress is
reported by ``benchmarks.progress.progress``. A part prints and writes nothing: the command does that.

    Table(
        name="replay",             # a word, unique in the part: aims find the table by it
        title="Opening a chain, ms after so many commits",
        columns=["100", "10,000"],
        rows=[Row("floor", [Cell([0.4, 0.5]), Cell([16.0])]), Row("Lode", [...], against="floor")],
        ratios=["100", "10,000"],  # columns in which a row is divided by the row it is against
        curves=[Curve("scaling", "Open", "commits", "ms", log_x=True, log_y=True)],
    )
"""

from __future__ import annotations

from statistics import median
from typing import Literal

import msgspec


class Cell(msgspec.Struct, frozen=True):
    """Every sample of one number, in the order measured; without any, ``note`` may say why."""

    samples: list[float] = []
    note: str = ""

    @property
    def value(self) -> float | None:
        return median(self.samples) if self.samples else None


class Row(msgspec.Struct, frozen=True):
    """One contender's numbers, in the order of the table's columns.

    ``against`` names the row whose numbers the ratios divide by; ``failed`` is the reason why its numbers, if
    there are any, do not count.
    """

    name: str
    cells: list[Cell] = []
    against: str | None = None
    failed: str | None = None


class Curve(msgspec.Struct, frozen=True):
    """How to draw a table: curves of one ``figure`` are its panels, side by side in ``bench-<figure>.svg``.

    Lines have a point for each column, whose name is a number, and a line for each row. Bars have a group for
    each column and a bar for each row. ``columns`` and ``rows`` choose some; ``ratio`` draws what a row is to
    the one it is against, and leaves out those that are against none.
    """

    figure: str
    title: str
    x: str
    y: str
    kind: Literal["lines", "bars"] = "lines"
    columns: list[str] = []
    rows: list[str] = []
    ratio: bool = False
    log_x: bool = False
    log_y: bool = False


class Table(msgspec.Struct, frozen=True):
    """Numbers of several contenders, measured in one run."""

    name: str
    title: str
    columns: list[str]
    rows: list[Row]
    ratios: list[str] = []
    notes: list[str] = []
    curves: list[Curve] = []

    def row(self, name: str) -> Row | None:
        return next((row for row in self.rows if row.name == name), None)

    def value(self, row: Row | None, column: str) -> float | None:
        """The median there, unless it was not measured or does not count."""
        if row is None or row.failed is not None:
            return None
        at = self.columns.index(column)
        return row.cells[at].value if at < len(row.cells) else None

    def ratio(self, row: Row, column: str) -> float | None:
        """What a row's median is to that of the row it is against."""
        base = self.value(self.row(row.against), column) if row.against else None
        value = self.value(row, column)
        return value / base if base and value is not None else None


class PartResult(msgspec.Struct, frozen=True):
    """All tables of one part: when, where and with what they were made."""

    part: str
    command: str
    started: str
    machine: str
    versions: dict[str, str]
    seconds: float
    tables: list[Table]
