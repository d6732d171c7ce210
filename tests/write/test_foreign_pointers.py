"""Pointers that this protocol did not write: a writer waits before it takes one over."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.format.manifest import expected_pointer
from lode.read.resolve import GRACE_SECONDS, dataset_chain
from lode.runtime import Runtime
from lode.store import CountingStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.store.protocol import ObjectInfo

FOREIGN = "1234567890123456789"
START = datetime(2026, 11, 16, tzinfo=UTC)


class Clock:
    """Time that passes only while somebody sleeps; at a given moment something may happen."""

    def __init__(self) -> None:
        self.now = START
        self.slept: list[float] = []
        self.at: dict[float, Callable[[], object]] = {}

    def now_ns(self) -> int:
        return int(self.now.timestamp() * 1e9)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)
        for moment in [moment for moment in self.at if sum(self.slept) >= moment]:
            self.at.pop(moment)()


class Kind:
    """A dataset or a volume, and how to write to it."""

    def __init__(self, name: str) -> None:
        self.clock = Clock()
        self.store = CountingStore(MemoryStore(now_ns=self.clock.now_ns))
        self.name = name
        self.root = "datasets/x" if name == "dataset" else "volumes/x"

    def open(self) -> Any:
        runtime = Runtime(now_ns=self.clock.now_ns, sleep=self.clock.sleep)
        if self.name == "dataset":
            return lode.Dataset("x", self.store, runtime=runtime)
        return lode.Volume("x", self.store, 1000, runtime=runtime)

    def write(self, offset: int, into: Any = None) -> Any:
        target = into or self.open()
        if isinstance(target, lode.Dataset):
            return target.write(b"x")
        return target.commit([target.stage_write_at(offset, b"x")])

    def point(self, to: str | None) -> None:
        self.store.delete(f"{self.root}/latest")
        if to is not None:
            self.store.put(f"{self.root}/latest", to.encode())

    def publish_foreign(self, parent: str) -> None:
        """Publish what the pointer names, as a writer without intents does."""
        manifest = self.store.get(f"{self.root}/snapshots/{parent}/manifest.json").decode()
        child = manifest.replace(f'"snapshot_id": "{parent}"', f'"snapshot_id": "{FOREIGN}"')
        child = child.replace('"sequence": 1', f'"parent_snapshot_id": "{parent}", "sequence": 2')
        self.store.put(f"{self.root}/snapshots/{FOREIGN}/manifest.json", child.encode())


@pytest.fixture(params=["dataset", "volume"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return Kind(request.param)


def test_a_foreign_writer_that_publishes_within_the_grace_period_is_followed(kind: Kind) -> None:
    first = kind.write(0)
    kind.point(FOREIGN)
    kind.clock.at[1.0] = lambda: kind.publish_foreign(first.id)
    second = kind.write(1)
    assert second.parent_id == FOREIGN
    assert sum(kind.clock.slept) < GRACE_SECONDS


def test_a_foreign_writer_that_never_publishes_is_overtaken_after_the_grace_period(kind: Kind) -> None:
    first = kind.write(0)
    kind.point(FOREIGN)
    second = kind.write(1)
    assert second.parent_id == first.id
    assert sum(kind.clock.slept) == pytest.approx(GRACE_SECONDS)
    assert len(kind.clock.slept) <= 3


def test_a_foreign_pointer_that_is_old_is_overtaken_at_once(kind: Kind) -> None:
    first = kind.write(0)
    kind.point(FOREIGN)
    kind.clock.now += timedelta(seconds=GRACE_SECONDS)
    assert kind.write(1).parent_id == first.id
    assert kind.clock.slept == []


def test_a_pointer_that_moves_within_the_grace_period_is_looked_at_again(kind: Kind) -> None:
    first = kind.write(0)
    kind.point(FOREIGN)
    kind.clock.at[1.0] = lambda: kind.point(first.id)
    assert kind.write(1).parent_id == first.id
    assert sum(kind.clock.slept) < GRACE_SECONDS


def test_a_clock_behind_the_stores_costs_the_grace_period_and_no_more(kind: Kind) -> None:
    kind.write(0)
    kind.point(FOREIGN)
    kind.clock.now -= timedelta(hours=1)
    kind.write(1)
    assert sum(kind.clock.slept) == pytest.approx(GRACE_SECONDS)


def test_a_reader_never_waits_for_a_foreign_writer(kind: Kind) -> None:
    first = kind.write(0)
    kind.point(FOREIGN)
    assert kind.open().latest() == first
    assert [found.id for found in kind.open().snapshots()] == [first.id]
    kind.open().settle()
    assert kind.clock.slept == []


def test_a_foreign_writer_that_publishes_after_the_first_look_is_followed(kind: Kind) -> None:
    """Between the look and the commit there may be hours of uploading."""
    first = kind.write(0)
    kind.point(FOREIGN)
    kind.clock.now += timedelta(hours=1)
    target = kind.open()
    committer = target._handle.find().committer if isinstance(target, lode.Dataset) else target._committer
    committer.capture()
    kind.publish_foreign(first.id)
    assert kind.write(1, target).parent_id == FOREIGN


def test_a_foreign_writer_that_publishes_after_the_base_was_captured_is_a_conflict() -> None:
    kind = Kind("dataset")
    first = kind.write(0)
    kind.point(FOREIGN)
    kind.clock.now += timedelta(hours=1)
    transaction = kind.open().transaction()
    transaction.stage(b"ours")
    assert transaction.capture() == first.id
    kind.publish_foreign(first.id)
    with pytest.raises(lode.SnapshotConflictError, match=FOREIGN):
        transaction.commit()
    assert transaction.commit().parent_id == FOREIGN


# -- what an intent says about the pointer -------------------------------------------------------


def intent_of(kind: Kind, snapshot: Any) -> Any:
    opened = kind.open()
    chain: Any = opened.chain if isinstance(opened, lode.Dataset) else opened._chain
    return chain.intent(snapshot.id).manifest


@pytest.mark.parametrize("pointer", [FOREIGN, None], ids=["dangling", "lost"])
def test_an_intent_records_the_pointer_its_swap_expects_if_that_is_not_the_parent(
    kind: Kind, pointer: str | None
) -> None:
    first = kind.write(0)
    kind.point(pointer)
    second = kind.write(1)
    manifest = intent_of(kind, second)
    assert manifest.parent_snapshot_id == first.id
    assert manifest.x["expected"] == (pointer or "")
    assert expected_pointer(first.id, manifest.x) == (pointer.encode() if pointer else None)


def test_an_intent_on_a_sound_pointer_records_nothing(kind: Kind) -> None:
    target = kind.open()
    snapshots = [kind.write(number, target) for number in range(2)]
    for snapshot in snapshots:
        assert "expected" not in (intent_of(kind, snapshot).x or {})


def test_the_snapshot_after_a_dangling_pointer_records_nothing_again(kind: Kind) -> None:
    kind.write(0)
    kind.point(FOREIGN)
    kind.write(1)
    assert "expected" not in (intent_of(kind, kind.write(2)).x or {})


class ListedSlowly(MemoryStore):
    """A store on which something happens while the snapshots are listed, after the first object of them."""

    then: Callable[[], object] | None = None

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        for entry in super().list(prefix, after=after):
            yield entry
            happens = self.then if prefix.endswith("/snapshots/") else None
            if happens is not None:
                self.then = None
                happens()
                yield from super().list(prefix, after=entry.path)
                return


def test_a_foreign_writer_that_goes_on_during_a_listing_is_followed_and_is_no_fork() -> None:
    store = ListedSlowly()
    first = lode.Dataset("x", store).write(b"x")
    stored = json.loads(store.get(f"datasets/x/snapshots/{first.id}/manifest.json"))
    del stored["sequence"], stored["x"]

    def publish(snapshot_id: str, parent: str) -> None:
        manifest = stored | {"snapshot_id": snapshot_id, "parent_snapshot_id": parent}
        store.put(f"datasets/x/snapshots/{snapshot_id}/manifest.json", json.dumps(manifest).encode())

    def go_on() -> None:
        # The first of both is in a part of the listing that has passed.
        publish("0000000000000000001", first.id)
        publish("9999999999999999999", "0000000000000000001")
        store.compare_and_swap("datasets/x/latest", b"0000000000000000001", b"9999999999999999999")

    store.compare_and_swap("datasets/x/latest", first.id.encode(), b"0000000000000000001")
    store.then = go_on
    assert dataset_chain(store, "x", lode.DefaultLayout()).resolve().id == "9999999999999999999"
