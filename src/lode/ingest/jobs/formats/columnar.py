"""Parquet and ORC files, and Arrow columns of any file made to fit a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.ingest.decode.fill import Filler
from lode.ingest.decode.packed import count_columns
from lode.ingest.jobs.formats.source import BATCH_BYTES, BATCH_ROWS, BadRecords, rows_at_once, unreadable
from lode.ingest.status import Refused, invalid
from lode.ingest.types.arrow import from_arrow
from lode.ingest.types.check import MAX_COLUMNS
from lode.ingest.types.columns import arrow_type
from lode.ingest.types.row_errors import failing
from lode.lazy import pa, pt
from lode.times import parse_date, parse_datetime, parse_time, parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.types.columns import Column, TableSchema

# A row group is decoded in pieces, and one page of it at a time.
_MAX_ROW_GROUP_BYTES: Final = 4 << 30
# The most that a value takes that is not text, with its null and its place in a list.
_VALUE_BYTES: Final = 16
# Texts of dictionaries are decoded in pieces of this size.
_MAX_TEXT_BYTES: Final = 8 * BATCH_BYTES
# A row group that needs more memory than there is is read again in pieces so much smaller.
_SMALLER: Final = 16


class Parquet:
    """A Parquet file.

    Args:
        path: The file.
        ignore_unknown: Leave out columns that the table does not have.
    """

    def __init__(self, path: Path, bad: BadRecords, *, ignore_unknown: bool) -> None:
        import pyarrow.parquet as pq

        self._bad = bad
        self._ignore_unknown = ignore_unknown
        try:
            # Decoded without threads of Arrow: this is one of many tasks of the server.
            self._file = pq.ParquetFile(path, pre_buffer=False)
            self._arrow = _checked(self._file.schema_arrow, "Parquet")
        except (Refused, MemoryError):
            raise
        except Exception as error:  # Arrow raises errors of many kinds for damaged files
            raise unreadable("Parquet", error) from None

    def schema(self) -> TableSchema:
        return from_arrow(self._arrow)

    def batches(self, schema: TableSchema) -> Iterator[pa.RecordBatch]:
        fit = Fitted(schema, self._arrow, self._bad, ignore_unknown=self._ignore_unknown)
        at_once = rows_at_once(schema)
        groups = self._file.metadata
        counted = sum(groups.row_group(number).num_rows for number in range(groups.num_row_groups))
        if counted != groups.num_rows:
            raise unreadable(
                "Parquet", f"its row groups have {counted:,} rows, and its footer says {groups.num_rows:,}"
            )
        for number in range(groups.num_row_groups):
            group = groups.row_group(number)
            if group.total_byte_size > _MAX_ROW_GROUP_BYTES:
                raise invalid(
                    f"Row group {number} of the Parquet file has {group.total_byte_size:,} bytes, the limit "
                    f"is {_MAX_ROW_GROUP_BYTES:,}: write smaller row groups."
                )
            yield from fit.each(self._read(number, min(at_once, _rows_of(group)), group.num_rows))

    def _read(self, number: int, size: int, expected: int) -> Iterator[pa.RecordBatch]:
        rows = 0
        while True:
            try:
                for batch in self._batches(number, size, rows):
                    rows += batch.num_rows
                    yield batch
                break
            except MemoryError:
                # A page may name one long value many times, which its size does not tell.
                if size == 1:
                    raise
            size = max(1, size // _SMALLER)
        if rows != expected:
            raise unreadable(
                "Parquet", f"row group {number} has {rows:,} rows, and its footer says {expected:,}"
            )

    def _batches(self, number: int, size: int, skip: int) -> Iterator[pa.RecordBatch]:
        """The rows of a row group without the first ``skip``."""
        found = self._file.iter_batches(batch_size=size, row_groups=[number], use_threads=False)
        while True:
            try:
                batch = next(found, None)
                if batch is not None:
                    batch.validate(full=True)
            except MemoryError:
                raise
            except Exception as error:
                raise unreadable("Parquet", error) from None
            if batch is None:
                return
            skipped = min(skip, batch.num_rows)
            skip -= skipped
            if skipped < batch.num_rows:
                yield batch.slice(skipped)


def _rows_of(group: Any) -> int:
    """How many rows of a row group make a batch."""
    rows: int = max(1, group.num_rows)
    # A null takes no bytes in the file, and a row may have a list with any number of them.
    values = sum(group.column(position).num_values for position in range(group.num_columns))
    size: int = max(group.total_byte_size, values * _VALUE_BYTES)
    return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(1, size)))


class Orc:
    """An ORC file; the arguments are those of ``Parquet``."""

    def __init__(self, path: Path, bad: BadRecords, *, ignore_unknown: bool) -> None:
        import pyarrow.orc as orc

        self._bad = bad
        self._ignore_unknown = ignore_unknown
        try:
            self._file = orc.ORCFile(path)
            self._arrow = _checked(self._file.schema, "ORC")
        except (Refused, MemoryError):
            raise
        except Exception as error:  # Arrow raises errors of many kinds for damaged files
            raise unreadable("ORC", error) from None

    def schema(self) -> TableSchema:
        return from_arrow(self._arrow)

    def batches(self, schema: TableSchema) -> Iterator[pa.RecordBatch]:
        fit = Fitted(schema, self._arrow, self._bad, ignore_unknown=self._ignore_unknown)
        at_once = rows_at_once(schema)
        for number in range(self._file.nstripes):
            stripe = self._stripe(number)
            size = max(1, min(at_once, BATCH_BYTES * stripe.num_rows // max(1, stripe.nbytes)))
            yield from fit.each(stripe.slice(start, size) for start in range(0, stripe.num_rows, size))

    def _stripe(self, number: int) -> pa.RecordBatch:
        try:
            stripe: pa.RecordBatch = self._file.read_stripe(number)
            stripe.validate(full=True)
        except MemoryError:
            raise
        except Exception as error:
            raise unreadable("ORC", error) from None
        return stripe


def _checked(schema: pa.Schema, kind: str) -> pa.Schema:
    """The plain schema of a file. Names that are not UTF-8 are found when they are read."""
    try:
        plain = plain_schema(schema)
        if count_columns(from_arrow(plain)) > MAX_COLUMNS:
            raise invalid(f"The {kind} file has more than {MAX_COLUMNS} columns: send it with fewer.")
    except UnicodeError as error:
        raise unreadable(kind, error) from None
    return plain


class Fitted:
    """Makes batches of a file's schema fit a table.

    Args:
        schema: The table's.
        arrow: The file's, as ``plain_schema`` returns it.
        bad: Counts the rows that do not fit.
        ignore_unknown: Leave out columns that the table does not have.
    """

    def __init__(
        self, schema: TableSchema, arrow: pa.Schema, bad: BadRecords, *, ignore_unknown: bool
    ) -> None:
        self._bad = bad
        known = schema.positions
        if not ignore_unknown:
            for name in arrow.names:
                if name.lower() not in known:
                    raise invalid(
                        f"No such field: {name}; add it with schemaUpdateOptions ALLOW_FIELD_ADDITION, or "
                        "set ignoreUnknownValues."
                    )
        self._fields = [field for field in arrow if field.name.lower() in known]
        self._columns = [schema.columns[known[field.name.lower()]] for field in self._fields]
        types = [
            _adapted_type(field.type, column)
            for field, column in zip(self._fields, self._columns, strict=True)
        ]
        self._defaults = [column.name for column in schema if column.default]
        sent = {column.name for column in self._columns}
        self._defaults = [name for name in self._defaults if name not in sent]
        self._filler = Filler(schema, [field.name for field in self._fields], types)

    def each(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches in the table's schema, without bad rows as far as these are tolerated."""
        for batch in batches:
            yield from self._each(batch)

    def _each(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if batch.num_rows > 1 and _most_text(batch) > _MAX_TEXT_BYTES:
            half = batch.num_rows // 2
            for part in (batch.slice(0, half), batch.slice(half)):
                yield from self._each(part)
            return
        first, self._bad.rows = self._bad.rows, self._bad.rows + batch.num_rows
        plain = [_plain(batch.column(field.name), field.type) for field in self._fields]
        yield from self._fit(plain, batch.num_rows, first)

    def _fit(self, columns: list[Any], rows: int, first: int) -> Iterator[pa.RecordBatch]:
        while rows:
            bad: list[int] = []
            adapted = []
            for array, column in zip(columns, self._columns, strict=True):
                made, failed = _adapted(array, column)
                adapted.append(made)
                for index in failed:
                    self._bad.add(
                        f"Row {first + index}: Column {column.name!r}: {array[index]} is no {column.type}."
                    )
                bad += failed
            if not bad:
                try:
                    yield self._filler.batch(adapted, rows, self._defaults)
                    return
                except Refused as refused:
                    if not refused.rows:
                        raise
                    for problem in refused.rows:
                        self._bad.add(f"Row {first + problem.index}: {problem.message}")
                    bad = [problem.index for problem in refused.rows]
            gone = set(bad)
            kept = pa.array([index for index in range(rows) if index not in gone], pa.int64())
            columns, rows = [array.take(kept) for array in columns], len(kept)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without dictionaries and maps, which a table stores as values and as lists of entries."""
    return pa.schema([field.with_type(_plain_type(field.type)) for field in schema])


def _plain_type(kind: Any) -> Any:
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if pt.is_map(kind):
        entry = [
            kind.key_field.with_type(_plain_type(kind.key_type)),
            kind.item_field.with_type(_plain_type(kind.item_type)),
        ]
        return pa.list_(pa.struct([entry[0].with_name("key"), entry[1].with_name("value")]))
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    if pt.is_list(kind) or pt.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    return kind


def _most_text(batch: pa.RecordBatch) -> int:
    """The most bytes that texts of dictionaries become as plain values. Each is used any number of times."""
    import pyarrow.compute as pc

    compute: Any = pc
    longest = 0
    columns: list[Any] = batch.columns
    for array in columns:
        kind = array.type
        if pt.is_dictionary(kind) and not pt.is_primitive(kind.value_type) and not kind.value_type.num_fields:
            longest += compute.max(compute.binary_length(array.dictionary)).as_py() or 0
    return longest * batch.num_rows


def _plain(array: Any, kind: Any) -> Any:
    return array if array.type == kind else array.cast(kind)


# -- values that load jobs take in addition to the streaming APIs ----------------------------------------

_FROM_TEXT: Final = {
    "DATE": parse_date,
    "TIME": parse_time,
    "DATETIME": parse_datetime,
    "TIMESTAMP": parse_timestamp,
}


def _adapted_type(kind: Any, column: Column) -> Any:
    """The type after ``_adapted``."""
    target = _target(kind, column)
    return kind if target is None else target


def _target(kind: Any, column: Column) -> Any:
    """The type that values are cast to before they are fitted; None if they are not cast.

    Files have civil times in TIMESTAMP columns and text for times, which the service reads.
    """
    if column.mode == "REPEATED":
        return None
    if column.type == "TIMESTAMP" and pt.is_timestamp(kind) and kind.tz is None:
        return pa.timestamp(kind.unit, "UTC")
    if column.type == "DATETIME" and pt.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit)
    if column.type in _FROM_TEXT and (pt.is_string(kind) or pt.is_large_string(kind)):
        return arrow_type(column)
    return None


def _adapted(array: Any, column: Column) -> tuple[Any, list[int]]:
    """A column after the cast, and the indices of values that cannot be cast."""
    target = _target(array.type, column)
    if target is None:
        return array, []
    try:
        return array.cast(target), []
    except pa.ArrowException:
        if not pt.is_string(array.type) and not pt.is_large_string(array.type):
            return array, failing(array, lambda part: part.cast(target))
    values: list[int | None] = []
    failed: list[int] = []
    for index, text in enumerate(array.to_pylist()):
        try:
            values.append(None if text is None else _FROM_TEXT[column.type](text.strip()))
        except (ValueError, OverflowError):
            values.append(None)
            failed.append(index)
    plain = pa.int32() if pt.is_date(target) else pa.int64()
    return pa.array(values, plain).view(target), failed
