"""AppendRows and the unary methods as bytes on a channel, as clients in other languages use them."""

from __future__ import annotations

import queue
import re
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.cloud.bigquery_storage_v1 import types
from google.rpc import status_pb2

from support.ingest.appending import message_class, row_descriptor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from google.protobuf import descriptor_pb2

    from lode.testing.plugin import LodeServer

SERVICE: Final = "/google.cloud.bigquery.storage.v1.BigQueryWrite/"
Request: Any = types.AppendRowsRequest.pb()
StorageCodes: Any = types.StorageError.StorageErrorCode
_Response: Any = types.AppendRowsResponse.pb()
_StorageError: Any = types.StorageError.pb()
_Row: Any = message_class(row_descriptor())


def rows_request(
    ids: Sequence[int],
    *,
    stream: str = "",
    schema: bool | descriptor_pb2.DescriptorProto = False,
    offset: int | None = None,
    trace_id: str = "",
) -> Any:
    """Return an append of Protobuf rows. Arguments that are not given are not on the wire."""
    request = Request(write_stream=stream, trace_id=trace_id)
    request.proto_rows.rows.serialized_rows.extend(
        _Row(id=id, name=f"name-{id}").SerializeToString() for id in ids
    )
    if schema:
        described = row_descriptor() if schema is True else schema
        request.proto_rows.writer_schema.proto_descriptor.CopyFrom(described)
    if offset is not None:
        request.offset.value = offset
    return request


class Wire:
    """One AppendRows call with the header that generated clients send."""

    def __init__(self, server: LodeServer, stream: str) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        method: Any = server.channel().stream_stream(
            f"{SERVICE}AppendRows",
            request_serializer=Request.SerializeToString,
            response_deserializer=_Response.FromString,
        )
        header = ("x-goog-request-params", f"write_stream={stream}")
        self._answers = method(iter(self._requests.get, None), timeout=60, metadata=[header])

    def send(self, *requests: Any) -> None:
        for request in requests:
            self._requests.put(request)

    def receive(self, count: int = 1) -> list[Any]:
        return [next(self._answers) for _ in range(count)]

    def ask(self, request: Any) -> Any:
        self.send(request)
        return next(self._answers)

    def half_close(self) -> tuple[list[Any], grpc.StatusCode]:
        """End the requests; returns the remaining answers and the status of the call."""
        self._requests.put(None)
        left = list(self._answers)
        return left, self._answers.code()

    def ended(self) -> grpc.RpcError:
        """Return the error that ends the call."""
        try:
            answer = next(self._answers)
        except grpc.RpcError as error:
            return error
        raise AssertionError(f"the call goes on: {answer}")

    def break_off(self) -> None:
        """Cancel the call, as a lost connection does."""
        self._requests.put(None)
        self._answers.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.break_off()


def call(server: LodeServer, request: Any) -> Any:
    """Call the unary method of a request; raises ``grpc.RpcError``."""
    method = type(request).__name__.removesuffix("Request")
    answer = "WriteStream" if method in ("CreateWriteStream", "GetWriteStream") else f"{method}Response"
    kind: Any = getattr(types, answer).pb()
    unary: Any = server.channel().unary_unary(f"{SERVICE}{method}", response_deserializer=kind.FromString)
    return unary(type(request).pb(request).SerializeToString(), timeout=60)


def details(status: Any) -> list[Any]:
    """The ``StorageError`` of a ``google.rpc.Status``."""
    found = []
    for detail in status.details:
        error = _StorageError()
        if detail.Unpack(error):
            found.append(error)
    return found


def storage_error_of(answer: Any) -> Any:
    """The one detail of an answer with an error."""
    [error] = details(answer.error)
    return error


def trailing_status(error: Any) -> Any:
    """Return the status in the trailers of an ended call, which Go and Java read."""
    trailers = dict(error.trailing_metadata())
    return status_pb2.Status.FromString(trailers["grpc-status-details-bin"])


def java_offsets(error: Any) -> tuple[int, int]:
    """Return the expected and the received offset, parsed from the message like the Java client does."""
    message = error.error_message
    if "Entity" in message:
        message = message[: message.index("Entity")]
    message = message.strip()
    if re.search("expected offset [0-9]+, received [0-9]+", message) is None:
        return -1, -1
    expected = message[message.rindex("offset") + 7 : message.rindex(",")]
    return int(expected), int(message[message.rindex(" ") + 1 :])
