"""One aim: a number of a table, what it is divided by, its bound, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.markdown import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.table import PartResult, Table

MISSING: Final = "not measured yet"
MET: Final = "met"
# From here on, so many times the aim says more than so many percent over it.
_TIMES: Final = 2


@dataclass(frozen=True, slots=True)
class Aim:
    """The medians of ``row`` in ``columns``, divided by those of the rows ``to`` or its own in ``to_column``.

    With several columns or rows to compare with, the worst counts; a peer that has no number there is passed
    over. An aim with ``short`` is one of the ten in the README. ``why`` says why it is missed, if it is.
    """

    what: str
    part: str
    table: str
    row: str
    columns: tuple[str, ...]
    at_most: float | None = None
    at_least: float | None = None
    to: tuple[str, ...] = ()
    to_column: str | None = None
    unit: str = ""
    short: bool = False
    why: str = ""

    @property
    def is_ratio(self) -> bool:
        return bool(self.to or self.to_column)

    @property
    def said(self) -> str:
        """The aim in words."""
        bound = f"at most {self.text(self.at_most)}" if self.at_most is not None else ""
        bound = bound or f"at least {self.text(self.at_least or 0)}"
        return f"{bound} of {', '.join(self.to)}" if self.to else bound

    def measured(self, results: Mapping[str, PartResult]) -> float | None:
        """The worst of what it is about, or nothing."""
        table = find(results, self.part, self.table)
        values = list(self._values(table)) if table is not None else []
        if not values:
            return None
        return max(values) if self.at_most is not None else min(values)

    def judged(self, results: Mapping[str, PartResult]) -> tuple[str, str]:
        """What was measured, and whether that is enough."""
        value = self.measured(results)
        if value is None:
            return self._why(results), ""
        return self.text(value), self.verdict(value)

    def _values(self, table: Table) -> Iterable[float]:
        row = table.row(self.row)
        for column in self.columns:
            if column not in table.columns or (value := table.value(row, column)) is None:
                continue
            if not self.is_ratio:
                yield value
            bases = [table.value(table.row(name), column) for name in self.to]
            if self.to_column is not None and self.to_column in table.columns:
                bases.append(table.value(row, self.to_column))
            yield from (value / base for base in bases if base)

    def verdict(self, value: float) -> str:
        """Whether a value is enough, or by how much it is not."""
        if self.at_most is None:
            bound = self.at_least or 0
            return MET if value >= bound else f"{number(100 * (1 - value / bound))} % short"
        if value <= self.at_most:
            return MET
        if not self.at_most:
            return f"{number(value)} over"
        times = value / self.at_most
        return f"{number(times)} times the aim" if times > _TIMES else f"{number(100 * (times - 1))} % over"

    def _why(self, results: Mapping[str, PartResult]) -> str:
        table = find(results, self.part, self.table)
        row = table.row(self.row) if table is not None else None
        return row.failed if row is not None and row.failed else MISSING

    def text(self, value: float) -> str:
        """A value with its unit."""
        return f"{number(value)}{'x' if self.is_ratio else self.unit}"


def find(results: Mapping[str, PartResult], part: str, table: str) -> Table | None:
    """A table by its part and name."""
    if part not in results:
        return None
    return next((each for each in results[part].tables if each.name == table), None)
