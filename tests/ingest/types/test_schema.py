"""Schemas: every type and mode, to and from REST, wire and Arrow; what is refused; how they may change."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from google.cloud.bigquery import SchemaField
from google.cloud.bigquery_storage_v1 import types
from hypothesis import HealthCheck, given, settings

import lode
from lode.ingest.status import Code, Refused
from lode.ingest.types.arrow import from_arrow
from lode.ingest.types.check import check_evolution, check_schema
from lode.ingest.types.columns import TYPES, Column, TableSchema, arrow_field
from lode.ingest.types.rest import from_rest, to_rest
from lode.ingest.types.wire import to_wire
from support.ingest.strategies import schemas

LIGHT = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def of(*columns: Column) -> TableSchema:
    return TableSchema(columns)


def one_of_each() -> TableSchema:
    return of(
        *(
            Column(
                name.lower(),
                name,
                fields=(Column("x", "INT64", "REQUIRED"),) if name == "STRUCT" else (),
                range_element="DATE" if name == "RANGE" else "",
            )
            for name in TYPES
        )
    )


def bare(column: Column) -> Column:
    """The column without what Arrow has no place for."""
    return Column(
        column.name,
        column.type,
        column.mode,
        tuple(bare(child) for child in column.fields),
        range_element=column.range_element,
    )


def on_the_wire(column: Column) -> Column:
    """The column without what the messages of the Storage APIs have no field for."""
    return msgspec.structs.replace(column, fields=tuple(map(on_the_wire, column.fields)), rounding="")


def from_wire(field: Any) -> Column:
    """The column of a message, by the names that the official package gives to numbers."""

    def type_of(number: int) -> str:
        name = types.TableFieldSchema.Type(number).name
        return "FLOAT64" if name == "DOUBLE" else name

    mode: Any = types.TableFieldSchema.Mode(field.mode).name
    element = field.range_element_type.type_
    return Column(
        field.name,
        type_of(field.type_),
        mode,
        tuple(map(from_wire, field.fields)),
        field.description,
        field.default_value_expression,
        field.max_length,
        field.precision,
        field.scale,
        type_of(element) if element else "",
    )


@LIGHT
@given(schemas())
def test_a_schema_comes_back_equal_from_rest_and_from_the_wire(schema: TableSchema) -> None:
    assert from_rest(to_rest(schema)) == schema
    assert of(*map(from_wire, to_wire(schema).fields)) == of(*map(on_the_wire, schema))


@LIGHT
@given(schemas())
def test_a_schema_comes_back_from_arrow_up_to_what_arrow_has_no_place_for(schema: TableSchema) -> None:
    assert from_arrow(schema.arrow) == TableSchema(tuple(bare(column) for column in schema))


def test_every_type_has_its_arrow_type() -> None:
    assert {field.name: str(field.type) for field in one_of_each().arrow} == {
        "string": "string",
        "bytes": "binary",
        "int64": "int64",
        "float64": "double",
        "bool": "bool",
        "timestamp": "timestamp[us, tz=UTC]",
        "date": "date32[day]",
        "time": "time64[us]",
        "datetime": "timestamp[us]",
        "numeric": "decimal128(38, 9)",
        "bignumeric": "decimal256(76, 38)",
        "geography": "string",
        "json": "string",
        "interval": "string",
        "range": "struct<start: date32[day], end: date32[day]>",
        "struct": "struct<x: int64 not null>",
    }


def test_modes_are_nullability_and_lists() -> None:
    assert arrow_field(Column("a", "INT64", "REQUIRED")) == pa.field("a", pa.int64(), nullable=False)
    assert arrow_field(Column("a", "INT64", "REPEATED")) == pa.field("a", pa.list_(pa.int64()))


def test_types_that_arrow_lacks_are_named_in_the_fields_metadata() -> None:
    arrow = one_of_each().arrow
    marked = {field.name: field.metadata[b"ARROW:extension:name"] for field in arrow if field.metadata}
    assert marked == {
        name: b"google:sqlType:" + name.encode()
        for name in ("datetime", "geography", "json", "interval", "range")
    }


def test_an_empty_table_of_every_type_is_stored_in_parquet_with_its_schema() -> None:
    schema = one_of_each()
    dataset = lode.Dataset("t", "memory://", codec=lode.Parquet(schema.arrow))
    snapshot = dataset.write(schema.arrow.empty_table())
    assert dataset.read(snapshot).schema.equals(schema.arrow, check_metadata=True)


def test_rest_takes_both_names_of_a_type_and_answers_with_the_older() -> None:
    asked = [
        {"name": "a", "type": "INT64", "mode": "required"},
        {"name": "b", "type": "integer"},
        {"name": "c", "type": "STRUCT", "fields": [{"name": "x", "type": "BOOL"}]},
        {"name": "d", "type": "RECORD", "mode": "REPEATED", "fields": [{"name": "x", "type": "FLOAT"}]},
        {"name": "e", "type": "DECIMAL", "precision": "5", "scale": 2},
    ]
    schema = from_rest({"fields": asked})
    assert [column.type for column in schema] == ["INT64", "INT64", "STRUCT", "STRUCT", "NUMERIC"]
    fields = to_rest(schema)["fields"]
    assert [field["type"] for field in fields] == ["INTEGER", "INTEGER", "RECORD", "RECORD", "NUMERIC"]
    assert fields[0]["mode"] == "REQUIRED"
    assert (fields[4]["precision"], fields[4]["scale"]) == ("5", "2")


def test_googles_client_reads_what_rest_answers() -> None:
    schema = of(
        Column("r", "RANGE", range_element="DATETIME"),
        Column("s", "STRING", max_length=7, description="short", default="'x'"),
        Column("n", "STRUCT", "REPEATED", (Column("b", "BIGNUMERIC", precision=40, scale=3),)),
    )
    fields = [SchemaField.from_api_repr(field) for field in to_rest(schema)["fields"]]
    assert fields[0].range_element_type is not None
    assert fields[0].range_element_type.element_type == "DATETIME"
    assert (fields[1].max_length, fields[1].description) == (7, "short")
    assert fields[1].default_value_expression == "'x'"
    assert (fields[2].fields[0].precision, fields[2].fields[0].scale) == (40, 3)
    assert from_rest({"fields": [field.to_api_repr() for field in fields]}) == schema


REFUSED: list[tuple[list[dict[str, Any]], str]] = [
    ([{"name": "a", "type": "INT64"}, {"name": "A", "type": "INT64"}], "'A' appears twice"),
    ([{"name": "", "type": "INT64"}], "1 to 300 characters"),
    ([{"name": "a" * 301, "type": "INT64"}], "1 to 300 characters"),
    ([{"name": "a.b", "type": "INT64"}], "cannot be part of a name"),
    ([{"name": "_PARTITIONTIME", "type": "INT64"}], "reserved"),
    ([{"name": "_table_x", "type": "INT64"}], "reserved"),
    ([{"name": "_CHANGE_TYPE", "type": "STRING"}], "reserved"),
    ([{"name": "a", "type": "BLOB"}], "unknown type 'BLOB'"),
    ([{"name": "a"}], "no type"),
    ([{"type": "INT64"}], "an object with a name"),
    ([{"name": "a", "type": "INT64", "mode": "SOMETIMES"}], "unknown mode 'SOMETIMES'"),
    ([{"name": "a", "type": "STRUCT"}], "STRUCT without fields"),
    ([{"name": "a", "type": "STRUCT", "fields": [{"name": "b", "type": "NO"}]}], "'a.b'"),
    ([{"name": "a", "type": "INT64", "fields": [{"name": "b", "type": "INT64"}]}], "only a STRUCT has"),
    ([{"name": "a", "type": "INT64", "maxLength": "3"}], "only STRING and BYTES"),
    ([{"name": "a", "type": "STRING", "maxLength": -1}], "above 0"),
    ([{"name": "a", "type": "STRING", "maxLength": "x"}], "whole number"),
    ([{"name": "a", "type": "STRING", "precision": 3}], "only NUMERIC and BIGNUMERIC"),
    ([{"name": "a", "type": "NUMERIC", "precision": 30}], "29 digits before the point"),
    ([{"name": "a", "type": "NUMERIC", "precision": 12, "scale": 10}], "9 after it"),
    ([{"name": "a", "type": "NUMERIC", "scale": 2}], "precision 0"),
    ([{"name": "a", "type": "RANGE"}], "RANGE of nothing"),
    ([{"name": "a", "type": "RANGE", "rangeElementType": {"type": "INT64"}}], "RANGE of INT64"),
    ([{"name": "a", "type": "DATE", "rangeElementType": {"type": "DATE"}}], "only a RANGE"),
    ([{"name": "a", "type": "STRING", "policyTags": {"names": ["secret"]}}], "policyTags"),
    ([{"name": "a", "type": "STRING", "collation": "und:ci"}], "collation"),
    ([{"name": "a", "type": "TIMESTAMP", "timestampPrecision": 12}], "microseconds"),
    ([{"name": "a", "type": "INT64", "description": 5}], "must be text"),
    ([{"name": "a", "type": "INT64", "defaultValueExpression": "1 + 1"}], "is refused"),
    ([{"name": "a", "type": "STRING", "defaultValueExpression": "'" + "\\x" * 26}], "is refused"),
    ([{"name": "a", "type": "STRING", "defaultValueExpression": "(" * 100_000}], "is refused"),
    ([{"name": "a", "type": "STRING", "defaultValueExpression": "LOWER('a')"}], "is refused"),
    (
        [
            {
                "name": "a",
                "type": "STRUCT",
                "fields": [{"name": "b", "type": "INT64", "defaultValueExpression": "1"}],
            }
        ],
        "only columns of the top level",
    ),
]


@pytest.mark.parametrize(("fields", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_a_schema_that_breaks_a_rule_is_refused_by_name(fields: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(Refused) as refused:
        from_rest({"fields": fields})
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert says in refused.value.message


@pytest.mark.parametrize("schema", [5, {"fields": {}}, {"fields": [5]}])
def test_what_is_no_schema_at_all_is_refused(schema: Any) -> None:
    with pytest.raises(Refused):
        from_rest(schema)


def test_names_of_other_scripts_are_taken() -> None:
    check_schema(of(Column("größe", "INT64"), Column("価格", "INT64"), Column("1st & last-name", "INT64")))


def nested(depth: int) -> dict[str, Any]:
    field: dict[str, Any] = {"name": "leaf", "type": "INT64"}
    for level in range(depth):
        field = {"name": f"s{level}", "type": "STRUCT", "fields": [field]}
    return {"fields": [field]}


def test_structs_nest_fifteen_deep_and_no_deeper() -> None:
    assert len(from_rest(nested(15))) == 1
    for depth in (16, 2000):
        with pytest.raises(Refused, match="nested too deep"):
            from_rest(nested(depth))


def test_a_table_has_at_most_ten_thousand_columns() -> None:
    columns = tuple(Column(f"c{number}", "INT64") for number in range(10_001))
    check_schema(TableSchema(columns[:-1]))
    with pytest.raises(Refused, match="at most 10000"):
        check_schema(TableSchema(columns))


def test_columns_are_found_whatever_their_case() -> None:
    assert of(Column("Id", "INT64"), Column("größe", "INT64")).positions == {"id": 0, "größe": 1}


OTHERS: list[tuple[pa.DataType, Column]] = [
    (pa.int8(), Column("a", "INT64")),
    (pa.uint64(), Column("a", "NUMERIC")),
    (pa.float32(), Column("a", "FLOAT64")),
    (pa.large_string(), Column("a", "STRING")),
    (pa.dictionary(pa.int8(), pa.string()), Column("a", "STRING")),
    (pa.binary(4), Column("a", "BYTES")),
    (pa.timestamp("ns"), Column("a", "DATETIME")),
    (pa.timestamp("s", "Europe/Paris"), Column("a", "TIMESTAMP")),
    (pa.date64(), Column("a", "DATE")),
    (pa.time32("s"), Column("a", "TIME")),
    (pa.decimal128(10, 2), Column("a", "NUMERIC")),
    (pa.decimal128(30, 20), Column("a", "BIGNUMERIC")),
    (pa.duration("s"), Column("a", "INT64")),
    (pa.month_day_nano_interval(), Column("a", "INTERVAL")),
    (pa.json_(), Column("a", "JSON")),
    (pa.uuid(), Column("a", "BYTES")),
    (pa.large_list(pa.int32()), Column("a", "INT64", "REPEATED")),
    (
        pa.map_(pa.string(), pa.int64()),
        Column("a", "STRUCT", "REPEATED", (Column("key", "STRING", "REQUIRED"), Column("value", "INT64"))),
    ),
]


@pytest.mark.parametrize(("kind", "column"), OTHERS, ids=[str(kind) for kind, _ in OTHERS])
def test_other_arrow_types_are_the_nearest_type_of_bigquery(kind: pa.DataType, column: Column) -> None:
    assert from_arrow(pa.schema([pa.field("a", kind)])).columns == (column,)


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.list_(pa.int64())), pa.decimal256(76, 76), pa.sparse_union([pa.field("x", pa.int8())])],
)
def test_an_arrow_type_that_bigquery_lacks_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(Refused, match="'a'"):
        from_arrow(pa.schema([pa.field("a", kind)]))


BEFORE = of(
    Column("a", "INT64", "REQUIRED"),
    Column("s", "STRUCT", fields=(Column("x", "STRING", max_length=5),)),
    Column("n", "NUMERIC", precision=5, scale=2),
)
A, S, N = BEFORE.columns


def test_columns_may_be_added_and_relaxed() -> None:
    check_evolution(BEFORE, BEFORE)
    wider = Column(
        "s", "STRUCT", fields=(Column("x", "STRING", max_length=9), Column("y", "INT64", "REPEATED"))
    )
    check_evolution(
        BEFORE,
        of(Column("a", "INT64"), wider, Column("n", "NUMERIC", precision=6, scale=2), Column("z", "DATE")),
    )
    check_evolution(BEFORE, of(A, S, Column("n", "NUMERIC")))


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (of(S, N), "removed"),
        (of(Column("A", "INT64", "REQUIRED"), S, N), "removed"),
        (of(Column("a", "STRING", "REQUIRED"), S, N), "from INT64 to STRING"),
        (of(Column("a", "INT64", "REPEATED"), S, N), "from REQUIRED to REPEATED"),
        (of(A, S, Column("n", "NUMERIC", "REQUIRED", precision=5, scale=2)), "from NULLABLE to REQUIRED"),
        (of(A, S, N, Column("z", "DATE", "REQUIRED")), "'z' is new and REQUIRED"),
        (of(A, Column("s", "STRUCT", fields=(Column("x", "STRING", max_length=4),)), N), "'s.x'"),
        (of(A, Column("s", "STRUCT", fields=(*S.fields, Column("y", "DATE", "REQUIRED"))), N), "'s.y'"),
        (of(A, S, Column("n", "NUMERIC", precision=5, scale=3)), "fewer digits"),
    ],
)
def test_any_other_change_is_refused(after: TableSchema, says: str) -> None:
    with pytest.raises(Refused, match=says) as refused:
        check_evolution(BEFORE, after)
    assert refused.value.code is Code.INVALID_ARGUMENT
