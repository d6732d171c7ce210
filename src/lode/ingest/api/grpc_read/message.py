"""Batches of rows as the messages of Arrow's IPC format that responses carry."""

from __future__ import annotations

from typing import Final

from lode.ingest.api.grpc_read.request import COMPRESSIONS
from lode.lazy import pa

_END_OF_STREAM: Final = 8


def message_of(batch: pa.RecordBatch, compression: int) -> bytes:
    """The batch as one message of Arrow's IPC format."""
    if not compression:
        return batch.serialize().to_pybytes()
    # Only whole streams can be compressed: the schema's message is cut off again, and the mark of the end.
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=COMPRESSIONS[compression])
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    whole = sink.getvalue()
    start = batch.schema.serialize().size
    return whole.slice(start, whole.size - start - _END_OF_STREAM).to_pybytes()
