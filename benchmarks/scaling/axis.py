"""One thing that can grow, what is measured at each of its sizes, and the table and curves of that."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Protocol

from benchmarks.rounds import Outcome, Sample, about_slow, in_rounds
from benchmarks.scaling.fit import exponent, upper_half
from benchmarks.table import Cell, Curve, Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store.wrappers import CountingStore

EXPONENT = "exponent"
_TIMES = 5


class Axis(Protocol):
    """What grows. ``rows`` name what is measured; behind the last comma of each is its unit."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def x(self) -> str:
        """What a size counts."""
        ...

    @property
    def rows(self) -> tuple[str, ...]: ...
    @property
    def drawn(self) -> tuple[str, ...]:
        """The units that are drawn, each in a panel of its own."""
        ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def measure(self, size: int) -> Sample:
        """One round's numbers at one size, in the order of ``rows``."""
        ...


def measured(axis: Axis, sizes: tuple[int, ...], rounds: int, slow: int | None = None) -> Table:
    """Measure every size once, then every size again, so that what drifts does not tilt a curve.

    The size that is ``slow`` is measured once if it takes long.
    """

    def at(size: int) -> Callable[[], Sample]:
        return lambda: axis.measure(size)

    works = {f"{size:,}": at(size) for size in sizes}
    outcomes = in_rounds(works, rounds, label=axis.name, may_be_slow=() if slow is None else (f"{slow:,}",))
    return table_of(axis, sizes, outcomes, about_slow(outcomes, rounds))


def table_of(axis: Axis, sizes: tuple[int, ...], outcomes: dict[str, Outcome], notes: list[str]) -> Table:
    columns = [f"{size:,}" for size in sizes]
    rows = []
    for at, name in enumerate(axis.rows):
        cells = [_cell(outcomes[column], at) for column in columns]
        rows.append(Row(name, [*cells, _exponent(sizes, cells)]))
    return Table(
        axis.name,
        axis.title,
        [*columns, EXPONENT],
        rows,
        notes=[*axis.notes, *notes, _about_exponents(sizes)],
        curves=_curves(axis, columns),
    )


def timed(
    work: Callable[[], object], times: int = _TIMES, *, prepare: Callable[[], object] | None = None
) -> float:
    """The median of a few, in milliseconds, without what prepares each."""
    durations = []
    for _ in range(times):
        if prepare is not None:
            prepare()
        began = time.perf_counter()
        work()
        durations.append(time.perf_counter() - began)
    return median(durations) * 1000


def counted(store: CountingStore, work: Callable[[], object]) -> tuple[int, int, int]:
    """The calls that a work makes, the bytes that it writes and those that it reads."""
    store.reset()
    work()
    return store.total, store.bytes_in, store.bytes_out


def _cell(outcome: Outcome, at: int) -> Cell:
    found = [sample[at] for sample in outcome.samples]
    return Cell([value for value in found if value is not None], outcome.failed or "")


def _exponent(sizes: tuple[int, ...], cells: list[Cell]) -> Cell:
    points = [(size, cell.value) for size, cell in zip(sizes, cells, strict=True) if cell.value is not None]
    slope = exponent(upper_half([(float(size), value) for size, value in points]))
    return Cell([] if slope is None else [slope])


def _about_exponents(sizes: tuple[int, ...]) -> str:
    points = upper_half([(float(size), 1.0) for size in sizes])
    return (
        f"The exponent is the slope through the logarithms of the {len(points)} largest sizes, from "
        f"{points[0][0]:,.0f} on: 0 is flat, 1 is linear, 2 is quadratic."
    )


def _curves(axis: Axis, columns: list[str]) -> list[Curve]:
    return [
        Curve(
            f"scaling-{axis.name}",
            unit,
            axis.x,
            unit,
            columns=columns,
            rows=[row for row in axis.rows if row.endswith(f", {unit}")],
            log_x=True,
            log_y=True,
        )
        for unit in axis.drawn
    ]
