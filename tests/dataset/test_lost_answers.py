"""A swap whose answer is lost, and a store that then fails to say what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest

import lode
from lode.store.memory import MemoryStore
from lode.store.wrappers import StoreWrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store.protocol import Store

T = TypeVar("T")


def opened(store: Store, retry: int = 0) -> lode.Dataset:
    return lode.Dataset(
        "visits",
        store,
        codec=lode.JSONL(),
        layout=lode.HiveLayout("day"),
        checksum="sha256",
        retry=lode.Retry(retry, base_delay=0),
    )


class Forgetful(StoreWrapper):
    """Loses the answer to one swap of the pointer, lets a rival build on it, then fails the n-th call."""

    def __init__(self, inner: Store, rival: Callable[[], Any], *, fails: int, error: lode.LodeError) -> None:
        super().__init__(inner)
        self._rival = rival
        self._error = error
        self._fails = fails
        self._calls: int | None = None
        self.armed = False

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if self.armed and method == "compare_and_swap" and path.endswith("latest"):
            self.armed = False
            call()
            self._rival()
            self._calls = 0
            raise lode.OutcomeUnknownError("the answer was lost")
        if self._calls is not None:
            self._calls += 1
            if self._calls == self._fails:
                raise self._error
        return call()


@pytest.mark.parametrize("fails", range(1, 12))
@pytest.mark.parametrize("day", ["other", "ours"])
@pytest.mark.parametrize("error", [lode.StoreError("timed out"), lode.ManifestInvalidError("garbled")])
def test_files_that_may_be_part_of_history_are_never_removed(
    fails: int, day: str, error: lode.LodeError
) -> None:
    plain = MemoryStore()
    store = Forgetful(plain, lambda: opened(plain).write([{"day": day}]), fails=fails, error=error)
    dataset = opened(store, retry=2)
    dataset.write([{"day": "first"}])
    store.armed = True
    assert _landed(lambda: dataset.write([{"day": "ours"}])) is not False
    after = opened(plain)
    after.settle()
    assert len(after.snapshots()) == 3
    assert lode.verify(after).ok


def _landed(write: Callable[[], Any]) -> bool | None:
    """What the caller is told about its write."""
    try:
        write()
    except lode.CommitError as failed:
        return failed.landed
    return True


class Late(StoreWrapper):
    """Answers the first swap as lost and performs it only when asked to; the second one fails."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.held: list[Callable[[], Any]] = []
        self.armed = False

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if self.armed and method == "compare_and_swap" and path.endswith("latest"):
            if self.held:
                raise lode.StoreError("no route to the store")
            self.held.append(call)
            raise lode.OutcomeUnknownError("the answer was lost")
        return call()


def test_a_second_swap_that_fails_does_not_unsay_the_first() -> None:
    plain = MemoryStore()
    store = Late(plain)
    dataset = opened(store)
    dataset.write([{"day": "first"}])
    store.armed = True
    with pytest.raises(lode.CommitUnknownError):
        dataset.write([{"day": "ours"}])
    store.held[0]()
    after = opened(plain)
    after.settle()
    assert len(after.snapshots()) == 2
    assert lode.verify(after).ok
