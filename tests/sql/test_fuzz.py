"""Hostile text in every place of the grammar: DuckDB reads the statement that was meant, or it is refused.

``LODE_FUZZ`` is the number of texts for each place; 12 if it is not set.
"""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from lode.sql import Engine, QueryError, Source, parse

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

COUNT = int(os.environ.get("LODE_FUZZ", "12"))
PIECES = [
    *(
        "'",
        '"',
        "''",
        '""',
        "`",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ";",
        ",",
        ".",
        "--",
        "/*",
        "*/",
        "\\",
        "$$",
        "@",
        "#",
    ),
    *(" ", "\n", "\t", "\0", "\x01", "\x02", "\x03", "\u2019", "\u201d", "\uff07", "%", "?", ":", ":=", "=>"),
    *(
        "SELECT",
        "FROM duckdb_views",
        "UNION ALL",
        "version()",
        "AS",
        "COPY (SELECT 1) TO 'x'",
        "bq_abs(",
        "v$",
        "NULL",
    ),
]
# Places of names, between backticks, and of texts, between quotes.
NAMES = [
    "SELECT 1 AS `{}`",
    "SELECT `{}`.id FROM t AS `{}`",
    "SELECT x.`{}` FROM (SELECT 1 AS `{}`) AS x",
    "WITH `{}` AS (SELECT 1 AS a) SELECT a FROM `{}`",
    "SELECT STRUCT(1 AS `{}`) AS s",
    "SELECT CAST(NULL AS STRUCT<`{}` INT64>) AS s",
    "SELECT CAST(NULL AS ARRAY<STRUCT<`{}` STRING, b INT64>>) AS s",
    "SELECT STRUCT<`{}` INT64>(1) AS s",
    "SELECT CAST(1 AS NUMERIC(`{}`)) AS s",
    "SELECT CAST(1 AS NUMERIC(10, `{}`)) AS s",
    "SELECT CAST(1 AS `{}`) AS s",
    "SELECT MAKE_INTERVAL(`{}` => 1) AS s",
    "SELECT PARSE_JSON('1', `{}` => 'exact') AS s",
    "SELECT JSON_SET(JSON '{{}}', '$.a', 1, `{}` => true) AS s",
    "SELECT EXTRACT(`{}` FROM DATE '2020-01-01') AS s",
    "SELECT EXTRACT(WEEK(`{}`) FROM DATE '2020-01-01') AS s",
    "SELECT DATE_TRUNC(DATE '2020-01-01', `{}`) AS s",
    "SELECT DATE_DIFF(DATE '2020-01-01', DATE '2020-01-01', WEEK(`{}`)) AS s",
    "SELECT INTERVAL 1 `{}` AS s",
    "SELECT NORMALIZE('a', `{}`) AS s",
    "SELECT SUM(id) OVER `{}` AS s FROM t WINDOW `{}` AS (ORDER BY id)",
    "SELECT * FROM `{}`",
    "SELECT * FROM d.`{}`",
    "SELECT `{}`(1) AS s",
    "SELECT d.`{}`(1) AS s",
    "SELECT SAFE.`{}`(1) AS s",
    "SELECT * EXCEPT (`{}`) FROM (SELECT 1 AS `{}`, 2 AS b)",
    "SELECT * REPLACE (3 AS `{}`) FROM (SELECT 1 AS `{}`)",
    "SELECT x.id FROM t AS x JOIN (SELECT 1 AS `{}`) AS y ON x.id = y.`{}`",
    "SELECT `{}`, `{}o` FROM UNNEST([1]) AS `{}` WITH OFFSET AS `{}o`",
    "SELECT * FROM (SELECT 1 AS a, 2 AS b) UNPIVOT (`{}` FOR k IN (a, b))",
    "SELECT `{}` FROM (SELECT id AS `{}` FROM t) GROUP BY `{}` ORDER BY `{}`",
    "SELECT @`{}` AS s",
    "SELECT @@`{}` AS s",
]
TEXTS = [
    "SELECT {} AS s",
    "SELECT DATE {} AS s",
    "SELECT JSON {} AS s",
    "SELECT NUMERIC {} AS s",
    "SELECT BIGNUMERIC {} AS s",
    "SELECT TIMESTAMP {} AS s",
    "SELECT INTERVAL {} YEAR TO MONTH AS s",
    "SELECT b{} AS s",
    "SELECT r{} AS s",
    "SELECT FORMAT({}, 1, 'a') AS s",
    "SELECT FORMAT_TIMESTAMP({}, CURRENT_TIMESTAMP(), {}) AS s",
    "SELECT CURRENT_DATE({}) AS s",
    "SELECT EXTRACT(DAY FROM CURRENT_TIMESTAMP() AT TIME ZONE {}) AS s",
    "SELECT 'a' LIKE {} AS s",
    "SELECT 'a' LIKE ANY ({}, 'b') AS s",
    "SELECT JSON '1'[{}] AS s",
    "SELECT STRING_AGG('a', {}) AS s",
    "SELECT COLLATE('a', {}) AS s",
    "SELECT id FROM t WHERE 'a' IN ({}, 'b')",
    "SELECT 1 AS a /* {} */ -- {}\n",
]
PLAIN = "harmless"


class Lake:
    def table(self, parts: tuple[str, ...], as_of: datetime.datetime | None) -> Source:
        if parts != ("t",):
            raise QueryError("Not found: Table", reason="notFound", location="")
        rows = pa.table({"id": [1, 2, 3]})
        return Source(rows, rows.schema)


def written(query: str) -> str:
    with Engine(Lake()) as engine:
        return engine.write(parse(query)[0])


def shape(made: str) -> Any:
    """What DuckDB's parser makes of a statement, with every name and text left out."""
    statements = duckdb.extract_statements(made)
    assert [each.type for each in statements] == [duckdb.StatementType.SELECT], made
    found = duckdb.execute("SELECT json_serialize_sql(?::VARCHAR)", [made]).fetchall()[0][0]
    return bare(json.loads(found))


KEPT = frozenset(["type", "class", "function_name", "join_type", "ref_type", "subquery_type", "setop_type"])


def bare(node: Any, key: str = "") -> Any:
    if isinstance(node, dict):
        return {
            name: bare(each, name) for name, each in node.items() if not name.startswith("query_location")
        }
    if isinstance(node, list):
        # A name with points has several parts.
        return (
            None
            if node and all(isinstance(each, str) for each in node)
            else [bare(each, key) for each in node]
        )
    return node if key in KEPT or not isinstance(node, str) else None


def hostile(seed: str) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(COUNT):
        yield "".join(chance.choices(PIECES, k=chance.randint(1, 7)))


def refused_or_same(form: str, plain: str, text: str) -> None:
    try:
        made = written(form.replace("{{}}", "{ }").replace("{}", text))
    except QueryError:
        return
    assert shape(made) == shape(written(form.replace("{{}}", "{ }").replace("{}", plain))), made


@pytest.mark.parametrize("form", NAMES)
def test_a_hostile_name_is_a_name_or_refused(form: str) -> None:
    for text in hostile(form):
        escaped = text.replace("\\", "\\\\").replace("`", "\\`").replace("\n", "\\n")
        try:
            refused_or_same(form, PLAIN, escaped)
        except QueryError:  # the place takes no name at all
            with pytest.raises(QueryError):
                written(form.replace("{{}}", "{ }").replace("{}", PLAIN))


@pytest.mark.parametrize("form", TEXTS)
def test_a_hostile_text_is_a_text_or_refused(form: str) -> None:
    for text in hostile(form):
        for literal in (json.dumps(text), f"'''{text}'''", f'r"""{text}"""'):
            if form.count("/*") and "*/" in text:
                continue  # the end of the comment, as it is written
            try:
                refused_or_same(form, '"a"', literal)
            except QueryError:
                continue
