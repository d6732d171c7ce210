"""No request blocks the server's event loop: other calls are served at the same time.

The tests measure the processor time of each callback on the loop's thread, and not the elapsed time: other
processes and other threads do not count, nor does how many callbacks have become ready meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import grpc
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery_storage_v1 import types
from google.protobuf import descriptor_pb2

from lode.testing.plugin import LodeServer
from support.ingest.appending import Call, Field, arrow_request, batch_of, proto_request, row_descriptor
from support.ingest.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LAG_SECONDS = 0.05
WIDE = 10_000
APPEND = "/google.cloud.bigquery.storage.v1.BigQueryWrite/AppendRows"


class Lag:
    """The longest that one callback has kept the loop's thread busy."""

    def __init__(self) -> None:
        self.busy = 0.0


@contextmanager
def lag_of(server: LodeServer) -> Iterator[Lag]:
    """Measure every callback of the server's loop during the block."""
    loop = server._running._loop
    lag = Lag()
    handle: Any = asyncio.Handle
    run = handle._run

    def measured(callback: Any) -> None:
        if callback._loop is not loop:
            run(callback)
            return
        began = time.thread_time()
        run(callback)
        lag.busy = max(lag.busy, time.thread_time() - began)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handle, "_run", measured)
        yield lag


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LodeServer]:
    running = LodeServer(tmp_path_factory.mktemp("lag") / "lake")
    Table(running)  # the first request of a process imports modules
    yield running
    running.stop()


@pytest.fixture(scope="module")
def table(server: LodeServer) -> Table:
    return Table(server)


@pytest.fixture(scope="module")
def wide(server: LodeServer) -> Table:
    """A table with the maximum number of columns."""
    return Table(server, [{"name": f"c{number}", "type": "STRING"} for number in range(WIDE)])


@pytest.fixture
def steady(server: LodeServer) -> Iterator[None]:
    """Keep the test itself from blocking the loop."""
    # The garbage collector runs on any thread and traverses the objects of all tests.
    gc.collect()
    gc.disable()
    with lag_of(server) as lag:
        yield
    gc.enable()
    assert lag.busy < MAX_LAG_SECONDS


def outcome(server: LodeServer, *requests: bytes) -> list[Any]:
    """Send requests on one call; returns the answers, and the status if one has ended it."""
    call = server.channel().stream_stream(APPEND)(iter(requests), timeout=60)
    found: list[Any] = []
    try:
        found += [types.AppendRowsResponse.pb().FromString(answer) for answer in call]
    except grpc.RpcError as error:
        found.append(error)
    return found


def outcomes(server: LodeServer, calls: int, request: bytes) -> list[Any]:
    """Send the same request on many calls at once."""
    with ThreadPoolExecutor(calls) as pool:
        return [found[0] for found in pool.map(lambda _: outcome(server, request), range(calls))]


def serialized(request: types.AppendRowsRequest) -> bytes:
    data: bytes = types.AppendRowsRequest.serialize(request)
    return data


def compressed(stream: str, batch: pa.RecordBatch) -> bytes:
    """An append of a batch that is small on the wire."""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    request = arrow_request(stream, batch.slice(0, 0))
    request.arrow_rows.rows.serialized_record_batch = sink.getvalue().to_pybytes()
    return serialized(request)


def zeros(count: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.repeat(pa.scalar(0, pa.int64()), count)})


@pytest.mark.usefixtures("steady")
def test_requests_above_the_limit_after_decompression(server: LodeServer, table: Table) -> None:
    bomb = compressed(table.default, zeros(30_000_000))
    assert len(bomb) < 50_000
    for answer in outcomes(server, 24, bomb):
        assert answer.error.code == 3
        assert "bytes or more when unpacked, the limit is 167,772,160" in answer.error.message


@pytest.mark.usefixtures("steady")
def test_requests_that_are_large_after_decompression(server: LodeServer, table: Table) -> None:
    stream = table.stream("pending")
    for answer in outcomes(server, 6, compressed(stream, zeros(5_000_000))):
        assert answer.HasField("append_result")


@pytest.mark.usefixtures("steady")
def test_large_requests_of_tiny_rows(server: LodeServer, table: Table) -> None:
    stream = table.stream("pending")
    row = b"\x08\x07\x12\x5f" + b"x" * 95
    request = serialized(proto_request(stream, [row] * 100_000, descriptor=row_descriptor()))
    assert len(request) > 10_000_000
    for _ in range(3):
        (answer,) = outcome(server, request)
        assert answer.HasField("append_result")


@pytest.mark.usefixtures("steady")
def test_rows_without_bytes(server: LodeServer, table: Table) -> None:
    request = serialized(proto_request(table.stream("pending"), [], descriptor=row_descriptor()))
    empty = types.AppendRowsRequest.pb()()
    empty.proto_rows.rows.serialized_rows.extend([b""] * 3_000_000)
    (answer,) = outcomes(server, 1, request + empty.SerializeToString())
    assert answer.HasField("append_result") or answer.error.code == 3


@pytest.mark.usefixtures("steady")
def test_many_bad_rows(server: LodeServer, table: Table) -> None:
    rows = [b"\x12\x01\xff"] * 200_000
    (answer,) = outcomes(
        server, 1, serialized(proto_request(table.default, rows, descriptor=row_descriptor()))
    )
    assert len(answer.row_errors) > 1_000


@pytest.fixture(scope="module")
def parsed(server: LodeServer) -> Table:
    """A table whose columns are parsed from text, value by value."""
    kinds = ("NUMERIC", "TIMESTAMP", "JSON", "INTERVAL", "DATETIME")
    return Table(server, [{"name": f"c{number}", "type": kinds[number % 5]} for number in range(40)])


@pytest.mark.usefixtures("steady")
def test_values_that_are_parsed_one_by_one(server: LodeServer, parsed: Table) -> None:
    texts = ("1.5", "2026-01-01 00:00:00Z", "{}", "1-2 3 4:5:6", "2026-01-01 00:00:00")
    values = [texts[number % 5].encode() for number in range(40)]
    row = b"".join(
        bytes([0x80 | (tag & 0x7F), tag >> 7, len(text)]) + text
        for tag, text in ((number << 3 | 2, text) for number, text in enumerate(values, 1))
    )
    rows = [row] * ((200 << 10) // len(row))
    answers = outcome(
        server, *[serialized(proto_request(parsed.default, rows, descriptor=descriptor_of(40)))] * 2
    )
    assert all(answer.HasField("append_result") for answer in answers), answers
    columns = {f"c{number}": [texts[number % 5]] * 300 for number in range(40) if number % 5 in (0, 2, 3)}
    (answer,) = outcome(server, serialized(arrow_request(parsed.default, pa.record_batch(columns))))
    assert answer.HasField("append_result"), answer


def descriptor_of(count: int) -> descriptor_pb2.DescriptorProto:
    made = descriptor_pb2.DescriptorProto(name="Row")
    for number in range(1, count + 1):
        made.field.add(name=f"c{number - 1}", number=number, type=Field.TYPE_STRING, label=1)
    return made


def nested_descriptor(depth: int) -> descriptor_pb2.DescriptorProto:
    made = descriptor_pb2.DescriptorProto(name="Row")
    for _ in range(depth):
        outer = descriptor_pb2.DescriptorProto(name="Row")
        outer.nested_type.add().CopyFrom(made)
        outer.field.add(name="id", number=1, type=Field.TYPE_MESSAGE, label=1, type_name="Row")
        made = outer
    return made


def recursive_descriptor() -> descriptor_pb2.DescriptorProto:
    made = descriptor_pb2.DescriptorProto(name="Row")
    made.field.add(name="id", number=1, type=Field.TYPE_MESSAGE, label=1, type_name=".Row")
    return made


def enum_descriptor(count: int) -> descriptor_pb2.DescriptorProto:
    made = row_descriptor()
    enum = made.enum_type.add(name="E")
    for number in range(count):
        enum.value.add(name=f"V{number}", number=number)
    return made


@pytest.mark.usefixtures("steady")
def test_huge_descriptors(server: LodeServer, table: Table, wide: Table) -> None:
    for stream, descriptor in (
        (wide.default, descriptor_of(WIDE)),
        (wide.default, descriptor_of(3_000)),
        (table.default, descriptor_of(200_000)),
        (table.default, nested_descriptor(60)),
        (table.default, recursive_descriptor()),
        (table.default, enum_descriptor(90_000)),
    ):
        outcome(server, serialized(proto_request(stream, [b""] * 10, descriptor=descriptor)))


@pytest.mark.usefixtures("steady")
def test_huge_arrow_schemas(server: LodeServer, table: Table, wide: Table) -> None:
    names = [f"c{number}" for number in range(WIDE)]
    batch = pa.record_batch([pa.array(["a", "b"])] * WIDE, names=names)
    (answer,) = outcome(server, serialized(arrow_request(wide.stream("pending"), batch)))
    assert answer.HasField("append_result")
    kind: Any = pa.int64()
    for _ in range(50):
        kind = pa.struct([("id", kind)])
    deep = pa.schema([("id", kind)])
    strange = pa.schema([(f"x{number}", pa.int64()) for number in range(50_000)])
    for schema in (deep, strange):
        request = arrow_request(table.default, batch_of([1]))
        request.arrow_rows.writer_schema = types.ArrowSchema(
            serialized_schema=schema.serialize().to_pybytes()
        )
        outcome(server, serialized(request))


@pytest.mark.usefixtures("steady")
def test_huge_dictionaries(server: LodeServer, table: Table) -> None:
    words = pa.DictionaryArray.from_arrays(
        pa.array(range(300_000), pa.int32()), pa.array([f"word {number}" for number in range(300_000)])
    )
    batch = pa.record_batch({"name": words})
    (ended,) = outcomes(server, 1, compressed(table.default, batch))
    assert ended.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.usefixtures("steady")
def test_many_record_batches_in_a_request(server: LodeServer, table: Table) -> None:
    request = arrow_request(table.default, batch_of([1]))
    message = request.arrow_rows.rows.serialized_record_batch
    request.arrow_rows.rows.serialized_record_batch = message * 900
    (answer,) = outcome(server, serialized(request))
    assert answer.HasField("append_result")


@pytest.mark.usefixtures("steady")
def test_thousands_of_tiny_requests_on_a_stream(server: LodeServer, table: Table) -> None:
    stream = table.stream("pending")
    first, *others = [serialized(arrow_request(stream, batch_of([1])))] * 3_000
    assert all(answer.HasField("append_result") for answer in outcome(server, first, *others))


@pytest.mark.usefixtures("steady")
def test_a_commit_of_a_thousand_streams(table: Table) -> None:
    names = [f"{table.name}/streams/s-{number:032x}" for number in range(1_000)]
    assert len(table.commit(*names).stream_errors) == 1_000
    with suppress(GoogleAPICallError):
        table.commit(*("/" * 500 for _ in range(20_000)))


@pytest.mark.usefixtures("steady")
def test_a_read_session_of_everything(server: LodeServer, wide: Table) -> None:
    client = server.read_client()
    names = [f"c{number}" for number in range(WIDE)]
    restriction = " OR ".join(f"c{number} = '{'x' * 500}'" for number in range(900))
    for options in ({"selected_fields": names}, {"row_restriction": restriction}):
        session = types.ReadSession(table=wide.name, data_format=2, read_options=options)
        with suppress(GoogleAPICallError):
            client.create_read_session(parent="projects/p", read_session=session)


@pytest.mark.usefixtures("steady")
def test_a_table_of_ten_thousand_columns(server: LodeServer, wide: Table) -> None:
    project, dataset, name = wide.id.split(".")
    url = f"{server.http_url}/bigquery/v2/projects/{project}/datasets/{dataset}/tables/{name}"
    with urlopen(url) as response:
        assert len(json.load(response)["schema"]["fields"]) == WIDE
    assert len(wide.get(wide.default, "FULL").table_schema.fields) == WIDE
    with Call(wide.client) as call:
        call.ask(arrow_request(wide.default, pa.record_batch({"c1": ["a"]})))
        call.ask(
            arrow_request(
                wide.default, pa.record_batch({"c1": ["a"]}), default_missing_value_interpretation=2
            )
        )


def test_the_measurement_detects_a_blocked_loop(server: LodeServer) -> None:
    async def hold() -> None:
        until = time.thread_time() + 2 * MAX_LAG_SECONDS
        while time.thread_time() < until:
            pass

    with lag_of(server) as lag:
        asyncio.run_coroutine_threadsafe(hold(), server._running._loop).result()
    assert lag.busy > MAX_LAG_SECONDS


@pytest.mark.usefixtures("steady")
def test_geographies_that_are_slow_to_check_do_not_block_the_loop(server: LodeServer) -> None:
    # Text of this size is decoded on the loop.
    shapes = Table(server, [{"name": "shape", "type": "GEOGRAPHY"}])
    corners = ("{x} {y}, {x}.5 {y}, {x}.5 {y}.5, {x} {y}".format(x=n % 100, y=n // 100) for n in range(6_000))
    rows = pa.record_batch({"shape": [f"MULTIPOLYGON({', '.join(f'(({ring}))' for ring in corners)})"]})
    for _ in range(2):  # the first request loads the library for geographies
        (answer,) = outcome(server, serialized(arrow_request(shapes.default, rows)))
        assert answer.HasField("append_result"), answer


@pytest.mark.usefixtures("steady")
def test_large_bodies_of_rest(server: LodeServer, table: Table) -> None:
    rows = [{"json": {"id": number, "name": "x" * 150}} for number in range(48_000)]
    body = json.dumps({"rows": rows}).encode()
    assert len(body) > 8_000_000
    url = f"{server.http_url}/bigquery/v2/{table.name}/insertAll"
    request = Request(url, body, {"Content-Type": "application/json"})
    with urlopen(request) as answer:
        assert "insertErrors" not in json.load(answer)
