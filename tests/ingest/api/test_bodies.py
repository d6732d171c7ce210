"""Bodies of requests: bounded in bytes, values and depth; those of one client leave room for others."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from lode.ingest.api.rest.body import INLINE_BYTES, MAX_DEPTH, MAX_VALUES, Bodies, parse_body, parse_rows
from lode.ingest.status import Refused

ROW = {"insertId": "a", "json": {"id": 1, "price": 1.10, "text": "é ,[{\\"}}


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":[' + b"[]," * MAX_VALUES + b"[]]}",
        b'{"a":{' + b",".join(b'"%x":1' % n for n in range(MAX_VALUES + 2)) + b"}}",
        b"{" + b",".join(b'"%x":1' % n for n in range(MAX_VALUES + 2)) + b"}",
        b'{"a":[' + b'",",' * (MAX_VALUES + 1) + b"1]}",
    ],
)
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(body: bytes) -> None:
    with pytest.raises(Refused, match="more than 200,000 values"):
        parse_body(body)


def test_marks_inside_of_text_are_not_values() -> None:
    text = ",[{" * MAX_VALUES + '\\"'
    assert parse_body(json.dumps({"a": text}).encode()) == {"a": text}


def test_a_body_may_have_as_many_levels_as_the_limit() -> None:
    assert parse_body(nested(MAX_DEPTH - 1))
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(Refused, match=r"nested|not JSON"):
            parse_body(nested(depth))


def test_lone_surrogates_are_refused() -> None:
    for body in (b'{"a":"\\ud800"}', b'{"\\udfff":1}', b'{"a":[["\\uD83D"]]}'):
        with pytest.raises(Refused, match="lone surrogates"):
            parse_body(body)
    assert parse_body(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}


@pytest.mark.parametrize("count", [1, 5, INLINE_BYTES // 20, 40_000])
def test_rows_in_parts_are_the_rows(count: int) -> None:
    body: dict[str, Any] = {"rows": [ROW] * count, "skipInvalidRows": True, "templateSuffix": "x"}
    expected = json.loads(json.dumps(body), parse_float=Decimal)
    assert parse_rows(json.dumps(body).encode()) == expected


def test_a_large_insert_of_many_columns_is_accepted() -> None:
    rows = [{"json": {f"c{number}": number for number in range(50)}}] * 10_000
    assert len(parse_rows(json.dumps({"rows": rows}).encode())["rows"]) == 10_000


def test_a_row_of_too_many_values_is_refused() -> None:
    row = {"json": {f"c{number}": 1 for number in range(MAX_VALUES + 1)}}
    with pytest.raises(Refused, match="more than 200,000 values in row 1"):
        parse_rows(json.dumps({"rows": [{"json": {}}, row]}).encode())


@pytest.mark.parametrize("entry", [b"[]", b"1", b"null", b'"x"'])
def test_millions_of_entries_that_are_not_rows_are_refused(entry: bytes) -> None:
    with pytest.raises(Refused, match="more than 200,000 values"):
        parse_rows(b'{"rows":[' + (entry + b",") * 1_000_000 + entry + b"]}")


def test_millions_of_rows_are_refused() -> None:
    with pytest.raises(Refused, match="300,001 rows, the limit is 50,000"):
        parse_rows(b'{"rows":[' + b"{}," * 300_000 + b"{}]}")


def test_a_small_and_a_large_insert_refuse_the_same() -> None:
    for rows in (b'"x"', b"1", b"{}"):
        padding = b" " * INLINE_BYTES
        small, large = (parse_rows(b'{"rows":' + rows + pad + b"}") for pad in (b"", padding))
        assert small == large


def test_the_bytes_of_one_client_leave_room_for_others() -> None:
    bodies = Bodies(most=100, of_client=40)
    with bodies.of("a") as held:
        held.add(30)
        with bodies.of("a") as more, pytest.raises(Refused, match="30 of them of this client"):
            more.add(11)
        with bodies.of("b") as other:
            other.add(40)
            with bodies.of("c") as third, pytest.raises(Refused, match="works on 70 bytes"):
                third.add(31)
    with bodies.of("a") as held:
        held.add(40)  # all of it was given back
