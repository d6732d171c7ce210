"""AppendRows on the wire, by the official client against a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pyarrow as pa
import pytest
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import types
from google.protobuf import wrappers_pb2

from lode.ingest.types.row_errors import MAX_BAD_ROWS
from lode.testing.plugin import LodeServer
from support.ingest.appending import (
    FIELDS,
    SCHEMA,
    Call,
    arrow_request,
    batch_of,
    columns,
    message_class,
    proto_request,
    row_descriptor,
)
from support.ingest.refusals import UNKNOWN_ID, Codes, ends_with, storage_error, trailer_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE = "p.d.t"
NAME = "projects/p/datasets/d/tables/t"
DEFAULT = f"{NAME}/streams/_default"
UNKNOWN = f"{NAME}/streams/{UNKNOWN_ID}"
KINDS = {"committed": 1, "pending": 2, "buffered": 3}


@pytest.fixture
def server(lode_server: LodeServer) -> LodeServer:
    lode_server.create_table(TABLE, FIELDS)
    return lode_server


@pytest.fixture
def call(server: LodeServer) -> Iterator[Call]:
    with Call(server.write_client()) as opened:
        yield opened


def new_stream(server: LodeServer, kind: str) -> str:
    wanted = types.WriteStream(type_=KINDS[kind])
    return server.write_client().create_write_stream(parent=NAME, write_stream=wanted).name


def add_column(server: LodeServer) -> None:
    client = server.bigquery_client("p")
    table = client.get_table(TABLE)
    table.schema = [*table.schema, bigquery.SchemaField("more", "STRING")]
    client.update_table(table, ["schema"])


def ids_in(server: LodeServer) -> list[int]:
    found: list[Any] = server.rows(TABLE).column("id").to_pylist()
    return sorted(found)


# -- stored rows -------------------------------------------------------------------------------


def test_rows_on_the_default_stream_are_visible_at_the_answer(server: LodeServer, call: Call) -> None:
    answer = call.ask(arrow_request(DEFAULT, batch_of([1, 2, 3])))
    assert ids_in(server) == [1, 2, 3]
    assert answer.write_stream == DEFAULT
    assert "append_result" in answer
    assert answer.append_result.offset is None


def test_the_short_name_of_the_default_stream_is_echoed_as_it_was_sent(
    server: LodeServer, call: Call
) -> None:
    assert call.ask(arrow_request(f"{NAME}/_default", batch_of([1]))).write_stream == f"{NAME}/_default"
    assert ids_in(server) == [1]


def test_rows_of_a_committed_stream_are_visible_at_the_answer(server: LodeServer, call: Call) -> None:
    stream = new_stream(server, "committed")
    assert call.ask(arrow_request(stream, batch_of([1, 2]), offset=0)).append_result.offset == 0
    assert call.ask(arrow_request(stream, batch_of([3]), offset=2)).append_result.offset == 2
    assert ids_in(server) == [1, 2, 3]


def test_rows_of_a_pending_stream_are_visible_after_the_batch_commit(server: LodeServer, call: Call) -> None:
    stream = new_stream(server, "pending")
    client = server.write_client()
    call.ask(arrow_request(stream, batch_of([1, 2])))
    assert client.finalize_write_stream(name=stream).row_count == 2
    assert ids_in(server) == []
    committed = client.batch_commit_write_streams(
        types.BatchCommitWriteStreamsRequest(parent=NAME, write_streams=[stream])
    )
    assert committed.commit_time is not None
    assert not committed.stream_errors
    assert ids_in(server) == [1, 2]


def test_rows_of_a_buffered_stream_are_visible_up_to_the_flush(server: LodeServer, call: Call) -> None:
    stream = new_stream(server, "buffered")
    client = server.write_client()
    call.ask(arrow_request(stream, batch_of(range(10))))
    assert client.flush_rows(types.FlushRowsRequest(write_stream=stream, offset=4)).offset == 4
    assert ids_in(server) == [0, 1, 2, 3, 4]
    client.flush_rows(types.FlushRowsRequest(write_stream=stream, offset=9))
    assert ids_in(server) == list(range(10))


def test_protobuf_rows_are_stored_like_arrow_rows(server: LodeServer, call: Call) -> None:
    row = message_class(row_descriptor())
    rows = [
        row(id=1, name="a").SerializeToString(),
        row().SerializeToString(),
        row(id=0, name="").SerializeToString(),
    ]
    call.ask(proto_request(DEFAULT, rows, descriptor=row_descriptor()))
    assert server.rows(TABLE).to_pylist() == [
        {"id": 1, "name": "a"},
        {"id": None, "name": None},
        {"id": 0, "name": ""},
    ]


def test_later_requests_of_a_call_may_omit_the_stream_and_the_schema(server: LodeServer, call: Call) -> None:
    stream = new_stream(server, "committed")
    call.ask(arrow_request(stream, batch_of([1])))
    answer = call.ask(arrow_request("", batch_of([2]), schema=False, offset=1))
    assert answer.append_result.offset == 1
    assert answer.write_stream == stream
    assert ids_in(server) == [1, 2]


def test_many_requests_in_flight_are_answered_in_their_order(server: LodeServer, call: Call) -> None:
    stream = new_stream(server, "committed")
    for number in range(50):
        call.send(arrow_request(stream, batch_of([number]), offset=number, schema=number == 0))
    assert [call.receive().append_result.offset for _ in range(50)] == list(range(50))
    assert ids_in(server) == list(range(50))


def test_appends_that_arrive_together_share_a_snapshot(server: LodeServer, call: Call) -> None:
    stream = new_stream(server, "committed")
    for number in range(200):
        call.send(arrow_request(stream, batch_of([number]), offset=number, schema=number == 0))
    for _ in range(200):
        call.receive()
    snapshots = server.dataset(TABLE).snapshots()
    assert len(snapshots) < 200
    assert sum(snapshot.row_count for snapshot in snapshots) == 200


def test_one_call_serves_several_tables(server: LodeServer, call: Call) -> None:
    other = server.create_table("p.d.u", FIELDS)
    first = call.ask(arrow_request(DEFAULT, batch_of([1])))
    second = call.ask(arrow_request(f"{other}/streams/_default", batch_of([2])))
    third = call.ask(arrow_request(DEFAULT, batch_of([3]), schema=False))
    assert [first.write_stream, second.write_stream, third.write_stream] == [
        DEFAULT,
        f"{other}/streams/_default",
        DEFAULT,
    ]
    assert ids_in(server) == [1, 3]
    assert server.rows("p.d.u").column("id").to_pylist() == [2]


def test_a_writer_may_change_its_schema_in_the_middle_of_a_call(server: LodeServer, call: Call) -> None:
    call.ask(arrow_request(DEFAULT, batch_of([1])))
    narrow = pa.record_batch([pa.array([2])], schema=pa.schema([pa.field("id", pa.int64())]))
    call.ask(arrow_request(DEFAULT, narrow))
    assert server.rows(TABLE).to_pylist() == [{"id": 1, "name": "name-1"}, {"id": 2, "name": None}]


def test_a_trace_id_has_no_effect(call: Call) -> None:
    assert "append_result" in call.ask(arrow_request(DEFAULT, batch_of([1]), trace_id="spark:job-1"))


# -- offsets: errors inside the response, the call continues --------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_repeated_offset_already_exists_and_the_call_continues(
    server: LodeServer, call: Call, kind: str
) -> None:
    stream = new_stream(server, kind)
    call.ask(arrow_request(stream, batch_of([1]), offset=0))
    answer = call.ask(arrow_request(stream, batch_of([1]), offset=0))
    assert answer.error.code == 6
    assert answer.error.message == "The offset is within stream, expected offset 1, received 0"
    assert storage_error(answer).code == Codes.OFFSET_ALREADY_EXISTS
    assert storage_error(answer).entity == stream
    assert answer.write_stream == stream
    assert call.ask(arrow_request(stream, batch_of([2]), offset=1)).append_result.offset == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_skipped_offset_is_out_of_range_and_the_call_continues(
    server: LodeServer, call: Call, kind: str
) -> None:
    stream = new_stream(server, kind)
    answer = call.ask(arrow_request(stream, batch_of([1]), offset=7))
    assert answer.error.code == 11
    assert answer.error.message == "The offset is beyond stream, expected offset 0, received 7"
    assert storage_error(answer).code == Codes.OFFSET_OUT_OF_RANGE
    assert call.ask(arrow_request(stream, batch_of([2]), offset=0)).append_result.offset == 0


def test_any_offset_on_the_default_stream_is_invalid_and_the_call_continues(
    server: LodeServer, call: Call
) -> None:
    assert call.ask(arrow_request(DEFAULT, batch_of([1]), offset=0)).error.code == 3
    assert "append_result" in call.ask(arrow_request(DEFAULT, batch_of([2])))
    assert ids_in(server) == [2]


@pytest.mark.parametrize("kind", KINDS)
def test_an_append_after_finalize_is_an_invalid_argument(server: LodeServer, call: Call, kind: str) -> None:
    stream = new_stream(server, kind)
    call.ask(arrow_request(stream, batch_of([1])))
    server.write_client().finalize_write_stream(name=stream)
    answer = call.ask(arrow_request(stream, batch_of([2]), offset=1))
    assert answer.error.code == 3
    assert storage_error(answer).code == Codes.STREAM_FINALIZED


# -- bad rows: the whole request is refused, the call continues ----------------------------------


def required_table(server: LodeServer) -> str:
    fields = [{"name": "id", "type": "INT64", "mode": "REQUIRED"}, FIELDS[1]]
    return server.create_table("p.d.required", fields)


def test_bad_rows_are_all_named_and_none_is_appended(server: LodeServer, call: Call) -> None:
    stream = f"{required_table(server)}/streams/_default"
    batch = pa.record_batch([pa.array([1, None, 3, None]), pa.array(["a"] * 4)], schema=SCHEMA)
    answer = call.ask(arrow_request(stream, batch))
    assert answer.error.code == 3
    assert [error.index for error in answer.row_errors] == [1, 3]
    assert all("id" in error.message for error in answer.row_errors)
    assert all(error.code == types.RowError.RowErrorCode.FIELDS_ERROR for error in answer.row_errors)
    assert server.rows("p.d.required").num_rows == 0
    assert "append_result" in call.ask(arrow_request(stream, batch_of([5])))


def test_a_list_of_bad_rows_stays_below_the_clients_limit(server: LodeServer, call: Call) -> None:
    stream = f"{required_table(server)}/streams/_default"
    bad = 300_000
    batch = pa.record_batch([pa.nulls(bad, pa.int64()), pa.array(["a"] * bad)], schema=SCHEMA)
    answer = call.ask(arrow_request(stream, batch))
    assert f"{MAX_BAD_ROWS} or more of them bad" in answer.error.message
    assert [error.index for error in answer.row_errors[:3]] == [0, 1, 2]
    assert 1000 < len(answer.row_errors) < bad
    assert types.AppendRowsResponse.pb(answer).ByteSize() < 4 << 20


def test_bad_rows_do_not_move_the_offset(server: LodeServer, call: Call) -> None:
    table = required_table(server)
    wanted = types.WriteStream(type_=1)
    stream = server.write_client().create_write_stream(parent=table, write_stream=wanted).name
    bad = pa.record_batch([pa.array([None], pa.int64()), pa.array(["a"])], schema=SCHEMA)
    call.ask(arrow_request(stream, bad, offset=0))
    assert call.ask(arrow_request(stream, batch_of([1]), offset=0)).append_result.offset == 0


def test_malformed_protobuf_rows_are_named(server: LodeServer, call: Call) -> None:
    good = message_class(row_descriptor())(id=1, name="a").SerializeToString()
    answer = call.ask(proto_request(DEFAULT, [good, b"\xff\xff", good], descriptor=row_descriptor()))
    assert answer.error.code == 3
    assert [error.index for error in answer.row_errors] == [1]
    assert ids_in(server) == []


def test_an_append_without_rows_is_an_error_and_the_call_continues(call: Call) -> None:
    assert call.ask(proto_request(DEFAULT, [], descriptor=row_descriptor())).error.code == 3
    assert call.ask(arrow_request(DEFAULT, batch_of([]))).error.code == 3
    assert call.ask(types.AppendRowsRequest(write_stream=DEFAULT)).error.code == 3
    assert "append_result" in call.ask(arrow_request(DEFAULT, batch_of([1])))


def test_invalid_arrow_bytes_are_refused_and_the_call_continues(call: Call) -> None:
    request = arrow_request(DEFAULT, batch_of([1]))
    request.arrow_rows.rows.serialized_record_batch = b"not an arrow batch"
    assert call.ask(request).error.code == 3
    assert "append_result" in call.ask(arrow_request(DEFAULT, batch_of([1])))


# -- errors that end the call----------------------------------------------------------------------


def test_an_unknown_stream_ends_the_call_with_not_found(call: Call) -> None:
    with ends_with(grpc.StatusCode.NOT_FOUND) as error:
        call.ask(arrow_request(UNKNOWN, batch_of([1])))
    assert f"Requested entity was not found. Entity: {UNKNOWN}" in str(error[0])
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.STREAM_NOT_FOUND] * 2


def test_an_unknown_table_ends_the_call_with_not_found(call: Call) -> None:
    unknown = "projects/p/datasets/d/tables/nobody"
    with ends_with(grpc.StatusCode.NOT_FOUND) as error:
        call.ask(arrow_request(f"{unknown}/streams/_default", batch_of([1])))
    details = trailer_errors(error[0])
    assert [detail.code for detail in details] == [Codes.TABLE_NOT_FOUND] * 2
    assert details[0].entity == unknown


@pytest.mark.parametrize(
    "name",
    [
        "nonsense",
        "projects/p/datasets/d/tables/t",
        f"{NAME}/streams/",
        f"{NAME}/streams/does-not-exist-12345",
        "x" * 5000,
    ],
)
def test_a_request_that_names_no_stream_ends_the_call(call: Call, name: str) -> None:
    with ends_with(grpc.StatusCode.INVALID_ARGUMENT) as error:
        call.ask(arrow_request(name, batch_of([1])))
    assert f"Invalid stream name. Entity: {name[:500]}" in str(error[0])


def test_a_first_request_without_a_stream_ends_the_call(call: Call) -> None:
    with ends_with(grpc.StatusCode.INVALID_ARGUMENT) as error:
        call.ask(arrow_request("", batch_of([1])))
    assert "write_stream" in str(error[0])


def test_columns_the_table_lacks_end_the_call(server: LodeServer, call: Call) -> None:
    wide = columns(id=[1], surplus=["x"])
    with ends_with(grpc.StatusCode.INVALID_ARGUMENT) as error:
        call.ask(arrow_request(DEFAULT, wide))
    # Programs match this beginning of the message and wait for the new schema.
    assert "Input schema has more fields than BigQuery schema, extra fields: 'surplus'" in str(error[0])
    assert [detail.code for detail in trailer_errors(error[0])] == [Codes.SCHEMA_MISMATCH_EXTRA_FIELDS] * 2
    assert ids_in(server) == []


def test_a_first_request_without_a_schema_ends_the_call(call: Call) -> None:
    with ends_with(grpc.StatusCode.INVALID_ARGUMENT) as error:
        call.ask(arrow_request(DEFAULT, batch_of([1]), schema=False))
    assert "writer_schema" in str(error[0])


def test_earlier_requests_are_answered_before_the_call_ends(server: LodeServer, call: Call) -> None:
    call.send(arrow_request(DEFAULT, batch_of([1])))
    call.send(arrow_request(UNKNOWN, batch_of([2])))
    assert "append_result" in call.receive()
    with ends_with(grpc.StatusCode.NOT_FOUND):
        call.receive()
    assert ids_in(server) == [1]


def test_a_request_over_the_limit_ends_the_call(tmp_path: Path) -> None:
    server = LodeServer(tmp_path / "lake", request_bytes=100_000)
    try:
        server.create_table(TABLE, FIELDS)
        with Call(server.write_client()) as call:
            call.ask(arrow_request(DEFAULT, batch_of(range(10))))
            with ends_with(grpc.StatusCode.INVALID_ARGUMENT) as error:
                call.ask(arrow_request(DEFAULT, batch_of(range(20_000))))
        assert "100,000" in str(error[0])
        assert ids_in(server) == list(range(10))
    finally:
        server.stop()


def test_a_request_of_several_megabytes_is_accepted(server: LodeServer, call: Call) -> None:
    call.ask(arrow_request(DEFAULT, batch_of(range(400_000))))
    assert server.rows(TABLE).num_rows == 400_000


# -- schemas and defaults ------------------------------------------------------------------------


def test_an_append_after_a_schema_change_answers_with_the_new_schema(server: LodeServer, call: Call) -> None:
    stream = new_stream(server, "committed")
    assert "updated_schema" not in call.ask(arrow_request(stream, batch_of([1])))
    add_column(server)
    answer = call.ask(arrow_request(stream, batch_of([2])))
    assert [field.name for field in answer.updated_schema.fields] == ["id", "name", "more"]
    assert "updated_schema" not in call.ask(arrow_request(stream, batch_of([3])))
    wide = columns(id=[4], more=["x"])
    assert "append_result" in call.ask(arrow_request(stream, wide))
    assert server.rows(TABLE).column("more").to_pylist() == [None, None, None, "x"]


def test_a_change_of_a_label_or_description_is_no_schema_change(server: LodeServer, call: Call) -> None:
    call.ask(arrow_request(DEFAULT, batch_of([1])))
    client = server.bigquery_client("p")
    table = client.get_table(TABLE)
    table.labels, table.description = {"team": "red"}, "what was sold"
    client.update_table(table, ["labels", "description"])
    assert "updated_schema" not in call.ask(arrow_request(DEFAULT, batch_of([2])))


def test_a_relaxed_column_is_a_schema_change(server: LodeServer, call: Call) -> None:
    stream = f"{required_table(server)}/streams/_default"
    call.ask(arrow_request(stream, batch_of([1])))
    server.bigquery_client("p").update_table(
        bigquery.Table(
            "p.d.required", [bigquery.SchemaField("id", "INT64"), bigquery.SchemaField("name", "STRING")]
        ),
        ["schema"],
    )
    updated = call.ask(arrow_request(stream, batch_of([2]))).updated_schema
    assert [field.mode for field in updated.fields] == [types.TableFieldSchema.Mode.NULLABLE] * 2


def test_a_schema_change_is_sent_once_to_each_stream_of_each_open_call(
    server: LodeServer, call: Call
) -> None:
    stream = new_stream(server, "committed")
    bad = arrow_request(stream, batch_of([1]))
    bad.arrow_rows.rows.serialized_record_batch = b"none"
    call.ask(bad)  # refused, but the call and its stream are open
    call.ask(arrow_request(DEFAULT, batch_of([1])))
    add_column(server)
    assert "updated_schema" in call.ask(arrow_request(DEFAULT, batch_of([2])))
    assert "updated_schema" in call.ask(arrow_request(stream, batch_of([3])))
    assert "updated_schema" not in call.ask(arrow_request(DEFAULT, batch_of([4])))
    with Call(server.write_client()) as later:
        assert "updated_schema" not in later.ask(arrow_request(stream, batch_of([5])))


@pytest.mark.parametrize("number", [3, 99, -1])
def test_an_unknown_interpretation_of_missing_values_is_refused_and_the_call_continues(
    server: LodeServer, call: Call, number: int
) -> None:
    everywhere = types.AppendRowsRequest.pb(arrow_request(DEFAULT, batch_of([1])))
    everywhere.default_missing_value_interpretation = number
    named = types.AppendRowsRequest.pb(arrow_request(DEFAULT, batch_of([1])))
    named.missing_value_interpretations["name"] = number
    for request in (everywhere, named):
        answer = call.ask(types.AppendRowsRequest.wrap(request))
        assert answer.error.code == 3
        assert "NULL_VALUE or DEFAULT_VALUE" in answer.error.message
    call.ask(arrow_request(DEFAULT, batch_of([2])))
    assert ids_in(server) == [2]


def test_an_unspecified_interpretation_of_a_column_is_refused(call: Call) -> None:
    request = arrow_request(DEFAULT, batch_of([1]), missing_value_interpretations={"name": 0})
    assert call.ask(request).error.code == 3


def test_missing_values_become_defaults_if_the_request_asks_for_it(server: LodeServer, call: Call) -> None:
    fields = [
        {"name": "id", "type": "INT64"},
        {"name": "name", "type": "STRING", "defaultValueExpression": "'nobody'"},
    ]
    stream = f"{server.create_table('p.d.defaults', fields)}/streams/_default"
    ids = pa.RecordBatch.from_pylist([{"id": 1, "name": None}], SCHEMA)
    interpretation = types.AppendRowsRequest.MissingValueInterpretation
    default, null = interpretation.DEFAULT_VALUE, interpretation.NULL_VALUE
    call.ask(arrow_request(stream, ids))
    call.ask(arrow_request(stream, ids, missing_value_interpretations={"name": default}))
    call.ask(arrow_request(stream, ids))
    call.ask(arrow_request(stream, ids, default_missing_value_interpretation=default))
    call.ask(arrow_request(stream, ids))  # the default interpretation holds for the whole call
    call.ask(arrow_request(stream, ids, missing_value_interpretations={"name": null}))
    names = server.rows("p.d.defaults").column("name").to_pylist()
    assert names == [None, "nobody", None, "nobody", "nobody", None]


def test_a_column_that_the_writers_schema_lacks_gets_its_default(server: LodeServer, call: Call) -> None:
    fields = [
        {"name": "id", "type": "INT64"},
        {"name": "name", "type": "STRING", "mode": "REQUIRED", "defaultValueExpression": "'nobody'"},
        {"name": "more", "type": "STRING"},
    ]
    stream = f"{server.create_table('p.d.defaults', fields)}/streams/_default"
    null = types.AppendRowsRequest.MissingValueInterpretation.NULL_VALUE
    call.ask(arrow_request(stream, columns(id=[1])))
    call.ask(arrow_request(stream, columns(id=[2]), default_missing_value_interpretation=null))
    only_id = row_descriptor()
    del only_id.field[1]
    call.ask(proto_request(stream, [b"\x08\x03"], descriptor=only_id))
    assert server.rows("p.d.defaults").to_pylist() == [
        {"id": id, "name": "nobody", "more": None} for id in (1, 2, 3)
    ]


def test_an_offset_of_zero_is_checked() -> None:
    request = types.AppendRowsRequest(offset=wrappers_pb2.Int64Value(value=0))
    assert types.AppendRowsRequest.pb(request).HasField("offset")
