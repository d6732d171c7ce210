"""The recorded counts in ``bounds.toml``, and how a new count compares with them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# What an operation needs, by unit.
Counts = dict[str, float]

BOUNDS: Final = Path(__file__).with_name("bounds.toml")
COMMAND: Final = "./run bench --smoke --record"
# How far a count may be from the recorded one, by the first word of its unit. Sizes depend on the versions of
# packages, memory on which thread runs first, and the requests of many writers on their order.
MARGINS: Final = {"bytes": 0.03, "MB": 0.2, "requests": 0.05}
# Less than this is never too much: Python itself needs more or less memory from version to version.
_SLACK: Final = {"MB": 0.5}
_HEAD: Final = f"""\
# What each operation needed when it was last recorded: made by `{COMMAND}`.
# A count is over its bound if it is larger than the one here. Some have a margin: {{margins}}.
"""


class Verdict:
    """What a comparison found."""

    SAME: Final = ""
    BETTER: Final = "better"
    OVER: Final = "over its bound"
    NEW: Final = "has no bound"
    GONE: Final = "not counted"
    FAILURES: Final = frozenset({OVER, NEW, GONE})


@dataclass(frozen=True, slots=True)
class Comparison:
    """One count beside the recorded one."""

    operation: str
    unit: str
    counted: float | None
    recorded: float | None

    @property
    def bound(self) -> float:
        return (self.recorded or 0) + self._margin

    @property
    def _margin(self) -> float:
        """By how much the count may differ."""
        kind = self.unit.partition(" ")[0]
        return max((self.recorded or 0) * MARGINS.get(kind, 0.0), _SLACK.get(kind, 0.0))

    @property
    def kind(self) -> str:
        if self.recorded is None:
            return Verdict.NEW
        if self.counted is None:
            return Verdict.GONE
        if self.counted > self.bound:
            return Verdict.OVER
        return Verdict.BETTER if self.counted < self.recorded - self._margin else Verdict.SAME

    @property
    def cells(self) -> list[str]:
        counted, recorded = (
            "-" if value is None else written(value) for value in (self.counted, self.recorded)
        )
        return [self.operation, self.unit, counted, recorded, self.kind]

    @property
    def sentence(self) -> str:
        """What is wrong or better, and the command that records it."""
        counted, recorded = written(self.counted or 0), written(self.recorded or 0)
        needs = f"{self.operation}: needs {counted} {self.unit}"
        match self.kind:
            case Verdict.NEW:
                return f"{needs} and has no bound: record one with {COMMAND}"
            case Verdict.GONE:
                has = f"{self.operation}: has the bound {recorded} {self.unit}"
                return f"{has}, which is not counted any more: record without it with {COMMAND}"
            case Verdict.BETTER:
                return f"{needs} instead of {recorded}, which is better: keep it so with {COMMAND}"
            case _:
                bound = written(self.bound)
                return (
                    f"{needs}, its bound is {bound}: find the cause, or record what is meant with {COMMAND}"
                )


def check(counts: Mapping[str, Counts], recorded: Mapping[str, Counts]) -> list[Comparison]:
    """Every count beside the recorded one, in the order counted, then those that are only recorded."""
    return list(_compared(counts, recorded))


def _compared(counts: Mapping[str, Counts], recorded: Mapping[str, Counts]) -> Iterator[Comparison]:
    for name in [*counts, *(name for name in recorded if name not in counts)]:
        now, before = counts.get(name, {}), recorded.get(name, {})
        for unit in [*now, *(unit for unit in before if unit not in now)]:
            yield Comparison(name, unit, now.get(unit), before.get(unit))


def written(value: float) -> str:
    """A count as it is shown: a whole number, or two digits behind the point."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def load(path: Path = BOUNDS) -> dict[str, Counts]:
    """The recorded counts; none if there is no file yet."""
    return tomllib.loads(path.read_text()) if path.exists() else {}


def save(
    counts: Mapping[str, Counts], verdicts: list[Comparison], path: Path, *, order: tuple[str, ...]
) -> None:
    """Write the counts in this order. A recorded one stays while the new one is within its margin."""
    same = {(each.operation, each.unit): each.recorded for each in verdicts if each.kind == Verdict.SAME}
    margins = ", ".join(f"{share:.0%} for {unit}" for unit, share in MARGINS.items())
    lines = [_HEAD.format(margins=margins)]
    for name in sorted(counts, key=order.index):
        lines.append(f'["{name}"]')
        for unit, value in counts[name].items():
            kept = same.get((name, unit), value)
            lines.append(f'"{unit}" = {written(value if kept is None else kept).replace(",", "_")}')
        lines.append("")
    path.write_text("\n".join(lines))
