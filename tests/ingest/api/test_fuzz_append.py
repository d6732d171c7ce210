"""Hostile input on an append call: each request is answered, with a status for a client's error."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import grpc
import pyarrow as pa
import pytest
from google.cloud.bigquery_storage_v1 import types
from google.protobuf import descriptor_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lode.testing.plugin import LodeServer
from support.ingest.appending import (
    FIELDS,
    Call,
    arrow_request,
    batch_of,
    message_class,
    proto_request,
    row_descriptor,
)
from support.ingest.tables import KINDS, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

METHOD = "/google.cloud.bigquery.storage.v1.BigQueryWrite/AppendRows"
BLAMED = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
}
# INVALID_ARGUMENT, ALREADY_EXISTS, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED.
BLAMED_IN_BAND = {3, 6, 9, 11, 12}
MIXED = [
    *FIELDS,
    {"name": "at", "type": "TIMESTAMP"},
    {"name": "price", "type": "NUMERIC"},
    {"name": "tags", "type": "STRING", "mode": "REPEATED"},
    {"name": "place", "type": "STRUCT", "fields": [{"name": "x", "type": "FLOAT"}]},
]
few = settings(
    deadline=None,
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Fuzzed:
    """A server, its table, and a raw call for every example."""

    def __init__(self, server: LodeServer) -> None:
        self.table = Table(server, MIXED)
        self.streams = [
            self.table.default,
            f"{self.table.name}/_default",
            *(self.table.stream(kind) for kind in KINDS),
            self.table.unknown,
            f"{self.table.name}/streams/nobody",
            "projects/p/datasets/d/tables/nobody/_default",
            "",
        ]
        self._append = server.channel().stream_stream(METHOD)

    def call(self, *requests: bytes) -> int:
        """Send these on one call. Each has an answer, or the call ends with a status for a client's error."""
        answers = 0
        call = self._append(iter(requests), timeout=120)
        try:
            for answer in call:
                answers += 1
                response = types.AppendRowsResponse.pb().FromString(answer)
                which = response.WhichOneof("response")
                assert which is not None
                if which == "error":
                    assert response.error.code in BLAMED_IN_BAND, response.error
                    assert response.error.message
        except grpc.RpcError as error:
            ended: Any = error
            assert ended.code() in BLAMED, (ended.code(), ended.details())
            assert ended.details()
            assert answers < len(requests)
        else:
            assert answers == len(requests)
        return answers


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    server = LodeServer(tmp_path_factory.mktemp("fuzz") / "lake")
    yield Fuzzed(server)
    server.stop()


@pytest.fixture(autouse=True)
def still_well(fuzzed: Fuzzed, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """After each test the server still works and has logged no failure."""
    yield
    request = types.AppendRowsRequest.serialize(arrow_request(fuzzed.table.default, batch_of([1])))
    assert fuzzed.call(request) == 1
    logged = [record for record in caplog.get_records("call") if record.levelno >= logging.WARNING]
    assert [record.getMessage() for record in logged if record.name.startswith(("lode", "asyncio"))] == []


def serialized(request: types.AppendRowsRequest) -> bytes:
    data: bytes = types.AppendRowsRequest.serialize(request)
    return data


row = message_class(row_descriptor())
PROTO_ROWS = [row(id=number, name=f"name-{number}").SerializeToString() for number in range(5)]


@few
@given(requests=st.lists(st.binary(max_size=80), min_size=1, max_size=3))
def test_bytes_that_are_not_a_request(fuzzed: Fuzzed, requests: list[bytes]) -> None:
    fuzzed.call(*requests)


@few
@given(
    arrow=st.booleans(),
    stream=st.integers(0, 4),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.none() | st.floats(0, 1),
)
def test_a_valid_request_with_changed_bytes(
    fuzzed: Fuzzed, arrow: bool, stream: int, flips: list[tuple[float, int]], cut: float | None
) -> None:
    name = fuzzed.streams[stream]
    good = serialized(
        arrow_request(name, batch_of(range(5)))
        if arrow
        else proto_request(name, PROTO_ROWS, descriptor=row_descriptor())
    )
    bad = bytearray(good)
    for place, value in flips:
        bad[int(place * len(bad))] = value
    if cut is not None:
        del bad[int(cut * len(bad)) :]
    fuzzed.call(good, bytes(bad), good)


NAMES = st.sampled_from(["id", "ID", "name", "at", "price", "tags", "place", "x", "_CHANGE_TYPE", "", "ü"])
FIELD_TYPES = st.integers(1, 18)


@st.composite
def descriptors(draw: st.DrawFn, depth: int = 0) -> descriptor_pb2.DescriptorProto:
    """Messages of a few fields, valid and invalid, with random names, numbers, types and labels."""
    made = descriptor_pb2.DescriptorProto(name=draw(st.sampled_from(["Row", "", "Row.x", "ü"])))
    for _ in range(draw(st.integers(0, 4))):
        made.field.add(
            name=draw(NAMES),
            number=draw(st.integers(-1, 6) | st.just(2**29)),
            type=draw(FIELD_TYPES),
            label=draw(st.integers(1, 3)),
            type_name=draw(
                st.sampled_from(["", "Inner", ".Row", "Row.Inner", ".google.protobuf.Int64Value"])
            ),
        )
    if depth < 2 and draw(st.booleans()):
        made.nested_type.add().CopyFrom(draw(descriptors(depth=depth + 1)))
        made.nested_type[0].name = "Inner"
    return made


@few
@given(
    descriptor=descriptors(),
    rows=st.lists(st.binary(max_size=30) | st.sampled_from(PROTO_ROWS), max_size=4),
    stream=st.integers(0, 7),
    offset=st.none() | st.integers(-(2**63), 2**63 - 1),
)
def test_any_descriptor_with_any_rows(
    fuzzed: Fuzzed,
    descriptor: descriptor_pb2.DescriptorProto,
    rows: list[bytes],
    stream: int,
    offset: int | None,
) -> None:
    name = fuzzed.streams[stream]
    fuzzed.call(serialized(proto_request(name, rows, descriptor=descriptor, offset=offset)))


ARROW_TYPES = st.sampled_from(
    [
        pa.int64(),
        pa.int8(),
        pa.uint64(),
        pa.float32(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.bool_(),
        pa.date32(),
        pa.timestamp("ns", "Europe/Berlin"),
        pa.timestamp("s"),
        pa.time32("ms"),
        pa.duration("us"),
        pa.decimal128(20, 3),
        pa.null(),
        pa.list_(pa.string()),
        pa.list_(pa.int64()),
        pa.struct([pa.field("x", pa.float64())]),
        pa.struct([pa.field("y", pa.float64())]),
        pa.dictionary(pa.int8(), pa.string()),
        pa.map_(pa.string(), pa.int64()),
    ]
)


@few
@given(
    fields=st.lists(st.tuples(NAMES, ARROW_TYPES), max_size=4),
    other=st.none() | st.lists(st.tuples(NAMES, ARROW_TYPES), max_size=4),
    length=st.integers(0, 3),
    stream=st.integers(0, 7),
    offset=st.none() | st.integers(-2, 5),
    interpretations=st.dictionaries(NAMES, st.integers(0, 3), max_size=2),
)
def test_any_arrow_schema_with_rows_of_it_or_of_another(
    fuzzed: Fuzzed,
    fields: list[tuple[str, pa.DataType]],
    other: list[tuple[str, pa.DataType]] | None,
    length: int,
    stream: int,
    offset: int | None,
    interpretations: dict[str, int],
) -> None:
    schema = pa.schema([pa.field(name, kind) for name, kind in fields])
    sent = schema if other is None else pa.schema([pa.field(name, kind) for name, kind in other])
    batch = pa.RecordBatch.from_arrays([pa.nulls(length, field.type) for field in sent], schema=sent)
    request = arrow_request(
        fuzzed.streams[stream], batch, offset=offset, missing_value_interpretations=interpretations
    )
    request.arrow_rows.writer_schema = types.ArrowSchema(serialized_schema=schema.serialize().to_pybytes())
    fuzzed.call(serialized(request))


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, int, int | None]:
    kind = draw(
        st.sampled_from(
            ["arrow", "proto", "no schema", "no rows", "bad rows", "surplus", "garbage", "both schemas"]
        )
    )
    return kind, draw(st.integers(0, 7)), draw(st.none() | st.integers(0, 20))


@few
@given(order=st.lists(steps(), min_size=1, max_size=6))
def test_valid_and_invalid_requests_in_any_order(
    fuzzed: Fuzzed, order: list[tuple[str, int, int | None]]
) -> None:
    fuzzed.call(*(request(kind, fuzzed.streams[stream], offset) for kind, stream, offset in order))


def request(kind: str, stream: str, offset: int | None) -> bytes:
    match kind:
        case "arrow":
            return serialized(arrow_request(stream, batch_of([1, 2]), offset=offset))
        case "proto":
            return serialized(proto_request(stream, PROTO_ROWS, descriptor=row_descriptor(), offset=offset))
        case "no schema":
            return serialized(arrow_request(stream, batch_of([1]), offset=offset, schema=False))
        case "no rows":
            return serialized(types.AppendRowsRequest(write_stream=stream, offset=offset))
        case "bad rows":
            return serialized(proto_request(stream, [b"\xff"], descriptor=row_descriptor(), offset=offset))
        case "surplus":
            return serialized(arrow_request(stream, pa.record_batch({"surplus": [1]}), offset=offset))
        case "both schemas":
            # If a message has both kinds of rows, the later one on the wire is used.
            arrow = serialized(arrow_request(stream, batch_of([1]), offset=offset))
            return arrow + serialized(proto_request(stream, PROTO_ROWS[:1], offset=offset))
    return b"\x0a\xff\xff"


def test_the_fuzzed_streams_are_consistent(fuzzed: Fuzzed) -> None:
    """The stored rows can be finalized, flushed, committed and read."""
    table = fuzzed.table
    _, _, committed, pending, buffered = fuzzed.streams[:5]
    with Call(table.client) as call:
        beyond = call.ask(arrow_request(buffered, batch_of([1]), offset=2**40)).error.message
    expected = re.search(r"expected offset (\d+)", beyond)
    assert expected is not None
    if int(expected[1]):
        table.flush(buffered, int(expected[1]) - 1)
    counts = {name: table.finalize(name) for name in (committed, pending, buffered)}
    assert not table.commit(pending).stream_errors
    assert len(table.rows()) >= sum(counts.values())
