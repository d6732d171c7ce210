"""A table on a running server, with a method for each step of a client."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from google.cloud.bigquery_storage_v1 import types

from support.ingest.appending import FIELDS, Call, arrow_request, batch_of
from support.ingest.refusals import UNKNOWN_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.testing.plugin import LodeServer

KINDS = {"committed": 1, "pending": 2, "buffered": 3}
_numbers = itertools.count(1)


class Table:
    """A new table. Tests may share a server, and never share a table."""

    def __init__(self, server: LodeServer, fields: Any = None, **resource: Any) -> None:
        self.server = server
        self.id = f"p.d.t{next(_numbers)}"
        self.name = server.create_table(self.id, FIELDS if fields is None else fields, **resource)
        self.client = server.write_client()

    @property
    def default(self) -> str:
        return f"{self.name}/streams/_default"

    @property
    def unknown(self) -> str:
        """The valid name of a stream that does not exist."""
        return f"{self.name}/streams/{UNKNOWN_ID}"

    def create(self, kind: str) -> types.WriteStream:
        wanted = types.WriteStream(type_=KINDS[kind])
        return self.client.create_write_stream(parent=self.name, write_stream=wanted)

    def stream(self, kind: str, *appends: Sequence[int]) -> str:
        """Create a stream with rows of these ids; returns its name."""
        name = self.create(kind).name
        self.append(name, *appends)
        return name

    def pending(self, *appends: Sequence[int]) -> str:
        """Create a finalized PENDING stream."""
        name = self.stream("pending", *appends)
        self.client.finalize_write_stream(name=name)
        return name

    def append(self, stream: str, *appends: Sequence[int] | pa.RecordBatch) -> None:
        if not appends:
            return
        with Call(self.client) as call:
            for rows in appends:
                batch = rows if isinstance(rows, pa.RecordBatch) else batch_of(rows)
                answer = call.ask(arrow_request(stream, batch))
                assert "append_result" in answer, answer

    def finalize(self, stream: str) -> int:
        return self.client.finalize_write_stream(name=stream).row_count

    def flush(self, stream: str, offset: int | None) -> int:
        return self.client.flush_rows(types.FlushRowsRequest(write_stream=stream, offset=offset)).offset

    def commit(self, *streams: str) -> types.BatchCommitWriteStreamsResponse:
        return self.client.batch_commit_write_streams(
            types.BatchCommitWriteStreamsRequest(parent=self.name, write_streams=streams)
        )

    def get(self, stream: str, view: str = "WRITE_STREAM_VIEW_UNSPECIFIED") -> types.WriteStream:
        wanted = types.GetWriteStreamRequest(name=stream, view=getattr(types.WriteStreamView, view))
        return self.client.get_write_stream(wanted)

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.server.rows(self.id).to_pylist()
        return found

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.rows())

    def snapshots(self) -> int:
        return len(self.server.dataset(self.id).snapshots())


def raw(message: Any) -> Any:
    """Return the message without proto-plus, for ``HasField``."""
    return type(message).pb(message)
