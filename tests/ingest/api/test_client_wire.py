"""Requests of the Java, Go and Beam clients on the wire, and the answers that these clients need.

The sequences follow the clients' sources: which requests have a stream's name and a writer's schema, which
are repeated after a lost connection, and which codes and messages decide the client's next step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import types

from lode.store.memory import MemoryStore
from lode.testing.plugin import LodeServer
from support.ingest.appending import Field, row_descriptor
from support.ingest.gates import GateStore
from support.ingest.tables import Table
from support.ingest.wire import (
    Request,
    StorageCodes,
    Wire,
    call,
    details,
    java_offsets,
    rows_request,
    storage_error_of,
    trailing_status,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Code = grpc.StatusCode
# The Go client repeats an append after these codes.
GO_RETRIES = {1, 4, 9, 10, 13, 14}
# The Java client reconnects after these and repeats all unanswered requests.
JAVA_RECONNECTS = {Code.ABORTED, Code.UNAVAILABLE, Code.CANCELLED, Code.INTERNAL, Code.DEADLINE_EXCEEDED}


def wider() -> Any:
    """The row's descriptor after a column was added."""
    descriptor = row_descriptor()
    descriptor.field.add(name="more", number=3, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    return descriptor


def add_column(table: Table) -> None:
    client = table.server.bigquery_client("p")
    found = client.get_table(table.id)
    found.schema = [*found.schema, bigquery.SchemaField("more", "STRING")]
    client.update_table(found, ["schema"])


def offset_of(answer: Any) -> int:
    assert answer.HasField("append_result"), answer
    return int(answer.append_result.offset.value)


def create(table: Table, kind: int) -> str:
    wanted = types.CreateWriteStreamRequest(parent=table.name, write_stream=types.WriteStream(type_=kind))
    return str(call(table.server, wanted).name)


def finalize(table: Table, stream: str) -> int:
    request = types.FinalizeWriteStreamRequest(name=stream)
    return int(call(table.server, request).row_count)


def flush(table: Table, stream: str, offset: int) -> int:
    request = types.FlushRowsRequest(write_stream=stream, offset=offset)
    return int(call(table.server, request).offset)


def refused(code: grpc.StatusCode, act: Any) -> Any:
    with pytest.raises(grpc.RpcError) as error:
        act()
    found: Any = error.value
    assert found.code() is code, found
    return found


COMMITTED, PENDING, BUFFERED = 1, 2, 3


@pytest.fixture
def gate() -> GateStore:
    return GateStore(MemoryStore())


@pytest.fixture
def gated(gate: GateStore, tmp_path: Path) -> Iterator[Table]:
    """A table on a store whose writes a test can delay and fail."""
    root: Any = gate
    server = LodeServer(root, state=tmp_path / "state")
    yield Table(server)
    gate.let_go()
    server.stop()


# -- Java: one connection for many default streams -------------------------------------------------


def test_java_shares_a_connection_between_default_streams_with_the_schema_at_each_switch(
    server: LodeServer,
) -> None:
    one, two = Table(server), Table(server, [{"name": "id", "type": "INT64"}])
    narrow = row_descriptor()
    del narrow.field[1]
    with Wire(server, one.default) as wire:
        wire.send(
            rows_request([1], stream=one.default, schema=True, trace_id="JavaWriter:test"),
            rows_request([2]),  # the name is omitted until there is a second stream
            rows_request([3], stream=two.default, schema=narrow, trace_id="JavaWriter:test"),
            rows_request([4], stream=two.default),
            rows_request([5], stream=one.default, schema=True, trace_id="JavaWriter:test"),
            rows_request([6], stream=one.default),
        )
        answers = wire.receive(6)
    assert [answer.write_stream for answer in answers] == [
        one.default,
        one.default,
        two.default,
        two.default,
        one.default,
        one.default,
    ]
    assert all(answer.HasField("append_result") for answer in answers)
    assert (one.ids(), two.ids()) == ([1, 2, 5, 6], [3, 4])
    assert {row["name"] for row in one.rows()} == {"name-1", "name-2", "name-5", "name-6"}


def test_java_finds_the_connection_of_a_region_by_the_location_of_the_default_stream(
    server: LodeServer,
) -> None:
    client = server.bigquery_client("p")
    for dataset, location in (("in_us", "US"), ("in_eu", "EU")):
        wanted = bigquery.Dataset(f"p.{dataset}")
        wanted.location = location
        client.create_dataset(wanted)
        name = server.create_table(f"p.{dataset}.t", [{"name": "id", "type": "INT64"}])
        found = call(server, types.GetWriteStreamRequest(name=f"{name}/_default"))
        assert found.location == location.lower()


def test_java_gets_the_schema_from_the_full_view_of_the_short_default_name(table: Table) -> None:
    request = types.GetWriteStreamRequest(name=f"{table.name}/_default", view=types.WriteStreamView.FULL)
    found = call(table.server, request)
    assert [field.name for field in found.table_schema.fields] == ["id", "name"]


def test_java_uses_an_updated_schema_without_reconnecting(table: Table) -> None:
    with Wire(table.server, table.default) as wire:
        wire.ask(rows_request([1], stream=table.default, schema=True))
        add_column(table)
        updated = wire.ask(rows_request([2])).updated_schema
        assert [field.name for field in updated.fields] == ["id", "name", "more"]
        request = rows_request([], stream=table.default, schema=wider())
        request.proto_rows.rows.serialized_rows.append(b"\x08\x03\x1a\x01x")
        assert not wire.ask(request).HasField("updated_schema")
        old = rows_request([4], stream=table.default, schema=True)  # a writer with the old schema
        assert not wire.ask(old).HasField("error")
    with Wire(table.server, table.default) as wire:
        request = rows_request([5], stream=table.default, schema=wider())
        assert not wire.ask(request).HasField("updated_schema")
    assert [(row["id"], row["more"]) for row in table.rows()] == [
        (1, None),
        (2, None),
        (3, "x"),
        (4, None),
        (5, None),
    ]


# -- Java: offsets, lost connections and errors ----------------------------------------------------


def test_java_resends_unanswered_requests_with_the_same_offsets(table: Table) -> None:
    stream = create(table, COMMITTED)
    first = Wire(table.server, stream)
    for offset in range(3):
        answer = first.ask(
            rows_request([offset], stream="" if offset else stream, schema=offset == 0, offset=offset)
        )
        assert offset_of(answer) == offset
    first.break_off()
    with Wire(table.server, stream) as second:
        # The answer to offset 2 is lost, 3 and 4 are not sent.
        second.send(
            rows_request([2], stream=stream, schema=True, offset=2),
            rows_request([3], offset=3),
            rows_request([4], offset=4),
        )
        again, *rest = second.receive(3)
    assert again.error.code == Code.ALREADY_EXISTS.value[0]
    assert storage_error_of(again).code == StorageCodes.OFFSET_ALREADY_EXISTS
    assert java_offsets(storage_error_of(again)) == (3, 2)
    assert [offset_of(answer) for answer in rest] == [3, 4]
    assert table.ids() == [0, 1, 2, 3, 4]


def test_java_reads_both_offsets_of_an_append_beyond_the_end_and_continues(table: Table) -> None:
    stream = create(table, COMMITTED)
    with Wire(table.server, stream) as wire:
        assert offset_of(wire.ask(rows_request([1], stream=stream, schema=True))) == 0
        beyond = wire.ask(rows_request([2], offset=100))
        assert beyond.error.code == Code.OUT_OF_RANGE.value[0]
        assert "The offset is beyond stream, expected offset 1, received 100" in beyond.error.message
        error = storage_error_of(beyond)
        assert (error.code, error.entity) == (StorageCodes.OFFSET_OUT_OF_RANGE, stream)
        assert java_offsets(error) == (1, 100)
        assert offset_of(wire.ask(rows_request([3]))) == 1


def test_requests_after_a_refused_append_are_not_stored_before_java_resends_them(table: Table) -> None:
    stream = create(table, COMMITTED)
    bad = rows_request([], offset=1)
    bad.proto_rows.rows.serialized_rows.append(b"\xff")
    with Wire(table.server, stream) as wire:
        wire.send(
            rows_request([0], stream=stream, schema=True, offset=0),
            bad,
            rows_request([2], offset=2),
            rows_request([3], offset=3),
        )
        stored, *failed = wire.receive(4)
        assert offset_of(stored) == 0
        assert [answer.error.code for answer in failed] == [3, 11, 11]
        wire.send(*(rows_request([offset], offset=offset) for offset in (1, 2, 3)))
        assert [offset_of(answer) for answer in wire.receive(3)] == [1, 2, 3]
    assert table.ids() == [0, 1, 2, 3]


def test_requests_after_a_failed_append_fail_with_codes_that_java_retries(
    gated: Table, gate: GateStore
) -> None:
    stream = create(gated, COMMITTED)
    requests = [
        rows_request([0], stream=stream, schema=True, offset=0),
        rows_request([1], offset=1),
        rows_request([2], offset=2),
    ]
    with Wire(gated.server, stream) as wire:
        gate.shut()
        wire.send(*requests)
        assert gate.arrived.wait(timeout=120)
        gate.let_fail()
        first, *behind = wire.receive(3)
        retriable = {code.value[0] for code in JAVA_RECONNECTS}
        assert first.error.code in retriable
        # Requests after the failure are beyond the end. Java ignores both errors and repeats the requests.
        assert {answer.error.code for answer in behind} <= retriable | {Code.OUT_OF_RANGE.value[0]}
        wire.send(*requests)
        assert [offset_of(answer) for answer in wire.receive(3)] == [0, 1, 2]
    assert gated.ids() == [0, 1, 2]


def test_a_schema_change_is_reported_again_after_a_failed_append(gated: Table, gate: GateStore) -> None:
    with Wire(gated.server, gated.default) as wire:
        wire.ask(rows_request([1], stream=gated.default, schema=True))
        add_column(gated)
        gate.shut()
        wire.send(rows_request([2]))
        assert gate.arrived.wait(timeout=120)
        gate.let_fail()
        [failed] = wire.receive()
        assert failed.HasField("error")
        assert [field.name for field in failed.updated_schema.fields] == ["id", "name", "more"]
        assert not wire.ask(rows_request([3])).HasField("updated_schema")


def test_java_does_not_retry_on_a_finalized_stream(table: Table) -> None:
    stream = create(table, COMMITTED)
    with Wire(table.server, stream) as wire:
        wire.ask(rows_request([1], stream=stream, schema=True, offset=0))
        finalize(table, stream)
        answer = wire.ask(rows_request([2], offset=1))
    assert answer.error.code == Code.INVALID_ARGUMENT.value[0]
    assert "Stream has been finalized" in answer.error.message
    error = storage_error_of(answer)
    assert (error.code, error.entity) == (StorageCodes.STREAM_FINALIZED, stream)


def test_java_reads_the_storage_error_of_an_ended_call_from_its_trailers(table: Table) -> None:
    for stream, schema, code, storage in (
        (table.default, wider(), Code.INVALID_ARGUMENT, StorageCodes.SCHEMA_MISMATCH_EXTRA_FIELDS),
        (table.unknown, True, Code.NOT_FOUND, StorageCodes.STREAM_NOT_FOUND),
    ):
        with Wire(table.server, stream) as wire:
            wire.send(rows_request([1], stream=stream, schema=schema))
            error: Any = wire.ended()
        assert error.code() is code
        assert error.code() not in JAVA_RECONNECTS
        [detail] = details(trailing_status(error))
        assert (detail.code, detail.entity) == (storage, stream)


def test_a_writer_that_closes_gets_its_last_answers_and_then_ok(table: Table) -> None:
    stream = create(table, PENDING)
    with Wire(table.server, stream) as wire:
        wire.send(rows_request([0], stream=stream, schema=True, offset=0))
        wire.send(*(rows_request([offset], offset=offset) for offset in range(1, 20)))
        answers, status = wire.half_close()
    assert [offset_of(answer) for answer in answers] == list(range(20))
    assert status is Code.OK


# -- Go: fields that its senders omit --------------------------------------------------------------


def test_go_sends_only_rows_and_offset_after_the_first_request(table: Table) -> None:
    stream = create(table, COMMITTED)
    for connection in range(2):
        with Wire(table.server, stream) as wire:
            first = 3 * connection
            wire.send(
                rows_request([first], stream=stream, schema=True, offset=first, trace_id="go:test"),
                rows_request([first + 1], offset=first + 1),
                rows_request([first + 2]),
            )
            assert [offset_of(answer) for answer in wire.receive(3)] == [first, first + 1, first + 2]
    assert table.ids() == list(range(6))


def test_go_names_the_stream_in_each_request_of_a_shared_connection(server: LodeServer) -> None:
    one, two = Table(server), Table(server)
    with Wire(server, one.default) as wire:
        wire.send(
            rows_request([1], stream=one.default, schema=True, trace_id="go:test"),
            rows_request([2], stream=one.default),
            rows_request([3], stream=two.default, schema=True),
            rows_request([4], stream=two.default),
            rows_request([5], stream=one.default, schema=True),
        )
        assert all(answer.HasField("append_result") for answer in wire.receive(5))
    assert (one.ids(), two.ids()) == ([1, 2, 5], [3, 4])


def test_go_changes_the_schema_of_a_default_stream_by_sending_it(table: Table) -> None:
    add_column(table)
    with Wire(table.server, table.default) as wire:
        wire.ask(rows_request([1], stream=table.default, schema=True))
        request = rows_request([], schema=wider())
        request.proto_rows.rows.serialized_rows.append(b"\x08\x02\x1a\x01x")
        wire.ask(request)
        request = rows_request([])
        request.proto_rows.rows.serialized_rows.append(b"\x08\x03\x1a\x01y")
        wire.ask(request)
    assert [row["more"] for row in table.rows()] == [None, "x", "y"]


def test_gos_default_interpretation_of_the_first_request_holds_for_the_connection(server: LodeServer) -> None:
    fields = [
        {"name": "id", "type": "INT64"},
        {"name": "name", "type": "STRING", "defaultValueExpression": "'anon'"},
    ]
    table = Table(server, fields)
    only_id = Request()
    only_id.proto_rows.rows.serialized_rows.append(b"\x08\x01")
    first = rows_request([], stream=table.default, schema=True)
    first.MergeFrom(only_id)
    first.default_missing_value_interpretation = 2
    for_one = Request()
    for_one.CopyFrom(only_id)
    for_one.missing_value_interpretations["name"] = 1
    with Wire(server, table.default) as wire:
        for request in (first, only_id, for_one, only_id):
            assert wire.ask(request).HasField("append_result")
    assert [row["name"] for row in table.rows()] == ["anon", "anon", None, "anon"]


def test_gos_columns_outside_of_the_descriptor_always_get_their_default(server: LodeServer) -> None:
    fields = [
        {"name": "id", "type": "INT64"},
        {"name": "name", "type": "STRING", "defaultValueExpression": "'anon'"},
        {"name": "other", "type": "STRING", "defaultValueExpression": "'else'"},
    ]
    table = Table(server, fields)
    request = rows_request([], stream=table.default, schema=True)
    request.proto_rows.rows.serialized_rows.append(b"\x08\x01")
    with Wire(server, table.default) as wire:
        wire.ask(request)
        request.default_missing_value_interpretation = 2
        wire.ask(request)
        request.missing_value_interpretations["name"] = 1
        wire.ask(request)
    assert [(row["name"], row["other"]) for row in table.rows()] == [
        (None, "else"),
        ("anon", "else"),
        (None, "else"),
    ]


def test_go_retries_none_of_the_permanent_errors_of_an_append(table: Table) -> None:
    stream = create(table, COMMITTED)
    bad = rows_request([], offset=1)
    bad.proto_rows.rows.serialized_rows.append(b"\xff")
    with Wire(table.server, stream) as wire:
        wire.ask(rows_request([0], stream=stream, schema=True, offset=0))
        answers = [wire.ask(request) for request in (rows_request([0], offset=0), bad, rows_request([]))]
        finalize(table, stream)
        answers.append(wire.ask(rows_request([1], offset=1)))
    assert not {answer.error.code for answer in answers} & GO_RETRIES


# -- Beam: sharded writes through BUFFERED streams, batches through PENDING ones -------------------


def test_beam_may_repeat_a_flush_of_the_last_offset_and_a_finalize(table: Table) -> None:
    stream = create(table, BUFFERED)
    with Wire(table.server, stream) as wire:
        wire.ask(rows_request(range(5), stream=stream, schema=True, offset=0))
        wire.ask(rows_request(range(5, 8), offset=5))
    assert flush(table, stream, 4) == 4
    assert table.ids() == list(range(5))
    assert [flush(table, stream, 7) for _ in range(2)] == [7, 7]
    assert [finalize(table, stream) for _ in range(2)] == [8, 8]
    # Beam interprets INVALID_ARGUMENT as a finalized stream and does not retry.
    refused(Code.INVALID_ARGUMENT, lambda: flush(table, stream, 7))
    assert table.ids() == list(range(8))


def test_beam_recognizes_a_flush_beyond_the_end_by_its_message(table: Table) -> None:
    stream = create(table, BUFFERED)
    error = refused(Code.OUT_OF_RANGE, lambda: flush(table, stream, 0))
    assert error.details() == f"Offset 0 is beyond the end of the stream Entity: {stream}"


def test_rows_that_a_beam_worker_did_not_record_never_become_visible(table: Table) -> None:
    stream = create(table, BUFFERED)
    with Wire(table.server, stream) as wire:
        wire.ask(rows_request([0, 1], stream=stream, schema=True, offset=0))
        wire.ask(rows_request([2, 3], offset=2))  # the worker dies before it records this
    with Wire(table.server, stream) as wire:
        answer = wire.ask(rows_request([2], stream=stream, schema=True, offset=2))
        assert answer.error.code == Code.ALREADY_EXISTS.value[0]
    flush(table, stream, 1)
    finalize(table, stream)
    other = create(table, BUFFERED)
    with Wire(table.server, other) as wire:
        wire.ask(rows_request([2, 3], stream=other, schema=True, offset=0))
    flush(table, other, 1)
    refused(Code.INVALID_ARGUMENT, lambda: flush(table, stream, 3))
    assert table.ids() == [0, 1, 2, 3]


def test_beam_resends_the_good_rows_at_the_same_offset(
    table: Table,
) -> None:
    stream = create(table, BUFFERED)
    request = rows_request([0, 1, 2], stream=stream, schema=True, offset=0)
    request.proto_rows.rows.serialized_rows[1] = b"\xff"
    with Wire(table.server, stream) as wire:
        answer = wire.ask(request)
        assert answer.error.code == Code.INVALID_ARGUMENT.value[0]
        assert [(row.index, bool(row.message)) for row in answer.row_errors] == [(1, True)]
        # With a StorageError, Java would not read the row errors.
        assert not answer.error.details
        bad = {row.index for row in answer.row_errors}
        good = [id for id in (0, 1, 2) if id not in bad]
        assert offset_of(wire.ask(rows_request(good, offset=0))) == 0
    flush(table, stream, 1)
    assert table.ids() == [0, 2]


def test_beam_commits_the_remaining_streams_if_some_are_committed(table: Table) -> None:
    streams = []
    for id in range(3):
        stream = create(table, PENDING)
        with Wire(table.server, stream) as wire:
            wire.ask(rows_request([id], stream=stream, schema=True, offset=0))
        assert finalize(table, stream) == 1
        streams.append(stream)

    def commit(names: list[str]) -> Any:
        request = types.BatchCommitWriteStreamsRequest(parent=table.name, write_streams=names)
        return call(table.server, request)

    assert commit(streams[:1]).HasField("commit_time")
    partial = commit(streams)
    assert not partial.HasField("commit_time")
    done = {
        error.entity for error in partial.stream_errors if error.code == StorageCodes.STREAM_ALREADY_COMMITTED
    }
    assert done == {streams[0]}
    left = [name for name in streams if name not in done]
    assert commit(left).HasField("commit_time")
    assert table.ids() == [0, 1, 2]
