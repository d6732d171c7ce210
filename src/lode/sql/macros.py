# ruff: noqa: E501, macros are one line each
"""BigQuery's functions as macros of DuckDB: by their name, the overloads with their types.

DuckDB chooses an overload by the types of the arguments when it binds a query, so a query needs no types of
its own. ``INTERNAL`` has what operators, casts and other macros use.
"""

from __future__ import annotations

from typing import Final

from lode.sql.geo_functions import GEO_MACROS

# Prefixes of the macros of a query: without BIGNUMERIC, with BIGNUMERIC alone, and with both types.
PLAIN, BIG, MIXED = "bq", "bqb", "bqm"
_N = "DECIMAL(38, 9)"
_B = "DECIMAL(38, 18)"


def _all(arguments: str, body: str, *kinds: str) -> tuple[str, ...]:
    """The same macro for several types of ``x``."""
    return tuple(f"({arguments.replace('x', f'x {kind}', 1)}) AS {body}" for kind in kinds)


def _float(name: str) -> tuple[str, ...]:
    return (f"(x) AS {name}(CAST(x AS DOUBLE))",)


_DATES: Final = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "INTERVAL")
_TIMES: Final = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIME", "INTERVAL")

INTERNAL: Final[dict[str, tuple[str, ...]]] = {
    # Of the variants that give NULL instead of an error.
    "error": ("(x) AS NULL",),
    # Limits of the service. DuckDB does not count the memory of one value, and does not stop while it makes one.
    "elements": (
        "(n) AS CASE WHEN n > 1048575 THEN error('GENERATE_ARRAY produced too many elements') ELSE CAST(n AS BIGINT) END",
    ),
    "bounded_end": (
        "(x, y, step) AS CASE WHEN abs(CAST(y AS HUGEINT) - CAST(x AS HUGEINT)) // abs(step) > 1048575 "
        "THEN error('GENERATE_ARRAY produced too many elements') ELSE y END",
    ),
    "repeats": (
        "(n, size) AS CASE WHEN CAST(n AS HUGEINT) * size > 1048576 "
        "THEN error('Output of REPEAT exceeds max allowed output size of 1MB') ELSE n END",
    ),
    "padded": (
        "(n) AS CASE WHEN n > 1048576 "
        "THEN error('Output of LPAD/RPAD exceeds max allowed output size of 1MB') ELSE CAST(n AS INTEGER) END",
    ),
    # DuckDB compares all pairs of characters, and does not stop in between.
    "comparable": (
        "(x, y) AS CASE WHEN CAST(strlen(x) AS HUGEINT) * strlen(y) > 100000000 "
        "THEN error('The texts of EDIT_DISTANCE are too long: their lengths may have a product of 100,000,000') ELSE y END",
    ),
    "replacing": (
        "(x, z) AS CASE WHEN CAST(strlen(x) + 1 AS HUGEINT) * strlen(z) > 268435456 "
        "THEN error('Output of REPLACE may exceed the max allowed output size of 256MB') ELSE z END",
    ),
    # Whether a regular expression has a group, without escaped parentheses and those in brackets.
    "has_group": (
        r"(y) AS regexp_matches(regexp_replace(y, '\\.|\[\^?\]?[^]]*\]', '', 'g'), '\((?:[^?]|\?P?<[^=!])')",
    ),
    "local": (
        "(x TIMESTAMPTZ, zone) AS CASE WHEN regexp_full_match(zone, '[+-].*') THEN timezone('UTC', x) + bq_zone_offset(zone) "
        "ELSE timezone(zone, x) END",
    ),
    "instant": (
        "(x TIMESTAMP, zone) AS CASE WHEN regexp_full_match(zone, '[+-].*') THEN timezone('UTC', x - bq_zone_offset(zone)) "
        "ELSE timezone(zone, x) END",
    ),
    "zone_offset": (
        "(zone) AS to_minutes(CASE WHEN zone[1] = '-' THEN -1 ELSE 1 END * (CAST(split_part(zone[2:], ':', 1) AS BIGINT) * 60 "
        "+ COALESCE(TRY_CAST(split_part(zone, ':', 2) AS BIGINT), 0)))",
    ),
    # -- operators
    "divide": (
        f"(x {_N}, y {_N}) AS CASE WHEN y = 0 THEN error(printf('division by zero: %s / %s', bq_string(x), bq_string(y))) "
        "ELSE bq_numeric_divide(x, y) END",
        "(x BIGINT, y BIGINT) AS CASE WHEN y = 0 THEN error(printf('division by zero: %d / %d', x, y)) "
        "ELSE CAST(x AS DOUBLE) / y END",
        "(x DOUBLE, y DOUBLE) AS CASE WHEN y = 0 THEN error(printf('division by zero: %s / %s', bq_float_text(x), bq_float_text(y))) "
        "ELSE x / y END",
        "(x INTERVAL, y BIGINT) AS bq_interval_divide(x, y)",
    ),
    "multiply": (
        "(x BIGINT, y BIGINT) AS x * y",
        f"(x {_N}, y {_N}) AS bq_numeric_multiply(x, y)",
        "(x DOUBLE, y DOUBLE) AS x * y",
        "(x INTERVAL, y BIGINT) AS x * y",
        "(x BIGINT, y INTERVAL) AS y * x",
    ),
    "plus": (
        "(x BIGINT, y BIGINT) AS x + y",
        f"(x {_N}, y {_N}) AS CAST(x + y AS {_N})",
        "(x DOUBLE, y DOUBLE) AS x + y",
        "(x DATE, y BIGINT) AS x + CAST(y AS INTEGER)",
        "(x BIGINT, y DATE) AS y + CAST(x AS INTEGER)",
        "(x DATE, y INTERVAL) AS x + y",
        "(x INTERVAL, y DATE) AS y + x",
        "(x TIMESTAMP, y INTERVAL) AS x + y",
        "(x TIMESTAMPTZ, y INTERVAL) AS x + y",
        "(x INTERVAL, y TIMESTAMP) AS y + x",
        "(x INTERVAL, y TIMESTAMPTZ) AS y + x",
        "(x TIME, y INTERVAL) AS x + y",
        "(x INTERVAL, y INTERVAL) AS x + y",
    ),
    "minus": (
        "(x BIGINT, y BIGINT) AS x - y",
        f"(x {_N}, y {_N}) AS CAST(x - y AS {_N})",
        "(x DOUBLE, y DOUBLE) AS x - y",
        "(x DATE, y BIGINT) AS x - CAST(y AS INTEGER)",
        "(x DATE, y DATE) AS to_days(CAST(x - y AS INTEGER))",
        "(x TIMESTAMP, y TIMESTAMP) AS to_microseconds(epoch_us(x) - epoch_us(y))",
        "(x TIMESTAMPTZ, y TIMESTAMPTZ) AS to_microseconds(epoch_us(x) - epoch_us(y))",
        "(x DATE, y INTERVAL) AS x - y",
        "(x TIMESTAMP, y INTERVAL) AS x - y",
        "(x TIMESTAMPTZ, y INTERVAL) AS x - y",
        "(x TIME, y INTERVAL) AS x - y",
        "(x INTERVAL, y INTERVAL) AS x - y",
    ),
    **{
        # With a literal such as 1.5 on one side, which becomes NUMERIC beside a NUMERIC.
        f"{name}_{side}": (
            f"(x DOUBLE, y DOUBLE, literal) AS bq_{name}(x, y)",
            f"(x DOUBLE, y {_N}, literal) AS bq_{name}(bq_decimal(literal), y)"
            if side == "left"
            else f"(x {_N}, y DOUBLE, literal) AS bq_{name}(x, bq_decimal(literal))",
        )
        for name in ("plus", "minus", "multiply", "divide")
        for side in ("left", "right")
    },
    "decimal": ("(x VARCHAR) AS bq_numeric(x)",),
    "approximate": (f"(x DOUBLE) AS CAST(x AS {_N})",),
    "fits_numeric": (
        f"(x {_B}) AS CASE WHEN CAST(x AS {_N}) = x THEN CAST(x AS {_N}) WHEN x IS NOT NULL THEN "
        "error(printf('%s has more digits after the point than a column of NUMERIC: cast it to NUMERIC', CAST(x AS VARCHAR))) END",
    ),
    "merged": (
        "(x BIGINT) AS x",
        "(x BIGINT[]) AS x",
        f"(x {_N}) AS CAST(x AS {_N})",
        f"(x {_N}[]) AS CAST(x AS {_N}[])",
        "(x) AS x",
    ),
    "avg_of": (
        f"(total {_N}, number BIGINT, mean DOUBLE) AS CASE WHEN number = 0 THEN NULL ELSE bq_numeric_divide(total, CAST(number AS {_N})) END",
        "(total DOUBLE, number BIGINT, mean DOUBLE) AS mean",
    ),
    "shift_left": (
        "(x, y) AS CASE WHEN y > 63 THEN 0 ELSE bq_wrap(CAST(x AS HUGEINT) * CAST(pow(2, y) AS HUGEINT)) END",
    ),
    "wrap": (
        "(x) AS CAST(((x + 9223372036854775808) % 18446744073709551616) - 9223372036854775808 AS BIGINT)",
    ),
    "shift_right": ("(x, y) AS CASE WHEN y > 63 THEN 0 ELSE CAST(x AS BIGINT) >> CAST(y AS BIGINT) END",),
    "concat2": (
        "(x VARCHAR, y VARCHAR) AS x || y",
        "(x BLOB, y BLOB) AS x || y",
        "(x, y) AS list_concat(x, y)",
    ),
    "at_offset": (
        "(x, n) AS CASE WHEN n < 0 OR n >= len(x) THEN error(printf('Array index %d is out of bounds', n)) ELSE x[n + 1] END",
    ),
    "at_ordinal": (
        "(x, n) AS CASE WHEN n < 1 OR n > len(x) THEN error(printf('Array index %d is out of bounds', n)) ELSE x[n] END",
    ),
    "safe_offset": ("(x, n) AS CASE WHEN n < 0 THEN NULL ELSE x[n + 1] END",),
    "safe_ordinal": ("(x, n) AS CASE WHEN n < 1 THEN NULL ELSE x[n] END",),
    "json_member": ("(x, name) AS json_extract(x, '$.\"' || name || '\"')",),
    "string": (
        "(x VARCHAR) AS CAST(x AS VARCHAR)",
        "(x BOOLEAN) AS CAST(x AS VARCHAR)",
        "(x BIGINT) AS CAST(x AS VARCHAR)",
        f"(x {_N}) AS CASE WHEN contains(CAST(x AS VARCHAR), '.') THEN rtrim(rtrim(CAST(x AS VARCHAR), '0'), '.') ELSE CAST(x AS VARCHAR) END",
        "(x DOUBLE) AS bq_float_text(x)",
        "(x BLOB) AS decode(x)",
        "(x DATE) AS CAST(x AS VARCHAR)",
        "(x TIME) AS CAST(x AS VARCHAR)",
        "(x TIMESTAMP) AS CAST(x AS VARCHAR)",
        "(x TIMESTAMPTZ) AS CAST(x AS VARCHAR)",
        "(x INTERVAL) AS bq_interval_text(x)",
        '(x STRUCT("geo$" VARCHAR)) AS x."geo$"',
        "(x TIMESTAMPTZ, zone) AS bq_zoned_text(timezone('UTC', x), zone)",
        "(x STRUCT(\"range$start\" DATE, \"range$end\" DATE)) AS '[' || COALESCE(CAST(x.\"range$start\" AS VARCHAR), 'UNBOUNDED') || ', ' || COALESCE(CAST(x.\"range$end\" AS VARCHAR), 'UNBOUNDED') || ')'",
        "(x STRUCT(\"range$start\" TIMESTAMP, \"range$end\" TIMESTAMP)) AS '[' || COALESCE(CAST(x.\"range$start\" AS VARCHAR), 'UNBOUNDED') || ', ' || COALESCE(CAST(x.\"range$end\" AS VARCHAR), 'UNBOUNDED') || ')'",
        "(x STRUCT(\"range$start\" TIMESTAMPTZ, \"range$end\" TIMESTAMPTZ)) AS '[' || COALESCE(CAST(x.\"range$start\" AS VARCHAR), 'UNBOUNDED') || ', ' || COALESCE(CAST(x.\"range$end\" AS VARCHAR), 'UNBOUNDED') || ')'",
    ),
    "int64": (
        "(x BIGINT) AS x",
        "(x BOOLEAN) AS CAST(x AS BIGINT)",
        "(x DOUBLE) AS COALESCE(TRY_CAST(round(x) AS BIGINT), CASE WHEN x IS NULL THEN NULL ELSE error(printf('Illegal conversion of non-finite or too large floating point number to an integer: %s', bq_float_text(x))) END)",
        f"(x {_N}) AS CAST(round(x) AS BIGINT)",
        "(x VARCHAR) AS CASE WHEN regexp_full_match(trim(x), '[+-]?0[xX][0-9a-fA-F]+') THEN bq_hex_integer(trim(x)) ELSE "
        "COALESCE(TRY_CAST(CASE WHEN regexp_full_match(trim(x), '[+-]?[0-9]+') THEN trim(x) END AS BIGINT), CASE WHEN x IS NULL THEN NULL ELSE error(printf('Bad int64 value: %s', x)) END) END",
    ),
    "float64": (
        "(x DOUBLE) AS x",
        f"(x {_N}) AS CAST(x AS DOUBLE)",
        "(x VARCHAR) AS COALESCE(TRY_CAST(trim(x) AS DOUBLE), CASE WHEN x IS NULL THEN NULL ELSE error(printf('Bad double value: %s', x)) END)",
    ),
    "bool": (
        "(x BOOLEAN) AS x",
        "(x BIGINT) AS x <> 0",
        "(x VARCHAR) AS CASE lower(x) WHEN 'true' THEN true WHEN 'false' THEN false ELSE CASE WHEN x IS NULL THEN NULL ELSE error(printf('Bad bool value: %s', x)) END END",
    ),
    "bytes": ("(x BLOB) AS x", "(x VARCHAR) AS encode(x)"),
    # -- casts
    "to_date": (
        "(x DATE) AS x",
        "(x TIMESTAMP) AS CAST(x AS DATE)",
        "(x TIMESTAMPTZ) AS CAST(timezone('UTC', x) AS DATE)",
        "(x VARCHAR) AS COALESCE(TRY_CAST(CASE WHEN length(x) <= 10 THEN x ELSE x[:10] END AS DATE), CASE WHEN x IS NULL THEN NULL ELSE "
        "error(printf('Invalid date: ''%s''', x)) END)",
    ),
    "to_time": (
        "(x TIME) AS x",
        "(x TIMESTAMP) AS CAST(x AS TIME)",
        "(x TIMESTAMPTZ) AS CAST(timezone('UTC', x) AS TIME)",
        "(x VARCHAR) AS COALESCE(TRY_CAST(x AS TIME), CASE WHEN x IS NULL THEN NULL ELSE error(printf('Invalid time string \"%s\"', x)) END)",
    ),
    "to_datetime": (
        "(x TIMESTAMP) AS x",
        "(x DATE) AS CAST(x AS TIMESTAMP)",
        "(x TIMESTAMPTZ) AS timezone('UTC', x)",
        "(x VARCHAR) AS COALESCE(TRY_CAST(replace(x, 't', 'T') AS TIMESTAMP), CASE WHEN x IS NULL THEN NULL ELSE error(printf('Invalid datetime string \"%s\"', x)) END)",
    ),
    "to_timestamp": (
        "(x TIMESTAMPTZ) AS x",
        "(x DATE) AS timezone('UTC', CAST(x AS TIMESTAMP))",
        "(x TIMESTAMP) AS timezone('UTC', x)",
        "(x VARCHAR) AS COALESCE(TRY_CAST(x AS TIMESTAMPTZ), CASE WHEN x IS NULL THEN NULL ELSE error(printf('Invalid timestamp: ''%s''', x)) END)",
    ),
    "to_interval": ("(x INTERVAL) AS x", "(x VARCHAR) AS bq_parse_interval(x)"),
    "numeric": (
        f"(x {_N}) AS x",
        f"(x BIGINT) AS CAST(x AS {_N})",
        f"(x BOOLEAN) AS CAST(CAST(x AS BIGINT) AS {_N})",
        f"(x DOUBLE) AS COALESCE(TRY_CAST(x AS {_N}), CASE WHEN x IS NULL THEN NULL ELSE error(printf('Invalid NUMERIC value: %s', bq_float_text(x))) END)",
        f"(x VARCHAR) AS COALESCE(TRY_CAST(trim(x) AS {_N}), CASE WHEN x IS NULL THEN NULL ELSE error(printf('Invalid NUMERIC value: %s', x)) END)",
    ),
    "bignumeric": (
        f"(x BIGINT) AS CAST(x AS {_B})",
        f"(x {_N}) AS CAST(x AS {_B})",
        f"(x DOUBLE) AS CAST(x AS {_B})",
        f"(x VARCHAR) AS COALESCE(TRY_CAST(bq_bignumeric_digits(trim(x)) AS {_B}), CASE WHEN x IS NULL THEN NULL ELSE error(printf('Invalid BIGNUMERIC value: %s', x)) END)",
    ),
    **{
        f"to_range_{kind}": (
            f"(x VARCHAR) AS CASE WHEN x IS NULL THEN NULL ELSE struct_pack(\"range$start\" := CASE WHEN upper(trim(split_part(x[2:-2], ',', 1))) "
            f"IN ('UNBOUNDED', 'NULL') THEN NULL ELSE bq_to_{cast}(trim(split_part(x[2:-2], ',', 1))) END, \"range$end\" := CASE WHEN "
            f"upper(trim(split_part(x[2:-2], ',', 2))) IN ('UNBOUNDED', 'NULL') THEN NULL ELSE bq_to_{cast}(trim(split_part(x[2:-2], ',', 2))) END) END",
            f'(x STRUCT("range$start" {kind}, "range$end" {kind})) AS x',
        )
        for kind, cast in (("date", "date"), ("timestamp", "datetime"), ("timestamptz", "timestamp"))
    },
    # -- intervals
    **{
        f"interval_{unit}": (f"(x) AS {function}(CAST(x AS {kind}))",)
        for unit, function, kind in (
            ("year", "to_years", "INTEGER"),
            ("quarter", "to_quarters", "INTEGER"),
            ("month", "to_months", "INTEGER"),
            ("week", "to_weeks", "INTEGER"),
            ("day", "to_days", "INTEGER"),
            ("hour", "to_hours", "BIGINT"),
            ("minute", "to_minutes", "BIGINT"),
            ("second", "to_seconds", "BIGINT"),
            ("microsecond", "to_microseconds", "BIGINT"),
        )
    },
    "interval_millisecond": ("(x) AS to_microseconds(CAST(x AS BIGINT) * 1000)",),
    "parse_interval": (
        "(x) AS to_months(CAST(bq_interval_parts(x)[1] AS INTEGER)) + to_days(CAST(bq_interval_parts(x)[2] AS INTEGER)) "
        "+ to_microseconds(bq_interval_parts(x)[3])",
    ),
    "interval_text": (
        "(x) AS bq_interval_form(CAST(datepart('year', x) * 12 + datepart('month', x) AS BIGINT), CAST(datepart('day', x) AS BIGINT), "
        "CAST(bq_interval_micros(x) AS BIGINT))",
    ),
    "interval_divide": (
        "(x, y) AS to_months(CAST((datepart('year', x) * 12 + datepart('month', x)) // y AS INTEGER)) + to_days(CAST(datepart('day', x) // y AS INTEGER)) "
        "+ to_microseconds(CAST((bq_interval_micros(x) + (datepart('day', x) % y) * 86400000000) // y AS BIGINT))",
    ),
    # 1: hours to days, 2: days to months, 3: both.
    "justify": (
        "(x, mode) AS bq_parse_interval(bq_interval_justified(CAST(datepart('year', x) * 12 + datepart('month', x) AS BIGINT), "
        "CAST(datepart('day', x) AS BIGINT), CAST(bq_interval_micros(x) AS BIGINT), mode))",
    ),
    "interval_micros": (
        "(x) AS datepart('microsecond', x) + 60000000 * (datepart('minute', x) + 60 * datepart('hour', x))",
    ),
    # -- parts of times
    **{
        f"extract_{part}": _all("x", f"CAST(datepart('{name}', x) AS BIGINT)", *kinds)
        for part, name, kinds in (
            ("year", "year", _DATES),
            ("month", "month", _DATES),
            ("quarter", "quarter", _TIMES[:3]),
            ("day", "day", _DATES),
            ("dayofyear", "doy", _TIMES[:3]),
            ("hour", "hour", _TIMES[1:]),
            ("minute", "minute", _TIMES[1:]),
            ("second", "second", _TIMES[1:]),
            ("isoyear", "isoyear", _TIMES[:3]),
            ("isoweek", "week", _TIMES[:3]),
        )
    },
    "extract_dayofweek": _all("x", "CAST(datepart('dow', x) + 1 AS BIGINT)", *_TIMES[:3]),
    "extract_week": _all("x", "CAST(strftime(x, '%U') AS BIGINT)", *_TIMES[:3]),
    **{
        f"extract_week_{day}": _all(
            "x",
            f"CAST((datepart('doy', x) + 6 - ((datepart('dow', x) - {number} + 7) % 7)) // 7 AS BIGINT)",
            *_TIMES[:3],
        )
        for number, day in enumerate(
            ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
        )
    },
    "extract_millisecond": _all("x", "CAST(datepart('millisecond', x) % 1000 AS BIGINT)", *_TIMES[1:]),
    "extract_microsecond": _all("x", "CAST(datepart('microsecond', x) % 1000000 AS BIGINT)", *_TIMES[1:]),
    "add_date": (
        "(x DATE, y INTERVAL) AS CAST(x + y AS DATE)",
        "(x TIMESTAMP, y INTERVAL) AS x + y",
        "(x TIMESTAMPTZ, y INTERVAL) AS x + y",
    ),
    "add_datetime": ("(x TIMESTAMP, y INTERVAL) AS x + y",),
    "add_timestamp": ("(x TIMESTAMPTZ, y INTERVAL) AS x + y",),
    "add_time": ("(x TIME, y INTERVAL) AS x + y",),
    "week_of": (
        "(x DATE, shift) AS CAST(floor((date_diff('day', DATE '1970-01-01', x) + shift) / 7.0) AS BIGINT)",
    ),
    "trunc_week": (
        "(x DATE, shift) AS CAST(x - to_days(CAST((datepart('dow', x) - shift + 7) % 7 AS INTEGER)) AS DATE)",
        "(x TIMESTAMP, shift) AS CAST(CAST(x AS DATE) - to_days(CAST((datepart('dow', x) - shift + 7) % 7 AS INTEGER)) AS TIMESTAMP)",
    ),
    "trunc_isoyear": (
        "(x DATE) AS CAST(date_trunc('week', make_date(datepart('isoyear', x), 1, 4)) AS DATE)",
        "(x TIMESTAMP) AS CAST(date_trunc('week', make_date(datepart('isoyear', x), 1, 4)) AS TIMESTAMP)",
    ),
    "trunc_to": (
        "(x DATE, unit VARCHAR) AS CAST(date_trunc(unit, x) AS DATE)",
        "(x TIMESTAMP, unit VARCHAR) AS CAST(date_trunc(unit, x) AS TIMESTAMP)",
        "(x TIME, unit VARCHAR) AS CAST(date_trunc(unit, DATE '2000-01-01' + x) AS TIME)",
    ),
    "zoned_trunc_to": (
        "(x TIMESTAMPTZ, unit VARCHAR, zone) AS bq_instant(bq_trunc_to(bq_local(x, zone), unit), zone)",
    ),
    "zoned_trunc_week": (
        "(x TIMESTAMPTZ, shift, zone) AS bq_instant(bq_trunc_week(bq_local(x, zone), shift), zone)",
    ),
    "zoned_trunc_isoyear": (
        "(x TIMESTAMPTZ, zone) AS bq_instant(bq_trunc_isoyear(bq_local(x, zone)), zone)",
    ),
    "format_zoned": ("(form, x TIMESTAMPTZ, zone) AS bq_format_moment(form, bq_local(x, zone), zone)",),
    # -- JSON
    "json_scalar": (
        "(x, path) AS CASE WHEN json_type(x, path) IN ('OBJECT', 'ARRAY', 'NULL') THEN NULL ELSE json_extract_string(x, path) END",
    ),
    "json_list": (
        "(x, path) AS CASE WHEN json_type(x, path) = 'ARRAY' THEN json_extract(x, path || '[*]') END",
    ),
    "avg": (
        f"(x {_N}) AS bq_numeric_divide(CAST(SUM(x) AS {_N}), CAST(COUNT(x) AS {_N}))",
        "(x DOUBLE) AS AVG(x)",
    ),
    "avg_listed": (
        f"(x {_N}[]) AS CASE WHEN list_count(x) > 0 THEN bq_numeric_divide(CAST(list_sum(x) AS {_N}), CAST(list_count(x) AS {_N})) END",
        "(x DOUBLE[]) AS list_avg(x)",
    ),
    "narrow": ("(x HUGEINT) AS CAST(x AS BIGINT)", "(x DOUBLE) AS x", f"(x {_N}) AS x", "(x INTERVAL) AS x"),
    "debug": (  # %T
        "(x VARCHAR) AS bq_quote(x)",
        "(x BOOLEAN) AS CAST(x AS VARCHAR)",
        "(x BIGINT) AS CAST(x AS VARCHAR)",
        "(x DOUBLE) AS CASE WHEN x = floor(x) AND abs(x) < 1e15 THEN bq_float_text(x) || '.0' ELSE bq_float_text(x) END",
        f"(x {_N}) AS 'NUMERIC \"' || bq_string(x) || '\"'",
        "(x DATE) AS 'DATE \"' || bq_string(x) || '\"'",
        "(x TIMESTAMP) AS 'DATETIME \"' || bq_string(x) || '\"'",
        "(x TIMESTAMPTZ) AS 'TIMESTAMP \"' || bq_string(x) || '\"'",
        "(x TIME) AS 'TIME \"' || bq_string(x) || '\"'",
        "(x VARCHAR[]) AS '[' || array_to_string(list_transform(x, lambda e: bq_quote(e)), ', ') || ']'",
        "(x BIGINT[]) AS '[' || array_to_string(list_transform(x, lambda e: CAST(e AS VARCHAR)), ', ') || ']'",
    ),
}

MACROS: Final[dict[str, tuple[str, ...]]] = {
    **GEO_MACROS,
    # -- text
    "length": ("(x VARCHAR) AS length(x)", "(x BLOB) AS octet_length(x)"),
    "char_length": ("(x VARCHAR) AS length(x)",),
    "byte_length": ("(x VARCHAR) AS strlen(x)", "(x BLOB) AS octet_length(x)"),
    "upper": ("(x VARCHAR) AS replace(upper(x), 'ẞ', 'SS')", "(x BLOB) AS encode(upper(decode(x)))"),
    "lower": ("(x VARCHAR) AS lower(x)", "(x BLOB) AS encode(lower(decode(x)))"),
    "substr": (
        "(x VARCHAR, start BIGINT) AS substring(x, CASE WHEN start = 0 OR start < -length(x) THEN 1 ELSE start END)",
        "(x VARCHAR, start BIGINT, size BIGINT) AS CASE WHEN size < 0 THEN error('Third argument in SUBSTR() cannot be negative') "
        "ELSE substring(x, CASE WHEN start = 0 OR start < -length(x) THEN 1 ELSE start END, size) END",
        "(x BLOB, start BIGINT) AS bq_bytes_slice(x, start, NULL)",
        "(x BLOB, start BIGINT, size BIGINT) AS bq_bytes_slice(x, start, size)",
    ),
    "starts_with": (
        "(x VARCHAR, y VARCHAR) AS starts_with(x, y)",
        "(x BLOB, y BLOB) AS starts_with(hex(x), hex(y))",
    ),
    "ends_with": ("(x VARCHAR, y VARCHAR) AS suffix(x, y)", "(x BLOB, y BLOB) AS suffix(hex(x), hex(y))"),
    "strpos": ("(x VARCHAR, y VARCHAR) AS instr(x, y)",),
    "instr": (
        "(x VARCHAR, y VARCHAR) AS instr(x, y)",
        "(x VARCHAR, y VARCHAR, start) AS bq_instr_from(x, y, start, 1)",
        "(x VARCHAR, y VARCHAR, start, nth) AS bq_instr_from(x, y, start, nth)",
    ),
    "trim": (
        "(x VARCHAR) AS bq_strip(x, NULL, 3)",
        "(x VARCHAR, y VARCHAR) AS trim(x, y)",
        "(x BLOB, y BLOB) AS encode(trim(decode(x), decode(y)))",
    ),
    "ltrim": (
        "(x VARCHAR) AS bq_strip(x, NULL, 1)",
        "(x VARCHAR, y VARCHAR) AS ltrim(x, y)",
        "(x BLOB, y BLOB) AS encode(ltrim(decode(x), decode(y)))",
    ),
    "rtrim": (
        "(x VARCHAR) AS bq_strip(x, NULL, 2)",
        "(x VARCHAR, y VARCHAR) AS rtrim(x, y)",
        "(x BLOB, y BLOB) AS encode(rtrim(decode(x), decode(y)))",
    ),
    "replace": (
        "(x VARCHAR, y VARCHAR, z VARCHAR) AS CASE WHEN y = '' THEN x ELSE replace(x, y, bq_replacing(x, z)) END",
    ),
    "reverse": ("(x VARCHAR) AS reverse(x)", "(x BLOB) AS bq_reverse_bytes(x)"),
    "repeat": (
        "(x VARCHAR, n BIGINT) AS repeat(x, bq_repeats(n, strlen(x)))",
        "(x BLOB, n BIGINT) AS repeat(x, bq_repeats(n, octet_length(x)))",
    ),
    "left": ("(x VARCHAR, n) AS x[:n]", "(x BLOB, n) AS bq_bytes_slice(x, 1, n)"),
    "right": ("(x VARCHAR, n) AS right(x, n)", "(x BLOB, n) AS bq_bytes_slice(x, -n, n)"),
    "lpad": (
        "(x VARCHAR, n) AS lpad(x, bq_padded(n), ' ')",
        "(x VARCHAR, n, y VARCHAR) AS lpad(x, bq_padded(n), y)",
    ),
    "rpad": (
        "(x VARCHAR, n) AS rpad(x, bq_padded(n), ' ')",
        "(x VARCHAR, n, y VARCHAR) AS rpad(x, bq_padded(n), y)",
    ),
    "split": (
        "(x VARCHAR) AS CASE WHEN x = '' THEN [''] ELSE string_split(x, ',') END",
        "(x VARCHAR, y VARCHAR) AS CASE WHEN x = '' THEN [''] WHEN y = '' THEN regexp_extract_all(x, '(?s).') ELSE string_split(x, y) END",
        "(x BLOB, y BLOB) AS list_transform(string_split(decode(x), decode(y)), lambda e: encode(e))",
    ),
    "initcap": ("(x VARCHAR) AS bq_capitals(x, NULL)", "(x VARCHAR, y VARCHAR) AS bq_capitals(x, y)"),
    "ascii": ("(x VARCHAR) AS CASE WHEN x = '' THEN 0 ELSE ascii(x) END",),
    "unicode": ("(x VARCHAR) AS CASE WHEN x = '' THEN 0 ELSE unicode(x) END",),
    "chr": ("(x) AS CASE WHEN x = 0 THEN '' ELSE chr(CAST(x AS INTEGER)) END",),
    "translate": ("(x VARCHAR, y VARCHAR, z VARCHAR) AS translate(x, y, z)",),
    "contains_substr": (
        "(x VARCHAR, y VARCHAR) AS contains(lower(x), lower(y))",
        "(x, y) AS contains(lower(CAST(x AS VARCHAR)), lower(y))",
    ),
    "edit_distance": (
        "(x VARCHAR, y VARCHAR) AS levenshtein(x, bq_comparable(x, y))",
        "(x VARCHAR, y VARCHAR, max_distance) AS least(levenshtein(x, bq_comparable(x, y)), max_distance)",
    ),
    "to_hex": ("(x BLOB) AS lower(hex(x))",),
    "from_hex": ("(x VARCHAR) AS unhex(CASE WHEN length(x) % 2 = 1 THEN '0' || x ELSE x END)",),
    "to_base64": ("(x BLOB) AS to_base64(x)",),
    "from_base64": ("(x VARCHAR) AS from_base64(x)",),
    "md5": ("(x VARCHAR) AS unhex(md5(x))", "(x BLOB) AS unhex(md5(x))"),
    "sha1": ("(x VARCHAR) AS unhex(sha1(x))", "(x BLOB) AS unhex(sha1(x))"),
    "sha256": ("(x VARCHAR) AS unhex(sha256(x))", "(x BLOB) AS unhex(sha256(x))"),
    "sha512": ("(x VARCHAR) AS bq_sha512_of(encode(x))", "(x BLOB) AS bq_sha512_of(x)"),
    "farm_fingerprint": ("(x VARCHAR) AS bq_farm_of(encode(x))", "(x BLOB) AS bq_farm_of(x)"),
    "generate_uuid": ("() AS CAST(uuid() AS VARCHAR)",),
    "collate": (
        "(x VARCHAR, y VARCHAR) AS CASE WHEN y IN ('und:ci', '') THEN CASE WHEN y = '' THEN x ELSE lower(x) END ELSE error(printf('Collation ''%s'' in collate function is not supported.', y)) END",
    ),
    "regexp_contains": (
        "(x VARCHAR, y VARCHAR) AS regexp_matches(x, y)",
        "(x BLOB, y BLOB) AS regexp_matches(decode(x), decode(y))",
    ),
    "regexp_extract": (
        "(x VARCHAR, y VARCHAR) AS CASE WHEN NOT regexp_matches(x, y) THEN NULL WHEN bq_has_group(y) THEN regexp_extract(x, y, 1) ELSE regexp_extract(x, y, 0) END",
        "(x VARCHAR, y VARCHAR, start) AS bq_regexp_find(x, y, start, 1)",
        "(x VARCHAR, y VARCHAR, start, nth) AS bq_regexp_find(x, y, start, nth)",
    ),
    "regexp_instr": (
        "(x VARCHAR, y VARCHAR) AS bq_regexp_place(x, y, 1, 1, 0)",
        "(x VARCHAR, y VARCHAR, start) AS bq_regexp_place(x, y, start, 1, 0)",
        "(x VARCHAR, y VARCHAR, start, nth) AS bq_regexp_place(x, y, start, nth, 0)",
        "(x VARCHAR, y VARCHAR, start, nth, after) AS bq_regexp_place(x, y, start, nth, after)",
    ),
    "regexp_extract_all": (
        "(x VARCHAR, y VARCHAR) AS CASE WHEN bq_has_group(y) THEN regexp_extract_all(x, y, 1) ELSE regexp_extract_all(x, y, 0) END",
    ),
    "regexp_replace": ("(x VARCHAR, y VARCHAR, z VARCHAR) AS regexp_replace(x, y, bq_replacing(x, z), 'g')",),
    # -- numbers
    "abs": _all("x", "abs(x)", "BIGINT", _N, "DOUBLE"),
    "sign": (
        "(x BIGINT) AS CAST(sign(x) AS BIGINT)",
        f"(x {_N}) AS CAST(sign(x) AS {_N})",
        "(x DOUBLE) AS CASE WHEN isnan(x) THEN x ELSE CAST(sign(x) AS DOUBLE) END",
    ),
    "mod": (
        "(x BIGINT, y BIGINT) AS CASE WHEN y = 0 THEN error(printf('division by zero: MOD(%d, 0)', x)) ELSE x % y END",
        f"(x {_N}, y {_N}) AS CASE WHEN y = 0 THEN error('division by zero: MOD') ELSE x % y END",
    ),
    "div": (
        "(x BIGINT, y BIGINT) AS CASE WHEN y = 0 THEN error(printf('division by zero: %d / %d', x, y)) ELSE x // y END",
        f"(x {_N}, y {_N}) AS CASE WHEN y = 0 THEN error('division by zero: DIV') ELSE bq_numeric_div(x, y) END",
    ),
    "safe_divide": (
        f"(x {_N}, y {_N}) AS CASE WHEN y = 0 THEN NULL ELSE bq_numeric_divide(x, y) END",
        "(x BIGINT, y BIGINT) AS CASE WHEN y = 0 THEN NULL ELSE CAST(x AS DOUBLE) / y END",
        "(x DOUBLE, y DOUBLE) AS CASE WHEN y = 0 THEN NULL ELSE x / y END",
    ),
    "ieee_divide": (
        "(x DOUBLE, y DOUBLE) AS CASE WHEN y = 0 THEN CASE WHEN x = 0 OR isnan(x) THEN CAST('nan' AS DOUBLE) WHEN x > 0 THEN CAST('inf' AS DOUBLE) ELSE CAST('-inf' AS DOUBLE) END ELSE x / y END",
    ),
    "round": (
        f"(x {_N}) AS CAST(round(x) AS {_N})",
        f"(x {_N}, n BIGINT) AS bq_numeric_round(x, n)",
        f"(x {_N}, n BIGINT, mode VARCHAR) AS CASE WHEN mode = 'ROUND_HALF_EVEN' THEN bq_numeric_round_even(x, n) ELSE bq_numeric_round(x, n) END",
        "(x DOUBLE) AS round(x)",
        "(x DOUBLE, n BIGINT) AS bq_float_round(x, n)",
    ),
    "trunc": (
        f"(x {_N}) AS CAST(trunc(x) AS {_N})",
        f"(x {_N}, n BIGINT) AS bq_numeric_trunc(x, n)",
        "(x DOUBLE) AS trunc(x)",
        "(x DOUBLE, n BIGINT) AS trunc(x * pow(10, n)) / pow(10, n)",
    ),
    "ceil": (f"(x {_N}) AS CAST(ceil(x) AS {_N})", "(x DOUBLE) AS ceil(x)"),
    "floor": (f"(x {_N}) AS CAST(floor(x) AS {_N})", "(x DOUBLE) AS floor(x)"),
    "pow": (
        f"(x {_N}, y {_N}) AS bq_approximate(pow(CAST(x AS DOUBLE), CAST(y AS DOUBLE)))",
        "(x BIGINT, y BIGINT) AS pow(CAST(x AS DOUBLE), CAST(y AS DOUBLE))",
        "(x DOUBLE, y DOUBLE) AS pow(x, y)",
    ),
    "sqrt": (
        f"(x {_N}) AS bq_approximate(sqrt(CAST(x AS DOUBLE)))",
        "(x DOUBLE) AS CASE WHEN x < 0 THEN error(printf('Argument to SQRT cannot be negative: %s', bq_float_text(x))) ELSE sqrt(x) END",
    ),
    "ln": (
        "(x DOUBLE) AS CASE WHEN x <= 0 THEN error(printf('Argument to LN must be positive: %s', bq_float_text(x))) ELSE ln(x) END",
        f"(x {_N}) AS bq_approximate(ln(CAST(x AS DOUBLE)))",
    ),
    "log": (
        "(x DOUBLE) AS CASE WHEN x <= 0 THEN error(printf('Argument to LOG must be positive: %s', bq_float_text(x))) ELSE ln(x) END",
        "(x DOUBLE, y DOUBLE) AS ln(x) / ln(y)",
    ),
    "log10": (
        "(x DOUBLE) AS CASE WHEN x <= 0 THEN error('Argument to LOG10 must be positive') ELSE log10(x) END",
    ),
    **{
        name: _float(name)
        for name in [
            "exp",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "cbrt",
            "cot",
        ]
    },
    "atan2": ("(x, y) AS atan2(CAST(x AS DOUBLE), CAST(y AS DOUBLE))",),
    "csc": ("(x) AS 1 / sin(CAST(x AS DOUBLE))",),
    "sec": ("(x) AS 1 / cos(CAST(x AS DOUBLE))",),
    "coth": ("(x) AS 1 / tanh(CAST(x AS DOUBLE))",),
    "csch": ("(x) AS 1 / sinh(CAST(x AS DOUBLE))",),
    "sech": ("(x) AS 1 / cosh(CAST(x AS DOUBLE))",),
    "is_nan": ("(x) AS isnan(CAST(x AS DOUBLE))",),
    "is_inf": ("(x) AS isinf(CAST(x AS DOUBLE))",),
    "rand": ("() AS random()",),
    "bit_count": ("(x BIGINT) AS bit_count(x)", "(x BLOB) AS bq_count_bits(x)"),
    "range_bucket": (
        "(x, bounds) AS CASE WHEN x IS NULL OR bounds IS NULL THEN NULL ELSE len(list_filter(bounds, lambda e: e <= x)) END",
    ),
    "parse_numeric": (f"(x VARCHAR) AS CAST(bq_number_text(x) AS {_N})",),
    "parse_bignumeric": (f"(x VARCHAR) AS CAST(bq_bignumeric_digits(bq_number_text(x)) AS {_B})",),
    "euclidean_distance": ("(x, y) AS list_distance(CAST(x AS DOUBLE[]), CAST(y AS DOUBLE[]))",),
    "cosine_distance": ("(x, y) AS list_cosine_distance(CAST(x AS DOUBLE[]), CAST(y AS DOUBLE[]))",),
    # -- arrays
    "array_length": ("(x) AS CAST(len(x) AS BIGINT)",),
    "array_reverse": ("(x) AS list_reverse(x)",),
    "array_to_string": (
        "(x VARCHAR[], y VARCHAR) AS (bq_join(list_filter(x, lambda e: e IS NOT NULL), y))",
        "(x VARCHAR[], y VARCHAR, z VARCHAR) AS (bq_join(list_filter(list_transform(x, lambda e: COALESCE(e, z)), lambda e: e IS NOT NULL), y))",
    ),
    "generate_array": (
        "(x BIGINT, y BIGINT) AS generate_series(x, bq_bounded_end(x, y, 1))",
        "(x BIGINT, y BIGINT, step BIGINT) AS CASE WHEN step = 0 THEN error('Sequence step cannot be 0.') ELSE generate_series(x, bq_bounded_end(x, y, step), step) END",
        f"(x {_N}, y {_N}, step {_N}) AS list_transform(generate_series(CAST(0 AS BIGINT), bq_elements(floor((y - x) / step))), lambda i: CAST(x + i * step AS {_N}))",
        "(x DOUBLE, y DOUBLE) AS list_transform(generate_series(CAST(0 AS BIGINT), bq_elements(floor(y - x))), lambda i: x + i)",
        "(x DOUBLE, y DOUBLE, step DOUBLE) AS list_transform(generate_series(CAST(0 AS BIGINT), bq_elements(floor((y - x) / step + 1e-9))), lambda i: x + i * step)",
    ),
    "generate_date_array": (
        "(x DATE, y DATE) AS list_transform(generate_series(CAST(x AS TIMESTAMP), CAST(y AS TIMESTAMP), to_days(1)), lambda e: CAST(e AS DATE))",
        "(x DATE, y DATE, step INTERVAL) AS list_transform(generate_series(CAST(x AS TIMESTAMP), CAST(y AS TIMESTAMP), step), lambda e: CAST(e AS DATE))",
    ),
    "generate_timestamp_array": (
        "(x TIMESTAMPTZ, y TIMESTAMPTZ, step INTERVAL) AS generate_series(x, CASE WHEN bq_elements(abs(epoch_us(y) - epoch_us(x)) / greatest(1, abs(epoch_us(step)))) < 0 THEN x ELSE y END, step)",
    ),
    "array_first": (
        "(x) AS CASE WHEN len(x) = 0 THEN error('ARRAY_FIRST cannot get the first element of an empty array') ELSE x[1] END",
    ),
    "array_last": (
        "(x) AS CASE WHEN len(x) = 0 THEN error('ARRAY_LAST cannot get the last element of an empty array') ELSE x[-1] END",
    ),
    "array_slice": (
        "(x, first, last) AS list_slice(x, CASE WHEN first < 0 THEN greatest(len(x) + first, 0) ELSE first END + 1, CASE WHEN last < 0 THEN len(x) + last ELSE last END + 1)",
    ),
    "array_includes": ("(x, y) AS list_contains(x, y)",),
    "array_includes_any": ("(x, y) AS list_has_any(x, y)",),
    "array_includes_all": ("(x, y) AS list_has_all(x, y)",),
    "array_is_distinct": ("(x) AS len(list_distinct(x)) = len(list_filter(x, lambda e: e IS NOT NULL))",),
    "array_max": ("(x) AS list_max(x)",),
    "array_min": ("(x) AS list_min(x)",),
    "array_sum": ("(x) AS list_sum(x)",),
    "array_avg": ("(x) AS list_avg(x)",),
    "array_distinct": ("(x) AS list_distinct(x)",),
    "flatten": ("(x) AS flatten(x)",),
    # -- times
    "date": (
        "(x TIMESTAMP) AS CAST(x AS DATE)",
        "(x TIMESTAMPTZ) AS CAST(timezone('UTC', x) AS DATE)",
        "(x DATE) AS x",
        "(x VARCHAR) AS bq_to_date(x)",
        "(x TIMESTAMPTZ, zone) AS CAST(bq_local(x, zone) AS DATE)",
        "(x BIGINT, y BIGINT, z BIGINT) AS make_date(x, y, z)",
    ),
    "datetime": (
        "(x DATE) AS CAST(x AS TIMESTAMP)",
        "(x TIMESTAMP) AS x",
        "(x TIMESTAMPTZ) AS timezone('UTC', x)",
        "(x VARCHAR) AS bq_to_datetime(x)",
        "(x DATE, y TIME) AS x + y",
        "(x TIMESTAMPTZ, zone VARCHAR) AS bq_local(x, zone)",
        "(x BIGINT, y BIGINT, z BIGINT, h BIGINT, m BIGINT, s BIGINT) AS make_timestamp(x, y, z, h, m, CAST(s AS DOUBLE))",
    ),
    "timestamp": (
        "(x TIMESTAMPTZ) AS x",
        "(x DATE) AS timezone('UTC', CAST(x AS TIMESTAMP))",
        "(x TIMESTAMP) AS timezone('UTC', x)",
        "(x VARCHAR) AS bq_to_timestamp(x)",
        "(x VARCHAR, zone) AS bq_instant(bq_to_datetime(x), zone)",
        "(x DATE, zone) AS bq_instant(CAST(x AS TIMESTAMP), zone)",
        "(x TIMESTAMP, zone) AS bq_instant(x, zone)",
    ),
    "time": (
        "(x TIME) AS x",
        "(x TIMESTAMP) AS CAST(x AS TIME)",
        "(x TIMESTAMPTZ) AS CAST(timezone('UTC', x) AS TIME)",
        "(x TIMESTAMPTZ, zone VARCHAR) AS CAST(bq_local(x, zone) AS TIME)",
        "(x BIGINT, y BIGINT, z BIGINT) AS make_time(x, y, CAST(z AS DOUBLE))",
    ),
    "unix_date": ("(x DATE) AS CAST(date_diff('day', DATE '1970-01-01', x) AS BIGINT)",),
    "unix_seconds": ("(x TIMESTAMPTZ) AS CAST(floor(epoch_us(x) / 1000000.0) AS BIGINT)",),
    "unix_millis": ("(x TIMESTAMPTZ) AS CAST(floor(epoch_us(x) / 1000.0) AS BIGINT)",),
    "unix_micros": ("(x TIMESTAMPTZ) AS epoch_us(x)",),
    "timestamp_seconds": ("(x) AS make_timestamptz(CAST(x AS BIGINT) * 1000000)",),
    "timestamp_millis": ("(x) AS make_timestamptz(CAST(x AS BIGINT) * 1000)",),
    "timestamp_micros": ("(x) AS make_timestamptz(CAST(x AS BIGINT))",),
    "date_from_unix_date": ("(x) AS DATE '1970-01-01' + CAST(x AS INTEGER)",),
    "justify_hours": ("(x) AS bq_justify(x, 1)",),
    "justify_days": ("(x) AS bq_justify(x, 2)",),
    "justify_interval": ("(x) AS bq_justify(x, 3)",),
    # -- JSON
    "json_string": (
        "(x JSON) AS CASE WHEN json_type(x) = 'VARCHAR' THEN x ->> '$' WHEN x IS NULL THEN NULL ELSE error('The provided JSON input is not a string') END",
        *(f"(x {kind}) AS bq_string(x)" for kind in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ")),
        "(x TIMESTAMPTZ, zone) AS bq_string(x, zone)",
    ),
    "json_int64": (
        "(x JSON) AS CASE WHEN json_type(x) IN ('BIGINT', 'UBIGINT') THEN CAST(x AS BIGINT) WHEN json_type(x) = 'DOUBLE' AND CAST(x AS DOUBLE) = floor(CAST(x AS DOUBLE)) THEN CAST(CAST(x AS DOUBLE) AS BIGINT) "
        "WHEN x IS NULL THEN NULL ELSE error('The provided JSON input is not an integer') END",
    ),
    "json_float64": (
        "(x JSON) AS CASE WHEN json_type(x) IN ('BIGINT', 'UBIGINT', 'DOUBLE') THEN CAST(x AS DOUBLE) WHEN x IS NULL THEN NULL ELSE error('The provided JSON input is not a number') END",
        "(x JSON, wide_number_mode) AS CASE WHEN json_type(x) IN ('BIGINT', 'UBIGINT', 'DOUBLE') THEN CAST(x AS DOUBLE) WHEN x IS NULL THEN NULL ELSE error('The provided JSON input is not a number') END",
    ),
    "json_bool": (
        "(x JSON) AS CASE WHEN json_type(x) = 'BOOLEAN' THEN CAST(x AS BOOLEAN) WHEN x IS NULL THEN NULL ELSE error('The provided JSON input is not a boolean') END",
    ),
    "parse_json": (
        "(x VARCHAR) AS CAST(bq_json_check(x) AS JSON)",
        "(x VARCHAR, wide_number_mode) AS CAST(bq_json_check(x) AS JSON)",
    ),
    "to_json": ("(x JSON) AS x", "(x) AS to_json(x)", "(x, stringify_wide_numbers) AS to_json(x)"),
    "to_json_string": (
        "(x) AS bq_json_text(CAST(to_json(x) AS VARCHAR), false)",
        "(x, pretty) AS bq_json_text(CAST(to_json(x) AS VARCHAR), pretty)",
    ),
    "json_value": ("(x) AS bq_json_scalar(x, '$')", "(x, path) AS bq_json_scalar(x, bq_json_path(path))"),
    "json_query": (
        "(x JSON) AS x",
        "(x JSON, path) AS json_extract(x, bq_json_path(path))",
        "(x VARCHAR) AS x",
        "(x VARCHAR, path) AS CAST(json_extract(x, bq_json_path(path)) AS VARCHAR)",
    ),
    "json_query_array": (
        "(x JSON) AS bq_json_list(x, '$')",
        "(x JSON, path) AS bq_json_list(x, bq_json_path(path))",
        "(x VARCHAR) AS CAST(bq_json_list(x, '$') AS VARCHAR[])",
        "(x VARCHAR, path) AS CAST(bq_json_list(x, bq_json_path(path)) AS VARCHAR[])",
    ),
    "json_value_array": (
        "(x) AS list_transform(bq_json_list(x, '$'), lambda e: e ->> '$')",
        "(x, path) AS list_transform(bq_json_list(x, bq_json_path(path)), lambda e: e ->> '$')",
    ),
    "json_type": (
        "(x) AS CASE json_type(x) WHEN 'VARCHAR' THEN 'string' WHEN 'BOOLEAN' THEN 'boolean' WHEN 'OBJECT' THEN 'object' WHEN 'ARRAY' THEN 'array' WHEN 'NULL' THEN 'null' WHEN 'BIGINT' THEN 'number' WHEN 'UBIGINT' THEN 'number' WHEN 'DOUBLE' THEN 'number' END",
    ),
    "json_array_length": ("(x) AS json_array_length(x)",),
    "lax_string": (
        "(x JSON) AS CASE WHEN json_type(x) IN ('OBJECT', 'ARRAY', 'NULL') THEN NULL ELSE x ->> '$' END",
    ),
    "lax_int64": (
        "(x JSON) AS CASE json_type(x) WHEN 'BOOLEAN' THEN CAST(CAST(x AS BOOLEAN) AS BIGINT) WHEN 'OBJECT' THEN NULL WHEN 'ARRAY' THEN NULL ELSE CAST(round(TRY_CAST(x ->> '$' AS DOUBLE)) AS BIGINT) END",
    ),
    "lax_float64": (
        "(x JSON) AS CASE WHEN json_type(x) IN ('OBJECT', 'ARRAY', 'NULL', 'BOOLEAN') THEN NULL ELSE TRY_CAST(x ->> '$' AS DOUBLE) END",
    ),
    "lax_bool": (
        "(x JSON) AS CASE json_type(x) WHEN 'BOOLEAN' THEN CAST(x AS BOOLEAN) WHEN 'VARCHAR' THEN CASE lower(x ->> '$') WHEN 'true' THEN true WHEN 'false' THEN false END WHEN 'BIGINT' THEN CAST(x AS BIGINT) <> 0 WHEN 'UBIGINT' THEN CAST(x AS BIGINT) <> 0 WHEN 'DOUBLE' THEN CAST(x AS DOUBLE) <> 0 END",
    ),
    # -- ranges
    "range_start": ('(x) AS x."range$start"',),
    "range_end": ('(x) AS x."range$end"',),
    "range": (
        '(x DATE, y DATE) AS CASE WHEN x >= y THEN error(\'Range start must be less than range end\') ELSE struct_pack("range$start" := x, "range$end" := y) END',
        '(x TIMESTAMP, y TIMESTAMP) AS struct_pack("range$start" := x, "range$end" := y)',
        '(x TIMESTAMPTZ, y TIMESTAMPTZ) AS struct_pack("range$start" := x, "range$end" := y)',
    ),
    "range_overlaps": (
        '(x, y) AS (x."range$start" IS NULL OR y."range$end" IS NULL OR x."range$start" < y."range$end") AND (y."range$start" IS NULL OR x."range$end" IS NULL OR y."range$start" < x."range$end")',
    ),
    "range_intersect": (
        '(x, y) AS struct_pack("range$start" := greatest(x."range$start", y."range$start"), "range$end" := least(x."range$end", y."range$end"))',
    ),
    "range_contains": (
        *(
            f'(x STRUCT("range$start" {kind}, "range$end" {kind}), y {kind}) AS (x."range$start" IS NULL OR x."range$start" <= y) AND (x."range$end" IS NULL OR y < x."range$end")'
            for kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
        ),
        *(
            f'(x STRUCT("range$start" {kind}, "range$end" {kind}), y STRUCT("range$start" {kind}, "range$end" {kind})) AS '
            '(x."range$start" IS NULL OR x."range$start" <= y."range$start") AND (x."range$end" IS NULL OR y."range$end" <= x."range$end")'
            for kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
        ),
    ),
    "generate_range_array": (
        '(x STRUCT("range$start" DATE, "range$end" DATE), step INTERVAL) AS list_transform(generate_series(CAST(x."range$start" AS TIMESTAMP), CAST(x."range$end" AS TIMESTAMP) - to_microseconds(1), step), '
        'lambda e: struct_pack("range$start" := CAST(e AS DATE), "range$end" := least(CAST(e + step AS DATE), x."range$end")))',
        '(x STRUCT("range$start" TIMESTAMP, "range$end" TIMESTAMP), step INTERVAL) AS list_transform(generate_series(x."range$start", x."range$end" - to_microseconds(1), step), '
        'lambda e: struct_pack("range$start" := e, "range$end" := least(e + step, x."range$end")))',
        '(x STRUCT("range$start" TIMESTAMPTZ, "range$end" TIMESTAMPTZ), step INTERVAL) AS list_transform(generate_series(x."range$start", x."range$end" - to_microseconds(1), step), '
        'lambda e: struct_pack("range$start" := e, "range$end" := least(e + step, x."range$end")))',
    ),
}

# Other names of the same functions.
MACROS.update(
    {
        name: MACROS[same]
        for name, same in {
            "character_length": "char_length",
            "octet_length": "byte_length",
            "regexp_substr": "regexp_extract",
            "ceiling": "ceil",
            "power": "pow",
            "json_extract_scalar": "json_value",
            "json_extract": "json_query",
            "json_extract_array": "json_query_array",
            "json_extract_string_array": "json_value_array",
        }.items()
    }
)

# What differs in a query with a BIGNUMERIC, besides the digits of decimals. See ``decimals.py``.
_OF_BIGNUMERIC: Final = {
    "decimal": ("(x VARCHAR) AS bq_bignumeric(x)",),
    "approximate": (
        f"(x DOUBLE) AS CAST(error('A query with BIGNUMERIC has no POW, SQRT and LN of decimals: cast them to FLOAT64') AS {_B})",
    ),
    # Casts to NUMERIC round as ever.
    **{name: (INTERNAL.get(name) or MACROS[name]) for name in ("numeric", "parse_numeric")},
}


def overloads_of(name: str, *, big: bool = False) -> tuple[str, ...]:
    """The overloads of a macro; empty if there is none.

    Args:
        name: Its name.
        big: Whether the query has a BIGNUMERIC.
    """
    if big and name in _OF_BIGNUMERIC:
        return _OF_BIGNUMERIC[name]
    found = INTERNAL.get(name) or MACROS.get(name) or ()
    return tuple(each.replace(_N, _B) for each in found) if big else found
