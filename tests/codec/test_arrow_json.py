"""Arrow schemas as readable JSON."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lode
from lode.codec.arrow_json import field_from_json, field_to_json, type_from_json, type_to_json

UNITS: Any = ("s", "ms", "us", "ns")
PLAIN = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.int64(), pa.uint16(), pa.uint64(), pa.float16(), pa.float32()),
    *(pa.float64(), pa.date32(), pa.date64(), pa.string(), pa.large_string(), pa.string_view(), pa.binary()),
    *(pa.binary(7), pa.large_binary(), pa.binary_view(), pa.decimal32(5, 1), pa.decimal64(12, 0)),
    *(pa.decimal128(12, 2), pa.decimal256(50, -3), pa.time32("s"), pa.time64("ns"), pa.uuid(), pa.json_()),
    *(pa.timestamp(unit) for unit in UNITS),
    *(pa.timestamp("us", zone) for zone in ("UTC", "Europe/Berlin", "+02:00", "a, tz=b")),
    *(pa.duration(unit) for unit in UNITS),
    *(pa.month_day_nano_interval(), pa.run_end_encoded(pa.int32(), pa.string())),
    *(pa.dense_union([pa.field("a", pa.int8())]), pa.sparse_union([pa.field("b", pa.string())])),
]

metadata = st.dictionaries(st.binary(max_size=9), st.binary(max_size=9) | st.just(b"base64:!"), max_size=2)


def fields(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda name, kind, nullable, extra: pa.field(
            name, kind, nullable=nullable or pa.types.is_null(kind), metadata=extra or None
        ),
        st.text(max_size=4),
        types,
        st.booleans(),
        metadata,
    )


def make_map(key: Any, item: Any, ordered: bool) -> Any:
    make: Any = pa.map_  # the stubs do not know this form
    return make(key, item, keys_sorted=ordered)


def nested(types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    inner = fields(types)
    keys = st.sampled_from([pa.string(), pa.int32()]).map(lambda kind: pa.field("key", kind, nullable=False))
    return st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(pa.list_view),
        st.builds(pa.list_, inner, st.integers(0, 5)),
        st.lists(inner, max_size=3).map(pa.struct),
        st.builds(make_map, keys, inner, st.booleans()),
        st.builds(
            pa.dictionary, st.sampled_from([pa.int8(), pa.int32()]), st.sampled_from(PLAIN[:5]), st.booleans()
        ),
    )


TYPES = st.recursive(st.sampled_from(PLAIN), nested, max_leaves=6)


@given(fields(TYPES))
def test_every_field_is_restored_exactly(field: pa.Field[Any]) -> None:
    stored = json.loads(json.dumps(field_to_json(field)))
    assert field_from_json(stored).equals(field, check_metadata=True)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int64(), "int64"),
        (pa.float64(), "float64"),
        (pa.timestamp("us", "UTC"), "timestamp[us, tz=UTC]"),
        (pa.decimal128(12, 2), "decimal128(12, 2)"),
        (pa.list_(pa.string()), {"list": {"name": "item", "type": "string"}}),
    ],
)
def test_common_types_are_readable(kind: Any, text: Any) -> None:
    assert type_to_json(kind) == text


@pytest.mark.parametrize(
    "stored",
    [
        *("", "int65", "timestamp[", "timestamp[us, tz=", "decimal128(99, 2)", "decimal128(x)"),
        *(7, None, True, [], {}, {"list": None}, {"list": {"name": 1, "type": "int8"}}, {"struct": 3}),
        *({"unknown": 1}, {"arrow": "?"}, {"arrow": "AAAA"}, {"map": {}}, {"list": {}, "struct": []}),
        {"fixed_size_list": {"item": 1, "size": -1}},
        {"dictionary": {"index": "string", "value": "int8", "ordered": False}},
    ],
)
def test_what_is_no_type_is_refused_by_name(stored: Any) -> None:
    with pytest.raises(lode.ManifestInvalidError):
        type_from_json(stored)


def test_a_type_nested_without_end_is_refused() -> None:
    stored: Any = "int8"
    for _ in range(500):
        stored = {"list": {"name": "item", "type": stored}}
    with pytest.raises(lode.ManifestInvalidError, match="nested more than 64 levels"):
        type_from_json(stored)
