"""NUMERIC and BIGNUMERIC: one rule of rounding and range, whichever way a number comes in."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lode.ingest.status import Refused
from lode.ingest.types.check import check_evolution, check_schema
from lode.ingest.types.columns import Column, TableSchema
from lode.ingest.types.rest import from_rest, to_rest
from support.ingest.entry_points import TEXT_WAYS, by_arrow, by_json, by_protobuf, problems
from support.ingest.proto_messages import F

NUMERIC = Column("x", "NUMERIC")
BIGNUMERIC = Column("x", "BIGNUMERIC")
EXACT = Context(prec=200)
MAX_NUMERIC = Decimal(f"{10**38 - 1}e-9")
LEAST, MOST = Decimal(f"-{2**255}e-38"), Decimal(f"{2**255 - 1}e-38")
UNIT = Decimal("1e-38")


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_digits_beyond_the_scale_are_rounded_away_from_zero(way: str) -> None:
    sent = ["1.0000000005", "-1.0000000005", "1.00000000049999", " 1e-9 ", ".5", "5.", "1e-99999", None]
    wanted = ["1.000000001", "-1.000000001", "1", "1e-9", "0.5", "5", "0"]
    assert TEXT_WAYS[way](NUMERIC, sent) == [*map(Decimal, wanted), None]


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_a_column_with_a_scale_rounds_to_it(way: str) -> None:
    column = Column("x", "NUMERIC", precision=4, scale=1)
    assert TEXT_WAYS[way](column, ["1.25", "-1.25", "999.94"]) == [
        Decimal("1.3"),
        Decimal("-1.3"),
        Decimal("999.9"),
    ]
    found = problems(lambda: TEXT_WAYS[way](column, ["999.95", "1000", "-1e4", "1"]))
    assert list(found) == [0, 1, 2]
    assert found[0] == "Column 'x': '999.95' is out of the range of NUMERIC(4, 1)."


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_a_column_may_round_halves_to_even(way: str) -> None:
    column = Column("x", "NUMERIC", precision=10, scale=0, rounding="ROUND_HALF_EVEN")
    assert TEXT_WAYS[way](column, ["0.5", "1.5", "2.5", "-2.5", "2.51"]) == [0, 2, 2, -2, 3]


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_both_ends_of_numeric_are_exact(way: str) -> None:
    ends = [MAX_NUMERIC, MAX_NUMERIC.copy_negate()]
    assert TEXT_WAYS[way](NUMERIC, [*map(str, ends)]) == ends
    beyond = ["99999999999999999999999999999.9999999995", "-1e29", "1e999999999"]
    found = problems(lambda: TEXT_WAYS[way](NUMERIC, ["1", *beyond]))
    assert list(found) == [1, 2, 3]
    assert all("is out of the range of NUMERIC." in message for message in found.values())


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_both_ends_of_bignumeric_are_exact(way: str) -> None:
    ends = [LEAST, MOST, Decimal("1e38"), Decimal("-5.5e38")]
    assert TEXT_WAYS[way](BIGNUMERIC, [*map(str, ends)]) == ends
    beyond = [EXACT.subtract(LEAST, UNIT), EXACT.add(MOST, UNIT), Decimal("5.79e38")]
    found = problems(lambda: TEXT_WAYS[way](BIGNUMERIC, ["1", *map(str, beyond)]))
    assert list(found) == [1, 2, 3]
    assert all("is out of the range of BIGNUMERIC." in message for message in found.values())


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_text_that_is_no_number_makes_its_row_bad(way: str) -> None:
    bad = ["", " ", "x", "NaN", "inf", "1_0", "0x1", "1e", "1e1.5", "--1", "1 2", "\u0661", "1" * 5000]
    found = problems(lambda: TEXT_WAYS[way](NUMERIC, [*bad, "1"]))
    assert list(found) == list(range(len(bad)))
    assert all("is not a NUMERIC" in message for message in found.values())


def test_numbers_of_json_are_read_as_they_are_written() -> None:
    sent = [1, Decimal("0.30000000000000004"), 0.1, Decimal("1E+3"), -7]
    assert by_json(NUMERIC, sent) == [1, Decimal("0.3"), Decimal("0.1"), 1000, -7]
    assert list(problems(lambda: by_json(NUMERIC, [True, [], {}, 10**29, float("nan"), 1]))) == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_decimals_and_integers_of_arrow_follow_the_rule() -> None:
    fine = pa.array([Decimal("1.00000000005"), Decimal("-0.00000000050")], pa.decimal128(38, 11))
    assert by_arrow(NUMERIC, fine) == [Decimal(1), Decimal("-1e-9")]
    assert by_arrow(Column("x", "NUMERIC", precision=2), pa.array([99, -99])) == [99, -99]
    assert list(problems(lambda: by_arrow(Column("x", "NUMERIC", precision=2), pa.array([1, 100])))) == [1]
    cut = Column("x", "BIGNUMERIC", precision=3, scale=2)
    wide = pa.array(
        [Decimal("1.005"), Decimal("9.994"), Decimal("9.995"), Decimal(-10)], pa.decimal256(76, 38)
    )
    assert by_arrow(cut, wide[:2]) == [Decimal("1.01"), Decimal("9.99")]
    assert list(problems(lambda: by_arrow(cut, wide))) == [2, 3]


def test_77_digits_of_arrow_are_taken_for_what_they_are() -> None:
    kind = pa.decimal256(76, 38)
    raw = b"".join(units.to_bytes(32, "little", signed=True) for units in (-(2**255), 2**255 - 1, 0))
    array = pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(raw)])
    assert by_arrow(BIGNUMERIC, array) == [LEAST, MOST, 0]
    assert list(problems(lambda: by_arrow(NUMERIC, array))) == [0, 1]
    large = pa.array([Decimal(5 * 10**38), Decimal(6 * 10**38)], pa.decimal256(76, 0))
    assert by_arrow(BIGNUMERIC, large[:1]) == [5 * 10**38]
    assert list(problems(lambda: by_arrow(BIGNUMERIC, large))) == [1]


def test_77_digits_inside_an_arrow_list_are_refused_with_the_way_out() -> None:
    raw = (2**255 - 1).to_bytes(32, "little")
    values = pa.Array.from_buffers(pa.decimal256(76, 38), 1, [None, pa.py_buffer(raw)])
    lists: Any = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), values)
    found = problems(lambda: by_arrow(Column("x", "BIGNUMERIC", "REPEATED"), lists))
    assert "send it as text" in found[0]


def test_bytes_and_floats_of_protobuf_follow_the_rule() -> None:
    def packed(units: int, size: int) -> bytes:
        return units.to_bytes(size, "little", signed=True)

    ends = [packed(-(2**255), 32), packed(2**255 - 1, 32), packed(5, 40)]
    assert by_protobuf(BIGNUMERIC, ends, F.TYPE_BYTES) == [LEAST, MOST, 5 * UNIT]
    assert list(problems(lambda: by_protobuf(BIGNUMERIC, [packed(2**255, 33)], F.TYPE_BYTES))) == [0]
    cut = Column("x", "NUMERIC", precision=4, scale=1)
    assert by_protobuf(cut, [packed(1_250_000_000, 5)], F.TYPE_BYTES) == [Decimal("1.3")]
    assert by_protobuf(cut, [1.25, -0.05], F.TYPE_DOUBLE) == [Decimal("1.3"), Decimal("-0.1")]
    assert by_protobuf(BIGNUMERIC, [2.0**128], F.TYPE_DOUBLE) == [2**128]
    bad = [999.95, float("inf"), float("nan"), 1e300]
    assert list(problems(lambda: by_protobuf(cut, bad, F.TYPE_DOUBLE))) == [0, 1, 2, 3]


@st.composite
def columns(draw: st.DrawFn) -> Column:
    kind, whole, fraction = draw(st.sampled_from([("NUMERIC", 29, 9), ("BIGNUMERIC", 38, 38)]))
    rounding = draw(st.sampled_from(["", "ROUND_HALF_AWAY_FROM_ZERO", "ROUND_HALF_EVEN"]))
    scale = draw(st.integers(0, fraction))
    precision = draw(st.sampled_from([0, draw(st.integers(max(1, scale), whole + scale))]))
    return Column("x", kind, precision=precision, scale=scale if precision else 0, rounding=rounding)


def expected(column: Column, value: Decimal) -> Decimal | None:
    """The rule in other words: rounded to the scale, then within the digits, or None."""
    scale = column.scale if column.precision else 9 if column.type == "NUMERIC" else 38
    mode = ROUND_HALF_EVEN if column.rounding == "ROUND_HALF_EVEN" else ROUND_HALF_UP
    rounded = value.quantize(Decimal(1).scaleb(-scale), mode, EXACT)
    if column.precision:
        fits = rounded.copy_abs() < Decimal(10) ** (column.precision - column.scale)
    elif column.type == "NUMERIC":
        fits = rounded.copy_abs() <= MAX_NUMERIC
    else:
        fits = LEAST <= rounded <= MOST
    return rounded if fits else None


numbers = st.one_of(
    st.integers(-(10**45), 10**45).flatmap(
        lambda units: st.integers(-45, 0).map(lambda power: Decimal(units).scaleb(power, EXACT))
    ),
    st.sampled_from([LEAST, MOST, MAX_NUMERIC, MAX_NUMERIC.copy_negate(), Decimal("-0.5"), Decimal("2.5")]),
    st.integers(-(2**256), 2**256).map(lambda units: Decimal(units).scaleb(-38, EXACT)),
)


@settings(deadline=None)
@given(columns(), st.lists(numbers, min_size=1, max_size=4))
def test_a_number_is_the_same_through_every_entry(column: Column, values: list[Decimal]) -> None:
    wanted = [expected(column, value) for value in values]
    texts = [f"{value:f}" for value in values]
    ways: list[Any] = [partial(way, column, texts) for way in TEXT_WAYS.values()]
    ways.append(partial(by_json, column, values))
    if all(value.copy_abs() < 10**38 for value in values):
        array = pa.array([value.quantize(UNIT, context=EXACT) for value in values], pa.decimal256(76, 38))
        if array.to_pylist() == values:
            ways.append(partial(by_arrow, column, array))
    for stored in ways:
        if None in wanted:
            bad = [index for index, value in enumerate(wanted) if value is None]
            assert list(problems(stored)) == bad
        else:
            assert stored() == wanted


def test_the_rounding_mode_is_part_of_the_schema() -> None:
    fields = [{"name": "x", "type": "NUMERIC", "mode": "NULLABLE", "roundingMode": "ROUND_HALF_EVEN"}]
    schema = from_rest({"fields": fields})
    assert schema.columns[0].rounding == "ROUND_HALF_EVEN"
    assert to_rest(schema) == {"fields": fields}
    unspecified = from_rest({"fields": [{**fields[0], "roundingMode": "ROUNDING_MODE_UNSPECIFIED"}]})
    assert unspecified == TableSchema((NUMERIC,))
    check_evolution(unspecified, schema)


@pytest.mark.parametrize(
    "column",
    [Column("x", "INT64", rounding="ROUND_HALF_EVEN"), Column("x", "NUMERIC", rounding="DOWN")],
)
def test_a_rounding_mode_that_is_none_is_refused(column: Column) -> None:
    with pytest.raises(Refused, match="roundingMode"):
        check_schema(TableSchema((column,)))
