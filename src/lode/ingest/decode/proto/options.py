"""The option ``column_name`` of a field: it names the column where protobuf allows no field of that name."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

# The number of google.cloud.bigquery.storage.v1.column_name among the extensions of FieldOptions.
COLUMN_NAME: Final = 454943157


@cache
def _options() -> Any:
    """A message that knows only this option, so that nothing depends on which extensions are registered."""
    file = descriptor_pb2.FileDescriptorProto(name="lode_field_options.proto", syntax="proto2")
    field = descriptor_pb2.FieldDescriptorProto
    file.message_type.add(name="Options").field.add(
        name="column_name", number=COLUMN_NAME, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Options"))


def column_name(field: Any) -> str:
    """The column a field of a descriptor is meant for: the option, or the field's own name."""
    if field.HasField("options"):
        try:
            name = _options().FromString(field.options.SerializePartialToString()).column_name
        except (DecodeError, UnicodeDecodeError):
            name = ""
        if isinstance(name, str) and name:
            return name
    return str(field.name)
