"""The three ways of rows into a table, each from the values of one column to what would be stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lode.ingest.decode.arrow import ArrowRows
from lode.ingest.decode.json import JsonRows
from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.status import Refused
from lode.ingest.types.columns import Column, TableSchema
from support.ingest.proto_messages import F, field, message, message_class, repeated

if TYPE_CHECKING:
    from collections.abc import Callable


def by_arrow(column: Column, values: Any) -> list[Any]:
    """Stored values of an Arrow array, or of a list of texts."""
    array = values if isinstance(values, pa.Array) else pa.array(values, pa.string())
    batch = pa.RecordBatch.from_arrays([array], [column.name])
    rows = ArrowRows(TableSchema((column,)), batch.schema.serialize().to_pybytes())
    return rows.decode(batch.serialize().to_pybytes()).column(0).to_pylist()


def by_protobuf(column: Column, values: list[Any], kind: Any = F.TYPE_STRING) -> list[Any]:
    """Stored values of a scalar field; None is unset."""
    declare = repeated if column.mode == "REPEATED" else field
    descriptor = message(declare(column.name, kind))
    row: Any = message_class(descriptor)
    sent = [(row() if value is None else row(**{column.name: value})).SerializeToString() for value in values]
    return ProtoRows(TableSchema((column,)), descriptor).decode(sent).column(0).to_pylist()


def by_json(column: Column, values: list[Any]) -> list[Any]:
    """Stored values of JSON rows."""
    rows = [{column.name: value} for value in values]
    return JsonRows(TableSchema((column,))).decode(rows).column(0).to_pylist()


TEXT_WAYS: dict[str, Callable[[Column, list[Any]], list[Any]]] = {
    "Arrow": by_arrow,
    "Protobuf": by_protobuf,
    "JSON": by_json,
}


def problems(stored: Callable[[], object]) -> dict[int, str]:
    """What is said about each bad row."""
    with pytest.raises(Refused) as refused:
        stored()
    assert not refused.value.ends_call
    return {row.index: row.message for row in refused.value.rows}
