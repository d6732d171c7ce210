"""Damages of an object: accidents, and content from an attacker with write access."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

import zstandard

from support.hostile.lake import CANARY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.hostile.lake import Target

    Damage = Callable[[Path], None]

DEEP: Final = 100_000
# Every field of these is damaged; of the other manifests only those that refer to other objects.
_WHOLLY: Final = ("newest manifest", "volume manifest")
_MANIFESTS: Final = (
    "newest manifest", "older manifest", "first manifest", "manifest in a segment", "intent",
    "partition copy", "hive manifest", "volume manifest",
)  # fmt: skip


def holding(data: bytes) -> Damage:
    def damage(path: Path) -> None:
        path.unlink()
        path.write_bytes(data)

    return damage


def missing(path: Path) -> None:
    path.unlink()


def truncated(path: Path) -> None:
    data = path.read_bytes()
    holding(data[: len(data) // 2])(path)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(len(data) // 3, len(data), max(len(data) // 7, 1)):
        data[place] ^= 0xFF
    holding(bytes(data))(path)


def doubled(path: Path) -> None:
    data = path.read_bytes()
    holding(data + data)(path)


def directory(path: Path) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)
    (path / "inside" / "file").write_bytes(b"x")


def sparse(path: Path) -> None:
    """A sparse file of a terabyte."""
    holding(b"{")(path)
    os.truncate(path, 1 << 40)


def symlink(path: Path) -> None:
    lake = next(parent for parent in path.parents if parent.name == "lake")
    path.unlink()
    path.symlink_to(lake.parent / "outside" / "secret.parquet")


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


GENERIC: Final[dict[str, Damage]] = {
    "missing": missing,
    "empty": holding(b""),
    "truncated": truncated,
    "flipped bits": flipped,
    "doubled": doubled,
    "garbage": holding(bytes(range(256)) * 40),
    "a list": holding(b"[]"),
    "an object": holding(b"{}"),
    "text": holding(b'"text"'),
    "null": holding(b"null"),
    "deep nesting": holding(b'{"metadata":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "a number": holding(b"9" * 5000),
    "not UTF-8": holding(b'{"schema_name": "\xff\xfe"}'),
    "a directory": directory,
    "a symlink out of the lake": symlink,
    "a FIFO": fifo,
}
# Read whole, so it has to be refused by its size.
OVERSIZED: Final[dict[str, Damage]] = {"a terabyte": sparse}


def damages(target: Target) -> Iterator[tuple[str, Damage]]:
    """All damages of an object of this kind."""
    yield from GENERIC.items()
    if not target.kind.endswith("file") and target.kind != "block":
        yield from OVERSIZED.items()
    if target.kind.startswith("pointer"):
        yield from _pointers()
    elif target.kind in _MANIFESTS:
        yield from _manifests(target)
    elif target.kind in ("removing manifest", "restoring manifest"):
        yield from _removing(target.kind == "removing manifest")
    elif target.kind == "checkpoint":
        yield from _checkpoints()
    elif target.kind == "tag":
        for field in ("schema_name", "format_version", "name", "snapshot_id", "sequence", "created_at"):
            for value in (None, "../../outside/secret", -1, 2**70):
                yield f"{field} is {str(value)[:30]}", _with({field: value})
    elif target.kind == "segment":
        yield from _segments()
    elif target.kind == "key":
        for name, value in {
            "a foreign id": "1", "a path": "../../../outside/secret", "null": None, "a number": 7,
            "empty": "", "long": "x" * 1_000_000,
        }.items():  # fmt: skip
            yield f"snapshot_id is {name}", _with({"snapshot_id": value})
        yield "another key", _with({"key": "k2"})


def _pointers() -> Iterator[tuple[str, Damage]]:
    for name, data in {
        "a path out of the lake": b"../../../../outside/secret",
        "a path": b"a/b",
        "a dot": b".",
        "a megabyte": b"x" * 1_000_000,
        "a long name": b"x" * 300,
        "NUL": b"a\0b",
        "not UTF-8": b"\xff\xfe\xfd",
        "a control character": b"a\nb",
        "nobody's id": b"1700000000000000000-0000000000000000",
    }.items():
        yield name, holding(data)


def _with(fields: dict[str, Any]) -> Damage:
    """The same JSON object with other values; a callable gets the object."""

    def damage(path: Path) -> None:
        found = json.loads(path.read_bytes())
        for name, value in fields.items():
            found[name] = value(found) if callable(value) else value
        holding(json.dumps(found).encode())(path)

    return damage


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _bounds(least: Any, greatest: Any) -> dict[str, Any]:
    column = {"name": "n", "min": least, "max": greatest, "null_count": 0}
    return {"row_count": 1, "columns": [column]}


def _manifests(target: Target) -> Iterator[tuple[str, Damage]]:
    owner = "volume_id" if target.volume else "dataset_id"
    content = "blocks" if target.volume else "files"
    fields = ["schema_name", "format_version", owner, "snapshot_id", "created_at", "metadata", content, "x"]
    fields += ["parent_snapshot_id", "sequence", "row_count", "compressor", "codec", "checksum_algorithm"]
    whole = target.kind in _WHOLLY
    for field in fields if whole else ():
        for value in (None, {"a": 1}, 2**70, ""):
            yield f"{field} is {value!r}", _with({field: value})
    values: dict[str, list[Any]] = {
        "parent_snapshot_id": [lambda found: found["snapshot_id"], "1", "../../outside", "a/b", "x" * 10_000],
        "snapshot_id": ["1", "../../outside", "\x1b[2J"],
        owner: ["good", "../outside", "x" * 10_000],
        "sequence": [1, 2, 16, 4096 * 3, 2**50, 2**53 - 1, 2**62, 2**63],
        "created_at": [
            "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "now",
            "9999-12-31T23:59:59.999999999Z", "9998-12-31T23:59:59-23:59", "2020-01-01T24:00:00Z",
        ],
        "max_timestamp": ["9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00Z"],
        "metadata": [{"a": _nested(120)}, {"a": _nested(300)}, {"n": 2**70}, {"ingest": {"streams": []}}],
        "x": [
            {"idempotency": 7}, {"idempotency": {"writer": 1}}, {"idempotency": []}, {"recent": [1]},
            {"recent": {"../../x": ["a"]}}, {"recent": {"a": None}}, {"rebases": "many"}, {"writer": {}},
            {"expected": 5}, {"deep": _nested(300)},
        ],
        "row_count": [2**63 - 1, 2**64],
        "codec": ["jsonl", "parquet", "arrow", "mine"],
        "compressor": ["gzip", "rot13"],
        "checksum_algorithm": ["crc"],
        "total_length": [1, 0, 2**63],
    }  # fmt: skip
    if not whole:
        values = {
            "parent_snapshot_id": [lambda found: found["snapshot_id"], "../../outside"],
            "snapshot_id": ["1"],
            owner: ["good"],
            "sequence": [1, 2**50, 2**62],
        }
    for field, each in values.items():
        for value in each:
            yield f"{field} is {str(value)[:40]}", _with({field: value})
    if not whole:
        return
    name = "length" if target.volume else "size_bytes"
    outside = "../outside/secret.parquet"
    for change in (
        {"path": outside}, {"path": f"datasets/../{outside}"}, {"path": "/etc/passwd"}, {"path": "a\0b"},
        {"path": ""}, {"path": "datasets"}, {"path": "datasets/good/latest"}, {"path": None},
        {name: 2**63 - 1}, {name: 2**64}, {name: -1}, {"offset": 2**63}, {"checksum": 5}, {"checksum": "0"},
        {"stats": {"row_count": 2**63, "columns": []}},
        {"stats": _bounds(_nested(300), {})}, {"stats": _bounds(2**70, "z")}, {"stats": _bounds([], -1e308)},
    ):  # fmt: skip
        changed = _with({content: lambda found, change=change: [{**found[content][0], **change}]})
        yield f"{content}: {str(change)[:60]}", changed
    yield "the same file twice", _with({content: lambda found: found[content] * 2})
    yield "null files", _with({content: [None]})


def _segments() -> Iterator[tuple[str, Damage]]:
    yield "a bomb", holding(_bomb(b""))
    yield (
        "a bomb in its listing",
        holding(_bomb(b'{"schema_name":"lode-history","first":1,"last":16,"listing":{"parent":"')),
    )
    # A frame header that claims 2^62 bytes, and no data.
    yield "a false size", holding(b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little"))
    yield "deep nesting", holding(zstandard.compress(b"[" * DEEP + b"]" * DEEP))
    yield (
        "deep manifests",
        holding(
            zstandard.compress(
                b'{"schema_name":"lode-history","first":1,"last":16,"manifests":['
                + b",".join([b"[" * DEEP + b"]" * DEEP] * 16)
                + b"]}"
            )
        ),
    )

    def each(**fields: Any) -> Damage:
        return _rewritten(
            lambda found: found.update(manifests=[{**manifest, **fields} for manifest in found["manifests"]])
        )

    yield "other ids", each(snapshot_id="../../x")
    yield "its own parents", each(parent_snapshot_id="1")
    yield "huge counts", each(row_count=2**63 - 1)
    yield "paths out of the lake", each(files=[{"path": f"../outside/{CANARY}", "size_bytes": 1}])
    yield "no manifests", _rewritten(lambda found: found.update(manifests=[]))
    yield (
        "foreign manifests",
        _rewritten(
            lambda found: found.update(
                manifests=[{**each, "dataset_id": "good"} for each in found["manifests"]]
            )
        ),
    )


def _removing(whole: bool) -> Iterator[tuple[str, Damage]]:
    """What a commit says of files that it removes, of what it restores, and of what is expired."""
    values: dict[str, list[Any]] = {
        "removes": [
            7, [], {"partitions": 7}, {"files": [7]}, {"files": [""]}, {"files": ["nope"]},
            {"partitions": [""]},
            {"partitions": ["../../outside"]}, {"partitions": ["a\0b", "day", "=", "day=%ff", "/"]},
            {"partitions": [f"day={number}" for number in range(10_000)]},
            {"partitions": ["day=mon"] * 10_000},
            {"files": [f"nope/{number}" for number in range(10_000)]}, {"files": ["x" * 1_000_000]},
            {"partitions": _nested(100)},
        ],
        "removed": [7, {"rows": -1}, {"rows": 2**63 - 1}, {"rows": 2**64}, {"files": "x"}],
        "carried": [7, [7], ["nope"], "x", ["../../outside/secret"] * 1000],
        "floor": [0, -1, 1, 2, 10**6, 2**53 - 1, 2**53, 2**70, "x", 1.5, [], None, True],
        "operation": [7, None, "", "x" * 1_000_000, "append", "expire", "compact", "drop", {}],
        "restores": [
            7, "", "nope", "../../outside/secret", lambda found: found["snapshot_id"],
            lambda found: found["parent_snapshot_id"], "x" * 100_000, [],
        ],
        "definition": ["x", "0" * 64, 7],
    }  # fmt: skip
    for field, each in values.items():
        for value in each if whole or field == "restores" else each[:1]:
            yield f"x.{field} is {str(value)[:60]}", _with_extension(field, value)


def _with_extension(field: str, value: Any) -> Damage:
    def extended(found: dict[str, Any]) -> dict[str, Any]:
        return {**found["x"], field: value(found) if callable(value) else value}

    return _with({"x": extended})


def _checkpoints() -> Iterator[tuple[str, Damage]]:
    for what, damage in _segments():
        if what in ("a bomb", "a false size", "deep nesting"):
            yield what, damage

    def each(**fields: Any) -> Damage:
        return _rewritten(lambda found: [manifest.update(fields) for manifest in found["manifests"]])

    def files(**fields: Any) -> Damage:
        return _rewritten(
            lambda found: [file.update(fields) for each in found["manifests"] for file in each["files"]]
        )

    yield "of another snapshot", _rewritten(lambda found: found.update(snapshot_id="1"))
    yield "of a later version", _rewritten(lambda found: found.update(format_version="9.0.0"))
    yield "without manifests", _rewritten(lambda found: found.update(manifests=[]))
    yield "everything twice", _rewritten(lambda found: found.update(manifests=found["manifests"] * 2))
    yield "many manifests", _rewritten(lambda found: found.update(manifests=found["manifests"] * 20_000))
    for name, value in {
        "dataset_id": "good", "snapshot_id": "../../x", "created_at": "now", "codec": "mine",
        "x": {"deep": 1},
        "row_count": 2**63 - 1, "compressor": "rot13", "partitioner": "x", "sequence": 2**50,
    }.items():  # fmt: skip
        yield f"{name} is {value}", each(**{name: value})
    for digest in ("0" * 64, "x", 7, None):
        yield f"a definition {digest}", each(x={"definition": digest})
    yield "a surplus of another type", each(x={"surplus": 7})
    for path in (
        "../outside/secret.parquet",
        "/etc/passwd",
        "a\0b",
        "datasets/good/latest",
        "nope",
        "datasets",
    ):
        yield f"a file {path}", files(path=path)
    yield "huge files", files(size_bytes=2**63 - 1)
    yield "false statistics", files(stats=_bounds(_nested(100), {}))
    yield "huge statistics", files(stats={"row_count": 2**63 - 1, "columns": []})


def _bomb(start: bytes) -> bytes:
    """16 MiB of zeros in a kilobyte, after a valid beginning."""
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    zeros = b"0" * (1 << 20)
    return b"".join([packer.compress(start), *(packer.compress(zeros) for _ in range(16)), packer.flush()])


def _rewritten(change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(path: Path) -> None:
        found = json.loads(zstandard.decompress(path.read_bytes()))
        change(found)
        holding(zstandard.compress(json.dumps(found, separators=(",", ":")).encode()))(path)

    return damage
