"""How a cost grows: the exponent e of cost = c * size ** e."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MIN_POINTS = 2


def upper_half(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points of the larger sizes, where what is fixed no longer hides what grows."""
    ordered = sorted(points)
    return ordered[len(ordered) // 2 :]


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope of the straight line nearest to the points' logarithms; None where there is no line.

    0 is flat, 1 grows as the size does, 2 as its square.
    """
    logs = [(log(size), log(cost)) for size, cost in points if size > 0 and cost > 0]
    if len(logs) < _MIN_POINTS or len(logs) < len(points):
        return None
    middle_x = sum(x for x, _ in logs) / len(logs)
    middle_y = sum(y for _, y in logs) / len(logs)
    spread = sum((x - middle_x) ** 2 for x, _ in logs)
    if not spread:
        return None
    return sum((x - middle_x) * (y - middle_y) for x, y in logs) / spread
