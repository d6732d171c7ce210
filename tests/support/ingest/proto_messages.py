"""Descriptors and the messages of them, made with the real protobuf runtime, for tests of protobuf rows."""

from __future__ import annotations

from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.types.columns import Column, TableSchema

F = FieldDescriptorProto


def field(
    name: str, kind: int, number: int = 0, *, label: int = F.LABEL_OPTIONAL, type_name: str = ""
) -> Any:
    """One field; without a number it gets its place in the message."""
    any_kind: Any = kind
    any_label: Any = label
    made: Any = FieldDescriptorProto(name=name, number=number, label=any_label, type=any_kind)
    if type_name:
        made.type_name = type_name
    return made


def repeated(name: str, kind: int, number: int = 0, *, type_name: str = "") -> Any:
    return field(name, kind, number, label=F.LABEL_REPEATED, type_name=type_name)


def required(name: str, kind: int, number: int = 0, *, type_name: str = "") -> Any:
    return field(name, kind, number, label=F.LABEL_REQUIRED, type_name=type_name)


def message(
    *fields: Any,
    name: str = "Row",
    nested: tuple[Any, ...] = (),
    enums: dict[str, dict[str, int]] | None = None,
) -> DescriptorProto:
    descriptor = DescriptorProto(name=name)
    for position, one in enumerate(fields, 1):
        added = descriptor.field.add()
        added.CopyFrom(one)
        if not one.number:
            added.number = position
    descriptor.nested_type.extend(nested)
    for enum, numbers in (enums or {}).items():
        declared = descriptor.enum_type.add(name=enum)
        for value, number in numbers.items():
            declared.value.add(name=value, number=number)
    return descriptor


def as_proto3(descriptor: DescriptorProto) -> DescriptorProto:
    """The same fields, as proto3 declares ``optional`` ones."""
    made = DescriptorProto()
    made.CopyFrom(descriptor)
    nested = [as_proto3(one) for one in made.nested_type]
    del made.nested_type[:]
    made.nested_type.extend(nested)
    for one in made.field:
        if one.label == F.LABEL_OPTIONAL and one.type != F.TYPE_MESSAGE:
            one.proto3_optional = True
            one.oneof_index = len(made.oneof_decl)
            made.oneof_decl.add(name=f"_{one.name}")
    return made


def message_class(descriptor: DescriptorProto, *, syntax: str = "proto2", package: str = "") -> Any:
    """The class a client would have of the descriptor."""
    file = descriptor_pb2.FileDescriptorProto(name="client.proto", syntax=syntax, package=package)
    file.message_type.append(descriptor)
    pool = descriptor_pool.DescriptorPool()
    for module in (wrappers_pb2, timestamp_pb2, duration_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        file.dependency.append(module.DESCRIPTOR.name)
    pool.Add(file)
    full_name = f"{package}.{descriptor.name}" if package else descriptor.name
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(full_name))


def decoded(columns: list[Column], descriptor: DescriptorProto, rows: list[Any]) -> list[dict[str, Any]]:
    """What a table of the columns gets of the rows: messages, or their bytes."""
    sent = [row if isinstance(row, bytes) else row.SerializePartialToString() for row in rows]
    schema = TableSchema(tuple(columns))
    batch = ProtoRows(schema, descriptor).decode(sent)
    batch.validate(full=True)
    assert batch.schema.equals(schema.arrow, check_metadata=True)
    made: list[dict[str, Any]] = batch.to_pylist()
    return made
