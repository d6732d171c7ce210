"""Walk a history in few reads: segments hold the manifests of 16, 256, 4096, … sequences at a time.

History is immutable and linear, so a segment is a pure function of its end points: whoever writes it
writes the same. A segment that is missing or does not fit the chain costs time, never correctness: the
walk goes on with smaller segments and finally with single manifests.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from lode.errors import LodeError, ManifestInvalidError, NotFoundError
from lode.read.resolve import AnyManifest, Chain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.runtime import Runtime

LEVELS: Final = (4096, 256, 16)
SCHEMA_NAME: Final = "lode-history"

M = TypeVar("M", bound=AnyManifest)


class Segment(msgspec.Struct, frozen=True):
    """The manifests of a run of sequences, oldest first, each exactly as it was published."""

    schema_name: str
    first: int
    last: int
    manifests: tuple[msgspec.Raw, ...]


class History(Generic[M]):
    """The snapshots of one chain, in order."""

    def __init__(self, chain: Chain[M], runtime: Runtime) -> None:
        self._chain = chain
        self._runtime = runtime

    def newest_first(self, head: M | None) -> Iterator[M]:
        """Yield ``head`` and its ancestors, reading only as far as the caller asks."""
        yield from self._walk(head, {})

    def oldest_first(self, head: M | None) -> list[M]:
        """The whole history up to ``head``: the segments it needs are read at once, in parallel."""
        if head is None:
            return []
        spans = list(_spans(self._chain.sequence_of(head)))
        runs = self._runtime.each(lambda span: self._read(*span), spans)
        ready = {last: run for (_, last), run in zip(spans, runs, strict=True) if run is not None}
        return list(self._walk(head, ready))[::-1]

    def _walk(self, head: M | None, ready: dict[int, list[M]]) -> Iterator[M]:
        """Follow the parent links, by segments where they fit: those at hand, else those on the store."""
        current = head
        while current is not None:
            yield current
            run = self._run(current.sequence, current.snapshot_id, ready)
            if run is not None:
                yield from reversed(run[:-1])
                current = run[0]
            parent = current.parent_snapshot_id
            current = self._chain.require(parent) if parent else None

    def _run(self, last: int | None, snapshot_id: str, ready: dict[int, list[M]]) -> list[M] | None:
        """The manifests of a segment that ends with this snapshot, if there is one."""
        if last is None:
            return None
        run = ready.get(last)
        return run if run and run[-1].snapshot_id == snapshot_id else self._largest_run(last, snapshot_id)

    def _largest_run(self, last: int, snapshot_id: str) -> list[M] | None:
        """The largest readable segment that ends at sequence ``last`` with this snapshot."""
        for level in LEVELS:
            if last >= level and last % level == 0:
                run = self._read(level, last)
                if run is not None and run[-1].snapshot_id == snapshot_id:
                    return run
        return None

    def _read(self, level: int, last: int) -> list[M] | None:
        """A segment's manifests, or None if it is missing or broken."""
        path = self._chain.paths.segment(level, last)
        try:
            return self._decode(self._chain.store.get(path), level, last, path)
        except NotFoundError:
            return None
        except (LodeError, msgspec.MsgspecError, ValueError):
            return None

    def _decode(self, data: bytes, level: int, last: int, path: str) -> list[M]:
        segment = decode_segment(data)
        if (segment.first, segment.last, len(segment.manifests)) != (last - level + 1, last, level):
            raise ManifestInvalidError(f"{path} does not hold sequences {last - level + 1} to {last}")
        run = [self._chain.decode(bytes(raw), path) for raw in segment.manifests]
        for older, newer in pairwise(run):
            if newer.parent_snapshot_id != older.snapshot_id:
                raise ManifestInvalidError(f"{path} is not one line at {newer.snapshot_id}")
        return run


def _spans(sequence: int) -> Iterator[tuple[int, int]]:
    """The (level, last) of the segments that cover 1 to ``sequence``, largest and oldest first."""
    done = 0
    for level in LEVELS:
        while done + level <= sequence:
            done += level
            yield level, done


def encode_segment(manifests: list[bytes], last: int) -> bytes:
    """A run of published manifests, oldest first, as one compressed object."""
    import zstandard

    raw = tuple(msgspec.Raw(data) for data in manifests)
    segment = Segment(SCHEMA_NAME, last - len(raw) + 1, last, raw)
    return zstandard.ZstdCompressor(level=3).compress(msgspec.json.encode(segment))


def decode_segment(data: bytes) -> Segment:
    import zstandard

    try:
        return msgspec.json.decode(zstandard.ZstdDecompressor().decompress(data), type=Segment)
    except zstandard.ZstdError as error:
        raise ManifestInvalidError(f"not a history segment: {error}") from None
