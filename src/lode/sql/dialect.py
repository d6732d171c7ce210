"""BigQuery's SQL in DuckDB's: a parser that keeps functions as they are written, and a generator.

Every function is looked up in ``functions.py``. A name that is not there is refused, so no query reaches a
function of DuckDB that reads files or settings.
"""

from __future__ import annotations

import datetime
import re
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel
from sqlglot.errors import UnsupportedError as UnwritableError
from sqlglot.tokenizer_core import TokenType

from lode.format.ids import shortened
from lode.sql.allowed import check_tree
from lode.sql.errors import QueryError, UnsupportedError
from lode.sql.functions import AGGREGATES, FUNCTIONS, INTERVALS, PARTS, WEEKDAYS, check_count, once
from lode.sql.settled import LATE, SAFE, settled
from lode.sql.structs import member_name, member_value
from lode.sql.types import BIGNUMERIC, GEOGRAPHY, NUMERIC, quoted, text

# Functions with a syntax of their own; all others are kept by name.
_PARSED: Final = frozenset(
    [
        "ANY_VALUE",
        "APPROX_COUNT_DISTINCT",
        "APPROX_QUANTILES",
        "ARRAY_AGG",
        "ARRAY_CONCAT_AGG",
        "AVG",
        "BIT_AND",
        "BIT_OR",
        "BIT_XOR",
        "COALESCE",
        "CORR",
        "COUNT",
        "COUNTIF",
        "COUNT_IF",
        "COVAR_POP",
        "COVAR_SAMP",
        "CUME_DIST",
        "DENSE_RANK",
        "FIRST_VALUE",
        "GREATEST",
        "GROUPING",
        "IF",
        "IFNULL",
        "LAG",
        "LAST_VALUE",
        "LEAD",
        "LEAST",
        "LOGICAL_AND",
        "LOGICAL_OR",
        "MAX",
        "MIN",
        "NTH_VALUE",
        "NTILE",
        "NULLIF",
        "PERCENTILE_CONT",
        "PERCENTILE_DISC",
        "PERCENT_RANK",
        "RANK",
        "ROW_NUMBER",
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "STRUCT",
        "SUM",
        "UNNEST",
        "VARIANCE",
        "VAR_POP",
        "VAR_SAMP",
        "CURRENT_DATE",
        "CURRENT_DATETIME",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "APPROX_TOP_COUNT",
        "APPROX_TOP_SUM",
        "GAP_FILL",
        "EXISTS",
    ]
)
_PARSERS: Final = frozenset(["ARRAY", "CAST", "SAFE_CAST", "EXTRACT", "STRING_AGG"])
_TYPES: Final = {
    "DECIMAL": NUMERIC,
    "BIGDECIMAL": BIGNUMERIC,
    "GEOGRAPHY": GEOGRAPHY,
    "TEXT": "VARCHAR",
    "VARCHAR": "VARCHAR",
    "NVARCHAR": "VARCHAR",
    "BIGINT": "BIGINT",
    "INT": "BIGINT",
    "SMALLINT": "BIGINT",
    "TINYINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "FLOAT": "DOUBLE",
    "BOOLEAN": "BOOLEAN",
    "BINARY": "BLOB",
    "VARBINARY": "BLOB",
    "DATE": "DATE",
    "TIME": "TIME",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMPTZ",
    "JSON": "JSON",
    "INTERVAL": "INTERVAL",
}
# The macro that casts to a type.
_CASTS: Final = {
    "VARCHAR": "bq_string",
    "BIGINT": "bq_int64",
    "DOUBLE": "bq_float64",
    "BOOLEAN": "bq_bool",
    "BLOB": "bq_bytes",
    "DATE": "bq_to_date",
    "TIME": "bq_to_time",
    "TIMESTAMP": "bq_to_datetime",
    "TIMESTAMPTZ": "bq_to_timestamp",
    "INTERVAL": "bq_to_interval",
    NUMERIC: "bq_numeric",
    BIGNUMERIC: "bq_bignumeric",
    GEOGRAPHY: "bq_st_geogfromtext",
}


# Types with literals that both write alike.
_MOMENTS: Final = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?")


def _is_moment(value: exp.Expression) -> bool:
    """Whether a literal is a date, or a date and a time, that exists."""
    if not isinstance(value, exp.Literal) or not value.is_string or not _MOMENT.fullmatch(value.name):
        return False
    try:
        datetime.datetime.fromisoformat(value.name[:19])
    except ValueError:
        return False
    return not value.name.startswith("0000")


# Functions that both have.
_NATIVE: Final = frozenset(
    [
        "Coalesce",
        "Nullif",
        "Count",
        "Corr",
        "CovarPop",
        "CovarSamp",
        "CumeDist",
        "DenseRank",
        "Rank",
        "PercentRank",
        "RowNumber",
        "Ntile",
        "Lag",
        "Lead",
        "Stddev",
        "StddevPop",
        "StddevSamp",
        "Variance",
        "VariancePop",
        "Grouping",
        "Unnest",
        "Exists",
    ]
)


_SCALAR: Final = frozenset(["Coalesce", "Nullif", "Unnest", "Exists", "Greatest", "Least"])
# A minus sign is not part of a literal, so the smallest INT64 has one that is larger than the largest.
_MAX_INTEGER: Final = 1 << 63
_MAX_DIGITS: Final = 40
# Functions whose first two arguments may be literals of text for a time of this type.
_TIMES: Final = {
    **dict.fromkeys(("DATE_ADD", "DATE_SUB", "UNIX_DATE", "GENERATE_DATE_ARRAY"), "DATE"),
    **dict.fromkeys(("DATETIME_ADD", "DATETIME_SUB", "DATETIME_TRUNC"), "DATETIME"),
    **dict.fromkeys(("TIME_ADD", "TIME_SUB", "TIME_TRUNC"), "TIME"),
    **dict.fromkeys(("TIMESTAMP_ADD", "TIMESTAMP_SUB", "TIMESTAMP_TRUNC"), "TIMESTAMP"),
    **dict.fromkeys(("UNIX_SECONDS", "UNIX_MILLIS", "UNIX_MICROS", "GENERATE_TIMESTAMP_ARRAY"), "TIMESTAMP"),
}
# A number as the tokenizer reads it.
_NUMBER: Final = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# Words of a statement that changes a temporary table.
_WORDS: Final = frozenset(["DEFAULT", "DELETE", "ROW"])
# Digits before and after the point of NUMERIC and BIGNUMERIC.
_DIGITS: Final = {"NUMERIC": (29, 9), "BIGNUMERIC": (38, 38)}
# DuckDB's digits, and those of a BIGNUMERIC behind the point.
_MAX_PRECISION, _MAX_SCALE = 38, 18
# The tokens that a parser may read twice, for each token of the query. It goes back where a query can mean
# several things. Where it does so at every level, each level would double its work.
_REREAD: Final = 64
# Functions with a name in two parts.
_PREFIXED: Final = {"SAFE": exp.SafeFunc, "NET": exp.NetFunc}


class _Parser(BigQuery.Parser):  # type: ignore[misc, valid-type]
    FUNCTIONS: ClassVar[dict[str, Any]] = {
        name: build for name, build in BigQuery.Parser.FUNCTIONS.items() if name in _PARSED
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in BigQuery.Parser.FUNCTION_PARSERS.items() if name in _PARSERS
    }

    def _parse_types(self, check_func: bool = False, *args: Any, **options: Any) -> Any:
        # DATE( in an expression is a call. Tried as a type first, its arguments would be parsed twice, and
        # those of calls inside of each other twice as often for each level.
        if check_func and self._next and self._next.token_type == TokenType.L_PAREN:
            return None
        return super()._parse_types(check_func, *args, **options)

    def _parse_column_ops(self, this: Any) -> Any:
        # BigQuery's parser reads the call behind SAFE. and NET. twice: at each level.
        bases: Any = super(BigQuery.Parser, self)
        kind = _PREFIXED.get(this.name.upper()) if isinstance(this, exp.Column) and not this.table else None
        ahead = self._tokens[self._index + 1 : self._index + 3]
        if (
            kind is not None
            and self._curr.token_type == TokenType.DOT
            and len(ahead) == 2
            and ahead[1].token_type == TokenType.L_PAREN
        ):
            self._advance()
            this = kind(this=self._parse_function(any_token=True))
        return bases._parse_column_ops(this)

    def _retreat(self, index: int) -> None:
        self._reread: int = getattr(self, "_reread", 0) + max(0, self._index - index)
        if self._reread > _REREAD * (self._tokens_size + _REREAD):
            raise RecursionError
        super()._retreat(index)

    def _warn_unsupported(self) -> None:
        """What is kept as a command is refused later. A warning would write text of the query to a log."""


class LakeSql(BigQuery):
    """BigQuery's dialect with functions kept by name."""

    Parser = _Parser


class _Tokenizer(BigQuery.Tokenizer):
    COMMANDS: ClassVar[Any] = set()


class ScriptSql(LakeSql):
    """The dialect of scripts. Its tokenizer does not take the text after BEGIN and CALL as one token."""

    Tokenizer = _Tokenizer


def position(node: exp.Expression) -> str:
    """Where a node is in the query, as BigQuery writes it; empty if that is unknown."""
    for each in (node, *node.find_all(exp.Identifier)):
        line, column, start, end = (each.meta.get(key) for key in ("line", "col", "start", "end"))
        if line is not None and column is not None:
            width = (end - start) if isinstance(start, int) and isinstance(end, int) else 0
            return f" at [{line}:{max(column - width, 1)}]"
    return " at [1:1]"


def duck_type(kind: exp.DataType) -> str:
    """A type of the query as DuckDB writes it."""
    name = kind.this.name if isinstance(kind.this, exp.DType) else str(kind.this).upper()
    inner = kind.expressions
    if (name in _TYPES) != all(isinstance(each, exp.DataTypeParam) for each in inner) and inner:
        raise QueryError(f"Type not found: {kind.sql('bigquery')}{position(kind)}")
    if name in ("ARRAY", "RANGE") and len(inner) != 1:
        raise QueryError(f"{name} needs the type of its elements{position(kind)}")
    if name == "ARRAY":
        return f"{duck_type(inner[0])}[]"
    if name == "STRUCT":
        fields = []
        for number, field in enumerate(inner):
            if isinstance(field, exp.ColumnDef):
                fields.append(f"{quoted(field.name)} {duck_type(field.args['kind'])}")
            else:
                fields.append(f"{quoted(f'_field_{number + 1}')} {duck_type(field)}")
        return f"STRUCT({', '.join(fields)})"
    if name == "RANGE":
        element = duck_type(inner[0])
        return f'STRUCT("range$start" {element}, "range$end" {element})'
    if name not in _TYPES:
        raise QueryError(f"Type not found: {kind.sql('bigquery')}{position(kind)}")
    return _TYPES[name]


def _parameters(kind: exp.DataType) -> list[int]:
    """The numbers behind the name of a type, as in NUMERIC(10, 2)."""
    found = []
    for each in kind.expressions:
        value = each.this
        if (
            not isinstance(value, exp.Literal)
            or value.is_string
            or not re.fullmatch(r"[0-9]{1,9}", value.this)
        ):
            raise QueryError(f"The parameter of a type must be an integer literal{position(kind)}")
        found.append(int(value.this))
    return found


def _decimal_type(kind: exp.DataType) -> str:
    """The type of DuckDB with the digits of NUMERIC(p, s); empty without these."""
    found = _parameters(kind)
    if not found:
        return ""
    name = "BIGNUMERIC" if kind.this == exp.DType.BIGDECIMAL else "NUMERIC"
    before, after = _DIGITS[name]
    precision, scale = (*found, 0)[:2]
    if len(found) > 2:
        raise QueryError(f"{name} has at most two parameters{position(kind)}")
    if scale > after:
        raise QueryError(f"In {name}(P, S), S must be between 0 and {after}{position(kind)}")
    if not max(scale, 1) <= precision <= scale + before:
        shown = f"{name}(P, S), P must be between {max(scale, 1)} and {scale + before}"
        if len(found) == 1:
            shown = f"{name}(P), P must be between 1 and {before}"
        raise QueryError(f"In {shown}{position(kind)}")
    if precision > _MAX_PRECISION:
        precision, scale = _MAX_PRECISION, min(scale, _MAX_SCALE)
    return f"DECIMAL({precision}, {scale})"


class Generator(DuckDB.Generator):  # type: ignore[misc, valid-type]
    """Writes a tree of ``LakeSql`` as SQL of DuckDB."""

    def __init__(self, **options: Any) -> None:
        super().__init__(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.IMMEDIATE, **options)

    # -- names ---------------------------------------------------------------------------------

    def identifier_sql(self, expression: exp.Identifier) -> str:
        return quoted(expression.name)

    def var_sql(self, expression: exp.Var) -> str:
        name = expression.name.upper()
        if name not in _WORDS:
            raise QueryError(f"Unrecognized name: {expression.name}{position(expression)}")
        return next(word for word in _WORDS if word == name)

    def kwarg_sql(self, expression: exp.Kwarg) -> str:
        return f"{quoted(expression.this.name)} := {self.sql(expression, 'expression')}"

    # -- values --------------------------------------------------------------------------------

    def literal_sql(self, expression: exp.Literal) -> str:
        if expression.is_string:
            return text(expression.this)
        written = str(expression.this)
        if re.fullmatch(r"0[xX][0-9a-fA-F]+", written):
            return f"CAST({int(written, 16)} AS BIGINT)"
        if written.isdigit() and (len(written) > _MAX_DIGITS or int(written) > _MAX_INTEGER):
            raise QueryError(f"Invalid integer literal: {shortened(written, 40)}{position(expression)}")
        if not _NUMBER.fullmatch(written):
            raise QueryError(f"Invalid number: {shortened(written, 40)}{position(expression)}")
        if expression.meta.get("decimal"):
            return written
        if not written.isdigit():
            return written if "e" in written.lower() else f"{written}e0"
        if isinstance(expression.parent, exp.Add | exp.Sub | exp.Mul | exp.Neg | exp.Array | exp.PropertyEQ):
            return f"CAST({written} AS BIGINT)"
        return written

    def neg_sql(self, expression: exp.Neg) -> str:
        this = expression.this
        if isinstance(this, exp.Literal) and not this.is_string and re.fullmatch(r"[0-9]{1,19}", this.this):
            return f"CAST(-{int(this.this)} AS BIGINT)"
        return f"-{self.sql(expression, 'this')}" if not isinstance(this, exp.Neg) else f"-({self.sql(this)})"

    def parsejson_sql(self, expression: exp.ParseJSON) -> str:
        return f"CAST(bq_json_check({self.sql(expression, 'this')}) AS JSON)"

    def rawstring_sql(self, expression: exp.RawString) -> str:
        return text(expression.this)

    def bytestring_sql(self, expression: exp.ByteString) -> str:
        data = expression.this.encode("latin-1", "ignore") if isinstance(expression.this, str) else b""
        try:
            data = expression.this.encode("latin-1")
        except UnicodeEncodeError:
            data = expression.this.encode()
        return f"from_hex('{data.hex()}')"

    def hexstring_sql(self, expression: exp.HexString, *_: Any, **__: Any) -> str:
        if len(str(expression.this)) > _MAX_DIGITS:
            raise QueryError(f"Invalid integer literal: 0x{shortened(str(expression.this), 40)}")
        return f"CAST({int(str(expression.this), 16)} AS BIGINT)"

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        if expression.args.get("format"):
            return self._cast_with_format(expression)
        made = self._cast(expression)
        if not isinstance(expression, exp.TryCast) and not safe_prefix:
            return made
        # The variants without errors; a cast to other types has its own form.
        return re.sub(r"^bq_", "bqs_", made) if made.startswith("bq_") else re.sub(r"^CAST", "TRY_CAST", made)

    def trycast_sql(self, expression: exp.TryCast) -> str:
        return self.cast_sql(expression)

    def _cast_with_format(self, expression: exp.Cast) -> str:
        raise UnsupportedError("CAST … FORMAT")

    def _cast(self, expression: exp.Cast) -> str:
        kind = expression.to
        target = duck_type(kind)
        # Digits of a literal are not lost on the way.
        exact = target in (NUMERIC, BIGNUMERIC) and is_float(expression.this)
        value = text(expression.this.sql()) if exact else self.sql(expression, "this")
        if isinstance(expression.this, exp.Null):
            return f"CAST(NULL AS {target})"
        if kind.this == exp.DType.RANGE:
            element = duck_type(kind.expressions[0])
            if element not in _MOMENTS:
                raise QueryError(f"Type not found: {kind.sql('bigquery')}{position(kind)}")
            return f"bq_to_range_{element.lower()}({value})"
        macro = _CASTS.get(target)
        if macro is None or (target in _MOMENTS and _is_moment(expression.this)):
            # A constant to DuckDB, so that a condition with it leaves out files and partitions.
            return f"CAST({value} AS {target})"
        made = f"{macro}({value})"
        if target in (NUMERIC, BIGNUMERIC):
            narrow = _decimal_type(kind)
            return f"CAST(CAST({made} AS {narrow}) AS {target})" if narrow else made
        _parameters(kind)
        return made

    def datatype_sql(self, expression: exp.DataType) -> str:
        return duck_type(expression)

    def interval_sql(self, expression: exp.Interval) -> str:
        unit = expression.args.get("unit")
        value = self.sql(expression, "this")
        if isinstance(unit, exp.IntervalSpan):
            return f"bq_to_interval({value})"
        if unit is None:
            return f"bq_to_interval({value})"
        macro = INTERVALS.get(unit.name.upper())
        if macro is None:
            raise QueryError(f"A valid date part name is required but found {unit.name}{position(unit)}")
        return f"{macro}(CAST({value} AS BIGINT))"

    def parameter_sql(self, expression: exp.Parameter) -> str:
        raise QueryError(f"Query parameter '{expression.name}' not found{position(expression)}")

    def placeholder_sql(self, expression: exp.Placeholder) -> str:
        raise QueryError("Query parameters are fewer than the question marks of the query")

    # -- operators -----------------------------------------------------------------------------

    def div_sql(self, expression: exp.Div) -> str:
        return self._operator(expression, "bq_divide", "/")

    def mul_sql(self, expression: exp.Mul) -> str:
        return self._operator(expression, "bq_multiply", "*")

    def add_sql(self, expression: exp.Add) -> str:
        return self._operator(expression, "bq_plus", "+")

    def sub_sql(self, expression: exp.Sub) -> str:
        return self._operator(expression, "bq_minus", "-")

    def _operator(self, expression: exp.Binary, macro: str, operator: str) -> str:
        left, right = self.sql(expression, "this"), self.sql(expression, "expression")
        # HAVING takes no lambda, which a macro on aggregates needs.
        if expression.find_ancestor(exp.Having, exp.Select, exp.AggFunc).__class__ is exp.Having:
            return f"({left} {operator} {right})"
        sides = [is_float(expression.this), is_float(expression.expression)]
        if sum(sides) == 1:
            literal = (expression.this if sides[0] else expression.expression).sql()
            return f"{macro}_{'left' if sides[0] else 'right'}({left}, {right}, {text(literal)})"
        return f"{macro}({left}, {right})"

    def in_sql(self, expression: exp.In) -> str:
        arrays = expression.args.get("unnest")
        if arrays is None:
            return str(super().in_sql(expression))
        array = arrays.expressions[0] if isinstance(arrays, exp.Unnest) else arrays
        negated = "NOT " if expression.args.get("negate") or expression.args.get("is_negated") else ""
        return f"{negated}list_contains({self.sql(array)}, {self.sql(expression, 'this')})"

    def bitwisexor_sql(self, expression: exp.BitwiseXor) -> str:
        return f"xor({self.sql(expression, 'this')}, {self.sql(expression, 'expression')})"

    def bitwiseleftshift_sql(self, expression: exp.BitwiseLeftShift) -> str:
        return f"bq_shift_left({self.sql(expression, 'this')}, {self.sql(expression, 'expression')})"

    def bitwiserightshift_sql(self, expression: exp.BitwiseRightShift) -> str:
        return f"bq_shift_right({self.sql(expression, 'this')}, {self.sql(expression, 'expression')})"

    def dpipe_sql(self, expression: exp.DPipe) -> str:
        return f"bq_concat2({self.sql(expression, 'this')}, {self.sql(expression, 'expression')})"

    def bracket_sql(self, expression: exp.Bracket) -> str:
        value = self.sql(expression, "this")
        index = expression.expressions[0] if expression.expressions else exp.Slice()
        offset = expression.args.get("offset")
        number = self.sql(index)
        if len(expression.expressions) != 1 or isinstance(index, exp.Slice):
            raise QueryError(f"Syntax error: an array has one index in brackets{position(expression)}")
        if index.is_string or isinstance(index, exp.RawString):
            return f"bq_json_member({value}, {number})"
        kind = "bq_at_offset" if offset in (0, None) else "bq_at_ordinal"
        if expression.args.get("safe"):
            kind = kind.replace("_at_", "_safe_")
        return f"{kind}({value}, {number})"

    def safefunc_sql(self, expression: exp.Expression) -> str:
        return self._safe(self.sql(expression, "this"))

    def _safe(self, made: str) -> str:
        # TRY takes no function that may raise on purpose: the variants of macros give NULL instead.
        return f"TRY({SAFE[0]}{made}{SAFE[1]})"

    # -- functions -----------------------------------------------------------------------------

    def netfunc_sql(self, expression: exp.Expression) -> str:
        called = expression.this
        if not isinstance(called, exp.Anonymous):
            raise QueryError(f"Function not found: NET.{called.sql_name()}{position(expression)}")
        return self._call(f"NET.{called.name.upper()}", called)

    def dot_sql(self, expression: exp.Dot) -> str:
        parts = expression.parts if not isinstance(expression.expression, exp.Anonymous) else None
        called = expression.expression
        if parts is None and isinstance(called, exp.Anonymous):
            path = [part.name for part in expression.this.find_all(exp.Identifier)][::-1]
            prefix = ".".join(path)
            if prefix.upper() == "SAFE":
                return self._safe(self.sql(called))
            if prefix.upper() in ("NET", "HLL_COUNT", "KEYS"):
                return self._call(f"{prefix}.{called.name}".upper(), called)
            raise QueryError(f"Function not found: `{prefix}`.{called.name}{position(expression)}")
        if isinstance(called, exp.Star):
            return f"{self.sql(expression, 'this')}.*"
        return f"({self.sql(expression, 'this')}).{self.sql(expression, 'expression')}"

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        return self._call(expression.name.upper(), expression)

    def _call(self, name: str, expression: exp.Expression) -> str:
        target = FUNCTIONS.get(name)
        if target is None:
            raise QueryError(f"Function not found: {expression.name}{position(expression)}")
        for each in expression.expressions[:2] if name in _TIMES else ():
            if isinstance(each, exp.Literal) and each.is_string:
                each.replace(exp.cast(each.copy(), _TIMES[name], dialect="bigquery"))
        if isinstance(target, str):
            return f"{target}({', '.join(self.sql(each) for each in expression.expressions)})"
        check_count(name, expression, position(expression))
        return str(target(self, expression))

    def function_fallback_sql(self, expression: exp.Func) -> str:
        name = type(expression).__name__
        made = AGGREGATES.get(name)
        if made is not None:
            return ("" if name in _SCALAR else LATE) + made(self, expression)
        if name not in _NATIVE:
            raise UnsupportedError(f"{expression.sql_name()}")
        return (LATE if name not in _SCALAR else "") + str(super().function_fallback_sql(expression))

    def ignorenulls_sql(self, expression: exp.IgnoreNulls) -> str:
        # The parser has the clause around the function; those of ``functions.py`` look for it inside.
        function = expression.this
        if isinstance(function, exp.Func) and not isinstance(function.this, exp.IgnoreNulls):
            function.set("this", exp.IgnoreNulls(this=function.this))
        return str(self.sql(function))

    def respectnulls_sql(self, expression: exp.RespectNulls) -> str:
        return str(self.sql(expression, "this"))

    def window_sql(self, expression: exp.Window) -> str:
        if isinstance(expression.this, exp.Avg) and not isinstance(expression.this.this, exp.Distinct):
            return self._window_average(expression)
        made = LATE + str(super().window_sql(expression))
        before, after = self.around.pop(id(expression), ("", ""))
        made = f"{before}{made}{after}"
        return f"bq_narrow({made})" if isinstance(expression.this, exp.Sum) else made

    def _window_average(self, expression: exp.Window) -> str:
        """DuckDB's average of NUMERIC is a FLOAT64."""
        value = expression.this.this
        if any(
            isinstance(each, exp.Query | exp.Window) for each in expression.walk() if each is not expression
        ):
            # It is written three times, so each level would multiply what is inside.
            raise UnsupportedError("AVG with OVER of a subquery")
        parts = []
        for kind in (exp.Sum, exp.Count, exp.Avg):
            own = expression.copy()
            own.set("this", kind(this=value.copy()))
            parts.append(LATE + str(super().window_sql(own)))
        return f"bq_avg_of({', '.join(parts)})"

    def column_sql(self, expression: exp.Column) -> str:
        made = str(super().column_sql(expression))
        if expression.table:
            return made
        # May be the name of a column of the result, whose type is not known there either.
        clause = expression.find_ancestor(exp.Order, exp.Qualify, exp.AggFunc, exp.Window, exp.Select)
        if not isinstance(clause, exp.Order | exp.Qualify) or not isinstance(clause.parent, exp.Select):
            return made
        name = expression.name.lower()
        late = any(
            isinstance(each, exp.Alias)
            and each.alias.lower() == name
            and not isinstance(each.this, exp.Column)
            for each in clause.parent.expressions
        )
        return f"{LATE}{made}" if late else made

    def extract_sql(self, expression: exp.Extract) -> str:
        part = expression.this
        name = part.name.upper()
        if isinstance(part, exp.WeekStart) or (isinstance(part, exp.Anonymous) and name == "WEEK"):
            day = (
                part if isinstance(part, exp.WeekStart) else part.expressions[0] if part.expressions else part
            )
            if day.name.upper() not in WEEKDAYS:
                raise QueryError(f"A valid date part argument for WEEK is required, but found {day.name}")
            name = f"WEEK_{WEEKDAYS[WEEKDAYS.index(day.name.upper())]}"
        elif name not in PARTS:
            raise QueryError(f"A valid date part name is required but found {part.name}{position(part)}")
        value = expression.expression
        if isinstance(value, exp.AtTimeZone):
            zoned = f"bq_local({self.sql(value, 'this')}, {self.zone(value.args['zone'])})"
        else:
            zoned = self.sql(value)
        if name in ("DATE", "TIME", "DATETIME"):
            return f"bq_to_{name.lower()}({zoned})"
        return f"bq_extract_{name.lower()}({zoned})"

    def zone(self, node: exp.Expression) -> str:
        return str(self.sql(node))

    def attimezone_sql(self, expression: exp.AtTimeZone) -> str:
        return f"bq_local({self.sql(expression, 'this')}, {self.sql(expression, 'zone')})"

    def currentdate_sql(self, expression: exp.CurrentDate) -> str:
        zone = self.sql(expression, "this") or "'UTC'"
        return f"CAST(bq_local(now(), {zone}) AS DATE)"

    def currentdatetime_sql(self, expression: exp.CurrentDatetime) -> str:
        zone = self.sql(expression, "this") or "'UTC'"
        return f"bq_local(now(), {zone})"

    def currenttime_sql(self, expression: exp.CurrentTime) -> str:
        zone = self.sql(expression, "this") or "'UTC'"
        return f"CAST(bq_local(now(), {zone}) AS TIME)"

    def currenttimestamp_sql(self, expression: exp.CurrentTimestamp) -> str:
        return "now()"

    def select_sql(self, expression: exp.Select) -> str:
        if expression.args.get("kind") == "STRUCT":
            # sqlglot would write the columns twice.
            expression.set("kind", None)
            expression.set("expressions", [exp.Struct(expressions=expression.expressions)])
        return str(super().select_sql(expression))

    def struct_sql(self, expression: exp.Struct) -> str:
        members = [
            f"{quoted(member_name(each, number))} := {self.sql(member_value(each))}"
            for number, each in enumerate(expression.expressions)
        ]
        return f"struct_pack({', '.join(members)})"

    def array_sql(self, expression: exp.Array) -> str:
        inner = expression.expressions
        if len(inner) == 1 and isinstance(inner[0], exp.Query):
            return f"COALESCE(ARRAY({self.sql(inner[0])}), [])"
        return f"[{', '.join(self.sql(each) for each in inner)}]"

    def if_sql(self, expression: exp.If) -> str:
        if isinstance(expression.parent, exp.Case):
            return str(super().if_sql(expression))
        other = self.sql(expression, "false") or "NULL"
        return (
            f"CASE WHEN {self.sql(expression, 'this')} THEN {self.sql(expression, 'true')} ELSE {other} END"
        )

    def like_sql(self, expression: exp.Like) -> str:
        listed = expression.expression
        if isinstance(listed, exp.Any | exp.All):
            return self._like_each(expression, listed)
        escape = expression.args.get("escape")
        negated = "NOT " if expression.args.get("negate") else ""
        base = f"{self.sql(expression, 'this')} {negated}LIKE {self.sql(expression, 'expression')}"
        return base if escape else f"{base} ESCAPE '\\'"

    def _like_each(self, expression: exp.Like, listed: exp.Any | exp.All) -> str:
        """LIKE ANY and LIKE ALL. With NOT, ANY is true if one pattern does not match."""
        if not isinstance(listed.this, exp.Tuple | exp.Paren):
            raise UnsupportedError(f"LIKE {listed.key.upper()} of this expression")
        given = listed.this.expressions if isinstance(listed.this, exp.Tuple) else [listed.this.this]
        negated = "NOT " if expression.args.get("negate") else ""
        patterns = [self.sql(item) for item in given]
        return once(
            self.sql(expression, "this"),
            lambda value: _joined(
                [f"{value} {negated}LIKE {each} ESCAPE '\\'" for each in patterns],
                " OR " if isinstance(listed, exp.Any) else " AND ",
            ),
        )

    def generate(self, expression: Any, copy: bool = True) -> str:
        check_tree(expression)
        self.around: dict[int, tuple[str, str]] = {}
        try:
            return settled(str(super().generate(expression, copy=copy)))
        except UnwritableError as error:
            raise UnsupportedError(str(error).rstrip(".")) from None


def _joined(parts: list[str], operator: str) -> str:
    return f"({operator.join(parts)})"


def is_float(node: Any) -> bool:
    """Whether a node is a literal of FLOAT64, perhaps with a minus sign."""
    node = node.this if isinstance(node, exp.Neg) else node
    return isinstance(node, exp.Literal) and not node.is_string and not str(node.this).isdigit()


Generator.TRANSFORMS = {
    kind: write
    for kind, write in DuckDB.Generator.TRANSFORMS.items()
    if kind.__name__ not in AGGREGATES and not hasattr(Generator, f"{kind.key}_sql")
}


def _aggregate(name: str) -> Any:
    def write(self: Generator, expression: exp.Expression) -> str:
        made = AGGREGATES[name](self, expression)
        return made if name in _SCALAR else f"{LATE}{made}"

    return write


for _name in AGGREGATES:
    setattr(Generator, f"{_name.lower()}_sql", _aggregate(_name))
