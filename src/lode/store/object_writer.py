"""A streaming upload to object storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.errors import OutcomeUnknownError, PathExistsError, TransactionClosedError
from lode.store.object_errors import translated
from lode.store.protocol import ObjectWriter, byte_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lode.store.protocol import Store

_IN_FLIGHT = 4


class ObjectStoreWriter(ObjectWriter):
    """Uploads a few parts at once and holds only those in memory.

    An object that fits into one part is put in one create-only request. A larger one is a multipart upload.
    Its completion has no condition, as obstore offers none: ``commit`` checks that the path is free and then
    completes. An object that another writer puts there between these two requests would be replaced, so large
    objects belong on paths that no other writer uses. A process that dies leaves its parts on the server,
    invisible, until a lifecycle rule removes them.
    """

    def __init__(self, store: Store, client: Any, path: str, key: str, part_size: int) -> None:
        self._store = store
        self._client = client
        self._path = path
        self._key = key
        self._part_size = part_size
        self._first = bytearray()
        self._upload: Any = None
        self._size = 0
        self._open = True

    def write(self, data: Buffer) -> int:
        self._check_open()
        view = byte_view(data)
        self._size += view.nbytes
        if self._upload is None and self._size <= self._part_size:
            self._first += view
            return view.nbytes
        if self._upload is None:
            self._start_upload()
        # Part by part: obstore copies its argument into memory before it waits for a free slot.
        for start in range(0, view.nbytes, self._part_size):
            self._send(view[start : start + self._part_size])
        return view.nbytes

    def commit(self) -> None:
        self._check_open()
        if self._upload is None:
            self._open = False
            self._store.put(self._path, self._first)
            return
        if self._store.exists(self._path):
            self.abort()
            raise PathExistsError(f"{self._path!r} exists already in {self._store.url}")
        self._open = False
        try:
            self._upload.close()
        except Exception as error:
            self._settle(error)

    def abort(self) -> None:
        if not self._open:
            return
        self._open = False
        self._first.clear()
        if self._upload is not None:
            self._abort_upload()

    def _start_upload(self) -> None:
        import obstore

        self._upload = obstore.open_writer(
            self._client, self._key, buffer_size=self._part_size, max_concurrency=_IN_FLIGHT
        )
        if self._first:
            self._send(memoryview(self._first))
            self._first = bytearray()

    def _send(self, piece: memoryview) -> None:
        try:
            self._upload.write(bytes(piece))
        except Exception as error:
            raise translated(error, self._path) from error

    def _abort_upload(self) -> None:
        try:
            # obstore aborts only if an exception leaves its block.
            self._upload.__exit__(KeyboardInterrupt, None, None)
        except Exception as error:
            raise translated(error, self._path) from error

    def _settle(self, error: Exception) -> None:
        """Find out whether a completion took effect after its response was lost."""
        try:
            landed = self._store.exists(self._path) and self._store.head(self._path).size == self._size
        except Exception:
            raise OutcomeUnknownError(
                f"the upload of {self._path!r} may or may not have completed"
            ) from error
        if not landed:
            raise translated(error, self._path) from error

    def _check_open(self) -> None:
        if not self._open:
            raise TransactionClosedError(f"the writer of {self._path!r} was committed or aborted before")
