"""Descriptors of the services for gRPC reflection, over the message types of the official package.

That package has descriptors of the messages and not of their services, so these are made at run time.
"""

from __future__ import annotations

from typing import Any, Final

from google.cloud.bigquery_storage_v1 import types
from google.protobuf import descriptor_pb2, descriptor_pool

_PACKAGE: Final = "google.cloud.bigquery.storage.v1"
_NAME: Final = "google/cloud/bigquery/storage/v1/services.proto"

# The response of each method; its request is called ``<method>Request``.
SERVICES: Final = {
    "BigQueryWrite": {
        "CreateWriteStream": "WriteStream",
        "AppendRows": "AppendRowsResponse",
        "GetWriteStream": "WriteStream",
        "FinalizeWriteStream": "FinalizeWriteStreamResponse",
        "BatchCommitWriteStreams": "BatchCommitWriteStreamsResponse",
        "FlushRows": "FlushRowsResponse",
    },
    "BigQueryRead": {
        "CreateReadSession": "ReadSession",
        "ReadRows": "ReadRowsResponse",
        "SplitReadStream": "SplitReadStreamResponse",
    },
}
STREAMED_REQUESTS: Final = ("AppendRows",)
STREAMED_RESPONSES: Final = ("AppendRows", "ReadRows")
SERVICE_NAMES: Final = tuple(f"{_PACKAGE}.{name}" for name in SERVICES)


def described_services() -> descriptor_pool.DescriptorPool:
    """Return a pool with the services, their messages, and all dependencies."""
    pool = descriptor_pool.DescriptorPool()
    described = descriptor_pb2.FileDescriptorProto(name=_NAME, package=_PACKAGE, syntax="proto3")
    for service, methods in SERVICES.items():
        added = described.service.add(name=service)
        for name, response in methods.items():
            request = f"{name}Request"
            for message in (request, response):
                file = getattr(types, message).pb().DESCRIPTOR.file
                _add(pool, file, set())
                if file.name not in described.dependency:
                    described.dependency.append(file.name)
            added.method.add(
                name=name,
                input_type=f".{_PACKAGE}.{request}",
                output_type=f".{_PACKAGE}.{response}",
                client_streaming=name in STREAMED_REQUESTS,
                server_streaming=name in STREAMED_RESPONSES,
            )
    pool.Add(described)
    return pool


def _add(pool: Any, file: Any, added: set[str]) -> None:
    """Add a file after its dependencies."""
    if file.name in added:
        return
    added.add(file.name)
    for dependency in file.dependencies:
        _add(pool, dependency, added)
    try:
        pool.FindFileByName(file.name)
    except KeyError:
        copy = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(copy)
        pool.Add(copy)
