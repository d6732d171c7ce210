"""Checksums are computed while bytes stream by."""

from __future__ import annotations

import hashlib
import io
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import xxhash

from lode.codec import HashingSink, Md5, Sha256, Xxh3, checksum
from lode.errors import InvalidOptionError, StoreError

if TYPE_CHECKING:
    from lode.codec import Checksum


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("md5", hashlib.md5(b"abc").hexdigest()),
        ("sha256", hashlib.sha256(b"abc").hexdigest()),
        ("xxh3-128", xxhash.xxh3_128_hexdigest(b"abc")),
    ],
)
def test_a_checksum_is_the_well_known_one_of_its_name(name: str, expected: str) -> None:
    found = checksum(name)
    assert found is not None
    assert found.name == name
    hasher = found.start()
    hasher.update(b"a")
    hasher.update(memoryview(b"bc"))
    assert hasher.hexdigest() == expected


@pytest.mark.parametrize("kind", [Md5(), Sha256(), Xxh3()])
def test_a_checksum_is_a_value(kind: Checksum) -> None:
    assert pickle.loads(pickle.dumps(kind)) == kind == checksum(kind.name)
    assert checksum(kind) is kind


def test_no_checksum_is_none() -> None:
    assert checksum(None) is None


@pytest.mark.parametrize("choice", ["crc32", "", 5, Md5])
def test_an_unknown_checksum_names_the_known_ones(choice: Any) -> None:
    with pytest.raises(InvalidOptionError, match="md5, sha256, xxh3-128"):
        checksum(choice)


def test_a_sink_counts_and_hashes_what_passes() -> None:
    inner = io.BytesIO()
    sink = HashingSink(inner, Md5().start())
    assert sink.write(b"ab") == 2
    assert sink.write(memoryview(b"cd")) == 2
    assert (sink.size, inner.getvalue()) == (4, b"abcd")
    assert sink.hexdigest() == hashlib.md5(b"abcd").hexdigest()


def test_without_a_hasher_a_sink_only_counts() -> None:
    sink = HashingSink(io.BytesIO())
    sink.write(b"abc")
    assert (sink.size, sink.hexdigest()) == (3, None)


def test_a_sink_that_takes_nothing_is_an_error_and_one_that_says_nothing_is_not() -> None:
    class Full:
        def write(self, _: Any, /) -> int:
            return 0

    class Silent:
        def write(self, _: Any, /) -> None: ...

    with pytest.raises(StoreError, match="3 are left"):
        HashingSink(Full()).write(b"abc")
    silent: Any = Silent()
    assert HashingSink(silent).write(b"abc") == 3


def test_big_writes_are_passed_on_without_a_copy() -> None:
    data = bytearray(1 << 20)
    seen: list[Any] = []

    class Sink:
        def write(self, data: Any, /) -> int:
            seen.append(data)
            return len(data)

    HashingSink(Sink(), Xxh3().start()).write(data)
    assert [view.obj is data for view in seen] == [True]


def test_a_sink_that_takes_little_at_a_time_gets_everything_once() -> None:
    taken = bytearray()

    class Sink:
        def write(self, data: Any, /) -> int:
            taken.extend(data[:3])
            return min(3, len(data))

    sink = HashingSink(Sink(), Md5().start())
    assert sink.write(b"0123456789") == 10
    assert taken == b"0123456789"
    assert sink.hexdigest() == hashlib.md5(b"0123456789").hexdigest()
