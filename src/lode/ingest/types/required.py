"""REQUIRED fields of a STRUCT that is null: their nulls say nothing, and Parquet does not take them.

Whoever reads such a field sees the STRUCT's null before it. So the field's own nulls are struck out: what
lies in their place is never looked at.
"""

from __future__ import annotations

from typing import Any

from lode.lazy import pa, pt


def has_required(kind: Any) -> bool:
    """Tell whether values of this type have a REQUIRED field inside."""
    if pt.is_struct(kind):
        return any(not member.nullable or has_required(member.type) for member in kind)
    return pt.is_list(kind) and has_required(kind.value_type)


def without_inner_nulls(array: Any) -> Any:
    """The same values, with no null in a REQUIRED field; those that count were refused before."""
    kind = array.type
    if not has_required(kind):
        return array
    if pt.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, without_inner_nulls(array.values), type=kind)
    members = []
    for position, member in enumerate(kind):
        child = without_inner_nulls(array.field(position))
        members.append(child if member.nullable else _without_nulls(child))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)


def _without_nulls(array: Any) -> Any:
    if not array.null_count:
        return array
    if pt.is_struct(array.type):
        members = [array.field(position) for position in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(array.type))
    return pa.Array.from_buffers(
        array.type, len(array), [None, *array.buffers()[1:]], null_count=0, offset=array.offset
    )
