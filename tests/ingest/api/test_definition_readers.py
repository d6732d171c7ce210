"""Files written before a column was added, widened, renamed or dropped, through the Read API and REST."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.api_core import exceptions
from google.cloud.bigquery import SchemaField

import lode
from lode.ingest.types.columns import Column
from support.ingest.reading import Lake, Served, grown, opened, read, session
from support.ingest.rest_served import RestServed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.names import TableName
    from lode.store import CountingStore

ID = Column("id", "INT64")
TEXT = Column("text", "STRING")


@pytest.fixture
def rest(lake: Lake) -> Iterator[RestServed]:
    with RestServed(lake.store) as served:
        yield served


class Readers:
    """Both ways to read a table."""

    def __init__(self, served: Served, rest: RestServed) -> None:
        self.client = served.client
        self._rest = rest.client()

    def storage(self, table: TableName, **options: Any) -> list[dict[str, Any]]:
        return read(self.client, session(self.client, table, **options))

    def both(self, table: TableName) -> list[dict[str, Any]]:
        found = self.storage(table)
        listed = [dict(row.items()) for row in self._rest.list_rows(self._rest.get_table(".".join(table)))]
        assert listed == found
        return found


@pytest.fixture
def readers(served: Served, rest: RestServed) -> Readers:
    return Readers(served, rest)


def dataset_of(lake: Lake, table: TableName) -> lode.Dataset:
    return lode.Dataset(".".join(table), lake.store)


def written(lake: Lake, *, rows: int = 2) -> TableName:
    table = lake.table("t", [ID, TEXT])
    lake.write(table, [{"id": number, "text": f"text {number}"} for number in range(rows)])
    return table


def test_a_column_added_since_the_last_commit_is_null(lake: Lake, readers: Readers) -> None:
    table = written(lake)
    grown(lake, table, Column("late", "STRING"), Column("lates", "INT64", "REPEATED"))
    more: dict[str, Any] = {"late": None, "lates": []}
    old = [{"id": number, "text": f"text {number}", **more} for number in range(2)]
    assert readers.both(table) == old
    assert readers.storage(table, selected_fields=["late"]) == [{"late": None}] * 2
    lake.write(table, [{"id": 2, "text": "text 2", "late": "now", "lates": [1]}])
    assert readers.both(table) == [*old, {"id": 2, "text": "text 2", "late": "now", "lates": [1]}]


def test_rest_lists_a_selection_of_columns_added_since_the_last_commit(lake: Lake, rest: RestServed) -> None:
    table = written(lake)
    grown(lake, table, Column("late", "STRING"))
    client = rest.client()
    described = client.get_table(".".join(table))
    listed = client.list_rows(described, selected_fields=[described.schema[2]])
    assert [dict(row.items()) for row in listed] == [{"late": None}] * 2


def test_a_column_renamed_by_the_library_is_found_by_its_id(lake: Lake, readers: Readers) -> None:
    table = written(lake)
    dataset_of(lake, table).evolve(rename={"text": "label"})
    # The table's name for it is still text, which the dataset lacks until the next append.
    assert readers.both(table) == [{"id": 0, "text": None}, {"id": 1, "text": None}]
    grown(lake, table, Column("label", "STRING"))
    lake.write(table, [{"id": 2, "text": "new", "label": "both"}])
    assert readers.both(table) == [
        {"id": 0, "text": None, "label": "text 0"},
        {"id": 1, "text": None, "label": "text 1"},
        {"id": 2, "text": "new", "label": "both"},
    ]
    assert readers.storage(table, row_restriction="label = 'text 1'") == [
        {"id": 1, "text": None, "label": "text 1"}
    ]
    assert len(readers.storage(table, row_restriction="text IS NULL")) == 2


def test_two_columns_that_swapped_their_names_swap_their_values(lake: Lake, readers: Readers) -> None:
    table = lake.table("t", [Column("a", "STRING"), Column("b", "STRING")])
    lake.write(table, [{"a": "1", "b": "2"}])
    dataset_of(lake, table).evolve(rename={"a": "c"})
    dataset_of(lake, table).evolve(rename={"b": "a"})
    dataset_of(lake, table).evolve(rename={"c": "b"})
    lake.write(table, [{"a": "3", "b": "4"}])
    assert readers.both(table) == [{"a": "2", "b": "1"}, {"a": "3", "b": "4"}]
    assert readers.storage(table, row_restriction="a = '2'") == [{"a": "2", "b": "1"}]


def test_a_new_column_does_not_get_the_values_of_a_dropped_one_of_its_name(
    lake: Lake, readers: Readers
) -> None:
    table = written(lake)
    dataset_of(lake, table).evolve(drop=["text"])
    gone = [{"id": 0, "text": None}, {"id": 1, "text": None}]
    assert readers.both(table) == gone
    assert readers.storage(table, row_restriction="text IS NULL") == gone
    lake.write(table, [{"id": 2, "text": "new"}])
    assert readers.both(table) == [*gone, {"id": 2, "text": "new"}]
    assert readers.storage(table, row_restriction="text IS NULL") == gone


@pytest.mark.parametrize("groups", [1, 4], ids=["one row group", "row groups"])
def test_files_of_a_narrower_type_read_as_the_tables_type(
    lake: Lake, readers: Readers, store: CountingStore, groups: int
) -> None:
    narrow = pa.schema([("id", pa.int32()), ("at", pa.timestamp("ms", "UTC"))])
    codec = lode.Parquet(narrow, row_group_rows=8 // groups)
    lode.Dataset("p.d.t", lake.store, codec=codec, checksum="xxh3-128").write(
        [{"id": number, "at": None} for number in range(8)]
    )
    table = lake.table("t", [ID, Column("at", "TIMESTAMP")])
    assert [row["id"] for row in readers.both(table)] == list(range(8))
    lake.write(table, [{"id": 2**40, "at": None}])
    schema = dataset_of(lake, table).schema
    assert schema is not None
    assert schema.field("id").type == pa.int64()
    assert [row["id"] for row in readers.both(table)] == [*range(8), 2**40]
    assert [row["id"] for row in readers.storage(table, row_restriction="id > 5")] == [6, 7, 2**40]
    store.reset()
    assert [row["id"] for row in readers.storage(table, row_restriction="id > 100")] == [2**40]
    assert opened(store) == 1


@pytest.mark.parametrize("kind", [pa.large_list, pa.list_], ids=["large", "plain"])
def test_rows_that_the_library_writes_are_visible(lake: Lake, readers: Readers, kind: Any) -> None:
    part = Column("part", "STRUCT", "REPEATED", (Column("n", "INT64"), Column("s", "STRING")))
    table = lake.table("t", [ID, part])
    lake.write(table, [{"id": 1, "part": [{"n": 1, "s": "a"}]}])
    rows = [{"id": 2, "part": [{"n": 2, "s": "b"}, {"n": None, "s": None}]}, {"id": 3, "part": []}]
    schema = pa.schema(
        [("id", pa.int64()), ("part", kind(pa.struct([("n", pa.int64()), ("s", pa.string())])))]
    )
    dataset_of(lake, table).write(pa.Table.from_pylist(rows, schema=schema))
    assert readers.both(table) == [{"id": 1, "part": [{"n": 1, "s": "a"}]}, *rows]


def test_an_older_dataset_of_large_types_reads_as_a_table(lake: Lake, readers: Readers) -> None:
    member = pa.struct([("n", pa.int64()), ("s", pa.large_string())])
    schema = pa.schema([("id", pa.int64()), ("part", pa.large_list(member))])
    rows = [{"id": 2, "part": [{"n": 2, "s": "b"}]}, {"id": 3, "part": []}]
    lode.Dataset("p.d.t", lake.store, codec=lode.Parquet(schema)).write(rows)
    part = Column("part", "STRUCT", "REPEATED", (Column("n", "INT64"), Column("s", "STRING")))
    table = lake.table("t", [ID, part])
    assert readers.both(table) == rows
    lake.write(table, [{"id": 4, "part": [{"n": 4, "s": "c"}]}])
    assert readers.both(table) == [*rows, {"id": 4, "part": [{"n": 4, "s": "c"}]}]
    assert readers.storage(table, selected_fields=["part.s"])[0] == {"part": [{"s": "b"}]}


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.int64(), 2),
        pa.large_list(pa.struct([("a", pa.int64()), ("b", pa.int64())])),
        pa.struct([("a", pa.map_(pa.string(), pa.string())), ("b", pa.int64())]),
        pa.json_(),
    ],
    ids=str,
)
def test_columns_that_only_the_dataset_has_are_ignored(
    lake: Lake, readers: Readers, kind: pa.DataType
) -> None:
    schema = pa.schema([("foreign", kind), ("id", pa.int64()), ("text", pa.string())])
    rows: dict[str, list[Any]] = {"foreign": [None], "id": [1], "text": ["one"]}
    lode.Dataset("p.d.t", lake.store, codec=lode.Parquet(schema)).write(pa.table(rows, schema=schema))
    table = lake.table("t", [ID, TEXT])
    lake.write(table, [{"id": 2, "text": "two"}])
    assert readers.both(table) == [{"id": 1, "text": "one"}, {"id": 2, "text": "two"}]


def test_a_map_of_another_writer_reads_as_a_repeated_struct(lake: Lake, readers: Readers) -> None:
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int64())), ("id", pa.int64())])
    dataset = lode.Dataset("p.d.t", lake.store, codec=lode.Parquet(schema))
    dataset.write([{"m": {"a": 1}, "id": 1}, {"m": {}, "id": 2}])
    pair = (Column("key", "STRING"), Column("value", "INT64"))
    table = lake.table("t", [Column("m", "STRUCT", "REPEATED", pair), ID])
    assert readers.both(table) == [{"m": [{"key": "a", "value": 1}], "id": 1}, {"m": [], "id": 2}]


def test_a_session_of_an_earlier_snapshot_has_its_columns(lake: Lake, readers: Readers) -> None:
    table = written(lake)
    made = session(readers.client, table)
    dataset_of(lake, table).evolve(rename={"text": "label"})
    lake.write(table, [{"id": 9, "text": "new"}])
    assert read(readers.client, made) == [{"id": 0, "text": "text 0"}, {"id": 1, "text": "text 1"}]


def test_a_value_outside_the_tables_type_is_refused_with_its_column(
    lake: Lake, readers: Readers, rest: RestServed
) -> None:
    table = written(lake)
    dataset = dataset_of(lake, table)
    dataset.evolve(widen={"id": pa.decimal128(38, 2)})
    dataset_of(lake, table).write(pa.table({"id": pa.array([Decimal("7.50")]), "text": ["half"]}))
    with pytest.raises(exceptions.FailedPrecondition, match="'id'"):
        readers.storage(table)
    with pytest.raises(exceptions.PreconditionFailed, match="'id'"):
        listed(rest, table)
    assert len(readers.storage(table, selected_fields=["text"])) == 3


def test_a_dataset_of_another_codec_is_refused(lake: Lake, readers: Readers, rest: RestServed) -> None:
    lode.Dataset("p.d.t", lake.store, codec="jsonl").write([{"id": 1}])
    table = lake.table("t", [ID, TEXT])
    with pytest.raises(exceptions.FailedPrecondition, match="codec"):
        readers.storage(table)
    with pytest.raises(exceptions.PreconditionFailed, match="codec"):
        listed(rest, table)


def listed(rest: RestServed, table: TableName) -> list[Any]:
    client = rest.client()
    return list(client.list_rows(".".join(table), selected_fields=[SchemaField("id", "INT64")]))
