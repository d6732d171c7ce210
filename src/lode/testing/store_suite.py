"""What every store must do, as tests. Subclass it, say which store, and run pytest.

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self) -> Store:
            return MyStore(...)

The fixture gives an empty store to each test.
"""

from __future__ import annotations

import array
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, cast

import pytest

from lode.errors import (
    InvalidPathError,
    InvalidRangeError,
    NotFoundError,
    PathExistsError,
    TransactionClosedError,
)
from lode.store.protocol import Store, SupportsCompareAndSwap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

BAD_PATHS = (
    "",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "./a",
    "a/.",
    "../a",
    "a/..",
    "a/../b",
    "a/./b",
    "a\0b",
    "a\\b",
    "..\\a",
)
BAD_PREFIXES = ("/", "/a", "a//", "../", "./a", "a/../b", "a\0b", "a\\b")
ODD_PATHS = (
    "region=eu%2Fwest%201/data",
    "region=eu%2fwest/data",
    "100%/data",
    "%25/%",
    "a b/c  d",
    "a+b&c=d;e,f@g:h$i!",
    "q?x#y~z",
    'it\'s/"quoted"/*[x]{y}|^`<>',
    ".hidden/.file",
    "dots.../...",
    "grüße/日本語/emoji-😀",
    "e\u0301/é",
    "UPPER/lower",
)


class SwappingStore(Store, SupportsCompareAndSwap, Protocol):
    """A store that can compare and swap."""


def race(racers: int, run: Callable[[int], T]) -> list[T]:
    """Run ``run(0)``, ``run(1)``, … in threads that all start together; return what they returned."""
    barrier = threading.Barrier(racers)

    def start(number: int) -> T:
        barrier.wait()
        return run(number)

    with ThreadPoolExecutor(racers) as pool:
        return list(pool.map(start, range(racers)))


def write(store: Store, path: str, data: bytes) -> None:
    """Put an object through a writer."""
    with store.open_writer(path) as writer:
        writer.write(data)
        writer.commit()


class StoreSuite:
    """The conformance tests. Override the attributes where your store is different or slow."""

    can_swap: ClassVar[bool] = True
    """False for a store without ``compare_and_swap``: its tests are then expected to fail."""

    racers: ClassVar[int] = 16
    swaps_each: ClassVar[int] = 10
    large: ClassVar[int] = 5_000_000

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError("override the fixture 'store' with one that gives an empty store")

    @pytest.fixture
    def swapping_store(self, store: Store, request: pytest.FixtureRequest) -> SwappingStore:
        if not self.can_swap:
            request.applymarker(
                pytest.mark.xfail(
                    raises=AttributeError, strict=True, reason="AttributeError: no compare_and_swap"
                )
            )
        return cast("SwappingStore", store)

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

    @pytest.mark.parametrize("path", BAD_PATHS)
    @pytest.mark.parametrize(
        "call",
        [
            lambda store, path: store.put(path, b"x"),
            lambda store, path: store.get(path),
            lambda store, path: store.get_range(path, 0, 1),
            lambda store, path: store.exists(path),
            lambda store, path: store.head(path),
            lambda store, path: store.delete(path),
            lambda store, path: store.open_reader(path),
            lambda store, path: store.open_writer(path),
        ],
        ids=["put", "get", "get_range", "exists", "head", "delete", "open_reader", "open_writer"],
    )
    def test_a_bad_path_is_refused_and_nothing_touched(
        self, store: Store, path: str, call: Callable[[Store, str], object]
    ) -> None:
        store.put("a/b", b"kept")
        with pytest.raises(InvalidPathError):
            call(store, path)
        assert [info.path for info in store.list()] == ["a/b"]

    @pytest.mark.parametrize("path", BAD_PATHS)
    def test_a_bad_path_is_never_swapped(self, swapping_store: SwappingStore, path: str) -> None:
        with pytest.raises(InvalidPathError):
            swapping_store.compare_and_swap(path, None, b"x")
        assert list(swapping_store.list()) == []

    @pytest.mark.parametrize("prefix", BAD_PREFIXES)
    def test_a_prefix_no_path_can_have_is_refused(self, store: Store, prefix: str) -> None:
        with pytest.raises(InvalidPathError):
            store.list(prefix)

    @pytest.mark.parametrize("path", ODD_PATHS)
    def test_odd_characters_in_a_path_survive(self, store: Store, path: str) -> None:
        store.put(path, b"odd")
        assert [info.path for info in store.list()] == [path]
        assert [info.path for info in store.list(path[:-1])] == [path]
        assert store.get(path) == b"odd"
        assert store.get_range(path, 1, 1) == b"d"
        assert store.head(path).path == path
        with store.open_reader(path) as reader:
            assert reader.read_at(0, 9) == b"odd"
        with pytest.raises(PathExistsError):
            store.put(path, b"other")
        store.delete(path)
        assert not store.exists(path)

    @pytest.mark.parametrize("path", ODD_PATHS)
    def test_odd_characters_in_a_path_survive_a_writer(self, store: Store, path: str) -> None:
        with store.open_writer(path) as writer:
            writer.write(b"odd")
            writer.commit()
        assert [info.path for info in store.list()] == [path]
        assert store.get(path) == b"odd"

    @pytest.mark.parametrize("path", ODD_PATHS)
    def test_odd_characters_in_a_path_survive_a_swap(self, swapping_store: SwappingStore, path: str) -> None:
        assert swapping_store.compare_and_swap(path, None, b"1")
        assert swapping_store.compare_and_swap(path, b"1", b"2")
        assert swapping_store.get(path) == b"2"
        assert [info.path for info in swapping_store.list()] == [path]

    def test_an_escaped_path_and_the_plain_one_are_two_objects(self, store: Store) -> None:
        store.put("k=a%20b/x", b"escaped")
        store.put("k=a b/x", b"plain")
        assert store.get("k=a%20b/x") == b"escaped"
        assert store.get("k=a b/x") == b"plain"
        assert [info.path for info in store.list("k=a%")] == ["k=a%20b/x"]

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

    def put_all(self, store: Store, paths: Sequence[str]) -> None:
        for path in paths:
            store.put(path, path.encode())

    def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        assert list(store.list()) == []
        assert list(store.list("no/such/")) == []

    def test_a_listing_is_sorted_by_whole_path(self, store: Store) -> None:
        paths = ["b", "a/x", "a-b/x", "a.b", "a0", "a/b/c", "A/z", "a/b.c", "a/b-c/d", "é/x", "z/y"]
        self.put_all(store, paths)
        assert [info.path for info in store.list()] == sorted(paths)

    def test_a_listing_tells_size_and_time(self, store: Store) -> None:
        self.put_all(store, ["a/1", "a/22"])
        found = list(store.list("a/"))
        assert [info.size for info in found] == [3, 4]
        assert found == [store.head("a/1"), store.head("a/22")]

    @pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/b/", "a/b/c", "a/bb", "b/", "c", "a-", "."])
    def test_a_prefix_is_a_plain_string_prefix(self, store: Store, prefix: str) -> None:
        paths = ["a-b/x", "a/b/c", "a/b/cd", "a/bb/c", "a/c", "ab", "b/x", ".c/d"]
        self.put_all(store, paths)
        found = [info.path for info in store.list(prefix)]
        assert found == sorted(path for path in paths if path.startswith(prefix))

    @pytest.mark.parametrize("prefix", ["", "a/", "a/b"])
    @pytest.mark.parametrize(
        "after", ["", "a", "a-", "a-b/x", "a/", "a/b", "a/b/", "a/b/c", "a/b/zz", "a0", "z"]
    )
    def test_a_listing_starts_behind_after(self, store: Store, prefix: str, after: str) -> None:
        paths = ["a-b/x", "a/b/c", "a/b/d/e", "a/bb/c", "a/c", "ab", "b/x"]
        self.put_all(store, paths)
        found = [info.path for info in store.list(prefix, after=after)]
        assert found == sorted(path for path in paths if path.startswith(prefix) and path > after)

    def test_a_deleted_object_is_not_listed(self, store: Store) -> None:
        self.put_all(store, ["a/1", "a/2"])
        store.delete("a/1")
        assert [info.path for info in store.list()] == ["a/2"]

    def test_objects_may_vanish_while_they_are_listed(self, store: Store) -> None:
        paths = [f"d{number // 4}/{number:02}" for number in range(16)]
        self.put_all(store, paths)
        listing = store.list()
        first = next(listing).path
        for path in paths[1:]:
            store.delete(path)
        assert first == paths[0]
        assert {info.path for info in listing} <= set(paths[1:])

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

    def test_a_swap_from_nothing_creates(self, swapping_store: SwappingStore) -> None:
        assert swapping_store.compare_and_swap("d/latest", None, b"1") is True
        assert swapping_store.get("d/latest") == b"1"

    def test_a_swap_from_nothing_fails_if_there_is_something(self, swapping_store: SwappingStore) -> None:
        swapping_store.put("latest", b"1")
        assert swapping_store.compare_and_swap("latest", None, b"2") is False
        assert swapping_store.get("latest") == b"1"

    def test_a_swap_from_nothing_fails_if_there_is_an_empty_object(
        self, swapping_store: SwappingStore
    ) -> None:
        swapping_store.put("latest", b"")
        assert swapping_store.compare_and_swap("latest", None, b"2") is False
        assert swapping_store.get("latest") == b""

    def test_a_swap_from_what_is_there_replaces(self, swapping_store: SwappingStore) -> None:
        swapping_store.compare_and_swap("latest", None, b"1")
        for number in range(1, 6):
            assert swapping_store.compare_and_swap("latest", b"%d" % number, b"%d" % (number + 1)) is True
        assert swapping_store.get("latest") == b"6"
        assert swapping_store.head("latest").size == 1

    def test_a_swap_of_an_object_that_was_put_replaces(self, swapping_store: SwappingStore) -> None:
        swapping_store.put("latest", b"1")
        assert swapping_store.compare_and_swap("latest", b"1", b"2") is True
        assert swapping_store.get("latest") == b"2"

    def test_a_swap_from_something_else_changes_nothing(self, swapping_store: SwappingStore) -> None:
        swapping_store.put("latest", b"1")
        assert swapping_store.compare_and_swap("latest", b"0", b"2") is False
        assert swapping_store.get("latest") == b"1"

    def test_a_swap_of_what_is_not_there_creates_nothing(self, swapping_store: SwappingStore) -> None:
        assert swapping_store.compare_and_swap("d/latest", b"1", b"2") is False
        assert list(swapping_store.list()) == []

    def test_a_swap_after_deletion_sees_that_there_is_nothing(self, swapping_store: SwappingStore) -> None:
        swapping_store.compare_and_swap("latest", None, b"1")
        swapping_store.delete("latest")
        assert swapping_store.compare_and_swap("latest", b"1", b"2") is False
        assert swapping_store.compare_and_swap("latest", None, b"3") is True
        assert swapping_store.get("latest") == b"3"

    def test_content_that_came_back_can_be_swapped(self, swapping_store: SwappingStore) -> None:
        for expected, replacement in [(None, b"a"), (b"a", b"b"), (b"b", b"a"), (b"a", b"c")]:
            assert swapping_store.compare_and_swap("latest", expected, replacement) is True
        assert swapping_store.get("latest") == b"c"

    def test_swapping_in_the_same_content_succeeds(self, swapping_store: SwappingStore) -> None:
        swapping_store.put("latest", b"1")
        assert swapping_store.compare_and_swap("latest", b"1", b"1") is True
        assert swapping_store.compare_and_swap("latest", b"1", b"2") is True

    def test_white_space_around_the_stored_content_does_not_matter(
        self, swapping_store: SwappingStore
    ) -> None:
        swapping_store.put("latest", b" 1\n")
        assert swapping_store.compare_and_swap("latest", b"1", b"2") is True
        assert swapping_store.get("latest") == b"2"

    def test_a_swapped_object_is_an_object_like_any_other(self, swapping_store: SwappingStore) -> None:
        swapping_store.compare_and_swap("d/latest", None, b"123")
        with pytest.raises(PathExistsError):
            swapping_store.put("d/latest", b"4")
        assert [(info.path, info.size) for info in swapping_store.list()] == [("d/latest", 3)]

    def test_of_many_racing_creations_exactly_one_wins(self, swapping_store: SwappingStore) -> None:
        won = race(
            self.racers, lambda number: swapping_store.compare_and_swap("d/latest", None, b"%d" % number)
        )
        assert won.count(True) == 1
        assert swapping_store.get("d/latest") == b"%d" % won.index(True)

    def test_of_many_racing_swaps_exactly_one_wins(self, swapping_store: SwappingStore) -> None:
        swapping_store.put("latest", b"start")
        won = race(
            self.racers, lambda number: swapping_store.compare_and_swap("latest", b"start", b"%d" % number)
        )
        assert won.count(True) == 1
        assert swapping_store.get("latest") == b"%d" % won.index(True)

    def test_no_increment_is_lost_however_many_race(self, swapping_store: SwappingStore) -> None:
        swapping_store.put("counter", b"0")

        def increment(number: int) -> None:
            pause = random.Random(number)
            for _ in range(self.swaps_each):
                while True:
                    current = swapping_store.get("counter")
                    if swapping_store.compare_and_swap("counter", current, b"%d" % (int(current) + 1)):
                        break
                    time.sleep(pause.uniform(0, 0.02))

        race(self.racers, increment)
        assert swapping_store.get("counter") == b"%d" % (self.racers * self.swaps_each)

    def test_a_reader_of_a_pointer_never_sees_half_of_it(self, swapping_store: SwappingStore) -> None:
        contents = [letter * 2000 for letter in (b"a", b"b")]
        swapping_store.put("latest", contents[0])
        done = threading.Event()

        def run(number: int) -> set[bytes]:
            seen = set()
            if number == 0:
                try:
                    for step in range(self.swaps_each * 2):
                        swapping_store.compare_and_swap("latest", contents[step % 2], contents[1 - step % 2])
                finally:
                    done.set()
            while not done.is_set():
                seen.add(swapping_store.get("latest"))
            return seen

        for seen in race(3, run):
            assert seen <= set(contents)
