"""What a file holds, in numbers: rows, and per column the bounds, the nulls and the distinct values.

Bounds are left out where they are not certain: with NaN among the values, for nested columns, for
text too long to repeat in a manifest, and for values JSON has no word for.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from lode.codec.coerce import CoercionError, coercion
from lode.format.manifest import ColumnStats, FileStats
from lode.lazy import pa, pt
from lode.times import NS_PER, datetime_to_ns, ns_to_clock, ns_to_rfc3339, time_to_ns

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_BOUND_LENGTH: Final = 256
DISTINCT_LIMIT: Final = 100_000


def to_json_value(value: Any) -> Any:
    """Return a bound as JSON can carry it, or None if it cannot.

    Times become RFC 3339 text, dates ISO text, decimals text, bytes base64 text.
    """
    match value:
        case bool() | int():
            return value
        case float():
            # -0.0 and 0.0 are one number, and manifests write it one way.
            return value + 0.0 if isfinite(value) else None
        case str():
            return value if len(value) <= MAX_BOUND_LENGTH else None
        case bytes():
            return b64encode(value).decode() if len(value) <= MAX_BOUND_LENGTH else None
        case datetime():
            return ns_to_rfc3339(datetime_to_ns(value), zone="Z" if value.tzinfo else "")
        case date():
            return value.isoformat()
        case time():
            return ns_to_clock(time_to_ns(value))
        case Decimal():
            return format(value, "f") if value.is_finite() else None
    return None


def from_json_value(value: Any, kind: pa.DataType) -> pa.Scalar[Any] | None:
    """Return a bound from a manifest as a scalar of the column's type, or None if it is not one."""
    if value is None:
        return None
    try:
        ready = coercion(kind, from_json=True)(value)
    except CoercionError:
        return None
    return pa.scalar(ready, kind)


def bound_converter(kind: Any) -> Callable[[Any], Any]:
    """Return what makes JSON of a bound, given as Arrow stores it (an integer for times)."""
    if pt.is_timestamp(kind):
        return partial(_time_text, scale=NS_PER[kind.unit], zone="" if kind.tz is None else "Z")
    if pt.is_time(kind):
        scale = NS_PER[kind.unit]
        return lambda ticks: ns_to_clock(ticks * scale)
    if pt.is_duration(kind):
        return lambda _: None
    return to_json_value


def _time_text(ticks: int, *, scale: int, zone: str) -> str | None:
    try:
        return ns_to_rfc3339(ticks * scale, zone=zone)
    except OverflowError:
        return None


@dataclass
class StatsAccumulator:
    """Follows the batches of one file.

    Args:
        schema: The schema of every batch.
        distinct: Whether to count distinct values, each column until ``DISTINCT_LIMIT``.
    """

    schema: pa.Schema
    distinct: bool = False
    _rows: int = 0
    _columns: list[_Column] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._columns = [_Column(f.name, f.type, self.distinct) for f in self.schema if is_flat(f.type)]

    def observe(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        for column in self._columns:
            column.observe(batch.column(column.name))

    def result(self) -> FileStats:
        return FileStats(self._rows, tuple(column.result() for column in self._columns))


def is_flat(kind: Any) -> bool:
    """Return whether a column of this type has statistics."""
    return not pt.is_nested(kind) and not isinstance(kind, pa.BaseExtensionType)


def has_bounds(kind: Any) -> bool:
    """Return whether a column of this type can have bounds in a manifest."""
    return not (pt.is_null(kind) or pt.is_duration(kind) or pt.is_float16(kind) or pt.is_interval(kind))


class _Column:
    def __init__(self, name: str, kind: Any, distinct: bool) -> None:
        self.name = name
        self._kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
        self._nulls = 0
        self._bounded = has_bounds(self._kind) and is_flat(self._kind)
        self._low: Any = None
        self._high: Any = None
        self._distinct = DistinctCounter() if distinct else None

    def observe(self, array: Any) -> None:
        self._nulls += array.null_count
        if isinstance(array.type, pa.DictionaryType):
            array = array.dictionary_decode()
        if self._distinct is not None:
            self._distinct.observe(array)
        if self._bounded and array.null_count < len(array):
            self._widen(_comparable(array))

    def _widen(self, array: Any) -> None:
        import pyarrow.compute as pc

        if has_nan(array):
            self._bounded = False
            return
        low, high = pc.min_max(array).values()
        low, high = low.as_py(), high.as_py()
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    def result(self) -> ColumnStats:
        known = self._bounded and self._low is not None
        convert = bound_converter(self._kind)
        return ColumnStats(
            name=self.name,
            min=convert(self._low) if known else None,
            max=convert(self._high) if known else None,
            null_count=self._nulls,
            distinct_count=0 if self._distinct is None else self._distinct.count,
        )


def _comparable(array: Any) -> Any:
    """Return an array that ``min_max`` takes and whose values survive the way to Python."""
    kind = array.type
    if pt.is_timestamp(kind) or pt.is_time64(kind):
        return array.cast(pa.int64())
    if pt.is_time32(kind):
        return array.cast(pa.int32())
    if pt.is_string_view(kind):
        return array.cast(pa.large_string())
    if pt.is_binary_view(kind):
        return array.cast(pa.large_binary())
    return array


def has_nan(array: Any) -> bool:
    """Return whether a column has a NaN, which is outside of all bounds."""
    if not pt.is_floating(array.type):
        return False
    import pyarrow.compute as pc

    # One NaN makes the sum a NaN, at half the price. So may infinities: only a finite sum is believed.
    if not pt.is_float16(array.type):
        total: Any = pc.sum(array)
        if isfinite(total.as_py() or 0.0):
            return False
    found: Any = pc.any(pc.is_nan(array))
    return bool(found.as_py())


class DistinctCounter:
    """Counts distinct values that are not null, exactly, until there are too many to remember."""

    def __init__(self, limit: int = DISTINCT_LIMIT) -> None:
        self._limit = limit
        self._seen: Any = None
        self._gave_up = False

    def observe(self, array: Any) -> None:
        if self._gave_up:
            return
        if isinstance(array.type, pa.DictionaryType):
            array = array.dictionary_decode()
        try:
            fresh = array.unique().drop_null()
        except pa.ArrowNotImplementedError:
            self._gave_up, self._seen = True, None
            return
        if self._seen is not None:
            fresh = pa.concat_arrays([self._seen, fresh]).unique()
        self._seen = fresh
        if len(fresh) > self._limit or fresh.nbytes > self._limit * 64:
            self._gave_up, self._seen = True, None

    @property
    def count(self) -> int:
        """How many there are; 0 if that was not computed."""
        return 0 if self._gave_up or self._seen is None else len(self._seen)
