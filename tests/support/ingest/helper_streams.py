"""``AppendRowsStream``, the Python client's helper, with rows as Arrow and as Protobuf."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from google.api_core.exceptions import AlreadyExists, GoogleAPICallError
from google.api_core.future.polling import DEFAULT_POLLING
from google.cloud.bigquery_storage_v1 import types, writer
from google.cloud.bigquery_storage_v1.exceptions import StreamClosedError

from support.ingest.appending import SCHEMA, batch_of, message_class, row_descriptor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

_Row = message_class(row_descriptor())
_Request = types.AppendRowsRequest
FORMATS = ("arrow", "protobuf")
# Concurrent requests: enough to have some in every stage when the server dies.
_WINDOW = 8
# The helper's futures poll once a second by default.
_polling: Any = DEFAULT_POLLING
_OFTEN = _polling.with_delay(initial=0.01, maximum=0.05)


def answer_of(future: Any) -> types.AppendRowsResponse:
    """Wait for the answer of a ``send``; raises what the helper raises."""
    answer: types.AppendRowsResponse = future.result(timeout=60, polling=_OFTEN)
    return answer


class HelperStream:
    """A helper on one stream; only its first request names the stream and the schema."""

    def __init__(self, client: Any, stream: str, form: str) -> None:
        self._form = form
        template = _Request(write_stream=stream)
        if form == "arrow":
            schema = types.ArrowSchema(serialized_schema=SCHEMA.serialize().to_pybytes())
            template.arrow_rows = _Request.ArrowData(writer_schema=schema)
        else:
            described = types.ProtoSchema(proto_descriptor=row_descriptor())
            template.proto_rows = _Request.ProtoData(writer_schema=described)
        make: Any = writer.AppendRowsStream  # untyped
        self.helper = make(client, template)

    def send(self, ids: Sequence[int], *, offset: int | None = None) -> Any:
        """Send rows with these ids; returns the future of the answer."""
        return self.helper.send(self.request(ids, offset=offset))

    def request(self, ids: Sequence[int], *, offset: int | None = None) -> types.AppendRowsRequest:
        if self._form == "arrow":
            batch = types.ArrowRecordBatch(serialized_record_batch=batch_of(ids).serialize().to_pybytes())
            return _Request(arrow_rows=_Request.ArrowData(rows=batch), offset=offset)
        rows = types.ProtoRows(
            serialized_rows=[_Row(id=i, name=f"name-{i}").SerializeToString() for i in ids]
        )
        return _Request(proto_rows=_Request.ProtoData(rows=rows), offset=offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.helper.is_active:
            self.helper.close()


class Numbered:
    """Writes 0, 1, 2, … with offsets and repeats unanswered appends, as a careful client does."""

    def __init__(self, stream: HelperStream, *, per_append: int, first: int = 0) -> None:
        self._stream = stream
        self._per_append = per_append
        self._first = first
        self._waiting: list[tuple[int, Any]] = []
        self._next = 0
        # Rows up to here are certainly stored.
        self.stored = 0

    def send_window(self) -> None:
        """Send some appends without waiting for the answers."""
        while len(self._waiting) < _WINDOW:
            start = self._first + self._next
            ids = range(start, start + self._per_append)
            try:
                self._waiting.append((self._next, self._stream.send(ids, offset=self._next)))
            except (GoogleAPICallError, StreamClosedError):
                return  # the server is down
            self._next += self._per_append

    def gather(self) -> None:
        """Receive the answers. Appends that are not stored will be repeated."""
        for offset, future in self._waiting:
            try:
                answer_of(future)
            except AlreadyExists:
                pass  # already stored; only the answer was lost
            except (GoogleAPICallError, StreamClosedError):
                break
            assert offset == self.stored
            self.stored += self._per_append
        else:
            self._waiting.clear()
            return
        for _, future in self._waiting:
            with contextlib.suppress(GoogleAPICallError, StreamClosedError):
                answer_of(future)
        self._waiting.clear()
        self._next = self.stored

    def write_up_to(self, rows: int) -> None:
        """Continue until this many rows are stored."""
        while self.stored < rows:
            self.send_window()
            self.gather()
