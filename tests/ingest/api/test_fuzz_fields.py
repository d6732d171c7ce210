"""Hostile values in every field of every method of both services: each request is answered.

The fields are found by walking the descriptors of the services, so none is missing.
"""

from __future__ import annotations

import logging
import math
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import pytest
from google.cloud.bigquery_storage_v1 import types
from google.protobuf.descriptor import FieldDescriptor

import lode
from lode.ingest.api.reflection import SERVICES, STREAMED_REQUESTS, STREAMED_RESPONSES
from lode.testing.plugin import LodeServer
from support.ingest.appending import (
    FIELDS,
    arrow_request,
    batch_of,
    message_class,
    proto_request,
    row_descriptor,
)
from support.ingest.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PACKAGE = "google.cloud.bigquery.storage.v1"
# None of them is UNKNOWN, INTERNAL, UNAVAILABLE or DEADLINE_EXCEEDED.
CLEAN = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
}
CLEAN_IN_BAND = {code.value[0] for code in CLEAN}
SECONDS_PER_CALL = 120
IN_FLIGHT = 16
# As long as the bytes that replace it on the wire: client libraries refuse to set those bytes.
MARKER = "@not-utf@"
NOT_UTF8 = b"\xff\xed\xa0\x80\xc3\x28\xf0\x80\x80"
CHANCE = random.Random(7)
TEXTS = (
    "",
    "\0",
    "a\0b",
    MARKER,
    "x" * 100_000,
    "../../../etc/passwd",
    "projects/../datasets/../tables/..",
    "projects/p/datasets/d/tables/t/streams/../../x",
    "%00%2e%2e%2f",
    "' OR 1=1 --",
    "\u202e\U0001f9a4" * 50,
    "{" * 5_000,
)
BYTES = (
    b"",
    b"\0" * 64,
    b"\xff" * 200_000,
    CHANCE.randbytes(999),
    b"\xff\xff\xff\xff" + CHANCE.randbytes(64),
)
INTS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), -1, 0, 1, 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), -1, 0, 1, 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2**64 - 1),
}
FLOATS = (0.0, -1.0, 1e308, math.nan, math.inf)
# The length of a repeated field, and the depth of a recursive message.
MANY = 1_000
DEEP = 60


class Fuzzed(NamedTuple):
    """One hostile request, and its changed field."""

    method: str
    field: str
    request: bytes


def values(field: Any) -> Iterator[Any]:
    """Return hostile values for a field that is not a message."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            yield from BYTES if field.type == FieldDescriptor.TYPE_BYTES else TEXTS
        case FieldDescriptor.CPPTYPE_BOOL:
            yield from (True, False)
        case FieldDescriptor.CPPTYPE_ENUM:
            yield from (value.number for value in field.enum_type.values)
            yield from (-1, 99, 2**31 - 1)
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            yield from FLOATS
        case _:
            yield from INTS[field.cpp_type]


def is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def changes(message: Any, path: str = "", above: frozenset[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Yield each field of a message at any depth, with each change of the message there."""
    descriptor = message.DESCRIPTOR
    for field in descriptor.fields:
        at = f"{path}.{field.name}".lstrip(".")
        if is_map(field):
            yield from ((at, change) for change in map_changes(field))
        elif field.message_type is not None:
            yield from ((at, change) for change in message_changes(field))
            if field.message_type.full_name not in above | {descriptor.full_name}:
                inner = message_class_of(field)()
                for below, change in changes(inner, at, above | {descriptor.full_name}):
                    yield below, inside(field, change)
        else:
            yield from ((at, change) for value in values(field) for change in value_changes(field, value))


def message_class_of(field: Any) -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(field.message_type)


def inside(field: Any, change: Callable[[Any], None]) -> Callable[[Any], None]:
    def apply(message: Any) -> None:
        held = getattr(message, field.name)
        if field.is_repeated:
            change(held[0] if len(held) else held.add())
        else:
            held.SetInParent()
            change(held)

    return apply


def value_changes(field: Any, value: Any) -> Iterator[Callable[[Any], None]]:
    if field.is_repeated:
        yield lambda message: getattr(message, field.name).append(value)
        # Only small values are repeated: one large value is large enough.
        count = MANY if not isinstance(value, str | bytes) or len(value) < 100 else 2
        yield lambda message: getattr(message, field.name).extend([value] * count)
    else:
        yield lambda message: setattr(message, field.name, value)


def message_changes(field: Any) -> Iterator[Callable[[Any], None]]:
    if field.is_repeated:

        def many(message: Any) -> None:
            for _ in range(MANY):
                getattr(message, field.name).add()

        yield many
    else:
        yield lambda message: getattr(message, field.name).SetInParent()
    if field.message_type is field.containing_type:

        def nest(message: Any) -> None:
            for _ in range(DEEP):
                held = getattr(message, field.name)
                message = held.add() if field.is_repeated else held
                message.SetInParent()

        yield nest
    yield lambda message: message.ClearField(field.name)


def map_changes(field: Any) -> Iterator[Callable[[Any], None]]:
    key_field, value_field = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    keys = list(values(key_field))
    if value_field.message_type is not None:
        yield from (lambda message, key=key: getattr(message, field.name)[key].SetInParent() for key in keys)
        return
    for key in [*keys, "id"]:
        for value in values(value_field):

            def put(message: Any, key: Any = key, value: Any = value) -> None:
                getattr(message, field.name)[key] = value

            yield put


def fuzzed(method: str, good: Any) -> Iterator[Fuzzed]:
    """Yield copies of a valid request with one field changed, as far as a client can build them."""
    yield Fuzzed(method, "all", good.SerializeToString()[:-1])
    yield Fuzzed(method, "all", CHANCE.randbytes(500))
    yield Fuzzed(method, "all", b"")
    for field, change in changes(good):
        if method == "AppendRows" and field.startswith("proto_rows.") and not good.HasField("proto_rows"):
            continue  # the other valid request has them
        request = type(good)()
        request.CopyFrom(good)
        try:
            change(request)
        except ValueError:
            continue  # a closed enum has no such number
        yield Fuzzed(method, field, request.SerializePartialToString().replace(MARKER.encode(), NOT_UTF8))


def combined(method: str, good: Any, count: int, chance: random.Random) -> Iterator[Fuzzed]:
    """Yield copies of a valid request with two to four fields changed."""
    known = [(field, change) for field, change in changes(good) if not field.startswith("proto_rows.writer")]
    for _ in range(count):
        request = type(good)()
        request.CopyFrom(good)
        chosen = chance.sample(known, min(len(known), chance.randint(2, 4)))
        for _, change in chosen:
            with suppress(ValueError, IndexError):  # a closed enum has no such number
                change(request)
        fields = ", ".join(field for field, _ in chosen)
        yield Fuzzed(method, fields, request.SerializePartialToString().replace(MARKER.encode(), NOT_UTF8))


class Target:
    """A server with a table, streams and a read session, and a valid request for each method."""

    def __init__(self, server: LodeServer) -> None:
        self.server = server
        self.channel = server.channel()
        self.table = table = Table(server, [*FIELDS, {"name": "tags", "type": "STRING", "mode": "REPEATED"}])
        table.append(table.default, [1, 2, 3])
        wanted = types.CreateReadSessionRequest(
            parent="projects/p", read_session=types.ReadSession(table=table.name, data_format=2)
        )
        session = server.read_client().create_read_session(wanted)
        row = message_class(row_descriptor())(id=1, name="a").SerializeToString()
        proto = proto_request(table.default, [row], descriptor=row_descriptor(), offset=None)
        self.good: dict[str, list[Any]] = {
            "CreateWriteStream": [
                types.CreateWriteStreamRequest(parent=table.name, write_stream=types.WriteStream(type_=2))
            ],
            "AppendRows": [arrow_request(table.stream("pending"), batch_of([1])), proto],
            "GetWriteStream": [types.GetWriteStreamRequest(name=table.stream("committed"))],
            "FinalizeWriteStream": [types.FinalizeWriteStreamRequest(name=table.stream("committed"))],
            "BatchCommitWriteStreams": [
                types.BatchCommitWriteStreamsRequest(parent=table.name, write_streams=[table.pending([1])])
            ],
            "FlushRows": [types.FlushRowsRequest(write_stream=table.stream("buffered", [1]), offset=0)],
            "CreateReadSession": [wanted],
            "ReadRows": [types.ReadRowsRequest(read_stream=session.streams[0].name)],
            "SplitReadStream": [types.SplitReadStreamRequest(name=session.streams[0].name, fraction=0.5)],
        }

    def requests(self, service: str) -> Iterator[Fuzzed]:
        for method in SERVICES[service]:
            for good in self.good[method]:
                yield from fuzzed(method, type(good).pb(good))

    def check(self, service: str, requests: Iterator[Fuzzed]) -> int:
        """Make the calls, several at a time; returns their number."""
        count = 0
        under_way: list[tuple[Fuzzed, Any]] = []
        for request in requests:
            count += 1
            under_way.append((request, self._call(service, request)))
            if len(under_way) >= IN_FLIGHT:
                self._finish(*under_way.pop(0))
        for request, call in under_way:
            self._finish(request, call)
        return count

    def _call(self, service: str, fuzzed: Fuzzed) -> Any:
        many_requests = fuzzed.method in STREAMED_REQUESTS
        many_responses = fuzzed.method in STREAMED_RESPONSES
        name = f"/{PACKAGE}.{service}/{fuzzed.method}"
        if many_requests:
            return self.channel.stream_stream(name)(iter([fuzzed.request]), timeout=SECONDS_PER_CALL)
        if many_responses:
            return self.channel.unary_stream(name)(fuzzed.request, timeout=SECONDS_PER_CALL)
        return self.channel.unary_unary(name).future(fuzzed.request, timeout=SECONDS_PER_CALL)

    def _finish(self, fuzzed: Fuzzed, call: Any) -> None:
        about = (fuzzed.method, fuzzed.field, fuzzed.request[:200])
        try:
            answers = list(call) if fuzzed.method in ("AppendRows", "ReadRows") else [call.result()]
        except grpc.RpcError as error:
            ended: Any = error
            assert ended.code() in CLEAN, (*about, ended.code(), ended.details())
            assert ended.details(), about
            return
        if fuzzed.method == "AppendRows":
            for answer in answers:
                response = types.AppendRowsResponse.pb().FromString(answer)
                assert response.error.code in CLEAN_IN_BAND, (*about, response.error)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    server = LodeServer(tmp_path_factory.mktemp("fields") / "lake")
    yield Target(server)
    server.stop()


@pytest.mark.parametrize("service", list(SERVICES))
def test_hostile_input_in_any_field_is_answered_with_a_clean_status(
    target: Target, service: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert target.check(service, target.requests(service)) > 100
    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.getMessage() for record in logged if record.name.startswith(("lode", "asyncio"))] == []


@pytest.mark.parametrize("service", list(SERVICES))
@pytest.mark.parametrize("count", [20, pytest.param(2_000, marks=pytest.mark.soak)])
def test_hostile_input_in_several_fields_is_answered_with_a_clean_status(
    tmp_path: Path, service: str, count: int
) -> None:
    server = LodeServer(tmp_path / "lake", client_streams=10_000, store_options={"durable": False})
    try:
        target, chance = Target(server), random.Random(11)
        requests = (
            request
            for method in SERVICES[service]
            for good in target.good[method]
            for request in combined(method, type(good).pb(good), count, chance)
        )
        assert target.check(service, requests) >= count * len(SERVICES[service])
    finally:
        server.stop()


def test_every_field_of_both_services_was_fuzzed(target: Target) -> None:
    """Includes fields of nested messages."""
    found = {request.field for service in SERVICES for request in target.requests(service)}
    for field in (
        "write_stream.table_schema.fields.range_element_type.type_",
        "proto_rows.writer_schema.proto_descriptor.field.options.deprecated",
        "arrow_rows.rows.serialized_record_batch",
        "missing_value_interpretations",
        "read_session.read_options.row_restriction",
        "read_session.table_modifiers.snapshot_time.seconds",
        "offset.value",
        "fraction",
    ):
        assert field in found


def test_afterwards_the_server_still_works_and_its_lake_is_intact(target: Target) -> None:
    table = target.table
    before = len(table.rows())
    table.append(table.default, [7])
    assert len(table.rows()) == before + 1
    assert lode.verify(target.server.dataset(table.id)).ok
