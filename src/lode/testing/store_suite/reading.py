"""Reading parts of an object, by range and through a reader."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lode.errors import InvalidRangeError, NotFoundError
from lode.testing.store_suite.fixtures import StoreTests
from lode.testing.store_suite.threads import race

if TYPE_CHECKING:
    from lode.store.protocol import Store


class ReadingTests(StoreTests):
    """A range has the bytes there are, however it is read."""

    @pytest.mark.parametrize(
        ("offset", "length", "expected"),
        [
            (0, 10, b"0123456789"),
            (0, 3, b"012"),
            (3, 4, b"3456"),
            (9, 1, b"9"),
            (8, 100, b"89"),
            (10, 1, b""),
            (100, 5, b""),
            (3, 0, b""),
            (0, 0, b""),
            (10, 0, b""),
            (0, 1 << 62, b"0123456789"),
            (1 << 62, 1 << 62, b""),
        ],
    )
    def test_a_range_has_the_bytes_there_are(
        self, store: Store, offset: int, length: int, expected: bytes
    ) -> None:
        store.put("x", b"0123456789")
        assert store.get_range("x", offset, length) == expected
        with store.open_reader("x") as reader:
            assert reader.read_at(offset, length) == expected

    @pytest.mark.parametrize(("offset", "length"), [(0, 0), (0, 5), (7, 5)])
    def test_any_range_of_an_empty_object_is_empty(self, store: Store, offset: int, length: int) -> None:
        store.put("empty", b"")
        assert store.get_range("empty", offset, length) == b""
        with store.open_reader("empty") as reader:
            assert reader.read_at(offset, length) == b""

    @pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, -1), (-5, -5)])
    def test_a_negative_range_is_refused(self, store: Store, offset: int, length: int) -> None:
        store.put("x", b"0123456789")
        with pytest.raises(InvalidRangeError):
            store.get_range("x", offset, length)
        with store.open_reader("x") as reader, pytest.raises(InvalidRangeError):
            reader.read_at(offset, length)

    @pytest.mark.parametrize(("offset", "length"), [(0, 1), (0, 0), (5, 0)])
    def test_a_range_of_what_is_not_there_is_not_found(self, store: Store, offset: int, length: int) -> None:
        with pytest.raises(NotFoundError, match="missing"):
            store.get_range("missing", offset, length)

    def test_a_reader_knows_its_size_and_reads_anywhere(self, store: Store) -> None:
        store.put("x", bytes(range(256)))
        with store.open_reader("x") as reader:
            assert reader.size == 256
            assert reader.read_at(250, 100) == bytes(range(250, 256))
            assert reader.read_at(0, 2) == b"\x00\x01"

    def test_opening_what_is_not_there_is_not_found(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="missing"):
            store.open_reader("missing")

    def test_a_reader_may_be_closed_twice(self, store: Store) -> None:
        store.put("x", b"1")
        reader = store.open_reader("x")
        reader.close()
        reader.close()

    def test_threads_may_share_a_reader(self, store: Store) -> None:
        data = random.Random(1).randbytes(64_000)
        store.put("x", data)
        with store.open_reader("x") as reader:
            pieces = race(8, lambda number: reader.read_at(number * 8000, 8000))
        assert b"".join(pieces) == data
