"""A dataset's history as the console keeps it: one small line a snapshot, in order.

History is immutable and linear, so what was read once stays right: a look at the store reads only what is
newer than the newest line.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from lode.discover import open_dataset
from lode.errors import LodeError, NotFoundError
from lode.read.which import ExactId
from lode.snapshot import Snapshot
from lode.times import ns_to_rfc3339, rfc3339_to_ns
from lode.ui.partitions import MAX_PARTITIONS, Partition, merge, partitions_of
from lode.ui.short_ids import short_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from lode.dataset import Dataset
    from lode.format.manifest import Manifest
    from lode.store.protocol import Store

# A line takes about 400 bytes: this many, of the newest snapshots, is where a page stops to be a picture.
MOST_LINES: Final = 200_000
MOST_OVERTAKEN: Final = 100
_DIGITS: Final = 19


class Line(NamedTuple):
    """One snapshot in the line of history."""

    sequence: int
    id: str
    created_ns: int
    rows: int
    bytes: int
    files: int
    partitions: int
    # Behind how many others it was moved that came in between since its write began.
    rebased: int
    keyed: bool
    # What the commit did: append, create or evolve.
    operation: str = "append"

    def as_dict(self, short: str) -> dict[str, Any]:
        return {
            "sequence": self.sequence,
            "id": self.id,
            "short": short,
            "created_at": ns_to_rfc3339(self.created_ns),
            "rows": self.rows,
            "bytes": self.bytes,
            "files": self.files,
            "partitions": self.partitions,
            "rebased": self.rebased,
            "keyed": self.keyed,
            "operation": self.operation,
        }


class View(NamedTuple):
    """A history at one moment, oldest first.

    ``pending`` is a snapshot whose place is decided but whose manifest is not there yet. ``broken`` says why
    the history cannot be followed further back.
    """

    dataset: Dataset
    newest: Manifest
    lines: Sequence[Line]
    pending: str | None
    broken: str | None
    # The ids of the lines, sorted.
    ids: Sequence[str] = ()
    # Of the lines together, at most ``MAX_PARTITIONS``.
    partitions: Mapping[str, Partition] = {}

    def snapshot(self, ref: str) -> Snapshot:
        """The snapshot of this id; of any other text, the snapshot that it names."""
        place = bisect_left(self.ids, ref)
        is_known = place < len(self.ids) and self.ids[place] == ref
        return self.dataset.snapshot(ExactId(ref) if is_known else ref)

    def short(self, id: str) -> str:
        """The beginning of an id that the command line takes; it cannot search a history with a hole."""
        return id if self.broken else short_id(id, self.ids)

    @property
    def has_more_partitions(self) -> bool:
        """Whether there may be partitions that are not among these."""
        return len(self.partitions) == MAX_PARTITIONS

    @property
    def first(self) -> int:
        return self.lines[0].sequence

    @property
    def last(self) -> int:
        return self.lines[-1].sequence

    @property
    def is_whole(self) -> bool:
        return self.first == 1

    def line(self, sequence: int) -> Line | None:
        inside = self.first <= sequence <= self.last
        return self.lines[sequence - self.first] if inside else None


class Timeline:
    """The history of one dataset, read as far as it is needed. Threads share it."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._lock = threading.Lock()
        self._dataset: Dataset | None = None
        self._lines: list[Line] = []
        self._broken: str | None = None
        self._ids: list[str] = []
        # Replaced and never changed: views hold on to it.
        self._partitions: dict[str, Partition] = {}

    def look(self) -> View:
        """The history as it is now."""
        with self._lock:
            dataset = self._dataset or open_dataset(self._name, self._store)
            head = dataset.chain.resolve()
            if head.manifest is None:
                # Gone, or written anew with another layout: whoever looks next finds out.
                self._dataset, self._lines, self._broken = None, [], None
                self._note({})
                raise NotFoundError(f"no dataset {self._name!r} in {self._store.url}")
            self._dataset = dataset
            self._read(dataset, head.manifest)
            pending = head.pending.manifest.snapshot_id if head.pending else None
            return View(
                dataset,
                head.manifest,
                tuple(self._lines),
                pending,
                self._broken,
                self._ids,
                self._partitions,
            )

    def _read(self, dataset: Dataset, newest: Manifest) -> None:
        # A history with a hole in it is read again each time: somebody may have mended it.
        known = self._lines[-1].id if self._lines and not self._broken else None
        if newest.snapshot_id == known:
            return
        sequence = dataset.chain.sequence_of(newest)
        fresh: list[Line] = []
        partitions: dict[str, Partition] = {}
        broken = None
        try:
            for snapshot in dataset.history(as_of=Snapshot(newest)):
                if snapshot.id == known:
                    self._lines += _marked(fresh[::-1], self._lines[-MOST_OVERTAKEN:])
                    del self._lines[:-MOST_LINES]
                    known_partitions = dict(self._partitions)
                    merge(known_partitions, partitions)
                    self._note(known_partitions)
                    return
                if len(fresh) == MOST_LINES:
                    break
                added = partitions_of(dataset, snapshot.manifest)
                merge(partitions, added)
                fresh.append(_line(snapshot, sequence - len(fresh), len(added)))
        except LodeError as error:
            broken = str(error)
        self._lines, self._broken = _marked(fresh[::-1]), broken
        self._note(partitions)

    def _note(self, partitions: dict[str, Partition]) -> None:
        # Ids are nearly sorted already, which makes this one pass.
        self._ids = sorted(line.id for line in self._lines)
        self._partitions = partitions


def _line(snapshot: Snapshot, sequence: int, partitions: int) -> Line:
    manifest = snapshot.manifest
    return Line(
        sequence,
        snapshot.id,
        rfc3339_to_ns(manifest.created_at),
        manifest.row_count,
        snapshot.size_bytes,
        len(manifest.files),
        partitions,
        rebased=snapshot.rebases,
        keyed=manifest.idempotency is not None,
        operation=manifest.operation,
    )


def _marked(lines: list[Line], known: Sequence[Line] = ()) -> list[Line]:
    """The lines behind ``known`` ones, each with what came between its beginning and its place."""
    placed = [*known, *lines]
    return [
        line._replace(rebased=max(line.rebased, _overtaken(placed, place, line.id)))
        for place, line in enumerate(lines, len(known))
    ]


def _overtaken(lines: Sequence[Line], place: int, snapshot_id: str) -> int:
    before = place
    while (
        before and place - before < MOST_OVERTAKEN and began_before(snapshot_id, lines[before - 1].created_ns)
    ):
        before -= 1
    return place - before


def began_before(snapshot_id: str, created_ns: int) -> bool:
    """Whether a write began before another was placed; behind its own parent it was moved, then.

    A manifest tells how often it was moved, but not behind how many, and older ones tell nothing; an id holds
    the moment its write began.
    """
    digits, dash, _ = snapshot_id.partition("-")
    return bool(dash) and len(digits) == _DIGITS and digits.isdecimal() and int(digits) < created_ns
