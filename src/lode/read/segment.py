"""A history segment: the manifests of 16, 64, 256, 1,024 or 4,096 sequences in one compressed object.

A segment only repeats manifests. It is believed if it fits its history: every manifest names its parent by
the digest of the parent's bytes, so the snapshot after a segment vouches for all of it.
"""

# No annotations as text here: msgspec would compile each of them when a process reads its first segment.

from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from lode.errors import ManifestInvalidError
from lode.format.ids import shortened
from lode.format.manifest import DROP, Count, Manifest, Text, decode_struct
from lode.read.resolve import Named

if TYPE_CHECKING:
    from collections.abc import Sequence

# At most three segments of a level follow each other. Version 0.1 writes only every second level.
LEVELS: Final = (4096, 1024, 256, 64, 16)
SCHEMA_NAME: Final = "lode-history"

# Maximum size of a segment that is written or read, before and after decompression.
MAX_SEGMENT_BYTES: Final = 128 << 20

# How much is decompressed at a time if an object does not say how much it holds.
_PIECE: Final = 1 << 15
_ORIGIN: Final = "a history segment"


class HistorySegment(msgspec.Struct, frozen=True, omit_defaults=True):
    """The manifests of consecutive sequences, oldest first, each exactly as it was published."""

    schema_name: str
    first: int
    last: int
    manifests: tuple[msgspec.Raw, ...] = ()


class SegmentListing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a scan plan needs of consecutive snapshots, oldest first."""

    # The snapshot before the first one, as that one names it.
    parent: Named | None
    snapshots: list[str]
    rows: list[int]
    # The number of paths and sizes of each snapshot.
    files: list[int]
    paths: list[str]
    sizes: list[int]


class _Decoded(msgspec.Struct):
    manifests: tuple[Manifest, ...]


class _ListedFile(msgspec.Struct, gc=False):
    path: Text
    size_bytes: Count


class _ListedExtension(msgspec.Struct, gc=False):
    parent_sha256: str | None = None
    operation: str | None = None


class _Listed(msgspec.Struct, gc=False, kw_only=True):
    # Manifests of another version are read from their own objects, where an error can name them.
    format_version: Literal["1.0.0"]
    dataset_id: str
    snapshot_id: Text
    parent_snapshot_id: str | None = None
    row_count: Count
    # Go stores the files of an empty write as null.
    files: tuple[_ListedFile, ...] | None
    sequence: int | None = None
    x: _ListedExtension | None = None

    @property
    def parent(self) -> Named | None:
        if not self.parent_snapshot_id:
            return None
        return Named(self.parent_snapshot_id, None if self.x is None else self.x.parent_sha256)


_LISTED: Final = msgspec.json.Decoder(_Listed)


def encode_segment(manifests: list[bytes], last: int) -> bytes:
    """Encode consecutive published manifests, oldest first, as one compressed object."""
    import zstandard

    raw = tuple(msgspec.Raw(data) for data in manifests)
    plain = msgspec.json.encode(HistorySegment(SCHEMA_NAME, last - len(raw) + 1, last, raw))
    if len(plain) > MAX_SEGMENT_BYTES:
        raise ManifestInvalidError(f"a segment of {len(plain)} bytes is larger than {MAX_SEGMENT_BYTES}")
    # With a checksum, because manifests of Go and of earlier versions name no digest of their parent.
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(plain)


def open_segment(
    data: bytes, owner: str, level: int, last: int, newest: Named, wanted: int | None = None
) -> tuple[msgspec.Raw, ...]:
    """The manifests of a segment, oldest first, if they are the snapshot ``newest`` and its ancestors.

    Args:
        data: The object.
        owner: The id of the dataset.
        level: The number of its manifests.
        last: The sequence of the newest one.
        newest: The newest one as the snapshot after it names it.
        wanted: Return only as many of the newest, and check only those.

    Raises:
        ManifestInvalidError: It is damaged, of another history, or forged.
    """
    return _open(data, owner, level, last, newest, wanted)[0]


def list_segment(data: bytes, owner: str, level: int, last: int, newest: Named) -> SegmentListing:
    """What a plan needs of the manifests of a segment, which is checked as ``open_segment`` does."""
    listed = _open(data, owner, level, last, newest)[1]
    return SegmentListing(
        parent=listed[0].parent,
        snapshots=[each.snapshot_id for each in listed],
        rows=[each.row_count for each in listed],
        files=[len(each.files or ()) for each in listed],
        paths=[file.path for each in listed for file in each.files or ()],
        sizes=[file.size_bytes for each in listed for file in each.files or ()],
    )


def _open(
    data: bytes, owner: str, level: int, last: int, newest: Named, wanted: int | None = None
) -> tuple[tuple[msgspec.Raw, ...], list[_Listed]]:
    segment = _decoded(decompress(data))
    manifests = segment.manifests
    if (segment.first, segment.last, len(manifests)) != (last - level + 1, last, level):
        raise ManifestInvalidError(f"it does not hold sequences {last - level + 1} to {last}")
    if wanted is not None:
        manifests = manifests[-wanted:]
    return manifests, _check_line(manifests, owner, last, newest)


def _check_line(manifests: "Sequence[msgspec.Raw]", owner: str, last: int, newest: Named) -> list[_Listed]:
    """Check that these manifests, oldest first, are a snapshot and its ancestors as each child names them."""
    try:
        listed = [_LISTED.decode(raw) for raw in manifests]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ManifestInvalidError(f"{_ORIGIN}: {error}") from None
    # What each is called by the next one. From old to new: memory is read in order, which is twice as fast.
    ids = [each.parent_snapshot_id for each in listed[1:]] + [newest.snapshot_id]
    digests = [None if each.x is None else each.x.parent_sha256 for each in listed[1:]] + [newest.sha256]
    first = last - len(listed) + 1
    for place, (raw, found, wanted, digest) in enumerate(zip(manifests, listed, ids, digests, strict=True)):
        if found.snapshot_id != wanted:
            raise ManifestInvalidError(f"it holds {shortened(found.snapshot_id)} in the place of {wanted}")
        if digest is not None and sha256(raw).hexdigest() != digest:
            raise ManifestInvalidError(f"its manifest of {wanted} is not the one that was committed")
        if found.dataset_id != owner or found.sequence not in (None, first + place):
            raise ManifestInvalidError(f"its manifest of {wanted} is of another history")
        if found.x is not None and found.x.operation == DROP:
            raise ManifestInvalidError(f"it reaches over the drop {wanted}")
    return listed


def decode_segment(data: bytes) -> tuple[msgspec.Raw, ...]:
    """The manifests of a segment, none of them decoded yet."""
    return _decoded(decompress(data)).manifests


def decode_manifests(data: bytes) -> tuple[Manifest, ...]:
    """The manifests of a segment, decoded at once, which takes half as long; none of them is checked."""
    plain = decompress(data)
    try:
        return decode_struct(plain, _Decoded, origin=_ORIGIN).manifests
    except ManifestInvalidError:
        # One by one, lists that Go stores as null are read as empty.
        return tuple(decode_struct(bytes(raw), Manifest, origin=_ORIGIN) for raw in _decoded(plain).manifests)


def _decoded(plain: bytes) -> HistorySegment:
    return decode_struct(plain, HistorySegment, origin=_ORIGIN)


def decompress(data: bytes) -> bytes:
    """The content of a compressed object of up to ``MAX_SEGMENT_BYTES``; else ``ManifestInvalidError``."""
    import zstandard

    packed = zstandard.ZstdDecompressor(max_window_size=MAX_SEGMENT_BYTES)
    try:
        size = zstandard.get_frame_parameters(data).content_size
        if size <= MAX_SEGMENT_BYTES:
            return packed.decompress(data)  # at once, which takes a third of the time
        if size != zstandard.CONTENTSIZE_UNKNOWN:
            raise ManifestInvalidError(f"a history segment is larger than {MAX_SEGMENT_BYTES} bytes")
        plain = bytearray()
        with packed.stream_reader(data) as reader:
            while piece := reader.read(_PIECE):
                plain += piece
                if len(plain) > MAX_SEGMENT_BYTES:
                    raise ManifestInvalidError(f"a history segment is larger than {MAX_SEGMENT_BYTES} bytes")
        return bytes(plain)
    except zstandard.ZstdError as error:
        raise ManifestInvalidError(f"not a history segment: {error}") from None
