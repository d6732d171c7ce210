"""A server that answers every append and keeps nothing: what the client can send through the same gRPC."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Final

import grpc.aio
from google.cloud.bigquery_storage_v1 import types

_SERVICE: Final = "google.cloud.bigquery.storage.v1.BigQueryWrite"
_MAX_MESSAGE_BYTES: Final = 64 << 20
# The raw protobuf classes, whose types are made at run time.
_Request: Final[Any] = types.AppendRowsRequest.pb()
_Response: Final[Any] = types.AppendRowsResponse.pb()


async def _append_rows(requests: Any, context: Any) -> None:
    async for data in requests:
        request = _Request.FromString(data)
        response = _Response(write_stream=request.write_stream)
        response.append_result.SetInParent()
        if request.HasField("offset"):
            response.append_result.offset.value = request.offset.value
        await context.write(response.SerializeToString())


def _handlers() -> grpc.GenericRpcHandler:
    numbers = itertools.count(1)

    async def create(data: bytes, _: Any) -> bytes:
        parent = types.CreateWriteStreamRequest.deserialize(data).parent
        stream = types.WriteStream(name=f"{parent}/streams/s-{next(numbers)}")
        return bytes(types.WriteStream.serialize(stream))

    async def answer_nothing(_: bytes, __: Any) -> bytes:
        return b""

    unary: Any = grpc.unary_unary_rpc_method_handler
    methods: dict[str, Any] = {
        "AppendRows": grpc.stream_stream_rpc_method_handler(_append_rows),
        "CreateWriteStream": unary(create),
        "FinalizeWriteStream": unary(answer_nothing),
        "BatchCommitWriteStreams": unary(answer_nothing),
    }
    return grpc.method_handlers_generic_handler(_SERVICE, methods)


async def _serve() -> None:
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES)])
    server.add_generic_rpc_handlers((_handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve())
