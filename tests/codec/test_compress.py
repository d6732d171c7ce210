"""Compressors stream both ways; damage is an error, never a short read."""

from __future__ import annotations

import gzip
import io
import pickle
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from lode.codec import Compressor, Gzip, Noop, Zstd, compressor
from lode.errors import InvalidFormatError, InvalidOptionError, StoreError
from support.codec.sinks import CountingSink, Failing, Unseekable

PACKERS: list[Compressor] = [Gzip(), Zstd()]
CONTENT = b"".join(b"%d," % (index * index) for index in range(50_000))


def packed(how: Compressor, *parts: bytes) -> bytes:
    out = io.BytesIO()
    sink = how.compress(out)
    for part in parts:
        assert sink.write(part) == len(part)
    sink.close()
    sink.close()
    assert not out.closed
    return out.getvalue()


def unpacked(how: Compressor, data: bytes) -> bytes:
    return how.decompress(io.BytesIO(data)).read()


@pytest.mark.parametrize("how", [Noop(), *PACKERS])
@settings(max_examples=30, deadline=None)
@given(parts=st.lists(st.binary(max_size=2000), max_size=5))
def test_what_goes_in_comes_out(how: Compressor, parts: list[bytes]) -> None:
    assert unpacked(how, packed(how, *parts)) == b"".join(parts)


def test_other_tools_read_what_we_write() -> None:
    assert gzip.decompress(packed(Gzip(), CONTENT)) == CONTENT
    assert zstandard.ZstdDecompressor().stream_reader(packed(Zstd(), CONTENT)).read() == CONTENT


@pytest.mark.parametrize("how", PACKERS)
def test_the_same_content_gives_the_same_bytes(how: Compressor) -> None:
    assert packed(how, CONTENT) == packed(how, CONTENT)


def test_gzip_carries_no_time() -> None:
    assert packed(Gzip(), b"x")[4:8] == bytes(4)


@pytest.mark.parametrize("how", PACKERS)
def test_several_members_are_read_to_the_end(how: Compressor) -> None:
    assert unpacked(how, packed(how, b"one") + packed(how, b"") + packed(how, b"two")) == b"onetwo"


@pytest.mark.parametrize("how", PACKERS)
def test_a_stream_cut_anywhere_is_an_error(how: Compressor) -> None:
    whole = packed(how, CONTENT[:3000])
    for length in range(0, len(whole), 13):
        with pytest.raises(InvalidFormatError, match=f"not a whole {how.name} stream"):
            unpacked(how, whole[:length])
    with pytest.raises(InvalidFormatError):
        unpacked(how, whole + whole[:-1])


@pytest.mark.parametrize("how", PACKERS)
def test_damage_and_garbage_are_errors(how: Compressor) -> None:
    whole = bytearray(packed(how, CONTENT))
    whole[len(whole) // 2] ^= 0xFF
    for data in (bytes(whole), b"garbage", packed(how, b"x") + b"garbage"):
        with pytest.raises(InvalidFormatError):
            unpacked(how, data)


@pytest.mark.parametrize("how", PACKERS)
def test_an_error_of_the_source_passes_through_unchanged(how: Compressor) -> None:
    error = StoreError("unplugged")
    source: Any = Failing(error, packed(how, CONTENT)[:100])
    with pytest.raises(StoreError) as caught:
        how.decompress(source).read()
    assert caught.value is error


@pytest.mark.parametrize("how", PACKERS)
def test_reading_in_pieces_from_a_source_that_cannot_seek(how: Compressor) -> None:
    source: Any = Unseekable(packed(how, CONTENT), piece=100)
    stream = how.decompress(source)
    assert b"".join(iter(lambda: stream.read(777), b"")) == CONTENT
    assert not stream.seekable()


@pytest.mark.parametrize("how", [Noop(), *PACKERS])
def test_closing_the_stream_closes_the_source(how: Compressor) -> None:
    source = io.BytesIO(packed(how, b"x"))
    with how.decompress(source) as stream:
        assert stream.read() == b"x"
    assert source.closed


@pytest.mark.parametrize("how", PACKERS)
def test_a_large_write_of_zeros_stays_small_both_ways(how: Compressor) -> None:
    sink = CountingSink()
    compressing = how.compress(sink)
    for _ in range(4):
        compressing.write(bytes(16 << 20))
    compressing.close()
    assert max(sink.sizes) <= 1 << 20
    stream = how.decompress(io.BytesIO(packed(how, bytes(64 << 20))))
    assert all(len(piece) <= 1 << 20 for piece in iter(lambda: stream.read(1 << 20), b""))


def test_a_compressor_is_chosen_by_name_or_given() -> None:
    assert compressor("gzip") == Gzip()
    assert compressor("zstd") == Zstd()
    assert compressor("noop") == compressor(None) == Noop()
    mine = Zstd(level=9)
    assert compressor(mine) is mine
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert [(how.name, how.extension) for how in (Noop(), Gzip(), Zstd())] == [
        ("noop", ""),
        ("gzip", ".gz"),
        ("zstd", ".zst"),
    ]


@pytest.mark.parametrize("choice", ["rar", "", 5, Gzip])
def test_an_unknown_compressor_names_the_known_ones(choice: Any) -> None:
    with pytest.raises(InvalidOptionError, match="noop, gzip, zstd"):
        compressor(choice)


@pytest.mark.parametrize("make", [lambda: Gzip(10), lambda: Gzip(-1), lambda: Zstd(0), lambda: Zstd(True)])
def test_a_level_out_of_its_range_is_refused(make: Any) -> None:
    with pytest.raises(InvalidOptionError, match="level"):
        make()
