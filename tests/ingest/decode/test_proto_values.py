"""Which kinds of fields become which types of columns, with which values, and which values do not."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from lode.ingest.decode.proto.decoder import ProtoRows
from lode.ingest.decode.proto.plan import ACCEPTED
from lode.ingest.status import Refused
from lode.ingest.types.columns import Column, TableSchema
from support.ingest.proto_messages import F, decoded, field, message, message_class, repeated

INTEGERS = (
    *(F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32, F.TYPE_UINT32, F.TYPE_FIXED32),
    *(F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64, F.TYPE_UINT64, F.TYPE_FIXED64),
)
# The bits of the fields, larger units first; each field is written out by hand.
NOON = int("0110010001011100011000000101000010100", 2)
LEAP_DAY = int("00011111101000001011101", 2)


def civil(
    *, year: int = 0, month: int = 0, day: int = 0, clock: tuple[int, int, int, int] = (0, 0, 0, 0)
) -> int:
    hour, minute, second, micro = clock
    return year << 46 | month << 42 | day << 37 | hour << 32 | minute << 26 | second << 20 | micro


def scaled(number: int, width: int) -> bytes:
    return number.to_bytes(width, "little", signed=True)


# (the column's type, the field's kind, what is sent, what is stored)
GOOD: list[tuple[str, int, Any, Any]] = [
    *(("INT64", kind, 7, 7) for kind in INTEGERS),
    *(("BOOL", kind, 2, True) for kind in INTEGERS),
    *(("BOOL", kind, 0, False) for kind in INTEGERS),
    *(("NUMERIC", kind, 7, Decimal(7)) for kind in INTEGERS),
    *(("BIGNUMERIC", kind, 7, Decimal(7)) for kind in INTEGERS),
    ("INT64", F.TYPE_INT64, -(2**63), -(2**63)),
    ("INT64", F.TYPE_SINT32, -(2**31), -(2**31)),
    ("INT64", F.TYPE_UINT64, 2**63 - 1, 2**63 - 1),
    ("NUMERIC", F.TYPE_UINT64, 2**64 - 1, Decimal(2**64 - 1)),
    ("BIGNUMERIC", F.TYPE_INT64, -(2**63), Decimal(-(2**63))),
    ("BOOL", F.TYPE_BOOL, False, False),
    ("FLOAT64", F.TYPE_DOUBLE, -0.1, -0.1),
    ("FLOAT64", F.TYPE_FLOAT, 0.5, 0.5),
    ("FLOAT64", F.TYPE_DOUBLE, float("inf"), float("inf")),
    ("STRING", F.TYPE_STRING, "ünï\0", "ünï\0"),
    ("BYTES", F.TYPE_BYTES, b"\xff\0", b"\xff\0"),
    ("BYTES", F.TYPE_STRING, "ünï", "ünï".encode()),
    ("GEOGRAPHY", F.TYPE_STRING, "POINT(1 2)", "POINT(1 2)"),
    ("JSON", F.TYPE_STRING, '{"a": [1, null]}', '{"a": [1, null]}'),
    ("INTERVAL", F.TYPE_STRING, "1-2 3 4:5:6.000007", "1-2 3 4:5:6.000007"),
    ("DATE", F.TYPE_INT32, 19_782, date(2024, 2, 29)),
    ("DATE", F.TYPE_INT64, -719_162, date(1, 1, 1)),
    ("DATE", F.TYPE_SINT32, 2_932_896, date(9999, 12, 31)),
    ("DATE", F.TYPE_STRING, "2024-02-29", date(2024, 2, 29)),
    ("DATE", F.TYPE_STRING, "2024-2-9", date(2024, 2, 9)),
    ("TIME", F.TYPE_INT64, 0, time(0)),
    ("TIME", F.TYPE_INT64, NOON, time(12, 34, 56, 789_012)),
    ("TIME", F.TYPE_INT64, 53_880_818_196, time(12, 34, 56, 789_012)),
    ("TIME", F.TYPE_SFIXED64, civil(clock=(23, 59, 59, 999_999)), time(23, 59, 59, 999_999)),
    ("TIME", F.TYPE_STRING, "12:34:56.789012", time(12, 34, 56, 789_012)),
    ("TIME", F.TYPE_STRING, "1:2:3", time(1, 2, 3)),
    ("DATETIME", F.TYPE_INT64, LEAP_DAY << 37 | NOON, datetime(2024, 2, 29, 12, 34, 56, 789_012)),
    ("DATETIME", F.TYPE_INT64, 142_258_614_586_538_368, datetime(2021, 9, 27, 20, 51, 10, 752_000)),
    ("DATETIME", F.TYPE_INT64, civil(year=1, month=1, day=1), datetime(1, 1, 1)),
    (
        *("DATETIME", F.TYPE_INT64, civil(year=9999, month=12, day=31, clock=(23, 59, 59, 999_999))),
        datetime(9999, 12, 31, 23, 59, 59, 999_999),
    ),
    ("DATETIME", F.TYPE_INT64, civil(year=1970, month=1, day=1), datetime(1970, 1, 1)),
    ("DATETIME", F.TYPE_INT64, civil(year=1900, month=3, day=1), datetime(1900, 3, 1)),
    ("DATETIME", F.TYPE_STRING, "2024-02-29T12:34:56.789012", datetime(2024, 2, 29, 12, 34, 56, 789_012)),
    ("DATETIME", F.TYPE_STRING, "2024-2-29 1:02:03", datetime(2024, 2, 29, 1, 2, 3)),
    ("TIMESTAMP", F.TYPE_INT64, 1_709_210_096_789_012, datetime(2024, 2, 29, 12, 34, 56, 789_012, UTC)),
    ("TIMESTAMP", F.TYPE_INT32, -1, datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
    ("TIMESTAMP", F.TYPE_UINT32, 2**32 - 1, datetime(1970, 1, 1, 1, 11, 34, 967_295, UTC)),
    ("TIMESTAMP", F.TYPE_STRING, "2024-02-29T12:34:56.5Z", datetime(2024, 2, 29, 12, 34, 56, 500_000, UTC)),
    ("TIMESTAMP", F.TYPE_STRING, "2024-02-29 12:34:56", datetime(2024, 2, 29, 12, 34, 56, 0, UTC)),
    ("TIMESTAMP", F.TYPE_STRING, "2024-02-29T12:34:56+01:30", datetime(2024, 2, 29, 11, 4, 56, 0, UTC)),
    ("TIMESTAMP", F.TYPE_STRING, "2024-02-29 12:34:56 UTC", datetime(2024, 2, 29, 12, 34, 56, 0, UTC)),
    ("TIMESTAMP", F.TYPE_STRING, "2024-2-9 1:2:3-8", datetime(2024, 2, 9, 9, 2, 3, 0, UTC)),
    (
        "TIMESTAMP",
        F.TYPE_STRING,
        "2024-07-01 12:00:00 America/New_York",
        datetime(2024, 7, 1, 16, 0, tzinfo=UTC),
    ),
    (
        "TIMESTAMP",
        F.TYPE_STRING,
        "2024-02-29T12:34:56.123456000Z",
        datetime(2024, 2, 29, 12, 34, 56, 123_456, UTC),
    ),
    ("NUMERIC", F.TYPE_BYTES, scaled(1_500_000_000, 4), Decimal("1.5")),
    ("NUMERIC", F.TYPE_BYTES, scaled(-1, 1), Decimal("-0.000000001")),
    ("NUMERIC", F.TYPE_BYTES, b"\0", Decimal(0)),
    ("NUMERIC", F.TYPE_BYTES, scaled(10**38 - 1, 16), Decimal(f"{10**38 - 1}e-9")),
    ("NUMERIC", F.TYPE_BYTES, scaled(-(10**38) + 1, 17), Decimal(f"-{10**38 - 1}e-9")),
    ("NUMERIC", F.TYPE_BYTES, scaled(5, 40), Decimal("0.000000005")),
    ("NUMERIC", F.TYPE_STRING, "-1.25", Decimal("-1.25")),
    ("NUMERIC", F.TYPE_STRING, " 1e3 ", Decimal(1000)),
    ("NUMERIC", F.TYPE_STRING, ".0000000005", Decimal("1e-9")),
    ("NUMERIC", F.TYPE_STRING, "-0.00000000049", Decimal(0)),
    ("NUMERIC", F.TYPE_STRING, "1e-1000000", Decimal(0)),
    ("NUMERIC", F.TYPE_DOUBLE, 0.1, Decimal("0.1")),
    ("NUMERIC", F.TYPE_FLOAT, -2.5, Decimal("-2.5")),
    ("BIGNUMERIC", F.TYPE_BYTES, scaled(-15 * 10**37, 20), Decimal("-1.5")),
    ("BIGNUMERIC", F.TYPE_BYTES, scaled(10**76 - 1, 32), Decimal(f"{10**76 - 1}e-38")),
    ("BIGNUMERIC", F.TYPE_BYTES, scaled(-(2**255), 33), Decimal(f"-{2**255}e-38")),
    ("BIGNUMERIC", F.TYPE_STRING, "1e-38", Decimal("1e-38")),
    ("BIGNUMERIC", F.TYPE_DOUBLE, 0.1, Decimal("0.10000000000000000555111512312578270212")),
]

# (the column's type, the field's kind, what is sent)
BAD: list[tuple[str, int, Any]] = [
    ("INT64", F.TYPE_UINT64, 2**63),
    ("JSON", F.TYPE_STRING, "{"),
    ("JSON", F.TYPE_STRING, ""),
    ("JSON", F.TYPE_STRING, "[" * 100_000),
    ("INTERVAL", F.TYPE_STRING, "soon"),
    ("DATE", F.TYPE_INT32, -719_163),
    ("DATE", F.TYPE_INT32, 2_932_897),
    ("DATE", F.TYPE_INT64, 2**31),
    ("DATE", F.TYPE_INT64, -(2**63)),
    ("DATE", F.TYPE_STRING, "2023-02-29"),
    ("DATE", F.TYPE_STRING, "0000-01-01"),
    ("DATE", F.TYPE_STRING, "2023-02-2\N{ARABIC-INDIC DIGIT NINE}"),
    ("DATE", F.TYPE_STRING, "2023-02-29T00:00:00"),
    ("TIME", F.TYPE_INT64, -1),
    ("TIME", F.TYPE_INT64, 1 << 37),
    ("TIME", F.TYPE_INT64, civil(clock=(24, 0, 0, 0))),
    ("TIME", F.TYPE_INT64, civil(clock=(0, 60, 0, 0))),
    ("TIME", F.TYPE_INT64, civil(clock=(0, 0, 60, 0))),
    ("TIME", F.TYPE_INT64, civil(clock=(0, 0, 0, 1_000_000))),
    ("TIME", F.TYPE_STRING, "24:00:00"),
    ("TIME", F.TYPE_STRING, "12:00:00Z"),
    ("TIME", F.TYPE_STRING, ""),
    ("DATETIME", F.TYPE_INT64, 0),
    ("DATETIME", F.TYPE_INT64, -1),
    ("DATETIME", F.TYPE_INT64, 2**63 - 1),
    ("DATETIME", F.TYPE_INT64, civil(year=2024, month=0, day=1)),
    ("DATETIME", F.TYPE_INT64, civil(year=2024, month=13, day=1)),
    ("DATETIME", F.TYPE_INT64, civil(year=2024, month=1, day=0)),
    ("DATETIME", F.TYPE_INT64, civil(year=2023, month=2, day=29)),
    ("DATETIME", F.TYPE_INT64, civil(year=1900, month=2, day=29)),
    ("DATETIME", F.TYPE_INT64, civil(year=2024, month=4, day=31)),
    ("DATETIME", F.TYPE_INT64, civil(year=10_000, month=1, day=1)),
    ("DATETIME", F.TYPE_INT64, civil(year=2024, month=1, day=1, clock=(24, 0, 0, 0))),
    ("DATETIME", F.TYPE_INT64, 1 << 60 | civil(year=2024, month=1, day=1)),
    ("DATETIME", F.TYPE_STRING, "2024-01-01T00:00:00Z"),
    ("DATETIME", F.TYPE_STRING, "0000-01-01T00:00:00"),
    ("DATETIME", F.TYPE_STRING, "2024-01-01T00:00:60"),
    ("TIMESTAMP", F.TYPE_INT64, -62_135_596_800_000_001),
    ("TIMESTAMP", F.TYPE_INT64, 253_402_300_800_000_000),
    ("TIMESTAMP", F.TYPE_STRING, "2024-01-01T00:00:00.1234567Z"),
    ("TIMESTAMP", F.TYPE_STRING, "2024-01-01T00:00:00+24:00"),
    ("TIMESTAMP", F.TYPE_STRING, "2024-01-01 00:00:00 Atlantis/Center"),
    ("TIMESTAMP", F.TYPE_STRING, "2024-01-01 00:00:00 ../../etc/passwd"),
    ("TIMESTAMP", F.TYPE_STRING, "0001-01-01T00:00:00+01:00"),
    ("TIMESTAMP", F.TYPE_STRING, "9999-12-31 23:00:00-2"),
    ("TIMESTAMP", F.TYPE_STRING, "yesterday"),
    ("NUMERIC", F.TYPE_BYTES, b""),
    ("NUMERIC", F.TYPE_BYTES, scaled(10**38, 16)),
    ("NUMERIC", F.TYPE_BYTES, scaled(-(10**38), 17)),
    ("NUMERIC", F.TYPE_BYTES, b"\x7f" * 1000),
    ("NUMERIC", F.TYPE_STRING, "1e29"),
    ("NUMERIC", F.TYPE_STRING, "1e999999999"),
    ("NUMERIC", F.TYPE_STRING, "NaN"),
    ("NUMERIC", F.TYPE_STRING, "Infinity"),
    ("NUMERIC", F.TYPE_STRING, "1_000"),
    ("NUMERIC", F.TYPE_STRING, "\N{ARABIC-INDIC DIGIT ONE}"),
    ("NUMERIC", F.TYPE_STRING, ""),
    ("NUMERIC", F.TYPE_STRING, "99999999999999999999999999999.9999999995"),
    ("NUMERIC", F.TYPE_DOUBLE, float("nan")),
    ("NUMERIC", F.TYPE_DOUBLE, float("-inf")),
    ("NUMERIC", F.TYPE_DOUBLE, 1e300),
    ("NUMERIC", F.TYPE_FLOAT, float("nan")),
    ("BIGNUMERIC", F.TYPE_BYTES, scaled(2**255, 33)),
    ("BIGNUMERIC", F.TYPE_STRING, "5.79e38"),
    ("BIGNUMERIC", F.TYPE_DOUBLE, float("inf")),
]


@pytest.mark.parametrize(("kind", "sent_as", "sent", "stored"), GOOD)
def test_a_value_becomes_the_columns(kind: str, sent_as: int, sent: Any, stored: Any) -> None:
    descriptor = message(field("it", sent_as))
    row = message_class(descriptor)
    rows = decoded([Column("it", kind)], descriptor, [row(), row(it=sent), row(), row(it=sent)])
    assert [item["it"] for item in rows] == [None, stored, None, stored]


@pytest.mark.parametrize(("kind", "sent_as", "sent", "stored"), GOOD)
def test_a_repeated_value_becomes_an_element(kind: str, sent_as: int, sent: Any, stored: Any) -> None:
    descriptor = message(repeated("it", sent_as))
    row = message_class(descriptor)
    rows = decoded([Column("it", kind, "REPEATED")], descriptor, [row(it=[sent] * 2), row(), row(it=[sent])])
    assert [item["it"] for item in rows] == [[stored, stored], [], [stored]]


@pytest.mark.parametrize(("kind", "sent_as", "sent"), BAD)
def test_a_value_that_does_not_fit_makes_its_row_bad(kind: str, sent_as: int, sent: Any) -> None:
    descriptor = message(field("it", sent_as))
    row = message_class(descriptor)
    good = next(value for name, same, value, _ in GOOD if (name, same) == (kind, sent_as))
    with pytest.raises(Refused) as caught:
        decoded(
            [Column("it", kind)], descriptor, [row(it=good), row(it=sent), row(), row(it=sent), row(it=good)]
        )
    assert [problem.index for problem in caught.value.rows] == [1, 3]
    assert all("'it'" in problem.message and len(problem.message) < 300 for problem in caught.value.rows)


@pytest.mark.parametrize("kind", [*ACCEPTED, "STRUCT", "RANGE"])
def test_a_kind_of_field_that_cannot_become_the_column_is_refused(kind: str) -> None:
    fields = (Column("x", "INT64"),) if kind == "STRUCT" else ()
    column = Column("it", kind, fields=fields, range_element="DATE" if kind == "RANGE" else "")
    scalars = {
        number for name, number in F.Type.items() if name not in ("TYPE_GROUP", "TYPE_MESSAGE", "TYPE_ENUM")
    }
    for sent_as in scalars - ACCEPTED.get(kind, frozenset()):
        with pytest.raises(Refused) as caught:
            ProtoRows(TableSchema((column,)), message(field("it", sent_as)))
        assert caught.value.ends_call
        assert "'it'" in caught.value.message
        assert kind in caught.value.message


COLORS = {"COLORS": {"NONE": 0, "RED": 1, "ROT": 1, "BLUE": -5}}


def test_an_enum_becomes_its_name_in_text_and_its_number_among_integers() -> None:
    descriptor = message(
        field("name", F.TYPE_ENUM, type_name="COLORS"),
        repeated("number", F.TYPE_ENUM, type_name="COLORS"),
        enums=COLORS,
    )
    descriptor.enum_type[0].options.allow_alias = True
    row = message_class(descriptor)
    columns = [Column("name", "STRING"), Column("number", "INT64", "REPEATED")]
    rows = decoded(
        columns, descriptor, [row(), row(name=0, number=[1, 0]), row(name=1), row(name=-5, number=[-5])]
    )
    assert rows == [
        {"name": None, "number": []},
        {"name": "NONE", "number": [1, 0]},
        {"name": "RED", "number": []},
        {"name": "BLUE", "number": [-5]},
    ]


def test_a_number_that_the_enum_lacks_has_no_name_but_is_a_number() -> None:
    descriptor = message(field("it", F.TYPE_ENUM, type_name="COLORS"), enums=COLORS)
    row = message_class(message(field("it", F.TYPE_INT32)))
    assert decoded([Column("it", "INT64")], descriptor, [row(it=7)]) == [{"it": 7}]
    with pytest.raises(Refused) as caught:
        decoded([Column("it", "STRING")], descriptor, [row(it=1), row(it=7), row()])
    assert [problem.index for problem in caught.value.rows] == [1]


def test_lengths_and_digits_that_the_column_sets_are_kept_to() -> None:
    columns = [Column("text", "STRING", max_length=2), Column("price", "NUMERIC", precision=4, scale=2)]
    descriptor = message(field("text", F.TYPE_STRING), field("price", F.TYPE_STRING))
    row = message_class(descriptor)
    rows = [row(text="ab", price="12.34"), row(text="abc"), row(price="123.4"), row(price="99.995")]
    with pytest.raises(Refused) as caught:
        decoded(columns, descriptor, rows)
    assert [problem.index for problem in caught.value.rows] == [1, 2, 3]


def test_a_range_is_a_message_with_a_start_and_an_end() -> None:
    span = message(field("start", F.TYPE_INT32), field("end", F.TYPE_INT32), name="Span")
    descriptor = message(field("it", F.TYPE_MESSAGE, type_name="Span"), nested=(span,))
    columns = [Column("it", "RANGE", range_element="DATE")]
    row = message_class(descriptor)
    assert decoded(
        columns, descriptor, [row(), row(it={}), row(it={"start": 1}), row(it={"start": 0, "end": 2})]
    ) == [
        {"it": None},
        {"it": {"start": None, "end": None}},
        {"it": {"start": date(1970, 1, 2), "end": None}},
        {"it": {"start": date(1970, 1, 1), "end": date(1970, 1, 3)}},
    ]
    with pytest.raises(Refused) as caught:
        decoded(columns, descriptor, [row(), row(it={"start": 2, "end": 2})])
    assert [problem.index for problem in caught.value.rows] == [1]
