"""Write one blob as it comes, in memory that does not grow with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.errors import LodeError, TransactionClosedError
from lode.write.stage import Staged

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from typing_extensions import Buffer

    from lode.snapshot import Snapshot
    from lode.write.transaction import Transaction


class StreamWriter:
    """A single blob on its way into a snapshot. Closing it without ``commit()`` aborts."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._file = transaction.stager.blob_file()
        self._open = True

    @property
    def closed(self) -> bool:
        """Whether it was committed or aborted."""
        return not self._open

    def write(self, data: Buffer) -> int:
        """Append ``data`` and return its length."""
        self._require_open()
        try:
            return self._file.write(data)
        except LodeError:
            self.abort()
            raise

    def commit(self) -> Snapshot:
        """Make the blob a snapshot."""
        self._require_open()
        self._open = False
        try:
            self._transaction.add(Staged((self._file.finish(),), 1))
            return self._transaction.commit()
        except LodeError:
            self._file.abort()
            # A conflict keeps the blob for a second commit; what may have landed must stay.
            if not self._transaction.kept:
                self._transaction.abort()
            raise

    def abort(self) -> None:
        """Drop the blob; no snapshot appears. Does nothing after ``commit()``."""
        if self._open:
            self._open = False
            self._file.abort()
            self._transaction.abort()

    def close(self) -> None:
        """Abort, unless committed."""
        self.abort()

    def writable(self) -> bool:
        """Always true: what ``io`` asks of a file."""
        return True

    def _require_open(self) -> None:
        if not self._open:
            raise TransactionClosedError(
                "this stream is committed or aborted: begin another with stream_write()"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
