"""What a durable store has acknowledged survives a power cut, whatever other processes were in the middle of.

Two store objects stand for two processes: neither knows what the other has synced. One is stopped at each of
its steps in turn, the other does its work undisturbed, and then the power goes.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import lode
from lode.errors import PathExistsError
from lode.store import LocalStore
from support.store.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lode.format.paths import Layout

MAX_STEPS = 40

PATH = "a/b/c/x"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "disk"
    base.mkdir()
    return base


@pytest.fixture
def disk(base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(base, monkeypatch)
    yield disk
    disk.close()


def put(store: LocalStore) -> None:
    with suppress(PathExistsError):
        store.put(PATH, b"content")


def upload(store: LocalStore) -> None:
    with store.open_writer(PATH) as writer:
        writer.write(b"content")
        with suppress(PathExistsError):
            writer.commit()


def put_beside(store: LocalStore) -> None:
    with suppress(PathExistsError):
        store.put("a/b/c/source", b"content")


def put_volatile(store: LocalStore) -> None:
    with suppress(PathExistsError):
        store.put_volatile(PATH, b"content")


def link(store: LocalStore) -> None:
    with suppress(PathExistsError):
        store.put_volatile("a/b/source", b"content")
    put_beside(store)
    with suppress(PathExistsError):
        store.link("a/b/source", PATH)


def swap(store: LocalStore) -> None:
    store.compare_and_swap(PATH, None, b"content")


def swap_again(store: LocalStore) -> None:
    store.compare_and_swap(PATH, None, b"before")
    store.compare_and_swap(PATH, b"before", b"content")


def swap_what_is_volatile(store: LocalStore) -> None:
    with suppress(PathExistsError):
        store.put_volatile(PATH, b"before")
    store.compare_and_swap(PATH, b"before", b"content")


@pytest.mark.parametrize("first", [put, upload, put_volatile, put_beside, link, swap, swap_again])
@pytest.mark.parametrize("second", [put, upload, link])
def test_an_object_that_is_there_for_one_process_stays_there_wherever_another_stopped(
    base: Path,
    tmp_path: Path,
    disk: Disk,
    first: Callable[[LocalStore], None],
    second: Callable[[LocalStore], None],
) -> None:
    for steps in range(MAX_STEPS):
        disk.format()
        finished = disk.run(lambda: first(LocalStore(base / "lake")), steps)
        store = LocalStore(base / "lake")
        second(store)
        seen = store.get(PATH)
        left = disk.after_power_cut(tmp_path / f"left-{steps}")
        assert (left / "lake" / PATH).read_bytes() == seen, f"stopped at step {steps}"
        if finished:
            return
    raise AssertionError(f"{first.__name__} takes more than {MAX_STEPS} steps")


@pytest.mark.parametrize("second", [swap, swap_again, swap_what_is_volatile])
@pytest.mark.parametrize("first", [put_beside, put_volatile, swap])
def test_a_swap_that_won_stays_won_wherever_another_process_stopped(
    base: Path,
    tmp_path: Path,
    disk: Disk,
    first: Callable[[LocalStore], None],
    second: Callable[[LocalStore], None],
) -> None:
    for steps in range(MAX_STEPS):
        disk.format()
        finished = disk.run(lambda: first(LocalStore(base / "lake")), steps)
        store = LocalStore(base / "lake")
        current = store.get(PATH) if store.exists(PATH) else None
        assert store.compare_and_swap(PATH, current, b"ours")
        second(store)
        seen = store.get(PATH)
        left = disk.after_power_cut(tmp_path / f"left-{steps}")
        assert (left / "lake" / PATH).read_bytes() == seen, f"stopped at step {steps}"
        if finished:
            return
    raise AssertionError(f"{first.__name__} takes more than {MAX_STEPS} steps")


def test_the_model_loses_what_nobody_synced(base: Path, tmp_path: Path, disk: Disk) -> None:
    LocalStore(base / "lake").put("x", b"1")
    LocalStore(base / "lake").put_volatile("y", b"2")
    LocalStore(base / "lake", durable=False).put("z", b"3")
    left = disk.after_power_cut(tmp_path / "left")
    assert [path.name for path in (left / "lake").iterdir()] == ["x"]


def test_a_commit_on_what_another_process_has_not_synced_yet_keeps_its_parent(
    base: Path, tmp_path: Path, disk: Disk
) -> None:
    """One writer stops at each of its steps, another builds on what it finds, and the power goes."""

    def write(data: bytes) -> lode.Snapshot:
        return lode.Dataset("events", LocalStore(base / "lake"), retry=lode.Retry(5)).write(data)

    for steps in range(300):
        disk.format()
        first = write(b"0")
        finished = disk.run(lambda: write(b"1"), steps)
        second = write(b"2")
        left = lode.Dataset("events", disk.after_power_cut(tmp_path / f"left-{steps}") / "lake")
        history = [snapshot.id for snapshot in left.snapshots()]
        assert history[0] == first.id, f"stopped at step {steps}"
        assert history[-1] == second.id, f"stopped at step {steps}"
        assert lode.verify(left).ok
        if finished:
            return
    raise AssertionError("a commit takes more than 300 steps")


@pytest.mark.parametrize("eager", [False, True], ids=["late", "eager"])
@pytest.mark.parametrize("layout", [lode.DefaultLayout(), lode.HiveLayout("day")], ids=["plain", "hive"])
def test_a_rebased_commit_does_not_come_back_on_its_old_parent(
    base: Path, tmp_path: Path, disk: Disk, layout: Layout, eager: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer loses its swap, moves its intent to the new head, wins, and the power goes at each step."""
    # A restart takes longer than the grace period of a pointer without an intent.
    monkeypatch.setattr("lode.write.recovery.GRACE_SECONDS", 0.0)
    disk.eager = eager

    def rows(day: int) -> list[dict[str, str]]:
        return [{"day": str(day)}]

    for steps in range(300):
        disk.format()
        acknowledged: list[str] = []

        def open_(name: str = "events") -> lode.Dataset:
            return lode.Dataset(
                name, LocalStore(base / "lake"), codec="jsonl", layout=layout, retry=lode.Retry(5)
            )

        ours, theirs = open_(), open_()
        acknowledged.append(ours.write(rows(0)).id)
        # Both know the same head: one of them is behind when it commits.
        theirs.latest()
        acknowledged.append(ours.write(rows(1)).id)

        def commit(theirs: lode.Dataset = theirs, acknowledged: list[str] = acknowledged) -> None:
            acknowledged.append(theirs.write(rows(2)).id)

        finished = disk.run(commit, steps)
        left = lode.Dataset(
            "events", disk.after_power_cut(tmp_path / f"left-{steps}") / "lake", codec="jsonl", layout=layout
        )
        # The next writer goes on from there, on one line of history.
        following = left.write(rows(3))
        history = [snapshot.id for snapshot in left.snapshots()]
        assert history[: len(acknowledged)] == acknowledged, f"stopped at step {steps}"
        assert history[-1] == following.id
        assert left.scan().read_all().num_rows == len(history)
        if finished:
            return
    raise AssertionError("a rebased commit takes more than 300 steps")


@pytest.mark.parametrize("eager", [False, True], ids=["late", "eager"])
def test_a_job_with_a_key_runs_once_wherever_the_power_goes(
    base: Path, tmp_path: Path, disk: Disk, eager: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key may survive without its snapshot, or without its intent: the job that runs again decides."""
    monkeypatch.setattr("lode.write.recovery.GRACE_SECONDS", 0.0)
    disk.eager = eager

    def run(lake: Path) -> lode.Snapshot:
        return lode.Dataset("events", LocalStore(lake), codec="jsonl").write(
            [{"job": 1}], idempotency_key="job-1"
        )

    stale = 0
    for steps in range(300):
        disk.format()
        lode.Dataset("events", LocalStore(base / "lake"), codec="jsonl").write([{"job": 0}])
        finished = disk.run(lambda: run(base / "lake"), steps)
        left = disk.after_power_cut(tmp_path / f"left-{steps}") / "lake"
        stale += bool(list(left.glob("datasets/events/keys/*"))) and not finished
        again = run(left)
        assert run(left).id == again.id, f"stopped at step {steps}"
        dataset = lode.Dataset("events", left)
        rows = dataset.scan().read_all().to_pylist()
        assert rows == [{"job": 0}, {"job": 1}], f"stopped at step {steps}"
        assert lode.verify(dataset).ok
        if finished:
            assert stale, "no power cut left a key"
            return
    raise AssertionError("a commit takes more than 300 steps")
