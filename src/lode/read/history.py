"""Walk a history in few reads, by its segments.

History is immutable and linear, so a segment is a pure function of its end points: whoever writes it
writes the same. A segment that is missing or does not fit the chain costs time, never correctness: the
walk goes on with smaller segments and finally with single manifests.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from lode.errors import LodeError
from lode.read.lazy_history import Line, Run, run_of
from lode.read.resolve import Links
from lode.read.segment import LEVELS, MAX_SEGMENT_BYTES, decode_segment
from lode.read.source import get_bounded
from lode.runtime import Runtime, one_by_one
from lode.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import msgspec

    from lode.format.manifest import Manifest
    from lode.read.resolve import Chain
    from lode.read.which import Moment

# Segments read ahead at once: those of the newest 400,000 snapshots. A history is believed to be longer than
# that only if one of them is there.
MAX_WAVE: Final = 128


class History:
    """The snapshots of one chain, in order."""

    def __init__(self, chain: Chain[Manifest], runtime: Runtime) -> None:
        self._chain = chain
        self._runtime = runtime

    def newest_first(self, head: Manifest | None) -> Iterator[Manifest]:
        """Yield ``head`` and its ancestors, reading and decoding only as far as the caller asks."""
        if head is None:
            return
        links = Links(self._chain)
        links.follow(head)
        yield head
        current = head
        run = self._undecoded(head.sequence, head.snapshot_id)[:-1]
        while True:
            for ancestor in self._fitting(run, current):
                links.follow(ancestor)
                yield ancestor
                current = ancestor
            parent = current.parent_snapshot_id
            if parent is None:
                links.end()
                return
            run = self._undecoded(links.expected, parent)
            if not run:
                current = self._chain.ancestor(parent, current.snapshot_id)
                links.follow(current)
                yield current

    def oldest_first(self, head: Manifest | None) -> list[Manifest]:
        """The whole history up to ``head``."""
        return list(self.line(head))

    def line(self, head: Manifest | None) -> Line:
        """The whole history up to ``head``: the segments it needs are read in parallel."""
        if head is None:
            return Line([])
        # Handing a read of a local file to a thread takes longer than the read.
        each = one_by_one if isinstance(self._chain.store, LocalStore) else self._runtime.each
        spans = _spans(self._chain.sequence_of(head))
        ready: dict[int, Run | None] = {}
        while wave := list(islice(spans, MAX_WAVE)):
            found = each(lambda span: self._fetch(*span), wave)
            ready |= {
                span[1]: run_of(self._chain, *span, data) for span, data in zip(wave, found, strict=True)
            }
            if not any(found):
                break  # the sequence is wrong, or nobody wrote segments: the links decide
        return Line(list(self._pieces(head, ready))[::-1])

    def back(self, head: Manifest, steps: int) -> Manifest | None:
        """The snapshot so many before ``head``; segments on the way are not decoded."""
        if not steps:
            return head
        for piece in self._pieces(head, {}):
            count = len(piece.listing.snapshots) if isinstance(piece, Run) else 1
            if steps < count:
                return piece.manifest(count - 1 - steps) if isinstance(piece, Run) else piece
            steps -= count
        return None

    def at(self, head: Manifest, moment: Moment) -> Manifest | None:
        """The newest snapshot up to ``head`` that was made at a moment or before."""
        for piece in self._pieces(head, {}):
            if not isinstance(piece, Run):
                if moment.includes(piece):
                    return piece
                continue
            times = piece.times()
            for index in reversed(range(len(times))):
                if times[index] <= moment.nanoseconds:
                    return piece.manifest(index)
        return None

    def ids(self, head: Manifest) -> list[str]:
        """The ids of the whole history up to ``head``, oldest first."""
        return self.line(head).ids

    def _pieces(self, head: Manifest, ready: dict[int, Run | None]) -> Iterator[Run | Manifest]:
        """Follow the parent links, by segments where they fit: those at hand, else those on the store."""
        links = Links(self._chain)
        snapshot_id: str | None = head.snapshot_id
        last = head.sequence
        while snapshot_id is not None:
            run = self._run(last, snapshot_id, ready)
            if run is not None:
                links.step(run.newest, last, len(run.listing.snapshots))
                yield run
                snapshot_id = run.listing.parent
            else:
                first = links.newer is None
                manifest = head if first else self._chain.ancestor(snapshot_id, links.newer)
                links.follow(manifest)
                yield manifest
                snapshot_id = manifest.parent_snapshot_id
            last = links.expected
        links.end()

    def _run(self, last: int | None, snapshot_id: str, ready: dict[int, Run | None]) -> Run | None:
        """The largest run that ends with this snapshot, if there is one."""
        run = ready.get(last or 0)
        if run is not None and run.newest == snapshot_id:
            return run
        for span in _ending_at(last):
            run = run_of(self._chain, *span, self._fetch(*span))
            if run is not None and run.newest == snapshot_id:
                return run
        return None

    def _fitting(self, run: Sequence[msgspec.Raw], newest: Manifest) -> Iterator[Manifest]:
        """The manifests of a segment, newest first, for as long as each is the parent of the one before."""
        for data in reversed(run):
            manifest = self._decoded(data)
            if manifest is None or manifest.snapshot_id != newest.parent_snapshot_id:
                return
            yield manifest
            newest = manifest

    def _undecoded(self, last: int | None, snapshot_id: str) -> Sequence[msgspec.Raw]:
        """The manifests of the largest segment that ends with this snapshot; none if there is none."""
        for span in _ending_at(last):
            data = self._fetch(*span)
            try:
                run = () if data is None else decode_segment(data)
            except LodeError:
                continue
            newest = self._decoded(run[-1]) if run else None
            if newest is not None and newest.snapshot_id == snapshot_id:
                return run
        return ()

    def _decoded(self, raw: msgspec.Raw) -> Manifest | None:
        try:
            return self._chain.checked(bytes(raw), self._chain.paths.root)
        except LodeError:
            return None

    def _fetch(self, level: int, last: int) -> bytes | None:
        try:
            return get_bounded(self._chain.store, self._chain.paths.segment(level, last), MAX_SEGMENT_BYTES)
        except LodeError:
            return None


def _ending_at(last: int | None) -> Iterator[tuple[int, int]]:
    """The (level, last) of the segments that may end at a sequence, largest first."""
    if last:
        yield from ((level, last) for level in LEVELS if last % level == 0)


def _spans(sequence: int) -> Iterator[tuple[int, int]]:
    """The (level, last) of the segments that cover 1 to ``sequence``, newest first, as large as they come."""
    smallest = LEVELS[-1]
    last = sequence - sequence % smallest
    while last:
        level = next(level for level in LEVELS if last % level == 0)
        yield level, last
        last -= level
