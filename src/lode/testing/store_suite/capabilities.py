"""What a store may have besides: links, volatile puts, queues, temporary files.

Each capability has tests of its own, to be mixed into the suite of a store that has it. The suite itself has
one test that fails if a store has a capability whose tests are not mixed in, or the other way round.
"""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Final

import pytest

from lode.errors import InvalidPathError, NotFoundError, PathExistsError, UsageError
from lode.store.protocol import (
    Store,
    SupportsBoundedGet,
    SupportsCompareAndSwap,
    SupportsDurability,
    SupportsLink,
    SupportsLocalPath,
    SupportsNearby,
    SupportsQueue,
    SupportsTemporaries,
    SupportsVolatilePut,
)
from lode.testing.store_suite.fixtures import StoreTests
from lode.testing.store_suite.paths import BAD_PATHS
from lode.testing.store_suite.threads import race

if TYPE_CHECKING:
    from collections.abc import Callable


class LinkTests(StoreTests):
    """A link gives an object a second path."""

    def test_a_link_is_the_same_object_under_a_second_path(self, store: Store) -> None:
        assert isinstance(store, SupportsLink)
        store.put("a/source", b"content")
        store.put("b/first", b"")
        store.link("a/source", "b/copy")
        assert store.get("b/copy") == b"content"
        assert [info.path for info in store.list()] == ["a/source", "b/copy", "b/first"]
        store.delete("a/source")
        assert store.get("b/copy") == b"content"

    def test_a_link_stays_as_it_is_when_its_source_is_swapped(self, store: Store) -> None:
        assert isinstance(store, SupportsLink)
        assert isinstance(store, SupportsCompareAndSwap)
        store.put("source", b"before")
        store.link("source", "copy")
        assert store.compare_and_swap("source", b"before", b"after")
        assert store.get("copy") == b"before"

    def test_a_link_never_replaces(self, store: Store) -> None:
        assert isinstance(store, SupportsLink)
        store.put("source", b"new")
        store.put("taken", b"old")
        with pytest.raises(PathExistsError, match="taken"):
            store.link("source", "taken")
        assert store.get("taken") == b"old"

    def test_a_link_to_what_is_not_there_is_not_found(self, store: Store) -> None:
        assert isinstance(store, SupportsLink)
        with pytest.raises(NotFoundError):
            store.link("nothing", "copy")
        assert not store.exists("copy")

    def test_of_many_racing_links_exactly_one_wins(self, store: Store) -> None:
        assert isinstance(store, SupportsLink)
        link = store.link
        for number in range(self.racers):
            store.put(f"source-{number}", b"%d" % number)
        won = race(self.racers, lambda number: _created(lambda: link(f"source-{number}", "contested")))
        assert won.count(True) == 1
        assert store.get("contested") == b"%d" % won.index(True)

    @pytest.mark.parametrize("path", BAD_PATHS)
    def test_a_link_from_or_to_a_bad_path_is_refused(self, store: Store, path: str) -> None:
        assert isinstance(store, SupportsLink)
        store.put("x", b"1")
        for source, target in ((path, "y"), ("x", path)):
            with pytest.raises(InvalidPathError):
                store.link(source, target)


class VolatilePutTests(StoreTests):
    """A volatile put differs from a put only after a power cut."""

    def test_what_is_put_volatile_is_got_and_listed(self, store: Store) -> None:
        assert isinstance(store, SupportsVolatilePut)
        store.put_volatile("new/x", bytearray(b"1"))
        assert store.get("new/x") == b"1"
        assert [info.path for info in store.list()] == ["new/x"]

    def test_a_volatile_put_never_replaces_and_is_not_replaced(self, store: Store) -> None:
        assert isinstance(store, SupportsVolatilePut)
        store.put_volatile("x", b"1")
        with pytest.raises(PathExistsError, match="x"):
            store.put_volatile("x", b"2")
        with pytest.raises(PathExistsError, match="x"):
            store.put("x", b"3")
        assert store.get("x") == b"1"

    def test_of_many_racing_volatile_puts_exactly_one_wins(self, store: Store) -> None:
        assert isinstance(store, SupportsVolatilePut)
        put = store.put_volatile
        won = race(self.racers, lambda number: _created(lambda: put("d/contested", b"%d" % number)))
        assert won.count(True) == 1
        assert store.get("d/contested") == b"%d" % won.index(True)

    def test_what_was_put_volatile_can_be_swapped(self, store: Store) -> None:
        assert isinstance(store, SupportsVolatilePut)
        assert isinstance(store, SupportsCompareAndSwap)
        store.put_volatile("x", b"1")
        assert store.compare_and_swap("x", b"1", b"2")
        assert store.get("x") == b"2"

    @pytest.mark.parametrize("path", BAD_PATHS)
    def test_a_volatile_put_to_a_bad_path_is_refused(self, store: Store, path: str) -> None:
        assert isinstance(store, SupportsVolatilePut)
        with pytest.raises(InvalidPathError):
            store.put_volatile(path, b"1")


class QueueTests(StoreTests):
    """A queue lets one in at a time, and ends every wait."""

    def test_a_queue_lets_one_in_at_a_time(self, store: Store) -> None:
        assert isinstance(store, SupportsQueue)
        queue = store.queue
        store.put("d/latest", b"1")
        inside = threading.Semaphore(1)

        def enter(_: int) -> bool:
            with queue("d/latest", 60.0, 0.001):
                alone = inside.acquire(blocking=False)
                if alone:
                    inside.release()
                return alone

        assert all(race(self.racers, enter))

    def test_a_queue_lets_in_whoever_has_waited_long_enough(self, store: Store) -> None:
        assert isinstance(store, SupportsQueue)
        store.put("d/latest", b"1")
        with store.queue("d/latest", 1.0, 0.001), store.queue("d/latest", 0.01, 0.001):
            assert [info.path for info in store.list()] == ["d/latest"]

    def test_a_queue_at_nothing_lets_everybody_in(self, store: Store) -> None:
        assert isinstance(store, SupportsQueue)
        with store.queue("no/such", 1.0, 0.001), store.queue("no/such", 0.01, 0.001):
            assert list(store.list()) == []


class TemporaryTests(StoreTests):
    """What dead writers left is found; nothing of a living one is, and no object."""

    def test_a_store_at_rest_has_no_temporary_files(self, store: Store) -> None:
        assert isinstance(store, SupportsTemporaries)
        store.put("d/x", b"1")
        with store.open_writer("d/y") as writer:
            writer.write(b"2")
            writer.commit()
        assert list(store.temporaries()) == []

    def test_what_a_living_writer_writes_is_no_leftover(self, store: Store) -> None:
        assert isinstance(store, SupportsTemporaries)
        with store.open_writer("d/x") as writer:
            writer.write(bytes(self.large))
            assert list(store.temporaries()) == []
            assert list(store.temporaries("d/")) == []
            writer.commit()
        assert store.head("d/x").size == self.large

    @pytest.mark.parametrize("path", ["d/x", "d", "no/such", *BAD_PATHS])
    def test_only_temporary_files_can_be_deleted_as_such(self, store: Store, path: str) -> None:
        assert isinstance(store, SupportsTemporaries)
        store.put("d/x", b"1")
        with pytest.raises(InvalidPathError):
            store.delete_temporary(path)
        assert store.get("d/x") == b"1"


TESTS_OF: Final[dict[type, type[StoreTests]]] = {
    SupportsLink: LinkTests,
    SupportsVolatilePut: VolatilePutTests,
    SupportsQueue: QueueTests,
    SupportsTemporaries: TemporaryTests,
}
"""Which tests to mix in for which capability."""

_TESTED_HERE: Final = (
    SupportsCompareAndSwap,
    SupportsNearby,
    SupportsLocalPath,
    SupportsBoundedGet,
    SupportsDurability,
)


class CapabilityTests(StoreTests):
    """Whatever a store says that it can do is tested."""

    def test_the_tests_mixed_in_are_those_of_the_capabilities_that_the_store_has(self, store: Store) -> None:
        has = [capability.__name__ for capability in TESTS_OF if isinstance(store, capability)]
        tested = [capability.__name__ for capability, tests in TESTS_OF.items() if isinstance(self, tests)]
        assert has == tested, "mix the tests of lode.testing.store_suite.TESTS_OF into your subclass"

    def test_a_store_that_knows_its_distance_tells_it(self, store: Store) -> None:
        assert not isinstance(store, SupportsNearby) or isinstance(store.nearby, bool)

    def test_a_local_path_is_the_file_of_an_object(self, store: Store) -> None:
        if isinstance(store, SupportsLocalPath):
            store.put("d/x", b"1")
            assert store.local_path("d/x").read_bytes() == b"1"
            assert store.local_path("d/x") == store.root / "d/x"

    def test_a_bounded_get_reads_no_larger_object(self, store: Store) -> None:
        if isinstance(store, SupportsBoundedGet):
            store.put("d/x", b"123")
            assert store.get_bounded("d/x", 3) == (b"123", 3)
            assert store.get_bounded("d/x", 2) == (b"", 3)
            with pytest.raises(NotFoundError):
                store.get_bounded("no/such", 3)

    def test_a_store_pickles_with_its_capabilities_or_says_why_it_does_not(self, store: Store) -> None:
        store.put("d/x", b"1")
        again = _pickled(store)
        if isinstance(again, UsageError):
            assert store.url in str(again)
            return
        assert isinstance(again, Store)
        assert again.get("d/x") == b"1"
        for capability in (*_TESTED_HERE, *TESTS_OF):
            assert isinstance(again, capability) is isinstance(store, capability)


def _pickled(store: Store) -> object:
    """Return the store that another process would get, or the reason why it gets none."""
    try:
        return pickle.loads(pickle.dumps(store))
    except UsageError as error:
        return error


def _created(call: Callable[[], object]) -> bool:
    try:
        call()
    except PathExistsError:
        return False
    return True
