"""Compare-and-swap, alone and in races."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

import pytest

from lode.errors import PathExistsError
from lode.testing.store_suite.fixtures import StoreTests
from lode.testing.store_suite.threads import race

if TYPE_CHECKING:
    from lode.testing.sim import SwapStore


class SwappingTests(StoreTests):
    """A swap replaces what was expected, or nothing; of many that race one wins."""

    def test_a_swap_from_nothing_creates(self, swapping_store: SwapStore) -> None:
        assert swapping_store.compare_and_swap("d/latest", None, b"1") is True
        assert swapping_store.get("d/latest") == b"1"

    def test_a_swap_from_nothing_fails_if_there_is_something(self, swapping_store: SwapStore) -> None:
        swapping_store.put("latest", b"1")
        assert swapping_store.compare_and_swap("latest", None, b"2") is False
        assert swapping_store.get("latest") == b"1"

    def test_a_swap_from_nothing_fails_if_there_is_an_empty_object(self, swapping_store: SwapStore) -> None:
        swapping_store.put("latest", b"")
        assert swapping_store.compare_and_swap("latest", None, b"2") is False
        assert swapping_store.get("latest") == b""

    def test_a_swap_from_what_is_there_replaces(self, swapping_store: SwapStore) -> None:
        swapping_store.compare_and_swap("latest", None, b"1")
        for number in range(1, 6):
            assert swapping_store.compare_and_swap("latest", b"%d" % number, b"%d" % (number + 1)) is True
        assert swapping_store.get("latest") == b"6"
        assert swapping_store.head("latest").size == 1

    def test_a_swap_of_an_object_that_was_put_replaces(self, swapping_store: SwapStore) -> None:
        swapping_store.put("latest", b"1")
        assert swapping_store.compare_and_swap("latest", b"1", b"2") is True
        assert swapping_store.get("latest") == b"2"

    def test_a_swap_from_something_else_changes_nothing(self, swapping_store: SwapStore) -> None:
        swapping_store.put("latest", b"1")
        assert swapping_store.compare_and_swap("latest", b"0", b"2") is False
        assert swapping_store.get("latest") == b"1"

    def test_a_swap_of_what_is_not_there_creates_nothing(self, swapping_store: SwapStore) -> None:
        assert swapping_store.compare_and_swap("d/latest", b"1", b"2") is False
        assert list(swapping_store.list()) == []

    def test_a_swap_after_deletion_sees_that_there_is_nothing(self, swapping_store: SwapStore) -> None:
        swapping_store.compare_and_swap("latest", None, b"1")
        swapping_store.delete("latest")
        assert swapping_store.compare_and_swap("latest", b"1", b"2") is False
        assert swapping_store.compare_and_swap("latest", None, b"3") is True
        assert swapping_store.get("latest") == b"3"

    def test_content_that_came_back_can_be_swapped(self, swapping_store: SwapStore) -> None:
        for expected, replacement in [(None, b"a"), (b"a", b"b"), (b"b", b"a"), (b"a", b"c")]:
            assert swapping_store.compare_and_swap("latest", expected, replacement) is True
        assert swapping_store.get("latest") == b"c"

    def test_swapping_in_the_same_content_succeeds(self, swapping_store: SwapStore) -> None:
        swapping_store.put("latest", b"1")
        assert swapping_store.compare_and_swap("latest", b"1", b"1") is True
        assert swapping_store.compare_and_swap("latest", b"1", b"2") is True

    def test_white_space_around_the_stored_content_does_not_matter(self, swapping_store: SwapStore) -> None:
        swapping_store.put("latest", b" 1\n")
        assert swapping_store.compare_and_swap("latest", b"1", b"2") is True
        assert swapping_store.get("latest") == b"2"

    def test_a_swapped_object_is_an_object_like_any_other(self, swapping_store: SwapStore) -> None:
        swapping_store.compare_and_swap("d/latest", None, b"123")
        with pytest.raises(PathExistsError):
            swapping_store.put("d/latest", b"4")
        assert [(info.path, info.size) for info in swapping_store.list()] == [("d/latest", 3)]

    def test_of_many_racing_creations_exactly_one_wins(self, swapping_store: SwapStore) -> None:
        won = race(
            self.racers, lambda number: swapping_store.compare_and_swap("d/latest", None, b"%d" % number)
        )
        assert won.count(True) == 1
        assert swapping_store.get("d/latest") == b"%d" % won.index(True)

    def test_of_many_racing_swaps_exactly_one_wins(self, swapping_store: SwapStore) -> None:
        swapping_store.put("latest", b"start")
        won = race(
            self.racers, lambda number: swapping_store.compare_and_swap("latest", b"start", b"%d" % number)
        )
        assert won.count(True) == 1
        assert swapping_store.get("latest") == b"%d" % won.index(True)

    def test_no_increment_is_lost_however_many_race(self, swapping_store: SwapStore) -> None:
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

    def test_a_reader_of_a_pointer_never_sees_half_of_it(self, swapping_store: SwapStore) -> None:
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
