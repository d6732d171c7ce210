"""A swap whose answer is lost, and a store that then fails to say what became of it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

import lode
from lode.store.memory import MemoryStore
from lode.store.wrappers import Fault, FaultStore, StoreWrapper
from support.stores import SwaplessStore

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


class Beaten(StoreWrapper):
    """Lets a rival commit before one swap of the pointer, which is lost; the n-th call after it fails."""

    def __init__(self, inner: Store, rival: Callable[[], Any], *, fails: int) -> None:
        super().__init__(inner)
        self._rival = rival
        self._fails = fails
        self._calls: int | None = None
        self.armed = False

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if self.armed and method == "compare_and_swap" and path.endswith("latest"):
            self.armed = False
            self._rival()
            self._calls = 0
            return call()
        if self._calls is not None:
            self._calls += 1
            if self._calls == self._fails:
                raise lode.StoreError("no route to the store")
        return call()


@pytest.mark.parametrize("fails", [1, 2])
def test_an_error_after_a_swap_that_was_definitely_lost_is_the_stores_own(fails: int) -> None:
    plain = MemoryStore()
    store = Beaten(plain, lambda: opened(plain).write([{"day": "other"}]), fails=fails)
    dataset = opened(store)
    dataset.write([{"day": "first"}])
    store.armed = True
    transaction = dataset.transaction()
    transaction.stage([{"day": "ours"}])
    with pytest.raises(lode.StoreError, match="no route"):
        transaction.commit()
    assert not transaction.kept
    assert transaction.commit().sequence == 3
    assert lode.verify(opened(plain)).ok


def test_files_of_a_write_that_definitely_did_not_land_are_removed() -> None:
    plain = MemoryStore()
    store = Beaten(plain, lambda: opened(plain).write([{"day": "other"}]), fails=1)
    dataset = opened(store)
    dataset.write([{"day": "first"}])
    store.armed = True
    with pytest.raises(lode.StoreError, match="no route"):
        dataset.write([{"day": "ours"}])
    assert not [entry.path for entry in plain.list() if "day=ours" in entry.path]


def test_an_unknown_and_an_unpublished_commit_name_their_snapshot() -> None:
    plain = MemoryStore()
    store = Late(plain)
    dataset = opened(store)
    dataset.write([{"day": "first"}])
    store.armed = True
    with pytest.raises(lode.CommitUnknownError) as caught:
        dataset.write([{"day": "ours"}])
    error = pickle.loads(pickle.dumps(caught.value))
    store.held[0]()
    opened(plain).settle()
    assert opened(plain).latest().id == error.snapshot_id
    faulty = FaultStore(plain, Fault("put", "*/manifest.json", error=lode.StoreError("full")))
    with pytest.raises(lode.CommitUnpublishedError) as shown:
        opened(faulty).write([{"day": "more"}])
    opened(plain).settle()
    assert opened(plain).latest().id == pickle.loads(pickle.dumps(shown.value)).snapshot_id


def test_a_store_without_swap_whose_answers_are_lost_keeps_what_may_have_landed() -> None:
    class Silent(StoreWrapper):
        """Performs the put of the pointer, says that its answer was lost, and is silent from then on."""

        silent = False

        def around(self, method: str, path: str, call: Callable[[], T]) -> T:
            if self.silent:
                raise lode.StoreError("no route to the store")
            if method == "put" and path.endswith("latest"):
                call()
                self.silent = True
                raise lode.OutcomeUnknownError("the answer was lost")
            return call()

    plain = SwaplessStore()
    with pytest.raises(lode.CommitUnknownError):
        opened(Silent(plain)).write([{"day": "ours"}])
    after = opened(plain)
    after.settle()
    assert len(after.snapshots()) == 1
    assert lode.verify(after).ok
