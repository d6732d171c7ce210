"""Uploads through a writer, piece by piece."""

from __future__ import annotations

import array
import random
from typing import TYPE_CHECKING

import pytest

from lode.errors import PathExistsError, TransactionClosedError
from lode.testing.store_suite.fixtures import StoreTests
from lode.testing.store_suite.threads import race

if TYPE_CHECKING:
    from lode.store.protocol import Store


def write(store: Store, path: str, data: bytes) -> None:
    """Put an object through a writer."""
    with store.open_writer(path) as writer:
        writer.write(data)
        writer.commit()


class WritingTests(StoreTests):
    """An upload is all there after its commit and nowhere before."""

    def test_a_writer_puts_its_pieces_together(self, store: Store) -> None:
        with store.open_writer("d/x") as writer:
            assert writer.write(b"one ") == 4
            assert writer.write(memoryview(b"two ")) == 4
            assert writer.write(array.array("i", [7])) == array.array("i").itemsize
            writer.commit()
        assert store.get("d/x") == b"one two " + array.array("i", [7]).tobytes()

    def test_a_writer_that_wrote_nothing_makes_an_empty_object(self, store: Store) -> None:
        with store.open_writer("x") as writer:
            writer.commit()
        assert store.get("x") == b""

    def test_a_writer_does_not_keep_the_buffers_it_is_given(self, store: Store) -> None:
        piece = bytearray(b"aaaa")
        with store.open_writer("x") as writer:
            writer.write(piece)
            piece[:] = b"bbbb"
            writer.write(piece)
            writer.commit()
        assert store.get("x") == b"aaaabbbb"

    def test_nothing_is_to_be_seen_before_commit(self, store: Store) -> None:
        with store.open_writer("d/x") as writer:
            writer.write(bytes(self.large))
            assert not store.exists("d/x")
            assert list(store.list()) == []
            writer.commit()
        assert store.head("d/x").size == self.large

    def test_leaving_without_commit_leaves_nothing(self, store: Store) -> None:
        with store.open_writer("d/x") as writer:
            writer.write(bytes(self.large))
        assert not store.exists("d/x")
        assert list(store.list()) == []

    def test_an_error_in_the_block_leaves_nothing(self, store: Store) -> None:
        def fail_half_way() -> None:
            with store.open_writer("d/x") as writer:
                writer.write(b"half")
                raise KeyError

        with pytest.raises(KeyError):
            fail_half_way()
        assert list(store.list()) == []

    def test_aborting_leaves_nothing_and_may_be_repeated(self, store: Store) -> None:
        writer = store.open_writer("d/x")
        writer.write(b"half")
        writer.abort()
        writer.abort()
        assert list(store.list()) == []

    def test_abort_after_commit_does_nothing(self, store: Store) -> None:
        writer = store.open_writer("x")
        writer.write(b"whole")
        writer.commit()
        writer.abort()
        assert store.get("x") == b"whole"

    def test_a_finished_writer_refuses_more(self, store: Store) -> None:
        writer = store.open_writer("x")
        writer.commit()
        with pytest.raises(TransactionClosedError):
            writer.write(b"more")
        with pytest.raises(TransactionClosedError):
            writer.commit()
        assert store.get("x") == b""

    @pytest.mark.parametrize("size", [4, -1], ids=["small", "large"])
    def test_a_writer_never_replaces(self, store: Store, size: int) -> None:
        store.put("x", b"first")
        with pytest.raises(PathExistsError, match="x"):
            write(store, "x", bytes(size if size > 0 else self.large))
        assert store.get("x") == b"first"
        assert [info.path for info in store.list()] == ["x"]

    def test_a_path_taken_while_writing_stays_with_who_took_it(self, store: Store) -> None:
        with store.open_writer("x") as writer:
            writer.write(b"slow")
            store.put("x", b"quick")
            with pytest.raises(PathExistsError):
                writer.commit()
        assert store.get("x") == b"quick"

    def test_of_many_racing_small_writers_exactly_one_wins(self, store: Store) -> None:
        def attempt(number: int) -> bool:
            with store.open_writer("d/contested") as writer:
                writer.write(f"racer {number}".encode())
                try:
                    writer.commit()
                except PathExistsError:
                    return False
                return True

        won = race(self.racers, attempt)
        assert won.count(True) == 1
        assert store.get("d/contested") == f"racer {won.index(True)}".encode()

    def test_a_large_object_comes_back_byte_by_byte(self, store: Store) -> None:
        data = random.Random(2).randbytes(self.large)
        with store.open_writer("large") as writer:
            for start in range(0, len(data), 700_001):
                writer.write(data[start : start + 700_001])
            writer.commit()
        assert store.head("large").size == len(data)
        with store.open_reader("large") as reader:
            assert reader.size == len(data)
            assert reader.read_at(len(data) // 2, 1000) == data[len(data) // 2 :][:1000]
        assert store.get("large") == data

    def test_one_large_piece_comes_back_too(self, store: Store) -> None:
        data = random.Random(3).randbytes(self.large)
        with store.open_writer("large") as writer:
            writer.write(data[:10])
            writer.write(data[10:])
            writer.commit()
        assert store.get("large") == data
