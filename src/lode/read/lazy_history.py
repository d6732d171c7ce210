"""A whole history in order: files and row counts come from listings, manifests are decoded on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, overload

import msgspec

from lode.errors import LodeError
from lode.format.manifest import check_whole_manifest
from lode.read.segment import SegmentListing, decode_manifests, decode_segment, list_segment
from lode.times import rfc3339_to_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.format.manifest import Manifest
    from lode.read.resolve import Chain, Named


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """The snapshots of one segment that was checked, which stays compressed in memory."""

    listing: SegmentListing
    _data: bytes
    _chain: Chain[Manifest]

    @property
    def newest(self) -> str:
        return self.listing.snapshots[-1]

    @property
    def weight(self) -> int:
        """How many snapshots and files it lists."""
        return len(self.listing.snapshots) + len(self.listing.paths)

    def manifests(self) -> list[Manifest]:
        """Its manifests, oldest first. If one of them is invalid, all are read from their own objects."""
        listed = self.listing.snapshots
        try:
            found = list(decode_manifests(self._data))
            for manifest in found:
                check_whole_manifest(manifest, None, self._chain.paths.root)
                self._chain.check_owner(manifest, self._chain.paths.root)
            if [manifest.snapshot_id for manifest in found] == listed:
                return found
        except LodeError:
            pass
        return [
            self._chain.ancestor(each, child) for each, child in zip(listed, (*listed[1:], None), strict=True)
        ]

    def manifest(self, index: int) -> Manifest:
        """One of its manifests, counted from the oldest. No other is decoded."""
        listed = self.listing.snapshots
        try:
            raw = decode_segment(self._data)[index]
            return self._chain.checked(bytes(raw), self._chain.paths.root, listed[index])
        except (LodeError, IndexError):
            child = listed[index + 1] if index + 1 < len(listed) else None
            return self._chain.ancestor(listed[index], child)

    def times(self) -> list[int]:
        """The creation times of its snapshots, oldest first. No other field of the manifests is decoded."""
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


def slice_of(
    chain: Chain[Manifest], level: int, last: int, newest: Named, data: bytes | None
) -> SegmentSlice | None:
    """The snapshots of a segment that ends with ``newest``; None if it is missing or does not fit."""
    if data is None:
        return None
    try:
        return SegmentSlice(list_segment(data, chain.owner, level, last, newest), data, chain)
    except LodeError as error:
        chain.report_ignored(chain.paths.segment(level, last), error)
        return None


class LazyHistory(Sequence["Manifest"]):
    """The manifests of a history, oldest first, decoded when one of them is first used."""

    def __init__(self, pieces: Sequence[SegmentSlice | Manifest]) -> None:
        self._pieces = pieces

    @property
    def ids(self) -> list[str]:
        """The id of every snapshot."""
        found: list[str] = []
        for piece in self._pieces:
            found += piece.listing.snapshots if isinstance(piece, SegmentSlice) else [piece.snapshot_id]
        return found

    @property
    def paths(self) -> list[str]:
        """The path of every file."""
        found: list[str] = []
        for piece in self._pieces:
            if isinstance(piece, SegmentSlice):
                found += piece.listing.paths
            else:
                found += [file.path for file in piece.files]
        return found

    @property
    def row_count(self) -> int:
        """The number of rows of all snapshots."""
        return sum(
            sum(piece.listing.rows) if isinstance(piece, SegmentSlice) else piece.row_count
            for piece in self._pieces
        )

    @property
    def size_bytes(self) -> int:
        """The size of all files on storage."""
        return sum(
            sum(piece.listing.sizes)
            if isinstance(piece, SegmentSlice)
            else sum(file.size_bytes for file in piece.files)
            for piece in self._pieces
        )

    @cached_property
    def _manifests(self) -> list[Manifest]:
        found: list[Manifest] = []
        for piece in self._pieces:
            found += piece.manifests() if isinstance(piece, SegmentSlice) else [piece]
        return found

    def __len__(self) -> int:
        return sum(
            len(piece.listing.snapshots) if isinstance(piece, SegmentSlice) else 1 for piece in self._pieces
        )

    def __iter__(self) -> Iterator[Manifest]:
        return iter(self._manifests)

    @overload
    def __getitem__(self, index: int) -> Manifest: ...
    @overload
    def __getitem__(self, index: slice) -> list[Manifest]: ...
    def __getitem__(self, index: int | slice) -> Manifest | list[Manifest]:
        return self._manifests[index]
