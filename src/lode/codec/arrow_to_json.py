"""From an Arrow record batch to records that JSON can carry."""

from __future__ import annotations

from typing import Any

from lode.codec.coerce import CoercionError
from lode.errors import SchemaViolationError
from lode.lazy import pa, pt
from lode.times import NS_PER, ns_to_rfc3339


def batch_records(batch: pa.RecordBatch, *, first_row: int) -> list[dict[str, Any]]:
    """Return the rows of a batch as dicts; timestamps as RFC 3339 text, to the nanosecond.

    Raises:
        SchemaViolationError: A value has no Python equal; names row and column.
    """
    for index, field in enumerate(batch.schema):
        if pt.is_timestamp(field.type):
            text = _time_text(batch.column(index), field, first_row)
            batch = batch.set_column(index, pa.field(field.name, pa.string()), text)
    # Conversion to dicts is slower for every value, so it is used only for data with maps.
    maps: Any = "strict" if any(pt.is_nested(field.type) for field in batch.schema) else None
    try:
        return batch.to_pylist(maps_as_pydicts=maps)
    except (KeyError, ValueError, OverflowError) as error:
        raise _culprit(batch, first_row, error) from error


def _time_text(array: Any, field: pa.Field[Any], first_row: int) -> Any:
    """Write a column of timestamps as text in C: a Python datetime for each costs four times as much."""
    import pyarrow.compute as pc

    kind: Any = array.type
    # Without its zone a timestamp is printed as it is stored, in UTC, with no look at the zone's rules.
    ticks = array.cast(pa.int64())
    bounds: Any = pc.min_max(ticks).as_py()
    for bound in bounds.values():
        try:
            ns_to_rfc3339((bound or 0) * NS_PER[kind.unit], zone="Z")
        except OverflowError:
            row = first_row + pc.index(ticks, bound).as_py()
            raise CoercionError("the time is before the year 1 or after 9999").at(row, field.name) from None
    text: Any = ticks.cast(pa.timestamp(kind.unit)).cast(pa.string())
    text = pc.utf8_replace_slice(text, start=10, stop=11, replacement="T")
    if kind.unit != "s":
        text = pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")
    return text if kind.tz is None else pc.binary_join_element_wise(text, "Z", "")


def _culprit(batch: pa.RecordBatch, first_row: int, error: Exception) -> SchemaViolationError:
    for name in batch.schema.names:
        for row, value in enumerate(batch.column(name), first_row):
            try:
                value.as_py(maps_as_pydicts="strict")
            except (KeyError, ValueError, OverflowError) as found:
                return CoercionError(f"the value has no JSON: {found}").at(row, name)
    return SchemaViolationError(f"row {first_row} or later: {error}", row=first_row)
