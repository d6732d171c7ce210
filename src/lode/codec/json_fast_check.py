"""A quick proof that flat records can be written as JSON without changing a value.

msgspec checks a dict against a struct several times faster than Python looks at its values. What passes is
exact; what does not pass may still be, and is looked at closely.
"""

from __future__ import annotations

import sys
from datetime import date, datetime
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias
from uuid import UUID

import msgspec

_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Finite: TypeAlias = Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
_SCALARS: Final = (str, int, float, bool, type(None))
# All of these are text in JSON, so msgspec cannot distinguish two of them in one column.
_TEXTS: Final = (datetime, date, UUID)
# Making a shape takes as long as looking closely at a few hundred records.
_MIN_ROWS: Final = 256


def shape_of(records: list[Any]) -> Any:
    """Return what records like the first ones look like, for ``fits``; None if that cannot be said so."""
    first = records[0]
    if len(records) < _MIN_ROWS or type(first) is not dict or not set(map(type, first)) <= {str}:
        return None
    kinds = tuple(map(type, first.values()))
    return _shape(tuple(first), kinds) if {*kinds} <= {*_SCALARS, *_TEXTS} else None


def fits(records: list[Any], shape: Any) -> bool:
    """Return whether all records have no other fields than the shape, each with a JSON value."""
    try:
        msgspec.convert(records, shape)
    except (msgspec.ValidationError, RecursionError, ValueError):
        return False  # a signaling NaN is a ValueError
    return True


@lru_cache(maxsize=64)
def _shape(names: tuple[str, ...], kinds: tuple[type, ...]) -> Any:
    # Fields may be called anything, a struct's attributes may not.
    attributes = {f"f{index}": name for index, name in enumerate(names)}
    struct = msgspec.defstruct(
        "Shape",
        [
            (attribute, (kind | None) if kind in _TEXTS else (_Whole | _Finite | str | bool | None), None)
            for attribute, kind in zip(attributes, kinds, strict=True)
        ],
        rename=attributes,
        forbid_unknown_fields=True,
        gc=False,
    )
    return list[struct]  # type: ignore[valid-type]
