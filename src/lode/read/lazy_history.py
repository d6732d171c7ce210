"""A whole history in order, of which only what a plan asks is at hand; manifests are decoded on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, overload

import msgspec

from lode.errors import LodeError
from lode.read.segment import Listing, decode_segment, list_segment
from lode.times import rfc3339_to_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.format.manifest import Manifest
    from lode.read.resolve import Chain


@dataclass(frozen=True, slots=True)
class Run:
    """The snapshots of one segment. It is kept compressed, which is small."""

    listing: Listing
    _data: bytes
    _chain: Chain[Manifest]

    @property
    def newest(self) -> str:
        return self.listing.snapshots[-1]

    def manifests(self) -> list[Manifest]:
        """Its manifests, oldest first; should one in the segment be invalid, all are read by themselves."""
        listed = self.listing.snapshots
        try:
            raw = decode_segment(self._data)
            found = [self._chain.checked(bytes(manifest), self._chain.paths.root) for manifest in raw]
            if [manifest.snapshot_id for manifest in found] == listed:
                return found
        except LodeError:
            pass
        return [
            self._chain.ancestor(each, child) for each, child in zip(listed, (*listed[1:], None), strict=True)
        ]

    def manifest(self, index: int) -> Manifest:
        """One of its manifests, the oldest being 0; no other is decoded."""
        listed = self.listing.snapshots
        try:
            raw = decode_segment(self._data)[index]
            return self._chain.checked(bytes(raw), self._chain.paths.root, listed[index])
        except (LodeError, IndexError):
            child = listed[index + 1] if index + 1 < len(listed) else None
            return self._chain.ancestor(listed[index], child)

    def times(self) -> list[int]:
        """When each of its snapshots was made, oldest first; the manifests are not decoded further."""
        try:
            made = [_MADE.decode(raw).created_at for raw in decode_segment(self._data)]
            if len(made) == len(self.listing.snapshots):
                return list(map(rfc3339_to_ns, made))
        except (LodeError, msgspec.MsgspecError, ValueError, OverflowError):
            pass
        return [rfc3339_to_ns(manifest.created_at) for manifest in self.manifests()]


class _Made(msgspec.Struct, gc=False):
    created_at: str


_MADE = msgspec.json.Decoder(_Made)


def run_of(chain: Chain[Manifest], level: int, last: int, data: bytes | None) -> Run | None:
    """The snapshots a segment holds; None if it is missing or broken."""
    try:
        return None if data is None else Run(list_segment(data, level, last), data, chain)
    except LodeError:
        return None


class Line(Sequence["Manifest"]):
    """Manifests of one line of history, oldest first."""

    def __init__(self, pieces: Sequence[Run | Manifest]) -> None:
        self._pieces = pieces

    @property
    def ids(self) -> list[str]:
        """The id of every snapshot."""
        found: list[str] = []
        for piece in self._pieces:
            found += piece.listing.snapshots if isinstance(piece, Run) else [piece.snapshot_id]
        return found

    @property
    def paths(self) -> list[str]:
        """The name of every file."""
        found: list[str] = []
        for piece in self._pieces:
            found += piece.listing.paths if isinstance(piece, Run) else [file.path for file in piece.files]
        return found

    @property
    def row_count(self) -> int:
        return sum(
            sum(piece.listing.rows) if isinstance(piece, Run) else piece.row_count for piece in self._pieces
        )

    @property
    def size_bytes(self) -> int:
        return sum(
            sum(piece.listing.sizes if isinstance(piece, Run) else (file.size_bytes for file in piece.files))
            for piece in self._pieces
        )

    @cached_property
    def _manifests(self) -> list[Manifest]:
        found: list[Manifest] = []
        for piece in self._pieces:
            found += piece.manifests() if isinstance(piece, Run) else [piece]
        return found

    def __len__(self) -> int:
        return sum(len(piece.listing.snapshots) if isinstance(piece, Run) else 1 for piece in self._pieces)

    def __iter__(self) -> Iterator[Manifest]:
        return iter(self._manifests)

    @overload
    def __getitem__(self, index: int) -> Manifest: ...
    @overload
    def __getitem__(self, index: slice) -> list[Manifest]: ...
    def __getitem__(self, index: int | slice) -> Manifest | list[Manifest]:
        return self._manifests[index]
