"""Compare a data file with its checksum while it is read, so that damage is not written again.

A file is read once. Parquet is read from its end and then column by column, so bytes that come early are held
until those before them have come. Bytes that were not read by then are read when the file is finished.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lode.codec.checksum import CHECKSUMS
from lode.errors import ChecksumMismatchError, InvalidFormatError
from lode.read.source import READ_AHEAD, open_object
from lode.store.protocol import ObjectReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lode.codec.checksum import Checksum
    from lode.codec.components import Components
    from lode.format.manifest import FileRef, Manifest
    from lode.store.protocol import Store

# What one file may hold of bytes that came early. Those of a larger row group are read a second time.
MAX_HELD_BYTES: Final = 16 << 20
# A gap of up to so many bytes, such as the four before the first column, is read together with what follows.
MAX_GAP_BYTES: Final = 64 << 10


class Checksums:
    """The checksums of files by the manifests that name them. Files without one cannot be checked."""

    def __init__(self, manifests: Sequence[Manifest], components: Components) -> None:
        names = {manifest.checksum_algorithm for manifest in manifests}
        self._known = {name: _named(name, components) for name in names}
        # Nearly always all files have the same one, and there may be a million files.
        self._of: dict[str, str | None] = {}
        if len(names) > 1:
            for manifest in manifests:
                self._of |= dict.fromkeys((file.path for file in manifest.files), manifest.checksum_algorithm)

    def of(self, file: FileRef) -> Checksum | None:
        """The one to check this file by."""
        if file.checksum is None or not self._known:
            return None
        return self._known[self._of[file.path] if self._of else next(iter(self._known))]

    def check(self, file: FileRef, data: bytes) -> None:
        """Raise ``ChecksumMismatchError`` if these are not the bytes of the file."""
        checksum = self.of(file)
        if checksum is not None:
            hasher = checksum.start()
            hasher.update(data)
            _compare(file, checksum, hasher.hexdigest())


def _named(algorithm: str | None, components: Components) -> Checksum | None:
    """The checksum of this name; None if it is not installed, as for a reader of such files."""
    if components.checksum is not None and components.checksum.name == algorithm:
        return components.checksum
    return None if algorithm is None else CHECKSUMS.find(algorithm)


def _compare(file: FileRef, checksum: Checksum, found: str) -> None:
    if found != file.checksum:
        raise ChecksumMismatchError(
            f"{file.path} has {checksum.name} {found}, its manifest says {file.checksum}: it is damaged, and "
            "its rows are not written again; restore it from a copy, lode verify lists such files"
        )


@contextmanager
def open_checked(store: Store, file: FileRef, checksum: Checksum | None) -> Iterator[ObjectReader]:
    """Open a file for reads at any offset. With a checksum, ``finish`` compares all of it.

    If the bytes cannot be decoded, the checksum says whether that is damage.
    """
    with open_object(store, file) as opened:
        reader = opened if checksum is None else VerifiedReader(opened, file, checksum)
        try:
            yield reader
        except InvalidFormatError:
            finish(reader)
            raise


def finish(reader: ObjectReader) -> None:
    """Raise ``ChecksumMismatchError`` if a file that was opened with a checksum has another one."""
    if isinstance(reader, VerifiedReader):
        reader.finish()


class VerifiedReader(ObjectReader):
    """An object whose bytes are hashed as they are read, in any order. ``finish`` compares the result."""

    def __init__(self, reader: ObjectReader, file: FileRef, checksum: Checksum) -> None:
        self._reader = reader
        self._file = file
        self._checksum = checksum
        self._hasher = checksum.start()
        # Everything before this was hashed. What came early is held by its offset.
        self._at = 0
        self._early: dict[int, bytes] = {}
        self._held = 0

    @property
    def size(self) -> int:
        return self._reader.size

    def read_at(self, offset: int, length: int) -> bytes:
        gap = offset - self._at
        if not 0 < gap <= MAX_GAP_BYTES or length <= 0:
            gap = 0
        data = self._reader.read_at(offset - gap, length + gap)
        self._see(offset - gap, data)
        return data[gap:] if gap else data

    def close(self) -> None:
        self._reader.close()

    def finish(self) -> None:
        """Read what is left, and raise ``ChecksumMismatchError`` if the bytes are not those of the file."""
        while self._at < self.size:
            until = min((start for start in self._early if start > self._at), default=self.size)
            data = self._reader.read_at(self._at, min(until - self._at, READ_AHEAD))
            if not data:
                break
            self._see(self._at, data)
        _compare(self._file, self._checksum, self._hasher.hexdigest())

    def _see(self, offset: int, data: bytes) -> None:
        """Hash what follows the bytes so far, and then what was held."""
        if offset > self._at:
            if self._held + len(data) <= MAX_HELD_BYTES and len(data) > len(self._early.get(offset, b"")):
                self._held += len(data) - len(self._early.get(offset, b""))
                self._early[offset] = data
            return
        self._hash(offset, data)
        while (start := min(self._early, default=self._at + 1)) <= self._at:
            early = self._early.pop(start)
            self._held -= len(early)
            self._hash(start, early)

    def _hash(self, offset: int, data: bytes) -> None:
        fresh = memoryview(data)[self._at - offset :]
        if len(fresh):
            self._hasher.update(fresh)
            self._at += len(fresh)
