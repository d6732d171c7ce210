"""Walk a history in few reads, by its segments.

A segment is opened only for a snapshot whose digest the snapshot after it names. One that is missing, or does
not fit, costs time, never correctness: the walk continues with smaller segments and finally with single
manifests.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from lode.errors import LodeError, ManifestInvalidError
from lode.format.manifest import DROP
from lode.read.lazy_history import LazyHistory, SegmentSlice, slice_of
from lode.read.resolve import AnyManifest, Links, Named, begins_with, named_parent
from lode.read.segment import LEVELS, MAX_SEGMENT_BYTES, open_segment
from lode.read.source import get_bounded
from lode.runtime import Runtime, one_by_one
from lode.store.protocol import is_nearby

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import msgspec

    from lode.format.manifest import Manifest
    from lode.read.resolve import Chain
    from lode.read.which import Moment

# Segments read at once: those of the newest 400,000 snapshots. More are read only if one of these exists.
MAX_WAVE: Final = 128
# How many snapshots and files of checked segments a process keeps for its next plan: a few megabytes.
MAX_KEPT: Final = 32_768
# In the place of a digest: a snapshot that is not published yet is in no segment.
UNPUBLISHED: Final = "unpublished"

M = TypeVar("M", bound=AnyManifest)


class History:
    """The snapshots of one chain, in order."""

    def __init__(self, chain: Chain[Manifest], runtime: Runtime) -> None:
        self._chain = chain
        self._runtime = runtime
        # Segments that were checked, by the digest of their newest manifest, which decides all of them.
        self._checked: dict[tuple[int, int, Named], SegmentSlice] = {}

    def newest_first(self, head: Manifest | None) -> Iterator[Manifest]:
        """Yield ``head`` and its ancestors, reading and decoding only as far as the caller iterates."""
        if head is None:
            return
        links = Links(self._chain)
        links.follow(head)
        yield head
        current = head
        segment = self._undecoded(head.sequence, self._named(head))[:-1]
        while True:
            if begins_with(current):
                return
            for ancestor in self._fitting(segment, current):
                if ancestor.operation == DROP:
                    return
                links.follow(ancestor)
                yield ancestor
                current = ancestor
            parent = named_parent(current)
            if parent is None:
                links.end()
                return
            segment = self._undecoded(links.expected, parent)
            if not segment:
                current = self._chain.ancestor(parent.snapshot_id, current.snapshot_id)
                if current.operation == DROP:
                    return
                links.follow(current)
                yield current

    def up_to(self, head: Manifest | None) -> LazyHistory:
        """The whole history up to ``head``: the segments it needs are read in parallel."""
        if head is None:
            return LazyHistory([])
        each = one_by_one if is_nearby(self._chain.store) else self._runtime.each
        checked = {(level, last) for level, last, _ in list(self._checked)}
        every = takewhile(lambda span: span[1] >= head.begins, _spans(self._chain.sequence_of(head)))
        spans = (span for span in every if span not in checked)
        ready: dict[int, bytes | None] = {}
        while wave := list(islice(spans, MAX_WAVE)):
            found = each(lambda span: self._fetch(*span), wave)
            ready |= {span[1]: data for span, data in zip(wave, found, strict=True)}
            if not any(found):
                break  # the sequence is wrong, or there are no segments: the parent links decide
        return LazyHistory(list(self._pieces(head, ready))[::-1])

    def back(self, head: Manifest, steps: int) -> Manifest | None:
        """The snapshot ``steps`` before ``head``. Segments in between are not decoded."""
        if not steps:
            return head
        for piece in self._pieces(head, {}):
            count = len(piece.listing.snapshots) if isinstance(piece, SegmentSlice) else 1
            if steps < count:
                return piece.manifest(count - 1 - steps) if isinstance(piece, SegmentSlice) else piece
            steps -= count
        return None

    def at(self, head: Manifest, moment: Moment) -> Manifest | None:
        """The newest snapshot up to ``head`` that was created at this moment or before."""
        for piece in self._pieces(head, {}):
            if not isinstance(piece, SegmentSlice):
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
        return self.up_to(head).ids

    def _pieces(self, head: Manifest, ready: dict[int, bytes | None]) -> Iterator[SegmentSlice | Manifest]:
        """Follow the parent links, by segments where they fit: from ``ready``, else from the store."""
        links = Links(self._chain)
        named: Named | None = self._named(head)
        last = head.sequence
        while named is not None:
            segment = self._segment(last, named, ready)
            if segment is not None:
                links.step(segment.newest, last, len(segment.listing.snapshots))
                yield segment
                named = segment.listing.parent
            else:
                first = links.newer is None
                manifest = head if first else self._chain.ancestor(named.snapshot_id, links.newer)
                if manifest.operation == DROP:
                    return
                links.follow(manifest)
                yield manifest
                named = named_parent(manifest)
                if begins_with(manifest):
                    return
            last = links.expected
        links.end()

    def _named(self, head: Manifest) -> Named:
        """The snapshot that a walk begins with. Its digest is needed only if a segment ends with it."""
        if next(_ending_at(head.sequence), None) is None:
            return Named(head.snapshot_id)
        try:
            return Named(head.snapshot_id, self._chain.sha256_of(head.snapshot_id))
        except ManifestInvalidError:
            return Named(head.snapshot_id, UNPUBLISHED)

    def _segment(
        self, last: int | None, newest: Named, ready: dict[int, bytes | None]
    ) -> SegmentSlice | None:
        """The largest segment that ends with this snapshot, if any."""
        for span in _ending_at(last):
            known = self._checked.get((*span, newest))
            if known is not None:
                return known
            # The largest one may have been read before.
            data = ready.pop(span[1]) if span[1] in ready else self._fetch(*span)
            segment = slice_of(self._chain, *span, newest, data)
            if segment is not None:
                self._keep(*span, newest, segment)
                return segment
        return None

    def _keep(self, level: int, last: int, newest: Named, segment: SegmentSlice) -> None:
        """Keep a segment for the next plan, unless only links and a checksum speak for it."""
        if newest.sha256 is None or segment.weight > MAX_KEPT:
            return
        self._checked[level, last, newest] = segment
        while sum(each.weight for each in list(self._checked.values())) > MAX_KEPT:
            self._checked.pop(next(iter(list(self._checked))), None)

    def _fitting(self, segment: Sequence[msgspec.Raw], newest: Manifest) -> Iterator[Manifest]:
        """The manifests of a segment, newest first, as long as each is the parent of the one before it."""
        for data in reversed(segment):
            manifest = self._decoded(data)
            if manifest is None or manifest.snapshot_id != newest.parent_snapshot_id:
                return
            yield manifest
            newest = manifest

    def _undecoded(self, last: int | None, newest: Named) -> Sequence[msgspec.Raw]:
        """The undecoded manifests of the largest segment that ends with this snapshot; empty without one."""
        for span in _ending_at(last):
            data = self._fetch(*span)
            if data is not None:
                try:
                    return open_segment(data, self._chain.owner, *span, newest)
                except LodeError as error:
                    self._chain.report_ignored(self._chain.paths.segment(*span), error)
        return ()

    def _decoded(self, raw: msgspec.Raw) -> Manifest | None:
        try:
            return self._chain.checked(bytes(raw), self._chain.paths.root)
        except LodeError:
            return None

    def _fetch(self, level: int, last: int) -> bytes | None:
        return fetch_segment(self._chain, level, last)


def walk_back(chain: Chain[M], newest: M | None, runtime: Runtime) -> Iterator[M]:
    """The snapshots of a dataset or a volume, newest first, by segments where there are any."""
    if chain.has_segments:
        return cast("Iterator[M]", History(cast("Any", chain), runtime).newest_first(cast("Any", newest)))
    return chain.back(newest)


def fetch_segment(chain: Chain[Any], level: int, last: int) -> bytes | None:
    """The bytes of a segment; None if it cannot be read."""
    try:
        return get_bounded(chain.store, chain.paths.segment(level, last), MAX_SEGMENT_BYTES)
    except LodeError:
        return None


def _ending_at(last: int | None) -> Iterator[tuple[int, int]]:
    """The (level, last) of the segments that may end at a sequence, largest first."""
    if last:
        yield from ((level, last) for level in LEVELS if last % level == 0)


def _spans(sequence: int) -> Iterator[tuple[int, int]]:
    """The (level, last) of the largest segments that cover 1 to ``sequence``, newest first."""
    smallest = LEVELS[-1]
    last = sequence - sequence % smallest
    while last:
        level = next(level for level in LEVELS if last % level == 0)
        yield level, last
        last -= level
