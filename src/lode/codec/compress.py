"""Compressors: a sink that compresses on the way in, a stream that decompresses on the way out.

Both work in bounded memory. Input that is damaged or cut short is an error, never a short read.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, Literal, Protocol, cast, runtime_checkable

from lode.codec.pyfile import SourceFile
from lode.codec.registry import Registry
from lode.errors import InvalidFormatError, InvalidOptionError

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lode.codec.protocol import Sink

# What is handed to the compression library at once, so that its answer stays small too.
_STEP_BYTES: Final = 1 << 20


class ClosableSink(Protocol):
    """A sink that has something left to write at the end."""

    def write(self, data: Buffer, /) -> int: ...

    def close(self) -> None:
        """Write what remains. Leaves the sink beneath open."""
        ...


@runtime_checkable
class Compressor(Protocol):
    """How a file's bytes are stored."""

    @property
    def name(self) -> str:
        """The name that manifests record."""
        ...

    @property
    def extension(self) -> str:
        """The end of a file's name, dot included."""
        ...

    def compress(self, sink: Sink) -> ClosableSink:
        """Return a sink that writes compressed bytes to ``sink``."""
        ...

    def decompress(self, source: BinaryIO) -> BinaryIO:
        """Return a stream of the plain bytes; closing it closes ``source``."""
        ...


@dataclass(frozen=True)
class Noop:
    """Stores bytes as they are."""

    name: ClassVar[str] = "noop"
    extension: ClassVar[str] = ""

    def compress(self, sink: Sink) -> ClosableSink:
        return _PlainSink(sink)

    def decompress(self, source: BinaryIO) -> BinaryIO:
        return source


@dataclass(frozen=True)
class Gzip:
    """Gzip, the same bytes for the same content: its header carries no time."""

    name: ClassVar[str] = "gzip"
    extension: ClassVar[str] = ".gz"
    level: int = 6

    def __post_init__(self) -> None:
        _check_level("gzip", self.level, 0, 9)

    def compress(self, sink: Sink) -> ClosableSink:
        import zlib

        # 31: a window of 2**15 bytes inside a gzip wrapper.
        return _CompressingSink(sink, zlib.compressobj(self.level, wbits=31))

    def decompress(self, source: BinaryIO) -> BinaryIO:
        return _decompressed(source, "gzip")


@dataclass(frozen=True)
class Zstd:
    """Zstandard, with a checksum of the content in every frame."""

    name: ClassVar[str] = "zstd"
    extension: ClassVar[str] = ".zst"
    level: int = 3

    def __post_init__(self) -> None:
        _check_level("zstd", self.level, 1, 22)

    def compress(self, sink: Sink) -> ClosableSink:
        import zstandard

        return _CompressingSink(
            sink, zstandard.ZstdCompressor(level=self.level, write_checksum=True).compressobj()
        )

    def decompress(self, source: BinaryIO) -> BinaryIO:
        return _decompressed(source, "zstd")


COMPRESSORS: Final[Registry[Compressor]] = Registry(
    "compressor", {kind.name: kind for kind in (Noop, Gzip, Zstd)}
)


def compressor(choice: str | Compressor | None) -> Compressor:
    """Return a compressor by its name, or the one given; ``None`` is no compression."""
    if choice is None:
        return Noop()
    if isinstance(choice, str):
        return COMPRESSORS.get(choice)
    if isinstance(choice, type) or not isinstance(choice, Compressor):
        raise InvalidOptionError(
            f"{choice!r} is not a compressor: give one of {', '.join(COMPRESSORS.names)}, "
            "or an object that has name, extension, compress and decompress"
        )
    return choice


def _check_level(name: str, level: int, low: int, high: int) -> None:
    if type(level) is not int or not low <= level <= high:
        raise InvalidOptionError(f"the level of {name} is {low} to {high}, got {level!r}")


class _PlainSink:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, data: Buffer, /) -> int:
        return self._sink.write(data)

    def close(self) -> None:
        """Nothing remains to be written."""


class _CompressingSink:
    """Feeds a compression object, and a sink with what comes out of it."""

    def __init__(self, sink: Sink, engine: Any) -> None:
        self._sink = sink
        self._engine = engine
        self._closed = False

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, view.nbytes, _STEP_BYTES):
            self._emit(self._engine.compress(view[start : start + _STEP_BYTES]))
        return view.nbytes

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._emit(self._engine.flush())

    def _emit(self, packed: bytes) -> None:
        if packed:
            self._sink.write(packed)


def _decompressed(source: BinaryIO, name: Literal["gzip", "zstd"]) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_DecompressingSource(source, name), _STEP_BYTES))


class _DecompressingSource(io.RawIOBase):
    """Reads through Arrow's decompressor: it joins members, notices truncation, bounds its output."""

    def __init__(self, source: BinaryIO, name: Literal["gzip", "zstd"]) -> None:
        import pyarrow as pa

        self._name = name
        self._source = SourceFile(source)
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._source, mode="r"), name)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._stream.read(view.nbytes)
        except OSError as error:
            if error is self._source.error:
                raise
            raise InvalidFormatError(f"not a whole {self._name} stream: {error}") from error
        if not data and view.nbytes and not self._source.consumed:
            raise InvalidFormatError(f"not a whole {self._name} stream: it is empty")
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._source.close_source()
