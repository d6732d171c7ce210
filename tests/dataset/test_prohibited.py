"""Operations that both contracts prohibit."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from support.stores import contents, writes

if TYPE_CHECKING:
    from lode.store import CountingStore


def test_no_data_file_is_changed_in_place_by_anything_a_writer_does(store: CountingStore) -> None:
    """Writes, streams, conflicts, retries, aborts, changes, expiries and sweeps change no byte of a file."""
    seen: dict[str, bytes] = {}

    def unchanged() -> None:
        now = {path: data for path, data in contents(store).items() if "/data/" in path}
        assert {path: data for path, data in now.items() if path in seen} == {
            path: data for path, data in seen.items() if path in now
        }
        seen.update(now)

    def opened(**options: Any) -> lode.Dataset:
        return lode.Dataset("events", store, **options)

    dataset = lode.Dataset.create("events", store, schema={"id": "int64", "v": "string"}, codec="jsonl")
    dataset.write([{"id": 1}])
    unchanged()
    dataset.stream_write_records([{"id": 2}])
    opened().write([{"id": 3}])
    with pytest.raises(lode.SnapshotConflictError) as caught:
        dataset.write([{"id": 4}])
    caught.value.transaction.commit()
    unchanged()
    retrying = opened(retry=lode.Retry(3))
    assert retrying.exists
    opened().write([{"id": 5}])
    retrying.write([{"id": 6}])
    aborted = dataset.transaction()
    aborted.stage([{"id": 7}])
    aborted.abort()
    unchanged()
    for change in (
        lambda ds: ds.delete("id = 1"),
        lambda ds: ds.merge([{"id": 2, "v": "new"}], on=["id"]),
        lambda ds: ds.overwrite([{"id": 3, "v": "new"}], where="id = 3"),
        lambda ds: ds.evolve(rename={"v": "w"}),
        lambda ds: ds.compact(),
        lambda ds: ds.restore(3),
        lambda ds: ds.overwrite([{"id": 8}], everything=True),
        lambda ds: lode.expire(ds, keep=1, dry_run=False),
        lambda ds: lode.sweep(ds, older_than=timedelta(0), dry_run=False),
    ):
        change(opened())
        unchanged()
    data_writes = {path: times for path, times in writes(store).items() if "/data/" in path}
    assert set(data_writes.values()) == {1}
    assert opened().count() == 1


def test_metadata_is_neither_inferred_nor_defaulted(store: CountingStore) -> None:
    dataset = lode.Dataset("events", store, codec="jsonl")
    assert dataset.write([{"id": 1, "source": "crawler"}]).metadata == {}
    given = {"source": "crawler", "n": [1, {"deep": None}], "text": "ünï"}
    assert dataset.write([{"id": 2}], given).metadata == given
    assert dataset.write([{"id": 3}]).metadata == {}, "metadata is not carried over from the parent"


def test_history_never_branches(store: CountingStore) -> None:
    datasets = [lode.Dataset("events", store) for _ in range(3)]
    datasets[0].write(b"root")
    transactions = [dataset.transaction() for dataset in datasets]
    outcomes = []
    for transaction in transactions:
        transaction.stage(b"child")
        try:
            outcomes.append(transaction.commit().parent_id)
        except lode.SnapshotConflictError:
            outcomes.append("conflict")
    assert outcomes.count("conflict") == 2
    parents = [snapshot.parent_id for snapshot in datasets[0].snapshots()]
    assert len(parents) == len(set(parents)) == 2


def test_a_fork_by_a_foreign_writer_is_reported_and_not_resolved(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory)
    dataset.write(b"root")
    child = dataset.write(b"child")
    twin = memory.get(f"datasets/events/snapshots/{child.id}/manifest.json").replace(
        child.id.encode(), b"1234567890123456789"
    )
    memory.put("datasets/events/snapshots/1234567890123456789/manifest.json", twin)
    memory.delete("datasets/events/latest")
    with pytest.raises(lode.HistoryForkedError, match="2 heads") as caught:
        lode.Dataset("events", memory).latest()
    assert set(caught.value.heads) == {child.id, "1234567890123456789"}
