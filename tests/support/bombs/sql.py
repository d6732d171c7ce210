"""Queries that ask for much time or memory, each with a name that says how it grows."""

from __future__ import annotations

from typing import Final


def nested(begin: str, middle: str, end: str, depth: int) -> str:
    """A query of one expression in itself."""
    return f"SELECT {begin * depth}{middle}{end * depth} AS x"


# The argument is written or parsed more than once on each level, or the stack grows with each.
_CALLS: Final = {
    "SAFE.ABS": ("SAFE.ABS(", "1", ")", 22),
    "NET.HOST": ("NET.HOST(", "'a'", ")", 22),
    "SAFE.SUBSTR": ("SAFE.SUBSTR(", "'a'", ",1)", 22),
    "GREATEST": ("GREATEST(1,", "1", ")", 24),
    "LEAST": ("LEAST(1,", "1", ")", 24),
    "FORMAT %T": ("FORMAT('%T',", "1", ")", 24),
    "FORMAT %t": ("FORMAT('%t %t',1,", "1", ")", 24),
    "IF": ("IF(TRUE,", "1", ",2)", 400),
    "IFNULL": ("IFNULL(NULL,", "1", ")", 400),
    "NULLIF": ("NULLIF(", "1", ",2)", 24),
    "COALESCE": ("COALESCE(NULL,", "1", ")", 400),
    "CASE": ("CASE WHEN TRUE THEN ", "1", " ELSE 0 END", 400),
    "CASE of a value": ("CASE ", "1", " WHEN 1 THEN 1 ELSE 0 END", 24),
    "brackets": ("(", "1", ")", 3_000),
    "NOT": ("NOT ", "TRUE", "", 20_000),
    "minus": ("- ", "1", "", 20_000),
    "bitwise NOT": ("~ ", "1", "", 20_000),
    "ARRAY": ("[STRUCT(", "1", ")]", 400),
    "STRUCT": ("STRUCT(", "1", ")", 1_000),
    "subquery": ("(SELECT ", "1", ")", 400),
    "ARRAY of a subquery": ("ARRAY_LENGTH(ARRAY(SELECT ", "1", "))", 100),
    "EXISTS": ("EXISTS(SELECT ", "1", ")", 200),
    "CAST": ("CAST(", "1", " AS INT64)", 400),
    "SAFE_CAST": ("SAFE_CAST(", "1", " AS STRING)", 200),
    "CONCAT": ("CONCAT(", "'a'", ",'b')", 400),
    "operators": ("1+(", "1", ")", 2_000),
    "TIMESTAMP_TRUNC with a zone": ("TIMESTAMP_TRUNC(", "TIMESTAMP '2026-01-01'", ",DAY,'Asia/Tokyo')", 20),
    "FORMAT_TIMESTAMP with a zone": (
        "FORMAT_TIMESTAMP('%F',TIMESTAMP(",
        "'2026-01-01'",
        "),'Asia/Tokyo')",
        16,
    ),
    "DATE_TRUNC": ("DATE_TRUNC(", "DATE '2026-01-01'", ",WEEK)", 20),
    "EXTRACT": ("EXTRACT(DAY FROM DATE_FROM_UNIX_DATE(", "1", "))", 20),
    "DATE_DIFF": ("DATE_DIFF(DATE_FROM_UNIX_DATE(", "1", "),DATE '2026-01-01',WEEK)", 16),
    "SPLIT": ("ARRAY_TO_STRING(SPLIT(", "'a,b'", "),',')", 24),
    "OFFSET": ("[1,2][OFFSET(", "0", ")]", 100),
    "SAFE_OFFSET": ("[0,0][SAFE_OFFSET(", "0", ")]", 24),
    "JSON_VALUE": ("TO_JSON_STRING(JSON_VALUE(", "'1'", "))", 24),
    "ROUND": ("ROUND(", "1", ",1)", 24),
    "MOD": ("MOD(", "7", ",8)", 24),
    "DIV": ("DIV(", "7", ",8)", 24),
    "SAFE_DIVIDE": ("SAFE_DIVIDE(", "7", ",8)", 24),
    "IEEE_DIVIDE": ("IEEE_DIVIDE(", "7", ",8)", 24),
    "SUBSTR": ("SUBSTR(", "'abc'", ",-1)", 24),
    "INSTR": ("CAST(INSTR(CAST(", "1", " AS STRING),'1') AS INT64)", 16),
    "REGEXP_REPLACE": ("REGEXP_REPLACE(", "'a'", ",'a','b')", 24),
    "REGEXP_EXTRACT": ("REGEXP_EXTRACT(", "'a'", ",'(a)')", 24),
    "LPAD": ("LPAD(", "'a'", ",3)", 24),
    "NORMALIZE": ("NORMALIZE(", "'a'", ")", 24),
    "TO_HEX": ("TO_HEX(MD5(", "'a'", "))", 24),
    "ST_ASTEXT": ("ST_ASTEXT(ST_GEOGFROMTEXT(", "'POINT(1 1)'", "))", 16),
}


def _aggregates() -> dict[str, str]:
    """Aggregates whose argument may be written several times, over subqueries in each other."""
    calls = {
        "ARRAY_AGG IGNORE NULLS": "ARRAY_LENGTH(ARRAY_AGG({} IGNORE NULLS))",
        "COUNTIF DISTINCT": "COUNTIF(DISTINCT {} > 0)",
        "STRING_AGG with LIMIT": "LENGTH(STRING_AGG(CAST({} AS STRING), ',' LIMIT 2))",
        "APPROX_QUANTILES": "APPROX_QUANTILES({}, 2)[OFFSET(0)]",
        "ARRAY_CONCAT_AGG": "ARRAY_LENGTH(ARRAY_CONCAT_AGG([{}]))",
        "AVG OVER": "CAST(AVG({}) OVER () AS INT64)",
        "HAVING MAX": "ANY_VALUE({} HAVING MAX 1)",
        "APPROX_TOP_COUNT": "APPROX_TOP_COUNT({}, 1)[OFFSET(0)].value",
    }
    found = {}
    for name, call in calls.items():
        inner = "1"
        for _ in range(14):
            inner = f"(SELECT {call.format(inner)} FROM UNNEST([1]))"
        found[f"nested {name}"] = f"SELECT {inner}"
    inner = "[1]"
    for _ in range(14):
        inner = f"ARRAY(SELECT o FROM UNNEST({inner}) AS v WITH OFFSET AS o)"
    found["nested UNNEST WITH OFFSET"] = f"SELECT {inner}"
    return found


def _chains() -> dict[str, str]:
    """Names that are used twice by the next: 2^30 uses of the first one."""
    joined = ["c0 AS (SELECT 1 AS x)"] + [
        f"c{n} AS (SELECT a.x FROM c{n - 1} a, c{n - 1} b)" for n in range(1, 31)
    ]
    united = ["c0 AS (SELECT 1 AS x)"] + [
        f"c{n} AS (SELECT * FROM c{n - 1} UNION ALL SELECT * FROM c{n - 1})" for n in range(1, 31)
    ]
    stars = ["c0 AS (SELECT 1 AS x)"] + [
        f"c{n} AS (SELECT a.*, b.* EXCEPT (x) FROM c{n - 1} a, c{n - 1} b)" for n in range(1, 31)
    ]
    columns = ["c0 AS (SELECT 1 AS x)"] + [
        f"c{n} AS (SELECT STRUCT(x, x AS y) AS x FROM c{n - 1})" for n in range(1, 31)
    ]
    texts = ["c0 AS (SELECT 'x' AS x)"] + [
        f"c{n} AS (SELECT x || x AS x FROM c{n - 1})" for n in range(1, 36)
    ]
    return {
        "CTEs that join the one before twice": f"WITH {', '.join(joined)} SELECT COUNT(*) FROM c30",
        "CTEs that unite the one before twice": f"WITH {', '.join(united)} SELECT COUNT(*) FROM c30",
        "CTEs that double their columns": f"WITH {', '.join(stars)} SELECT * FROM c30",
        "CTEs that double a record": f"WITH {', '.join(columns)} SELECT x FROM c30",
        "CTEs that double a text": f"WITH {', '.join(texts)} SELECT LENGTH(x) FROM c35",
        "a CTE that repeats itself": "WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM a) "
        "SELECT COUNT(*) FROM a",
        "a CTE that doubles itself": "WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT b.x FROM a b, a c) "
        "SELECT COUNT(*) FROM a",
        "a CTE whose text doubles": "WITH RECURSIVE a AS (SELECT 'x' AS x UNION ALL SELECT x || x FROM a) "
        "SELECT MAX(LENGTH(x)) FROM a",
    }


def _wide() -> dict[str, str]:
    return {
        "100,000 conditions": "SELECT 1 WHERE " + "1=1 OR " * 100_000 + "TRUE",
        "100,000 conditions and more": "SELECT 1 WHERE " + "1=1 AND " * 100_000 + "TRUE",
        "200,000 additions": "SELECT " + "1+" * 200_000 + "1",
        "100,000 joined texts": "SELECT " + "'a'||" * 100_000 + "'a'",
        "10,000 columns": "SELECT " + ",".join(f"{n} AS c{n}" for n in range(10_000)),
        "100,000 columns": "SELECT " + ",".join(f"{n} AS c{n}" for n in range(100_000)),
        "100,000 values in IN": "SELECT 1 IN (" + ",".join(map(str, range(100_000))) + ")",
        "a million values in an array": "SELECT [" + "1," * 1_000_000 + "1]",
        "20,000 selects in a union": " UNION ALL ".join(["SELECT 1"] * 20_000),
        "2,000 joins": "SELECT COUNT(*) FROM "
        + ",".join(f"(SELECT 1 AS x{n}) AS t{n}" for n in range(2_000)),
        "5,000 CTEs": "WITH "
        + ",".join(f"c{n} AS (SELECT * FROM c{n - 1})" if n else "c0 AS (SELECT 1)" for n in range(5_000))
        + " SELECT * FROM c4999",
        "20,000 branches of CASE": "SELECT CASE 1 "
        + "".join(f"WHEN {n} THEN {n} " for n in range(20_000))
        + "END",
        "2,000 windows": "SELECT "
        + ",".join("SUM(x) OVER (ORDER BY x)" for _ in range(2_000))
        + " FROM (SELECT 1 AS x)",
        "a name of 5 million letters": f"SELECT 1 AS {'a' * 5_000_000}",
        "a text of 9 million letters": f"SELECT LENGTH('{'a' * 9_000_000}')",
        "a comment of 9 million letters": f"SELECT 1 /* {'a' * 9_000_000} */",
        "a million line breaks": "SELECT" + "\n" * 5_000_000 + "1",
        "100,000 semicolons": ";" * 100_000 + "SELECT 1",
        "a number of a million digits": "SELECT " + "9" * 1_000_000,
        "an open quote": "SELECT '" + "\\'" * 2_000_000,
        "100,000 escapes": "SELECT '" + "\\u00e9" * 500_000 + "'",
        "backticks": "SELECT " + "`a`." * 50_000 + "`a`",
        "100,000 parameters": "SELECT " + "?+" * 50_000 + "1",
        "10,000 GROUP BY items": "SELECT COUNT(*) FROM (SELECT 1 AS x) GROUP BY " + ",".join(["x"] * 10_000),
        "CUBE of 30 columns": "SELECT COUNT(*) FROM (SELECT "
        + ",".join(f"1 AS c{n}" for n in range(30))
        + ") GROUP BY CUBE("
        + ",".join(f"c{n}" for n in range(30))
        + ")",
        "ROLLUP of 500 columns": "SELECT COUNT(*) FROM (SELECT "
        + ",".join(f"1 AS c{n}" for n in range(500))
        + ") GROUP BY ROLLUP("
        + ",".join(f"c{n}" for n in range(500))
        + ")",
    }


_BIG: Final = "GENERATE_ARRAY(1, 1000000)"


def _growing() -> dict[str, str]:
    many = f"UNNEST({_BIG}) a, UNNEST({_BIG}) b"
    text = "REPEAT('x', 100000)"
    return {
        "REPEAT": "SELECT LENGTH(REPEAT('x', 1000000000) || REPEAT('y', 1000000000))",
        "REPEAT of REPEAT": "SELECT LENGTH(REPEAT(REPEAT(REPEAT('x', 1000), 1000), 1000))",
        "LPAD": "SELECT LENGTH(LPAD('x', 2000000000, 'ab'))",
        "RPAD of bytes": "SELECT LENGTH(RPAD(b'x', 2000000000))",
        "REPLACE": f"SELECT LENGTH(REPLACE({text}, 'x', {text}))",
        "REGEXP_REPLACE": f"SELECT LENGTH(REGEXP_REPLACE({text}, 'x', {text}))",
        "TRANSLATE": "SELECT LENGTH(TRANSLATE(REPEAT('x', 100000000), 'x', 'y'))",
        "TO_JSON_STRING": f"SELECT LENGTH(TO_JSON_STRING({_BIG}))",
        "GENERATE_ARRAY": "SELECT ARRAY_LENGTH(GENERATE_ARRAY(1, 1000000000000))",
        "GENERATE_ARRAY of fractions": "SELECT ARRAY_LENGTH(GENERATE_ARRAY(0, 1, 1e-12))",
        "GENERATE_DATE_ARRAY": "SELECT ARRAY_LENGTH(GENERATE_DATE_ARRAY('0001-01-01', '9999-12-31')) "
        "FROM UNNEST(GENERATE_ARRAY(1, 100000))",
        "GENERATE_TIMESTAMP_ARRAY": "SELECT ARRAY_LENGTH(GENERATE_TIMESTAMP_ARRAY('0001-01-01', "
        "'9999-12-31', INTERVAL 1 MICROSECOND))",
        "STRING_AGG": f"SELECT LENGTH(STRING_AGG({text})) FROM UNNEST({_BIG})",
        "ARRAY_AGG": f"SELECT ARRAY_LENGTH(ARRAY_AGG({text})) FROM UNNEST({_BIG})",
        "ARRAY_AGG DISTINCT": f"SELECT ARRAY_LENGTH(ARRAY_AGG(DISTINCT a * 1000000 + b)) FROM {many}",
        "COUNT DISTINCT": f"SELECT COUNT(DISTINCT a * 1000000 + b) FROM {many}",
        "CROSS JOIN": f"SELECT COUNT(*) FROM {many}, UNNEST({_BIG}) c",
        "CROSS JOIN of texts": f"SELECT SUM(LENGTH(CONCAT(CAST(a AS STRING), CAST(b AS STRING)))) "
        f"FROM {many}",
        "ORDER BY": f"SELECT a FROM {many} ORDER BY RAND() LIMIT 100000000",
        "GROUP BY": f"SELECT a * b, COUNT(*) FROM {many} GROUP BY 1",
        "window": f"SELECT MAX(s) FROM (SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN 100000 PRECEDING AND "
        f"100000 FOLLOWING) AS s FROM {many})",
        "rows of 100 kB": f"SELECT x, {text} AS t FROM UNNEST(GENERATE_ARRAY(1, 65536)) AS x",
        "rows of 100 kB with other texts": f"SELECT CONCAT({text}, CAST(x AS STRING)) AS t FROM "
        "UNNEST(GENERATE_ARRAY(1, 65536)) AS x",
        "arrays of 100,000 numbers": "SELECT GENERATE_ARRAY(1, 100000) AS a FROM "
        "UNNEST(GENERATE_ARRAY(1, 65536))",
        "endless rows": f"SELECT a, b FROM {many}",
        "a pivot": f"SELECT * FROM (SELECT a, b FROM {many}) PIVOT(SUM(a) FOR b IN (1, 2, 3))",
        "quantiles": f"SELECT APPROX_QUANTILES(a * b, 1000000) FROM {many}",
    }


def _functions() -> dict[str, str]:
    """Functions that Python or a library computes on one large or hostile value."""
    numbers = "UNNEST(GENERATE_ARRAY(1, 1000000)) AS x"
    json_text = "CONCAT(REPEAT('[', 50000), REPEAT(']', 50000))"
    points = "STRING_AGG(CONCAT(CAST(x / 10000 AS STRING), ' ', CAST(MOD(x * 7919, 80) AS STRING)), ',')"
    return {
        "a regex with nested repeats": "SELECT REGEXP_CONTAINS(REPEAT('a', 30), '(a+)+$b')",
        "a regex of large counts": "SELECT REGEXP_CONTAINS('a', '((((a{100}){100}){100}){100}){100}')",
        "a regex of alternatives": f"SELECT REGEXP_CONTAINS('a', '{'a?' * 2_000}{'a' * 2_000}')",
        "a long regex": "SELECT REGEXP_CONTAINS('a', REPEAT('(a|b)', 200000))",
        "a deep regex": "SELECT REGEXP_CONTAINS('a', CONCAT(REPEAT('(', 100000), REPEAT(')', 100000)))",
        "REGEXP_EXTRACT_ALL": "SELECT ARRAY_LENGTH(REGEXP_EXTRACT_ALL(REPEAT('a', 50000000), ''))",
        "REGEXP_INSTR": "SELECT REGEXP_INSTR(REPEAT('a', 10000000), 'a', 1, 9999999)",
        "LIKE": "SELECT REPEAT('a', 100000) LIKE CONCAT(REPEAT('%a', 5000), 'b')",
        "SPLIT": "SELECT ARRAY_LENGTH(SPLIT(REPEAT('a,', 100000000)))",
        "NORMALIZE": "SELECT LENGTH(NORMALIZE(REPEAT('\\uFDFA', 20000000), NFKD))",
        "NORMALIZE of marks": "SELECT LENGTH(NORMALIZE(CONCAT('a', REPEAT('\\u0315\\u0300', 3000000))))",
        "NORMALIZE_AND_CASEFOLD": f"SELECT SUM(LENGTH(NORMALIZE_AND_CASEFOLD(REPEAT('\\uFB03', 1000)))) "
        f"FROM {numbers}",
        "FORMAT with a huge width": "SELECT LENGTH(FORMAT('%2000000000d', 1))",
        "FORMAT with a width given": "SELECT LENGTH(FORMAT('%*d', 2000000000, 1))",
        "FORMAT with a huge precision": "SELECT LENGTH(FORMAT('%.2000000000f', 1.5))",
        "FORMAT of a long list": "SELECT LENGTH(FORMAT('%T', GENERATE_ARRAY(1, 30000000)))",
        "FORMAT of many": f"SELECT MAX(LENGTH(FORMAT('%100000d', x))) FROM {numbers}",
        "a huge exponent": "SELECT CAST('1e999999999' AS BIGNUMERIC), CAST('1e-999999999' AS NUMERIC)",
        "a long decimal": "SELECT CAST(REPEAT('9', 10000000) AS BIGNUMERIC)",
        "PARSE_NUMERIC": "SELECT PARSE_BIGNUMERIC(REPEAT('1', 5000000))",
        "POW": "SELECT POW(CAST(9 AS BIGNUMERIC), 1e9)",
        "a shift": "SELECT 1 << 9000000000000000000",
        "PARSE_JSON of deep JSON": f"SELECT TO_JSON_STRING(PARSE_JSON({json_text}))",
        "JSON_VALUE of deep JSON": f"SELECT JSON_QUERY({json_text}, '$[0][0]')",
        "a deep path of JSON": f"SELECT JSON_VALUE({json_text}, CONCAT('$', REPEAT('[0]', 50000)))",
        "JSON of many keys": "SELECT LENGTH(TO_JSON_STRING(PARSE_JSON(CONCAT('{', (SELECT STRING_AGG("
        f"CONCAT('\"k', CAST(x AS STRING), '\":1')) FROM {numbers}), '}}'))))",
        "JSON_EXTRACT_ARRAY": "SELECT ARRAY_LENGTH(JSON_EXTRACT_ARRAY(CONCAT('[', REPEAT('0,', 30000000), "
        "'0]')))",
        "a line of many points": f"SELECT ST_LENGTH(ST_GEOGFROMTEXT(CONCAT('LINESTRING(', (SELECT {points} "
        f"FROM {numbers}), ')')))",
        "a polygon of many points": "SELECT ST_ISVALID(ST_GEOGFROMTEXT(CONCAT('POLYGON((', (SELECT "
        f"{points} FROM {numbers}), '))')))",
        "a deep collection": "SELECT ST_ASTEXT(ST_GEOGFROMTEXT(CONCAT(REPEAT('GEOMETRYCOLLECTION(', 20000), "
        "'POINT(1 1)', REPEAT(')', 20000))))",
        "many buffers": f"SELECT SUM(ST_AREA(ST_BUFFER(ST_GEOGPOINT(MOD(x, 180), 1), 1000))) FROM {numbers}",
        "ST_UNION_AGG": f"SELECT ST_ASTEXT(ST_UNION_AGG(ST_GEOGPOINT(MOD(x, 180), MOD(x, 89)))) "
        f"FROM {numbers}",
        "EDIT_DISTANCE": "SELECT EDIT_DISTANCE(REPEAT('a', 1000000), REPEAT('b', 1000000))",
        "SOUNDEX": f"SELECT MAX(SOUNDEX(REPEAT('a', 100000))) FROM {numbers}",
        "LEVENSHTEIN over rows": f"SELECT MAX(EDIT_DISTANCE(REPEAT('a', 1000), REPEAT('b', 1000))) "
        f"FROM {numbers}",
        "TO_CODE_POINTS": "SELECT ARRAY_LENGTH(TO_CODE_POINTS(REPEAT('a', 100000000)))",
        "NET.HOST": f"SELECT MAX(NET.HOST(CONCAT('http://', REPEAT('a.', 100000), x))) FROM {numbers}",
        "PARSE_DATE": f"SELECT MAX(PARSE_DATE(REPEAT('%Y ', 10000), REPEAT('2026 ', 10000))) FROM {numbers}",
        "FORMAT_DATE": "SELECT LENGTH(FORMAT_DATE(REPEAT('%c', 20000000), DATE '2026-01-01'))",
        "a long interval": "SELECT CAST(REPEAT('9', 1000000) AS INTERVAL)",
        "SHA512": "SELECT SHA512(REPEAT('a', 1500000000))",
        "TO_BASE64": "SELECT LENGTH(TO_BASE64(CAST(REPEAT('a', 1000000000) AS BYTES)))",
        "COMPRESS": "SELECT LENGTH(CODE_POINTS_TO_STRING(GENERATE_ARRAY(1, 55000000)))",
    }


def _scripts() -> dict[str, str]:
    rows = "SELECT x, REPEAT('x', 1000) AS t FROM UNNEST(GENERATE_ARRAY(1, 5000)) AS x"
    return {
        "an endless loop": "LOOP SELECT 1; END LOOP",
        "an empty loop": "DECLARE x INT64 DEFAULT 0; WHILE TRUE DO SET x = x + 1; END WHILE",
        "a text that doubles": "DECLARE s STRING DEFAULT 'x'; LOOP SET s = s || s; END LOOP",
        "an array that doubles": "DECLARE a ARRAY<INT64> DEFAULT [1]; LOOP SET a = ARRAY_CONCAT(a, a); "
        "END LOOP",
        "2,000 SELECTs": f"{rows};" * 2_000,
        "SELECTs in a loop": f"LOOP {rows}; END LOOP",
        "EXECUTE IMMEDIATE of itself": "DECLARE q STRING DEFAULT 'EXECUTE IMMEDIATE @@q'; "
        "EXECUTE IMMEDIATE CONCAT('EXECUTE IMMEDIATE ', TO_JSON_STRING(q))",
        "EXECUTE IMMEDIATE in a loop": "LOOP EXECUTE IMMEDIATE CONCAT('SELECT ', REPEAT('1+', 10000), '1'); "
        "END LOOP",
        "1,000 BEGIN blocks in each other": "BEGIN " * 1_000 + "SELECT 1;" + " END;" * 1_000,
        "1,000 IFs in each other": "IF TRUE THEN " * 1_000 + "SELECT 1;" + " END IF;" * 1_000,
        "50,000 statements": "SELECT 1;" * 50_000,
        "50,000 variables": "".join(f"DECLARE v{n} INT64;" for n in range(50_000)),
        "temporary tables in a loop": "DECLARE n INT64 DEFAULT 0; LOOP SET n = n + 1; EXECUTE IMMEDIATE "
        f"CONCAT('CREATE TEMP TABLE t', CAST(n AS STRING), ' AS {rows.replace(chr(39), chr(34))}'); END LOOP",
        "a procedure that calls itself": "CREATE OR REPLACE PROCEDURE d.forever() BEGIN CALL d.forever(); "
        "CALL d.forever(); END; CALL d.forever()",
        "functions that double": "".join(
            f"CREATE TEMP FUNCTION f{n}(x INT64) AS ("
            + (f"f{n - 1}(x) + f{n - 1}(x)" if n else "x + x")
            + ");"
            for n in range(26)
        )
        + "SELECT f25(1)",
        "an exception that is caught in a loop": "LOOP BEGIN SELECT ERROR('x'); EXCEPTION WHEN ERROR THEN "
        "SELECT @@error.message; END; END LOOP",
        "a FOR over a million rows": "FOR r IN (SELECT x FROM UNNEST(GENERATE_ARRAY(1, 1000000)) AS x) DO "
        "SELECT r.x; END FOR",
    }


FAMILIES: Final[dict[str, dict[str, str]]] = {
    "nesting": {f"nested {name}": nested(*parts) for name, parts in _CALLS.items()} | _aggregates(),
    "chains": _chains(),
    "width": _wide(),
    "growth": _growing(),
    "functions": _functions(),
    "scripts": _scripts(),
}


def doubling_views(count: int = 26) -> list[str]:
    """Statements that create views, each of which reads the one before twice."""
    made = ["CREATE OR REPLACE VIEW d.v0 AS SELECT 1 AS x"]
    made += [
        f"CREATE OR REPLACE VIEW d.v{n} AS SELECT a.x FROM d.v{n - 1} a, d.v{n - 1} b"
        for n in range(1, count)
    ]
    return made


# What a row restriction of the Read API, a default or a routine's body may be.
EXPRESSIONS: Final = {
    "nested GREATEST": "GREATEST(1," * 24 + "1" + ")" * 24 + " = id",
    "nested SAFE.ABS": "SAFE.ABS(" * 22 + "1" + ")" * 22 + " = id",
    "100,000 conditions": "id = 1 OR " * 90_000 + "id = 2",
    "3,000 brackets": "(" * 3_000 + "id = 1" + ")" * 3_000,
    "20,000 NOTs": "NOT " * 20_000 + "id = 1",
    "100,000 values": f"id IN ({','.join(map(str, range(100_000)))})",
    "a regex of large counts": "REGEXP_CONTAINS(name, '((((a{100}){100}){100}){100}){100}')",
    "a large text": "LENGTH(REPEAT(name, 1000000000)) > id",
    "a large array": "ARRAY_LENGTH(GENERATE_ARRAY(1, 1000000000000)) > id",
    "an open quote": "name = '" + "\\'" * 500_000,
}
