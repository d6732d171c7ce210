"""Listing by prefix and from a path on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.testing.store_suite.fixtures import StoreTests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.store.protocol import Store


class ListingTests(StoreTests):
    """A listing has the objects there are, in the order of their paths."""

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
