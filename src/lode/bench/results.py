"""The results. Times are in seconds; every ``floor`` is the same store without Lode."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Times:
    """Repeated measurements of one operation."""

    median: float
    worst: float
    rounds: int

    @staticmethod
    def of(seconds: Sequence[float]) -> Times:
        return Times(median(seconds), max(seconds), len(seconds))


@dataclass(frozen=True, slots=True)
class Commits:
    """One writer that commits the same bytes repeatedly."""

    bytes: int
    lode: Times
    floor: Times
    calls: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ContentionResult:
    """Concurrent writers, each with its own partition; the rows are read back afterwards."""

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
    """Open the dataset of the writers and plan a full scan, each time with cold caches."""

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
    """All results."""

    url: str
    commits: Commits
    contention: ContentionResult
    opening: Opening
    blobs: Blobs

    @property
    def is_sound(self) -> bool:
        """Whether every acknowledged row exists exactly once."""
        return not self.contention.lost and not self.contention.doubled
