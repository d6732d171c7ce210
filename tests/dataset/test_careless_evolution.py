"""Careless and hostile use of definitions loses no value and makes no dataset unreadable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lode
from lode.evolution import evolve
from support.stores import contents

if TYPE_CHECKING:
    from lode.store import CountingStore

CODECS = ["parquet", "arrow", "jsonl"]
SCHEMA = {"a": "int64", "b": "int64"}


def rows(dataset: lode.Dataset, **options: Any) -> list[dict[str, Any]]:
    return lode.Dataset(dataset.id, dataset.store).scan(**options).read_all().to_pylist()


def forget_definitions(store: lode.Store, *, only: str | None = None) -> None:
    """Make snapshots look as Go or 0.1 wrote them: all, or one."""
    for path, data in contents(store).items():
        if path.endswith("manifest.json") and (only is None or only in path):
            manifest = json.loads(data)
            for field in ("x", "sequence"):
                manifest.pop(field, None)
            store.delete(path)
            store.put(path, json.dumps(manifest).encode())
        elif "/definition/" in path and only is None:
            store.delete(path)


# -- files staged for other columns ----------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "changes",
    [
        [{"rename": {"a": "c"}}],
        [{"rename": {"a": "t", "b": "a"}}, {"rename": {"t": "b"}}],
        [{"drop": ["a"]}, {"add": {"a": "int64"}}],
        [{"drop": ["a"]}, {"add": {"a": "string"}}],
    ],
    ids=["renamed", "swapped", "added again", "added again as text"],
)
def test_files_staged_before_their_columns_changed_are_refused(
    memory: CountingStore, codec: str, changes: list[dict[str, Any]]
) -> None:
    dataset = lode.Dataset.create("d", memory, codec=codec, schema=SCHEMA)
    part = dataset.stager("run").stage([{"a": 1, "b": 2}])
    for change in changes:
        dataset.evolve(**change)
    transaction = dataset.transaction(snapshot_id="run")
    transaction.add(part)
    with pytest.raises(lode.SchemaViolationError, match="write it again"):
        transaction.commit()
    assert rows(dataset) == []


def test_files_staged_for_a_dataset_that_was_created_otherwise_are_refused(memory: CountingStore) -> None:
    dataset = lode.Dataset("d", memory, codec="parquet")
    part = dataset.stager("run").stage(pa.table({"x": [1]}))
    lode.Dataset("d", memory, codec="parquet").write(pa.table({"z": [1.5]}))
    transaction = dataset.transaction(snapshot_id="run")
    transaction.add(part)
    with pytest.raises(lode.SchemaViolationError, match="'x'"):
        transaction.commit()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("again", ["int64", "string"])
def test_values_of_a_dropped_column_do_not_come_back_with_its_name(
    memory: CountingStore, codec: str, again: str
) -> None:
    stale = lode.Dataset.create("d", memory, codec=codec, schema={"a": "int64", "x": "int64"})
    stale.write([{"a": 1, "x": 10}])
    other = lode.Dataset("d", memory)
    other.evolve(drop=["x"])
    table = pa.table({"a": [2], "x": [20]})
    stale.write(batch for batch in table.to_batches())  # staged for the earlier columns
    other.evolve(add={"x": again})
    assert rows(other) == [{"a": 1, "x": None}, {"a": 2, "x": None}]
    other.evolve(rename={"a": "z"})
    assert rows(other) == [{"z": 1, "x": None}, {"z": 2, "x": None}]
    assert rows(other, where=pc.field("x").is_null(), columns=["z"]) == [{"z": 1}, {"z": 2}]


# -- snapshots without a definition ----------------------------------------------------------------


@pytest.mark.parametrize("codec", ["parquet", "arrow"])
def test_a_range_that_begins_with_a_foreign_snapshot_has_the_values_of_renamed_columns(
    memory: CountingStore, codec: str
) -> None:
    dataset = lode.Dataset("d", memory, codec=codec)
    first = dataset.write(pa.table({"a": [1], "b": [2]}))
    second = dataset.write(pa.table({"a": [3], "b": [4]}))
    forget_definitions(memory, only=second.id)
    lode.Dataset("d", memory).evolve(rename={"b": "c"})
    assert rows(dataset, since=first.id) == [{"a": 3, "c": 4}]
    plan = lode.Dataset("d", memory).plan()
    assert plan.of([plan.manifests[1]]).read().read_all().to_pylist() == [{"a": 3, "c": 4}]


def test_a_transaction_that_renames_columns_of_a_lake_without_definitions_keeps_their_values(
    memory: CountingStore,
) -> None:
    lode.Dataset("d", memory, codec="parquet").write(pa.table({"a": [1], "b": [2]}))
    forget_definitions(memory)
    dataset = lode.Dataset("d", memory)
    with dataset.transaction(evolve=lambda found: evolve(found, rename={"b": "c"})) as transaction:
        transaction.stage(pa.table({"a": [5], "c": [6]}))
        transaction.commit()
    assert rows(dataset) == [{"a": 1, "c": 2}, {"a": 5, "c": 6}]


def test_records_without_a_schema_do_not_get_one_by_evolving(memory: CountingStore) -> None:
    lode.Dataset("d", memory, codec="jsonl").write([{"a": 1, "q": 5}])
    with pytest.raises(lode.InvalidOptionError, match="records without a schema"):
        lode.Dataset("d", memory, codec=lode.JSONL({"a": "int64"})).write([{"a": 2}], evolve=True)
    assert rows(lode.Dataset("d", memory)) == [{"a": 1, "q": 5}]


# -- reading after a rename --------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_a_column_without_a_name_keeps_its_values(memory: CountingStore, codec: str) -> None:
    dataset = lode.Dataset.create("d", memory, codec=codec, schema={"": "int64", "b": "int64"})
    dataset.write([{"": 4, "b": 1}])
    dataset.evolve(rename={"b": "c"})
    assert rows(dataset) == [{"": 4, "c": 1}]


@pytest.mark.parametrize("codec", CODECS)
def test_a_scan_of_no_columns_counts_the_rows(memory: CountingStore, codec: str) -> None:
    dataset = lode.Dataset.create("d", memory, codec=codec, schema=SCHEMA)
    dataset.write([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    dataset.evolve(rename={"b": "c"})
    assert lode.Dataset("d", memory).scan(columns=[]).read_all().num_rows == 2
    twice = lode.Dataset("d", memory).scan(columns=["a", "a"]).read_all()
    assert twice.column_names == ["a", "a"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_filter_that_is_no_condition_is_refused(memory: CountingStore, codec: str) -> None:
    dataset = lode.Dataset.create("d", memory, codec=codec, schema=SCHEMA)
    dataset.write([{"a": 1, "b": 2}])
    for where in (pc.field("a") + pc.field("b"), pc.field("gone") == 1):
        with pytest.raises(lode.InvalidOptionError, match="where="):
            dataset.scan(where=where).read_all()


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"description": 5},
        {"description": "\ud800"},
        {"schema": {"\ud800": "int64"}},
        {"primary_key": 5},
        {"primary_key": [["a"]]},
        {"sort_by": [1]},
        {"schema": None, "codec": "parquet", "timestamp_column": 5},
        {"schema": None, "codec": "jsonl", "primary_key": [None]},
        {"schema": pa.schema([pa.field("u", pa.dense_union([pa.field("q", pa.int64())]))])},
    ],
    ids=str,
)
def test_a_definition_that_could_not_be_read_is_not_created(
    memory: CountingStore, options: dict[str, Any]
) -> None:
    with pytest.raises(lode.LodeError):
        lode.Dataset.create("d", memory, **({"schema": SCHEMA} | options))
    assert contents(memory) == {}
    lode.Dataset.create("d", memory, schema=SCHEMA)


@pytest.mark.parametrize(
    "change",
    [
        {"add": ["x"]},
        {"add": "x"},
        {"add": {"\ud800": "int64"}},
        {"rename": ["a"]},
        {"rename": {"a": "\ud800"}},
        {"drop": 5},
        {"drop": [["a"]]},
        {"relax": [1]},
        {"add": {"u": pa.dense_union([pa.field("q", pa.int64())])}},
    ],
    ids=str,
)
def test_a_change_of_the_wrong_shape_changes_nothing(memory: CountingStore, change: Any) -> None:
    dataset = lode.Dataset.create("d", memory, schema=SCHEMA)
    before = contents(memory)
    with pytest.raises(lode.LodeError):
        dataset.evolve(**change)
    assert contents(memory) == before


def test_data_without_columns_does_not_decide_the_columns(memory: CountingStore) -> None:
    with pytest.raises(lode.InvalidOptionError, match="no columns"):
        lode.Dataset("d", memory, codec="parquet").write(pa.table({}))
    lode.Dataset("d", memory, codec="parquet").write(pa.table({"a": [1]}))


@pytest.mark.parametrize("codec", ["parquet", "arrow"])
def test_a_column_that_had_only_nulls_takes_the_type_of_the_first_values(
    memory: CountingStore, codec: str
) -> None:
    lode.Dataset("d", memory, codec=codec).write(pa.table({"a": [1], "name": [None]}))
    lode.Dataset("d", memory, codec=codec).write(pa.table({"a": [2], "name": ["x"]}))
    assert rows(lode.Dataset("d", memory)) == [{"a": 1, "name": None}, {"a": 2, "name": "x"}]
    with pytest.raises(lode.SchemaViolationError):
        lode.Dataset("d", memory).write(pa.table({"a": [3], "name": [1]}))


def test_a_key_does_not_become_optional_because_the_data_lacks_it(memory: CountingStore) -> None:
    schema = {"id": "int64!", "k": "string!", "v": "int64"}
    dataset = lode.Dataset.create("d", memory, schema=schema, primary_key=["id"], partition_by=["k"])
    for table in (pa.table({"v": [1], "k": ["x"]}), pa.table({"v": [1], "id": [1]})):
        with pytest.raises(lode.SchemaViolationError, match="is a key of the dataset"):
            dataset.write(table, evolve=True)


def test_a_dictionary_is_not_widened_to_a_smaller_index(memory: CountingStore) -> None:
    wide, small = (pa.dictionary(index, pa.string()) for index in (pa.int32(), pa.int8()))
    dataset = lode.Dataset.create("d", memory, codec="arrow", schema=pa.schema([pa.field("a", wide)]))
    dataset.evolve(widen={"a": small})
    assert dataset.schema == pa.schema([pa.field("a", wide)])
