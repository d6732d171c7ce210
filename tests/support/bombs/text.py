"""CSV and JSON files that ask for much time or memory."""

from __future__ import annotations

import functools
import gzip
import struct
import zlib


def deflated(piece: bytes, times: int) -> tuple[bytes, int, int]:
    """A piece many times as one stream of deflate; also its checksum and its size.

    A chunk is compressed once: after a full flush, the same bytes stand for the same chunk again.
    """
    per = max(1, (1 << 22) // len(piece))
    chunk, rest = piece * per, piece * (times % per)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(chunk) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = 0
    for _ in range(times // per):
        checksum = zlib.crc32(chunk, checksum)
    last = zlib.compressobj(9, zlib.DEFLATED, -15)
    end = last.compress(rest) + last.flush()
    return packed * (times // per) + end, zlib.crc32(rest, checksum), times * len(piece)


@functools.cache
def packed_repeats(piece: bytes, times: int) -> bytes:
    """A piece many times as one member of gzip."""
    data, checksum, size = deflated(piece, times)
    end = struct.pack("<II", checksum, size & 0xFFFFFFFF)
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + data + end


# -- CSV -----------------------------------------------------------------------------------------------


def equal_names(count: int = 6_000) -> bytes:
    """A header with the same name 6,000 times, above numbers."""
    return b",".join([b"a"] * count) + b"\n" + b",".join([b"1"] * count) + b"\n"


def long_line(size: int = 100_000_000) -> bytes:
    """One line of 100 MB without a delimiter."""
    return b"a\n" + b"x" * size


def open_quote(size: int = 60_000_000) -> bytes:
    """A quote that never closes, over a million lines."""
    return b'a,b\n"' + b"xxxxxxxxx,\n" * (size // 11)


def many_quotes(size: int = 40_000_000) -> bytes:
    """A field of 40 million quotes."""
    return b"a\n" + b'"' * size


def many_columns(count: int = 1_000_000) -> bytes:
    """A line of a million columns."""
    return b",".join(b"c%d" % number for number in range(count)) + b"\n" + b"1," * (count - 1) + b"1\n"


def many_delimiters(count: int = 50_000_000) -> bytes:
    """A line of 50 million delimiters."""
    return b"a,b\n1,2\n" + b"," * count + b"\n"


def line_breaks() -> bytes:
    """3 GB of line breaks as gzip of 3 MB."""
    return packed_repeats(b"\n", 3_000_000_000)


def short_rows() -> bytes:
    """1.5 thousand million rows of one digit as gzip of 3 MB."""
    return packed_repeats(b"1\n", 1_500_000_000)


def zeros() -> bytes:
    """3 GB of zero bytes without a line break as gzip of 3 MB."""
    return packed_repeats(b"\0", 3_000_000_000)


def empty_members(count: int = 1_000_000) -> bytes:
    """A million empty members of gzip."""
    return gzip.compress(b"", mtime=0) * count


def long_cells(rows: int = 40, size: int = 7_000_000) -> bytes:
    """Forty rows of a cell of 7 MB as gzip."""
    return packed_repeats(b"x" * size + b"\n", rows)


def long_numbers(rows: int = 30, digits: int = 1_000_000) -> bytes:
    """Numbers of a million digits."""
    return b"a\n" + (b"9" * digits + b"\n") * rows


def bad_rows(rows: int = 3_000_000) -> bytes:
    """Three million rows with too many columns, all of which the job tolerates."""
    return b"a\n" + b"1,2,3\n" * rows


# -- JSON ----------------------------------------------------------------------------------------------


def many_keys(count: int = 3_000_000) -> bytes:
    """One line with three million keys."""
    return b"{" + b",".join(b'"k%d":1' % number for number in range(count)) + b"}\n"


def equal_keys(count: int = 5_000_000) -> bytes:
    """One line with the same key five million times."""
    return b"{" + b",".join([b'"a":1'] * count) + b"}\n"


def deep_lists(depth: int = 100_000) -> bytes:
    """A line of 100,000 lists in each other."""
    return b'{"a":' + b"[" * depth + b"]" * depth + b"}\n"


def deep_objects(depth: int = 100_000) -> bytes:
    """A line of 100,000 objects in each other."""
    return b'{"a":' * depth + b"1" + b"}" * depth + b"\n"


def many_deep_lines(lines: int = 20_000, depth: int = 900) -> bytes:
    """20,000 lines that are nested just not too deep, as gzip."""
    return packed_repeats(b'{"a":' + b"[" * depth + b"]" * depth + b"}\n", lines)


def long_number(digits: int = 5_000_000) -> bytes:
    """A number of five million digits."""
    return b'{"a":' + b"9" * digits + b"}\n"


def large_exponent() -> bytes:
    """Ten thousand numbers of nine characters that would have a thousand million digits."""
    return b'{"a":1e999999999}\n{"a":-1E-999999999}\n' * 5_000


def long_text(size: int = 90_000_000) -> bytes:
    """A text of 90 MB of escapes, below the limit of a row."""
    return b'{"a":"' + b"\\u0041" * (size // 6) + b'"}\n'


def many_items(count: int = 30_000_000) -> bytes:
    """A list of 30 million zeros on one line."""
    return b'{"a":[' + b"0," * (count - 1) + b"0]}\n"


def many_empty_objects(count: int = 20_000_000) -> bytes:
    """A list of 20 million empty objects on one line."""
    return b'{"a":[' + b"{}," * (count - 1) + b"{}]}\n"


def packed_items(count: int = 45_000_000) -> bytes:
    """A list of 45 million zeros on one line, as gzip of 100 kB."""
    return gzip.compress(b'{"a":[' + b"0," * (count - 1) + b"0]}\n", 6, mtime=0)


def empty_rows(count: int = 200_000_000) -> bytes:
    """200 million empty objects as gzip."""
    return packed_repeats(b"{}\n", count)


def new_keys_on_every_line(lines: int = 300_000) -> bytes:
    """300,000 lines, each with another column."""
    return b"".join(b'{"k%d":1}\n' % number for number in range(lines))


def blank_text(size: int = 2_000_000_000) -> bytes:
    """2 GB of spaces without a line break as gzip."""
    return packed_repeats(b" ", size)
