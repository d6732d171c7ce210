"""Parquet files of a few hundred bytes that claim or become much more; no writer would make them."""

from __future__ import annotations

import gzip
from typing import Any, Final, TypeAlias

import zstandard

# A struct of Thrift's compact protocol: its fields, each with a number, a type and a value.
Struct: TypeAlias = list[tuple[int, int, Any]]

_I32: Final = 5
_I64: Final = 6
_BINARY: Final = 8
_LIST: Final = 9
_STRUCT: Final = 12
_MAGIC: Final = b"PAR1"
_INT32_TYPE: Final = 1
_BYTES_TYPE: Final = 6
_PLAIN: Final = 0
_RLE: Final = 3
_DICTIONARY: Final = 8
UNCOMPRESSED, GZIP, ZSTD = 0, 2, 6
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2


def varint(number: int) -> bytes:
    """An unsigned number in groups of seven bits."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> bytes:
    """A signed number of Thrift or Avro."""
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def _value(kind: int, value: Any) -> bytes:
    if kind in (_I32, _I64):
        return zigzag(value)
    if kind == _BINARY:
        return varint(len(value)) + bytes(value)
    if kind == _STRUCT:
        return thrift(value)
    item, items = value
    head = bytes([len(items) << 4 | item]) if len(items) < 15 else bytes([0xF0 | item]) + varint(len(items))
    return head + b"".join(_value(item, each) for each in items)


def thrift(fields: Struct) -> bytes:
    """A struct in the compact protocol."""
    out = bytearray()
    last = 0
    for number, kind, value in fields:
        out.append((number - last) << 4 | kind)
        last = number
        out += _value(kind, value)
    return bytes(out) + b"\0"


def run(count: int, value: int) -> bytes:
    """A run of one value of up to eight bits, as levels and indices are encoded."""
    return varint(count << 1) + bytes([value])


def levels(*runs: bytes) -> bytes:
    """The levels of a data page."""
    data = b"".join(runs)
    return len(data).to_bytes(4, "little") + data


def packed(data: bytes, codec: int) -> bytes:
    """The bytes of a page with a codec."""
    if codec == GZIP:
        return gzip.compress(data, 6, mtime=0)
    return zstandard.ZstdCompressor(3).compress(data) if codec == ZSTD else data


def page(data: bytes, values: int, *, codec: int = UNCOMPRESSED, claimed: int | None = None) -> bytes:
    """A data page in plain encoding; ``claimed`` is another size after decompression than the true one."""
    return _page(0, data, values, _PLAIN, codec, claimed)


def dictionary_pages(value: bytes, count: int, codec: int = ZSTD) -> tuple[bytes, bytes]:
    """A dictionary with one value, and a page that names it ``count`` times."""
    entry = len(value).to_bytes(4, "little") + value
    return _page(2, entry, 1, _PLAIN, codec, None), _page(
        0, b"\1" + run(count, 0), count, _DICTIONARY, UNCOMPRESSED if codec == UNCOMPRESSED else codec, None
    )


def _page(kind: int, data: bytes, values: int, encoding: int, codec: int, claimed: int | None) -> bytes:
    body = packed(data, codec)
    counted: Struct = [(1, _I32, values), (2, _I32, encoding)]
    if kind == 0:
        counted += [(3, _I32, _RLE), (4, _I32, _RLE)]
    header: Struct = [
        (1, _I32, kind),
        (2, _I32, len(data) if claimed is None else claimed),
        (3, _I32, len(body)),
        (5 if kind == 0 else 7, _STRUCT, counted),
    ]
    return thrift(header) + body


def element(name: str, repetition: int | None, kind: int | None = None, children: int = 0) -> Struct:
    """One node of a schema."""
    fields: Struct = [] if kind is None else [(1, _I32, kind)]
    if repetition is not None:
        fields.append((3, _I32, repetition))
    fields.append((4, _BINARY, name.encode()))
    if children:
        fields.append((5, _I32, children))
    return fields


def column(
    path: list[str],
    kind: int,
    pages: bytes,
    at: int,
    values: int,
    *,
    codec: int = UNCOMPRESSED,
    head: int = 0,
) -> Struct:
    """A column chunk whose pages begin at a place of the file; ``head`` are the bytes of its dictionary."""
    meta: Struct = [
        (1, _I32, kind),
        (2, _LIST, (_I32, [_PLAIN, _RLE, _DICTIONARY])),
        (3, _LIST, (_BINARY, [part.encode() for part in path])),
        (4, _I32, codec),
        (5, _I64, values),
        (6, _I64, len(pages)),
        (7, _I64, len(pages)),
        (9, _I64, at + head),
    ]
    if head:
        meta.append((11, _I64, at))
    return [(2, _I64, at), (3, _STRUCT, meta)]


def footer(schema: list[Struct], rows: int, groups: list[Struct]) -> bytes:
    """The end of a file."""
    meta = thrift(
        [
            (1, _I32, 2),
            (2, _LIST, (_STRUCT, schema)),
            (3, _I64, rows),
            (4, _LIST, (_STRUCT, groups)),
        ]
    )
    return meta + len(meta).to_bytes(4, "little") + _MAGIC


def group(columns: list[Struct], rows: int, size: int) -> Struct:
    """A row group."""
    return [(1, _LIST, (_STRUCT, columns)), (2, _I64, size), (3, _I64, rows)]


# -- bombs ---------------------------------------------------------------------------------------------


def nulls_in_a_list(count: int = 300_000_000) -> bytes:
    """One row whose list has 300 million nulls, in 300 bytes: two runs."""
    body = levels(run(1, 0), run(count - 1, 1)) + levels(run(count, 2))
    data = page(body, count)
    schema: list[Struct] = [
        element("schema", None, children=1),
        [*element("x", OPTIONAL, children=1), (6, _I32, 3)],
        element("list", REPEATED, children=1),
        element("element", OPTIONAL, _INT32_TYPE),
    ]
    chunk = column(["x", "list", "element"], _INT32_TYPE, data, 4, count)
    return _MAGIC + data + footer(schema, 1, [group([chunk], 1, len(data))])


def repeated_value(size: int = 200_000, count: int = 60_000) -> bytes:
    """A text of 200 kB that is 60,000 rows: one entry of a dictionary, and one run."""
    head, data = dictionary_pages(b"x" * size, count)
    schema = [element("schema", None, children=1), [*element("x", REQUIRED, _BYTES_TYPE), (6, _I32, 0)]]
    chunk = column(["x"], _BYTES_TYPE, head + data, 4, count, codec=ZSTD, head=len(head))
    return _MAGIC + head + data + footer(schema, count, [group([chunk], count, len(head + data))])


def null_rows(count: int = 2_000_000_000) -> bytes:
    """Two thousand million rows of null: one run of levels."""
    data = page(levels(run(count, 0)), count)
    schema = [element("schema", None, children=1), element("x", OPTIONAL, _INT32_TYPE)]
    chunk = column(["x"], _INT32_TYPE, data, 4, count)
    return _MAGIC + data + footer(schema, count, [group([chunk], count, len(data))])


def large_page(codec: int, size: int = 1 << 30) -> bytes:
    """A page of 1 GiB of zeros, compressed to a thousandth or less."""
    count = size // 4
    data = page(bytes(size), count, codec=codec)
    schema = [element("schema", None, children=1), element("x", REQUIRED, _INT32_TYPE)]
    chunk = column(["x"], _INT32_TYPE, data, 4, count, codec=codec)
    return _MAGIC + data + footer(schema, count, [group([chunk], count, len(data))])


def claimed_page(claimed: int = (1 << 31) - 1) -> bytes:
    """A page of four bytes that claims to have 2 GiB once it is decompressed."""
    data = page(b"\0\0\0\0", 1, codec=ZSTD, claimed=claimed)
    schema = [element("schema", None, children=1), element("x", REQUIRED, _INT32_TYPE)]
    chunk = column(["x"], _INT32_TYPE, data, 4, 1, codec=ZSTD)
    return _MAGIC + data + footer(schema, 1, [group([chunk], 1, len(data))])


def shared_column(columns: int = 100_000) -> bytes:
    """100,000 columns that all read the same page."""
    data = page(b"\0\0\0\0", 1)
    schema = [element("schema", None, children=columns)]
    schema += [element(f"c{number}", REQUIRED, _INT32_TYPE) for number in range(columns)]
    chunks = [column([f"c{number}"], _INT32_TYPE, data, 4, 1) for number in range(columns)]
    return _MAGIC + data + footer(schema, 1, [group(chunks, 1, len(data))])


def shared_groups(groups: int = 200_000, rows: int = 1_000_000) -> bytes:
    """200,000 row groups that all read the same page of a million nulls."""
    data = page(levels(run(rows, 0)), rows)
    schema = [element("schema", None, children=1), element("x", OPTIONAL, _INT32_TYPE)]
    each = group([column(["x"], _INT32_TYPE, data, 4, rows)], rows, len(data))
    return _MAGIC + data + footer(schema, rows * groups, [each] * groups)


def deep_schema(depth: int = 20_000) -> bytes:
    """A column that is nested in 20,000 groups."""
    schema = [element("schema", None, children=1)]
    schema += [element("g", OPTIONAL, children=1) for _ in range(depth)]
    schema.append(element("x", OPTIONAL, _INT32_TYPE))
    data = page(levels(run(1, 0)), 1)
    chunk = column(["g"] * depth + ["x"], _INT32_TYPE, data, 4, 1)
    return _MAGIC + data + footer(schema, 1, [group([chunk], 1, len(data))])


def claimed_footer() -> bytes:
    """A footer that claims 2 GiB, in a file of 12 bytes."""
    return _MAGIC + ((1 << 31) - 1).to_bytes(4, "little") + _MAGIC


def claimed_schema() -> bytes:
    """A footer whose list of columns claims 2^31 - 1 items, and has none."""
    meta = b"\x15\x04\x19\xfc" + varint((1 << 31) - 1)
    return _MAGIC + meta + len(meta).to_bytes(4, "little") + _MAGIC
