"""Small codecs, each with exactly the capabilities its name says, and records that know their time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lode.codec import rows_of
from lode.format.manifest import ColumnStats, FileStats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from typing import BinaryIO

    from lode.codec.protocol import Chunk, Sink


@dataclass(frozen=True)
class Reading:
    """A record with a time of its own."""

    id: int
    at: datetime

    def timestamp(self) -> datetime:
        return self.at


class WholeLines:
    """Encodes whole files, without statistics."""

    name = "lines"

    def encode(self, chunks: Sequence[Chunk], sink: Sink) -> None:
        for chunk in chunks:
            _write_lines(chunk, sink)

    def decode(self, source: BinaryIO) -> Iterator[Chunk]:
        yield source.read().decode().splitlines()


class CountedLines(WholeLines):
    """Encodes whole files and reports statistics, which are asked for after the encoding."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, chunks: Sequence[Chunk], sink: Sink) -> None:
        self.asked.append("encode")
        super().encode(chunks, sink)

    def statistics(self, chunks: Sequence[Chunk]) -> FileStats:
        self.asked.append("statistics")
        return _statistics([row for chunk in chunks for row in rows_of(chunk)])


class StreamedLines(WholeLines):
    """Encodes record by record, without statistics; ``fail_at`` makes it refuse one record."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.fail_at = fail_at
        self.log: list[str] = []

    def stream_encoder(self, sink: Sink) -> LineEncoder:
        return LineEncoder(self, sink)


class LineEncoder:
    def __init__(self, codec: StreamedLines, sink: Sink) -> None:
        self.codec = codec
        self.sink = sink
        self.rows: list[Any] = []

    def write(self, chunk: Chunk) -> None:
        self.codec.log.append("write")
        self.rows += rows_of(chunk)
        if self.codec.fail_at is not None and self.codec.fail_at < len(self.rows):
            raise ValueError(f"record {self.codec.fail_at} cannot be encoded")
        _write_lines(chunk, self.sink)

    def close(self) -> None:
        self.codec.log.append("close")


class CountedStreamedLines(StreamedLines):
    """Encodes record by record; its encoder reports statistics once it is closed."""

    def stream_encoder(self, sink: Sink) -> CountedLineEncoder:
        return CountedLineEncoder(self, sink)


class CountedLineEncoder(LineEncoder):
    def statistics(self) -> FileStats:
        self.codec.log.append("statistics")
        return _statistics(self.rows)


def _write_lines(chunk: Chunk, sink: Sink) -> None:
    for row in rows_of(chunk):
        sink.write(f"{row}\n".encode())


def _statistics(rows: list[Any]) -> FileStats:
    return FileStats(len(rows), (ColumnStats(name="line", min=min(rows), max=max(rows), null_count=0),))
