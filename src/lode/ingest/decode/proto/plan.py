"""A writer's descriptor matched with the table's columns: the kind and the column of each field."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

from lode.ingest.decode.proto.descriptor import DeclaredTypes, brief, column_name, well_known
from lode.ingest.status import Refused, invalid
from lode.ingest.types.fit import extra_column
from lode.lazy import pa

if TYPE_CHECKING:
    from lode.ingest.decode.proto.descriptor import Path
    from lode.ingest.types.columns import Column, TableSchema

F: Final = FieldDescriptorProto

INT32: Final = frozenset({F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32})
INT64: Final = frozenset({F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64})
UINT32: Final = frozenset({F.TYPE_UINT32, F.TYPE_FIXED32})
UINT64: Final = frozenset({F.TYPE_UINT64, F.TYPE_FIXED64})
INTEGERS: Final = INT32 | INT64 | UINT32 | UINT64
_NUMBERS: Final = INTEGERS | {F.TYPE_DOUBLE, F.TYPE_FLOAT, F.TYPE_STRING, F.TYPE_BYTES}

# The kinds of fields that a column of each type accepts.
ACCEPTED: Final[dict[str, frozenset[int]]] = {
    "STRING": frozenset({F.TYPE_STRING, F.TYPE_ENUM}),
    "BYTES": frozenset({F.TYPE_BYTES, F.TYPE_STRING}),
    "INT64": INTEGERS | {F.TYPE_ENUM},
    "FLOAT64": frozenset({F.TYPE_DOUBLE, F.TYPE_FLOAT}),
    "BOOL": INTEGERS | {F.TYPE_BOOL},
    "TIMESTAMP": INT32 | INT64 | UINT32 | {F.TYPE_STRING},
    "DATE": INT32 | INT64 | {F.TYPE_STRING},
    "TIME": INT64 | {F.TYPE_STRING},
    "DATETIME": INT64 | {F.TYPE_STRING},
    "NUMERIC": _NUMBERS,
    "BIGNUMERIC": _NUMBERS,
    "GEOGRAPHY": frozenset({F.TYPE_STRING}),
    "JSON": frozenset({F.TYPE_STRING}),
    "INTERVAL": frozenset({F.TYPE_STRING}),
}
_WRAPPERS: Final = {
    "DoubleValue": F.TYPE_DOUBLE,
    "FloatValue": F.TYPE_FLOAT,
    "Int64Value": F.TYPE_INT64,
    "UInt64Value": F.TYPE_UINT64,
    "Int32Value": F.TYPE_INT32,
    "UInt32Value": F.TYPE_UINT32,
    "BoolValue": F.TYPE_BOOL,
    "StringValue": F.TYPE_STRING,
    "BytesValue": F.TYPE_BYTES,
}
# Numbers that protobuf reserves.
_RESERVED: Final = range(19_000, 20_000)


class WireShape(Enum):
    """How the value of a field is encoded on the wire."""

    SCALAR = auto()
    # google.protobuf.Int64Value and the like: a message whose only field is the value.
    WRAPPER = auto()
    # google.protobuf.Timestamp and Duration: seconds and nanoseconds.
    TIMESTAMP = auto()
    DURATION = auto()
    MESSAGE = auto()


class EnumNames:
    """The numbers and names of an enum as two arrays, made once for all of its fields."""

    def __init__(self, enum: Any) -> None:
        by_number: dict[int, str] = {}
        for value in enum.value:
            by_number.setdefault(value.number, value.name)  # aliases come later
        self.numbers = pa.array(list(by_number), pa.int32())
        self.names = pa.array(list(by_number.values()), pa.string())
        self.max_name_bytes = max((len(name.encode()) for name in by_number.values()), default=0)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the writer's message that becomes one column of the table."""

    column: Column
    # The column's name with those of its parents, for messages.
    path: str
    number: int
    kind: int
    shape: WireShape = WireShape.SCALAR
    repeated: bool = False
    required: bool = False
    # Keys and values of a map are never unset: if they are not on the wire, they are zero or empty.
    never_unset: bool = False
    names: EnumNames | None = None
    # The fields of a message, by their numbers.
    fields: tuple[Field, ...] = ()


def plan(schema: TableSchema, descriptor: DescriptorProto) -> tuple[Field, ...]:
    """Match every field of the descriptor with a column, or refuse the descriptor.

    Returns:
        The fields, by their numbers.
    """
    if not descriptor.field:
        raise invalid(
            "The writer schema's proto_descriptor has no fields: send the descriptor of the rows.",
            ends_call=True,
        )
    return _Planner(DeclaredTypes(descriptor)).fields(descriptor, (descriptor.name,), schema.columns, "", ())


class _Planner:
    def __init__(self, types: DeclaredTypes) -> None:
        self._types = types
        self._enums: dict[Path, EnumNames] = {}

    def fields(
        self, message: Any, scope: Path, columns: tuple[Column, ...], prefix: str, above: tuple[Path, ...]
    ) -> tuple[Field, ...]:
        """The fields of one message; ``above`` are the messages that contain it."""
        if scope in above:
            raise invalid(
                f"The descriptor's message {brief(scope[-1])!r} contains itself, which no column can.",
                ends_call=True,
            )
        if message.extension:
            raise invalid(
                f"The descriptor's message {brief(scope[-1])!r} declares extensions: declare plain fields.",
                ends_call=True,
            )
        by_name = {column.name.lower(): column for column in columns}
        numbers: set[int] = set()
        taken: set[str] = set()
        fields = []
        for declared in message.field:
            name = column_name(declared)
            path = prefix + brief(name)
            column = by_name.get(name.lower())
            if column is None:
                raise extra_column(path)
            if not 0 < declared.number < 1 << 29 or declared.number in _RESERVED:
                raise invalid(
                    f"Field {path!r} has the number {declared.number}: use 1 to 536870911, "
                    f"without {_RESERVED[0]} to {_RESERVED[-1]}.",
                    ends_call=True,
                )
            if declared.number in numbers:
                raise invalid(
                    f"Field {path!r} has the number {declared.number}, as another one has.", ends_call=True
                )
            if name.lower() in taken:
                raise invalid(
                    f"Two fields of the descriptor are called {path!r}: column names ignore case.",
                    ends_call=True,
                )
            numbers.add(declared.number)
            taken.add(name.lower())
            fields.append(
                self._field(declared, column, path, scope, (*above, scope), message.options.map_entry)
            )
        return tuple(sorted(fields, key=lambda field: field.number))

    def _field(
        self, declared: Any, column: Column, path: str, scope: Path, above: tuple[Path, ...], in_map: bool
    ) -> Field:
        if declared.extendee:
            raise invalid(f"Field {path!r} is an extension: declare it as a plain field.", ends_call=True)
        repeated = declared.label == F.LABEL_REPEATED
        if repeated != (column.mode == "REPEATED"):
            raise invalid(
                f"Field {path!r} is {'' if repeated else 'not '}repeated and its column is {column.mode}.",
                ends_call=True,
            )
        kind, found = self._kind(declared, path, scope)
        common: dict[str, Any] = {
            "column": column,
            "path": path,
            "number": declared.number,
            "repeated": repeated,
            "required": declared.label == F.LABEL_REQUIRED,
        }
        if kind == F.TYPE_MESSAGE:
            return self._message(declared.type_name, found, common, above)
        if kind not in ACCEPTED.get(column.type, ()):
            raise _mismatch(path, _kind_name(kind), column)
        names = self._names(found) if kind == F.TYPE_ENUM and found is not None else None
        return Field(**common, kind=kind, names=names, never_unset=in_map and not repeated)

    def _names(self, found: tuple[Path, Any]) -> EnumNames:
        path, enum = found
        if path not in self._enums:
            self._enums[path] = EnumNames(enum)
        return self._enums[path]

    def _kind(self, declared: Any, path: str, scope: Path) -> tuple[int, tuple[Path, Any] | None]:
        """The kind of a field, and the message or enum that it names, if that is in the descriptor."""
        kind = declared.type if declared.HasField("type") else 0
        if kind == F.TYPE_GROUP:
            raise invalid(f"Field {path!r} is a group: declare it as a message.", ends_call=True)
        if kind and kind not in (F.TYPE_MESSAGE, F.TYPE_ENUM):
            return kind, None
        found = self._types.find(declared.type_name, scope) if declared.type_name else None
        if found is None:
            if kind != F.TYPE_ENUM and well_known(declared.type_name):
                return F.TYPE_MESSAGE, None
            raise invalid(
                f"Field {path!r} is of the type {brief(declared.type_name)!r}, which it does not contain: "
                "nest every type that rows use in the descriptor.",
                ends_call=True,
            )
        is_message = isinstance(found[1], DescriptorProto)
        if kind and is_message != (kind == F.TYPE_MESSAGE):
            raise invalid(
                f"Field {path!r} names {brief(declared.type_name)!r}, which is of the other kind.",
                ends_call=True,
            )
        return (F.TYPE_MESSAGE if is_message else F.TYPE_ENUM), found

    def _message(
        self, type_name: str, found: tuple[Path, Any] | None, common: dict[str, Any], above: tuple[Path, ...]
    ) -> Field:
        column: Column = common["column"]
        path: str = common["path"]
        known = well_known(type_name)
        if column.type not in ("STRUCT", "RANGE"):
            if known == "Timestamp" and column.type == "TIMESTAMP":
                return Field(**common, kind=F.TYPE_MESSAGE, shape=WireShape.TIMESTAMP)
            if known == "Duration" and column.type == "INTERVAL":
                return Field(**common, kind=F.TYPE_MESSAGE, shape=WireShape.DURATION)
            kind = _WRAPPERS.get(known or "")
            if kind is None or kind not in ACCEPTED[column.type]:
                raise _mismatch(path, brief(type_name.lstrip(".")), column)
            return Field(**common, kind=kind, shape=WireShape.WRAPPER)
        if found is None:
            raise _mismatch(path, brief(type_name.lstrip(".")), column)
        scope, message = found
        fields = self.fields(message, scope, column.children, path + ".", above)
        return Field(**common, kind=F.TYPE_MESSAGE, shape=WireShape.MESSAGE, fields=fields)


def _mismatch(path: str, kind: str, column: Column) -> Refused:
    return invalid(
        f"Field {path!r} is of the type {kind}, which cannot become {column.type}.", ends_call=True
    )


def _kind_name(kind: Any) -> str:
    return F.Type.Name(kind).removeprefix("TYPE_").lower()
