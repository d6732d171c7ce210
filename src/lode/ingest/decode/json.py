"""Rows as REST v2 sends them in ``insertAll``: JSON objects, made into a batch of the table's schema.

Clients write most values as text; numbers, booleans and objects are accepted as well. Each value is read by
its column's type: times as the microseconds and days that Arrow stores; NUMERIC, INTERVAL and GEOGRAPHY stay
text, which is parsed as for every other writer. Bad values are reported row by row.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from lode.format.ids import is_utf8
from lode.ingest.decode.fill import Filler
from lode.ingest.decode.packed import MAX_UNPACKED_BYTES, check_unpacked, value_bytes
from lode.ingest.status import invalid
from lode.ingest.types.row_errors import Problems
from lode.lazy import pa, pt
from lode.numbers import is_number, parse_number
from lode.runtime import REAL
from lode.times import parse_date, parse_datetime, parse_time, parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lode.ingest.types.columns import Column, TableSchema

# Reads a value that is not null, or raises BadValue if its column cannot hold it.
Reader: TypeAlias = Callable[[Any], Any]

_MISSING: Final = object()
_TRUE: Final = frozenset({"true", "t", "yes", "y", "1"})
_FALSE: Final = frozenset({"false", "f", "no", "n", "0"})
# Types whose text Arrow reads as this module does.
_CAST_TYPES: Final = frozenset(
    {"STRING", "NUMERIC", "BIGNUMERIC", "GEOGRAPHY", "INTERVAL", "JSON"}
    | {"INT64", "FLOAT64", "BOOL", "TIMESTAMP", "DATE", "DATETIME"}
)
_INFINITE: Final = frozenset({"nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"})
_MAX_EXPONENT: Final = 9999
_EXACT: Final = Context(prec=200)
_JSON: Final = msgspec.json.Encoder(decimal_format="number")
# The complaints about a list or an object in a column that takes neither.
NOT_REPEATED: Final = "it is a list, and the column is not REPEATED."
NOT_A_RECORD: Final = "it is an object, and the column is no STRUCT."
# BigQuery's own sentences about values that it cannot read. Programs compare with them.
_UNREADABLE: Final = {
    "INT64": "Cannot convert value to integer (bad value): {}",
    "FLOAT64": "Cannot convert value to floating point (bad value): {}",
    "BOOL": "Cannot convert value to boolean (bad value): {}",
    "TIMESTAMP": "Could not parse '{}' as a timestamp. Required format is YYYY-MM-DD HH:MM[:SS[.SSSSSS]]",
    "DATE": 'Invalid date string "{}"',
    "TIME": 'Invalid time string "{}"',
    "DATETIME": 'Invalid datetime string "{}"',
}


class JsonRows:
    """Reads rows of one table.

    Args:
        schema: The table's.
        ignore_unknown: Ignore values that no column takes, instead of reporting them.
        now_ns: The clock, for CURRENT_TIMESTAMP() and similar defaults.
        max_unpacked_bytes: The memory that the decoded rows of one request may take.
    """

    def __init__(
        self,
        schema: TableSchema,
        *,
        ignore_unknown: bool = False,
        now_ns: Callable[[], int] = REAL.now_ns,
        max_unpacked_bytes: int = MAX_UNPACKED_BYTES,
    ) -> None:
        self._schema = schema
        self._ignore_unknown = ignore_unknown
        self._budget = _Budget(max_unpacked_bytes)
        self._row_bytes = sum(value_bytes(column) for column in schema)
        rules = _Rules(ignore_unknown, self._budget)
        self._readers = [(column, _reader_for(column, rules)) for column in schema]
        self._names = frozenset(schema.arrow.names)
        self._types = [_sent_type(kind) for kind in schema.arrow.types]
        self._filler = Filler(schema, schema.arrow.names, self._types, now_ns=now_ns)

    def decode(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """The rows as a batch in the table's schema, or a refusal that names every bad one.

        A column that a row leaves out gets its default; one that is null stays null.
        """
        # A column takes memory in each row, and in each STRUCT of a list, also if it is left out.
        self._budget.begin(len(rows) * self._row_bytes)
        problems = Problems()
        objects = [self._checked(row, index, problems) for index, row in enumerate(rows)]
        columns: list[Any] = []
        unsent: dict[str, Any] = {}
        sent: set[str] = set()
        sent.update(*objects)
        for (column, reader), kind in zip(self._readers, self._types, strict=True):
            if column.name not in sent:  # a wide table has many of them
                columns.append(pa.nulls(len(rows), kind))
                if column.default:
                    unsent[column.name] = pa.repeat(True, len(rows))
                continue
            found = [row.get(column.name, _MISSING) for row in objects]
            columns.append(_column(column, reader, kind, found, problems))
            if column.default and _MISSING in found:
                unsent[column.name] = pa.array([value is _MISSING for value in found])
        self._budget.take(self._filler.filled_bytes(len(rows), unsent))
        return self._filler.batch(columns, len(rows), unsent, problems, unsent)

    def decode_text(self, columns: Mapping[str, Any], rows: int) -> pa.RecordBatch:
        """Rows whose values are text, such as those of CSV, as a batch in the table's schema, or a refusal.

        Args:
            columns: Arrow strings by the column's name as the table spells it.
            rows: The number of rows.
        """
        problems = Problems()
        made: list[Any] = []
        unsent: dict[str, Any] = {}
        for (column, reader), kind in zip(self._readers, self._types, strict=True):
            sent = columns.get(column.name)
            if sent is None:
                made.append(pa.nulls(rows, kind))
                if column.default:
                    unsent[column.name] = pa.repeat(True, rows)
                continue
            array = _cast_text(sent, kind) if column.type in _CAST_TYPES else None
            made.append(_column(column, reader, kind, sent.to_pylist(), problems) if array is None else array)
        return self._filler.batch(made, rows, unsent, problems, unsent)

    def _checked(self, row: Any, index: int, problems: Problems) -> dict[str, Any]:
        """A row by its columns' names as the table spells them."""
        if not isinstance(row, dict):
            problems.add(index, "A row must be a JSON object with a value for each column.")
            return {}
        if row.keys() <= self._names:
            return row
        spelt: dict[str, Any] = {}
        for name, value in row.items():
            position = self._schema.positions.get(name.lower())
            if position is None:
                if not self._ignore_unknown:
                    problems.add(index, f"Column {name!r}: no such field.")
                continue
            own = self._schema.columns[position].name
            if own in spelt:
                problems.add(index, "A row names a column twice: names differ in more than their case.")
            spelt[own] = value
        return spelt


def _cast_text(texts: Any, kind: Any) -> Any:
    """Text as Arrow reads it, which is much faster than value by value; None if it cannot read all of it."""
    import pyarrow.compute as pc

    compute: Any = pc
    if pt.is_string(kind):
        return texts
    if pt.is_timestamp(kind) or pt.is_date(kind):
        return _cast_times(texts, kind)
    # Arrow also reads hexadecimal numbers.
    if compute.any(compute.match_substring(texts, "x", ignore_case=True), min_count=0).as_py():
        return None
    try:
        return texts.cast(kind)
    except pa.ArrowException:
        return None


def _cast_times(texts: Any, kind: Any) -> Any:
    """Times as Arrow reads them; None if it cannot read all of them.

    Arrow needs a zone for a TIMESTAMP and does not know UTC by its name. Without a zone, times are UTC.
    """
    import pyarrow.compute as pc

    compute: Any = pc
    forms: list[Callable[[Any], Any]] = [lambda each: each.cast(kind)]
    if pt.is_timestamp(kind) and kind.tz is not None:
        forms += [
            lambda each: compute.replace_substring(each, " UTC", "Z").cast(kind),
            lambda each: each.cast(pa.timestamp("us")).cast(pa.int64()).cast(kind),
        ]
    # The first value decides: Arrow takes a microsecond for each value that it cannot read.
    first = texts.filter(texts.is_valid())[:1] if texts.null_count else texts[:1]
    for form in forms:
        with suppress(pa.ArrowException):
            form(first)
            return form(texts)
    return None


def _column(column: Column, reader: Reader, kind: Any, found: list[Any], problems: Problems) -> Any:
    array = _parsed_at_once(found, kind)
    if array is not None:
        return array
    values = [
        None if value is _MISSING else _read(reader, value, column, index, problems)
        for index, value in enumerate(found)
    ]
    try:
        return pa.array(values, kind)
    except MemoryError:
        raise
    except (pa.ArrowException, OverflowError) as error:
        raise invalid(
            f"The values of column {column.name!r} are too many for one request: {error}."
        ) from error


def _sent_type(kind: Any) -> Any:
    """The Arrow type of the values that readers return: decimals are text."""
    if pt.is_decimal(kind):
        return pa.string()
    if pt.is_list(kind):
        return pa.list_(_sent_type(kind.value_type))
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_sent_type(field.type)) for field in kind])
    return kind


def _plain_type(kind: Any) -> type | None:
    """The type of Python whose values a column takes as they are."""
    if pt.is_string(kind):
        return str
    return int if pt.is_int64(kind) else bool if pt.is_boolean(kind) else None


def _parsed_at_once(values: list[Any], kind: Any) -> Any:
    """A column that Arrow can take or parse at once, which is much faster; else None."""
    types = set(map(type, values))
    try:
        if pt.is_timestamp(kind) or pt.is_date(kind):
            return _cast_times(pa.array(values, pa.string()), kind) if types <= {str, NoneType} else None
        plain = _plain_type(kind)
        return pa.array(values, kind) if plain is not None and types <= {plain, NoneType} else None
    except (pa.ArrowException, UnicodeError, OverflowError):
        return None


def _read(reader: Reader, value: Any, column: Column, index: int, problems: Problems) -> Any:
    if value is None:
        return None
    try:
        return reader(value)
    except ValueError as error:
        inner = getattr(error, "path", "")
        problems.add(index, f"Column {column.name + inner!r}: {error}")
        return None


class BadValue(ValueError):  # noqa: N818, the client's value, not our error
    """A value that its column cannot hold; ``path`` is the field inside a STRUCT."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class _Budget:
    """The memory that rows take besides that of the values that were sent."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0

    def begin(self, size: int) -> None:
        self._size = 0
        self.take(size)

    def take(self, size: int) -> None:
        self._size += size
        check_unpacked(self._size, self._limit)


class _Rules(NamedTuple):
    """What the readers of all columns share."""

    ignore_unknown: bool
    budget: _Budget


def _reader_for(column: Column, rules: _Rules) -> Reader:
    """The reader of the column's values, its mode included."""
    one = _reader(column, rules)
    if column.mode != "REPEATED":
        return one
    size = value_bytes(msgspec.structs.replace(column, mode="NULLABLE")) if column.children else 0
    return partial(_list, one, size, rules.budget)


def _reader(column: Column, rules: _Rules) -> Reader:
    match column.type:
        case "STRUCT":
            return _struct(column, rules)
        case "RANGE":
            return _range(column)
        case "NUMERIC" | "BIGNUMERIC":
            return partial(_number_text, column.type)
    return _READERS[column.type]


def _list(one: Reader, size: int, budget: _Budget, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadValue(f"{_shown(value)} is not a list, and the column is REPEATED.")
    budget.take(len(value) * size)
    if None in value:
        raise BadValue("an element of a REPEATED column is null.")
    return [one(item) for item in value]


def _struct(column: Column, rules: _Rules) -> Reader:
    readers = {child.name.lower(): (child.name, _reader_for(child, rules)) for child in column.fields}

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise BadValue(f"{_shown(value)} is not an object, and the column is a STRUCT.")
        made: dict[str, Any] = {}
        for key, item in value.items():
            known = readers.get(key.lower())
            if known is None:
                if rules.ignore_unknown:
                    continue
                raise BadValue("no such field.", f".{key}")
            name, reader = known
            if name in made:
                raise BadValue("it is there twice: names differ in more than their case.", f".{name}")
            made[name] = None if item is None else _inside(reader, item, name)
        return made

    return read


def _inside(reader: Reader, item: Any, name: str) -> Any:
    try:
        return reader(item)
    except ValueError as error:
        raise BadValue(str(error), f".{name}{getattr(error, 'path', '')}") from None


def _range(column: Column) -> Reader:
    element = _READERS[column.range_element]

    def end(value: Any) -> Any:
        unbounded = value is None or (isinstance(value, str) and value.upper() in ("UNBOUNDED", "NULL"))
        return None if unbounded else element(value)

    def read(value: Any) -> dict[str, Any]:
        if isinstance(value, str) and value.startswith("[") and value.endswith(")") and value.count(",") == 1:
            start, _, stop = value[1:-1].partition(",")
            value = {"start": start.strip(), "end": stop.strip()}
        if not isinstance(value, dict) or not value.keys() <= {"start", "end"}:
            raise BadValue(f"{_shown(value)} is no RANGE: write {{start, end}} or '[start, end)'.")
        return {"start": end(value.get("start")), "end": end(value.get("end"))}

    return read


def _string(value: Any) -> str:
    match value:
        case str():
            if not is_utf8(value):
                raise BadValue("it is text that UTF-8 cannot carry.")
            return value
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return str(value)
    raise _unreadable(value, "STRING")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise _unreadable(value, "BYTES")
    try:
        return b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raise BadValue(f"{_shown(value)} is not base64 text.") from None


def _int64(value: Any) -> int:
    if type(value) is str and value.isdigit() and value.isascii() and len(value) < 19:
        return int(value)
    number = _number(value, "INT64")
    if isinstance(number, Decimal) and -(2**63) <= number < 2**63 and number == int(number):
        return int(number)
    raise _unreadable(value, "INT64")


def _float64(value: Any) -> float:
    if type(value) is float:
        return value
    number = _number(value, "FLOAT64")
    result = float(number)
    if math.isinf(result) and not isinstance(number, float):
        raise _unreadable(value, "FLOAT64")
    return result


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower() if isinstance(value, str | int) else ""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _unreadable(value, "BOOL")


def _number_text(kind: str, value: Any) -> str:
    """The number as it was written; a float as Python writes it."""
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _unreadable(value, kind)
    return str(value)


def _timestamp(value: Any) -> int:
    """Text in any of BigQuery's forms, or seconds since 1970, also with a fraction, also as text."""
    if isinstance(value, str) and not is_number(value.strip()):
        return _parsed(parse_timestamp, "TIMESTAMP", value)
    seconds = _number(value, "TIMESTAMP")
    if isinstance(seconds, float) or seconds.copy_abs() > 10**12:
        raise BadValue(f"{_shown(value)} is no TIMESTAMP: it is out of range (years 1 to 9999).")
    micros = _EXACT.multiply(seconds, Decimal(1_000_000))
    return int(micros.to_integral_value(rounding=ROUND_HALF_UP, context=_EXACT))


def _number(value: Any, kind: str) -> Decimal | float:
    """A finite number exactly; NaN and the infinities as floats."""
    match value:
        case bool():
            raise _unreadable(value, kind)
        case Decimal():
            return value if value.is_finite() else math.nan if value.is_nan() else float(value)
        case int():
            return Decimal(value)
        case float():
            return value if not math.isfinite(value) else Decimal(repr(value))
        case str() if (bare := value.strip()).lower() in _INFINITE:
            return float(bare)
        case str():
            try:
                return parse_number(bare, max_exponent=_MAX_EXPONENT)
            except ValueError:
                raise _unreadable(value, kind) from None
    raise _unreadable(value, kind)


def _parsed(parse: Callable[[str], int], kind: str, value: Any) -> int:
    if not isinstance(value, str):
        raise _unreadable(value, kind)
    bare = value.strip()
    year, dash, rest = bare.partition("-")
    if dash and year.isdigit():
        # Python writes years before 1000 with fewer than four digits, and so does its client.
        bare = f"{year:0>4}-{rest}"
    try:
        return parse(bare)
    except (ValueError, OverflowError):
        raise _unreadable(value, kind) from None


def _json(value: Any) -> str:
    """Text is JSON already; other values are encoded."""
    if isinstance(value, str):
        return _string(value)
    try:
        _refuse_non_finite(value)
        return _JSON.encode(value).decode()
    except (RecursionError, msgspec.MsgspecError, TypeError, ValueError) as error:
        raise BadValue(f"{_shown(value)} is not JSON: {error}.") from None


def _refuse_non_finite(value: Any) -> None:
    match value:
        case float() if not math.isfinite(value):
            raise BadValue("JSON has no NaN and no infinity")
        case dict() | list():
            for item in value.values() if isinstance(value, dict) else value:
                _refuse_non_finite(item)


def _unreadable(value: Any, kind: str) -> BadValue:
    """The complaint about a value that is not of the column's type."""
    if isinstance(value, list | dict):
        return BadValue(NOT_REPEATED if isinstance(value, list) else NOT_A_RECORD)
    if kind not in _UNREADABLE:
        return BadValue(f"{_shown(value)} is no {kind}.")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return BadValue(_UNREADABLE[kind].replace("{}", text if len(text) <= 60 else f"{text[:60]}…"))


def _shown(value: Any) -> str:
    try:
        text = repr(str(value) if isinstance(value, Decimal) else value)
    except RecursionError:
        return "the value"
    return text if len(text) <= 60 else f"{text[:60]}…"


_READERS: Final[dict[str, Reader]] = {
    "STRING": _string,
    "GEOGRAPHY": _string,
    "INTERVAL": _string,
    "BYTES": _bytes,
    "INT64": _int64,
    "FLOAT64": _float64,
    "BOOL": _bool,
    "TIMESTAMP": _timestamp,
    "DATE": partial(_parsed, parse_date, "DATE"),
    "TIME": partial(_parsed, parse_time, "TIME"),
    "DATETIME": partial(_parsed, parse_datetime, "DATETIME"),
    "JSON": _json,
}
