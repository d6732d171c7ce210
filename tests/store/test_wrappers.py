"""The wrappers are stores, and do what they are for."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lode
from lode.errors import NotFoundError, OutcomeUnknownError, StoreError
from lode.ingest.settings import Settings
from lode.read.filesystem import arrow_filesystem
from lode.store import (
    CountingStore,
    Fault,
    FaultStore,
    LatencyStore,
    LocalStore,
    MemoryStore,
    SimulatedCrash,
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
from lode.store.protocol import is_nearby
from lode.testing.store_suite import LinkTests, QueueTests, StoreSuite, TemporaryTests, VolatilePutTests
from lode.ui.health import health

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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


class TestWrappedDisk(StoreSuite, LinkTests, VolatilePutTests, QueueTests, TemporaryTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return CountingStore(FaultStore(LatencyStore(LocalStore(tmp_path, durable=False), 0.0)))


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


def latent(inner: Store) -> LatencyStore:
    return LatencyStore(inner, 0.0)


WRAPPERS = [CountingStore, FaultStore, latent]
CAPABILITIES = [
    SupportsBoundedGet,
    SupportsCompareAndSwap,
    SupportsDurability,
    SupportsLink,
    SupportsLocalPath,
    SupportsNearby,
    SupportsQueue,
    SupportsTemporaries,
    SupportsVolatilePut,
]


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_wrapper_has_exactly_the_capabilities_of_the_store_inside(
    wrap: Callable[[Store], Store], capability: type, tmp_path: Path
) -> None:
    for inner in (LocalStore(tmp_path), MemoryStore(), WithoutSwap()):
        expected = isinstance(inner, capability)
        if wrap is latent:  # it stands for a distant store
            expected = capability is SupportsNearby or (expected and capability is not SupportsLocalPath)
        assert isinstance(wrap(inner), capability) is expected
        assert isinstance(wrap(inner), Store)


def test_a_wrapper_is_nearby_if_the_store_inside_is_and_a_slow_one_never() -> None:
    for inner in (MemoryStore(), LocalStore("/nowhere")):
        assert is_nearby(inner)
        assert is_nearby(CountingStore(FaultStore(inner)))
        assert not is_nearby(latent(inner))
        assert not is_nearby(CountingStore(latent(inner)))
    assert not is_nearby(CountingStore(WithoutSwap()))


def nested(inner: Store) -> Store:
    return CountingStore(FaultStore(inner))


@pytest.mark.parametrize("wrap", [CountingStore, FaultStore, nested])
def test_a_wrapped_directory_is_read_like_it(wrap: Callable[[Store], Store], tmp_path: Path) -> None:
    bare = LocalStore(tmp_path, durable=False)
    wrapped = wrap(bare)
    dataset = lode.Dataset("events", wrapped, codec="parquet")
    snapshot = dataset.write(pa.table({"n": [1, 2, 3]}))
    assert dataset.plan().locations == lode.Dataset("events", bare).plan().locations
    assert dataset.plan().locations[0].startswith(str(tmp_path))
    opened = arrow_filesystem(wrapped).handler.open_input_file(snapshot.files[0].path)
    assert not isinstance(opened, pa.PythonFile)  # pyarrow reads it without Python
    assert dataset.scan().read_all().num_rows == 3
    assert pq.read_table(dataset.plan().locations[0]).num_rows == 3
    assert Settings(root=str(tmp_path)).state_directory(wrapped) == tmp_path / "ingest-state"
    check = {"check": "Writes survive a power failure", "ok": False, "detail": "opened with durable=false"}
    assert check in health(wrapped, None)["checks"]
    (damaged,) = (tmp_path / file.path for file in snapshot.files)
    damaged.write_bytes(b"short")
    with pytest.raises(lode.InvalidFormatError, match="its manifest says"):
        dataset.scan().read_all()


def test_a_limit_holds_through_a_wrapper(tmp_path: Path) -> None:
    store = CountingStore(LocalStore(tmp_path))
    store.put("a", b"123")
    assert store.get_bounded("a", 3) == (b"123", 3)
    assert store.get_bounded("a", 2) == (b"", 3)
    assert (store.counts["get"], store.bytes_out) == (2, 3)


def test_a_slow_store_has_no_local_paths_so_that_every_read_is_slow(tmp_path: Path) -> None:
    wrappers = latent(LocalStore(tmp_path)), CountingStore(latent(LocalStore(tmp_path)))
    for number, wrapper in enumerate(wrappers):
        assert not hasattr(wrapper, "local_path")
        wrapper.put(f"{number}", b"x")
        assert isinstance(arrow_filesystem(wrapper).handler.open_input_file(f"{number}"), pa.PythonFile)


def test_capabilities_are_calls_like_any_other(tmp_path: Path) -> None:
    store = CountingStore(LocalStore(tmp_path, durable=False))
    store.put_volatile("a", b"123")
    store.link("a", "b")
    with store.queue("a", 1.0, 0.1):
        pass
    list(store.temporaries("d/"))
    store.delete_temporary(".lode-1.tmp")
    assert store.events == [
        ("put_volatile", "a"),
        ("link", "b"),
        ("queue", "a"),
        ("temporaries", "d/"),
        ("delete_temporary", ".lode-1.tmp"),
    ]
    assert store.bytes_in == 3
    failing = FaultStore(LocalStore(tmp_path), Fault(times=None, error=StoreError("disk on fire")))
    for call in (
        lambda: failing.put_volatile("c", b""),
        lambda: failing.link("a", "c"),
        lambda: failing.queue("a", 1.0, 0.1),
        lambda: failing.temporaries(),
        lambda: failing.delete_temporary(".lode-1.tmp"),
    ):
        with pytest.raises(StoreError, match="on fire"):
            call()


def test_wrappers_pickle_with_what_they_know(tmp_path: Path) -> None:
    counting = CountingStore(FaultStore(latent(LocalStore(tmp_path)), Fault("get", error=StoreError)))
    counting.put("a", b"1")
    again = pickle.loads(pickle.dumps(counting))
    assert again.counts == {"put": 1}
    with pytest.raises(StoreError):
        again.get("a")
    assert again.get("a") == b"1"
    assert again.compare_and_swap("a", b"1", b"2")
    assert again.events[-1] == ("compare_and_swap", "a")
    assert counting.counts == {"put": 1}


PUBLIC = [
    *(
        "put",
        "get",
        "get_bounded",
        "get_range",
        "exists",
        "head",
        "list",
        "delete",
        "open_reader",
        "open_writer",
    ),
    *("compare_and_swap", "link", "queue", "put_volatile", "temporaries", "delete_temporary"),
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that are made on a bare LocalStore, without those that it makes on itself."""
    names: list[str] = []
    inside = threading.local()

    def noted(name: str) -> Callable[..., Any]:
        original = getattr(LocalStore, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if getattr(inside, "depth", 0):
                return original(*arguments, **options)
            names.append(name)
            inside.depth = 1
            try:
                return original(*arguments, **options)
            finally:
                inside.depth = 0

        return call

    for name in PUBLIC:
        monkeypatch.setattr(LocalStore, name, noted(name))
    return names


def crowd(store: Store) -> None:
    """Writers that meet, with partitions: every path of a commit that depends on capabilities."""
    layout = lode.HiveLayout("day")
    writers = [lode.Dataset("events", store, codec="jsonl", layout=layout) for _ in range(2)]
    for step in range(6):
        for number, writer in enumerate(writers):
            writer.write([{"day": f"{number}-{part}", "step": step} for part in range(3)])
    reader = lode.Dataset("events", store, codec="jsonl", layout=layout)
    assert reader.scan().read_all().num_rows == 36


def test_a_wrapped_disk_makes_the_calls_that_a_bare_one_makes(tmp_path: Path, calls: list[str]) -> None:
    crowd(LocalStore(tmp_path / "bare", durable=False))
    bare = Counter(calls)
    calls.clear()
    wrapped = CountingStore(LocalStore(tmp_path / "wrapped", durable=False))
    crowd(wrapped)
    assert wrapped.counts["link"]
    assert wrapped.counts["queue"]
    assert wrapped.counts["put_volatile"]
    assert Counter(calls) == bare
    bare["get"] += bare.pop("get_bounded")
    # A wrapper also counts calls on readers, which are no methods of the store.
    assert {name: count for name, count in wrapped.counts.items() if name in PUBLIC} == +bare


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
