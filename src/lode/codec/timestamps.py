"""The earliest and latest time of a write.

Nothing is inferred: a record counts if it has ``timestamp()``, a column counts if the caller named it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lode.errors import InvalidOptionError, SchemaViolationError
from lode.lazy import pa
from lode.times import NS_PER, datetime_to_ns, ns_to_datetime, text_to_ns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.codec.protocol import Chunk


@runtime_checkable
class Timestamped(Protocol):
    """A record with a time. A time without a zone is taken as UTC."""

    def timestamp(self) -> datetime:
        """Return the time of this record."""
        ...


class TimestampRange:
    """The earliest and latest time in the chunks of a write.

    Args:
        column: The column of the time in Arrow data and in records without ``timestamp()``: datetimes, Arrow
            timestamps, or RFC 3339 text. Nulls are ignored.
        first_row: The number of the first row, for errors.
    """

    def __init__(self, column: str | None = None, *, first_row: int = 0) -> None:
        self._column = column
        self._first: int | None = None
        self._last: int | None = None
        self._rows = 0
        self._first_row = first_row

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._rows

    @property
    def next_row(self) -> int:
        """The number of the next row."""
        return self._first_row + self._rows

    @property
    def min(self) -> datetime | None:
        """The earliest time, in UTC, or the microsecond before it."""
        return None if self._first is None else ns_to_datetime(self._first)

    @property
    def max(self) -> datetime | None:
        """The latest time, in UTC, or the microsecond after it: the range contains every record."""
        return None if self._last is None else ns_to_datetime(self._last + 999)

    def extend(self, other: TimestampRange) -> None:
        """Include the times and rows of another range."""
        self._rows += other._rows
        self._widen(moment for moment in (other._first, other._last) if moment is not None)

    def observe(self, chunk: Chunk) -> None:
        """Include the times of one chunk.

        Raises:
            InvalidOptionError: There is no such column.
            SchemaViolationError: A time is not a time.
        """
        if isinstance(chunk, list):
            self._observe_records(chunk)
        elif self._column is not None:
            self._observe_batch(chunk, self._column)
        self._rows += len(chunk)

    def observe_times(self, rows: int, times: Iterable[pa.RecordBatch]) -> None:
        """Include rows of which only the column of times is known."""
        for batch in times:
            assert self._column is not None
            self._observe_batch(batch, self._column)
        self._rows += rows

    def _observe_records(self, records: list[Any]) -> None:
        kinds = set(map(type, records))
        timestamped = {kind for kind in kinds if _is_timestamped(kind)}
        if timestamped:
            self._widen(
                self._to_ns(row, record.timestamp(), "timestamp()")
                for row, record in enumerate(records, self.next_row)
                if type(record) in timestamped
            )
        if self._column is not None and kinds - timestamped:
            self._observe_column(records, self._column, timestamped)

    def _observe_column(self, records: list[Any], column: str, timestamped: set[type]) -> None:
        others = [(row, r) for row, r in enumerate(records, self.next_row) if type(r) not in timestamped]
        # One record may leave a nullable column out. If no record of the first chunk has it, it is misspelt.
        if self._rows == 0 and not any(_has(record, column) for _, record in others):
            raise InvalidOptionError(f"no record has the timestamp column {column!r}: name one that is there")
        self._widen(
            self._to_ns(row, value, column)
            for row, record in others
            if (value := _value(record, column)) is not None
        )

    def _observe_batch(self, batch: pa.RecordBatch, column: str) -> None:
        if column not in batch.schema.names:
            raise InvalidOptionError(
                f"there is no timestamp column {column!r}: the columns are {', '.join(batch.schema.names)}"
            )
        values = batch.column(column)
        if not pa.types.is_timestamp(values.type):
            raise SchemaViolationError(
                f"the timestamp column {column!r} is {values.type}: it must be a timestamp",
                row=self.next_row,
                column=column,
            )
        import pyarrow.compute as pc

        bounds: Any = pc.min_max(values.cast(pa.int64()))
        scale = NS_PER[values.type.unit]
        self._widen(bound * scale for bound in bounds.as_py().values() if bound is not None)

    def _to_ns(self, row: int, value: Any, column: str) -> int:
        if isinstance(value, datetime):
            return datetime_to_ns(value)
        if isinstance(value, str) and column == self._column:
            try:
                return text_to_ns(value)[0]
            except ValueError as error:
                raise SchemaViolationError(
                    f"row {row}, column {column!r}: {error}", row=row, column=column
                ) from None
        raise SchemaViolationError(
            f"row {row}, {column!r} gave a {type(value).__name__}: it must be a datetime",
            row=row,
            column=column,
        )

    def _widen(self, moments: Iterable[int]) -> None:
        seen = list(moments)
        if seen:
            first, last = min(seen), max(seen)
            self._first = first if self._first is None else min(self._first, first)
            self._last = last if self._last is None else max(self._last, last)


def _is_timestamped(kind: type) -> bool:
    # A datetime has a timestamp() too, but that returns seconds, and a datetime is no record.
    return callable(getattr(kind, "timestamp", None)) and not issubclass(kind, datetime)


def _has(record: Any, column: str) -> bool:
    return column in record if isinstance(record, Mapping) else hasattr(record, column)


def _value(record: Any, column: str) -> Any:
    return record.get(column) if isinstance(record, Mapping) else getattr(record, column, None)
