"""The error for a misspelt name suggests similar names, and a failing lookup never replaces the error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.near import did_you_mean, near
from lode.store import CountingStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator


def lake(*names: str) -> MemoryStore:
    store = MemoryStore()
    for name in names:
        lode.Dataset(name, store, codec="jsonl").write([{"visits": 1, "page": "/"}])
    return store


def test_names_are_alike_in_any_case_and_at_most_three() -> None:
    assert near("VISITS", ["pages", "visits"]) == ["visits"]
    assert len(near("a1", [f"a{number}" for number in range(10, 20)])) == 3
    assert did_you_mean("visits", ["nothing", "like", "it"]) == ""
    assert did_you_mean("vist", ["visit", "vista"]) == "did you mean 'vista' or 'visit'?"


def test_a_misspelt_dataset_suggests_the_existing_one() -> None:
    store = lake("visits", "visitors", "orders")
    for ask in (
        lambda: lode.open_dataset("vists", store),
        lambda: lode.DatasetReader(store).list_partitions("vists"),
    ):
        with pytest.raises(lode.NotFoundError, match=r"no dataset 'vists' in .*: did you mean 'visits' or"):
            ask()
    with pytest.raises(lode.NoSnapshotsError, match=r"'Visits' in .* yet: did you mean 'visits'"):
        lode.Dataset("Visits", store).scan()


def test_an_unknown_name_without_a_similar_one_has_the_usual_remedy() -> None:
    with pytest.raises(lode.NotFoundError, match="check its name, or write it first"):
        lode.open_dataset("something", lake("visits"))


def test_a_misspelt_volume_suggests_the_existing_one() -> None:
    store = MemoryStore()
    volume = lode.Volume("disk", store, 10)
    volume.commit([volume.stage_write_at(0, b"x")])
    with pytest.raises(lode.NotFoundError, match=r"no volume 'dsk' in .*: did you mean 'disk'"):
        lode.open_volume("dsk", store)
    with pytest.raises(lode.NotFoundError, match=r"no dataset 'disk' in .*: it is a volume"):
        lode.open_dataset("disk", store)


def test_leftovers_without_a_snapshot_are_not_suggested() -> None:
    store = lake("orders")
    store.put("datasets/visits/snapshots/1/data/data", b"x")
    with pytest.raises(lode.NotFoundError, match="check its name"):
        lode.open_dataset("vists", store)


class Unlistable(MemoryStore):
    def list(self, prefix: str = "", *, after: str = "") -> Iterator[Any]:
        if prefix.startswith("datasets/v") and "/" not in prefix.removeprefix("datasets/"):
            raise lode.PermissionDeniedError("listing is forbidden")
        return super().list(prefix, after=after)


def test_a_store_that_cannot_be_listed_keeps_the_first_error() -> None:
    with pytest.raises(lode.NotFoundError, match=r"no dataset 'vists' in .*: check its name"):
        lode.open_dataset("vists", Unlistable())


def test_a_crowded_lake_is_listed_in_part() -> None:
    store = MemoryStore()
    for number in range(3_000):
        store.put(f"datasets/x{number:04}/snapshots/1/data/data", b"")
    lode.Dataset("visits", store).write(b"x")
    counting = CountingStore(store)
    with pytest.raises(lode.NotFoundError, match="did you mean 'visits'"):
        lode.open_dataset("vists", counting)
    assert counting.counts["list"] < 1_050


@pytest.mark.parametrize("ask", ["where", "columns", "evolve", "pruned"])
def test_a_misspelt_column_suggests_the_existing_one(ask: str) -> None:
    dataset = lode.Dataset.create("events", MemoryStore(), schema={"visits": "int64", "page": "string"})
    asks: dict[str, Any] = {
        "where": lambda: dataset.scan(where="vists > 3"),
        "columns": lambda: dataset.scan(columns=["vists"]),
        "evolve": lambda: dataset.evolve(drop=["vists"]),
        "pruned": lambda: dataset.plan().pruned("vists > 3"),
    }
    with pytest.raises(lode.InvalidOptionError, match=r"no column 'vists'.*: did you mean 'visits'"):
        asks[ask]()


def test_errors_of_blobs_and_records_do_not_refer_to_each_other() -> None:
    store = MemoryStore()
    lode.Dataset("blobs", store).write(b"x")
    with pytest.raises(lode.InvalidOptionError, match="write records to a dataset that is created with"):
        lode.Dataset("blobs", store).write([{"a": 1}])
    lode.Dataset("logs", store, codec="jsonl").write([{"a": 1}])
    for name in ("blobs", "logs"):
        with pytest.raises(lode.InvalidOptionError, match="create another dataset with a schema"):
            lode.Dataset(name, store).evolve(add={"b": "int64"})
    empty = lode.Dataset.create("empty", store, codec="parquet")
    with pytest.raises(lode.InvalidOptionError, match="write its first rows, which decide its columns"):
        empty.evolve(add={"b": "int64"})


def test_verifying_a_snapshot_without_checksums_is_an_error() -> None:
    dataset = lode.Dataset("blobs", MemoryStore())
    dataset.write(b"x")
    with pytest.raises(lode.ComponentMismatchError, match="has no checksums to verify: read it without"):
        dataset.read("latest", verify=True)
