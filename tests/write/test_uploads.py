"""Far from the store, the small files of a write are uploaded beside its intent."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

import pytest

import lode
from lode.errors import NoSnapshotsError, PathExistsError, StoreError
from lode.store.memory import MemoryStore
from lode.store.wrappers import StoreWrapper
from lode.write import uploads
from lode.write.file import put_file
from lode.write.uploads import HeldUploads

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class FarStore(StoreWrapper):
    """A store far away that calls ``before`` before each request."""

    nearby = False

    def __init__(self, before: Callable[[str, str], None] = lambda _method, _path: None) -> None:
        super().__init__(MemoryStore())
        self.before = before

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        self.before(method, path)
        return call()


def test_a_small_file_and_its_intent_are_put_at_the_same_time() -> None:
    both = threading.Barrier(2)

    def meet(method: str, path: str) -> None:
        if method == "put" and ("/data/" in path or path.endswith("intent.json")):
            both.wait(60)  # raises if the other one has not begun

    store = FarStore()
    ds = lode.Dataset("d", store, codec="jsonl")
    ds.write([{"n": 1}])
    store.before = meet
    ds.write([{"n": 2}])
    assert ds.count() == 2


def test_a_write_whose_file_cannot_be_uploaded_sends_no_swap() -> None:
    swaps = []

    def fail(method: str, path: str) -> None:
        if method == "put" and "/data/" in path:
            raise StoreError("no room")
        if method == "compare_and_swap":
            swaps.append(path)

    ds = lode.Dataset("d", FarStore(fail), codec="jsonl")
    with pytest.raises(StoreError, match="no room"):
        ds.write([{"n": 1}])
    assert not swaps
    with pytest.raises(NoSnapshotsError):
        ds.latest()


def test_a_second_commit_uploads_what_the_first_one_could_not() -> None:
    fails = [True]

    def fail_once(method: str, path: str) -> None:
        if method == "put" and "/data/" in path and fails:
            fails.pop()
            raise StoreError("no room")

    ds = lode.Dataset("d", FarStore(fail_once), codec="jsonl")
    with ds.transaction() as transaction:
        transaction._stage_whole([{"n": 1}])
        with pytest.raises(StoreError):
            transaction.commit()
        transaction.commit()
    assert ds.read(ds.latest()) == [{"n": 1}]


def test_two_files_of_one_name_are_refused_while_they_are_held() -> None:
    ds = lode.Dataset("d", FarStore(), codec="jsonl")
    with ds.transaction() as transaction:
        transaction._stage_whole([{"n": 1}])
        with pytest.raises(PathExistsError):
            transaction._stage_whole([{"n": 2}])


def test_an_aborted_write_leaves_nothing_on_the_store() -> None:
    store = FarStore()
    ds = lode.Dataset("d", store, codec="jsonl")
    with ds.transaction() as transaction:
        transaction._stage_whole([{"n": 1}])
    assert not list(store.list())


def test_files_that_are_large_together_are_uploaded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_HELD_UPLOAD_BYTES", 10)
    inner = MemoryStore()
    held = HeldUploads(inner)
    held.put("a", b"123456")
    held.put("b", b"123456")
    assert not inner.exists("a")
    assert inner.exists("b")
    for upload in held.pending():
        upload()
    assert inner.get("a") == b"123456"
    assert not held.pending()


class Doubling(StoreWrapper):
    """A store far away, behind a network that delivers every put twice and passes on the second answer."""

    nearby = False

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if method == "put":
            call()
        return call()


def test_a_write_whose_puts_are_delivered_twice_lands_once() -> None:
    dataset = lode.Dataset("events", Doubling(MemoryStore()))
    for number in range(3):
        dataset.write(str(number).encode())
    assert [dataset.read(snapshot) for snapshot in dataset.snapshots()] == [b"0", b"1", b"2"]
    assert lode.verify(dataset).ok


def test_the_file_of_another_writer_in_the_place_of_ours_is_still_refused() -> None:
    store = MemoryStore()
    for other in (b"theirs", b"ours and more", b""):
        store.put(f"x{len(other)}", other)
        with pytest.raises(PathExistsError):
            put_file(store, f"x{len(other)}", b"ours")
        assert store.get(f"x{len(other)}") == other
