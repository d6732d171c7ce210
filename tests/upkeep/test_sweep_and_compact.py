"""A sweep with a short age beside a compaction."""

from __future__ import annotations

from datetime import timedelta

import pytest

import lode
from lode.store.memory import MemoryStore


def test_a_compaction_whose_new_files_were_swept_is_refused_and_loses_nothing() -> None:
    store = MemoryStore()
    dataset = lode.Dataset.create("d", store, schema={"n": "int64"})
    for number in range(4):
        dataset.write([{"n": number}])
    swept: list[object] = []

    def sweep(_done: int, _total: int | None) -> None:
        if not swept:
            swept.append(lode.sweep(lode.Dataset("d", store), older_than=timedelta(0), dry_run=False))

    with pytest.raises(lode.TransactionClosedError):
        dataset.compact(progress=sweep)
    assert swept
    assert {row["n"] for row in lode.Dataset("d", store).scan().read_all().to_pylist()} == {0, 1, 2, 3}
    assert lode.verify(lode.Dataset("d", store)).ok
    assert lode.Dataset("d", store).compact().added.files == 1
