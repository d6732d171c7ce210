"""Verify tells damaged derived objects from healthy ones, also beside writers and after restores."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lode
from lode.runtime import REAL
from lode.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.store.protocol import ObjectInfo

AT_ONCE = replace(REAL, background=lambda chore: chore())
LAKES = Path(__file__).parents[1] / "golden" / "lakes"


class Growing(MemoryStore):
    """Something happens after the manifests were listed."""

    then: Callable[[], None] | None = None

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[ObjectInfo]:
        found = list(super().list(prefix, after=after))
        if self.then is not None and prefix.endswith("/snapshots/"):
            then, self.then = self.then, None
            then()
        return iter(found)


def test_a_segment_of_commits_that_came_after_the_listing_is_healthy() -> None:
    store = Growing()
    dataset = lode.Dataset("d", store, codec=lode.JSONL(), runtime=AT_ONCE)
    for number in range(14):
        dataset.write([{"n": number}])

    def write_more() -> None:
        for number in range(4):
            dataset.write([{"n": number}])

    store.then = write_more
    assert lode.verify(lode.Dataset("d", store)).problems == ()
    assert list(store.list("datasets/d/history/"))


@pytest.mark.parametrize("layout", ["default", "hive"])
def test_a_checkpoint_after_a_restore_of_a_snapshot_without_a_definition_is_healthy(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lode.read.state.CHECKPOINT_STEP", 16)
    shutil.copytree(LAKES / layout, tmp_path / "lake")
    dataset = lode.Dataset("weather", tmp_path / "lake", runtime=AT_ONCE)
    rows = dataset.scan().read_all().to_pylist()[:1]
    first = min(dataset.snapshots(), key=lambda snapshot: dataset.count(as_of=snapshot.id))
    dataset.write(rows)
    dataset.delete("id >= 0")
    dataset.restore(first.id)
    for _ in range(34):
        dataset.write(rows)
    assert dataset.latest().manifest.checkpoint is not None
    assert lode.verify(lode.Dataset("weather", tmp_path / "lake")).problems == ()


@pytest.mark.parametrize("record", [b"", b"garbage", b'{"writer": "", "key": "k", "snapshot_id": "x"}'])
def test_a_damaged_key_is_reported_and_repaired_by_the_next_write(record: bytes) -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec=lode.JSONL())
    first = dataset.write([{"n": 1}], idempotency_key="k")
    (path,) = [entry.path for entry in store.list("datasets/d/keys/")]
    store.delete(path)
    store.put(path, record)
    assert [problem.kind for problem in lode.verify(dataset).problems] == ["key"]
    assert lode.Dataset("d", store).write([{"n": 1}], idempotency_key="k").id == first.id
    assert lode.verify(dataset).ok


def test_a_key_of_a_megabyte_is_neither_believed_nor_kept() -> None:
    store = MemoryStore()
    dataset = lode.Dataset("d", store, codec=lode.JSONL())
    path = dataset.chain.paths.key("", "k")
    store.put(path, b"x" * ((1 << 20) + 1))
    first = dataset.write([{"n": 1}], idempotency_key="k")
    assert lode.Dataset("d", store).write([{"n": 1}], idempotency_key="k").id == first.id
    assert len(store.get(path)) < 1000
