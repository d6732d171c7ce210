"""Walk a history in few reads, by its segments.

History is immutable and linear, so a segment is a pure function of its end points: whoever writes it
writes the same. A segment that is missing or does not fit the chain costs time, never correctness: the
walk goes on with smaller segments and finally with single manifests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lode.errors import LodeError
from lode.read.line import Line, Run, run_of
from lode.read.segment import LEVELS, decode_segment
from lode.runtime import Runtime, one_by_one
from lode.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lode.format.manifest import Manifest
    from lode.read.resolve import Chain


class History:
    """The snapshots of one chain, in order."""

    def __init__(self, chain: Chain[Manifest], runtime: Runtime) -> None:
        self._chain = chain
        self._runtime = runtime

    def newest_first(self, head: Manifest | None) -> Iterator[Manifest]:
        """Yield ``head`` and its ancestors, reading and decoding only as far as the caller asks."""
        if head is None:
            return
        yield head
        current = head
        run = self._undecoded(_sequence(head), head.snapshot_id)[:-1]
        while True:
            for ancestor in self._fitting(run, current):
                yield ancestor
                current = ancestor
            parent = current.parent_snapshot_id
            if parent is None:
                return
            run = self._undecoded(_sequence(current) - 1, parent)
            if not run:
                current = self._chain.require(parent)
                yield current

    def oldest_first(self, head: Manifest | None) -> list[Manifest]:
        """The whole history up to ``head``."""
        return list(self.line(head))

    def line(self, head: Manifest | None) -> Line:
        """The whole history up to ``head``: the segments it needs are read at once, in parallel."""
        if head is None:
            return Line([])
        spans = list(_spans(self._chain.sequence_of(head)))
        # Handing a read of a local file to a thread takes longer than the read.
        each = one_by_one if isinstance(self._chain.store, LocalStore) else self._runtime.each
        found = each(lambda span: self._fetch(*span), spans)
        ready = {span[1]: run_of(self._chain, *span, data) for span, data in zip(spans, found, strict=True)}
        return Line(list(self._pieces(head, ready))[::-1])

    def _pieces(self, head: Manifest, ready: dict[int, Run | None]) -> Iterator[Run | Manifest]:
        """Follow the parent links, by segments where they fit: those at hand, else those on the store."""
        snapshot_id: str | None = head.snapshot_id
        sequence = _sequence(head)
        while snapshot_id is not None:
            run = self._run(sequence, snapshot_id, ready)
            if run is not None:
                yield run
                snapshot_id = run.listing.parent
                sequence -= len(run.listing.snapshots)
            else:
                manifest = head if snapshot_id == head.snapshot_id else self._chain.require(snapshot_id)
                yield manifest
                snapshot_id = manifest.parent_snapshot_id
                sequence = _sequence(manifest) - 1

    def _run(self, last: int, snapshot_id: str, ready: dict[int, Run | None]) -> Run | None:
        """The largest run that ends with this snapshot, if there is one."""
        run = ready.get(last)
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

    def _undecoded(self, last: int, snapshot_id: str) -> Sequence[msgspec.Raw]:
        """The manifests of the largest segment that ends with this snapshot; none if there is none."""
        for span in _ending_at(last):
            data = self._fetch(*span)
            try:
                run = () if data is None else decode_segment(data)
            except (LodeError, msgspec.MsgspecError, ValueError):
                continue
            newest = self._decoded(run[-1]) if run else None
            if newest is not None and newest.snapshot_id == snapshot_id:
                return run
        return ()

    def _decoded(self, raw: msgspec.Raw) -> Manifest | None:
        try:
            return self._chain.decode(bytes(raw), self._chain.paths.root)
        except LodeError:
            return None

    def _fetch(self, level: int, last: int) -> bytes | None:
        try:
            return self._chain.store.get(self._chain.paths.segment(level, last))
        except LodeError:
            return None


def _sequence(manifest: Manifest) -> int:
    """Where segments may place a snapshot; 0 if it does not say, and there no segment ends."""
    return manifest.sequence or 0


def _ending_at(last: int) -> Iterator[tuple[int, int]]:
    """The (level, last) of the segments that may end at a sequence, largest first."""
    if last > 0:
        yield from ((level, last) for level in LEVELS if last % level == 0)


def _spans(sequence: int) -> Iterator[tuple[int, int]]:
    """The (level, last) of the segments that cover 1 to ``sequence``, largest and oldest first."""
    done = 0
    for level in LEVELS:
        while done + level <= sequence:
            done += level
            yield level, done
