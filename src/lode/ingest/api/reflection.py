"""Descriptors of the services for gRPC reflection, over the message types of the official package.

That package has descriptors of the messages and not of their services, so these are made at run time.
"""

from __future__ import annotations

from typing import Any, Final

from google.cloud.bigquery_storage_v1 import types
from google.protobuf import descriptor_pb2, descriptor_pool

_PACKAGE: Final = "google.cloud.bigquery.storage.v1"
_NAME: Final = "google/cloud/bigquery/storage/v1/services.proto"

# Method: request, response, whether requests are a stream, whether responses are.
_WRITE: Final = {
    "CreateWriteStream": ("CreateWriteStreamRequest", "WriteStream", False, False),
    "AppendRows": ("AppendRowsRequest", "AppendRowsResponse", True, True),
    "GetWriteStream": ("GetWriteStreamRequest", "WriteStream", False, False),
    "FinalizeWriteStream": ("FinalizeWriteStreamRequest", "FinalizeWriteStreamResponse", False, False),
    "BatchCommitWriteStreams": (
        "BatchCommitWriteStreamsRequest",
        "BatchCommitWriteStreamsResponse",
        False,
        False,
    ),
    "FlushRows": ("FlushRowsRequest", "FlushRowsResponse", False, False),
}
_READ: Final = {
    "CreateReadSession": ("CreateReadSessionRequest", "ReadSession", False, False),
    "ReadRows": ("ReadRowsRequest", "ReadRowsResponse", False, True),
    "SplitReadStream": ("SplitReadStreamRequest", "SplitReadStreamResponse", False, False),
}
SERVICES: Final = {"BigQueryWrite": _WRITE, "BigQueryRead": _READ}
SERVICE_NAMES: Final = tuple(f"{_PACKAGE}.{name}" for name in SERVICES)


def described_services() -> descriptor_pool.DescriptorPool:
    """Return a pool with the services, their messages, and all dependencies."""
    pool = descriptor_pool.DescriptorPool()
    described = descriptor_pb2.FileDescriptorProto(name=_NAME, package=_PACKAGE, syntax="proto3")
    for service, methods in SERVICES.items():
        added = described.service.add(name=service)
        for name, (request, response, many_requests, many_responses) in methods.items():
            for message in (request, response):
                file = getattr(types, message).pb().DESCRIPTOR.file
                _add(pool, file, set())
                if file.name not in described.dependency:
                    described.dependency.append(file.name)
            added.method.add(
                name=name,
                input_type=f".{_PACKAGE}.{request}",
                output_type=f".{_PACKAGE}.{response}",
                client_streaming=many_requests,
                server_streaming=many_responses,
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
