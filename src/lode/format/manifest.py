"""The manifest of a dataset's snapshot: its fields, its exact JSON, its validation.

Field order is the order on storage. A field that does not apply is left out, never null. Go writes a list
that nothing was appended to as null, so such lists are read as empty.
"""

# No annotations as text here: msgspec would compile each of them when a process opens its first dataset.

import json
import re
from functools import cache
from typing import Annotated, Any, Final, TypeVar

import msgspec

from lode.errors import InvalidMetadataError, ManifestInvalidError
from lode.format.ids import is_utf8, shortened
from lode.times import is_rfc3339

SCHEMA_NAME: Final = "lode-manifest"
FORMAT_VERSION: Final = "1.0.0"
# The operation that puts the same rows into fewer files.
COMPACT: Final = "compact"
# The field of ``x`` that a partition's copy of a manifest has, and the manifest has not.
PARTITION: Final = "partition"

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

# The largest manifest that is written or read. A file takes about 300 bytes of it, a block of a volume 150.
MAX_MANIFEST_BYTES: Final = 256 << 20
# How deeply lists and objects may be nested inside ``metadata`` and ``x``.
MAX_JSON_DEPTH: Final = 128
# Numbers are signed 64-bit ones for every other reader of the format.
MAX_COUNT: Final = 2**63 - 1
# The largest integer that every JSON reader keeps exact. No history is as long.
MAX_SEQUENCE: Final = 2**53 - 1

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
Sequence = Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQUENCE)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
S = TypeVar("S", bound=msgspec.Struct)


# A long history is a great many of the three below. None can refer to itself, so the collector need not look.
class ColumnStats(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one column of one file holds; a distinct count of zero means it was not computed."""

    name: str
    min: Any = None
    max: Any = None
    null_count: Count
    distinct_count: Count = 0


class FileStats(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What the codec observed while it wrote one file."""

    row_count: Count
    columns: tuple[ColumnStats, ...] = ()


class FileRef(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One data file: where it is, how long it is, and what is known about its content."""

    path: Text
    size_bytes: Count
    checksum: str | None = None
    stats: FileStats | None = None
    # The partition values that all of its rows have; None in files of earlier versions and of Go.
    partition: dict[str, str | int | float | bool | None] | None = None

    def __hash__(self) -> int:
        return hash(self.path)


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The authoritative description of one snapshot of a dataset."""

    schema_name: Text
    format_version: Text
    dataset_id: Text
    snapshot_id: Text
    created_at: Text
    metadata: dict[str, Any]
    files: tuple[FileRef, ...]
    parent_snapshot_id: str | None = None
    row_count: Count
    min_timestamp: str | None = None
    max_timestamp: str | None = None
    codec: str | None = None
    compressor: Text
    partitioner: Text
    checksum_algorithm: str | None = None
    sequence: Sequence | None = None
    x: dict[str, Any] | None = None

    @property
    def owner_id(self) -> str:
        """The id of what this is a snapshot of."""
        return self.dataset_id

    @property
    def idempotency(self) -> tuple[str, str] | None:
        """The (writer, key) this commit was made under, if it was made under one."""
        pair = (self.x or {}).get("idempotency")
        return (pair["writer"], pair["key"]) if pair else None  # decoding has checked its form

    @property
    def definition(self) -> str | None:
        """The digest of the dataset's definition at this snapshot; None in those of 0.1 and of Go."""
        digest = (self.x or {}).get("definition")
        if digest is None or (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
            return digest
        raise ManifestInvalidError(
            f"snapshot {self.snapshot_id}: field 'x.definition' is not a SHA-256 digest", field="x.definition"
        )

    @property
    def surplus(self) -> tuple[str, ...]:
        """Columns that its files have and its definition does not: they were dropped while it was written."""
        return tuple((self.x or {}).get("surplus") or ())

    @property
    def operation(self) -> str:
        """What this commit did: ``append``, ``overwrite``, ``delete``, ``compact``, ``create``, and so on."""
        # As operation_of, without another call: each commit asks several times.
        found = self.x.get("operation", "append") if self.x else "append"
        return found if isinstance(found, str) else "append"

    @property
    def removes(self) -> "Removes | None":
        """What this commit takes out of the dataset before it adds its files; None if nothing."""
        found = (self.x or {}).get("removes")
        return None if found is None else msgspec.convert(found, Removes)

    @property
    def carried(self) -> tuple[str, ...]:
        """Its files that hold rows of files it removes: they were rewritten, the rows are not new."""
        return tuple((self.x or {}).get("carried") or ())

    @property
    def removed(self) -> "Removed":
        """How much this commit removes."""
        return msgspec.convert((self.x or {}).get("removed") or {}, Removed)

    @property
    def parent_sha256(self) -> str | None:
        """The digest of the parent's manifest as published; None in those of Go and of earlier versions."""
        return (self.x or {}).get("parent_sha256")

    @property
    def checkpoint(self) -> "CheckpointRef | None":
        """The newest checkpoint that this commit vouches for."""
        return checkpoint_of(self.x)

    @property
    def restores(self) -> str | None:
        """The earlier snapshot whose files the dataset has again after this commit."""
        return (self.x or {}).get("restores")

    @property
    def floor(self) -> int:
        """The sequence of the oldest snapshot that can be read; older ones are expired. 1 if none is."""
        found: int | None = (self.x or {}).get("floor")
        return found or 1

    @property
    def begins(self) -> int:
        """The sequence of the first snapshot of its history: larger than 1 after a drop."""
        return begins_of(self.x)

    @property
    def partition(self) -> str | None:
        """The partition of which this is the copy, with the files of that partition only; else None."""
        return (self.x or {}).get(PARTITION)

    @property
    def is_append(self) -> bool:
        """Whether the files before it stay as they are."""
        found = self.x or {}
        return found.get("removes") is None and found.get("restores") is None

    @property
    def is_compaction(self) -> bool:
        """Whether its files hold the rows of those it removes, and no others."""
        return self.operation == COMPACT

    @property
    def rebases(self) -> int:
        """How often this commit was rebased onto commits that came first."""
        return rebases_of(self.x)

    @property
    def group(self) -> "GroupPlace":
        """Its place in the group that one swap committed."""
        return group_of(self.x)

    @property
    def recent(self) -> dict[str, list[str]]:
        """Snapshots before this one and the partitions they touched, newest first, if it lists any."""
        found: dict[str, list[str]] = (self.x or {}).get("recent") or {}
        return found


class Removes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which files a commit removes from the dataset: all of some partitions, and single files.

    Both mean files of earlier snapshots. The empty name is the whole dataset.
    """

    partitions: tuple[str, ...] = ()
    files: tuple[Text, ...] = ()


class Removed(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much a commit removes."""

    files: Count = 0
    rows: Count = 0
    bytes: Count = 0


class CheckpointRef(msgspec.Struct, frozen=True, gc=False):
    """Names a checkpoint: the snapshot whose state it holds, its place in history, and its digest."""

    snapshot: Text
    sequence: Sequence
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class GroupPlace(msgspec.Struct, frozen=True, gc=False):
    """The place of a snapshot in the group that one swap committed, from 1; the leader is last."""

    place: Sequence = 1
    size: Sequence = 1
    # The snapshot of the leader; empty for a snapshot that was committed alone.
    leader: str = ""

    @property
    def leads(self) -> bool:
        """Whether the swap moved the pointer to this snapshot."""
        return self.place == self.size


class _Key(msgspec.Struct, gc=False):
    writer: str
    key: Text


class _Extension(msgspec.Struct, gc=False):
    """The fields of ``x`` that this library uses; others are of later versions or of other programs."""

    idempotency: _Key | None = None
    recent: dict[str, list[str]] | None = None
    rebases: Count | None = None
    writer: str | None = None
    expected: str | None = None
    surplus: list[str] | None = None
    removes: Removes | None = None
    removed: Removed | None = None
    carried: list[str] | None = None
    restores: Text | None = None
    floor: Sequence | None = None
    begins: Sequence | None = None
    group: GroupPlace | None = None
    crowd: Count | None = None
    partition: Text | None = None
    parent_sha256: str | None = None
    checkpoint: CheckpointRef | None = None


# The largest crowd that writers prepare for.
MAX_CROWD: Final = 16_384
# Fields of ``x`` that every commit may have. With no others a manifest is checked without a decoder.
_TEXTS: Final = frozenset(("definition", "operation", "writer", "expected", "parent_sha256"))


# Fields that are positions in history.
_PLACES: Final = frozenset(("floor", "begins"))
_KNOWN: Final = frozenset(_Extension.__struct_fields__)
# What a commit does that drops a dataset or a volume, and how its id ends. So a pointer shows a drop.
DROP: Final = "drop"
DROP_SUFFIX: Final = "-drop"


def operation_of(extension: dict[str, Any] | None) -> str:
    """What a commit did, by a manifest's extension."""
    found = (extension or {}).get("operation", "append")
    return found if isinstance(found, str) else "append"


def begins_of(extension: dict[str, Any] | None) -> int:
    """The sequence of the first snapshot of a history, by a manifest's extension."""
    found = (extension or {}).get("begins", 1)
    return found if isinstance(found, int) else 1


def group_of(extension: dict[str, Any] | None) -> GroupPlace:
    """The place in its group in a manifest's extension; alone if it has none."""
    found = (extension or {}).get("group")
    return GroupPlace() if found is None else msgspec.convert(found, GroupPlace)


def checkpoint_of(extension: dict[str, Any] | None) -> CheckpointRef | None:
    """The checkpoint that a manifest's extension names."""
    found = (extension or {}).get("checkpoint")
    return None if found is None else msgspec.convert(found, CheckpointRef)


def crowd_of(extension: dict[str, Any] | None) -> int:
    """How many writers are expected after a commit, by its group and those shortly before; at most 16,384."""
    found = (extension or {}).get("crowd", 0)
    return min(max(found if isinstance(found, int) else 0, group_of(extension).size), MAX_CROWD)


def rebases_of(extension: dict[str, Any] | None) -> int:
    """The count of rebases in a manifest's extension; 0 if it has none."""
    count = (extension or {}).get("rebases", 0)
    return count if isinstance(count, int) else 0


def writer_of(extension: dict[str, Any] | None) -> str | None:
    """The writer in a manifest's extension: its own entry, or the writer of its idempotency key."""
    found = extension or {}
    name = found.get("writer") or (found.get("idempotency") or {}).get("writer")
    return name if isinstance(name, str) else None


def expected_pointer(parent: str | None, extension: dict[str, Any] | None) -> bytes | None:
    """Return the pointer value that the swap of an intent expects; None if it expects no pointer.

    That is the parent's id, unless the pointer was dangling or lost: then ``x.expected`` records it, with the
    empty text for no pointer.
    """
    recorded = (extension or {}).get("expected")
    if isinstance(recorded, str):
        return recorded.encode() or None
    return parent.encode() if parent else None


def encode_manifest(manifest: object) -> bytes:
    """Return the manifest as it is stored, or raise ``ManifestInvalidError`` if no reader would take it."""
    try:
        data = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    except (OverflowError, RecursionError) as error:
        raise ManifestInvalidError(f"a manifest cannot be written as JSON: {error}") from None
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestInvalidError(
            f"a manifest of {len(data)} bytes is larger than {MAX_MANIFEST_BYTES}: commit fewer, larger files"
        )
    return data


def json_text(value: Any) -> str:
    """Return what manifests say as JSON, for people and programs to look at.

    Foreign metadata and sums of foreign counts can exceed 64 bits, which msgspec refuses to write.
    """
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except OverflowError:
        return json.dumps(msgspec.to_builtins(value, enc_hook=str), separators=(",", ":"), ensure_ascii=False)
    except RecursionError:
        return '"nested too deeply to be shown"'


def decode_manifest(data: bytes, origin: str) -> Manifest:
    """Read a manifest, or raise ``ManifestInvalidError`` naming the field and ``origin``."""
    manifest = decode_struct(data, Manifest, origin=origin)
    check_manifest(manifest, data, origin)
    return manifest


def decode_whole_manifest(data: bytes, origin: str) -> Manifest:
    """Read the manifest of a snapshot, and check it as ``check_whole_manifest`` does."""
    manifest = decode_struct(data, Manifest, origin=origin)
    check_whole_manifest(manifest, data, origin)
    return manifest


def check_whole_manifest(manifest: Manifest, data: bytes | None, origin: str) -> None:
    """Check the manifest of a snapshot. A partition's copy is refused: it lists only a part of the files."""
    check_manifest(manifest, data, origin)
    if manifest.partition is not None:
        complaint = f"is {shortened(manifest.partition)}: the copy of one partition lists only its files"
        require(False, f"x.{PARTITION}", complaint, origin)


def check_manifest(manifest: Manifest, data: bytes | None, origin: str) -> None:
    """Check what the types of its fields do not say.

    Args:
        manifest: What was decoded.
        data: The document that it was decoded from; None if that has many manifests.
        origin: What an error names.
    """
    require(manifest.schema_name == SCHEMA_NAME, "schema_name", f"is not {SCHEMA_NAME!r}", origin)
    check_version(manifest.format_version, origin)
    check_created_at(manifest.created_at, origin)
    for field, text in (("min_timestamp", manifest.min_timestamp), ("max_timestamp", manifest.max_timestamp)):
        if text is not None:
            require(is_rfc3339(text), field, "is not an RFC 3339 time", origin)
    check_free_fields(data, manifest.metadata, manifest.x, origin)


@cache
def _decoder(kind: type[S]) -> msgspec.json.Decoder[S]:
    return msgspec.json.Decoder(kind)


def decode_struct(data: bytes, kind: type[S], *, origin: str) -> S:
    """Decode JSON into ``kind``; what is wrong with it becomes a ``ManifestInvalidError``."""
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestInvalidError(f"{origin}: {len(data)} bytes are more than {MAX_MANIFEST_BYTES}")
    try:
        try:
            decoded: S = _decoder(kind).decode(data)
        except msgspec.ValidationError:
            document = msgspec.json.decode(data)
            if not _fill_nulls(document):
                raise
            decoded = msgspec.convert(document, kind)
        return decoded
    except msgspec.ValidationError as error:
        field = _field_of(str(error))
        where = f"field {field!r}: " if field else ""
        raise ManifestInvalidError(f"{origin}: {where}{error}", field=field) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ManifestInvalidError(f"{origin}: not a JSON document: {error}") from None
    except RecursionError:
        raise ManifestInvalidError(f"{origin}: lists or objects are nested too deeply") from None


def check_free_fields(
    data: bytes | None, metadata: dict[str, Any], extension: dict[str, Any] | None, origin: str
) -> None:
    """Refuse what readers of these fields could not handle: deep nesting, and an ``x`` of another shape.

    Args:
        data: The document that has these fields and few others, if it is at hand.
        metadata: The user's.
        extension: The field ``x``.
        origin: What an error names.
    """
    # Commits wait for this: most manifests have only plain fields.
    foreign: dict[str, Any] = {}
    if extension and not all(_is_plain(name, value) for name, value in extension.items()):
        try:
            msgspec.convert(extension, _Extension)
        except msgspec.ValidationError as error:
            field = _field_of(str(error).replace("`$", "`$.x"))
            raise ManifestInvalidError(f"{origin}: field {field!r}: {error}", field=field) from None
        # The shape of known fields is known. A compaction names all files that it removes there.
        foreign = {name: value for name, value in extension.items() if name not in _KNOWN}
    # A document with few brackets is not walked, since it cannot be deep.
    if (metadata or foreign) and (data is None or data.count(b"{") + data.count(b"[") > MAX_JSON_DEPTH):
        for name, value in (("metadata", metadata), ("x", foreign)):
            if not _is_shallow(value):
                require(False, name, f"is nested more than {MAX_JSON_DEPTH} deep", origin)


def _is_plain(name: str, value: Any) -> bool:
    return type(value) is str if name in _TEXTS else name in _PLACES and type(value) is int and value > 0


def _is_shallow(value: dict[str, Any]) -> bool:
    """Level by level instead of recursively: a hostile value is deeper than the stack."""
    level: list[Any] = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [
            item
            for found in level
            for item in (found.values() if isinstance(found, dict) else found)
            if isinstance(item, dict | list | tuple)
        ]
        if not level:
            return True
    return False


def check_created_at(text: str, origin: str) -> None:
    """Refuse a time that is none, or that leaves no room for the later time of a child."""
    if not is_rfc3339(text) or text.startswith("9999"):
        complaint = f"is {shortened(text)}, not an RFC 3339 time up to the year 9998"
        require(False, "created_at", complaint, origin)


# The lists of a manifest and of its files' statistics. Metadata is never null, not in Go either.
_LISTS: Final = ("files", "blocks", "columns")


def _fill_nulls(document: Any) -> bool:
    """Make lists that are null empty, in a manifest and in its files' statistics; True if any was."""
    if not isinstance(document, dict):
        return False
    filled = False
    for name in _LISTS:
        if name in document and document[name] is None:
            document[name] = []
            filled = True
    files = document.get("files")
    for file in files if isinstance(files, list) else ():
        if isinstance(file, dict) and _fill_nulls(file.get("stats")):
            filled = True
    return filled


def require(holds: bool, field: str, complaint: str, origin: str) -> None:
    """Raise ``ManifestInvalidError`` for ``field`` unless the condition holds."""
    if not holds:
        raise ManifestInvalidError(f"{origin}: field {field!r} {complaint}", field=field)


def check_version(version: str, origin: str) -> None:
    """Refuse a format newer than this one understands."""
    if version == FORMAT_VERSION:
        return
    require(
        version.partition(".")[0] == FORMAT_VERSION.partition(".")[0],
        "format_version",
        f"is {version!r}, this library reads 1.x: upgrade lode",
        origin,
    )


def check_metadata(metadata: dict[str, Any] | None, what: str = "metadata") -> dict[str, Any]:
    """Return a JSON-clean copy of ``metadata``; ``None`` becomes an empty object. ``what`` is its name."""
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise InvalidMetadataError(f"{what} must be a dict, got {type(metadata).__name__}")
    refuse_non_json(metadata, what)
    if not _is_shallow(metadata):
        raise InvalidMetadataError(f"{what} is nested more than {MAX_JSON_DEPTH} deep: store it as text")
    return dict(msgspec.json.decode(msgspec.json.encode(metadata)))


def refuse_non_json(value: Any, where: str) -> None:
    """Name the first value that JSON has no word for, so that nothing changes its type on the way."""
    try:
        _refuse_non_json(value, where)
    except RecursionError:
        raise InvalidMetadataError(f"{where} holds itself or is nested too deeply for JSON") from None


def _refuse_non_json(value: Any, where: str) -> None:
    match value:
        case None | bool():
            return
        case str():
            if not is_utf8(value):
                raise InvalidMetadataError(f"{where} is text that UTF-8 cannot carry: {value!r}")
        case int():
            if not -(2**63) <= value < 2**64:
                raise InvalidMetadataError(f"{where} is an integer of more than 64 bits: store it as text")
        case float():
            if value != value or value in (float("inf"), float("-inf")):
                raise InvalidMetadataError(f"{where} is {value}, which JSON cannot carry")
        case dict():
            for key, item in value.items():
                if not isinstance(key, str) or not is_utf8(key):
                    raise InvalidMetadataError(f"{where} has the key {key!r}: JSON keys are strings")
                _refuse_non_json(item, f"{where}[{key!r}]")
        case list() | tuple():
            for index, item in enumerate(value):
                _refuse_non_json(item, f"{where}[{index}]")
        case _:
            raise InvalidMetadataError(
                f"{where} is a {type(value).__name__}, which is not JSON: "
                "convert it to text, a number, a list or a dict"
            )


def _field_of(message: str) -> str | None:
    """Pick the field's path out of msgspec's sentence."""
    missing = re.search(r"missing required field `([^`]+)`", message)
    place = re.search(r"at `\$\.?([^`]*)`", message)
    parts = [found.group(1) for found in (place, missing) if found and found.group(1)]
    return ".".join(parts) or None
