"""The store in memory."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from lode.errors import UsageError
from lode.store import MemoryStore, open_store
from lode.testing.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


def test_the_injected_clock_dates_objects() -> None:
    ticks = iter([1_000_000_000, 2_500_000_999])
    store = MemoryStore(now_ns=lambda: next(ticks))
    store.put("a", b"")
    store.compare_and_swap("a", b"", b"1")
    assert store.head("a").modified == datetime(1970, 1, 1, 0, 0, 2, 500_000, tzinfo=UTC)


def test_one_name_opens_one_store_per_process() -> None:
    open_store("memory://test-one-name").put("a", b"1")
    assert open_store("memory://test-one-name").get("a") == b"1"
    assert not open_store("memory://test-another-name").exists("a")


def test_no_name_opens_a_new_store_each_time() -> None:
    open_store("memory://").put("a", b"1")
    assert not open_store("memory://").exists("a")


def test_a_listing_goes_on_over_many_pages() -> None:
    store = MemoryStore()
    paths = [f"p/{number:05}" for number in range(2500)]
    for path in reversed(paths):
        store.put(path, b"")
    assert [info.path for info in store.list("p/", after="p/00001")] == paths[2:]


def test_a_shared_store_is_reopened_by_its_name() -> None:
    store = MemoryStore.shared("test-pickled")
    assert pickle.loads(pickle.dumps(store)) is store


def test_a_store_that_no_name_opens_says_why_it_cannot_be_pickled() -> None:
    MemoryStore.shared("m")
    with pytest.raises(UsageError, match="memory://m lives in this process"):
        pickle.dumps(MemoryStore("m"))


def test_a_shared_store_is_not_reopened_empty_in_another_process() -> None:
    pickled = pickle.dumps(MemoryStore.shared("test-elsewhere"))
    program = "import pickle, sys; pickle.loads(sys.stdin.buffer.read())"
    answer = subprocess.run([sys.executable, "-c", program], input=pickled, capture_output=True, check=False)
    assert b"lives in process" in answer.stderr
