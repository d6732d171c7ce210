"""Requests of clients, and a call whose answers are received one at a time."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from google.cloud.bigquery_storage_v1 import types
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

_TYPES: dict[str, pa.DataType] = {"id": pa.int64(), "name": pa.string()}
SCHEMA = pa.schema(_TYPES)
FIELDS = [{"name": "id", "type": "INT64"}, {"name": "name", "type": "STRING"}]

Field = descriptor_pb2.FieldDescriptorProto


def batch_of(ids: Sequence[int], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Rows with these ids, and names made from them."""
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"name-{i}" for i in ids])], schema=schema)


def columns(**values: list[Any]) -> pa.RecordBatch:
    """Return a batch of these columns, with types inferred from the values."""
    return pa.RecordBatch.from_pydict(values)


def arrow_request(
    stream: str, batch: pa.RecordBatch, *, offset: int | None = None, schema: bool = True, **more: Any
) -> types.AppendRowsRequest:
    """Return an append of Arrow rows; ``schema=False`` omits the schema, as later requests of a call do."""
    data = types.AppendRowsRequest.ArrowData(
        rows=types.ArrowRecordBatch(serialized_record_batch=batch.serialize().to_pybytes())
    )
    if schema:
        data.writer_schema = types.ArrowSchema(serialized_schema=batch.schema.serialize().to_pybytes())
    return types.AppendRowsRequest(write_stream=stream, arrow_rows=data, offset=offset, **more)


def row_descriptor(name: str = "Row") -> descriptor_pb2.DescriptorProto:
    """``message Row { optional int64 id = 1; optional string name = 2; }``."""
    described = descriptor_pb2.DescriptorProto(name=name)
    described.field.add(name="id", number=1, type=Field.TYPE_INT64, label=Field.LABEL_OPTIONAL)
    described.field.add(name="name", number=2, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    return described


def message_class(described: descriptor_pb2.DescriptorProto) -> Any:
    """Return the class of a message from its descriptor."""
    file = descriptor_pb2.FileDescriptorProto(name="rows.proto", syntax="proto2")
    file.message_type.add().CopyFrom(described)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(described.name))


def proto_request(
    stream: str,
    rows: Sequence[bytes],
    *,
    offset: int | None = None,
    descriptor: descriptor_pb2.DescriptorProto | None = None,
    **more: Any,
) -> types.AppendRowsRequest:
    """An append of Protobuf rows, with a writer schema if ``descriptor`` is given."""
    data = types.AppendRowsRequest.ProtoData(rows=types.ProtoRows(serialized_rows=list(rows)))
    if descriptor is not None:
        data.writer_schema = types.ProtoSchema(proto_descriptor=descriptor)
    return types.AppendRowsRequest(write_stream=stream, proto_rows=data, offset=offset, **more)


class Call:
    """One AppendRows call, held open: ``send`` a request, ``receive`` its answer."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._requests: queue.SimpleQueue[types.AppendRowsRequest | None] = queue.SimpleQueue()
        self._answers: Any = None

    def send(self, request: types.AppendRowsRequest) -> None:
        self._requests.put(request)

    def receive(self) -> types.AppendRowsResponse:
        if self._answers is None:
            # Not earlier: the client waits for the first answer when it opens a call.
            self._answers = self._client.append_rows(self._all(), retry=None, timeout=60)
        answer: types.AppendRowsResponse = next(self._answers)
        return answer

    def ask(self, request: types.AppendRowsRequest) -> types.AppendRowsResponse:
        """Send and receive."""
        self.send(request)
        return self.receive()

    def close(self) -> None:
        """End the requests; remaining answers can still be received."""
        self._requests.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
        if self._answers is not None:
            self._answers.cancel()

    def _all(self) -> Iterator[types.AppendRowsRequest]:
        while (request := self._requests.get()) is not None:
            yield request
