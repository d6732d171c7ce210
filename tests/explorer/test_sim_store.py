"""The store model of the explorer does what every store must do."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lode.testing.sim import EPOCH, Contents, Operation, SimStore, SimSwapStore, perform
from lode.testing.store_suite import StoreSuite


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


class TestSimStore(StoreSuite):
    can_swap = False

    @pytest.fixture
    def store(self) -> SimStore:
        return SimStore(Memory().answer)
