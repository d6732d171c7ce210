"""What each field of each stored object means: ``format_schemas.py`` makes schemas and tables of it.

The types and whether a field is required come from the structs that read the objects.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from lode.definition import Column, Definition
from lode.format.group import Waiting
from lode.format.manifest import (
    CheckpointRef,
    ColumnStats,
    FileRef,
    FileStats,
    GroupPlace,
    Manifest,
    Removed,
    Removes,
    _Extension,
    _Key,
)
from lode.format.volume import BlockRef, VolumeManifest
from lode.read.checkpoint import Checkpoint
from lode.read.segment import HistorySegment
from lode.read.tags import TagRecord
from lode.write.publish import KeyRecord
from lode.write.swept import SweptList

GO: Final = "Go"
FIRST: Final = "0.1"
SECOND: Final = "0.2"

Json = dict[str, Any]
DIGEST: Final[Json] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
COUNT: Final[Json] = {"type": "integer", "minimum": 0}


class Field(NamedTuple):
    """A field: what it means, since which version, and its schema if the struct does not say it."""

    meaning: str
    since: str
    schema: Json | None = None
    required: bool | None = None


class Object(NamedTuple):
    """An object, or a part of one. ``struct`` reads it; None if there is none."""

    title: str
    struct: Any
    fields: dict[str, Field]


def ref(name: str) -> Json:
    return {"$ref": f"{name}.json"}


def listed(items: Json, *, null: bool = False) -> Json:
    return {"type": ["array", "null"] if null else "array", "items": items}


TIME: Final[Json] = {"type": "string", "format": "date-time"}

_IDENTITY: Final = {
    "snapshot_id": Field("the snapshot; the name of the folder of the manifest", GO),
    "created_at": Field("when it was committed, later than that of its parent; years 1 to 9998", GO, TIME),
    "metadata": Field("what the caller has given; never null", GO),
    "parent_snapshot_id": Field("the snapshot before it; absent in the first one", GO),
    "checksum_algorithm": Field("`md5`, `sha256` or `xxh3-128`; absent without checksums", GO),
    "sequence": Field(
        "position in history, one more than the parent's; counted along the parents if absent", FIRST
    ),
    "x": Field("[additions](#additions); Go ignores them", FIRST, ref("extension")),
}

OBJECTS: Final[dict[str, Object]] = {
    "manifest": Object(
        "The manifest of a snapshot of a dataset",
        Manifest,
        {
            "schema_name": Field("the kind of object", GO, {"const": "lode-manifest"}),
            "format_version": Field("`1.0.0`; a reader refuses another major version", GO),
            "dataset_id": Field("the dataset; the name of its folder", GO),
            **{name: _IDENTITY[name] for name in ("snapshot_id", "created_at", "metadata")},
            "files": Field(
                "the files that it adds, sorted by path; null means empty", GO, listed(ref("file"), null=True)
            ),
            "parent_snapshot_id": _IDENTITY["parent_snapshot_id"],
            "row_count": Field("the rows of these files; a blob is one row", GO),
            "min_timestamp": Field(
                "a time not after the earliest of its rows, if it has a time column", GO, TIME
            ),
            "max_timestamp": Field("a time not before the latest of its rows", GO, TIME),
            "codec": Field("[the codec](#codecs) of these files; absent for a blob", GO),
            "compressor": Field("[the compressor](#codecs) of these files, `noop` for none", GO),
            "partitioner": Field("`hive` if the layout is hive, else `noop`", GO),
            **{name: _IDENTITY[name] for name in ("checksum_algorithm", "sequence", "x")},
        },
    ),
    "file": Object(
        "An entry of `files`",
        FileRef,
        {
            "path": Field(
                "from the root of the lake; its form has no meaning beyond [the "
                "partition](#partition-values)",
                GO,
            ),
            "size_bytes": Field("the size of the object", GO),
            "checksum": Field("of the object's bytes, in hexadecimal", GO),
            "stats": Field("what the codec has observed", GO, ref("statistics")),
            "partition": Field(
                "[the partition values](#partition-values) that all rows of the file have", SECOND
            ),
        },
    ),
    "statistics": Object(
        "The statistics of a file",
        FileStats,
        {
            "row_count": Field("the rows of the file", GO),
            "columns": Field(
                "its columns that are not nested, with their names in the file",
                GO,
                listed(ref("column-statistics"), null=True),
            ),
        },
    ),
    "column-statistics": Object(
        "The statistics of a column",
        ColumnStats,
        {
            "name": Field("the name of the column in the file", GO),
            "min": Field(
                "a lower bound of its values in the form of [JSON lines](#json-lines); absent if unknown",
                GO,
                {},
            ),
            "max": Field("an upper bound. Bounds leave out NaN, so those of floats promise nothing", GO, {}),
            "null_count": Field("its nulls", GO),
            "distinct_count": Field("its distinct values; 0 means not counted", GO),
        },
    ),
    "extension": Object(
        "The field `x` of a manifest",
        _Extension,
        {
            "definition": Field(
                "the digest of [the definition](#definition) at this snapshot; absent in those of 0.1 and Go",
                SECOND,
                DIGEST,
            ),
            "operation": Field(
                "`create`, `define`, `evolve`, `overwrite`, `delete`, `merge`, `compact`, `restore`, "
                "`expire` or `drop`; absent for an append",
                SECOND,
                {"type": "string"},
            ),
            "removes": Field(
                "what it takes out of the dataset: see [removals](#removals)", SECOND, ref("removes")
            ),
            "removed": Field("how much that is, for people", SECOND, ref("removed")),
            "carried": Field("its files whose rows come from files that it removes", SECOND),
            "restores": Field("the ancestor whose state it has", SECOND),
            "floor": Field(
                "the sequence of the oldest snapshot that can be read; every later commit repeats it", SECOND
            ),
            "begins": Field(
                "the sequence of the first snapshot after a drop; every later commit repeats it", SECOND
            ),
            "surplus": Field(
                "columns that its files have and its definition does not: they were dropped while it "
                "was written. A reader leaves them out",
                SECOND,
            ),
            "idempotency": Field("the key under which it was committed", FIRST, ref("idempotency")),
            "writer": Field("the name of the writer, for people", FIRST),
            "rebases": Field("how often it was rebased, for people", FIRST),
            "recent": Field(
                "up to 32 predecessors, newest first, with the partitions that they touched: a writer"
                " that is behind needs one read",
                FIRST,
            ),
            "expected": Field(
                "the pointer that its swap expects, if that is not the parent's id; empty for none", SECOND
            ),
            "group": Field(
                "its place in [a group](#groups); absent if it was committed alone",
                SECOND,
                ref("group-place"),
            ),
            "crowd": Field(
                "how many writers are expected after it: how long the next ones wait for each other", SECOND
            ),
            "partition": Field(
                "the partition of [a copy](#partition-copies); the manifest of a snapshot never has it",
                SECOND,
            ),
            "parent_sha256": Field(
                "the SHA-256 of the parent's manifest as published, without white space at both ends",
                SECOND,
                DIGEST,
            ),
            "checkpoint": Field(
                "the newest [state checkpoint](#state-checkpoints)", SECOND, ref("checkpoint-reference")
            ),
            "shared_with_go": Field(
                "commits [close the pointer](#the-pointer), for Go; every later commit repeats it",
                SECOND,
                {"const": True},
            ),
            "swept": Field(
                "volumes only: the digests of [lists of swept blocks](#swept-blocks); every later "
                "commit repeats them",
                FIRST,
                listed(DIGEST),
            ),
        },
    ),
    "removes": Object(
        "`x.removes`",
        Removes,
        {
            "partitions": Field(
                'all files of earlier snapshots in these partitions and those inside them; `""` is '
                "the whole dataset",
                SECOND,
            ),
            "files": Field("files of earlier snapshots by path", SECOND),
        },
    ),
    "removed": Object(
        "`x.removed`; zeros are omitted",
        Removed,
        {
            "files": Field("files that were visible before and are not after", SECOND),
            "rows": Field("their rows", SECOND),
            "bytes": Field("their bytes", SECOND),
        },
    ),
    "idempotency": Object(
        "`x.idempotency`",
        _Key,
        {
            "writer": Field("the writer; may be empty", FIRST),
            "key": Field("the key", FIRST),
        },
    ),
    "group-place": Object(
        "`x.group`",
        GroupPlace,
        {
            "place": Field("from 1", SECOND),
            "size": Field("the number of members", SECOND),
            "leader": Field("the snapshot in the last place, which the pointer named", SECOND),
        },
    ),
    "checkpoint-reference": Object(
        "`x.checkpoint`",
        CheckpointRef,
        {
            "snapshot": Field("the snapshot whose state it is", SECOND),
            "sequence": Field("its sequence", SECOND),
            "sha256": Field("the digest of the object, which is its name", SECOND),
        },
    ),
    "intent": Object(
        "`intent.json`: the manifest before it is published, or a tombstone",
        None,
        {
            "group": Field(
                "only in the intent of a leader, as the last field: the manifests of the other "
                "members, in order, each exactly as it is published",
                SECOND,
                listed({"anyOf": [ref("manifest"), ref("volume-manifest")]}),
                False,
            ),
        },
    ),
    "tombstone": Object(
        "A tombstone: in the place of the intent of an id that can never be committed",
        None,
        {"swept": Field("the id was swept, or dropped", FIRST, {"const": True}, True)},
    ),
    "volume-manifest": Object(
        "The manifest of a snapshot of a volume",
        VolumeManifest,
        {
            "schema_name": Field("the kind of object", GO, {"const": "lode-volume-manifest"}),
            "format_version": Field("`1.0.0`; a reader refuses another major version", GO),
            "volume_id": Field("the volume; the name of its folder", GO),
            **{name: _IDENTITY[name] for name in ("snapshot_id", "created_at", "metadata")},
            "total_length": Field("the fixed length of the volume in bytes", GO),
            "blocks": Field(
                "all blocks up to this snapshot, sorted by offset, without overlap; null means empty",
                GO,
                listed(ref("block"), null=True),
            ),
            **{
                name: _IDENTITY[name]
                for name in ("parent_snapshot_id", "checksum_algorithm", "sequence", "x")
            },
        },
    ),
    "block": Object(
        "An entry of `blocks`",
        BlockRef,
        {
            "offset": Field("its first byte in the volume", GO),
            "length": Field("its size; the object has exactly that many bytes", GO),
            "path": Field("from the root of the lake", GO),
            "checksum": Field("of its bytes, in hexadecimal", GO),
        },
    ),
    "definition": Object(
        "The definition of a dataset",
        Definition,
        {
            "schema_name": Field("the kind of object", SECOND, {"const": "lode-definition"}),
            "format_version": Field("`1.0.0`; a reader refuses another major version", SECOND),
            "layout": Field(
                "`default`, `hive` or `flat`; another name is that of a program's own layout", SECOND
            ),
            "keys": Field("the ordered partition keys; empty without partitions", SECOND),
            "codec": Field("[the codec](#codecs) of new files; absent for blobs", SECOND),
            "compressor": Field("[the compressor](#codecs) of new files", SECOND),
            "checksum": Field("the checksum of new files; absent for none", SECOND),
            "columns": Field(
                "the columns in order; absent if they are unknown", SECOND, listed(ref("column"))
            ),
            "last_column_id": Field(
                "the largest id ever assigned to a column or to a field inside one", SECOND
            ),
            "schema_metadata": Field("Arrow's metadata of the whole schema", SECOND),
            "timestamp_column": Field("the column of `min_timestamp` and `max_timestamp`", SECOND),
            "sort_by": Field("the columns by which the rows of a new file are sorted", SECOND),
            "primary_key": Field("the columns that identify a row, for merges", SECOND),
            "description": Field("for people", SECOND),
            "properties": Field("of the caller", SECOND),
            "features": Field(
                "what a reader must know to read the dataset: `removals`. A reader refuses another name",
                SECOND,
            ),
            "shared_with_go": Field(
                "whether programs of Go work on it at the same time, as given to `Dataset.create`", SECOND
            ),
        },
    ),
    "column": Object(
        "An entry of `columns`, or a field inside a type",
        Column,
        {
            "id": Field(
                "never changes and is never given again. Inside a type it may be absent: see "
                "[ids](#column-ids)",
                SECOND,
                {"type": "integer", "minimum": 1},
            ),
            "name": Field("its present name", SECOND),
            "type": Field("[its type](#types)", SECOND, ref("type")),
            "nullable": Field("whether values may be null", SECOND),
            "metadata": Field(
                "Arrow's metadata of the field. Bytes that are not UTF-8 are `base64:` and base64", SECOND
            ),
        },
    ),
    "key": Object(
        "An idempotency key",
        KeyRecord,
        {
            "writer": Field("the writer; may be empty", FIRST),
            "key": Field("the key", FIRST),
            "snapshot_id": Field("the snapshot that was committed under it, or was about to be", FIRST),
        },
    ),
    "slot": Object(
        "A slot: a draft that waits for a leader",
        Waiting,
        {
            "follows": Field(
                "what it may follow in a group: `any` member, one with `disjoint` partitions, or only"
                " the `head`",
                SECOND,
            ),
            "manifest": Field(
                "the draft, with the head as its parent",
                SECOND,
                {"anyOf": [ref("manifest"), ref("volume-manifest")]},
            ),
            "write": Field("the duration of a small request of its writer, in seconds", SECOND),
            "sha256": Field(
                "the SHA-256 of `follows`, a space, `write`, a space, and `manifest`, as they are written. "
                "A leader leaves out a slot that does not fit",
                SECOND,
            ),
        },
    ),
    "turn": Object(
        "A request for a turn",
        None,
        {
            "snapshot_id": Field(
                "the snapshot of the writer that asks", SECOND, {"type": "string", "minLength": 1}, True
            )
        },
    ),
    "tag": Object(
        "A tag",
        TagRecord,
        {
            "schema_name": Field("the kind of object", SECOND, {"const": "lode-tag"}),
            "format_version": Field("`1.0.0`", SECOND),
            "name": Field("the name; that of the object without `.json`", SECOND),
            "snapshot_id": Field("the snapshot that it names", SECOND),
            "sequence": Field("its sequence, for people", SECOND),
            "created_at": Field("when the tag was made", SECOND, TIME),
        },
    ),
    "history-segment": Object(
        "A history segment, decompressed",
        HistorySegment,
        {
            "schema_name": Field("the kind of object", FIRST, {"const": "lode-history"}),
            "first": Field("the first sequence that it covers", FIRST),
            "last": Field("the last one", FIRST),
            "manifests": Field(
                "the manifests, oldest first, byte for byte as published", FIRST, listed(ref("manifest"))
            ),
        },
    ),
    "state-checkpoint": Object(
        "A state checkpoint, decompressed",
        Checkpoint,
        {
            "schema_name": Field("the kind of object", SECOND, {"const": "lode-state"}),
            "format_version": Field("`1.0.0`", SECOND),
            "snapshot_id": Field("the snapshot whose state it is", SECOND),
            "manifests": Field(
                "the manifests that have visible files, oldest first, each with only these; without "
                "`metadata`, and of `x` only `definition` and `surplus`",
                SECOND,
                listed(ref("manifest")),
            ),
        },
    ),
    "swept-blocks": Object(
        "A list of swept blocks",
        SweptList,
        {
            "schema_name": Field("the kind of object", FIRST, {"const": "lode-swept-blocks"}),
            "blocks": Field("the names of the blocks below `data/`, sorted", FIRST),
        },
    ),
}
