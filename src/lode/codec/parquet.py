"""Parquet: columns, compressed, with statistics from the footer that was just written."""

from __future__ import annotations

import io
import shutil
import tempfile
from base64 import b64encode
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, Literal, NamedTuple, TypeAlias, cast

from lode.codec.columnar import ColumnarCodec, schema_for, to_batch
from lode.codec.dictionary import Samples, named_columns
from lode.codec.field_ids import FieldIds, identified, unidentified
from lode.codec.footer import Footers
from lode.codec.pyfile import SinkFile, SourceFile
from lode.codec.row_groups import Footer, JoinedFile, RowGroupCopy
from lode.codec.schema import to_schema
from lode.codec.stats import DistinctCounter, has_nan
from lode.errors import InvalidFormatError, InvalidOptionError
from lode.format.manifest import FileStats
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    import pyarrow.dataset as pads

    from lode.codec.footer import FooterReader
    from lode.codec.protocol import Chunk, Sink
    from lode.codec.schema import SchemaSpec

Dictionary: TypeAlias = "Literal['auto'] | bool | tuple[str, ...]"

_AUTO: Final = "auto"
_COMPRESSIONS: Final = (_AUTO, "none", "snappy", "gzip", "brotli", "lz4", "zstd")
# Up to this much Arrow data in a file, "auto" is snappy. Starting zstd for every page of a small file takes
# longer than decoding the page: in a virtual machine it asks the hypervisor what the processor can do.
_SMALL_FILE_BYTES: Final = 256 << 10
_SPOOL_BYTES: Final = 16 << 20
# A small file is written in dozens of pieces, and each would cross into Python on its own.
_BUFFER_BYTES: Final = 256 << 10
_ROWS_PER_READ: Final = 65_536
# With less Arrow data in a row group, starting threads and joining the footers is not worth it.
_MIN_APART_BYTES: Final = 4 << 20


@dataclass(frozen=True, init=False)
class Parquet(ColumnarCodec):
    """Parquet files, streaming, with statistics.

    Args:
        schema: What every file holds: a pyarrow schema, or a simple one. Without one, only Arrow data
            can be written, and the first batch of a file decides for that file.
        compression: Of the pages inside: none, snappy, gzip, brotli, lz4 or zstd. ``"auto"`` is zstd, and
            snappy in small files, which are written and read faster so.
        level: The compression's level; None is its default. With one, ``"auto"`` is always zstd.
        row_group_rows: The most rows in a row group.
        row_group_bytes: The most bytes of Arrow data held in memory before a row group is written.
        distinct_count: Whether statistics count distinct values; costs a hash of every value.
        dictionary: Which columns get a dictionary: ``"auto"`` samples the first rows, and of a run of small
            files those of some; True, False, or names.
    """

    name: ClassVar[str] = "parquet"
    extension: ClassVar[str] = ".parquet"
    schema: pa.Schema | None
    _: KW_ONLY
    compression: str
    level: int | None
    row_group_rows: int
    row_group_bytes: int
    distinct_count: bool
    dictionary: Dictionary
    if TYPE_CHECKING:
        _samples: Samples
        _footers: Footers
        _stored: StoredSchema | None

    def __init__(
        self,
        schema: SchemaSpec | None = None,
        *,
        compression: str | None = "auto",
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
        object.__setattr__(self, "_samples", Samples())
        object.__setattr__(self, "_footers", Footers())
        object.__setattr__(self, "_stored", None)

    def with_field_ids(self, ids: FieldIds | None) -> Parquet:
        """Return this codec for files that have these ids of columns, and of the fields inside them."""
        other = copy(self)
        object.__setattr__(other, "_stored", None if ids is None else StoredSchema(ids))
        return other

    @property
    def field_ids(self) -> FieldIds | None:
        """The ids that files get, if their columns have any."""
        return None if self._stored is None else self._stored.ids

    @property
    def bytes_per_file(self) -> int:
        """A file of its own is worth two row groups: with less the files get many and small."""
        return 2 * self.row_group_bytes

    def stream_encoder(self, sink: Sink) -> ParquetEncoder:
        return ParquetEncoder(sink, self)

    def threaded_encoder(self, sink: Sink, threads: int) -> ParquetEncoder:
        """An encoder that encodes so many row groups of its file at the same time."""
        return ParquetEncoder(sink, self, threads)

    def decode(
        self,
        source: BinaryIO,
        row_groups: list[int] | None = None,
        columns: list[str] | None = None,
    ) -> Iterator[Chunk]:
        """Yield record batches, of these row groups and columns or of all; without rows, an empty one.

        A source that cannot seek is first copied, past 16 MiB to a temporary file.

        Raises:
            InvalidFormatError: The bytes are not a Parquet file.
        """
        import pyarrow.parquet as pq

        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
            source_file = SourceFile(source)
            if not source.seekable():
                shutil.copyfileobj(source, spool)
                source_file = SourceFile(cast("BinaryIO", spool))
            try:
                file = pq.ParquetFile(pa.PythonFile(source_file, mode="r"), page_checksum_verification=True)
                without_ids: pa.Schema | None = None
                empty = True
                for batch in file.iter_batches(_ROWS_PER_READ, row_groups, columns):
                    if empty:
                        empty, found = False, batch.schema
                        plain = unidentified(found)
                        without_ids = None if plain is found else plain
                    if without_ids is None:
                        yield batch
                    else:
                        yield pa.RecordBatch.from_arrays(batch.columns, schema=without_ids)
                if empty:
                    yield pa.RecordBatch.from_pylist([], schema=unidentified(file.schema_arrow))
            except (pa.ArrowException, OSError) as error:
                if error is source_file.error:
                    raise
                raise InvalidFormatError(f"not a Parquet file: {error}") from error

    def footer_reader(self, schema: pa.Schema) -> FooterReader:
        """Reads statistics out of footers of files with this schema."""
        return self._footers.reader(schema)

    def empty_footer(self) -> Footer:
        """The footer of a file without rows."""
        sink = io.BytesIO()
        self.stream_encoder(sink).close()
        return Footer.of(sink.getbuffer(), len(sink.getbuffer()))

    def file_schema(self, source: BinaryIO) -> pa.Schema:
        """Read the footer; the whole file if ``source`` cannot seek."""
        import pyarrow.parquet as pq

        return unidentified(pq.read_schema(source if source.seekable() else pa.BufferReader(source.read())))

    def open_whole(self, data: bytes) -> Callable[[Sequence[str]], pa.Table]:
        """Read the footer of a whole file; the result decodes columns on its caller's thread."""
        import pyarrow.parquet as pq

        file: Any = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False, page_checksum_verification=True)

        def decode(columns: Sequence[str]) -> pa.Table:
            table: pa.Table = file.read(columns, use_threads=False)
            return table

        return decode

    def arrow_format(self) -> pads.FileFormat:
        import pyarrow.dataset as pads

        return pads.ParquetFileFormat()


class _Stored(NamedTuple):
    """What a Parquet writer gets for a schema: the schema with ids, and the metadata of the file."""

    schema: pa.Schema
    metadata: dict[bytes, bytes]


class StoredSchema:
    """Makes schemas with ids. It remembers the last one: most codecs only ever have one."""

    def __init__(self, ids: FieldIds) -> None:
        self.ids = ids
        self._last: tuple[pa.Schema, _Stored | None] | None = None

    def of(self, schema: pa.Schema) -> _Stored | None:
        """What the writer gets; None if some field has no id."""
        last = self._last
        if last is None or (last[0] is not schema and not last[0].equals(schema, check_metadata=True)):
            last = self._last = schema, self._made(schema)
        return last[1]

    def _made(self, schema: pa.Schema) -> _Stored | None:
        found = identified(schema, self.ids)
        if found is None:
            return None
        # Arrow's own copy of the schema would repeat every id, at a hundred bytes each.
        arrow = b64encode(schema.serialize().to_pybytes())
        return _Stored(found, {**(schema.metadata or {}), b"ARROW:schema": arrow})

    def __reduce__(self) -> tuple[type[StoredSchema], tuple[FieldIds]]:
        return StoredSchema, (self.ids,)


class ParquetEncoder:
    """Writes one file. It holds at most one row group of Arrow data, and one more for each further thread."""

    def __init__(self, sink: Sink, codec: Parquet, threads: int | None = None) -> None:
        self._file = SinkFile(sink)
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._encoded: deque[Future[Any] | RowGroupCopy] = deque()
        self._joined: JoinedFile | None = None
        self._dictionary: bool | list[str] | None = None
        self._codec = codec
        self._schema = codec.schema
        self._rows = 0
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._writer: Any = None
        self._buffer: Any = None
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
            if not self._is_full():
                continue
            if self._threads is not None:
                self._encode_apart(self._take_pending())
            else:
                self._write_row_group()
                # The size of the file decides when it is closed.
                self._buffer.flush()

    def close(self) -> None:
        if self._schema is None:
            raise InvalidOptionError(
                "a Parquet file without rows needs a schema: give the codec one, or write an empty table"
            )
        if self._joined is None and self._threads is not None:
            self._cut_pending(min(self._threads, self._pending_bytes // _MIN_APART_BYTES))
        if self._joined is not None:
            self._close_joined()
        else:
            if self._pending or self._writer is None:
                self._write_row_group(last=True)
            self._writer.close()
            self._buffer.close()
        self._file.disconnect()

    def copy(self, copied: RowGroupCopy) -> None:
        """Write a row group as it is. Only for an encoder that was made with threads."""
        assert self._threads is not None
        self._schema = self._schema or self._codec.schema
        if self._pending:
            self._encode_apart(self._take_pending())
        self._begin_joined()
        self._encoded.append(copied)
        while len(self._encoded) > self._threads:
            self._write_encoded()

    def abort(self) -> None:
        """Stop the threads. Nothing more is written."""
        self._file.disconnect()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def statistics(self) -> FileStats:
        if self._schema is None or not self._footers:
            return FileStats(0)
        return self._codec._footers.reader(self._schema).stats(
            self._footers[0],
            unbounded=self._with_nan,
            distinct={name: counter.count for name, counter in self._distinct.items()},
        )

    def __del__(self) -> None:
        self._file.disconnect()

    def _is_full(self) -> bool:
        codec = self._codec
        return self._pending_rows >= codec.row_group_rows or self._pending_bytes >= codec.row_group_bytes

    def _write_row_group(self, *, last: bool = False) -> None:
        assert self._schema is not None
        is_small = last and self._pending_bytes <= _SMALL_FILE_BYTES
        table = self._take_pending()
        if self._writer is None:
            self._buffer = pa.BufferedOutputStream(pa.PythonFile(self._file, mode="w"), _BUFFER_BYTES)
            self._writer = self._open(self._buffer, table, self._footers, is_small=is_small)
        if table.num_rows:
            self._observe(table)
            self._writer.write_table(table, row_group_size=table.num_rows)

    def _take_pending(self) -> pa.Table:
        table = pa.Table.from_batches(self._pending, schema=self._schema)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        return table

    def _cut_pending(self, count: int) -> None:
        """Encode the rows that are held as so many row groups, if that is more than one.

        They are all rows of a file that ends before its first row group is full. One thread would encode it.
        """
        if count < 2:
            return
        table = self._take_pending()
        rows = -(-table.num_rows // count)
        for start in range(0, table.num_rows, rows):
            self._encode_apart(table.slice(start, rows))

    def _encode_apart(self, table: pa.Table) -> None:
        """Encode a row group on another thread; wait if all threads are busy."""
        assert self._threads is not None
        self._begin_joined()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="lode-encode")
        while len(self._encoded) >= self._threads:
            self._write_encoded()
        self._observe(table)
        if self._dictionary is None:
            self._dictionary = self._dictionary_of(table)
        self._encoded.append(self._pool.submit(self._encode, table))

    def _begin_joined(self) -> None:
        if self._joined is None:
            self._joined = JoinedFile(self._file, self._codec.with_schema(self._schema).empty_footer())

    def _encode(self, table: pa.Table) -> Any:
        """A file of one row group."""
        sink = pa.BufferOutputStream()
        writer = self._open(sink, table, None, is_small=False)
        writer.write_table(table, row_group_size=table.num_rows)
        writer.close()
        return sink.getvalue()

    def _write_encoded(self) -> None:
        assert self._joined is not None
        first = self._encoded.popleft()
        if isinstance(first, RowGroupCopy):
            self._joined.copy(first)
            self._with_nan |= first.unbounded
        else:
            self._joined.add(first.result())

    def _close_joined(self) -> None:
        import pyarrow.parquet as pq

        assert self._joined is not None
        if self._pending:
            self._encode_apart(self._take_pending())
        while self._encoded:
            self._write_encoded()
        if self._pool is not None:
            self._pool.shutdown()
        self._footers.append(pq.read_metadata(pa.BufferReader(self._joined.close())))

    def _dictionary_of(self, sample: pa.Table) -> bool | list[str]:
        if self._codec.dictionary == "auto":
            return self._codec._samples.repeating(sample)
        return named_columns(sample, self._codec.dictionary)

    def _open(self, sink: Any, sample: pa.Table, footers: list[Any] | None, *, is_small: bool) -> Any:
        import pyarrow.parquet as pq

        codec = self._codec
        compression = codec.compression
        if compression == _AUTO:
            compression = "snappy" if is_small and codec.level is None else "zstd"
        writer: Any = pq.ParquetWriter
        dictionary = self._dictionary_of(sample) if self._dictionary is None else self._dictionary
        stored = None if codec._stored is None else codec._stored.of(sample.schema)
        try:
            made = writer(
                sink,
                sample.schema if stored is None else stored.schema,
                compression=compression,
                compression_level=codec.level,
                use_dictionary=dictionary,
                metadata_collector=footers,
                write_page_checksum=True,
                store_schema=stored is None,
            )
            if stored is not None:
                made.add_key_value_metadata(stored.metadata)
            return made
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise InvalidOptionError(f"Parquet cannot hold this schema, or not so: {error}") from error

    def _observe(self, table: pa.Table) -> None:
        reader = self._codec._footers.reader(table.schema)
        for name in reader.floating:
            if name not in self._with_nan and has_nan(table.column(name)):
                self._with_nan.add(name)
        for name in reader.flat if self._codec.distinct_count else ():
            counter = self._distinct.setdefault(name, DistinctCounter())
            for chunk in table.column(name).chunks:
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
