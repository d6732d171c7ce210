"""The history of a dataset as the console caches it: one short line for each snapshot, in order.

History is immutable and linear, so cached lines stay valid: an update reads only newer snapshots.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from lode.describe import Partition, merge_partitions, partitions_of, row_change
from lode.discover import open_dataset
from lode.errors import ComponentMismatchError, LodeError, NotFoundError
from lode.read.which import ExactId
from lode.snapshot import Snapshot
from lode.times import ns_to_rfc3339, rfc3339_to_ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from lode.dataset import Dataset
    from lode.format.manifest import Manifest
    from lode.read.scan import Scan
    from lode.store.protocol import Store

# A line takes about 500 bytes of memory. Older snapshots of a longer history are left out.
MAX_LINES: Final = 200_000
MAX_OVERTAKEN: Final = 100
# Older snapshots do not show whether there is contention now.
MAX_RECENT: Final = 200
# A partition takes about 300 bytes of memory. Further partitions are left out.
MAX_PARTITIONS: Final = 50_000
# The command line reads up to 12 digits as the number of a snapshot.
MIN_ID_LENGTH: Final = 13
_DIGITS: Final = 19


class HistoryLine(NamedTuple):
    """One snapshot of a history."""

    sequence: int
    id: str
    created_ns: int
    rows: int
    bytes: int
    files: int
    partitions: int
    # The number of snapshots that were committed between the start of its write and its own commit, without
    # those of its group.
    rebased: int
    keyed: bool
    # How many snapshots the same swap committed, and its place among them, from 1.
    group: int = 1
    place: int = 1
    # append, overwrite, delete, merge, compact, restore, expire, create, define or evolve.
    operation: str = "append"
    # Rows that it added and removed, without those that it only rewrote.
    added: int = 0
    removed: int = 0
    # What it takes out of the dataset, and the snapshot whose state it restores.
    removed_rows: int = 0
    removed_bytes: int = 0
    restores: str | None = None
    is_append: bool = True
    # The rows and bytes of the dataset at this snapshot.
    total_rows: int = 0
    total_bytes: int = 0

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
            "group": self.group,
            "place": self.place,
            "operation": self.operation,
            "added": self.added,
            "removed": self.removed,
            "total_rows": self.total_rows,
        }


class HistoryView(NamedTuple):
    """A history at one moment, oldest first.

    ``pending`` is a snapshot that is committed but whose manifest is not published yet. ``broken`` is the
    reason why older snapshots cannot be read.
    """

    dataset: Dataset
    newest: Manifest
    lines: Sequence[HistoryLine]
    pending: str | None
    broken: str | None
    # The ids of the lines, sorted.
    ids: Sequence[str] = ()
    # Of the visible files, at most ``MAX_PARTITIONS``.
    partitions: Mapping[str, Partition] = {}
    # The visible files, if a snapshot removed some. Otherwise all files are visible.
    state: Scan | None = None
    # Whether the lines are the whole history.
    is_whole: bool = True

    def snapshot(self, ref: str) -> Snapshot:
        """Return the snapshot with this id, or the one that another reference names."""
        place = bisect_left(self.ids, ref)
        is_known = place < len(self.ids) and self.ids[place] == ref
        return self.dataset.snapshot(ExactId(ref) if is_known else ref)

    def short(self, id: str) -> str:
        """Shorten an id for the command line, which needs whole ids if history is broken."""
        return id if self.broken else short_id(id, self.ids)

    @property
    def first(self) -> int:
        return self.lines[0].sequence

    @property
    def last(self) -> int:
        return self.lines[-1].sequence

    @property
    def rows(self) -> int:
        """The number of visible rows; a lower bound if the history is not whole."""
        return self.lines[-1].total_rows if self.state is None else self.state.row_count

    @property
    def bytes(self) -> int:
        """The size of the visible files; a lower bound if the history is not whole."""
        return self.lines[-1].total_bytes if self.state is None else self.state.size_bytes

    def line(self, sequence: int) -> HistoryLine | None:
        inside = self.first <= sequence <= self.last
        return self.lines[sequence - self.first] if inside else None


class DatasetTimeline:
    """The cached history of one dataset. Thread-safe."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._lock = threading.Lock()
        self._dataset: Dataset | None = None
        self._lines: list[HistoryLine] = []
        self._broken: str | None = None
        self._ids: list[str] = []
        # Replaced, never changed, since views refer to it.
        self._partitions: dict[str, Partition] = {}
        self._state: Scan | None = None
        self._is_whole = True

    def look(self) -> HistoryView:
        """Read new snapshots and return the current history."""
        with self._lock:
            dataset = self._dataset or open_dataset(self._name, self._store)
            try:
                head = dataset.chain.resolve()
            except ComponentMismatchError:  # dropped, and created with another layout
                dataset = open_dataset(self._name, self._store)
                head = dataset.chain.resolve()
            if head.manifest is None:
                # Deleted, or about to be written anew with another layout: the next call opens it again.
                self._dataset, self._lines, self._broken, self._state = None, [], None, None
                self._set_partitions({})
                raise NotFoundError(f"no dataset {self._name!r} in {self._store.url}")
            self._dataset = dataset
            self._read(dataset, head.manifest)
            pending = head.pending.manifest.snapshot_id if head.pending else None
            return HistoryView(
                dataset,
                head.manifest,
                tuple(self._lines),
                pending,
                self._broken,
                self._ids,
                self._partitions,
                self._state,
                self._is_whole,
            )

    def _read(self, dataset: Dataset, newest: Manifest) -> None:
        # A broken history is read again each time, as it may have been repaired.
        known = self._lines[-1].id if self._lines and not self._broken else None
        if newest.snapshot_id == known:
            return
        sequence = dataset.chain.sequence_of(newest)
        fresh: list[HistoryLine] = []
        partitions: dict[str, Partition] = {}
        broken, is_whole = None, True
        try:
            for snapshot in dataset.history(as_of=Snapshot(newest)):
                if snapshot.id == known:
                    marked = _marked(fresh[::-1], self._lines[-MAX_OVERTAKEN:])
                    self._lines += with_totals(marked, self._lines)
                    if len(self._lines) > MAX_LINES:
                        del self._lines[:-MAX_LINES]
                        self._is_whole = False
                    known_partitions = dict(self._partitions)
                    merge_partitions(known_partitions, partitions, limit=MAX_PARTITIONS)
                    self._finish(dataset, newest, known_partitions)
                    return
                if len(fresh) == MAX_LINES:
                    is_whole = False
                    break
                added = view_partitions(dataset, snapshot.manifest)
                merge_partitions(partitions, added, limit=MAX_PARTITIONS)
                fresh.append(_line(snapshot, sequence - len(fresh), len(added)))
        except LodeError as error:
            broken, is_whole = str(error), False
        self._lines, self._broken, self._is_whole = with_totals(_marked(fresh[::-1])), broken, is_whole
        self._finish(dataset, newest, partitions)

    def _finish(self, dataset: Dataset, newest: Manifest, partitions: dict[str, Partition]) -> None:
        """Set what is visible: all files, unless a snapshot removed some."""
        self._state = None
        if not all(line.is_append for line in self._lines):
            try:
                self._state = dataset.plan(as_of=Snapshot(newest))
                partitions = {}
                for manifest in self._state.manifests:
                    merge_partitions(partitions, view_partitions(dataset, manifest), limit=MAX_PARTITIONS)
            except LodeError as error:
                self._state, self._broken = None, self._broken or str(error)
        self._set_partitions(partitions)

    def _set_partitions(self, partitions: dict[str, Partition]) -> None:
        # One pass in practice, since ids are nearly sorted.
        self._ids = sorted(line.id for line in self._lines)
        self._partitions = partitions


def view_partitions(dataset: Dataset, manifest: Manifest) -> dict[str, Partition]:
    """The partitions of one snapshot; empty if the dataset is not partitioned."""
    return partitions_of(dataset, manifest) if dataset.layout.keys else {}


def buckets(lines: Sequence[HistoryLine], limit: int) -> Iterator[dict[str, Any]]:
    """Sum up at most ``limit`` runs of snapshots, oldest first; a short history has one snapshot in each."""
    runs = min(limit, len(lines))
    for number in range(runs):
        run = lines[number * len(lines) // runs : (number + 1) * len(lines) // runs]
        yield {
            "first": run[0].sequence,
            "last": run[-1].sequence,
            "from": ns_to_rfc3339(run[0].created_ns),
            "to": ns_to_rfc3339(run[-1].created_ns),
            "rows": sum(line.added for line in run),
            "removed": sum(line.removed for line in run),
            "bytes": sum(line.bytes for line in run),
            "rebased": sum(line.rebased > 0 for line in run),
            "total_rows": run[-1].total_rows,
            "total_bytes": run[-1].total_bytes,
        }


def contention(lines: Sequence[HistoryLine]) -> dict[str, Any]:
    """How many of the newest snapshots were rebased or grouped, and the largest group of them."""
    recent = lines[-MAX_RECENT:]
    return {
        "recent": len(recent),
        "rebased": sum(line.rebased > 0 for line in recent),
        "grouped": sum(line.group > 1 for line in recent),
        "groups": len({line.sequence - line.place for line in recent if line.group > 1}),
        "largest": max(line.group for line in recent),
        "points": [
            {"time": ns_to_rfc3339(line.created_ns), "rebased": line.rebased, "group": line.group}
            for line in recent
        ],
    }


def with_totals(lines: list[HistoryLine], known: Sequence[HistoryLine] = ()) -> list[HistoryLine]:
    """Set the rows and bytes of the dataset at each of the lines, which follow the ``known`` ones.

    After a restore they are those of the restored snapshot.
    """
    found: list[HistoryLine] = []
    restored = {line.restores for line in lines if line.restores}
    then = {line.id: line for line in known if line.id in restored} if restored else {}
    rows, size = (known[-1].total_rows, known[-1].total_bytes) if known else (0, 0)
    for line in lines:
        rows = max(0, rows - line.removed_rows) + line.rows
        size = max(0, size - line.removed_bytes) + line.bytes
        if line.restores in then:
            back = then[line.restores]
            line = line._replace(added=max(0, back.total_rows - rows))
            rows, size = back.total_rows, back.total_bytes
        found.append(line._replace(total_rows=rows, total_bytes=size))
        if line.id in restored:
            then[line.id] = found[-1]
    return found


def short_id(id: str, ids: Sequence[str]) -> str:
    """The shortest prefix of ``id`` that is unique in the sorted ``ids``; at least 13 characters."""
    place = bisect_left(ids, id)
    beside = [*ids[max(0, place - 1) : place], *ids[place + 1 : place + 2]]
    shared = max((_shared_length(id, other) for other in beside), default=0)
    return id[: max(MIN_ID_LENGTH, shared + 1)]


def _shared_length(one: str, other: str) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _line(snapshot: Snapshot, sequence: int, partitions: int) -> HistoryLine:
    manifest = snapshot.manifest
    change = row_change(manifest)
    group = manifest.group
    return HistoryLine(
        sequence,
        snapshot.id,
        rfc3339_to_ns(manifest.created_at),
        manifest.row_count,
        snapshot.size_bytes,
        len(manifest.files),
        partitions,
        rebased=snapshot.rebases,
        keyed=manifest.idempotency is not None,
        group=group.size,
        place=group.place,
        operation=manifest.operation,
        added=change.added,
        removed=change.removed,
        removed_rows=manifest.removed.rows,
        removed_bytes=manifest.removed.bytes,
        restores=manifest.restores,
        is_append=manifest.is_append,
    )


def _marked(lines: list[HistoryLine], known: Sequence[HistoryLine] = ()) -> list[HistoryLine]:
    """Set ``rebased`` of lines that follow the ``known`` ones."""
    placed = [*known, *lines]
    return [
        line._replace(rebased=max(line.rebased, _overtaken(placed, max(0, place - line.place + 1), line.id)))
        for place, line in enumerate(lines, len(known))
    ]


def _overtaken(lines: Sequence[HistoryLine], place: int, snapshot_id: str) -> int:
    before = place
    while (
        before and place - before < MAX_OVERTAKEN and began_before(snapshot_id, lines[before - 1].created_ns)
    ):
        before -= 1
    return place - before


def began_before(snapshot_id: str, created_ns: int) -> bool:
    """Whether the write of a snapshot began before another snapshot was committed.

    If that is its parent, the write was rebased. A manifest records the number of rebases, but not of the
    snapshots between, and older manifests record neither; an id contains the time at which its write began.
    """
    digits, dash, _ = snapshot_id.partition("-")
    return bool(dash) and len(digits) == _DIGITS and digits.isdecimal() and int(digits) < created_ns
