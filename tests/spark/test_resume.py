"""Whether files that were staged for a job may be part of history. No Spark session is needed for this."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import lode
from lode.spark.resume import may_be_committed, new_snapshot_id, resume
from lode.store import Fault, FaultStore, LocalStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path, durable=False)


@pytest.fixture(params=["plain", "partitioned"])
def dataset(store: LocalStore, request: pytest.FixtureRequest) -> lode.Dataset:
    if request.param == "plain":
        return lode.Dataset("jobs", store, codec="jsonl")
    return lode.Dataset("jobs", store, codec="jsonl", layout=lode.HiveLayout("n"))


def test_files_of_a_job_that_never_began_to_commit_belong_to_nobody(dataset: lode.Dataset) -> None:
    stager = dataset.stager(new_snapshot_id())
    stager.stage([{"n": 1}])
    assert not may_be_committed(stager)


def test_files_of_a_job_whose_commit_began_may_be_committed(dataset: lode.Dataset) -> None:
    stager = dataset.stager(new_snapshot_id())
    faulty = FaultStore(dataset.store, Fault("compare_and_swap", "*", error=lode.StoreError("unplugged")))
    opened = lode.Dataset("jobs", faulty, codec="jsonl", layout=dataset.layout)
    transaction = resume(opened, stager.snapshot_id)
    transaction.add(stager.stage([{"n": 1}]))
    with pytest.raises(lode.StoreError, match="unplugged"):
        transaction.commit()
    assert may_be_committed(stager)


def test_files_of_a_job_whose_intent_was_swept_after_the_commit_are_committed(dataset: lode.Dataset) -> None:
    stager = dataset.stager(new_snapshot_id())
    transaction = resume(dataset, stager.snapshot_id)
    transaction.add(stager.stage([{"n": 1}]))
    transaction.commit()
    dataset.write([{"n": 2}])
    lode.sweep(lode.Dataset("jobs", dataset.store), timedelta(0), dry_run=False)
    intent = dataset.layout.chain("jobs").intent(stager.snapshot_id)
    assert not dataset.store.exists(intent)
    assert may_be_committed(stager)


def test_a_store_that_fails_leaves_it_open(dataset: lode.Dataset) -> None:
    faulty = FaultStore(dataset.store, Fault("exists", "*", error=lode.StoreError("unplugged")))
    assert may_be_committed(lode.Dataset("jobs", faulty, codec="jsonl").stager(new_snapshot_id()))


def test_a_job_follows_whatever_was_committed_meanwhile(dataset: lode.Dataset) -> None:
    dataset.write([{"n": 1}])
    transaction = resume(dataset, new_snapshot_id())
    transaction.stage([{"n": 1}])
    lode.Dataset("jobs", dataset.store, codec="jsonl", layout=dataset.layout).write([{"n": 1}])
    assert transaction.commit().sequence == 3
