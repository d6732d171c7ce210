"""One data file on its way to the store: encoded, compressed, hashed and counted as it streams."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from lode.codec.compress import Noop
from lode.codec.protocol import StatisticalCodec, WholeFileCodec, is_threaded, reports, streams
from lode.errors import InvalidOptionError, LodeError, PathExistsError, StoreError, TransactionClosedError
from lode.format.manifest import FileRef, FileStats, refuse_non_json
from lode.store.protocol import byte_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from lode.codec.checksum import Checksum
    from lode.codec.components import Components
    from lode.codec.compress import Compressor
    from lode.codec.protocol import Chunk, Codec, StreamEncoder
    from lode.codec.row_groups import RowGroupCopy
    from lode.store.protocol import ObjectWriter, Store

# A file up to this size goes up in one request; a larger one is streamed in pieces.
MAX_SINGLE_PUT_BYTES: Final = 4 << 20


class DataFile:
    """A file of raw bytes. Its path stays empty until ``finish``."""

    def __init__(self, store: Store, path: str, compressor: Compressor, checksum: Checksum | None) -> None:
        self._upload = _Upload(store, path, checksum)
        self._compressed = None if isinstance(compressor, Noop) else compressor.compress(self._upload)
        self._open = True

    def write(self, data: Buffer) -> int:
        if not self._open:
            raise TransactionClosedError(
                f"{self._upload.path} is finished or aborted: no more can be written"
            )
        view = byte_view(data)
        return self._upload.write(view) if self._compressed is None else self._compressed.write(view)

    @property
    def size(self) -> int:
        """Stored bytes so far."""
        return self._upload.size

    def finish(self) -> FileRef:
        """Store the file and return its path, size and checksum."""
        self._open = False
        if self._compressed is not None:
            self._compressed.close()
        return self._upload.finish()

    def abort(self) -> None:
        """Discard the file, best effort: no reader sees a leftover."""
        self._open = False
        with suppress(LodeError):
            self._upload.abort()


class RecordFile:
    """A file of records, encoded by the dataset's codec."""

    def __init__(self, store: Store, path: str, components: Components, threads: int | None = None) -> None:
        self._file = DataFile(store, path, components.compressor, components.checksum)
        self._encoding = _encoding(components.codec, self._file, threads)

    def write(self, chunk: Chunk) -> None:
        self._encoding.write(chunk)

    def copy(self, copied: RowGroupCopy) -> None:
        """Write a part of another file as it is. Only for a file with threads."""
        copy: Callable[[RowGroupCopy], None] = getattr(self._encoding, "copy")  # noqa: B009
        copy(copied)

    @property
    def size(self) -> int:
        """Stored bytes so far; an encoder may hold more."""
        return self._file.size

    def finish(self) -> FileRef:
        self._encoding.close()
        stats = self._encoding.statistics() if reports(self._encoding) else None
        for column in stats.columns if stats else ():
            refuse_non_json([column.min, column.max], f"the statistics of column {column.name!r}")
        plain = self._file.finish()
        return FileRef(plain.path, plain.size_bytes, plain.checksum, stats)

    def abort(self) -> None:
        stop = getattr(self._encoding, "abort", None)
        if stop is not None:
            stop()
        self._file.abort()


class _WholeFile:
    """Collects chunks for a codec that encodes a file at once."""

    def __init__(self, codec: WholeFileCodec, file: DataFile) -> None:
        self._codec = codec
        self._file = file
        self._chunks: list[Chunk] = []

    def write(self, chunk: Chunk) -> None:
        self._chunks.append(chunk)

    def close(self) -> None:
        self._codec.encode(self._chunks, self._file)


class _WholeFileWithStatistics(_WholeFile):
    def __init__(self, codec: StatisticalCodec, file: DataFile) -> None:
        super().__init__(codec, file)
        self._reporter = codec

    def statistics(self) -> FileStats:
        return self._reporter.statistics(self._chunks)


def _encoding(codec: Codec | None, file: DataFile, threads: int | None) -> StreamEncoder:
    if threads is not None and is_threaded(codec):
        return codec.threaded_encoder(file, threads)
    if streams(codec):
        return codec.stream_encoder(file)
    match codec:
        case StatisticalCodec():
            return _WholeFileWithStatistics(codec, file)
        case WholeFileCodec():
            return _WholeFile(codec, file)
        case _:
            raise InvalidOptionError(
                f"codec {codec!r} has neither stream_encoder() nor encode(): it cannot write"
            )


class _Upload:
    """Hashes and counts the stored bytes. A small file is held back and uploaded in one request."""

    def __init__(self, store: Store, path: str, checksum: Checksum | None) -> None:
        self.path = path
        self._store = store
        self._hasher = checksum.start() if checksum else None
        self.size = 0
        self._held = bytearray()
        self._writer: ObjectWriter | None = None

    def write(self, data: Buffer) -> int:
        view = memoryview(data)
        if self._hasher is not None:
            self._hasher.update(view)
        self.size += view.nbytes
        if self._writer is not None:
            self._writer.write(view)
        elif self.size <= MAX_SINGLE_PUT_BYTES:
            self._held += view
        else:
            self._writer = self._store.open_writer(self.path)
            self._writer.write(self._held)
            self._writer.write(view)
            self._held = bytearray()
        return view.nbytes

    def finish(self) -> FileRef:
        with _no_leftover(self._store, self.path):
            if self._writer is None:
                self._store.put(self.path, self._held)
            else:
                self._writer.commit()
        return FileRef(self.path, self.size, self._hasher.hexdigest() if self._hasher else None)

    def abort(self) -> None:
        self._held = bytearray()
        if self._writer is not None:
            self._writer.abort()


def put_file(store: Store, path: str, data: Buffer) -> None:
    """Store a small file under a path that no other writer uses.

    Raises:
        PathExistsError: Another file is there.
    """
    with _no_leftover(store, path):
        try:
            store.put(path, data)
        except PathExistsError:
            if not holds(store, path, data):
                raise


def holds(store: Store, path: str, data: Buffer) -> bool:
    """Whether an object is there with this content.

    A network may deliver a request twice. Then the first one has put the object, and the answer to the second
    is that it exists. The store cannot tell that from the object of another writer. A caller whose path
    nobody else uses can, by the content.
    """
    content = byte_view(data)
    try:
        # One byte more, so that a longer object differs.
        return store.get_range(path, 0, content.nbytes + 1) == content
    except LodeError:
        return False


@contextmanager
def _no_leftover(store: Store, path: str) -> Iterator[None]:
    """Remove a file whose upload failed: it may exist, if only the answer was lost."""
    try:
        yield
    except PathExistsError:
        raise
    except StoreError:
        # No other writer uses this path.
        with suppress(LodeError):
            store.delete(path)
        raise
