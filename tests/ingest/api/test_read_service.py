"""The Storage Read API with the official client: sessions, snapshots and rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.api_core import exceptions
from google.cloud.bigquery_storage_v1 import types

from lode.ingest.api.grpc_read.session import EXPIRES, remove_expired
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.names import TableName
from lode.ingest.types.columns import Column, TableSchema
from lode.store import CountingStore, LocalStore
from support.ingest.reading import (
    ID,
    NAME,
    PARENT,
    Lake,
    Served,
    batches_of,
    ids,
    read,
    session,
    three_writes,
)

if TYPE_CHECKING:
    from pathlib import Path


# The client warns that its conversion to Arrow tables will move to another package.
MOVING = pytest.mark.filterwarnings(
    "ignore:.*google-cloud-bigquery-storage is deprecated:PendingDeprecationWarning"
)


# -- rows --------------------------------------------------------------------------------------------


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


def test_a_session_has_the_requested_options_only(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    wanted = types.ReadSession(table=str(table), data_format="ARROW")
    made = served.client.create_read_session(parent=PARENT, read_session=wanted)
    assert not types.ReadSession.pb(made).HasField("read_options")
    assert not types.ReadSession.pb(made).HasField("table_modifiers")
    made = session(served.client, table, row_restriction="id > 4")
    assert made.read_options.row_restriction == "id > 4"


def test_a_session_has_the_location_of_its_dataset(lake: Lake, served: Served) -> None:
    assert session(served.client, three_writes(lake)).name.startswith("projects/p/locations/us/sessions/")
    for dataset, location, named in (
        ("e", "EU", "eu"),
        ("f", "europe-west3", "europe-west3"),
        ("g", "no/one\u00a0place", "no%2Fone%C2%A0place"),
    ):
        lake.catalog.create_dataset(DatasetName("p", dataset), location=location)
        name = TableName("p", dataset, "t")
        lake.catalog.create_table(name, TableSchema((ID,)))
        lake.write(name, [{"id": 1}])
        made = session(served.client, name)
        assert made.name.startswith(f"projects/p/locations/{named}/sessions/")
        assert ids(read(served.client, made)) == [1]


def test_a_table_without_rows_has_a_schema_and_no_streams(lake: Lake, served: Served) -> None:
    made = session(served.client, lake.table("t", [ID, NAME]))
    assert list(made.streams) == []
    schema = pa.ipc.read_schema(pa.py_buffer(made.arrow_schema.serialized_schema))
    assert schema.names == ["id", "name"]


def test_later_commits_are_not_in_a_session(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    made = session(served.client, table, max_stream_count=1)
    lake.write(table, [{"id": 99}])
    assert ids(read(served.client, made)) == list(range(30))
    assert 99 in ids(read(served.client, session(served.client, table)))


def test_a_session_survives_a_restart_of_the_server(tmp_path: Path) -> None:
    lake = Lake(LocalStore(tmp_path))
    table = three_writes(lake)
    with Served(lake.service()) as first:
        made = session(
            first.client, table, max_stream_count=3, selected_fields=["id"], row_restriction="id > 4"
        )
    with Served(lake.service()) as second:
        assert ids(read(second.client, made)) == list(range(5, 30))


def test_a_session_too_long_for_a_header_has_a_short_name(lake: Lake, served: Served) -> None:
    table = three_writes(lake)
    values = ", ".join(f"{number * 7919}" for number in range(5_000))
    made = session(served.client, table, row_restriction=f"id IN ({values}, 3)")
    again = session(served.client, table, row_restriction=f"id IN ({values}, 3)")
    assert len(made.streams[0].name) < 200
    assert again.name == made.name
    assert ids(read(served.client, made)) == [0, 3]


def test_a_session_on_the_store_is_removed_after_it_has_expired(
    lake: Lake, served: Served, store: CountingStore
) -> None:
    table = three_writes(lake)
    values = ", ".join(f"{number * 7919}" for number in range(5_000))
    made = session(served.client, table, row_restriction=f"id IN ({values}, 3)")
    expires = datetime.now(UTC) + EXPIRES
    assert remove_expired(store, expires) == 0
    assert ids(read(served.client, made)) == [0, 3]
    assert remove_expired(store, expires + timedelta(days=2)) == 1
    with pytest.raises(exceptions.NotFound, match="create it again"):
        read(served.client, made)


# -- time travel -------------------------------------------------------------------------------------


def test_snapshot_time_reads_the_rows_of_that_time(lake: Lake, served: Served) -> None:
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
def test_a_time_in_the_future_or_before_the_table_is_refused(
    lake: Lake, served: Served, shift: timedelta
) -> None:
    table = three_writes(lake)
    with pytest.raises(exceptions.InvalidArgument, match="snapshot_time"):
        session(served.client, table, snapshot_time=datetime.now(UTC) + shift)


# -- responses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["COMPRESSION_UNSPECIFIED", "LZ4_FRAME", "ZSTD"])
def test_responses_have_the_requested_compression(lake: Lake, served: Served, codec: str) -> None:
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


def test_responses_are_small_and_report_progress(lake: Lake, served: Served) -> None:
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


def test_a_client_that_cancels_a_stream_does_not_harm_the_server(lake: Lake, served: Served) -> None:
    table = lake.table("t", [ID, NAME])
    lake.write(table, [{"id": n, "name": chr(97 + n % 26) * 100_000} for n in range(100)])
    made = session(served.client, table, max_stream_count=1)
    for _ in range(40):  # more than the service has threads
        stream = served.client.read_rows(made.streams[0].name)
        assert next(iter(stream)).row_count > 0
        stream.cancel()
    assert len(read(served.client, made)) == 100
