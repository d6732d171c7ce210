"""Any rows of any schema, sent as protobuf, are the rows that were meant, in memory and in a dataset."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lode
from lode.ingest.decode.arrow import ArrowRows
from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.types.columns import Column, TableSchema
from support.ingest.proto_messages import F, field, message, message_class
from support.ingest.strategies import rows_for, schemas

if TYPE_CHECKING:
    from decimal import Decimal

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)


def days(value: dt.date) -> int:
    return value.toordinal() - dt.date(1970, 1, 1).toordinal()


def packed_time(value: dt.time) -> int:
    return value.hour << 32 | value.minute << 26 | value.second << 20 | value.microsecond


def packed_datetime(value: dt.datetime) -> int:
    return value.year << 46 | value.month << 42 | value.day << 37 | packed_time(value.time())


def packed_decimal(value: Decimal, scale: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale) * (-1 if sign else 1)
    return number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)


def text(value: Any) -> str:
    return str(value)


# For each type the kinds of fields it is sent as, and what is sent.
WAYS: dict[str, list[tuple[int, Any]]] = {
    "STRING": [(F.TYPE_STRING, text)],
    "GEOGRAPHY": [(F.TYPE_STRING, text)],
    "JSON": [(F.TYPE_STRING, text)],
    "INTERVAL": [(F.TYPE_STRING, text)],
    "BYTES": [(F.TYPE_BYTES, bytes)],
    "INT64": [(F.TYPE_INT64, int), (F.TYPE_SINT64, int), (F.TYPE_SFIXED64, int)],
    "FLOAT64": [(F.TYPE_DOUBLE, float)],
    "BOOL": [(F.TYPE_BOOL, bool), (F.TYPE_UINT32, int)],
    "DATE": [(F.TYPE_INT32, days), (F.TYPE_INT64, days), (F.TYPE_STRING, text)],
    "TIME": [(F.TYPE_INT64, packed_time), (F.TYPE_STRING, dt.time.isoformat)],
    "DATETIME": [(F.TYPE_INT64, packed_datetime), (F.TYPE_STRING, dt.datetime.isoformat)],
    "TIMESTAMP": [
        (F.TYPE_INT64, lambda value: (value.replace(tzinfo=None) - EPOCH) // MICROSECOND),
        (F.TYPE_STRING, dt.datetime.isoformat),
        (F.TYPE_STRING, lambda value: value.replace(tzinfo=None).isoformat(" ")),
    ],
    "NUMERIC": [(F.TYPE_BYTES, lambda value: packed_decimal(value, 9)), (F.TYPE_STRING, text)],
    "BIGNUMERIC": [(F.TYPE_BYTES, lambda value: packed_decimal(value, 38)), (F.TYPE_STRING, text)],
}
WRAPPERS = {
    F.TYPE_STRING: "StringValue",
    F.TYPE_BYTES: "BytesValue",
    F.TYPE_INT64: "Int64Value",
    F.TYPE_INT32: "Int32Value",
    F.TYPE_UINT32: "UInt32Value",
    F.TYPE_DOUBLE: "DoubleValue",
    F.TYPE_BOOL: "BoolValue",
}


class Writer:
    """A client that made up its mind how to send each column."""

    def __init__(self, draw: Any, columns: tuple[Column, ...], *, syntax: str, name: str = "Row") -> None:
        self.descriptor = message(name=name)
        self._ways: list[tuple[Column, str, Any]] = []
        numbers = draw(
            st.lists(
                st.integers(1, 18_000) | st.integers(20_000, 2**29 - 1),
                min_size=len(columns),
                max_size=len(columns),
                unique=True,
            )
        )
        for position, (column, number) in enumerate(zip(columns, numbers, strict=True)):
            own_name = f"column_{position}"
            label = F.LABEL_REPEATED if column.mode == "REPEATED" else F.LABEL_OPTIONAL
            if syntax == "proto2" and column.mode == "REQUIRED" and draw(st.booleans()):
                label = F.LABEL_REQUIRED
            made = self.descriptor.field.add()
            if column.children:
                inner = Writer(draw, column.children, syntax=syntax, name=f"Message{position}")
                self.descriptor.nested_type.append(inner.descriptor)
                type_name = draw(st.sampled_from(["", ".Row."])) if name == "Row" else ""
                made.CopyFrom(
                    field(
                        own_name,
                        F.TYPE_MESSAGE,
                        number,
                        label=label,
                        type_name=type_name + inner.descriptor.name,
                    )
                )
                way: Any = inner.values
            else:
                kind, way = draw(st.sampled_from(WAYS[column.type]))
                wrapper = WRAPPERS.get(kind)
                if wrapper is not None and draw(st.integers(0, 3)) == 0:
                    made.CopyFrom(
                        field(
                            own_name,
                            F.TYPE_MESSAGE,
                            number,
                            label=label,
                            type_name=f".google.protobuf.{wrapper}",
                        )
                    )
                    way = _wrapping(way)
                else:
                    made.CopyFrom(field(own_name, kind, number, label=label))
                    if syntax == "proto3" and label == F.LABEL_OPTIONAL:
                        made.proto3_optional = True
                        made.oneof_index = len(self.descriptor.oneof_decl)
                        self.descriptor.oneof_decl.add(name=f"_{own_name}")
                    elif label == F.LABEL_REPEATED and kind not in (F.TYPE_STRING, F.TYPE_BYTES):
                        made.options.packed = draw(st.booleans())
            self._name(made, column.name)
            self._ways.append((column, own_name, way))

    def _name(self, made: Any, name: str) -> None:
        """Name the column by the option, as clients do for names that protobuf does not allow."""
        encoded = name.encode()
        tag = 454943157 << 3 | 2
        options = bytes((tag >> shift & 127) | (128 if shift < 28 else 0) for shift in range(0, 35, 7))
        made.options.MergeFromString(options + bytes([len(encoded)]) + encoded)

    def values(self, row: dict[str, Any]) -> dict[str, Any]:
        sent = {}
        for column, name, way in self._ways:
            value = row[column.name]
            if value is not None:
                sent[name] = [way(one) for one in value] if column.mode == "REPEATED" else way(value)
        return sent


def _wrapping(way: Any) -> Any:
    return lambda value: {"value": way(value)}


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@given(data=st.data())
@settings(deadline=None)
def test_any_rows_of_any_schema_are_what_they_are_through_arrow(data: st.DataObject, syntax: str) -> None:
    schema = data.draw(schemas(max_columns=4, max_depth=2))
    rows = data.draw(rows_for(schema))
    writer = Writer(data.draw, schema.columns, syntax=syntax)
    row_class = message_class(writer.descriptor, syntax=syntax)
    sent = [row_class(**writer.values(row)).SerializeToString() for row in rows]

    batch = ProtoRows(schema, writer.descriptor).decode(sent)

    batch.validate(full=True)
    by_arrow = pa.RecordBatch.from_pylist(rows, schema=schema.arrow)
    arrow_rows = ArrowRows(schema, schema.arrow.serialize().to_pybytes())
    assert batch.equals(arrow_rows.decode(by_arrow.serialize().to_pybytes()), check_metadata=True)
    assert batch.to_pylist() == rows


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_any_rows_come_back_from_a_dataset(data: st.DataObject) -> None:
    schema = data.draw(schemas(max_columns=4, max_depth=2))
    rows = data.draw(rows_for(schema))
    writer = Writer(data.draw, schema.columns, syntax="proto2")
    row_class = message_class(writer.descriptor)
    sent = [row_class(**writer.values(row)).SerializeToString() for row in rows]
    dataset = lode.Dataset("rows", "memory://", codec=lode.Parquet(schema.arrow))
    dataset.write(ProtoRows(schema, writer.descriptor).decode(sent))
    assert dataset.scan().read_all().to_pylist() == rows


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_columns_left_out_by_a_writer_are_null_or_empty(data: st.DataObject) -> None:
    schema = data.draw(schemas(max_columns=4, max_depth=2).filter(lambda schema: len(schema) > 1))
    free = [column for column in schema if column.mode != "REQUIRED"]
    left_out = set(data.draw(st.sets(st.sampled_from([column.name for column in free])))) if free else set()
    kept = tuple(column for column in schema if column.name not in left_out) or schema.columns[:1]
    names = {column.name for column in kept}
    rows = data.draw(rows_for(schema))
    writer = Writer(data.draw, kept, syntax="proto2")
    row_class = message_class(writer.descriptor)
    sent = [row_class(**writer.values(row)).SerializeToString() for row in rows]
    nothing: dict[str, Any] = {column.name: [] if column.mode == "REPEATED" else None for column in schema}
    assert ProtoRows(TableSchema(schema.columns), writer.descriptor).decode(sent).to_pylist() == [
        {**nothing, **{name: value for name, value in row.items() if name in names}} for row in rows
    ]
