"""What was measured. Times are in seconds; every ``floor`` is the same store without Lode."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Times:
    """How long one thing took, again and again."""

    median: float
    worst: float
    rounds: int

    @staticmethod
    def of(seconds: Sequence[float]) -> Times:
        return Times(median(seconds), max(seconds), len(seconds))


@dataclass(frozen=True, slots=True)
class Commits:
    """One writer committing the same bytes again and again."""

    bytes: int
    lode: Times
    floor: Times
    calls: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ContentionResult:
    """Many writers at once, each with a partition of its own; read back afterwards."""

    writers: int
    processes: bool
    commits: int
    commits_per_second: float
    floor_per_second: float
    slowest: float
    rebases: int
    failed: int
    lost: int
    doubled: int


@dataclass(frozen=True, slots=True)
class Opening:
    """Open what the writers left and plan to read all of it, each time as if for the first time."""

    snapshots: int
    files: int
    lode: Times
    floor: Times
    calls: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Blobs:
    """One long stream of bytes, against a plain upload in pieces."""

    bytes: int
    lode: Times
    floor: Times
    calls: Mapping[str, float]

    @property
    def megabytes_per_second(self) -> tuple[float, float]:
        """With Lode, and without."""
        return self.bytes / self.lode.median / 1e6, self.bytes / self.floor.median / 1e6


@dataclass(frozen=True, slots=True)
class Results:
    """All of it."""

    url: str
    commits: Commits
    contention: ContentionResult
    opening: Opening
    blobs: Blobs

    @property
    def is_sound(self) -> bool:
        """Whether every row that was acknowledged is there, once."""
        return not self.contention.lost and not self.contention.doubled
