"""Which paths are refused, and that all others survive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.errors import InvalidPathError, PathExistsError
from lode.testing.store_suite.fixtures import StoreTests

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store.protocol import Store
    from lode.testing.sim import SwapStore

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


class PathTests(StoreTests):
    """A path means the same to every call, or is refused by all."""

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
    def test_a_bad_path_is_never_swapped(self, swapping_store: SwapStore, path: str) -> None:
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
    def test_odd_characters_in_a_path_survive_a_swap(self, swapping_store: SwapStore, path: str) -> None:
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
