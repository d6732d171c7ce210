"""A writer's descriptor: its messages and enums by the names that fields use, and its fields' columns."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from lode.ingest.status import invalid

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

Path: TypeAlias = tuple[str, ...]

# A client may name these types without sending them along.
WELL_KNOWN: Final = "google.protobuf."
# The number of google.cloud.bigquery.storage.v1.column_name among the extensions of FieldOptions.
COLUMN_NAME: Final = 454943157
# A table has at most 10,000 columns, and Java clients wrap each enum in a message of its own.
MAX_TYPES: Final = 30_000
MAX_ENUM_VALUES: Final = 100_000
_MAX_NAME_PARTS: Final = 200
_MAX_SHOWN_CHARACTERS: Final = 300


class DeclaredTypes:
    """The messages and enums that are declared inside one descriptor, the descriptor itself included.

    A bare descriptor has neither a file nor a package, but its fields name types as the file did: ``Inner``,
    ``Row.Inner``, ``.Row.Inner`` or ``.package.Row.Inner``. Java clients also move types to places where the
    scope rules of protobuf do not find them.
    """

    def __init__(self, root: DescriptorProto) -> None:
        self._declared: dict[Path, Any] = {}
        # By the last name and the last two names of a path; None if several paths end so.
        self._by_end: dict[Path, Path | None] = {}
        enum_values = 0
        waiting: list[tuple[Path, DescriptorProto]] = [((root.name,), root)]
        while waiting:
            path, message = waiting.pop()
            self._declare(path, message)
            more = len(message.nested_type) + len(message.enum_type)
            enum_values += sum(len(enum.value) for enum in message.enum_type)
            if len(self._declared) + len(waiting) + more > MAX_TYPES or enum_values > MAX_ENUM_VALUES:
                raise invalid(
                    f"The descriptor is too large: {MAX_TYPES} types and {MAX_ENUM_VALUES} values of enums "
                    "are the most.",
                    ends_call=True,
                )
            for enum in message.enum_type:
                self._declare((*path, enum.name), enum)
            waiting.extend(((*path, nested.name), nested) for nested in message.nested_type)

    def _declare(self, path: Path, declared: Any) -> None:
        if path in self._declared:
            raise invalid(f"The descriptor declares {brief('.'.join(path))!r} twice.", ends_call=True)
        self._declared[path] = declared
        for end in (path[-1:], path[-2:]):
            self._by_end[end] = path if self._by_end.get(end, path) == path else None

    def find(self, name: str, scope: Path) -> tuple[Path, Any] | None:
        """Return the type that ``name`` means in the message at ``scope``, with its path, or None."""
        parts = tuple(name.lstrip(".").split("."))
        if len(parts) > _MAX_NAME_PARTS:
            return None
        if not name.startswith("."):
            for end in range(len(scope), 0, -1):
                if (path := scope[:end] + parts) in self._declared:
                    return path, self._declared[path]
        for start in range(len(parts)):  # the package in front is known only to the writer's file
            if (path := parts[start:]) in self._declared:
                return path, self._declared[path]
        only = self._by_end.get(parts)
        return None if only is None else (only, self._declared[only])


def brief(name: str) -> str:
    """A name for an error message: clients may send names of any length, and a status has little room."""
    return name if len(name) <= _MAX_SHOWN_CHARACTERS else name[:_MAX_SHOWN_CHARACTERS] + "…"


def well_known(name: str) -> str | None:
    """``Int64Value`` for ``google.protobuf.Int64Value``, and for the name that Java clients make of it."""
    plain = name.lstrip(".").rpartition("google_protobuf_")
    name = WELL_KNOWN + plain[2] if plain[1] else name.lstrip(".")
    return name.removeprefix(WELL_KNOWN) if name.startswith(WELL_KNOWN) else None


@cache
def _field_options() -> Any:
    """A message with this option alone: the result does not depend on the extensions that are registered."""
    file = descriptor_pb2.FileDescriptorProto(name="lode_field_options.proto", syntax="proto2")
    field = descriptor_pb2.FieldDescriptorProto
    file.message_type.add(name="Options").field.add(
        name="column_name", number=COLUMN_NAME, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Options"))


def column_name(field: Any) -> str:
    """The column of a field: its option ``column_name``, or its own name.

    Columns may have names that protobuf does not allow for fields.
    """
    if field.HasField("options"):
        try:
            name = _field_options().FromString(field.options.SerializePartialToString()).column_name
        except (DecodeError, UnicodeDecodeError):
            name = ""
        if isinstance(name, str) and name:
            return name
    return str(field.name)
