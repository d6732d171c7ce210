"""The definition of a table's dataset: it follows the catalog, and refuses no acknowledged row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lode
from lode.ingest.core.strategies import StreamType
from lode.ingest.names import TableName
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.store import CountingStore
from support.ingest.engines import PARTS, PLAIN, SCHEMA, TABLES, WIDER, append, engine_on, ids_in, lake, rows
from support.stored_objects import complaints, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.core.engine import Engine

COMMITTED, PENDING, BUFFERED = StreamType.COMMITTED, StreamType.PENDING, StreamType.BUFFERED
STAGED = (PENDING, BUFFERED)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(lake())


@pytest.fixture
def engine(store: CountingStore, tmp_path: Path) -> Iterator[Engine]:
    running = engine_on(store, tmp_path / "state")
    yield running
    running.close()


def id_of(table: TableName) -> str:
    return ".".join(table)


def as_library(store: CountingStore, table: TableName = PLAIN) -> lode.Dataset:
    """The dataset of a table, opened by a program that does not use the server."""
    return lode.Dataset(id_of(table), store)


def set_schema(engine: Engine, schema: TableSchema, table: TableName = PLAIN) -> None:
    engine.catalog.update_table(table, lambda now: msgspec.structs.replace(now, schema=schema))


def new_table(engine: Engine, *columns: Column) -> TableName:
    name = TableName("p", "d", "new")
    engine.catalog.create_table(name, TableSchema(columns))
    return name


def append_rows(engine: Engine, table: TableName, *values: dict[str, Any]) -> None:
    schema = engine.catalog.table(table).schema.arrow
    engine.append(table, pa.RecordBatch.from_pylist(list(values), schema=schema)).result(120)


def staged(engine: Engine, kind: StreamType, ids: list[int], table: TableName = PLAIN) -> Any:
    """A stream with acknowledged rows that are not visible."""
    stream = engine.create_stream(table, kind)
    append(stream, ids)
    return stream


def show(engine: Engine, stream: Any) -> None:
    """Make all rows of a staged stream visible."""
    if stream.type is BUFFERED:
        engine.flush(stream.name, stream.position.durable - 1)
        return
    engine.finalize(stream.name)
    assert not engine.batch_commit(stream.name.table, [stream.name]).problems


# -- the catalog's schema becomes the dataset's -----------------------------------------------------


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
def test_a_new_column_is_in_the_definition_of_the_first_snapshot_that_has_it(
    engine: Engine, store: CountingStore, table: TableName
) -> None:
    engine.append(table, rows([1])).result(120)
    set_schema(engine, WIDER, table)
    engine.append(table, rows([2], WIDER)).result(120)
    dataset = as_library(store, table)
    first, second = dataset.snapshots()
    before, after = (dataset.schema_at(snapshot) for snapshot in (first, second))
    assert before is not None
    assert after is not None
    assert after.names == [*before.names, "more"]
    found = dataset.scan(columns=["id", "more"]).read_all().to_pylist()
    assert found == [{"id": 1, "more": None}, {"id": 2, "more": "more 2"}]


def test_relaxed_columns_nested_members_and_repeated_ones_evolve_the_dataset(
    engine: Engine, store: CountingStore
) -> None:
    member = Column("n", "INT64", "REQUIRED")
    table = new_table(
        engine,
        Column("id", "INT64", "REQUIRED"),
        Column("one", "STRUCT", fields=(member,)),
        Column("many", "STRUCT", "REPEATED", fields=(member,)),
    )
    append_rows(engine, table, {"id": 1, "one": {"n": 1}, "many": [{"n": 1}]})
    inner = (Column("list", "INT64", "REPEATED"), Column("n", "INT64"), Column("s", "STRING"))
    set_schema(
        engine,
        TableSchema(
            (
                Column("many", "STRUCT", "REPEATED", fields=inner),
                Column("id", "INT64"),
                Column("one", "STRUCT", fields=inner),
            )
        ),
        table,
    )
    append_rows(engine, table, {"many": [{"n": None, "s": "x", "list": [1]}], "id": None, "one": None})
    found = as_library(store, table).scan().read_all()
    assert found.to_pylist() == [
        {
            "id": 1,
            "one": {"n": 1, "list": None, "s": None},
            "many": [{"n": 1, "list": None, "s": None}],
        },
        {"id": None, "one": None, "many": [{"n": None, "list": [1], "s": "x"}]},
    ]


def test_a_reordered_struct_keeps_its_values(engine: Engine, store: CountingStore) -> None:
    one, two = Column("a", "STRING"), Column("b", "STRING")
    table = new_table(engine, Column("s", "STRUCT", fields=(one, two)))
    append_rows(engine, table, {"s": {"a": "a", "b": "b"}})
    set_schema(engine, TableSchema((Column("s", "STRUCT", fields=(two, one)),)), table)
    append_rows(engine, table, {"s": {"a": "a", "b": "b"}})
    assert as_library(store, table).scan().read_all().to_pylist() == [{"s": {"a": "a", "b": "b"}}] * 2


def test_a_table_that_gets_its_columns_later_accepts_rows(engine: Engine, store: CountingStore) -> None:
    table = new_table(engine)
    stream = engine.create_stream(table, PENDING)
    set_schema(engine, SCHEMA, table)
    append(stream, [1])
    show(engine, stream)
    engine.append(table, rows([2])).result(120)
    assert ids_in(store, table) == [1, 2]
    assert as_library(store, table).scan().schema.names == ["id", "text"]


def test_the_partitioning_column_is_the_one_whose_range_snapshots_record(
    engine: Engine, store: CountingStore
) -> None:
    from datetime import UTC, datetime

    from lode.ingest.catalog.partitioning import TimePartitioning

    name = TableName("p", "d", "times")
    columns = TableSchema((Column("at", "TIMESTAMP"),))
    engine.catalog.create_table(name, columns, partitioning=TimePartitioning("HOUR", "at"))
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    append_rows(engine, name, {"at": moment})
    dataset = as_library(store, name)
    assert dataset.definition.timestamp_column == "at"
    dataset.evolve(rename={"at": "when"})
    append_rows(engine, name, {"at": moment})
    assert dataset.definition.timestamp_column == "at"
    assert dataset.latest().manifest.min_timestamp == dataset.snapshots()[0].manifest.min_timestamp


# -- costs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [StreamType.DEFAULT, COMMITTED, BUFFERED], ids=lambda kind: kind.name)
def test_a_commit_with_unchanged_columns_makes_no_store_call_for_them(
    engine: Engine, store: CountingStore, kind: StreamType
) -> None:
    stream = engine.stream(PLAIN.default_stream) if kind is StreamType.DEFAULT else None
    stream = stream or engine.create_stream(PLAIN, kind)

    def write() -> None:
        append(stream, [1])
        if kind is BUFFERED:
            show(engine, stream)

    write()
    store.reset()
    write()
    calls = [(method, path.rsplit("/", 1)[-1]) for method, path in store.events if "catalog/" not in path]
    commit = [("put", "intent.json"), ("compare_and_swap", "latest"), ("put", "manifest.json")]
    data = "data-00000.parquet" if kind is BUFFERED else "data.parquet"
    assert calls == [("put", data), *commit]


def test_a_commit_with_new_columns_makes_one_more_store_call(engine: Engine, store: CountingStore) -> None:
    engine.append(PLAIN, rows([1])).result(120)
    set_schema(engine, WIDER)
    store.reset()
    engine.append(PLAIN, rows([2], WIDER)).result(120)
    calls = [method for method, path in store.events if "catalog/" not in path]
    assert calls == ["put", "put", "put", "compare_and_swap", "put"]


# -- changes by other programs -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", STAGED, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "change",
    [
        {"add": {"note": "string"}},
        {"rename": {"text": "label"}},
        {"drop": ["text"]},
        {"rename": {"text": "label"}, "add": {"text": "int64"}},
        {"drop": ["text"], "add": {"text": "date"}},
        {"widen": {"id": pa.decimal128(38, 2)}},
    ],
    ids=str,
)
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_acknowledged_rows_survive_every_change_of_columns(
    store: CountingStore, tmp_path: Path, kind: StreamType, change: dict[str, Any], restarted: bool
) -> None:
    engine = engine_on(store, tmp_path / "state")
    engine.append(PLAIN, rows([1])).result(120)
    stream = staged(engine, kind, [2])
    as_library(store).evolve(**change)
    if restarted:
        engine.close()
        engine = engine_on(store, tmp_path / "state")
        stream = engine.stream(stream.name)
    show(engine, stream)
    engine.close()
    dataset = as_library(store)
    assert [row["id"] for row in dataset.scan().read_all().to_pylist()] == [1, 2]
    assert dataset.scan(columns=["text"]).read_all().to_pylist()[1] == {"text": "text 2"}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
def test_a_column_that_is_renamed_for_the_table_keeps_its_values(
    engine: Engine, store: CountingStore, table: TableName
) -> None:
    stream = staged(engine, PENDING, [2], table)
    dataset = as_library(store, table)
    dataset.evolve(rename={"text": "label"}, add={"text": "int64"})
    key = {"_PARTITIONID": "0"} if table is PARTS else {}
    dataset.write(pa.table({name: [value] for name, value in {"id": 1, "text": 5, **key}.items()}))
    show(engine, stream)
    found = as_library(store, table).scan(columns=["id", "text", "text_2", "label"]).read_all()
    assert found.sort_by("id").to_pylist() == [
        {"id": 1, "text": None, "text_2": 5, "label": None},
        {"id": 2, "text": "text 2", "text_2": None, "label": None},
    ]


def test_a_column_renamed_between_staging_and_commit_is_staged_again(
    engine: Engine, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lode.ingest.core import publish

    stream = staged(engine, PENDING, [1])
    done: list[int] = []
    stage_rows = publish.stage_rows

    def stage_and_rename(*arguments: Any) -> None:
        stage_rows(*arguments)
        if not done:
            as_library(store).evolve(rename={"text": "label"})
        done.append(1)

    monkeypatch.setattr(publish, "stage_rows", stage_and_rename)
    show(engine, stream)
    found = as_library(store).scan().read_all().to_pylist()
    assert (found, len(done)) == ([{"id": 1, "label": None, "text": "text 1"}], 2)


def test_members_added_by_both_sides_are_merged(engine: Engine, store: CountingStore) -> None:
    a, c = Column("a", "INT64"), Column("c", "INT64")
    table = new_table(engine, Column("s", "STRUCT", fields=(a,)))
    append_rows(engine, table, {"s": {"a": 1}})
    ours = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    as_library(store, table).evolve(widen={"s": ours})
    set_schema(engine, TableSchema((Column("s", "STRUCT", fields=(a, c)),)), table)
    append_rows(engine, table, {"s": {"a": 2, "c": 3}})
    assert as_library(store, table).scan().read_all().to_pylist() == [
        {"s": {"a": 1, "b": None, "c": None}},
        {"s": {"a": 2, "b": None, "c": 3}},
    ]


def test_appends_that_are_not_acknowledged_are_refused_while_a_column_does_not_fit(
    engine: Engine, store: CountingStore
) -> None:
    engine.append(PLAIN, rows([1])).result(120)
    committed = engine.create_stream(PLAIN, COMMITTED)
    dataset = as_library(store)
    dataset.evolve(rename={"text": "label"}, add={"text": "int64"})
    for stream in (engine.stream(PLAIN.default_stream), committed):
        with pytest.raises(Refused, match="'text' is int64") as refused:
            append(stream, [2])
        assert refused.value.code is Code.FAILED_PRECONDITION
    dataset.evolve(rename={"text": "number"})
    append(committed, [2], 0)
    assert ids_in(store, PLAIN) == [1, 2]


def first_append(engine: Engine, kind: StreamType) -> None:
    name = PLAIN.default_stream if kind is StreamType.DEFAULT else engine.create_stream(PLAIN, kind).name
    append(engine.stream(name), [1])


@pytest.mark.parametrize("kind", list(StreamType), ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "options", [{"codec": "jsonl"}, {"codec": lode.Parquet({"id": "string"})}], ids=["codec", "columns"]
)
def test_a_table_over_a_dataset_it_does_not_fit_is_refused_before_anything_is_acknowledged(
    engine: Engine, store: CountingStore, kind: StreamType, options: dict[str, Any]
) -> None:
    lode.Dataset(id_of(PLAIN), store, **options).write([{"id": "x"}])
    with pytest.raises(Refused) as refused:
        first_append(engine, kind)
    assert refused.value.code is Code.FAILED_PRECONDITION


def test_a_stream_of_staged_rows_creates_the_dataset_first(engine: Engine, store: CountingStore) -> None:
    staged(engine, PENDING, [1])
    taken = lode.Dataset(id_of(PLAIN), store, codec="jsonl")
    with pytest.raises(lode.ComponentMismatchError, match="codec"):
        taken.write([{"id": 1}])


# -- other writers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "column"),
    [
        ({"id": ["one"]}, "id"),
        ({"id": [1], "extra": [1]}, "extra"),
    ],
    ids=["type", "column"],
)
def test_a_library_writer_that_disagrees_with_the_table_is_refused(
    engine: Engine, store: CountingStore, data: dict[str, list[Any]], column: str
) -> None:
    engine.append(PLAIN, rows([1])).result(120)
    with pytest.raises(lode.SchemaViolationError, match=column):
        as_library(store).write(pa.table(data))
    assert ids_in(store, PLAIN) == [1]


def test_a_library_writer_without_a_required_column_is_refused(engine: Engine, store: CountingStore) -> None:
    table = new_table(engine, Column("id", "INT64", "REQUIRED"), Column("text", "STRING"))
    append_rows(engine, table, {"id": 1, "text": "x"})
    with pytest.raises(lode.SchemaViolationError, match="id"):
        as_library(store, table).write(pa.table({"text": ["y"]}))


def test_files_of_the_server_have_the_ids_of_columns(engine: Engine, store: CountingStore) -> None:
    name = new_table(engine, Column("id", "INT64"), Column("tags", "STRING", mode="REPEATED"))
    append_rows(engine, name, {"id": 1, "tags": ["a"]})
    dataset = as_library(store, name)
    (file,) = dataset.latest().files
    schema = pq.read_schema(pa.BufferReader(store.get(file.path)))
    ids = dataset.definition.field_ids
    assert ids is not None
    top = {field.name: int((field.metadata or {})[b"PARQUET:field_id"]) for field in schema}
    assert top == {column: id.id for column, id in ids.items()}
    inner: Any = schema.field("tags").type
    assert inner.value_field.metadata[b"PARQUET:field_id"] == str(ids["tags"].inside["element"].id).encode()


def test_every_object_of_the_server_fulfils_its_schema(engine: Engine, store: CountingStore) -> None:
    name = new_table(engine, Column("id", "INT64"), Column("s", "STRUCT", fields=(Column("x", "STRING"),)))
    append_rows(engine, name, {"id": 1, "s": {"x": "a"}})
    append_rows(engine, PARTS, {"id": 1, "text": "a"})
    engine.catalog.delete_table(name)
    found = {entry.path: store.get(entry.path) for entry in store.list()}
    kinds = {kind_of(path) for path in found if not path.startswith("ingest-state/")}
    assert {"catalog-dataset", "catalog-table", "manifest", "definition"} <= kinds
    wrong = [
        complaint
        for path, data in found.items()
        if not path.startswith("ingest-state/")
        for complaint in complaints(path, data)
    ]
    assert wrong == []
