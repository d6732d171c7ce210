"""What a codec is. Users implement these small protocols to bring a file format of their own.

Data moves in chunks: a list of Python records, or an Arrow record batch. ``rows_of`` turns either
into records for a codec that only knows those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    import pyarrow as pa
    from typing_extensions import Buffer

    from lode.format.manifest import FileStats

Chunk: TypeAlias = "list[Any] | pa.RecordBatch"
"""Rows between a codec and the library: records, or an Arrow batch."""


class Sink(Protocol):
    """Where encoded bytes go: anything with ``write``."""

    def write(self, data: Buffer, /) -> int: ...


@runtime_checkable
class Codec(Protocol):
    """The part every codec has: its name in manifests, and reading."""

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
    """A codec that can be given the dataset's schema; without one it takes that of the first data."""

    @property
    def schema(self) -> pa.Schema | None: ...

    def with_schema(self, schema: pa.Schema | None) -> Codec:
        """Return this codec with another schema, or with none."""
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


# ``isinstance`` with a protocol walks all of its members on every call, which takes longer than encoding a
# record. The member that sets a protocol apart is enough to ask a codec for.


def conforms(codec: Codec | None) -> TypeGuard[ConformingCodec]:
    return hasattr(codec, "conform")


def has_schema(codec: Codec | None) -> TypeGuard[SchemaCodec]:
    return hasattr(codec, "with_schema")


def takes_first_schema(codec: Codec | None) -> bool:
    """Tell whether files of this codec have columns, and nobody has said which."""
    return has_schema(codec) and codec.schema is None and codec.name != "jsonl"


def streams(codec: Codec | None) -> TypeGuard[StreamingCodec]:
    return hasattr(codec, "stream_encoder")


def is_parallel(codec: Codec | None) -> TypeGuard[ParallelCodec]:
    return streams(codec) and hasattr(codec, "bytes_per_file")


def reports(encoder: StreamEncoder) -> TypeGuard[StatisticalStreamEncoder]:
    return hasattr(encoder, "statistics")


def rows_of(chunk: Chunk) -> list[Any]:
    """Return a chunk as Python records."""
    return chunk if isinstance(chunk, list) else chunk.to_pylist()
