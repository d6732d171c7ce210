"""The Python client's helper, ``AppendRowsStream``: every stream type, errors, reconnects, restarts."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.api_core.exceptions import AlreadyExists, GoogleAPICallError, InvalidArgument, OutOfRange, Unknown
from google.cloud import bigquery
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient, types, writer
from google.cloud.bigquery_storage_v1.exceptions import StreamClosedError
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ingest.core.test_restarts import create_table
from ingest.core.test_restarts import ids_in as ids_on_the_store
from support.ingest.appending import FIELDS, arrow_request, columns
from support.ingest.helper_streams import FORMATS, HelperStream, Numbered, answer_of
from support.ingest.processes import ServerProcess
from support.ingest.refusals import UNKNOWN_ID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.testing.plugin import LodeServer

TABLE = "p.d.t"
NAME = "projects/p/datasets/d/tables/t"
DEFAULT = f"{NAME}/streams/_default"
KINDS = {"committed": 1, "pending": 2, "buffered": 3}


@pytest.fixture
def server(lode_server: LodeServer) -> LodeServer:
    lode_server.create_table(TABLE, FIELDS)
    return lode_server


def new_stream(client: BigQueryWriteClient, kind: str) -> str:
    return client.create_write_stream(parent=NAME, write_stream=types.WriteStream(type_=KINDS[kind])).name


def show(client: BigQueryWriteClient, kind: str, stream: str, rows: int) -> None:
    """Make the rows of a stream of this type visible."""
    if kind == "pending":
        assert client.finalize_write_stream(name=stream).row_count == rows
        request = types.BatchCommitWriteStreamsRequest(parent=NAME, write_streams=[stream])
        assert not client.batch_commit_write_streams(request).stream_errors
    elif kind == "buffered":
        client.flush_rows(types.FlushRowsRequest(write_stream=stream, offset=rows - 1))


def is_stored(future: Any) -> bool:
    try:
        return "append_result" in answer_of(future)
    except (GoogleAPICallError, StreamClosedError):
        return False


def ids_in(server: LodeServer) -> list[int]:
    found: list[Any] = server.rows(TABLE).column("id").to_pylist()
    return found


@pytest.mark.parametrize("form", FORMATS)
def test_the_helper_writes_to_the_default_stream(server: LodeServer, form: str) -> None:
    with HelperStream(server.write_client(), DEFAULT, form) as stream:
        answers = [answer_of(future) for future in [stream.send([n, n + 10]) for n in range(5)]]
    assert [answer.append_result.offset for answer in answers] == [None] * 5
    assert {answer.write_stream for answer in answers} == {DEFAULT}
    assert sorted(ids_in(server)) == [*range(5), *range(10, 15)]
    assert set(server.rows(TABLE).column("name").to_pylist()) == {f"name-{i}" for i in ids_in(server)}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_helper_writes_with_offsets(server: LodeServer, kind: str, form: str) -> None:
    client = server.write_client()
    name = new_stream(client, kind)
    with HelperStream(client, name, form) as stream:
        futures = [stream.send([n, n + 1], offset=n) for n in range(0, 20, 2)]
        assert [answer_of(future).append_result.offset for future in futures] == list(range(0, 20, 2))
    assert ids_in(server) == (list(range(20)) if kind == "committed" else [])
    show(client, kind, name, 20)
    assert ids_in(server) == list(range(20))


@pytest.mark.parametrize("form", FORMATS)
def test_a_wrong_offset_fails_its_future_alone(server: LodeServer, form: str) -> None:
    client = server.write_client()
    with HelperStream(client, new_stream(client, "committed"), form) as stream:
        sent = [stream.send([0], offset=0), stream.send([0], offset=0), stream.send([9], offset=9)]
        last = stream.send([1], offset=1)
        answer_of(sent[0])
        with pytest.raises(AlreadyExists, match="expected offset 1, received 0"):
            answer_of(sent[1])
        with pytest.raises(OutOfRange, match="expected offset 1, received 9"):
            answer_of(sent[2])
        assert answer_of(last).append_result.offset == 1
    assert ids_in(server) == [0, 1]


def test_bad_rows_fail_their_future_with_a_response_that_names_them(server: LodeServer) -> None:
    server.create_table("p.d.required", [{"name": "id", "type": "INT64", "mode": "REQUIRED"}, FIELDS[1]])
    stream = "projects/p/datasets/d/tables/required/streams/_default"
    with HelperStream(server.write_client(), stream, "protobuf") as helper:
        answer_of(helper.send([1]))
        bad = helper.request([2, 3, 4])
        bad.proto_rows.rows.serialized_rows = [b"", *bad.proto_rows.rows.serialized_rows[1:], b""]
        with pytest.raises(InvalidArgument) as refused:
            answer_of(helper.helper.send(bad))
        assert [error.index for error in refused.value.response.row_errors] == [0, 3]
        answer_of(helper.send([5]))
    assert server.rows("p.d.required").column("id").to_pylist() == [1, 5]


def test_the_helper_reconnects_after_an_ended_call(server: LodeServer) -> None:
    with HelperStream(server.write_client(), DEFAULT, "arrow") as stream:
        answer_of(stream.send([1]))
        strange = arrow_request("", columns(id=[2], unknown=["x"]))
        with pytest.raises(InvalidArgument, match="unknown"):
            answer_of(stream.helper.send(strange))
        answer_of(stream.send([3]))
    assert ids_in(server) == [1, 3]


def test_a_send_fails_if_its_call_ends_with_the_first_request(server: LodeServer) -> None:
    stream = HelperStream(server.write_client(), f"{NAME}/streams/{UNKNOWN_ID}", "arrow")
    with pytest.raises(Unknown, match="problem opening the stream"):
        stream.send([1])


def test_a_schema_change_reaches_the_helper_with_an_answer(server: LodeServer) -> None:
    with (
        server.bigquery_client("p") as client,
        HelperStream(server.write_client(), DEFAULT, "arrow") as stream,
    ):
        assert not answer_of(stream.send([1])).updated_schema.fields
        table = client.get_table(TABLE)
        table.schema = [*table.schema, bigquery.SchemaField("more", "FLOAT")]
        client.update_table(table, ["schema"])
        updated = answer_of(stream.send([2])).updated_schema
        assert [field.name for field in updated.fields] == ["id", "name", "more"]
        assert not answer_of(stream.send([3])).updated_schema.fields


def test_helpers_in_parallel_lose_nothing(server: LodeServer) -> None:
    def write(number: int) -> None:
        client = server.write_client()
        form = FORMATS[number % 2]
        with HelperStream(client, new_stream(client, "committed"), form) as stream:
            Numbered(stream, per_append=3, first=number * 1000).write_up_to(60)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    found = ids_in(server)
    assert len(found) == len(set(found))
    for number in range(6):
        mine = [row for row in found if row // 1000 == number]
        assert mine[:60] == [number * 1000 + row for row in range(60)]


def test_a_proto3_message_omits_unset_fields(server: LodeServer) -> None:
    """Without ``optional``, proto3 does not send zeros, so they are the same as nulls."""
    file = descriptor_pb2.FileDescriptorProto(name="v3.proto", syntax="proto3")
    message = file.message_type.add(name="Row")
    field = descriptor_pb2.FieldDescriptorProto
    label = field.LABEL_OPTIONAL
    message.field.add(
        name="id", number=1, type=field.TYPE_INT64, label=label, proto3_optional=True, oneof_index=0
    )
    message.field.add(name="name", number=2, type=field.TYPE_STRING, label=label)
    message.oneof_decl.add(name="_id")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    row: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("Row"))
    described = descriptor_pb2.DescriptorProto()
    row.DESCRIPTOR.CopyToProto(described)
    proto = types.AppendRowsRequest.ProtoData
    schema = proto(writer_schema=types.ProtoSchema(proto_descriptor=described))
    make: Any = writer.AppendRowsStream
    stream = make(server.write_client(), types.AppendRowsRequest(write_stream=DEFAULT, proto_rows=schema))
    rows = [row(id=0, name=""), row(name="x"), row()]
    data = types.ProtoRows(serialized_rows=[one.SerializeToString() for one in rows])
    answer_of(stream.send(types.AppendRowsRequest(proto_rows=proto(rows=data))))
    stream.close()
    assert server.rows(TABLE).to_pylist() == [
        {"id": 0, "name": None},
        {"id": None, "name": "x"},
        {"id": None, "name": None},
    ]


# -- restarts ----------------------------------------------------------------------------------


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that restarts at the same address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ServerProcess(tmp_path / "lake", "--port", str(port)) as started:
        create_table(started, FIELDS)
        yield started


@pytest.fixture
def client(process: ServerProcess) -> Iterator[BigQueryWriteClient]:
    """A client that survives the server and reconnects sooner than by default."""
    options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]
    with grpc.insecure_channel(process.grpc_address, options=options) as channel:
        make: Any = BigQueryWriteClient
        made: BigQueryWriteClient = make(transport=BigQueryWriteGrpcTransport(channel=channel))
        yield made


def test_a_crashed_and_restarted_server_neither_loses_nor_repeats_rows(
    process: ServerProcess, client: BigQueryWriteClient
) -> None:
    kinds = ["committed", "committed", "pending", "buffered"]
    forms = ["arrow", "protobuf", "arrow", "protobuf"]
    names = [new_stream(client, kind) for kind in kinds]
    streams = [HelperStream(client, name, form) for name, form in zip(names, forms, strict=True)]
    writers = [
        Numbered(stream, per_append=2 + number, first=1_000_000 * number)
        for number, stream in enumerate(streams)
    ]
    for ending in (process.kill, process.terminate, process.kill):
        for numbered in writers:
            numbered.write_up_to(numbered.stored + 10)
        for numbered in writers:
            numbered.send_window()
        ending()
        process.start()
        for numbered in writers:
            numbered.gather()
    for numbered in writers:
        numbered.write_up_to(numbered.stored + 10)
    for kind, name, numbered in zip(kinds, names, writers, strict=True):
        show(client, kind, name, numbered.stored)
    for stream in streams:
        stream.helper.close()
    found = ids_on_the_store(process)
    for number, numbered in enumerate(writers):
        mine = [row - 1_000_000 * number for row in found if row // 1_000_000 == number]
        assert mine == list(range(numbered.stored))


def test_the_default_stream_loses_nothing_in_a_crash(
    process: ServerProcess, client: BigQueryWriteClient
) -> None:
    with HelperStream(client, DEFAULT, "arrow") as stream:
        futures = {number: stream.send([number]) for number in range(20)}
        answer_of(futures[0])
        process.kill()
        stored = [number for number, future in futures.items() if is_stored(future)]
    found = ids_on_the_store(process)
    assert 0 in stored
    assert set(stored) <= set(found)
    assert len(found) == len(set(found)), "nothing was sent twice, so nothing is there twice"
