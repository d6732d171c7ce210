"""What a contender can do. Packages are imported where they are used, so that none is needed by another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from benchmarks.data import PARTITIONED, SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is: a directory, or a prefix of a bucket with what its server needs."""

    root: str
    local: str  # a directory on this machine, also when the table itself is in a bucket
    endpoint: str | None = None
    partition: str | None = None

    @property
    def schema(self) -> pa.Schema:
        return PARTITIONED if self.partition else SCHEMA

    @property
    def options(self) -> dict[str, str]:
        """The names that the Rust object store library understands, which Delta and Lance use."""
        if self.endpoint is None:
            return {}
        return {
            "aws_endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "allow_http": "true",
            "aws_allow_http": "true",
        }


ORIGIN = ["part", "commit"]


class Handle(Protocol):
    """A table held open, as a long-running writer holds it."""

    def append(self, data: pa.Table) -> None:
        """Commit one append, or raise what the caller of this library gets to see."""
        ...

    def refresh(self) -> None:
        """Look again after an error, as the caller would before trying again."""
        ...


class Contender(Protocol):
    """One library, or the floor."""

    @property
    def name(self) -> str: ...
    @property
    def package(self) -> str: ...
    @property
    def by_hand(self) -> bool:
        """Whether ``build`` writes a history without committing it."""
        ...

    @property
    def floor(self) -> str | None:
        """The row it is compared with."""
        ...

    def create(self, place: Place) -> None: ...

    def open(self, place: Place) -> Handle: ...

    def plan(self, place: Place) -> int:
        """Open the table cold and name every file a full scan reads; returns how many."""
        ...

    def history(self, place: Place) -> int:
        """How many appends are in the table's history, found by opening it anew."""
        ...

    def read(self, place: Place) -> pa.Table:
        """Columns ``part`` and ``commit`` of every row, found by opening the table anew."""
        ...

    def build(self, place: Place, data: pa.Table, start: int, stop: int) -> None:
        """Bring the history from ``start`` to ``stop`` commits, as cheaply as the format allows."""
        ...


@dataclass(slots=True)
class Appender:
    """Builds histories the plain way, one append after the other."""

    _open: dict[str, Handle] = field(default_factory=dict)

    by_hand = False

    def open(self, place: Place) -> Handle:
        raise NotImplementedError

    def build(self, place: Place, data: pa.Table, start: int, stop: int) -> None:
        if place.root not in self._open:
            self._open[place.root] = self.open(place)
        for _ in range(start, stop):
            self._open[place.root].append(data)
