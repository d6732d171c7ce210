"""The position of a stream in a dataset's history, and how far its next batch may go.

A position is the end of a snapshot: everything up to it has been read, everything after it has not. So a
stream reads from a starting position exactly what ``as_of`` the same position leaves out.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lode.errors import (
    InvalidOptionError,
    NoSnapshotsError,
    NotFoundError,
    RowsRemovedError,
    SnapshotExpiredError,
    UsageError,
)
from lode.read.change_scan import ChangeScan
from lode.read.incremental import INSERT
from lode.read.which import ExactId, Moment, parsed
from lode.snapshot import Snapshot

if TYPE_CHECKING:
    from lode.dataset import Dataset
    from lode.read.incremental import OnRemoval
    from lode.read.scan import Scan
    from lode.reads import SnapshotRef


@dataclass(frozen=True, slots=True)
class Position:
    """The end of the snapshot with this sequence number and id; (0, "") is before the first."""

    sequence: int
    snapshot: str

    def to_json(self) -> dict[str, Any]:
        return {"sequence": self.sequence, "snapshot": self.snapshot}

    @staticmethod
    def from_json(offset: dict[str, Any]) -> Position:
        try:
            return Position(int(offset["sequence"]), str(offset["snapshot"]))
        except (KeyError, TypeError, ValueError):
            raise InvalidOptionError(
                f"the checkpoint's offset {offset!r} is not a position in a dataset: "
                "the checkpoint belongs to another source"
            ) from None


BEGINNING = Position(0, "")


@dataclass(frozen=True, slots=True)
class Limit:
    """Maximum size of a batch. It has at least one snapshot, because a snapshot is never split."""

    snapshots: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("maxSnapshotsPerBatch", self.snapshots), ("maxBytesPerBatch", self.bytes)):
            if value is not None and value < 1:
                raise InvalidOptionError(f"{name} is {value}: it must be 1 or more")


NO_LIMIT = Limit()


@dataclass(frozen=True, slots=True)
class _Waiting:
    position: Position
    bytes: int


class Frontier:
    """The snapshots that a stream has not read yet. Each part of history is read once."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._waiting: deque[_Waiting] = deque()
        self._start = BEGINNING
        self._end: Position | None = None
        # The number of the oldest readable snapshot. A stream that begins before it reads the state there.
        self._floor = 1

    def head(self) -> Position:
        """The position of the newest snapshot, read from the store."""
        newest = self._dataset.latest()
        self._floor = newest.manifest.floor
        return position_of(self._dataset, newest)

    def stop_at_head(self) -> None:
        """Never advance past the snapshot that is the newest now."""
        self._end = self.head()

    def known(self) -> Position:
        """The position of the newest snapshot seen so far, without a request."""
        return self._waiting[-1].position if self._waiting else self._start

    def advance(self, start: Position, limit: Limit = NO_LIMIT) -> Position:
        """Return the end of a batch that begins at ``start``; ``start`` itself if there is nothing new."""
        self._refresh(start)
        end, size = start, 0
        for taken, waiting in enumerate(self._waiting, 1):
            size += waiting.bytes
            full = (limit.snapshots is not None and taken > limit.snapshots) or (
                limit.bytes is not None and size > limit.bytes
            )
            if full and taken > 1:
                break
            end = waiting.position
        return end

    def _refresh(self, start: Position) -> None:
        while self._waiting and self._start != start:
            self._start = self._waiting.popleft().position
        if self._start != start:
            self._waiting.clear()
            self._start = start
        last = self._waiting[-1].position if self._waiting else start
        try:
            end = self._end or self.head()
        except NoSnapshotsError:
            if start == BEGINNING:
                raise
            raise replaced(self._dataset, start) from None
        if end.sequence > last.sequence or end.sequence < start.sequence:
            self._waiting.extend(
                # The rows of a compaction are not read.
                _Waiting(Position(sequence, snapshot.id), _size(snapshot))
                for sequence, snapshot in enumerate(between(self._dataset, last, end), last.sequence + 1)
                if last != BEGINNING or sequence >= self._floor
            )
        elif end.sequence == last.sequence and end != last:
            raise replaced(self._dataset, last)


def between(dataset: Dataset, start: Position, end: Position) -> list[Snapshot]:
    """The snapshots after ``start`` up to ``end``, oldest first; reads no more of history than that."""
    if start == end:
        return []
    try:
        found = dataset.snapshots(
            since=ExactId(start.snapshot) if start.snapshot else None, as_of=ExactId(end.snapshot)
        )
    except NotFoundError:
        raise replaced(dataset, start) from None
    if len(found) != end.sequence - start.sequence:
        raise replaced(dataset, start)
    return found


def plan_between(
    dataset: Dataset, start: Position, end: Position, on_removal: OnRemoval = "fail", *, remedy: str = ""
) -> Scan:
    """The files with the rows that came after ``start`` up to ``end``.

    Before the first snapshot there are no rows, so from there they are all those at ``end``.

    Args:
        dataset: The dataset.
        start: The position before the range.
        end: The position of its last snapshot.
        on_removal: As for ``Dataset.scan``.
        remedy: What to do if the range cannot be read any more.
    """
    try:
        if start.snapshot:
            since, as_of = ExactId(start.snapshot), ExactId(end.snapshot)
            return dataset.plan(since=since, as_of=as_of, on_removal=on_removal)
        found = dataset.plan(as_of=ExactId(end.snapshot))
    except NotFoundError:
        raise replaced(dataset, start) from None
    except SnapshotExpiredError as error:
        raise SnapshotExpiredError(f"{error}{remedy and '; '}{remedy}") from None
    except RowsRemovedError as error:
        raise RowsRemovedError(
            f"{error}; Spark's option is onRemoval", snapshot_id=error.snapshot_id
        ) from None
    return ChangeScan.made_from(found, (INSERT,) * len(found.manifests)) if on_removal == "report" else found


def _size(snapshot: Snapshot) -> int:
    return 0 if snapshot.manifest.is_compaction else snapshot.size_bytes


def replaced(dataset: Dataset, position: Position) -> UsageError:
    return InvalidOptionError(
        f"snapshot {position.snapshot!r} at position {position.sequence} is not in the history of dataset "
        f"{dataset.id!r} in {dataset.store.url}: it was replaced by another one of this name; "
        "start with a new checkpoint"
    )


def starting_position(dataset: Dataset, where: str) -> Position:
    """Return the position of the snapshot that ``where`` names; ``earliest`` is before the first.

    A time names the last snapshot made at or before it.
    """
    text = where.strip()
    if text in ("", "earliest"):
        return BEGINNING
    try:
        return _named_position(dataset, text)
    except (NotFoundError, UsageError) as error:
        raise InvalidOptionError(
            f"startingPosition is {text!r}: it is 'earliest' or names a snapshot, but {error}"
        ) from None


def _named_position(dataset: Dataset, ref: SnapshotRef) -> Position:
    try:
        return position_of(dataset, dataset.snapshot(ref))
    except NoSnapshotsError:
        if isinstance(ref, Snapshot) or not isinstance(parsed(ref), Moment):
            raise
        return BEGINNING


def position_of(dataset: Dataset, snapshot: Snapshot) -> Position:
    """Return the position of a snapshot."""
    return Position(dataset.chain.sequence_of(snapshot.manifest), snapshot.id)


def ends(dataset: Dataset, since: SnapshotRef | None, as_of: SnapshotRef | None) -> tuple[Position, Position]:
    """Return the positions at both ends of a range of history."""
    last = next(dataset.history(as_of=as_of), None)
    up_to = position_of(dataset, last or dataset.latest())
    if since is None:
        return BEGINNING, up_to
    return _named_position(dataset, since), up_to
