"""No text takes long: each is parsed or refused within seconds of processor time, in one sentence.

The limit tells linear time from the rest: a parser that is not linear takes minutes for these.
"""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from lode.errors import InvalidOptionError
from lode.filter import parse_filter
from lode.filter.syntax import MAX_BRACKETS, MAX_CHARACTERS, MAX_CONDITIONS, MAX_VALUES

MAX_SECONDS = 10
COLUMNS: dict[str, Any] = {
    "i": pa.int64(),
    "s": pa.string(),
    "y": pa.binary(),
    "b": pa.bool_(),
    "f": pa.float64(),
    "d": pa.date32(),
}
SCHEMA = pa.schema(COLUMNS)

HOSTILE = {
    "escapes without an end": "s = '" + "\\x" * 26,
    "many escapes without an end": "s = '" + "\\x" * 500_000,
    "many escapes": "s = '" + "\\x41" * 250_000 + "'",
    "backslashes": "s = " + "\\" * 1_000_000,
    "backslashes in a text": "s = '" + "\\" * 1_000_000,
    "single quotes": "s = " + "'" * 200_000,
    "an odd number of quotes": "s = " + "'" * 200_001,
    "double quotes": "s = " + '"' * 200_000,
    "triple quotes": "s = " + "'''a" * 200_000,
    "triple quotes of both kinds": "s = " + "'''\"\"\"" * 100_000,
    "backquotes": "`" * 200_000,
    "a backquoted name without an end": "`" + "a" * 1_000_000,
    "parentheses": "(" * 100_000 + "b" + ")" * 100_000,
    "parentheses without an end": "(" * 1_000_000,
    "closing parentheses": ")" * 1_000_000,
    "brackets": "i IN UNNEST(" + "[" * 100_000,
    "mixed brackets": "([" * 100_000,
    "as many parentheses as are allowed, again and again": " AND ".join(
        ["(" * MAX_BRACKETS + "b" + ")" * MAX_BRACKETS] * 900
    ),
    "NOT": "NOT " * 200_000 + "b",
    "NOT between comparisons": "b = NOT " * 10_000 + "b",
    "minus": "i = " + "- " * 200_000 + "1",
    "plus and minus": "i = " + "+ - " * 100_000 + "i",
    "a comment": "i = 1 -- " + "x" * 1_000_000,
    "comments": "/*" * 400_000,
    "sums": "i = " + "+".join(["i"] * 20_000),
    "products": "i = " + "*".join(["i"] * 90),
    "comparisons": "=".join(["i"] * 20_000),
    "IS NULL": "i" + " IS NULL" * 10_000,
    "IS": "i " + "IS " * 20_000,
    "BETWEEN": "i BETWEEN " * 10_000 + "1",
    "BETWEEN and AND": "i" + " BETWEEN 1 AND 2" * 10_000,
    "IN": "i IN (" * 20_000,
    "DISTINCT FROM": "b IS DISTINCT FROM (" * 45 + "b" + ")" * 45,
    "DISTINCT FROM as a value": "(" * 45 + "b" + " IS DISTINCT FROM b) = b" * 45,
    "BETWEEN as a value": "b BETWEEN b AND (" * 45 + "b" + ")" * 45,
    "NULLIF": "NULLIF(" * 45 + "i" + ", i)" * 45 + " = 1",
    "COALESCE": "COALESCE(" * 45 + "i" + ", i)" * 45 + " = 1",
    "IF": "IF(b, i, " * 45 + "i" + ")" * 45 + " = 1",
    "MOD": "MOD(" * 45 + "i" + ", 7)" * 45 + " = 1",
    "division": "f = " + "(f / " * 45 + "f" + ")" * 45,
    "CAST": "CAST(" * 20_000 + "i" + " AS INT64)" * 20_000,
    "CASE": "CASE WHEN b THEN " * 20_000,
    "functions": "LOWER(" * 45 + "s" + ")" * 45 + " = 'a'",
    "functions without an end": "LOWER(" * 100_000,
    "EXTRACT": "EXTRACT(" * 50_000,
    "a name with many parts": "i" + ".i" * 200_000,
    "points": "." * 1_000_000,
    "a long name": "x" * 1_000_000,
    "many names": "x " * 500_000,
    "a long number": "i = " + "1" * 1_000_000,
    "a long number and a letter": "i = " + "1" * 1_000_000 + "x",
    "a long fraction": "i = 1." + "1" * 1_000_000 + ".",
    "a large exponent": "i = 1e" + "9" * 1_000_000,
    "an exponent out of range": "i = 1e999999999",
    "a long hexadecimal number": "i = 0x" + "f" * 1_000_000,
    "a long text": "s = '" + "x" * (MAX_CHARACTERS - 6) + "'",
    "a text without an end": "s = '" + "x" * 1_000_000,
    "long bytes": "y = b'" + "\\xff" * 250_000 + "'",
    "a long pattern": "s LIKE '" + "%a" * 500_000 + "'",
    "the longest pattern": "s LIKE '" + "%a" * 5_000 + "'",
    "a regular expression": "REGEXP_CONTAINS(s, r'" + "(" * 4_000 + "a" + ")*" * 4_000 + "')",
    "a large regular expression": "REGEXP_CONTAINS(s, r'((a{1000}){1000}){1000}')",
    "as many conditions as are allowed": " OR ".join(f"i = {n}" for n in range(MAX_CONDITIONS)),
    "too many conditions": " OR ".join(["b"] * 100_000),
    "as many values as are allowed": f"i IN ({','.join(map(str, range(-5_000, MAX_VALUES - 5_000)))})",
    "too many values": f"i IN ({','.join(['1'] * 200_000)})",
    "as many lists as are allowed": " AND ".join([f"i IN ({','.join(['1'] * 20)})"] * MAX_CONDITIONS),
    "fractions": f"i IN ({','.join(['1.5e300'] * 9_000)})",
    "semicolons": ";" * 1_000_000,
    "spaces": " " * 1_000_000,
    "new lines": "i\n" * 400_000,
    "control characters": "".join(map(chr, range(32))) * 1_000,
    "a lone surrogate": "s = '\ud800'",
    "a lone surrogate outside of texts": "\ud800 = 1",
    "digits of other scripts": "i = \u0661\u0662",
    "letters of other scripts": "\u0130\u0131 = 1",
    "a byte order mark": "\ufeffi = 1",
    "zero bytes": "i = 1\0",
    "too many characters": "i" * (MAX_CHARACTERS + 1),
}


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    parse_filter("i = 1 + 1", SCHEMA)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_parsed_or_refused_within_a_second(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    started = time.process_time()
    try:
        parse_filter(HOSTILE[name], SCHEMA)
    except InvalidOptionError as error:
        message = str(error)
        assert len(message) < 1_000
        assert "\n" not in message
    assert time.process_time() - started < MAX_SECONDS
    assert capfd.readouterr() == ("", "")


def test_a_wide_table_takes_no_longer() -> None:
    schema = pa.schema([(f"Column_{number}", pa.int64()) for number in range(10_000)])
    text = " OR ".join(
        f"column_{9_999 - number} IN (column_1, column_2, column_3)" for number in range(1_000)
    )
    started = time.process_time()
    assert len(parse_filter(text, schema).columns) == 1_003
    assert time.process_time() - started < MAX_SECONDS
