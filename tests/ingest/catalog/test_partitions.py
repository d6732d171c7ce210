"""Batches that are written and read: partitions, columns that older files lack, types Parquet lacks."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.catalog.partitioning import RangePartitioning, TimePartitioning, partition_ids
from lode.ingest.catalog.table import complete
from lode.ingest.names import TableName
from lode.ingest.status import Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.store import MemoryStore
from support.ingest.writing import write_rows

if TYPE_CHECKING:
    from lode.ingest.catalog.partitioning import Partitioning
    from lode.ingest.catalog.table import TableDefinition

NAME = TableName("p", "d", "t")
SCHEMA = TableSchema(
    (
        Column("id", "INT64"),
        Column("at", "TIMESTAMP"),
        Column("local", "DATETIME"),
        Column("day", "DATE"),
        Column("text", "STRING"),
        Column("days", "DATE", "REPEATED"),
    )
)
AT = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
ROW = {"id": 25, "at": AT, "local": datetime(5, 1, 2, 3), "day": date(2026, 11, 15), "text": "x", "days": []}
NULLS: dict[str, Any] = {"days": []}


def created(partitioning: Partitioning | None, schema: TableSchema = SCHEMA) -> TableDefinition:
    catalog = Catalog(MemoryStore())
    catalog.create_dataset(DatasetName("p", "d"))
    return catalog.create_table(NAME, schema, partitioning=partitioning)


def written(definition: TableDefinition, *rows: dict[str, Any]) -> tuple[set[str], list[dict[str, Any]]]:
    """The partitions of the rows, and the rows as they are read back."""
    store = MemoryStore()
    batch = pa.RecordBatch.from_pylist(list(rows), schema=definition.schema.arrow)
    dataset = definition.open(store)
    dataset.write(definition.prepare(batch, now_ms=1_794_747_600_000))
    partitions = {dataset.layout.partition_of(dataset.id, file.path) for file in dataset.plan().files}
    read = [row for part in dataset.scan() for row in complete(part, definition.schema).to_pylist()]
    return partitions, read


@pytest.mark.parametrize(
    ("partitioning", "expected", "of_null"),
    [
        (TimePartitioning("DAY", "at"), "at=2026-11-15", "at=__HIVE_DEFAULT_PARTITION__"),
        (TimePartitioning("DAY", "DAY"), "day=2026-11-15", "day=__HIVE_DEFAULT_PARTITION__"),
        (TimePartitioning("HOUR", "at"), "_PARTITIONID=2026111512", "_PARTITIONID=__NULL__"),
        (TimePartitioning("HOUR", "local"), "_PARTITIONID=0005010203", "_PARTITIONID=__NULL__"),
        (TimePartitioning("MONTH", "day"), "_PARTITIONID=202611", "_PARTITIONID=__NULL__"),
        (TimePartitioning("YEAR", "At"), "_PARTITIONID=2026", "_PARTITIONID=__NULL__"),
        (TimePartitioning("DAY"), "_PARTITIONID=20261115", "_PARTITIONID=20261115"),
        (TimePartitioning("HOUR"), "_PARTITIONID=2026111513", "_PARTITIONID=2026111513"),
        (RangePartitioning("ID", 0, 100, 10), "_PARTITIONID=20", "_PARTITIONID=__NULL__"),
        (RangePartitioning("id", 30, 100, 10), "_PARTITIONID=__UNPARTITIONED__", "_PARTITIONID=__NULL__"),
    ],
)
def test_rows_are_in_the_partition_that_bigquery_names(
    partitioning: Partitioning, expected: str, of_null: str
) -> None:
    partitions, read = written(created(partitioning), ROW, NULLS)
    assert partitions == {expected, of_null}
    assert sorted(read, key=lambda row: row["id"] is None) == [ROW, dict.fromkeys(ROW) | NULLS]


def test_an_unpartitioned_table_stores_batches_unchanged() -> None:
    definition = created(None)
    batch = pa.RecordBatch.from_pylist([ROW], schema=SCHEMA.arrow)
    assert definition.prepare(batch) is batch


@pytest.mark.parametrize(
    ("partitioning", "complaint"),
    [
        (TimePartitioning("DAY", "nowhere"), "no column of that name"),
        (TimePartitioning("DAY", "text"), "a STRING"),
        (TimePartitioning("HOUR", "day"), "a DATE"),
        (TimePartitioning("DAY", "days"), "REPEATED"),
        (RangePartitioning("text", 0, 10, 1), "a STRING"),
        (RangePartitioning("id", 10, 10, 1), "less than end"),
        (RangePartitioning("id", 0, 10, 0), "interval"),
        (RangePartitioning("id", 0, 10_001, 1), "more than 10000"),
        (RangePartitioning("id", -(2**63), 2**63 - 1, 2**62), "64 bits"),
    ],
)
def test_an_invalid_partitioning_is_refused(partitioning: Partitioning, complaint: str) -> None:
    with pytest.raises(Refused, match=complaint):
        created(partitioning)


def test_the_partitioning_cannot_change() -> None:
    catalog = Catalog(MemoryStore())
    catalog.create_dataset(DatasetName("p", "d"))
    catalog.create_table(NAME, SCHEMA, partitioning=TimePartitioning("DAY"))
    with pytest.raises(Refused, match="cannot change"):
        catalog.update_table(NAME, lambda now: msgspec.structs.replace(now, partitioning=None))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-50, 50), max_size=30),
    st.integers(-(2**62), 2**62) | st.integers(-20, 20),
    st.integers(1, 500),
    st.integers(1, 7),
)
def test_range_partitions_agree_with_integer_arithmetic(
    values: list[int | None], start: int, length: int, interval: int
) -> None:
    ranges = RangePartitioning("id", start, start + length, interval)
    batch = pa.record_batch({"id": pa.array(values, pa.int64())})

    def expected(value: int | None) -> str:
        if value is None:
            return "__NULL__"
        if not start <= value < start + length:
            return "__UNPARTITIONED__"
        return str(value - (value - start) % interval)

    assert partition_ids(ranges, batch).to_pylist() == list(map(expected, values))


NESTED = (Column("n", "INT64"),)
OLD = TableSchema(
    (
        Column("id", "INT64", "REQUIRED"),
        Column("one", "STRUCT", fields=NESTED),
        Column("many", "STRUCT", "REPEATED", fields=NESTED),
    )
)
GROWN = (*NESTED, Column("s", "STRING"), Column("list", "INT64", "REPEATED"))
NEW = TableSchema(
    (
        Column("id", "INT64"),
        Column("one", "STRUCT", fields=GROWN),
        Column("many", "STRUCT", "REPEATED", fields=GROWN),
        Column("late", "STRING"),
        Column("lates", "INT64", "REPEATED"),
        Column("deep", "STRUCT", fields=(Column("list", "INT64", "REPEATED"),)),
    )
)


@pytest.mark.parametrize("partitioning", [None, TimePartitioning("MONTH"), RangePartitioning("id", 0, 9, 1)])
def test_older_files_read_as_null_or_empty_in_columns_that_were_added_later(
    partitioning: Partitioning | None,
) -> None:
    store = MemoryStore()
    catalog = Catalog(store)
    catalog.create_dataset(DatasetName("p", "d"))
    before = catalog.create_table(NAME, OLD, partitioning=partitioning)
    rows: list[dict[str, Any]] = [
        {"id": 1, "one": {"n": 1}, "many": [{"n": 1}, {"n": 2}]},
        {"id": 2, "one": None, "many": []},
    ]
    before.open(store).write(before.prepare(pa.RecordBatch.from_pylist(rows, schema=OLD.arrow)))
    after = catalog.update_table(NAME, lambda now: msgspec.structs.replace(now, schema=NEW))
    new = {
        "id": 3,
        "one": {"n": 3, "s": "x", "list": [3]},
        "many": [],
        "late": "l",
        "lates": [1],
        "deep": {"list": [1]},
    }
    write_rows(after, store, pa.RecordBatch.from_pylist([new], schema=NEW.arrow))

    batches = [complete(batch, NEW) for batch in after.open(store).scan()]
    for batch in batches:
        assert batch.schema == NEW.arrow
        batch.validate(full=True)
    read = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["id"])
    assert read == [
        {
            "id": 1,
            "one": {"n": 1, "s": None, "list": []},
            "many": [{"n": 1, "s": None, "list": []}, {"n": 2, "s": None, "list": []}],
            "late": None,
            "lates": [],
            "deep": None,
        },
        {"id": 2, "one": None, "many": [], "late": None, "lates": [], "deep": None},
        new,
    ]


def test_a_slice_with_null_lists_is_completed() -> None:
    kind = pa.list_(pa.int64())
    batch = pa.record_batch({"lates": pa.array([[9], None, [1, 2], None, [3]], kind)}).slice(1, 3)
    schema = TableSchema((Column("lates", "INT64", "REPEATED"),))
    assert complete(batch, schema).to_pylist() == [{"lates": []}, {"lates": [1, 2]}, {"lates": []}]


REQUIRED_INSIDE = TableSchema(
    (
        Column(
            "a",
            "STRUCT",
            fields=(
                Column("n", "INT64", "REQUIRED"),
                Column("s", "STRING", "REQUIRED"),
                Column("yes", "BOOL", "REQUIRED"),
                Column(
                    "b",
                    "STRUCT",
                    "REQUIRED",
                    fields=(Column("d", "NUMERIC", "REQUIRED"), Column("o", "STRING")),
                ),
            ),
        ),
        Column(
            "l",
            "STRUCT",
            "REPEATED",
            fields=(Column("a", "STRUCT", fields=(Column("n", "INT64", "REQUIRED"),)),),
        ),
    )
)


def test_a_null_struct_may_have_required_fields() -> None:
    full = {
        "a": {"n": 1, "s": "x", "yes": True, "b": {"d": 2, "o": None}},
        "l": [{"a": None}, {"a": {"n": 5}}],
    }
    _, read = written(
        created(None, REQUIRED_INSIDE), {"a": None, "l": []}, full, {"a": None, "l": [{"a": None}]}
    )
    assert read == [{"a": None, "l": []}, full, {"a": None, "l": [{"a": None}]}]


def test_a_slice_with_null_structs_is_written_unchanged() -> None:
    definition = created(None, REQUIRED_INSIDE)
    full = {"a": {"n": 1, "s": "x", "yes": True, "b": {"d": 2, "o": "o"}}, "l": [{"a": {"n": 7}}]}
    rows: list[dict[str, Any]] = [full, {"a": None, "l": [{"a": None}]}, full, {"a": None, "l": []}]
    batch = pa.RecordBatch.from_pylist(rows, schema=REQUIRED_INSIDE.arrow).slice(1, 3)
    store = MemoryStore()
    definition.open(store).write(definition.prepare(batch))
    assert definition.open(store).scan().read_all().to_pylist() == rows[1:]
