"""Putting, getting, asking about and deleting whole objects."""

from __future__ import annotations

import array
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lode.errors import NotFoundError, PathExistsError
from lode.store.protocol import Store, SupportsCompareAndSwap
from lode.testing.store_suite.fixtures import StoreTests
from lode.testing.store_suite.threads import race


class ObjectTests(StoreTests):
    """An object is put once, got back whole, and gone once deleted."""

    def test_a_store_is_a_store(self, store: Store) -> None:
        assert isinstance(store, Store)

    def test_the_capability_check_tells_whether_a_store_can_swap(self, store: Store) -> None:
        assert isinstance(store, SupportsCompareAndSwap) is self.can_swap

    def test_the_url_names_a_scheme(self, store: Store) -> None:
        assert "://" in store.url

    def test_what_is_put_is_got(self, store: Store) -> None:
        store.put("a/b/c", b"hello")
        assert store.get("a/b/c") == b"hello"

    def test_an_empty_object_is_an_object(self, store: Store) -> None:
        store.put("empty", b"")
        assert store.get("empty") == b""
        assert store.exists("empty")
        assert store.head("empty").size == 0
        assert [info.path for info in store.list()] == ["empty"]

    @pytest.mark.parametrize(
        "data",
        [bytearray(b"abcdefgh"), memoryview(b"abcdefgh"), memoryview(b"a-b-c-d-e-f-g-h")[::2]],
        ids=["bytearray", "memoryview", "strided"],
    )
    def test_any_buffer_can_be_put(self, store: Store, data: Any) -> None:
        store.put("x", data)
        assert store.get("x") == b"abcdefgh"

    def test_a_buffer_of_wide_items_is_put_byte_by_byte(self, store: Store) -> None:
        numbers = array.array("i", range(100))
        store.put("x", numbers)
        assert store.get("x") == numbers.tobytes()

    def test_what_was_put_does_not_change_with_the_buffer(self, store: Store) -> None:
        data = bytearray(b"before")
        store.put("x", data)
        data[:] = b"after!"
        assert store.get("x") == b"before"

    def test_put_never_replaces(self, store: Store) -> None:
        store.put("x", b"first")
        with pytest.raises(PathExistsError, match="x"):
            store.put("x", b"second")
        assert store.get("x") == b"first"

    def test_put_of_the_same_bytes_again_is_refused_or_changes_nothing(self, store: Store) -> None:
        store.put("x", b"same")
        with suppress(PathExistsError):
            store.put("x", b"same")
        assert store.get("x") == b"same"

    def test_of_many_racing_puts_exactly_one_wins(self, store: Store) -> None:
        def attempt(number: int) -> bool:
            try:
                store.put("dir/contested", f"racer {number}".encode() * 100)
            except PathExistsError:
                return False
            return True

        won = race(self.racers, attempt)
        assert won.count(True) == 1
        assert store.get("dir/contested") == f"racer {won.index(True)}".encode() * 100

    def test_racing_puts_into_one_new_directory_all_succeed(self, store: Store) -> None:
        race(self.racers, lambda number: store.put(f"new/deep/dir/{number:02}", b"x"))
        assert len(list(store.list("new/deep/dir/"))) == self.racers

    def test_getting_what_is_not_there_names_it(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="no/such"):
            store.get("no/such")

    def test_a_directory_is_no_object(self, store: Store) -> None:
        store.put("a/b", b"x")
        assert not store.exists("a")
        with pytest.raises(NotFoundError):
            store.get("a")
        with pytest.raises(NotFoundError):
            store.head("a")
        with pytest.raises(NotFoundError):
            store.get_range("a", 0, 1)
        with pytest.raises(NotFoundError):
            store.open_reader("a")
        store.delete("a")
        assert store.exists("a/b")

    def test_nothing_is_found_below_an_object(self, store: Store) -> None:
        store.put("a", b"x")
        assert not store.exists("a/b")
        with pytest.raises(NotFoundError):
            store.get("a/b")
        store.delete("a/b")
        assert store.exists("a")

    def test_head_tells_path_size_and_time(self, store: Store) -> None:
        store.put("a/x", b"12345")
        info = store.head("a/x")
        assert (info.path, info.size) == ("a/x", 5)
        assert info.modified.tzinfo is not None
        assert abs(datetime.now(UTC) - info.modified) < timedelta(hours=1)

    def test_head_of_what_is_not_there_is_not_found(self, store: Store) -> None:
        with pytest.raises(NotFoundError, match="missing"):
            store.head("missing")

    def test_exists_tells_whether_there_is_an_object(self, store: Store) -> None:
        assert not store.exists("dir/x")
        store.put("dir/x", b"1")
        assert store.exists("dir/x")

    def test_deleting_removes_the_object_and_no_other(self, store: Store) -> None:
        store.put("d/x", b"1")
        store.put("d/xy", b"2")
        store.delete("d/x")
        assert not store.exists("d/x")
        assert store.get("d/xy") == b"2"

    def test_deleting_twice_is_no_error(self, store: Store) -> None:
        store.put("x", b"1")
        store.delete("x")
        store.delete("x")
        store.delete("never/was/there")

    def test_a_deleted_path_can_be_put_again(self, store: Store) -> None:
        store.put("d/x", b"1")
        store.delete("d/x")
        store.put("d/x", b"2")
        assert store.get("d/x") == b"2"
