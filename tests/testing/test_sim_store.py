"""The store model of the explorer does what every store must do."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from lode.store.protocol import Store, SupportsCompareAndSwap
from lode.testing.actor import run_alone
from lode.testing.sim import BEFORE, SINCE, Contents, Operation, SimSwapStore, perform
from lode.testing.store_suite import StoreSuite

if TYPE_CHECKING:
    from datetime import datetime

    from lode.testing.sim import SwapStore


class Memory:
    """Answers calls one after the other, so that the model can be tested as a store."""

    def __init__(self) -> None:
        self._contents = Contents({})
        self._lock = threading.Lock()

    def answer(self, operation: Operation) -> Any:
        with self._lock:
            self._contents, answer = perform(self._contents, operation)
        return answer.take()


class TestSimSwapStore(StoreSuite):
    @pytest.fixture
    def store(self) -> SimSwapStore:
        return SimSwapStore(Memory().answer)

    @pytest.mark.xfail(raises=AssertionError, strict=True, reason="AssertionError: the model has no clock")
    def test_head_tells_path_size_and_time(self, store: Store) -> None:
        super().test_head_tells_path_size_and_time(store)


def test_what_was_there_at_the_start_is_older_than_what_was_written_since() -> None:
    def actor(store: SwapStore) -> dict[str, datetime]:
        store.put("new", b"")
        store.compare_and_swap("swapped", b"0", b"1")
        return {info.path: info.modified for info in store.list()}

    times = run_alone(actor, {"old": b"", "swapped": b"0"}).value
    assert times == {"new": SINCE, "old": BEFORE, "swapped": SINCE}


def test_a_store_without_compare_and_swap_is_seen_to_lack_it() -> None:
    def can_swap(store: Store) -> bool:
        return isinstance(store, SupportsCompareAndSwap)

    assert run_alone(can_swap, {}).value is True
    assert run_alone(can_swap, {}, swap=False).value is False


def test_equal_contents_are_equal_and_hash_alike_whatever_order_they_were_written_in() -> None:
    one = Contents({}).with_object("a", b"1").with_object("b", b"2")
    other = Contents({}).with_object("b", b"2").with_object("c", b"").with_object("a", b"1").without("c")
    assert one == other
    assert hash(one) == hash(other)
    assert list(other) == ["a", "b"]
