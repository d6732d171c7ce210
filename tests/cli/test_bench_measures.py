"""``lode bench``: what it measures, what it counts, and that it leaves nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.bench import measure
from lode.bench.floor import Floor
from lode.bench.rounds import LEAST, calls_of, take_turns
from lode.bench.scratch import scratch_below
from lode.store import LocalStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_store_in_memory_is_measured_with_threads() -> None:
    found = measure("memory://bench-of-threads", seconds=0.2, writers=3)
    assert found.is_sound
    assert not found.contention.processes
    assert found.contention.commits >= 3, "every writer commits at least once a round"
    assert found.opening.snapshots == found.opening.files == found.contention.commits
    assert found.commits.calls["compare_and_swap"] == 1
    assert min(found.commits.lode.rounds, found.commits.floor.rounds, found.opening.lode.rounds) >= LEAST


def test_a_directory_is_measured_with_processes_and_left_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "mine").write_text("stays")
    found = measure(f"file://{place}?durable=false", seconds=0.2, writers=2)
    assert found.is_sound
    assert found.contention.processes
    assert [path.name for path in place.iterdir()] == ["mine"]


def stopped_by(error: type[BaseException], root: str) -> None:
    with scratch_below(root, {}) as scratch:
        scratch.open().put("something", b"1")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, lode.StoreError])
def test_what_was_written_is_removed_when_the_measuring_is_stopped(
    tmp_path: Path, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        stopped_by(error, str(tmp_path / "lake"))
    assert list((tmp_path / "lake").iterdir()) == []


def test_objects_are_removed_one_by_one_where_there_are_no_directories() -> None:
    with scratch_below("memory://", {}) as scratch:
        store = scratch.open()
        store.put("something", b"1")
        assert len(list(store.list())) == 1
    assert list(store.list()) == []


@pytest.mark.parametrize("root", ["lake", "lake/", "file://{}/lake?durable=false", "file://{}/lake/"])
def test_the_scratch_is_below_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    monkeypatch.chdir(tmp_path)
    with scratch_below(root.format(tmp_path), {}) as scratch:
        store = scratch.open()
        assert isinstance(store, LocalStore)
        assert store.root.parent == tmp_path / "lake"
        assert store.durable is ("durable" not in root)


def test_the_two_take_turns_and_each_is_as_often_first() -> None:
    order: list[str] = []
    take_turns(
        lambda: order.append("lode"),
        lambda: order.append("floor"),
        seconds=60,
        most=6,
        advance=lambda _done, _total: None,
    )
    assert order == ["floor", "lode", "lode", "floor"] * 3


def test_floors_that_share_a_pointer_commit_behind_each_other() -> None:
    store = MemoryStore()
    one, other = Floor(store, "shared", 1), Floor(store, "shared", 2)
    for content in (b"1", b"2"):
        one.commit(content)
        other.commit(content + b"!")
    assert one.read() == other.read() == b"2!"


def test_the_first_time_is_not_counted() -> None:
    def prepare(store: lode.Store) -> Callable[[], object]:
        made: list[str] = []

        def task() -> None:
            if not made:
                store.put("once", b"1")
                made.append("once")
            store.get("once")

        return task

    assert calls_of(MemoryStore(), prepare, times=4) == {"get": 1.0}


@pytest.mark.parametrize(
    ("given", "said"), [({"seconds": 0}, "seconds is 0"), ({"writers": 0}, "writers is 0")]
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(lode.InvalidOptionError, match=said):
        measure("memory://", **given)
