"""Parquet: columns, compressed, with statistics from the footer that was just written."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, Literal, TypeAlias, cast

from lode.codec.columnar import schema_for, to_batch
from lode.codec.inlet import Inlet
from lode.codec.outlet import Outlet
from lode.codec.schema import to_schema
from lode.codec.stats import DistinctCounter, footer_stats, has_nan, is_flat
from lode.errors import InvalidFormatError, InvalidOptionError
from lode.format.manifest import FileStats
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lode.codec.protocol import Chunk, Sink
    from lode.codec.schema import SchemaSpec

Dictionary: TypeAlias = "Literal['auto'] | bool | tuple[str, ...]"

_COMPRESSIONS: Final = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
_SAMPLE_ROWS: Final = 10_000
# So many small files share what was found about the first of them.
_FILES_PER_LOOK: Final = 64
_SPOOL_BYTES: Final = 16 << 20
_ROWS_PER_READ: Final = 65_536


@dataclass(frozen=True, init=False)
class Parquet:
    """Parquet files, streaming, with statistics.

    Args:
        schema: What every file holds: a pyarrow schema, or a simple one. Without one, only Arrow data
            can be written, and the first batch of a file decides for that file.
        compression: Of the pages inside: none, snappy, gzip, brotli, lz4 or zstd.
        level: The compression's level; None is its default.
        row_group_rows: The most rows in a row group.
        row_group_bytes: The most bytes of Arrow data held in memory before a row group is written.
        distinct_count: Whether statistics count distinct values; costs a hash of every value.
        dictionary: Which columns get a dictionary: ``"auto"`` samples the first rows, and of a run of small
            files those of some; True, False, or names.
    """

    name: ClassVar[str] = "parquet"
    schema: pa.Schema | None
    _: KW_ONLY
    compression: str
    level: int | None
    row_group_rows: int
    row_group_bytes: int
    distinct_count: bool
    dictionary: Dictionary
    if TYPE_CHECKING:
        _samples: _Samples

    def __init__(
        self,
        schema: SchemaSpec | None = None,
        *,
        compression: str | None = "zstd",
        level: int | None = None,
        row_group_rows: int = 1 << 20,
        row_group_bytes: int = 32 << 20,
        distinct_count: bool = False,
        dictionary: Literal["auto"] | bool | Iterable[str] = "auto",
    ) -> None:
        compression = "none" if compression is None else compression.lower()
        _check_options(compression, level, row_group_rows, row_group_bytes)
        options = {
            "schema": None if schema is None else to_schema(schema),
            "compression": compression,
            "level": level,
            "row_group_rows": row_group_rows,
            "row_group_bytes": row_group_bytes,
            "distinct_count": distinct_count,
            "dictionary": _to_dictionary(dictionary),
        }
        for key, value in options.items():
            object.__setattr__(self, key, value)
        object.__setattr__(self, "_samples", _Samples())

    def conform(self, chunk: Chunk, first_row: int) -> Chunk:
        """Return the chunk in the schema, if there is one; an error names rows counted from ``first_row``."""
        return to_batch(chunk, schema_for(chunk, self.schema), first_row=first_row)

    def stream_encoder(self, sink: Sink) -> ParquetEncoder:
        return ParquetEncoder(sink, self)

    def decode(self, source: BinaryIO) -> Iterator[Chunk]:
        """Yield record batches; a file without rows yields an empty one.

        A source that cannot seek is first copied, past 16 MiB to a temporary file.

        Raises:
            InvalidFormatError: The bytes are not a Parquet file.
        """
        import pyarrow.parquet as pq

        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
            inlet = Inlet(source)
            if not source.seekable():
                shutil.copyfileobj(source, spool)
                inlet = Inlet(cast("BinaryIO", spool))
            try:
                file = pq.ParquetFile(pa.PythonFile(inlet, mode="r"), page_checksum_verification=True)
                empty = True
                for batch in file.iter_batches(_ROWS_PER_READ):
                    empty = False
                    yield batch
                if empty:
                    yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)
            except (pa.ArrowException, OSError) as error:
                if error is inlet.error:
                    raise
                raise InvalidFormatError(f"not a Parquet file: {error}") from error


class ParquetEncoder:
    """Writes one file, one row group at a time; holds at most one row group of Arrow data."""

    def __init__(self, sink: Sink, codec: Parquet) -> None:
        self._outlet = Outlet(sink)
        self._codec = codec
        self._schema = codec.schema
        self._rows = 0
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._writer: Any = None
        self._footers: list[Any] = []
        self._with_nan: set[str] = set()
        self._distinct: dict[str, DistinctCounter] = {}

    def write(self, chunk: Chunk) -> None:
        schema = self._schema = schema_for(chunk, self._schema)
        batch = to_batch(chunk, schema, first_row=self._rows)
        self._rows += batch.num_rows
        while batch.num_rows:
            head = batch.slice(0, self._codec.row_group_rows - self._pending_rows)
            batch = batch.slice(head.num_rows)
            self._pending.append(head)
            self._pending_rows += head.num_rows
            self._pending_bytes += head.nbytes
            if self._is_full():
                self._write_row_group()

    def close(self) -> None:
        if self._schema is None:
            raise InvalidOptionError(
                "a Parquet file without rows needs a schema: give the codec one, or write an empty table"
            )
        if self._pending or self._writer is None:
            self._write_row_group()
        self._writer.close()
        self._outlet.disconnect()

    def statistics(self) -> FileStats:
        if self._schema is None or not self._footers:
            return FileStats(0)
        return footer_stats(
            self._footers[0],
            self._schema,
            unbounded=self._with_nan,
            distinct={name: counter.count for name, counter in self._distinct.items()},
        )

    def __del__(self) -> None:
        self._outlet.disconnect()

    def _is_full(self) -> bool:
        codec = self._codec
        return self._pending_rows >= codec.row_group_rows or self._pending_bytes >= codec.row_group_bytes

    def _write_row_group(self) -> None:
        assert self._schema is not None
        table = pa.Table.from_batches(self._pending, schema=self._schema)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        if self._writer is None:
            self._writer = self._open(table)
        if table.num_rows:
            self._observe(table)
            self._writer.write_table(table, row_group_size=table.num_rows)

    def _open(self, sample: pa.Table) -> Any:
        import pyarrow.parquet as pq

        codec = self._codec
        writer: Any = pq.ParquetWriter
        dictionary = (
            codec._samples.repeating(sample)
            if codec.dictionary == "auto"
            else _named_columns(sample, codec.dictionary)
        )
        try:
            return writer(
                pa.PythonFile(self._outlet, mode="w"),
                sample.schema,
                compression=codec.compression,
                compression_level=codec.level,
                use_dictionary=dictionary,
                metadata_collector=self._footers,
                write_page_checksum=True,
            )
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise InvalidOptionError(f"Parquet cannot hold this schema, or not so: {error}") from error

    def _observe(self, table: pa.Table) -> None:
        for field in table.schema:
            column = table.column(field.name)
            if pt.is_floating(field.type) and field.name not in self._with_nan and has_nan(column):
                self._with_nan.add(field.name)
            if self._codec.distinct_count and is_flat(field.type):
                counter = self._distinct.setdefault(field.name, DistinctCounter())
                for chunk in column.chunks:
                    counter.observe(chunk)


def _check_options(compression: str, level: int | None, rows: int, size: int) -> None:
    if compression not in _COMPRESSIONS:
        raise InvalidOptionError(
            f"unknown Parquet compression {compression!r}: known are {', '.join(_COMPRESSIONS)}"
        )
    if rows < 1 or size < 1:
        raise InvalidOptionError(f"a row group holds at least one row and byte, got {rows} and {size}")
    if level is not None and compression in ("none", "snappy"):
        raise InvalidOptionError(f"the compression {compression!r} has no levels")


def _to_dictionary(choice: Literal["auto"] | bool | Iterable[str]) -> Dictionary:
    if choice == "auto":
        return "auto"
    if isinstance(choice, bool):
        return choice
    if isinstance(choice, str):
        raise InvalidOptionError(f"dictionary is 'auto', True, False or a list of columns, got {choice!r}")
    return tuple(choice)


class _Samples:
    """What samples say about columns worth a dictionary.

    Small files come in long runs of the same kind, and looking closely at each costs as much as a good part
    of writing it: so a look at one of them serves those that follow. What was seen does not travel with a
    pickled codec.
    """

    def __init__(self) -> None:
        self._seen: tuple[pa.Schema, int, list[str]] | None = None
        self._uses = 0

    def repeating(self, sample: pa.Table) -> list[str]:
        """The columns whose values repeat."""
        if self._seen is not None and self._uses < _FILES_PER_LOOK:
            schema, rows, found = self._seen
            # What few rows show says little about many.
            if sample.num_rows <= min(_SAMPLE_ROWS, 4 * rows) and schema.equals(sample.schema):
                self._uses += 1
                return found
        found = _repeating_columns(sample)
        self._seen, self._uses = (sample.schema, sample.num_rows, found), 0
        return found

    def __reduce__(self) -> tuple[type[_Samples], tuple[()]]:
        return _Samples, ()


def _named_columns(sample: pa.Table, choice: bool | Iterable[str]) -> bool | list[str]:
    if isinstance(choice, bool):
        return choice
    unknown = [name for name in choice if name not in sample.schema.names]
    if unknown:
        raise InvalidOptionError(f"no column {unknown[0]!r} to make a dictionary of")
    return [path for name in choice for path, _ in _leaves(name, sample.column(name).type, None)]


def _repeating_columns(sample: pa.Table) -> list[str]:
    head = sample.slice(0, _SAMPLE_ROWS).combine_chunks()
    return [
        path
        for name in sample.schema.names
        for path, values in _leaves(name, head.column(name).type, head.column(name))
        if _repeats(values)
    ]


def _repeats(values: Any) -> bool:
    """Tell whether a sample repeats itself enough for a dictionary to pay."""
    if pt.is_boolean(values.type) or not len(values):
        return False
    try:
        return bool(len(values.unique()) * 2 <= len(values))
    except pa.ArrowNotImplementedError:
        return False


def _leaves(path: str, kind: Any, values: Any) -> Iterator[tuple[str, Any]]:
    """Yield the paths under which Parquet stores a column, each with its values if they are given."""
    known = values is not None
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pt.is_struct(kind):
        children = values.flatten() if known else [None] * kind.num_fields
        for member, child in zip(kind, children, strict=True):
            yield from _leaves(f"{path}.{member.name}", member.type, child)
    elif pt.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type, values.keys if known else None)
        yield from _leaves(f"{path}.key_value.value", kind.item_type, values.items if known else None)
    elif hasattr(kind, "value_field"):
        yield from _leaves(f"{path}.list.element", kind.value_type, values.flatten() if known else None)
    else:
        yield path, values
