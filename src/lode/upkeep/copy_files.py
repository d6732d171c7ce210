"""Copy data files from one store to another, each checked against its size and checksum on the way."""

from __future__ import annotations

import threading
from itertools import islice
from typing import TYPE_CHECKING, Final

from lode.codec.checksum import checksum as checksum_of
from lode.errors import ChecksumMismatchError, DataError, NotFoundError, OutcomeUnknownError, PathExistsError
from lode.read.source import READ_AHEAD
from lode.write.file import MAX_SINGLE_PUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lode.runtime import Runtime
    from lode.store.protocol import Store
    from lode.upkeep.copy_sides import CopiedFile

# Maximum number of files that are copied at once.
MAX_FILES_AT_ONCE: Final = 64


class FileCopier:
    """Copies files, create-only. Counts what it copied over all calls."""

    def __init__(
        self,
        source: Store,
        target: Store,
        *,
        dry_run: bool,
        progress: Callable[[int, int | None], None] | None,
        runtime: Runtime,
    ) -> None:
        self._source = source
        self._target = target
        self._dry_run = dry_run
        self._progress = progress
        self._runtime = runtime
        self._lock = threading.Lock()
        self._done = 0
        self.files = 0
        self.bytes = 0
        # Files of the last call that the target had before the copy began.
        self.present = 0

    def copy(self, files: Iterator[CopiedFile], total: int) -> None:
        """Copy the files that the target does not have; ``total`` is the size of all of them."""
        earlier = self.files
        present = self._done = 0
        while batch := list(islice(files, MAX_FILES_AT_ONCE)):
            copied = self._runtime.each(lambda file: self._copy(file, total), batch)
            sizes = [file.size for file, was_copied in zip(batch, copied, strict=True) if was_copied]
            present += len(batch) - len(sizes)
            self.files += len(sizes)
            self.bytes += sum(sizes)
        # A second call finds the files of the first one.
        self.present = max(present - earlier, 0)

    def _copy(self, file: CopiedFile, total: int) -> bool:
        """Copy a file unless it exists. Returns whether it was copied."""
        if self._exists(file):
            self._advance(file.size, total)
            return False
        if not self._dry_run:
            try:
                self._upload(file, total)
            except PathExistsError:
                if not self._exists(file):
                    raise
                return False
        return True

    def _exists(self, file: CopiedFile) -> bool:
        try:
            size = self._target.head(file.target_path).size
        except NotFoundError:
            return False
        if size != file.size:
            raise DataError(
                f"{file.target_path} in {self._target.url} has {size} bytes and the file to copy has "
                f"{file.size}: another object is in its place; remove it, or copy under another name"
            )
        return True

    def _upload(self, file: CopiedFile, total: int) -> None:
        """Copy one file. It becomes visible as a whole, and only if its size and checksum are right."""
        try:
            reader = self._source.open_reader(file.path)
        except NotFoundError:
            raise DataError(
                f"{file.path} is missing in {self._source.url}, and snapshot {file.snapshot_id} needs "
                "it: run lode verify"
            ) from None
        with reader:
            if reader.size != file.size:
                raise self._damaged(file, f"{reader.size} bytes")
            if file.size <= MAX_SINGLE_PUT_BYTES:
                data = reader.read_at(0, file.size)
                self._verify(file, [data])
                self._put(file, lambda: self._target.put(file.target_path, data))
                self._advance(file.size, total)
                return
            with self._target.open_writer(file.target_path) as writer:

                def pieces() -> Iterator[bytes]:
                    at = 0
                    while at < file.size and (piece := reader.read_at(at, READ_AHEAD)):
                        writer.write(piece)
                        at += len(piece)
                        self._advance(len(piece), total)
                        yield piece

                self._verify(file, pieces())
                self._put(file, writer.commit)

    def _put(self, file: CopiedFile, put: Callable[[], None]) -> None:
        try:
            put()
        except OutcomeUnknownError:
            if not self._exists(file):
                raise

    def _verify(self, file: CopiedFile, pieces: Iterable[bytes]) -> None:
        checksum = checksum_of(file.algorithm) if file.checksum is not None else None
        hasher = checksum.start() if checksum is not None else None
        size = 0
        for piece in pieces:
            size += len(piece)
            if hasher is not None:
                hasher.update(piece)
        if size != file.size:
            raise self._damaged(file, f"{size} bytes")
        if hasher is not None and hasher.hexdigest() != file.checksum:
            raise self._damaged(file, f"the checksum {hasher.hexdigest()}")

    def _damaged(self, file: CopiedFile, found: str) -> ChecksumMismatchError:
        return ChecksumMismatchError(
            f"{file.path} in {self._source.url} has {found}, and snapshot {file.snapshot_id} says "
            f"{file.size} bytes and the checksum {file.checksum}: it is damaged; run lode verify"
        )

    def _advance(self, size: int, total: int) -> None:
        with self._lock:
            self._done += size
            if self._progress is not None:
                # A file that another copy has put at the same time is counted twice.
                self._progress(min(self._done, total), total)
