"""Avro files of a few hundred bytes that claim or become much more; written by hand."""

from __future__ import annotations

import json
from typing import Any, Final

import zstandard

from support.bombs import text as text_bombs
from support.bombs.parquet import varint, zigzag

_SYNC: Final = b"0123456789abcdef"
_HUGE: Final = 1 << 50


def text(value: bytes) -> bytes:
    """A text or bytes with its length in front."""
    return zigzag(len(value)) + value


def header(schema: Any, codec: str = "null") -> bytes:
    """The beginning of a file; the schema is JSON, or already its text."""
    written = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    meta = zigzag(2) + text(b"avro.schema") + text(written) + text(b"avro.codec") + text(codec.encode())
    return b"Obj\x01" + meta + zigzag(0) + _SYNC


def block(rows: int, data: bytes, *, claimed: int | None = None) -> bytes:
    """A block of rows; ``claimed`` is another size than the true one."""
    return zigzag(rows) + zigzag(len(data) if claimed is None else claimed) + data + _SYNC


def record(*fields: tuple[str, Any], name: str = "Row") -> dict[str, Any]:
    """The schema of a record."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields],
    }


def _array_of_nothing(items: Any, *, sized: bool = False) -> bytes:
    schema = record(("x", {"type": "array", "items": items}))
    begin = zigzag(-_HUGE) + zigzag(0) if sized else zigzag(_HUGE)
    return header(schema) + block(1, begin + zigzag(0))


def array_of_empty_fixed() -> bytes:
    """One row with an array of 2^50 values of a fixed type of size 0."""
    return _array_of_nothing({"type": "fixed", "name": "F", "size": 0})


def array_of_nulls() -> bytes:
    """One row with an array of 2^50 nulls."""
    return _array_of_nothing("null")


def array_of_empty_records() -> bytes:
    """One row with an array of 2^50 records without fields."""
    return _array_of_nothing(record(name="Nothing"))


def array_with_a_size() -> bytes:
    """One row with an array of 2^50 nulls, whose block states its size of 0 bytes."""
    return _array_of_nothing("null", sized=True)


def array_of_empty_arrays() -> bytes:
    """One row with an array of ten million empty arrays, a byte each."""
    schema = record(("x", {"type": "array", "items": {"type": "array", "items": "int"}}))
    return header(schema) + block(1, zigzag(10_000_000) + bytes(10_000_000) + zigzag(0))


def map_of_nulls() -> bytes:
    """One row with a map of five million equal empty keys to null, a byte each."""
    schema = record(("x", {"type": "map", "values": "null"}))
    return header(schema) + block(1, zigzag(5_000_000) + bytes(5_000_000) + zigzag(0))


def rows_of_nothing() -> bytes:
    """A block that claims 2^50 rows, each a null of no bytes."""
    return header(record(("x", "null"))) + block(_HUGE, b"")


def rows_without_fields() -> bytes:
    """A block that claims 2^50 rows of a record without fields."""
    return header(record()) + block(_HUGE, b"")


def millions_of_empty_blocks() -> bytes:
    """A million blocks without rows."""
    return header(record(("x", "int"))) + block(0, b"") * 1_000_000


def doubling_schema(levels: int = 26) -> bytes:
    """A schema of a few kB that names 2^26 columns: each record has the one before it twice."""
    kind: Any = record(("a", "int"), name="R0")
    for level in range(1, levels + 1):
        kind = record(("a", kind), ("b", f"R{level - 1}"), name=f"R{level}")
    return header(kind) + block(0, b"")


def recursive_schema(depth: int = 100_000) -> bytes:
    """A list that is nested in itself 100,000 times."""
    schema = record(("v", "int"), ("next", ["null", "Row"]))
    row = (zigzag(1) + zigzag(1)) * depth + zigzag(1) + zigzag(0)
    return header(schema) + block(1, row)


def recursive_array(depth: int = 100_000) -> bytes:
    """A record that holds arrays of itself, 100,000 deep, under a plain column."""
    inner = record(("children", {"type": "array", "items": "Inner"}), name="Inner")
    row = zigzag(1) * depth + zigzag(0) * (depth + 1)
    return header(record(("x", inner))) + block(1, row)


def deep_schema(depth: int = 100_000) -> bytes:
    """A schema of 100,000 arrays in each other."""
    inner = b'{"type":"array","items":' * depth + b'"int"' + b"}" * depth
    return header(b'{"type":"record","name":"Row","fields":[{"name":"x","type":' + inner + b"}]}")


def wide_schema(fields: int = 100_000) -> bytes:
    """A record of 100,000 columns."""
    return header(record(*((f"c{number}", "int") for number in range(fields)))) + block(1, bytes(fields))


def wide_union(branches: int = 40_000) -> bytes:
    """A union of 40,000 records without fields."""
    kinds = [record(name=f"B{number}") for number in range(branches)]
    return header(record(("x", kinds))) + block(1, zigzag(branches - 1))


def wide_enum(symbols: int = 300_000) -> bytes:
    """An enum of 300,000 symbols, named by a million rows."""
    kind = {"type": "enum", "name": "E", "symbols": [f"S{number}" for number in range(symbols)]}
    return header(record(("x", kind))) + block(1_000_000, bytes(1_000_000))


def large_decimals() -> bytes:
    """A decimal of a million digits."""
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 1_000_000, "scale": 0}
    return header(record(("x", kind))) + block(1, text(b"\x7f" * 415_000))


def claimed_text() -> bytes:
    """A text that claims 2^60 bytes and has three."""
    return header(record(("x", "string"))) + block(1, zigzag(1 << 60) + b"abc")


def claimed_block() -> bytes:
    """A block that claims 2^60 bytes and has none."""
    return header(record(("x", "string"))) + block(1, b"", claimed=1 << 60)


def claimed_meta() -> bytes:
    """A header whose map claims 2^50 entries."""
    return b"Obj\x01" + zigzag(_HUGE) + text(b"a") + text(b"b")


def deflated(size: int = 4 << 30) -> bytes:
    """A block of 4 GiB of zeros, in 4 MB of deflate."""
    data, _, _ = text_bombs.deflated(b"\0", size)
    return header(record(("x", "int")), "deflate") + block(size, data)


def zstandard_block(size: int = 4 << 30) -> bytes:
    """A block of 4 GiB of zeros, in 400 kB of zstandard without a stated size."""
    packer = zstandard.ZstdCompressor(3).compressobj()
    piece = bytes(1 << 24)
    parts = [packer.compress(piece) for _ in range(size >> 24)]
    return header(record(("x", "int")), "zstandard") + block(size, b"".join([*parts, packer.flush()]))


def many_frames(frames: int = 300_000) -> bytes:
    """A block of 300,000 empty frames of zstandard."""
    empty = zstandard.ZstdCompressor(1).compress(b"")
    return header(record(("x", "int")), "zstandard") + block(1, empty * frames)


def claimed_snappy() -> bytes:
    """A block of snappy that claims 4 GiB and has nothing."""
    return header(record(("x", "int")), "snappy") + block(1, varint((1 << 32) - 1) + b"\0\0\0\0\0")


def full_block(size: int = 255 << 20) -> bytes:
    """A block just below a limit of 256 MiB: 255 million integers of one byte, in 250 kB."""
    return header(record(("x", "int")), "deflate") + block(size, text_bombs.deflated(b"\0", size)[0])
