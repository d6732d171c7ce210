"""Schemas of every supported type, and rows that fit them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
FLOAT32 = st.floats(width=32, allow_nan=False)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    units = st.integers(-(10**precision) + 1, 10**precision - 1)
    return units.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), FLOAT32),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.bool_(), st.booleans()),
    (pa.binary(), st.binary(max_size=12)),
    (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("ms"), st.datetimes().map(lambda d: d.replace(microsecond=d.microsecond // 1000 * 1000))),
    (pa.timestamp("ns"), st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
    (pa.decimal128(12, 3), decimals(12, 3)),
    (pa.decimal256(50, 10), decimals(50, 10)),
]


def _nullable(inner: st.SearchStrategy[Any], nullable: bool) -> st.SearchStrategy[Any]:
    return st.none() | inner if nullable else inner


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """Draw a type and the strategy for its values."""
    shape = draw(st.sampled_from(["scalar", "scalar", "list", "struct", "map"] if depth else ["scalar"]))
    if shape == "scalar":
        kind, values = draw(st.sampled_from(SCALARS))
        return kind, values
    kind, values = draw(typed(depth - 1))
    nullable = draw(st.booleans())
    inner = _nullable(values, nullable)
    if shape == "list":
        return pa.list_(pa.field("element", kind, nullable)), st.lists(inner, max_size=3)
    if shape == "map":
        return pa.map_(pa.string(), pa.field("value", kind, nullable)), st.dictionaries(
            TEXT, inner, max_size=3
        )
    other, others = draw(typed(depth - 1))
    struct = pa.struct([pa.field("a", kind, nullable), pa.field("b", other)])
    return struct, st.fixed_dictionaries({"a": inner, "b": st.none() | others})


@st.composite
def tables(draw: st.DrawFn, *, flat: bool = False) -> tuple[pa.Schema, list[dict[str, Any]]]:
    """Draw a schema and rows for it."""
    columns = draw(st.lists(typed(0 if flat else 2), min_size=1, max_size=4))
    nullables = draw(st.lists(st.booleans(), min_size=len(columns), max_size=len(columns)))
    fields = [
        pa.field(f"c{index}", kind, nullable)
        for index, ((kind, _), nullable) in enumerate(zip(columns, nullables, strict=True))
    ]
    row = st.fixed_dictionaries(
        {
            field.name: _nullable(values, field.nullable)
            for field, (_, values) in zip(fields, columns, strict=True)
        }
    )
    return pa.schema(fields), draw(st.lists(row, max_size=12))


JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def plain(value: Any) -> Any:
    """Return a value read back from Arrow as the strategies draw it."""
    match value:
        case list():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
    return value


__all__ = ["JSON_VALUES", "SCALARS", "plain", "tables"]
