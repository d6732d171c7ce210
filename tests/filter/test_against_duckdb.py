"""Any condition on any rows passes what DuckDB lets through, negated and unknown ones too."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lode
from lode.filter import parse_filter
from lode.store import MemoryStore

COLUMNS: dict[str, Any] = {
    "id": pa.int64(),
    "a": pa.int64(),
    "b": pa.int32(),
    "f": pa.float64(),
    "g": pa.float64(),
    "s": pa.string(),
    "t": pa.string(),
    "p": pa.bool_(),
    "q": pa.bool_(),
    "d": pa.date32(),
    "e": pa.date32(),
    "n": pa.decimal128(12, 3),
    "ts": pa.timestamp("us", "UTC"),
}
SCHEMA = pa.schema(COLUMNS)
VALUES: dict[str, list[Any]] = {
    "a": [-7, -1, 0, 1, 2, 3, 2**40],
    "b": [-7, 0, 1, 2, 5],
    "f": [-1.5, -0.0, 0.0, 0.5, 1.0, 2.0],
    "g": [-1.5, 0.0, 0.5, 2.0, 2.5],
    "s": ["", "a", "A", "ab", "abc", "b%", "ü", "it's"],
    "t": ["", "a", "ab", " a ", "Ü"],
    "p": [True, False],
    "q": [True, False],
    "d": [date(2024, 1, 1), date(2024, 2, 29), date(1969, 12, 31)],
    "e": [date(2024, 1, 1), date(2024, 12, 30)],
    "n": [Decimal("-2.5"), Decimal(0), Decimal("1.500"), Decimal("2.001"), Decimal(3)],
    "ts": [
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
}
OF_KIND = {
    "number": ["a", "b", "f", "g", "n"],
    "whole": ["a", "b"],
    "text": ["s", "t"],
    "truth": ["p", "q"],
    "day": ["d", "e"],
    "moment": ["ts"],
}
LITERALS = {
    "number": ["-7", "0", "1", "1.5", "2", "2.0005", "3e0", "-0.5", "1099511627776"],
    "whole": ["-7", "0", "1", "2", "1099511627776"],
    "text": ["''", "'a'", "'ab'", "'b%'", "'it''s'", "'ü'"],
    "truth": ["TRUE", "FALSE"],
    "day": ["DATE '2024-01-01'", "DATE '2024-02-29'", "DATE '1969-12-31'"],
    "moment": ["TIMESTAMP '2024-01-01 00:00:00+00'", "TIMESTAMP '1969-12-31 23:59:59.999999+00'"],
}
PATTERNS = ["'%'", "'a%'", "'%b'", "'%b%'", "'_'", "'a_'", "'a'", "''", "'_%'", "'a%c'", "'%%'"]
SIGNS = ["=", "!=", "<>", "<", "<=", ">", ">="]
Text = tuple[str, str]


def both(text: str) -> Text:
    return text, text


def joined(form: str, parts: tuple[Text, ...]) -> Text:
    ours, theirs = zip(*parts, strict=True)
    return form.format(*ours), form.format(*theirs)


def whole_values() -> st.SearchStrategy[Text]:
    texts, days = st.sampled_from(OF_KIND["text"]), st.sampled_from(OF_KIND["day"])
    return st.one_of(
        st.sampled_from(OF_KIND["whole"]).map(both),
        texts.map(lambda name: both(f"LENGTH({name})")),
        st.tuples(st.sampled_from(["YEAR", "MONTH", "DAY", "QUARTER"]), days).map(
            lambda parts: both(f"EXTRACT({parts[0]} FROM {parts[1]})")
        ),
        st.just(both("EXTRACT(HOUR FROM ts)")),
        st.sampled_from(["a", "b"]).map(lambda name: both(f"MOD({name}, 3)")),
    )


def values(kind: str) -> st.SearchStrategy[Text]:
    """Columns, literals and functions of a kind, as Lode and DuckDB write them."""
    plain = st.sampled_from(OF_KIND[kind] * 2 + LITERALS[kind]).map(both)
    match kind:
        case "number":
            some = st.tuples(st.one_of(whole_values(), plain), st.one_of(whole_values(), plain))
            return st.one_of(
                plain,
                whole_values(),
                some.flatmap(
                    lambda pair: st.sampled_from(["({} + {})", "({} - {})", "({} * {})"]).map(
                        lambda form: joined(form, pair)
                    )
                ),
                st.sampled_from(["f", "a"]).map(lambda name: both(f"({name} / 4)")),
                st.sampled_from(["ABS(a)", "ABS(f)", "-b", "FLOOR(f)", "CEIL(g)", "ROUND(g)"]).map(both),
                some.map(lambda pair: joined("COALESCE({}, {})", pair)),
                some.map(lambda pair: joined("NULLIF({}, {})", pair)),
            )
        case "text":
            return st.one_of(
                plain,
                st.sampled_from(
                    ["LOWER({})", "UPPER({})", "SUBSTR({}, 2)", "SUBSTR({}, 1, 1)", "TRIM({})"]
                ).flatmap(lambda form: plain.map(lambda text: joined(form, (text,)))),
                st.tuples(plain, plain).map(lambda pair: joined("COALESCE({}, {})", pair)),
                st.tuples(plain, plain).map(lambda pair: joined("IF(p, {}, {})", pair)),
            )
        case "day":
            return st.one_of(
                plain,
                st.just(("DATE(ts)", "CAST(ts AT TIME ZONE 'UTC' AS DATE)")),
                st.just(("DATE_TRUNC(d, MONTH)", "CAST(DATE_TRUNC('month', d) AS DATE)")),
                st.just(("DATE_TRUNC(d, ISOWEEK)", "CAST(DATE_TRUNC('week', d) AS DATE)")),
            )
    return plain


KINDS = ["number", "text", "truth", "day", "moment"]


@st.composite
def conditions(draw: st.DrawFn) -> Text:
    kind = draw(st.sampled_from(KINDS))
    value = values(kind)
    word = draw(st.sampled_from(["", "NOT "]))
    match draw(st.sampled_from(["compare", "in", "between", "null", "bare", "like", "distinct", "test"])):
        case "compare":
            form = f"{{}} {draw(st.sampled_from(SIGNS))} {{}}"
            return joined(form, (draw(value), draw(value)))
        case "in":
            items = draw(st.lists(st.one_of(value, st.just(both("NULL"))), min_size=1, max_size=3))
            form = f"{{}} {word}IN ({', '.join('{}' for _ in items)})"
            return joined(form, (draw(value), *items))
        case "between":
            return joined(f"{{}} {word}BETWEEN {{}} AND {{}}", (draw(value), draw(value), draw(value)))
        case "null":
            return joined(f"{{}} IS {word}NULL", (draw(value),))
        case "like":
            pattern = draw(st.sampled_from(PATTERNS))
            return joined(f"{{}} {word}LIKE {pattern}", (draw(values("text")),))
        case "distinct":
            return joined(f"{{}} IS {word}DISTINCT FROM {{}}", (draw(value), draw(value)))
        case "test":
            name = draw(st.sampled_from(["STARTS_WITH", "ENDS_WITH"]))
            return joined(f"{word}{name}({{}}, 'a')", (draw(values("text")),))
    return both(
        draw(st.sampled_from(["p", "q", "TRUE", "FALSE", "p IS TRUE", "q IS NOT FALSE", "p = (a > 1)"]))
    )


def combined(parts: st.SearchStrategy[Text]) -> st.SearchStrategy[Text]:
    pairs = st.tuples(parts, parts)
    return st.one_of(
        pairs.map(lambda pair: joined("({}) AND ({})", pair)),
        pairs.map(lambda pair: joined("(({}) OR ({}))", pair)),
        pairs.map(lambda pair: joined("({}) = ({})", pair)),
        parts.map(lambda part: joined("NOT ({})", (part,))),
        parts.map(lambda part: joined("({}) IS NULL", (part,))),
        parts.map(lambda part: joined("({}) IS NOT TRUE", (part,))),
        pairs.map(lambda pair: joined("COALESCE({}, ({}))", pair)),
    )


CONDITIONS = st.recursive(conditions(), combined, max_leaves=4)
ROWS = st.fixed_dictionaries({name: st.none() | st.sampled_from(known) for name, known in VALUES.items()})


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def expected(connection: duckdb.DuckDBPyConnection, table: pa.Table, condition: str) -> list[int]:
    connection.register("rows", table)
    return [
        id for (id,) in connection.execute(f"SELECT id FROM rows WHERE {condition} ORDER BY id").fetchall()
    ]


@settings(deadline=None, max_examples=200)
@given(CONDITIONS, st.lists(ROWS, max_size=8))
def test_any_condition_passes_the_rows_that_duckdb_lets_through(
    connection: duckdb.DuckDBPyConnection, condition: Text, rows: list[dict[str, Any]]
) -> None:
    table = pa.Table.from_pylist([{"id": id} | row for id, row in enumerate(rows)], schema=SCHEMA)
    ours, theirs = condition
    for form in ("{}", "NOT ({})", "({}) IS NULL"):
        found = table.filter(parse_filter(form.format(ours), SCHEMA).where)["id"].to_pylist()
        assert found == expected(connection, table, form.format(theirs)), form.format(ours)


NUMBER = count()


@settings(deadline=None, max_examples=40)
@given(CONDITIONS, st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=3))
@pytest.mark.parametrize("codec", ["parquet", "jsonl"])
def test_leaving_out_files_never_changes_what_passes(
    connection: duckdb.DuckDBPyConnection,
    codec: str,
    condition: Text,
    writes: list[list[dict[str, Any]]],
) -> None:
    make: Any = {"parquet": lode.Parquet, "jsonl": lode.JSONL}[codec]
    dataset = lode.Dataset(f"d{next(NUMBER)}", MemoryStore(), codec=make(SCHEMA))
    tables: list[pa.Table] = []
    for rows in writes:
        first = sum(table.num_rows for table in tables)
        tables.append(
            pa.Table.from_pylist([{"id": first + at} | row for at, row in enumerate(rows)], schema=SCHEMA)
        )
        dataset.write(tables[-1])
    ours, theirs = condition
    for form in ("{}", "NOT ({})"):
        found = dataset.scan(where=form.format(ours), columns=["id"]).read_all()["id"].to_pylist()
        assert found == expected(connection, pa.concat_tables(tables), form.format(theirs)), form.format(ours)
