"""The rows of a statement of a script, kept on disk until the script has ended."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from lode.lazy import pa
from lode.sandbox.peer import Rows
from lode.sql.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.core.limits import StagedBytes


class Spool:
    """Rows in a file without a name, which ends with the server.

    Args:
        directory: Where it is.
        staged: The space for all such files, uploads and staged rows.
        most: The most bytes of a result.
    """

    def __init__(self, directory: Path, staged: StagedBytes, most: int) -> None:
        self._directory = directory
        self._staged = staged
        self._most = most
        self._file: Any = None
        self._size = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def keep(self, rows: Rows) -> None:
        """Keep rows in the place of those before."""
        self._drop()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115, ``_drop`` closes it
        with pa.ipc.new_stream(self._file, rows.schema) as writer:
            for batch in rows.batches:
                if self._size + batch.nbytes > self._most:
                    raise LimitError(
                        f"Response too large to return: more than {self._most:,} bytes; add a LIMIT or "
                        "select fewer columns",
                        reason="responseTooLarge",
                    )
                self._staged.reserve(batch.nbytes)
                self._size += batch.nbytes
                writer.write_batch(batch)

    def rows(self) -> Rows:
        """The rows that are kept."""
        assert self._file is not None
        self._file.seek(0)
        reader = pa.ipc.open_stream(self._file)
        return Rows(reader.schema, _batches(reader))

    def _drop(self) -> None:
        if self._file is not None:
            self._file.close()
            self._staged.add(-self._size)
        self._file, self._size = None, 0


def _batches(reader: Any) -> Iterator[pa.RecordBatch]:
    yield from reader
