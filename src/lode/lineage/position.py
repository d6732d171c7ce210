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
    from lode.read.state import Cut
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
NEW_CHECKPOINT = "start with a new checkpoint"
# How many snapshots are read ahead of a limited batch.
WINDOW = 1000


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
    """The snapshots that a stream has not read yet.

    Without a limit a batch ends at the newest snapshot, and nothing in between is read. With one, the next
    snapshots are read, at most ``WINDOW`` at a time, each once.

    Args:
        dataset: The dataset. One without snapshots has nothing to read yet.
        remedy: What to do if the dataset was replaced.
    """

    def __init__(self, dataset: Dataset, *, remedy: str = NEW_CHECKPOINT) -> None:
        self._dataset = dataset
        self._remedy = remedy
        self._start = BEGINNING
        self._waiting: deque[_Waiting] = deque()
        self._known = BEGINNING
        self._end: Position | None = None
        # A stream that begins before it reads the state there.
        self._floor = 1

    def head(self) -> Position:
        """The position of the newest snapshot, read from the store.

        Raises:
            NoSnapshotsError: There is none yet.
        """
        newest = self._dataset.latest()
        self._floor = max(newest.manifest.floor, newest.manifest.begins)
        return position_of(self._dataset, newest)

    def stop_at_head(self) -> None:
        """Never advance past the snapshot that is the newest now."""
        try:
            self._end = self.head()
        except NoSnapshotsError:
            self._end = BEGINNING

    @property
    def floor(self) -> int:
        """The number of the oldest readable snapshot, as of the last look."""
        return self._floor

    def known(self) -> Position:
        """The position of the newest snapshot seen so far, without a request."""
        return self._known

    def advance(self, start: Position, limit: Limit = NO_LIMIT) -> Position:
        """Return the end of a batch that begins at ``start``; ``start`` itself if there is nothing new."""
        newest = self._newest(start)
        if newest == start:
            return start
        if limit == NO_LIMIT:
            self._check(start)
            return newest
        self._skip_to(start)
        end, size, taken = start, 0, 0
        while taken < len(self._waiting) or self._read_more(newest):
            waiting = self._waiting[taken]
            taken += 1
            size += waiting.bytes
            full = (limit.snapshots is not None and taken > limit.snapshots) or (
                limit.bytes is not None and size > limit.bytes
            )
            if full and taken > 1:
                break
            end = waiting.position
        return end

    def _newest(self, start: Position) -> Position:
        """The position of the newest snapshot that may be read."""
        try:
            newest = self._end or self.head()
        except NoSnapshotsError:
            newest = BEGINNING
        if newest.sequence < start.sequence or (newest.sequence == start.sequence and newest != start):
            raise replaced(self._dataset, start, self._remedy)
        self._known = newest
        return newest

    def _check(self, start: Position) -> None:
        try:
            same = start == BEGINNING or self._position_at(start.sequence) == start
        except NotFoundError:  # the history of a dataset that was dropped begins later
            same = False
        if not same:
            raise replaced(self._dataset, start, self._remedy)

    def _position_at(self, sequence: int) -> Position:
        return position_of(self._dataset, self._dataset.snapshot(sequence))

    def _skip_to(self, start: Position) -> None:
        """Forget the snapshots up to ``start``."""
        while self._waiting and self._start != start:
            self._start = self._waiting.popleft().position
        if self._start != start:
            self._waiting.clear()
            self._start = start

    def _read_more(self, newest: Position) -> bool:
        """Read the next snapshots up to ``newest``; False if there are none."""
        last = self._waiting[-1].position if self._waiting else self._start
        # Snapshots before the floor are part of the state there.
        first = last.sequence + 1 if last != BEGINNING else self._floor
        if first > newest.sequence:
            return False
        full = newest.sequence - first >= WINDOW
        stop = self._position_at(first + WINDOW - 1) if full else newest
        sequence, found = stop.sequence, []
        # Newest first, so that there is one manifest in memory at a time.
        for snapshot in self._dataset.history(as_of=ExactId(stop.snapshot)):
            if sequence < first:
                if last not in (BEGINNING, Position(sequence, snapshot.id)):
                    raise replaced(self._dataset, last, self._remedy)
                break
            found.append(_Waiting(Position(sequence, snapshot.id), _size(snapshot)))
            sequence -= 1
        self._waiting.extend(reversed(found))
        return bool(found)


def between(dataset: Dataset, start: Position, end: Position) -> list[Snapshot]:
    """The snapshots after ``start`` up to ``end``, oldest first; reads no more of history than that."""
    if start == end:
        return []
    try:
        found = dataset.snapshots(
            since=ExactId(start.snapshot) if start.snapshot else None, as_of=ExactId(end.snapshot)
        )
    except NotFoundError:
        raise replaced(dataset, start, NEW_CHECKPOINT) from None
    before = found[0].manifest.begins - 1 if found and start == BEGINNING else start.sequence
    if len(found) != end.sequence - before:
        raise replaced(dataset, start, NEW_CHECKPOINT)
    return found


def plan_between(
    dataset: Dataset,
    start: Position,
    end: Position,
    on_removal: OnRemoval = "fail",
    *,
    remedy: str = "",
    cut: Cut | None = None,
) -> Scan:
    """The files with the rows that came after ``start`` up to ``end``.

    Before the first snapshot there are no rows, so from there they are all those at ``end``.

    Args:
        dataset: The dataset.
        start: The position before the range.
        end: The position of its last snapshot.
        on_removal: As for ``Dataset.scan``.
        remedy: What to do if the range cannot be read any more.
        cut: Which of the files, and what of them.
    """
    plan = dataset._changes.reads.plan
    try:
        if start.snapshot:
            return plan(ExactId(start.snapshot), ExactId(end.snapshot), on_removal, cut)
        found = plan(None, ExactId(end.snapshot), cut=cut)
    except NotFoundError:
        raise replaced(dataset, start, remedy or NEW_CHECKPOINT) from None
    except SnapshotExpiredError as error:
        raise SnapshotExpiredError(f"{error}{remedy and '; '}{remedy}") from None
    except RowsRemovedError as error:
        raise RowsRemovedError(
            f"{error}; Spark's option is onRemoval", snapshot_id=error.snapshot_id
        ) from None
    return ChangeScan.made_from(found, (INSERT,) * len(found.manifests)) if on_removal == "report" else found


def _size(snapshot: Snapshot) -> int:
    # The rows of a compaction are not read.
    return 0 if snapshot.manifest.is_compaction else snapshot.size_bytes


def replaced(dataset: Dataset, position: Position, remedy: str) -> UsageError:
    return InvalidOptionError(
        f"snapshot {position.snapshot!r} at position {position.sequence} is not in the history of dataset "
        f"{dataset.id!r} in {dataset.store.url}: it was replaced by another one of this name; {remedy}"
    )


def starting_position(dataset: Dataset, where: str) -> Position:
    """Return the position of the snapshot that ``where`` names; ``earliest`` is before the first.

    A time names the last snapshot made at or before it. Without snapshots, ``latest`` is ``earliest``.
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
        if ref == "latest" or (not isinstance(ref, Snapshot) and isinstance(parsed(ref), Moment)):
            return BEGINNING
        raise


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
