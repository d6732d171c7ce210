"""A write begins another file at the target size, and sorts the rows of each file if asked for."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lode
from lode.store.wrappers import Fault, FaultStore
from lode.write import stage
from support.stores import contents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.store.memory import MemoryStore

COLUMNS: list[pa.Field[Any]] = [pa.field("n", pa.int64()), pa.field("day", pa.string())]
SCHEMA = pa.schema(COLUMNS)
# A row group is 100 rows, so that a file knows its size after 100 rows.
CODEC = lode.Parquet(SCHEMA, compression="none", row_group_rows=100, dictionary=False)
DAYS = lode.HiveLayout("day")


def table(rows: int, days: int = 1) -> pa.Table:
    numbers = [(number * 7919) % rows for number in range(rows)]
    return pa.table({"n": numbers, "day": [f"d{number % days}" for number in range(rows)]}, schema=SCHEMA)


def numbers_of(events: lode.Dataset) -> list[Any]:
    numbers: list[Any] = events.scan().read_all()["n"].to_pylist()
    return sorted(numbers)


def numbers_by_file(events: lode.Dataset) -> dict[str, list[Any]]:
    """The values of ``n`` in each file of the newest snapshot, by its path."""
    return {
        file.path: pq.read_table(io.BytesIO(events.store.get(file.path)))["n"].to_pylist()
        for file in events.latest().files
    }


@pytest.mark.parametrize("layout", [None, DAYS])
@pytest.mark.parametrize("kind", ["table", "stream"])
def test_a_file_that_has_reached_the_target_size_is_followed_by_another(
    memory: MemoryStore, layout: lode.Layout | None, kind: str
) -> None:
    events = lode.Dataset("events", memory, codec=CODEC, layout=layout)
    data = table(2_000)
    snapshot = events.write(data if kind == "table" else data.to_reader(250), target_file_bytes=4_000)
    assert len(snapshot.files) > 3
    assert all(file.size_bytes < 12_000 for file in snapshot.files)
    assert snapshot.row_count == 2_000
    assert events.scan().read_all()["n"].equals(data["n"]), "files are read in the order of their rows"


def test_the_names_of_further_files_sort_in_the_order_of_the_rows(memory: MemoryStore) -> None:
    events = lode.Dataset("events", memory, codec="jsonl", compressor="gzip")
    data = table(40_000)
    snapshot = events.write(data, target_file_bytes=10_000)
    names = [file.path.rpartition("/")[2] for file in snapshot.files]
    assert names[:2] == ["data.jsonl.gz", "data_00001.jsonl.gz"]
    assert [row["n"] for row in events.read(snapshot)] == data["n"].to_pylist()


def test_a_transaction_has_the_same_target_size(memory: MemoryStore) -> None:
    events = lode.Dataset("events", memory, codec=CODEC, layout=DAYS)
    with events.transaction(target_file_bytes=4_000) as transaction:
        transaction.write_records(table(2_000, days=2).to_batches(100))
        snapshot = transaction.commit()
    assert len(snapshot.files) > 4
    assert numbers_of(events) == list(range(2_000))


def test_a_failed_write_removes_the_files_that_were_full(memory: MemoryStore) -> None:
    store = FaultStore(memory, Fault("put", "*_00003.*", error=lode.StoreError("disk full")))
    events = lode.Dataset("events", store, codec=CODEC)
    with pytest.raises(lode.StoreError, match="disk full"):
        events.write(table(2_000), target_file_bytes=2_000)
    assert contents(memory) == {}


@pytest.mark.parametrize("layout", [None, DAYS])
@pytest.mark.parametrize("kind", ["table", "stream", "records"])
def test_the_rows_of_each_file_are_sorted_as_the_definition_says(
    memory: MemoryStore, layout: lode.Layout | None, kind: str
) -> None:
    events = lode.Dataset.create("events", memory, codec=CODEC, layout=layout, sort_by=["n"])
    data = table(500, days=3)
    events.write({"table": data, "stream": data.to_reader(60), "records": data.to_pylist()}[kind])
    files = numbers_by_file(events)
    assert files
    assert all(numbers == sorted(numbers) for numbers in files.values())
    assert sorted(n for numbers in files.values() for n in numbers) == list(range(500))


def test_a_sorted_file_ends_at_the_target_size_of_arrow_data(memory: MemoryStore) -> None:
    events = lode.Dataset("events", memory, codec=CODEC)
    events.write(table(2_000), sort_by=["n"], target_file_bytes=5_000)
    files = numbers_by_file(events)
    assert len(files) > 2
    assert all(numbers == sorted(numbers) for numbers in files.values())


def test_rows_with_equal_values_keep_their_order_and_nulls_are_last(memory: MemoryStore) -> None:
    events = lode.Dataset("events", memory, codec=CODEC)
    events.write(pa.table({"n": [1, 2, 3, 4], "day": ["b", None, "a", "b"]}), sort_by=["day"])
    assert events.scan().read_all()["n"].to_pylist() == [3, 1, 4, 2]


def test_a_write_can_leave_out_the_order_of_the_definition(memory: MemoryStore) -> None:
    events = lode.Dataset.create("events", memory, codec=CODEC, sort_by=["n"])
    data = table(50)
    events.write(data, sort_by=[])
    assert events.scan().read_all()["n"].equals(data["n"])


def test_rows_are_sorted_by_a_dictionary_column(memory: MemoryStore) -> None:
    data = pa.table({"kind": pa.array(["b", "a", "c"]).dictionary_encode(), "n": [1, 2, 3]})
    events = lode.Dataset("events", memory, codec="arrow")
    events.write(data, sort_by=["kind"])
    assert events.scan().read_all()["n"].to_pylist() == [2, 1, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sort_by": ["nope"]}, "sorted by 'nope', which is no column: there are n, day"),
        ({"sort_by": "n"}, r"sort_by is a list of columns: write sort_by=\['n'\]"),
        ({"target_file_bytes": 0}, "target_file_bytes is 0: give a number of bytes from 1"),
        ({"target_file_bytes": "1m"}, "target_file_bytes is '1m'"),
    ],
)
def test_a_wrong_size_or_order_is_refused_before_anything_is_stored(
    memory: MemoryStore, options: dict[str, Any], message: str
) -> None:
    events = lode.Dataset("events", memory, codec=CODEC)
    with pytest.raises(lode.InvalidOptionError, match=message):
        events.write(table(10), **options)
    assert contents(memory) == {}


def test_a_dataset_cannot_be_created_with_an_order_that_its_values_do_not_have(memory: MemoryStore) -> None:
    schema = pa.schema([("tags", pa.list_(pa.string()))])
    with pytest.raises(lode.InvalidOptionError, match="cannot be sorted by tags"):
        lode.Dataset.create("events", memory, schema=schema, sort_by=["tags"])
    assert contents(memory) == {}


def test_a_stream_into_partitions_is_held_only_up_to_the_bound(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "MAX_HELD_BYTES", 20_000)
    events = lode.Dataset("events", memory, codec=CODEC, layout=DAYS)
    stored_while_pulled = []

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in table(10_000, days=40).to_batches(500):
            stored_while_pulled.append(len(contents(memory)))
            yield batch

    snapshot = events.write(batches())
    assert stored_while_pulled[-1] > 0, "files are stored before the stream has ended"
    assert snapshot.row_count == 10_000
    assert numbers_of(events) == list(range(10_000))


def test_a_pickled_stager_keeps_its_size_and_order(tmp_path: Path) -> None:
    stager = lode.Dataset("events", tmp_path, codec=CODEC).stager().with_files(5_000, ["n"])
    copy = pickle.loads(pickle.dumps(stager))
    assert (copy.target_file_bytes, copy.sort_by) == (5_000, ("n",))
