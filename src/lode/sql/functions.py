"""The functions that a query may call: by BigQuery's name, a macro, or how a call is written for DuckDB."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlglot import exp

from lode.sql.errors import QueryError
from lode.sql.macros import MACROS
from lode.sql.settled import LATE, NULLS, is_simple
from lode.sql.types import quoted, text

if TYPE_CHECKING:
    from collections.abc import Callable

    Writer: TypeAlias = Callable[[Any, Any], str]

PARTS: Final = frozenset(
    [
        "MICROSECOND",
        "MILLISECOND",
        "SECOND",
        "MINUTE",
        "HOUR",
        "DAYOFWEEK",
        "DAY",
        "DAYOFYEAR",
        "WEEK",
        "ISOWEEK",
        "MONTH",
        "QUARTER",
        "YEAR",
        "ISOYEAR",
        "DATE",
        "DATETIME",
        "TIME",
    ]
)
WEEKDAYS: Final = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
# The macros that make intervals, by their parts.
INTERVALS: Final = {
    part: f"bq_interval_{part.lower()}"
    for part in (
        *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"),
        *("MILLISECOND", "MICROSECOND"),
    )
}
# A result has as many values. The service has no number for it.
_MAX_QUANTILES: Final = 10_000


def once(value: str, write: Callable[[str], str]) -> str:
    """An expression that has a value several times. One that is no column or literal is computed once.

    Otherwise each level of a nested expression would multiply what is inside of it.
    """
    if is_simple(value):
        return write(value)
    return f'list_transform([{value}], lambda "o$": {write(quoted("o$"))})[1]'


def _arguments(generator: Any, node: Any) -> list[str]:
    return [generator.sql(each) for each in node.expressions]


def _unit(node: Any, number: int, default: str = "DAY") -> tuple[str, int]:
    """The date part at an argument, and the first day of its week."""
    if len(node.expressions) <= number:
        return default, 0
    part = node.expressions[number]
    name = part.name.upper()
    if name == "WEEK" and isinstance(part, exp.Anonymous):
        day = part.expressions[0].name.upper() if part.expressions else ""
        if day not in WEEKDAYS:
            raise QueryError(f"A valid date part argument for WEEK is required, but found {day}")
        return "WEEK", WEEKDAYS.index(day)
    if name not in PARTS:
        raise QueryError(f"A valid date part name is required but found {part.name}")
    return ("WEEK", 1) if name == "ISOWEEK" else (name, 0)


def _moved(kind: str, sign: str) -> Writer:
    def write(generator: Any, node: Any) -> str:
        value, interval = _arguments(generator, node)[:2]
        signed = interval if sign == "+" else f"(-1 * {interval})"
        return f"bq_add_{kind}({value}, {signed})"

    return write


def _difference(kind: str) -> Writer:
    cast = {
        "date": "bq_to_date",
        "datetime": "bq_to_datetime",
        "timestamp": "bq_to_timestamp",
        "time": "bq_to_time",
    }[kind]

    def write(generator: Any, node: Any) -> str:
        later, earlier = (f"{cast}({generator.sql(each)})" for each in node.expressions[:2])
        unit, first = _unit(node, 2)
        if unit == "WEEK":
            shift = (4 - first) % 7
            return f"(bq_week_of(bq_to_date({later}), {shift}) - bq_week_of(bq_to_date({earlier}), {shift}))"
        function = "date_sub" if kind == "timestamp" else "date_diff"
        return f"CAST({function}({text(unit.lower())}, {earlier}, {later}) AS BIGINT)"

    return write


def _truncated(kind: str) -> Writer:
    def write(generator: Any, node: Any) -> str:
        given = node.expressions
        value = generator.sql(given[0])
        unit, first = _unit(node, 1)
        zone = (
            f", {generator.sql(given[2]) if len(given) > 2 else text('UTC')}" if kind == "timestamp" else ""
        )
        macro = "bq_zoned_trunc" if kind == "timestamp" else "bq_trunc"
        if kind == "date":
            value = f"bq_to_date({value})" if len(given) < 3 else value
        if unit == "WEEK":
            return f"{macro}_week({value}, {first}{zone})"
        if unit == "ISOYEAR":
            return f"{macro}_isoyear({value}{zone})"
        return f"{macro}_to({value}, {text(unit.lower())}{zone})"

    return write


def _last_day(generator: Any, node: Any) -> str:
    value = f"bq_to_date({generator.sql(node.expressions[0])})"
    unit, first = _unit(node, 1, "MONTH")
    if unit == "WEEK":
        return f"(bq_trunc_week({value}, {first}) + 6)"
    if unit == "ISOYEAR":
        return f"(bq_trunc_isoyear(bq_trunc_isoyear({value}) + 375) - 1)"
    if unit not in INTERVALS:
        raise QueryError(f"A valid date part name is required but found {unit}")
    return f"CAST(bq_trunc_to({value}, {text(unit.lower())}) + {INTERVALS[unit]}(1) - to_days(1) AS DATE)"


def _formatted(cast: str) -> Writer:
    def write(generator: Any, node: Any) -> str:
        form, value, *zone = _arguments(generator, node)
        if cast == "timestamp":
            at = zone[0] if zone else "'UTC'"
            return f"bq_format_zoned({form}, bq_to_timestamp({value}), {at})"
        if cast == "time":
            return f"bq_format_moment({form}, DATE '1970-01-01' + bq_to_time({value}), NULL)"
        return f"bq_format_moment({form}, bq_to_datetime({value}), NULL)"

    return write


def _parsed(kind: str) -> Writer:
    def write(generator: Any, node: Any) -> str:
        form, value, *zone = _arguments(generator, node)
        at = zone[0] if zone else "'UTC'"
        parsed = f"bq_parse_moment({form}, {value}, {text(kind)}, {at if kind == 'timestamp' else 'NULL'})"
        return {
            "date": f"CAST({parsed} AS DATE)",
            "time": f"CAST({parsed} AS TIME)",
            "timestamp": f"timezone('UTC', {parsed})",
        }.get(kind, parsed)

    return write


def _concat(generator: Any, node: Any) -> str:
    arguments = _arguments(generator, node)
    if not arguments:
        raise QueryError(
            "No matching signature for function CONCAT with no arguments\n"
            "  Signature: CONCAT(STRING, [STRING, ...])\n"
            "    Signature requires at least 1 argument, found 0 arguments\n"
            "  Signature: CONCAT(BYTES, [BYTES, ...])\n"
            f"    Signature requires at least 1 argument, found 0 arguments{_at(node)}"
        )
    made = arguments[0]
    for each in arguments[1:]:
        made = f"bq_concat2({made}, {each})"
    return made


def _at(node: Any) -> str:
    line, column = node.meta.get("line"), node.meta.get("col")
    return f" at [{line or 1}:{column or 1}]"


def _substr(generator: Any, node: Any) -> str:
    if len(node.expressions) < 2:
        raise QueryError(
            "No matching signature for function SUBSTR\n  Argument types: STRING\n"
            "  Signature: SUBSTR(STRING, INT64, [INT64])\n"
            "    Signature requires at least 2 arguments, found 1 argument\n"
            "  Signature: SUBSTR(BYTES, INT64, [INT64])\n"
            "    Signature requires at least 2 arguments, found 1 argument"
            f"{_at(node)}"
        )
    return f"bq_substr({', '.join(_arguments(generator, node))})"


def _array_concat(generator: Any, node: Any) -> str:
    arguments = _arguments(generator, node)
    made = arguments[0]
    for each in arguments[1:]:
        made = f"list_concat({made}, {each})"
    return made


def _format(generator: Any, node: Any) -> str:
    form, *values = _arguments(generator, node)
    kinds = _specifiers(node.expressions[0])
    pairs = [
        f"[NULL, bq_debug({each})]" if kind == "T" else f"[bq_string({each}), NULL]"
        for each, kind in itertools.zip_longest(values, kinds[: len(values)])
    ]
    return f"bq_sprintf({form}, CAST([{', '.join(pairs)}] AS VARCHAR[][]))"


_SPECIFIER: Final = re.compile(r"%[-+ #0']*(\*|\d+)?(?:\.(\*|\d+)?)?([a-zA-Z%])")


def _specifiers(form: exp.Expression) -> list[str]:
    """What a format has for each argument, by its letter."""
    found: list[str] = []
    for width, precision, letter in _SPECIFIER.findall(form.this) if isinstance(form, exp.Literal) else ():
        found += ["*"] * ((width == "*") + (precision == "*")) + [letter] * (letter != "%")
    return found


def _normalize(casefold: bool) -> Writer:
    def write(generator: Any, node: Any) -> str:
        form = node.expressions[1].name.upper() if len(node.expressions) > 1 else "NFC"
        fold = "true" if casefold else "false"
        return f"bq_normal_form({generator.sql(node.expressions[0])}, {text(form)}, {fold})"

    return write


def _make_interval(generator: Any, node: Any) -> str:
    units = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
    values: dict[str, str] = {}
    for number, each in enumerate(node.expressions):
        named = isinstance(each, exp.PropertyEQ | exp.Kwarg)
        unit = each.this.name.upper() if named else units[number]
        if unit not in units or unit in values:
            raise QueryError(f"No matching signature for function MAKE_INTERVAL: argument {unit}{_at(node)}")
        values[unit] = generator.sql(each.expression if named else each)
    made = [f"{INTERVALS[unit]}({value})" for unit, value in values.items()]
    return f"({' + '.join(made)})" if made else "to_days(0)"


def _json_pairs(generator: Any, node: Any) -> str:
    arguments = _arguments(generator, node)
    if len(arguments) == 2 and len(node.expressions) == 2 and isinstance(node.expressions[0], exp.Array):
        keys, values = arguments
        texts = f'list_transform({values}, lambda "e$": CAST(to_json("e$") AS VARCHAR))'
        return f"bq_json_object_of({keys}, {texts})"
    made = [f"{name}, {value}" for name, value in zip(arguments[::2], arguments[1::2], strict=False)]
    return f"json_object({', '.join(made)})"


def _json_changed(operation: str) -> Writer:
    def write(generator: Any, node: Any) -> str:
        options = {
            each.this.name.lower(): generator.sql(each.expression)
            for each in node.expressions
            if isinstance(each, exp.Kwarg | exp.PropertyEQ)
        }
        plain = [
            generator.sql(each)
            for each in node.expressions
            if not isinstance(each, exp.Kwarg | exp.PropertyEQ)
        ]
        made = plain[0]
        flag = (
            options.get("create_if_missing")
            or options.get("insert_each_element")
            or options.get("append_each_element")
            or "true"
        )
        if len(plain) > 3 and flag not in ("TRUE", "FALSE", "true"):
            # It is written for each path.
            raise QueryError(f"An option of a JSON function must be TRUE or FALSE{_at(node)}")
        if operation == "remove":
            for path in plain[1:]:
                made = f"bq_json_change('remove', CAST({made} AS VARCHAR), {path}, NULL, true)"
        elif operation == "strip":
            path = plain[1] if len(plain) > 1 else "'$'"
            arrays = options.get("include_arrays", "true")
            empty = options.get("remove_empty", "false")
            made = f"bq_json_strip(CAST({made} AS VARCHAR), {path}, {arrays}, {empty})"
        else:
            for path, value in zip(plain[1::2], plain[2::2], strict=False):
                new = f"CAST(to_json({value}) AS VARCHAR)"
                made = f"bq_json_change({text(operation)}, CAST({made} AS VARCHAR), {path}, {new}, {flag})"
        return f"CAST({made} AS JSON)"

    return write


def _json_keys(generator: Any, node: Any) -> str:
    plain = [
        generator.sql(each) for each in node.expressions if not isinstance(each, exp.Kwarg | exp.PropertyEQ)
    ]
    depth = plain[1] if len(plain) > 1 else "NULL"
    return f"bq_json_key_paths(CAST({plain[0]} AS VARCHAR), {depth})"


def _safe(name: str) -> Writer:
    return lambda generator, node: f"TRY({name}({', '.join(_arguments(generator, node))}))"


def _constant(value: str) -> Writer:
    return lambda _generator, _node: value


def _error(generator: Any, node: Any) -> str:
    return f"error({generator.sql(node.expressions[0])})"


def _hll(operation: str) -> Writer:
    def write(generator: Any, node: Any) -> str:
        value = generator.sql(node.expressions[0])
        if operation == "init":
            return f"{LATE}encode(array_to_string(list_sort(list(DISTINCT md5(bq_string({value})))), ','))"
        if operation == "extract":
            return f"len(list_filter(string_split(decode({value}), ','), lambda \"e$\": \"e$\" <> ''))"
        single = f"list_filter(string_split(decode({value}), ','), lambda \"e$\": \"e$\" <> '')"
        merged = f"list_distinct(flatten(list({single})))"
        return (
            f"{LATE}len({merged})"
            if operation == "merge"
            else f"{LATE}encode(array_to_string({merged}, ','))"
        )

    return write


_KINDS: Final = ("DATE", "DATETIME", "TIMESTAMP", "TIME")

FUNCTIONS: Final[dict[str, str | Writer]] = {
    **{name.upper(): f"bq_{name}" for name in MACROS},
    **{f"{kind.upper()}_ADD": _moved(kind, "+") for kind in ("date", "datetime", "timestamp", "time")},
    **{f"{kind.upper()}_SUB": _moved(kind, "-") for kind in ("date", "datetime", "timestamp", "time")},
    **{f"{kind.upper()}_DIFF": _difference(kind) for kind in ("date", "datetime", "timestamp", "time")},
    **{f"{kind.upper()}_TRUNC": _truncated(kind) for kind in ("date", "datetime", "timestamp", "time")},
    **{f"FORMAT_{kind.upper()}": _formatted(kind) for kind in ("date", "datetime", "timestamp", "time")},
    **{f"PARSE_{kind.upper()}": _parsed(kind) for kind in ("date", "datetime", "timestamp", "time")},
    # Only the engine writes it: see ``decimals.py``.
    "MERGED$": "bq_merged",
    "STRING": "bq_json_string",
    "INT64": "bq_json_int64",
    "FLOAT64": "bq_json_float64",
    "DOUBLE": "bq_json_float64",
    "BOOL": "bq_json_bool",
    "SAFE_ADD": _safe("bq_plus"),
    "SAFE_SUBTRACT": _safe("bq_minus"),
    "SAFE_MULTIPLY": _safe("bq_multiply"),
    "SAFE_NEGATE": lambda generator, node: (
        f"TRY(bq_minus(CAST(0 AS BIGINT), {generator.sql(node.expressions[0])}))"
    ),
    "LAST_DAY": _last_day,
    "CONCAT": _concat,
    "SUBSTR": _substr,
    "SUBSTRING": _substr,
    "ARRAY_CONCAT": _array_concat,
    "FORMAT": _format,
    "NORMALIZE": _normalize(False),
    "NORMALIZE_AND_CASEFOLD": _normalize(True),
    "MAKE_INTERVAL": _make_interval,
    "JSON_OBJECT": _json_pairs,
    "JSON_ARRAY": "json_array",
    "JSON_SET": _json_changed("set"),
    "JSON_REMOVE": _json_changed("remove"),
    "JSON_ARRAY_APPEND": _json_changed("append"),
    "JSON_ARRAY_INSERT": _json_changed("insert"),
    "JSON_STRIP_NULLS": _json_changed("strip"),
    "JSON_KEYS": _json_keys,
    "ERROR": _error,
    "SESSION_USER": _constant("'lode'"),
    "SOUNDEX": "bq_soundex_of",
    "TO_BASE32": "bq_base32_of",
    "FROM_BASE32": "bq_base32_bytes",
    "TO_CODE_POINTS": "bq_code_points",
    "CODE_POINTS_TO_STRING": "bq_from_code_points",
    "CODE_POINTS_TO_BYTES": "bq_from_code_bytes",
    "SAFE_CONVERT_BYTES_TO_STRING": "bq_lenient_text",
    "NET.HOST": "bq_net_host",
    "NET.REG_DOMAIN": "bq_net_reg_domain",
    "NET.PUBLIC_SUFFIX": "bq_net_public_suffix",
    "NET.IP_FROM_STRING": "bq_net_ip_from_string",
    "NET.SAFE_IP_FROM_STRING": "bq_net_safe_ip_from_string",
    "NET.IP_TO_STRING": "bq_net_ip_to_string",
    "NET.IPV4_TO_INT64": "bq_net_ipv4_to_int64",
    "NET.IPV4_FROM_INT64": "bq_net_ipv4_from_int64",
    "NET.IP_NET_MASK": "bq_net_ip_net_mask",
    "NET.IP_TRUNC": "bq_net_ip_trunc",
    "HLL_COUNT.INIT": _hll("init"),
    "HLL_COUNT.MERGE": _hll("merge"),
    "HLL_COUNT.MERGE_PARTIAL": _hll("merge_partial"),
    "HLL_COUNT.EXTRACT": _hll("extract"),
}


# The least and the most arguments of those that are written by a function here.
_COUNTS: Final[dict[str, tuple[int, int | None]]] = {
    **{f"{kind}_{name}": (2, 2) for kind in _KINDS for name in ("ADD", "SUB")},
    **{f"{kind}_DIFF": (2, 3) for kind in _KINDS},
    **{f"{kind}_TRUNC": (1, 3) for kind in _KINDS},
    **{f"{name}_{kind}": (2, 3) for kind in _KINDS for name in ("FORMAT", "PARSE")},
    **dict.fromkeys(("SAFE_ADD", "SAFE_SUBTRACT", "SAFE_MULTIPLY", "MAX_BY", "MIN_BY"), (2, 2)),
    **dict.fromkeys(("SAFE_NEGATE", "ERROR", "HLL_COUNT.MERGE", "HLL_COUNT.MERGE_PARTIAL"), (1, 1)),
    **dict.fromkeys(("HLL_COUNT.INIT", "LAST_DAY", "NORMALIZE", "NORMALIZE_AND_CASEFOLD"), (1, 2)),
    **dict.fromkeys(("SUBSTR", "SUBSTRING", "JSON_KEYS"), (1, 3)),
    **dict.fromkeys(("CONCAT", "JSON_OBJECT", "JSON_ARRAY"), (0, None)),
    **dict.fromkeys(("ARRAY_CONCAT", "FORMAT"), (1, None)),
    **dict.fromkeys(("JSON_SET", "JSON_ARRAY_APPEND", "JSON_ARRAY_INSERT"), (3, None)),
    "HLL_COUNT.EXTRACT": (1, 1),
    "JSON_REMOVE": (2, None),
    "JSON_STRIP_NULLS": (1, 4),
    "MAKE_INTERVAL": (0, 6),
    "SESSION_USER": (0, 0),
}


def check_count(name: str, node: Any, where: str) -> None:
    """Refuse a call with too few or too many arguments. DuckDB does so for macros."""
    least, most = _COUNTS.get(name, (0, None))
    count = sum(not isinstance(each, exp.Kwarg) for each in node.expressions)
    if name == "MAKE_INTERVAL":
        count = len(node.expressions)
    if count < least or (most is not None and count > most):
        raise no_signature(name, count, where)


def no_signature(name: str, count: int, where: str) -> QueryError:
    """The error of a call with arguments that a function does not take."""
    given = "no arguments" if not count else f"{count} argument{'s' * (count != 1)}"
    return QueryError(f"No matching signature for function {name} with {given}{where}")


# -- aggregates and window functions ------------------------------------------------------------------------


class _Inside:
    """The argument of an aggregate, and its clauses."""

    def __init__(self, generator: Any, node: Any) -> None:
        self.generator = generator
        self.distinct = False
        self.ignore_nulls = self.respect_nulls = False
        self.order = self.limit = ""
        self.having: Any = None
        value = node
        while True:
            if isinstance(value, exp.IgnoreNulls):
                self.ignore_nulls = True
            elif isinstance(value, exp.RespectNulls):
                self.respect_nulls = True
            elif isinstance(value, exp.Order):
                keys = [
                    key
                    for key in value.expressions
                    # A constant is no key.
                    if not isinstance(key.this, exp.Literal)
                ]
                self.order = " ORDER BY " + ", ".join(generator.sql(key) for key in keys) if keys else ""
            elif isinstance(value, exp.Limit):
                self.limit = generator.sql(value.expression)
            elif isinstance(value, exp.HavingMax):
                self.having = value
            elif isinstance(value, exp.Distinct):
                self.distinct = True
                value = value.expressions[0]
                continue
            else:
                break
            value = value.this
        self.value: str = generator.sql(value)

    @property
    def all(self) -> str:
        return ("DISTINCT " if self.distinct else "") + self.value + self.order


def _around(generator: Any, node: Any, made: str, before: str, after: str) -> str:
    """An aggregate with something around it, which OVER must be inside of."""
    window = node.parent
    while isinstance(window, exp.IgnoreNulls | exp.RespectNulls):
        window = window.parent
    if not isinstance(window, exp.Window) or node.arg_key != "this":
        return f"{before}{made}{after}"
    generator.around[id(window)] = (before, after)
    return made


def _array_agg(generator: Any, node: Any) -> str:
    inside = _Inside(generator, node.this)
    before, after = NULLS if inside.ignore_nulls else ("", "")
    if inside.limit:
        before, after = f"({before}", f"{after})[:{inside.limit}]"
    return _around(generator, node, f"list({inside.all})", before, after)


def _array_concat_agg(generator: Any, node: Any) -> str:
    inside = _Inside(generator, node.this)
    return _around(generator, node, f"list({inside.all})", f"flatten({NULLS[0]}", f"{NULLS[1]})")


def _string_agg(generator: Any, node: Any) -> str:
    inside = _Inside(generator, node.this)
    separator = generator.sql(node, "separator") or text(",")
    if inside.limit:
        after = f"{NULLS[1]})[:{inside.limit}], {separator})"
        return _around(generator, node, f"list({inside.all})", f"array_to_string(({NULLS[0]}", after)
    if inside.distinct:
        order = "list_reverse_sort" if inside.order.upper().rstrip().endswith("DESC") else "list_sort"
        before, after = f"bq_join({order}({NULLS[0]}", f"{NULLS[1]}), {separator})"
        return _around(generator, node, f"list(DISTINCT {inside.value})", before, after)
    return f"string_agg({inside.value}, {separator}{inside.order})"


def _plain(name: str) -> Writer:
    def write(generator: Any, node: Any) -> str:
        inside = _Inside(generator, node.this)
        if inside.having is not None:
            function = "arg_max" if inside.having.args.get("max") else "arg_min"
            return f"{function}({inside.value}, {generator.sql(inside.having, 'expression')})"
        return f"{name}({inside.all})"

    return write


def _average(generator: Any, node: Any) -> str:
    inside = _Inside(generator, node.this)
    in_having = isinstance(node.find_ancestor(exp.Having, exp.Select), exp.Having)
    if inside.distinct and not in_having:
        return f"bq_avg_listed({LATE}list(DISTINCT {inside.value}))"
    windowed = isinstance(node.parent, exp.Window)
    return f"AVG({inside.all})" if inside.distinct or windowed else f"bq_avg({inside.value})"


def _sum(generator: Any, node: Any) -> str:
    if isinstance(node.find_ancestor(exp.Having, exp.Select), exp.Having):
        return f"SUM({_Inside(generator, node.this).all})"
    made = f"{LATE}SUM({_Inside(generator, node.this).all})"
    # DuckDB's sums of integers have 128 bits.
    return made if isinstance(node.parent, exp.Window) else f"bq_narrow({made})"


def _count_if(generator: Any, node: Any) -> str:
    inside = _Inside(generator, node.this)
    if inside.distinct:
        return f"COUNT(DISTINCT nullif({inside.value}, false))"
    return f"COUNT(CASE WHEN {inside.value} THEN 1 END)"


def _quantiles(generator: Any, node: Any) -> str:
    inside = _Inside(generator, node.this)
    number = generator.sql(node, "expression")
    if not re.fullmatch(r"[0-9]{1,9}", number) or not 1 <= int(number) <= _MAX_QUANTILES:
        raise QueryError(
            "Argument 2 of APPROX_QUANTILES must be an integer literal from 1 to "
            f"{_MAX_QUANTILES:,}{_at(node)}"
        )
    points = ", ".join(str(step / int(number)) for step in range(int(number) + 1))
    return f"quantile_disc({inside.all}, [{points}])"


def _top_count(generator: Any, node: Any) -> str:
    inside = _Inside(generator, node.this)
    number = generator.sql(node, "expression") or "10"
    return (
        f"list_slice(list_transform(list_reverse_sort(list_transform(map_entries(histogram({inside.value})), "
        'lambda "e$": struct_pack(c := CAST("e$".value AS BIGINT), v := "e$".key))), '
        f'lambda "e$": struct_pack("value" := "e$".v, "count" := "e$".c)), 1, {number})'
    )


def _window_value(name: str) -> Writer:
    def write(generator: Any, node: Any) -> str:
        inside = _Inside(generator, node.this)
        extra = generator.sql(node, "offset")
        nulls = " IGNORE NULLS" if inside.ignore_nulls else ""
        return f"{name}({inside.value}{f', {extra}' if extra else ''}{nulls})"

    return write


def _percentile(name: str) -> Writer:
    def write(generator: Any, node: Any) -> str:
        inside = _Inside(generator, node.this)
        return f"{name}({inside.value}, {generator.sql(node, 'expression')})"

    return write


def _greatest(order: str) -> Writer:
    def write(generator: Any, node: Any) -> str:
        # Sorted, NULL is the first of all.
        values = ", ".join(generator.sql(each) for each in [node.this, *node.expressions])
        return f"list_sort([{values}], {text(order)}, 'NULLS FIRST')[1]"

    return write


def _by(name: str) -> Writer:
    return lambda generator, node: f"{LATE}{name}({', '.join(_arguments(generator, node))})"


FUNCTIONS["MAX_BY"] = _by("arg_max")
FUNCTIONS["MIN_BY"] = _by("arg_min")


def _pair(name: str) -> Writer:
    return lambda generator, node: (
        f"{name}({generator.sql(node, 'this')}, {generator.sql(node, 'expression')})"
    )


AGGREGATES: Final[dict[str, Writer]] = {
    "ArrayAgg": _array_agg,
    "ArrayConcatAgg": _array_concat_agg,
    "GroupConcat": _string_agg,
    "AnyValue": _plain("any_value"),
    "Max": _plain("MAX"),
    "Min": _plain("MIN"),
    "Avg": _average,
    "Sum": _sum,
    "CountIf": _count_if,
    "ApproxQuantiles": _quantiles,
    "ApproxTopK": _top_count,
    "PercentileCont": _percentile("quantile_cont"),
    "PercentileDisc": _percentile("quantile_disc"),
    "FirstValue": _window_value("first_value"),
    "LastValue": _window_value("last_value"),
    "NthValue": _window_value("nth_value"),
    "Greatest": _greatest("DESC"),
    "Least": _greatest("ASC"),
    "LogicalAnd": _plain("bool_and"),
    "LogicalOr": _plain("bool_or"),
    "BitwiseAndAgg": _plain("bit_and"),
    "BitwiseOrAgg": _plain("bit_or"),
    "BitwiseXorAgg": _plain("bit_xor"),
    "Corr": _pair("corr"),
    "CovarPop": _pair("covar_pop"),
    "CovarSamp": _pair("covar_samp"),
    "VariancePop": _plain("var_pop"),
    "Variance": _plain("var_samp"),
    "StddevPop": _plain("stddev_pop"),
    "StddevSamp": _plain("stddev_samp"),
    "Stddev": _plain("stddev_samp"),
    "ApproxDistinct": lambda generator, node: f"COUNT(DISTINCT {generator.sql(node, 'this')})",
}
