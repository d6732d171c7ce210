"""A store that blocks calls until a test lets them succeed or fail."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from lode.errors import StoreError
from lode.store.wrappers import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store.protocol import Store

T = TypeVar("T")


class GateStore(StoreWrapper):
    """Between ``shut`` and ``let_go`` or ``let_fail``, calls that write data block."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._opened = threading.Event()
        self._opened.set()
        self._fails = False
        self.arrived = threading.Event()

    def shut(self) -> None:
        self.arrived.clear()
        self._fails = False
        self._opened.clear()

    def let_go(self) -> None:
        self._opened.set()

    def let_fail(self) -> None:
        """Let blocked calls fail; later calls do not."""
        self._fails = True
        self._opened.set()

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if method in ("put", "commit", "compare_and_swap") and not self._opened.is_set():
            self.arrived.set()
            self._opened.wait()
            if self._fails:
                raise StoreError(f"{method} of {path} failed, as the test wants")
        return call()
