"""The wrappers are stores, and do what they are for."""

from __future__ import annotations

import pytest

from lode.errors import NotFoundError, OutcomeUnknownError, StoreError
from lode.store import (
    CountingStore,
    Fault,
    FaultStore,
    LatencyStore,
    MemoryStore,
    SimulatedCrash,
    Store,
    SupportsCompareAndSwap,
)
from lode.testing.store_suite import StoreSuite


class TestCountingStore(StoreSuite):
    @pytest.fixture
    def store(self) -> Store:
        return CountingStore(MemoryStore())


class TestFaultStore(StoreSuite):
    @pytest.fixture
    def store(self) -> Store:
        return FaultStore(MemoryStore(), Fault("put", path="never/*"))


class TestLatencyStore(StoreSuite):
    @pytest.fixture
    def store(self) -> Store:
        return LatencyStore(MemoryStore(), 0.0)


class TestWrappersInWrappers(StoreSuite):
    @pytest.fixture
    def store(self) -> Store:
        return CountingStore(FaultStore(LatencyStore(MemoryStore(), 0.0)))


class TestStoreThatCannotSwap(StoreSuite):
    can_swap = False

    @pytest.fixture
    def store(self) -> Store:
        return CountingStore(WithoutSwap())


class WithoutSwap:
    """A store that cannot swap."""

    def __init__(self) -> None:
        inner = MemoryStore()
        self.url = inner.url
        self.put, self.get, self.get_range = inner.put, inner.get, inner.get_range
        self.exists, self.head, self.list = inner.exists, inner.head, inner.list
        self.delete, self.open_reader, self.open_writer = inner.delete, inner.open_reader, inner.open_writer


@pytest.mark.parametrize("wrap", [CountingStore, FaultStore, lambda inner: LatencyStore(inner, 0.0)])
def test_a_wrapper_can_swap_exactly_if_the_store_inside_can(wrap: type[CountingStore]) -> None:
    assert isinstance(wrap(MemoryStore()), SupportsCompareAndSwap)
    assert not isinstance(wrap(WithoutSwap()), SupportsCompareAndSwap)
    assert isinstance(wrap(WithoutSwap()), Store)


def test_calls_are_counted_by_method_and_noted_in_order() -> None:
    store = CountingStore(MemoryStore())
    store.put("a", b"123")
    store.get("a")
    store.get_range("a", 1, 1)
    list(store.list("a"))
    store.compare_and_swap("p", None, b"12")
    with pytest.raises(NotFoundError):
        store.get("b")
    assert store.counts == {"put": 1, "get": 2, "get_range": 1, "list": 1, "compare_and_swap": 1}
    assert store.total == 6
    assert store.events == [
        ("put", "a"),
        ("get", "a"),
        ("get_range", "a"),
        ("list", "a"),
        ("compare_and_swap", "p"),
        ("get", "b"),
    ]
    assert (store.bytes_in, store.bytes_out) == (5, 4)


def test_readers_and_writers_count_too() -> None:
    store = CountingStore(MemoryStore())
    with store.open_writer("a") as writer:
        writer.write(b"123")
        writer.write(b"456")
        writer.commit()
    with store.open_reader("a") as reader:
        reader.read_at(0, 4)
    with store.open_writer("b") as writer:
        writer.write(b"7")
    assert [method for method, _ in store.events] == [
        "open_writer",
        "commit",
        "open_reader",
        "read_at",
        "open_writer",
        "abort",
    ]
    assert (store.bytes_in, store.bytes_out) == (7, 4)


def test_reset_starts_from_nothing() -> None:
    store = CountingStore(MemoryStore())
    store.put("a", b"1")
    store.reset()
    assert (store.total, store.events, store.bytes_in) == (0, [], 0)


def test_a_fault_before_a_call_keeps_it_from_the_store() -> None:
    store = FaultStore(MemoryStore(), Fault("put", error=StoreError("disk on fire")))
    with pytest.raises(StoreError, match="on fire"):
        store.put("a", b"1")
    assert not store.exists("a")
    store.put("a", b"2")


def test_a_fault_after_a_call_loses_only_the_answer() -> None:
    store = FaultStore(MemoryStore(), Fault("compare_and_swap", when="after", error=OutcomeUnknownError))
    with pytest.raises(OutcomeUnknownError):
        store.compare_and_swap("p", None, b"1")
    assert store.get("p") == b"1"


def test_a_fault_strikes_the_nth_match_and_as_often_as_told() -> None:
    fault = Fault("put", path="d/*", nth=2, times=2, error=StoreError)
    store = FaultStore(MemoryStore(), fault)
    store.put("other", b"")
    failed = []
    for number in range(5):
        try:
            store.put(f"d/{number}", b"")
        except StoreError:
            failed.append(number)
    assert failed == [1, 2]


def test_a_fault_may_choose_paths_by_a_predicate_and_any_method() -> None:
    store = FaultStore(MemoryStore(), Fault(path=lambda path: "x" in path, times=None, error=StoreError))
    store.put("a", b"")
    for call in (store.get, store.exists, store.head, store.delete, store.open_writer):
        with pytest.raises(StoreError):
            call("x")


def test_writers_and_readers_fail_too() -> None:
    store = FaultStore(MemoryStore())
    store.put("a", b"1")
    store.add(Fault("write", nth=2, error=StoreError))
    store.add(Fault("read_at", error=StoreError))
    with store.open_writer("b") as writer:
        writer.write(b"1")
        with pytest.raises(StoreError):
            writer.write(b"2")
    with store.open_reader("a") as reader, pytest.raises(StoreError):
        reader.read_at(0, 1)
    assert not store.exists("b")


def test_after_a_crash_nothing_reaches_the_store() -> None:
    inner = MemoryStore()
    store = FaultStore(inner, Fault("put", path="b", when="after"))
    store.put("a", b"1")
    with pytest.raises(SimulatedCrash):
        store.put("b", b"2")
    for call in (lambda: store.delete("a"), lambda: store.put("c", b"3"), lambda: list(store.list())):
        with pytest.raises(SimulatedCrash):
            call()
    assert store.crashed
    assert [info.path for info in inner.list()] == ["a", "b"]


def test_no_handler_of_errors_catches_a_crash() -> None:
    assert not issubclass(SimulatedCrash, Exception)


def test_every_call_sleeps_first() -> None:
    slept: list[float] = []
    store = LatencyStore(MemoryStore(), 0.25, sleep=slept.append)
    store.put("a", b"1")
    store.get("a")
    assert slept == [0.25, 0.25]


def test_latency_may_depend_on_the_call() -> None:
    slept: list[float] = []
    store = LatencyStore(
        MemoryStore(), lambda method, path: 1.0 if (method, path) == ("get", "a") else 0.0, sleep=slept.append
    )
    store.put("a", b"1")
    store.get("a")
    assert slept == [0.0, 1.0]
