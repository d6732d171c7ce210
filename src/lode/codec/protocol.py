"""What a codec is. Users implement these small protocols to bring a file format of their own.

Data moves in chunks: a list of Python records, or an Arrow record batch. ``rows_of`` turns either
into records for a codec that only knows those.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeGuard, runtime_checkable

from lode.errors import InvalidOptionError
from lode.format.ids import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    import pyarrow as pa
    import pyarrow.dataset as pads
    from typing_extensions import Buffer

    from lode.codec.field_ids import FieldIds
    from lode.format.manifest import FileStats

_EXTENSION: Final = re.compile(r"(?:\.[A-Za-z0-9]+){1,2}", re.ASCII)

Chunk: TypeAlias = "list[Any] | pa.RecordBatch"
"""Rows between a codec and the library: records, or an Arrow batch."""


class Sink(Protocol):
    """Where encoded bytes go: anything with ``write``."""

    def write(self, data: Buffer, /) -> int: ...


@runtime_checkable
class Codec(Protocol):
    """The part every codec has: its name in manifests, and reading.

    A codec may also have an ``extension``, such as ``".csv"``: the end of the names of its files.
    """

    @property
    def name(self) -> str:
        """The name that manifests record."""
        ...

    def decode(self, source: BinaryIO) -> Iterator[Chunk]:
        """Yield the file's content in order. ``source`` is seekable unless the file is compressed."""
        ...


@runtime_checkable
class WholeFileCodec(Codec, Protocol):
    """Encodes a file in one go, with all of its records in memory."""

    def encode(self, chunks: Sequence[Chunk], sink: Sink) -> None: ...


@runtime_checkable
class StatisticalCodec(WholeFileCodec, Protocol):
    """A whole-file codec that reports what it wrote; asked once, after ``encode``."""

    def statistics(self, chunks: Sequence[Chunk]) -> FileStats: ...


class StreamEncoder(Protocol):
    """Encodes one file chunk by chunk."""

    def write(self, chunk: Chunk) -> None: ...

    def close(self) -> None:
        """Write what remains (a footer, say). Leaves the sink open."""
        ...


@runtime_checkable
class StatisticalStreamEncoder(StreamEncoder, Protocol):
    """A stream encoder that reports what it wrote; asked once, after ``close``."""

    def statistics(self) -> FileStats: ...


@runtime_checkable
class ConformingCodec(Codec, Protocol):
    """A codec with a schema: brings rows into its shape before they are split into partitions."""

    def conform(self, chunk: Chunk, first_row: int) -> Chunk:
        """Return the chunk as the schema has it; an error names rows counted from ``first_row``."""
        ...


@runtime_checkable
class SchemaCodec(Codec, Protocol):
    """A codec that can have the dataset's schema. Without one it takes the schema of the first data.

    A codec that writes records of any shape if it has no schema sets ``schema_optional`` to True.
    """

    @property
    def schema(self) -> pa.Schema | None: ...

    def with_schema(self, schema: pa.Schema | None) -> Codec:
        """Return this codec with another schema, or with none."""
        ...


@runtime_checkable
class ColumnarCodec(SchemaCodec, Protocol):
    """A codec whose files contain their schema."""

    def file_schema(self, source: BinaryIO) -> pa.Schema:
        """Return the columns of a file, without its rows. ``source`` is seekable unless it is compressed."""
        ...


@runtime_checkable
class IdentifyingCodec(SchemaCodec, Protocol):
    """A codec whose files have the ids of columns, and of the fields inside them."""

    @property
    def field_ids(self) -> FieldIds | None:
        """The ids that files get, if their columns have any."""
        ...

    def with_field_ids(self, ids: FieldIds | None) -> Codec:
        """Return this codec for files with these ids."""
        ...


@runtime_checkable
class NativeCodec(ColumnarCodec, Protocol):
    """A codec whose files pyarrow's scanner reads: columns, filters and threads are then pyarrow's."""

    def arrow_format(self) -> pads.FileFormat:
        """Return the file format for ``pyarrow.dataset``. It is used for uncompressed files."""
        ...


@runtime_checkable
class WholeReadCodec(NativeCodec, Protocol):
    """A native codec that decodes a small file faster than pyarrow's scanner does."""

    def open_whole(self, data: bytes) -> Callable[[Sequence[str]], pa.Table]:
        """Open a whole file. The result returns columns by name, without those that the file does not have.

        Opening should hold the interpreter's lock, and decoding should release it.
        """
        ...


@runtime_checkable
class StreamingCodec(Codec, Protocol):
    """Encodes record by record, in memory that does not grow with the file."""

    def stream_encoder(self, sink: Sink) -> StreamEncoder: ...


@runtime_checkable
class ParallelCodec(StreamingCodec, Protocol):
    """A streaming codec that works outside of Python: several of its files keep several cores busy."""

    @property
    def bytes_per_file(self) -> int:
        """How much Arrow data is worth a file, and a thread, of its own."""
        ...


@runtime_checkable
class ThreadedCodec(StreamingCodec, Protocol):
    """A streaming codec that encodes parts of one file at the same time."""

    def threaded_encoder(self, sink: Sink, threads: int) -> StreamEncoder: ...


# ``isinstance`` with a protocol looks up all of its members on every call, which takes longer than encoding a
# record. One member distinguishes each of these protocols.


def conforms(codec: Codec | None) -> TypeGuard[ConformingCodec]:
    return hasattr(codec, "conform")


def has_schema(codec: Codec | None) -> TypeGuard[SchemaCodec]:
    return hasattr(codec, "with_schema")


def has_field_ids(codec: Codec | None) -> TypeGuard[IdentifyingCodec]:
    return hasattr(codec, "with_field_ids")


def takes_first_schema(codec: Codec | None) -> bool:
    """Return whether the first data decides the columns."""
    return has_schema(codec) and codec.schema is None and not takes_any_record(codec)


def takes_any_record(codec: Codec | None) -> bool:
    """Return whether the codec, without a schema, writes records of any shape."""
    return getattr(codec, "schema_optional", False)


def has_file_schema(codec: Codec | None) -> TypeGuard[ColumnarCodec]:
    return hasattr(codec, "file_schema")


def is_native(codec: Codec | None) -> TypeGuard[NativeCodec]:
    return hasattr(codec, "arrow_format")


def reads_whole(codec: Codec | None) -> TypeGuard[WholeReadCodec]:
    return hasattr(codec, "open_whole")


def extension_of(codec: Codec | None) -> str:
    """Return the end of a file's name, dot included; empty for blobs and for a codec without one.

    Raises:
        InvalidOptionError: It is not a dot followed by letters and digits.
    """
    extension = getattr(codec, "extension", "")
    if extension and not (isinstance(extension, str) and _EXTENSION.fullmatch(extension)):
        raise InvalidOptionError(
            f"codec {getattr(codec, 'name', codec)!r} has the extension {shortened(extension)}: "
            "it must be a dot followed by letters and digits, such as '.csv'"
        )
    return str(extension)


def streams(codec: Codec | None) -> TypeGuard[StreamingCodec]:
    return hasattr(codec, "stream_encoder")


def is_parallel(codec: Codec | None) -> TypeGuard[ParallelCodec]:
    return streams(codec) and hasattr(codec, "bytes_per_file")


def is_threaded(codec: Codec | None) -> TypeGuard[ThreadedCodec]:
    return hasattr(codec, "threaded_encoder")


def reports(encoder: StreamEncoder) -> TypeGuard[StatisticalStreamEncoder]:
    return hasattr(encoder, "statistics")


def rows_of(chunk: Chunk) -> list[Any]:
    """Return a chunk as Python records."""
    return chunk if isinstance(chunk, list) else chunk.to_pylist()
