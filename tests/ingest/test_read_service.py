"""The Storage Read API through the official client: sessions, columns, snapshots, and what they read."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import grpc
import msgspec
import pyarrow as pa
import pytest
from google.api_core import exceptions
from google.cloud.bigquery_storage_v1 import types

from ingest.reading import PARENT, Lake, Served, batches_of, read, rows_of, session
from lode.errors import StoreError
from lode.ingest.catalog.partitioning import TimePartitioning
from lode.ingest.read.service import ReadService
from lode.ingest.schema.columns import Column, TableSchema
from lode.store import CountingStore, Fault, FaultStore, LocalStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.names import TableName

ID = Column("id", "INT64", "REQUIRED")
NAME = Column("name", "STRING")
# The client's own way to tables of Arrow is to move to another package.
MOVING = pytest.mark.filterwarnings(
    "ignore:.*google-cloud-bigquery-storage is deprecated:PendingDeprecationWarning"
)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def lake(store: CountingStore) -> Lake:
    return Lake(store)


@pytest.fixture
def served(lake: Lake) -> Iterator[Served]:
    with Served(lake.service()) as server:
        yield server


def three_writes(lake: Lake, name: str = "t") -> TableName:
    """Ids 0-9, 10-19 and 20-29, in one snapshot of one file each."""
    table = lake.table(name, [ID, NAME])
    for ten in range(0, 30, 10):
        lake.write(table, [{"id": ten + one, "name": "ab"[one % 2]} for one in range(10)])
    return table


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def opened(store: CountingStore) -> int:
    """How many data files were opened."""
    reading = ("open_reader", "get", "get_range")
    return len({path for method, path in store.events if method in reading and "/data/" in path})


def grown(lake: Lake, table: TableName, *columns: Column) -> None:
    """Add columns to a table."""
    lake.catalog.update_table(
        table,
        lambda old: msgspec.structs.replace(old, schema=TableSchema((*old.schema.columns, *columns))),
    )


# -- what is read ----------------------------------------------------------------------------------


def test_one_stream_reads_everything_in_the_order_of_history(lake: Lake, served: Served) -> None:
    made = session(served.client, three_writes(lake), max_stream_count=1)
    assert len(made.streams) == 1
    assert ids(read(served.client, made)) == list(range(30))
    assert made.estimated_row_count == 30
    assert made.estimated_total_bytes_scanned > 0


@MOVING
def test_the_official_helpers_make_tables_and_frames(lake: Lake, served: Served) -> None:
    made = session(served.client, three_writes(lake))
    table = served.client.read_rows(made.streams[0].name).to_arrow(made)
    assert table["id"].to_pylist() == list(range(30))
    frame = served.client.read_rows(made.streams[0].name).to_dataframe(made)
    assert frame["id"].tolist() == list(range(30))


def test_every_type_comes_back_as_it_was_written(lake: Lake, served: Served) -> None:
    moment = datetime(2024, 2, 29, 12, 30, 0, 1)
    row: dict[str, Any] = {
        "s": "ü",
        "y": b"\xff\x00",
        "i": -(2**63),
        "f": 0.1,
        "b": True,
        "ts": moment.replace(tzinfo=UTC),
        "d": date(1, 1, 1),
        "t": time(23, 59, 59, 999_999),
        "dt": moment,
        "n": Decimal("-99999999999999999999999999999.999999999"),
        "bn": Decimal("1e-38"),
        "j": '{"a": 1}',
        "r": {"start": date(2024, 1, 1), "end": None},
        "st": {"x": None, "many": [{"z": 1}, {"z": None}]},
        "list": ["a", ""],
    }
    inner = Column("many", "STRUCT", "REPEATED", (Column("z", "INT64"),))
    kinds = (
        "STRING",
        "BYTES",
        "INT64",
        "FLOAT64",
        "BOOL",
        "TIMESTAMP",
        "DATE",
        "TIME",
        "DATETIME",
        "NUMERIC",
    )
    simple = [Column(name, kind) for name, kind in zip(row, kinds, strict=False)]
    table = lake.table(
        "t",
        [
            *simple,
            Column("bn", "BIGNUMERIC"),
            Column("j", "JSON"),
            Column("r", "RANGE", range_element="DATE"),
            Column("st", "STRUCT", fields=(Column("x", "INT64"), inner)),
            Column("list", "STRING", "REPEATED"),
        ],
    )
    empty: dict[str, Any] = {name: [] if name == "list" else None for name in row}
    lake.write(table, [row, empty])
    made = session(served.client, table)
    assert read(served.client, made) == [row, empty]
    schema = pa.ipc.read_schema(pa.py_buffer(made.arrow_schema.serialized_schema))
    assert schema.equals(lake.catalog.table(table).schema.arrow, check_metadata=True)


def test_a_table_without_rows_has_a_schema_and_no_streams(lake: Lake, served: Served) -> None:
    made = session(served.client, lake.table("t", [ID, NAME]))
    assert list(made.streams) == []
    schema = pa.ipc.read_schema(pa.py_buffer(made.arrow_schema.serialized_schema))
    assert schema.names == ["id", "name"]


def test_what_is_committed_later_is_not_in_a_session(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    made = session(served.client, table, max_stream_count=1)
    lake.write(table, [{"id": 99}])
    assert ids(read(served.client, made)) == list(range(30))
    assert 99 in ids(read(served.client, session(served.client, table)))


def test_a_session_outlives_its_server(tmp_path: Path) -> None:
    lake = Lake(LocalStore(tmp_path))
    table = three_writes(lake)
    with Served(lake.service()) as first:
        made = session(
            first.client, table, max_stream_count=3, selected_fields=["id"], row_restriction="id > 4"
        )
    with Served(lake.service()) as second:
        assert ids(read(second.client, made)) == list(range(5, 30))


def test_the_names_of_a_session_too_long_for_a_header_stay_short(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    values = ", ".join(f"{number * 7919}" for number in range(5_000))
    made = session(served.client, table, row_restriction=f"id IN ({values}, 3)")
    again = session(served.client, table, row_restriction=f"id IN ({values}, 3)")
    assert len(made.streams[0].name) < 200
    assert again.name == made.name
    assert ids(read(served.client, made)) == [0, 3]


# -- columns ---------------------------------------------------------------------------------------

NESTED = (
    ID,
    Column(
        "a",
        "STRUCT",
        fields=(
            Column("b", "INT64"),
            Column("c", "STRING"),
            Column("d", "STRUCT", fields=(Column("e", "INT64"),)),
        ),
    ),
    Column("l", "STRUCT", "REPEATED", (Column("x", "INT64"), Column("y", "INT64"))),
)
NESTED_ROWS: list[dict[str, Any]] = [
    {"id": 1, "a": {"b": 1, "c": "x", "d": {"e": 5}}, "l": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]},
    {"id": 2, "a": {"b": None, "c": None, "d": None}, "l": []},
    {"id": 3, "a": None, "l": [{"x": None, "y": None}]},
]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["ID"], [{"id": 1}, {"id": 2}, {"id": 3}]),
        (["a.B", "id"], [{"id": 1, "a": {"b": 1}}, {"id": 2, "a": {"b": None}}, {"id": 3, "a": None}]),
        (["a.d.e"], [{"a": {"d": {"e": 5}}}, {"a": {"d": None}}, {"a": None}]),
        (["l.y"], [{"l": [{"y": 2}, {"y": 4}]}, {"l": []}, {"l": [{"y": None}]}]),
        (["a", "a.b"], [{"a": row["a"]} for row in NESTED_ROWS]),
    ],
)
def test_selected_fields_prune_structs_too(
    lake: Lake, served: Served, fields: list[str], expected: list[dict[str, Any]]
) -> None:
    table = lake.table("t", NESTED)
    lake.write(table, NESTED_ROWS)
    made = session(served.client, table, selected_fields=fields)
    assert read(served.client, made) == expected


def test_the_columns_of_a_restriction_need_not_be_selected(lake: Lake, served: Served) -> None:
    table = lake.table("t", NESTED)
    lake.write(table, NESTED_ROWS)
    made = session(served.client, table, selected_fields=["a.c"], row_restriction="id < 3 AND a.d.e = 5")
    assert read(served.client, made) == [{"a": {"c": "x"}}]


@pytest.mark.parametrize("field", ["nope", "a.nope", "id.x", "a.b.c", "", ".", "_PARTITIONID", "l.item"])
def test_an_unknown_field_is_refused_by_name(lake: Lake, served: Served, field: str) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="field"):
        session(served.client, lake.table("t", NESTED), selected_fields=[field])


def test_columns_added_later_are_null_in_older_rows_and_lists_empty(lake: Lake, served: Served) -> None:
    table = lake.table("t", [ID, Column("a", "STRUCT", fields=(Column("b", "INT64"),))])
    lake.write(table, [{"id": 1, "a": {"b": 1}}, {"id": 2, "a": None}])
    added = (Column("c", "STRING"), Column("tags", "STRING", "REPEATED"))
    lake.catalog.update_table(
        table,
        lambda old: msgspec.structs.replace(
            old,
            schema=TableSchema(
                (
                    ID,
                    Column("a", "STRUCT", fields=(Column("b", "INT64"), Column("n", "INT64"), *added[1:])),
                    *added,
                )
            ),
        ),
    )
    lake.write(table, [{"id": 3, "a": {"b": 2, "n": 3, "tags": ["x"]}, "c": "c", "tags": ["y"]}])
    made = session(served.client, table, max_stream_count=1)
    assert read(served.client, made) == [
        {"id": 1, "a": {"b": 1, "n": None, "tags": []}, "c": None, "tags": []},
        {"id": 2, "a": None, "c": None, "tags": []},
        {"id": 3, "a": {"b": 2, "n": 3, "tags": ["x"]}, "c": "c", "tags": ["y"]},
    ]
    only_new = session(served.client, table, selected_fields=["a.n", "c"], max_stream_count=1)
    assert read(served.client, only_new) == [
        {"a": {"n": None}, "c": None},
        {"a": None, "c": None},
        {"a": {"n": 3}, "c": "c"},
    ]
    for text, expected in {
        "c IS NULL": [1, 2],
        "a.n = 3": [3],
        "a.n IS NULL": [1, 2],
        "c = 'c'": [3],
    }.items():
        assert ids(read(served.client, session(served.client, table, row_restriction=text))) == expected


def test_a_session_keeps_its_columns_when_the_table_gets_more(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    made = session(served.client, table, max_stream_count=1)
    grown(lake, table, Column("later", "STRING"))
    rows = read(served.client, made)
    assert rows[0] == {"id": 0, "name": "a"}
    assert batches_of(served.client, made.streams[0].name)[0].schema.names == ["id", "name"]


# -- partitions and statistics -----------------------------------------------------------------------


def test_files_that_statistics_exclude_are_not_opened(
    lake: Lake, served: Served, store: CountingStore
) -> None:
    table = three_writes(lake)
    store.reset()
    made = session(served.client, table, row_restriction="id >= 20")
    assert ids(read(served.client, made)) == list(range(20, 30))
    assert opened(store) == 1
    store.reset()
    assert list(session(served.client, table, row_restriction="id > 29").streams) == []
    assert opened(store) == 0


@pytest.mark.parametrize("unit", ["DAY", "HOUR"])
def test_partitions_are_read_whole_and_their_own_column_is_never_shown(
    lake: Lake, served: Served, store: CountingStore, unit: Any
) -> None:
    at = Column("at", "TIMESTAMP")
    table = lake.table("t", [ID, at], partitioning=TimePartitioning(unit, "at"))
    start = datetime(2024, 1, 1, tzinfo=UTC)
    lake.write(
        table, [{"id": day, "at": start + timedelta(days=day)} for day in range(5)] + [{"id": 5, "at": None}]
    )
    made = session(served.client, table)
    rows = read(served.client, made)
    assert sorted(ids(rows)) == [0, 1, 2, 3, 4, 5]
    assert set(rows[0]) == {"id", "at"}
    store.reset()
    made = session(served.client, table, row_restriction="at >= TIMESTAMP '2024-01-04'")
    assert sorted(ids(read(served.client, made))) == [3, 4]
    assert opened(store) == 2


# -- time travel -----------------------------------------------------------------------------------


def test_snapshot_time_reads_what_was_there_then(lake: Lake, served: Served) -> None:
    table = lake.table("t", [ID])
    moments = [lake.write(table, [{"id": number}]).created_at for number in range(3)]
    for number, moment in enumerate(moments):
        made = session(served.client, table, snapshot_time=moment, max_stream_count=1)
        assert ids(read(served.client, made)) == list(range(number + 1))


def test_before_the_first_rows_a_table_is_empty(lake: Lake, served: Served) -> None:
    table = lake.table("t", [ID])
    created = datetime.fromtimestamp(lake.catalog.table(table).created_ms / 1000, UTC)
    assert list(session(served.client, table, snapshot_time=created).streams) == []
    first = lake.write(table, [{"id": 1}]).created_at
    made = session(served.client, table, snapshot_time=max(created, first - timedelta(milliseconds=1)))
    assert list(made.streams) == []


@pytest.mark.parametrize("shift", [timedelta(hours=1), timedelta(days=-400)])
def test_a_time_that_is_not_yet_or_was_before_the_table_is_refused(
    lake: Lake, served: Served, shift: timedelta
) -> None:
    table = three_writes(lake)
    with pytest.raises(exceptions.InvalidArgument, match="snapshot_time"):
        session(served.client, table, snapshot_time=datetime.now(UTC) + shift)


# -- refusals --------------------------------------------------------------------------------------


def test_avro_is_not_implemented_and_no_format_is_an_error(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    with pytest.raises(exceptions.MethodNotImplemented, match="ARROW"):
        session(served.client, table, data_format="AVRO")
    with pytest.raises(exceptions.InvalidArgument, match="data_format"):
        session(served.client, table, data_format="DATA_FORMAT_UNSPECIFIED")


def test_sampling_is_not_implemented(lake: Lake, served: Served) -> None:
    with pytest.raises(exceptions.MethodNotImplemented, match="sample"):
        session(served.client, three_writes(lake), sample_percentage=10.0)


def test_an_unknown_table_is_not_found(lake: Lake, served: Served) -> None:
    table = lake.table("t", [ID])
    with pytest.raises(exceptions.NotFound, match="nope"):
        session(served.client, table._replace(table="nope"))


def test_a_bad_table_name_or_parent_is_refused(served: Served) -> None:
    for parent, table in ((PARENT, "t"), ("p", "projects/p/datasets/d/tables/t"), ("", "")):
        with pytest.raises(exceptions.InvalidArgument):
            served.client.create_read_session(
                parent=parent, read_session={"table": table, "data_format": "ARROW"}
            )


def test_a_table_made_again_does_not_answer_for_the_one_before(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    made = session(served.client, table)
    lake.catalog.delete_table(table)
    with pytest.raises(exceptions.NotFound):
        rows_of(served.client, made.streams[0].name)
    three_writes(lake)
    with pytest.raises(exceptions.NotFound, match="created again"):
        rows_of(served.client, made.streams[0].name)


def test_a_file_that_is_gone_is_told_as_data_loss(lake: Lake, served: Served, store: CountingStore) -> None:
    table = three_writes(lake)
    made = session(served.client, table)
    for entry in list(store.list()):
        if "/data/" in entry.path:
            store.delete(entry.path)
    with pytest.raises(exceptions.DataLoss):
        rows_of(served.client, made.streams[0].name)


@pytest.mark.parametrize("where", ["whole", "middle", "footer"])
def test_a_damaged_file_is_told_as_data_loss(
    lake: Lake, served: Served, store: CountingStore, where: str
) -> None:
    table = lake.table("t", [ID, NAME])
    lake.write(table, [{"id": number, "name": f"name {number * 7919}"} for number in range(1_000)])
    made = session(served.client, table)
    [path] = [entry.path for entry in store.list() if "/data/" in entry.path]
    data = bytearray(store.get(path))
    at = {"whole": slice(None), "middle": slice(300, 320), "footer": slice(-60, -40)}[where]
    data[at] = bytes(byte ^ 0xFF for byte in data[at])
    store.delete(path)
    store.put(path, data)
    with pytest.raises(exceptions.DataLoss, match="cannot be read"):
        rows_of(served.client, made.streams[0].name)


def test_a_store_that_fails_is_unavailable_and_the_client_goes_on(lake: Lake, store: CountingStore) -> None:
    table = three_writes(lake)
    failing = FaultStore(store, Fault("get", "*/data/*", nth=2, error=StoreError("the store is tired")))
    with Served(ReadService(lake.catalog, failing)) as served:
        [stream] = session(served.client, table).streams
        request: Any = types.ReadRowsRequest.pb()(read_stream=stream.name)
        with pytest.raises(grpc.RpcError, match="tired") as error:
            served.raw_rows(request.SerializeToString())
        status: Any = error.value
        assert status.code() == grpc.StatusCode.UNAVAILABLE
        failing.add(Fault("get", "*/data/*", error=StoreError("the store is tired again")))
        assert ids(rows_of(served.client, stream.name)) == list(range(30))


# -- responses -------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["COMPRESSION_UNSPECIFIED", "LZ4_FRAME", "ZSTD"])
def test_responses_are_compressed_as_asked(lake: Lake, served: Served, codec: str) -> None:
    table = lake.table("t", [ID, NAME])
    rows = [{"id": number, "name": "x" * 50} for number in range(5_000)]
    lake.write(table, rows)
    made = session(served.client, table, arrow_serialization_options={"buffer_compression": codec})
    assert read(served.client, made) == rows
    sizes = [
        len(r.arrow_record_batch.serialized_record_batch)
        for r in served.client.read_rows(made.streams[0].name)
    ]
    assert (sum(sizes) < 5_000 * 50) == (codec != "COMPRESSION_UNSPECIFIED")


def test_responses_stay_small_and_tell_how_far_they_are(lake: Lake, served: Served) -> None:
    table = lake.table("t", [ID, NAME])
    for part in range(3):
        lake.write(table, [{"id": part * 300 + n, "name": chr(97 + n % 26) * 10_000} for n in range(300)])
    made = session(served.client, table, max_stream_count=1)
    responses = list(served.client.read_rows(made.streams[0].name))
    assert len(responses) >= 9
    assert all(len(r.arrow_record_batch.serialized_record_batch) < 2 << 20 for r in responses)
    assert sum(response.row_count for response in responses) == 900
    assert [bool(response.arrow_schema.serialized_schema) for response in responses] == [True] + [False] * (
        len(responses) - 1
    )
    progress = [response.stats.progress for response in responses]
    assert progress[0].at_response_start == 0
    assert progress[-1].at_response_end == 1
    ends = [one.at_response_end for one in progress]
    assert ends == sorted(ends)
    assert [one.at_response_start for one in progress[1:]] == ends[:-1]


def test_many_small_files_share_responses(lake: Lake, served: Served) -> None:
    table = lake.table("t", [ID])
    for number in range(20):
        lake.write(table, [{"id": number}])
    made = session(served.client, table, max_stream_count=1)
    [batch] = batches_of(served.client, made.streams[0].name)
    assert batch["id"].to_pylist() == list(range(20))


def test_a_client_that_stops_in_the_middle_leaves_the_server_well(lake: Lake, served: Served) -> None:
    table = lake.table("t", [ID, NAME])
    lake.write(table, [{"id": n, "name": chr(97 + n % 26) * 100_000} for n in range(100)])
    made = session(served.client, table, max_stream_count=1)
    for _ in range(40):  # more than the service has threads
        stream = served.client.read_rows(made.streams[0].name)
        assert next(iter(stream)).row_count > 0
        stream.cancel()
    assert len(read(served.client, made)) == 100
