"""The Parquet columns that the Go implementation reads correctly.

Go takes the columns of a file by their position, in the order of their names, as the types that its own
program declares. It knows eight types, and takes every timestamp for nanoseconds. So files that Go reads have
flat columns of these types, sorted by name, and no column may come between two others later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.errors import InvalidOptionError
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Sequence


def go_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as Go reads them: sorted by name, timestamps in nanoseconds.

    Raises:
        InvalidOptionError: A column has a type that Go does not have, or a name that it refuses.
    """
    fields = sorted((_go_field(field) for field in schema), key=_place)
    metadata: Any = schema.metadata
    return pa.schema(fields, metadata=metadata)


def check_go_schema(schema: pa.Schema) -> None:
    """Refuse the columns of existing files if Go would misread them."""
    wanted = go_schema(schema)
    if not wanted.equals(schema):
        raise InvalidOptionError(
            f"Go would misread the columns {', '.join(schema.names)}: it expects them sorted by name, with "
            "timestamps in nanoseconds; create a dataset with shared_with_go=True, and write the rows there"
        )


def check_go_change(before: pa.Schema, after: pa.Schema) -> None:
    """Refuse a change of columns after which Go would misread files, old or new.

    A column that comes last by name may be added: in files before that its position is empty. A required
    column may become nullable.
    """
    if after.names[: len(before.names)] != before.names or go_schema(after).names != after.names:
        raise InvalidOptionError(
            f"the dataset is shared with Go, which finds columns by position: from {', '.join(before.names)} "
            f"to {', '.join(after.names)} it would misread files; only add columns, with names that sort last"
        )
    check_go_schema(after)
    for field in before:
        if after.field(field.name).type != field.type:
            raise InvalidOptionError(
                f"the dataset is shared with Go, which reads column {field.name!r} as {field.type} in every "
                "file: add another column instead, with a name that sorts last"
            )


def _place(field: pa.Field[Any]) -> bytes:
    return field.name.encode()


def _go_field(field: pa.Field[Any]) -> pa.Field[Any]:
    if not field.name:
        raise InvalidOptionError("a column of a dataset that is shared with Go needs a name")
    kind = field.type
    if pt.is_timestamp(kind) and kind.tz in (None, "UTC"):
        return field.with_type(pa.timestamp("ns", tz=kind.tz))
    if kind in _go_types():
        return field
    raise InvalidOptionError(
        f"column {field.name!r} is {kind}, which Go does not have: a dataset that is shared with Go has "
        "int32, int64, float32, float64, string, bool, bytes and timestamps in UTC"
    )


def _go_types() -> Sequence[pa.DataType]:
    return (
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.bool_(),
        pa.binary(),
    )
