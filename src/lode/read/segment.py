"""A history segment: the manifests of 16, 64, 256, 1,024 or 4,096 sequences in one compressed object.

A scan plan needs little of a manifest: names and sizes of files, numbers of rows. So a segment begins with a
listing of these, column by column, and a plan decompresses only that part. The published manifests follow it.
"""

# No annotations as text here: msgspec would compile each of them when a process reads its first segment.

from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from lode.errors import ManifestInvalidError
from lode.format.manifest import Count, Manifest, Text, decode_struct

if TYPE_CHECKING:
    from collections.abc import Iterator

# At most three segments of a level follow each other. Version 0.1 writes only every second level.
LEVELS: Final = (4096, 1024, 256, 64, 16)
SCHEMA_NAME: Final = "lode-history"

# Maximum size of a segment that is written or read, before and after decompression.
MAX_SEGMENT_BYTES: Final = 128 << 20

_MANIFESTS: Final = b',"manifests":['
# How much is decompressed at a time. The listing of 256 snapshots with a file each is 32 KiB.
_PIECE: Final = 1 << 14


class SegmentListing(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What a scan plan needs of consecutive snapshots, oldest first."""

    parent: str | None = None
    snapshots: list[str]
    rows: list[Count]
    # The number of paths and sizes of each snapshot.
    files: list[Count]
    paths: list[Text]
    sizes: list[Count]


class HistorySegment(msgspec.Struct, frozen=True, omit_defaults=True):
    """The manifests of consecutive sequences, oldest first, each exactly as it was published."""

    schema_name: str
    first: int
    last: int
    listing: SegmentListing | None = None
    manifests: tuple[msgspec.Raw, ...] = ()


class _Decoded(msgspec.Struct):
    manifests: tuple[Manifest, ...]


class _ListedFile(msgspec.Struct, gc=False):
    path: Text
    size_bytes: Count


class _Listed(msgspec.Struct, gc=False, kw_only=True):
    # Manifests of another version are read from their own objects, where an error can name them.
    format_version: Literal["1.0.0"]
    snapshot_id: Text
    parent_snapshot_id: str | None = None
    row_count: Count
    # Go stores the files of an empty write as null.
    files: tuple[_ListedFile, ...] | None


def encode_segment(manifests: list[bytes], last: int) -> bytes:
    """Encode consecutive published manifests, oldest first, as one compressed object."""
    import zstandard

    raw = tuple(msgspec.Raw(data) for data in manifests)
    segment = HistorySegment(SCHEMA_NAME, last - len(raw) + 1, last, list_manifests(raw), raw)
    plain = msgspec.json.encode(segment)
    if len(plain) > MAX_SEGMENT_BYTES:
        raise ManifestInvalidError(f"a segment of {len(plain)} bytes is larger than {MAX_SEGMENT_BYTES}")
    # With a checksum, so that damage is noticed: writers decide by segments what they may follow.
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(plain)


def decode_segment(data: bytes) -> tuple[msgspec.Raw, ...]:
    """The manifests of a segment, none of them decoded yet."""
    return _decoded(b"".join(decompress(data))).manifests


def decode_manifests(data: bytes) -> tuple[Manifest, ...]:
    """The manifests of a segment, decoded at once, which takes half as long; none of them is checked."""
    plain = b"".join(decompress(data))
    origin = "a history segment"
    try:
        return decode_struct(plain, _Decoded, origin=origin).manifests
    except ManifestInvalidError:
        # One by one, lists that Go stores as null are read as empty.
        return tuple(decode_struct(bytes(raw), Manifest, origin=origin) for raw in _decoded(plain).manifests)


def list_segment(data: bytes, level: int, last: int) -> SegmentListing:
    """The listing of a segment. Raises ``ManifestInvalidError`` if it holds other sequences."""
    head = _decoded(_head(data))
    listing = head.listing or list_manifests(decode_segment(data))
    if (head.first, head.last, len(listing.snapshots)) != (last - level + 1, last, level):
        raise ManifestInvalidError(f"the segment does not hold sequences {last - level + 1} to {last}")
    if not (
        len(listing.rows) == len(listing.files) == level
        and len(listing.paths) == len(listing.sizes) == sum(listing.files)
    ):
        raise ManifestInvalidError(f"the segment of {last} lists other files than it counts")
    return listing


def list_manifests(manifests: tuple[msgspec.Raw, ...]) -> SegmentListing:
    """The listing of these manifests. Raises ``ManifestInvalidError`` if they are not consecutive."""
    listed = [decode_struct(bytes(raw), _Listed, origin="a history segment") for raw in manifests]
    for older, newer in pairwise(listed):
        if newer.parent_snapshot_id != older.snapshot_id:
            raise ManifestInvalidError(f"{newer.snapshot_id} does not follow {older.snapshot_id}")
    return SegmentListing(
        parent=listed[0].parent_snapshot_id if listed else None,
        snapshots=[each.snapshot_id for each in listed],
        rows=[each.row_count for each in listed],
        files=[len(each.files or ()) for each in listed],
        paths=[file.path for each in listed for file in each.files or ()],
        sizes=[file.size_bytes for each in listed for file in each.files or ()],
    )


def _decoded(plain: bytes) -> HistorySegment:
    return decode_struct(plain, HistorySegment, origin="a history segment")


def _head(data: bytes) -> bytes:
    """A segment without its manifests.

    Cutting at the marker is safe: JSON strings escape quotes, so it cannot occur inside one.
    """
    head = bytearray()
    for piece in decompress(data):
        start = max(len(head) - len(_MANIFESTS), 0)
        head += piece
        end = head.find(_MANIFESTS, start)
        if end >= 0:
            return bytes(head[:end]) + b"}"
    return bytes(head)


def decompress(data: bytes) -> "Iterator[bytes]":
    """Decompress piece by piece up to ``MAX_SEGMENT_BYTES``. The size in a frame's header is not trusted."""
    import zstandard

    size = 0
    try:
        with zstandard.ZstdDecompressor(max_window_size=MAX_SEGMENT_BYTES).stream_reader(data) as reader:
            while piece := reader.read(_PIECE):
                size += len(piece)
                if size > MAX_SEGMENT_BYTES:
                    raise ManifestInvalidError(f"a history segment is larger than {MAX_SEGMENT_BYTES} bytes")
                yield piece
    except zstandard.ZstdError as error:
        raise ManifestInvalidError(f"not a history segment: {error}") from None
