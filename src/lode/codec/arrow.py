"""Arrow IPC streams: what is in memory, as it is in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final

from lode.codec.columnar import ColumnarCodec, schema_for, to_batch
from lode.codec.pyfile import SinkFile, SourceFile
from lode.codec.schema import to_schema
from lode.codec.stats import StatsAccumulator
from lode.errors import InvalidFormatError, InvalidOptionError
from lode.format.manifest import FileStats
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.codec.protocol import Chunk, Sink
    from lode.codec.schema import SchemaSpec

_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


@dataclass(frozen=True, init=False)
class ArrowIPC(ColumnarCodec):
    """Arrow IPC stream files, streaming, with statistics.

    Args:
        schema: What every file holds. Without one, only Arrow data can be written, and the first batch
            of a file decides for that file.
    """

    name: ClassVar[str] = "arrow"
    # Arrow's own extension for streams; readers expect the random-access format in ".arrow".
    extension: ClassVar[str] = ".arrows"
    schema: pa.Schema | None

    def __init__(self, schema: SchemaSpec | None = None) -> None:
        object.__setattr__(self, "schema", None if schema is None else to_schema(schema))

    def stream_encoder(self, sink: Sink) -> ArrowEncoder:
        return ArrowEncoder(sink, self.schema)

    def decode(self, source: BinaryIO) -> Iterator[Chunk]:
        """Yield record batches; a file without rows yields an empty one. Needs no seeking.

        Raises:
            InvalidFormatError: The bytes are not a whole Arrow stream.
        """
        source_file = SourceFile(source)
        try:
            with pa.ipc.open_stream(pa.PythonFile(source_file, mode="r")) as reader:
                empty = True
                for batch in reader:
                    empty = False
                    yield batch
                schema = reader.schema
        except (pa.ArrowException, OSError, EOFError) as error:
            if error is source_file.error:
                raise
            raise InvalidFormatError(f"not an Arrow stream: {error}") from error
        # Arrow takes the end of the file for the end of the stream, even where a batch was cut off.
        if source_file.tail != _END_OF_STREAM:
            raise InvalidFormatError("the Arrow stream is cut short: its end mark is missing")
        if empty:
            yield pa.RecordBatch.from_pylist([], schema=schema)

    def file_schema(self, source: BinaryIO) -> pa.Schema:
        """Read the header."""
        return pa.ipc.open_stream(pa.PythonFile(SourceFile(source), mode="r")).schema


class ArrowEncoder:
    """Writes one file; holds nothing between chunks but statistics."""

    def __init__(self, sink: Sink, schema: pa.Schema | None) -> None:
        self._file = SinkFile(sink)
        self._schema = schema
        self._rows = 0
        self._writer: Any = None
        self._stats: StatsAccumulator | None = None

    def write(self, chunk: Chunk) -> None:
        schema = schema_for(chunk, self._schema)
        batch = to_batch(chunk, schema, first_row=self._rows)
        writer, stats = self._open(schema)
        writer.write_batch(batch)
        stats.observe(batch)
        self._rows += batch.num_rows

    def close(self) -> None:
        if self._schema is None:
            raise InvalidOptionError(
                "an Arrow file without rows needs a schema: give the codec one, or write an empty table"
            )
        writer, _ = self._open(self._schema)
        writer.close()

    def statistics(self) -> FileStats:
        return FileStats(0) if self._stats is None else self._stats.result()

    def _open(self, schema: pa.Schema) -> tuple[Any, StatsAccumulator]:
        if self._stats is None:
            self._schema = schema
            self._writer = pa.ipc.new_stream(pa.PythonFile(self._file, mode="w"), schema)
            self._stats = StatsAccumulator(schema)
        return self._writer, self._stats
