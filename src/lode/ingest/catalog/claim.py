"""What a table's dataset becomes by a commit of the server: a definition that the table's rows fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lode.errors import ComponentMismatchError, InvalidOptionError, SchemaViolationError
from lode.evolution import adopt, evolve, include, united
from lode.lazy import pt

if TYPE_CHECKING:
    import pyarrow as pa

    from lode.definition import Definition


def fitting(definition: Definition, schema: pa.Schema, timestamp_column: str | None) -> Definition:
    """Return the definition with the table's new columns, wider types and relaxed modes.

    It is the same object if nothing changes.

    Raises:
        ComponentMismatchError: A column of the dataset has a type that the table's column does not fit.
    """
    if not len(schema):
        return definition
    try:
        found = include(adopt(definition, schema), schema, declared=True)
    except (InvalidOptionError, SchemaViolationError) as error:
        raise ComponentMismatchError(
            f"the dataset's columns are not those of the table: {error}; rename the dataset's column with "
            "lode.Dataset(…).evolve(rename=…), or use another table"
        ) from error
    return _with_timestamps(found, schema, timestamp_column)


def claiming(definition: Definition, schema: pa.Schema, timestamp_column: str | None) -> Definition:
    """Return a definition that the table's rows fit in any case, for rows that are acknowledged.

    A column of the dataset that has the name of one of the table's and a type that does not go with it was
    made by another writer, behind the server's back. It is renamed, and keeps its values.
    """
    stored = definition.schema
    if stored is not None:
        for field in schema:
            index = stored.get_field_index(field.name)
            if index >= 0 and united(stored.field(index).type, field.type) is None:
                free = _free_name(field.name, {*definition.ids, *schema.names})
                definition = evolve(definition, rename={field.name: free})
    return fitting(definition, schema, timestamp_column)


def _free_name(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _with_timestamps(definition: Definition, schema: pa.Schema, wanted: str | None) -> Definition:
    """Let snapshots record the range of a column that every row of the table has, in times that compare."""
    present = definition.timestamp_column
    index = -1 if present is None else schema.get_field_index(present)
    if wanted is None and index >= 0 and pt.is_timestamp(schema.field(index).type):
        wanted = present
    return definition if wanted == present else msgspec.structs.replace(definition, timestamp_column=wanted)
