"""What a task does with its rows: streams them into files of a good size, for a snapshot yet to come."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pt

from lode.codec.protocol import ConformingCodec
from lode.codec.timestamps import TimestampRange
from lode.errors import InvalidOptionError, LodeError
from lode.times import datetime_to_rfc3339
from lode.write.file import RecordFile
from lode.write.partition import split
from lode.write.stage import MOST_OPEN_FILES, Staged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.format.manifest import FileRef
    from lode.write.stage import Stager

TARGET_FILE_BYTES: Final = 128 << 20
# The most Arrow data a task keeps in memory for the files it has open.
_MOST_HELD: Final = 256 << 20
# A batch goes to its file in pieces, so that a file does not grow far past its target.
_MOST_AT_ONCE: Final = 8 << 20
# An encoder keeps at most about one row group.
_MOST_HELD_BY_ENCODER: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """How a task cuts its rows into files."""

    target_bytes: int = TARGET_FILE_BYTES
    sort_by: tuple[str, ...] = ()


def stage_batches(
    stager: Stager, batches: Iterable[pa.RecordBatch], shape: Shape, *, task: str | None
) -> Staged:
    """Stream batches into files, by partition; a failure removes what this call wrote.

    Args:
        stager: Says where, and how files are encoded.
        batches: Pulled one at a time.
        shape: A file is closed at ``target_bytes``. With ``sort_by`` its rows are sorted before they are
            written, so that it is closed when that much Arrow data has come together in memory.
        task: Names the piece of work; a commit takes only the first result of each.
    """
    codec = stager.components.codec
    keys = stager.layout.keys
    timestamps = TimestampRange(stager.timestamp_column)
    files = _Files(stager, shape)
    rows = 0
    try:
        for raw in batches:
            batch: Any = in_utc(raw)
            timestamps.observe(batch)
            if isinstance(codec, ConformingCodec):
                batch = codec.conform(batch, rows)
            for partition, part in split(batch, keys) if keys else [("", batch)]:
                files.write(partition, part)
            rows += batch.num_rows
        finished = files.finish()
    except BaseException:
        files.abort()
        raise
    earliest = datetime_to_rfc3339(timestamps.min) if timestamps.min else None
    latest = datetime_to_rfc3339(timestamps.max) if timestamps.max else None
    return Staged(tuple(finished), rows, earliest, latest, task)


def discard_unreferenced(stager: Stager, kept: Iterable[FileRef] = ()) -> None:
    """Remove what attempts that failed or came second left under this snapshot, best effort.

    Without ``kept`` everything staged goes, wherever it is; with it, what lies beside those files.
    """
    paths = {file.path for file in kept}
    with suppress(LodeError):
        for prefix in _prefixes(stager, paths):
            for entry in stager.store.list(prefix):
                if f"/{stager.snapshot_id}/data/" in entry.path and entry.path not in paths:
                    stager.store.delete(entry.path)


def _prefixes(stager: Stager, paths: set[str]) -> set[str]:
    layout, dataset_id = stager.layout, stager.dataset_id
    if not layout.keys:
        return {layout.data_path(dataset_id, stager.snapshot_id, "", "")}
    if not paths:
        return {f"{layout.chain(dataset_id).root}/partitions/"}
    return {f"{path.rpartition('/')[0]}/" for path in paths}


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same moments under the zone UTC: Spark labels them with the zone of whichever session wrote."""
    schema = pa.schema([field.with_type(_utc(field.type)) for field in batch.schema])
    return batch if schema.equals(batch.schema) else batch.cast(schema)


def _utc(kind: Any) -> Any:
    if pt.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC") if kind.tz else kind
    if pt.is_struct(kind):
        return pa.struct([member.with_type(_utc(member.type)) for member in kind])
    if pt.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_utc(kind.key_type)), kind.item_field.with_type(_utc(kind.item_type))
        )
    if pt.is_list(kind):
        return pa.list_(kind.value_field.with_type(_utc(kind.value_type)))
    return kind


class _StreamedFile(RecordFile):
    """A file that is encoded as its rows come."""

    _arrow_bytes = 0

    def write(self, chunk: Any) -> None:
        super().write(chunk)
        self._arrow_bytes += chunk.nbytes

    @property
    def held(self) -> int:
        return min(self._arrow_bytes, _MOST_HELD_BY_ENCODER)


class _SortedFile:
    """A file whose rows are kept until it is finished, and sorted then."""

    def __init__(self, file: _StreamedFile, sort_by: tuple[str, ...]) -> None:
        self._file = file
        self._sort_by = sort_by
        self._parts: list[pa.RecordBatch] = []
        self.size = 0

    @property
    def held(self) -> int:
        return self.size

    def write(self, chunk: Any) -> None:
        for name in self._sort_by:
            if name not in chunk.schema.names:
                raise InvalidOptionError(f"option 'sortBy' names {name!r}, which is not among the columns")
        self._parts.append(chunk)
        self.size += chunk.nbytes

    def finish(self) -> FileRef:
        table = pa.Table.from_batches(self._parts)
        self._parts = []
        for batch in table.sort_by([(name, "ascending") for name in self._sort_by]).to_batches():
            self._file.write(batch)
        return self._file.finish()

    def abort(self) -> None:
        self._file.abort()


class _Files:
    """The open files of a task, by partition; the one untouched for longest is finished first."""

    def __init__(self, stager: Stager, shape: Shape) -> None:
        self._stager = stager
        self._shape = shape
        self._token = secrets.token_hex(8)  # an attempt of its own, so that two never share a name
        self._open: OrderedDict[str, _StreamedFile | _SortedFile] = OrderedDict()
        self._finished: list[FileRef] = []
        self._begun = 0

    def write(self, partition: str, part: Any) -> None:
        most = min(self._shape.target_bytes, _MOST_AT_ONCE)
        rows = max(1, part.num_rows * most // max(part.nbytes, 1))
        for start in range(0, part.num_rows, rows):
            self._write(partition, part.slice(start, rows))

    def _write(self, partition: str, part: Any) -> None:
        file = self._open.get(partition) or self._begin(partition)
        self._open.move_to_end(partition)
        file.write(part)
        if file.size >= self._shape.target_bytes:
            self._finish(partition)
        while len(self._open) > MOST_OPEN_FILES or sum(f.held for f in self._open.values()) > _MOST_HELD:
            self._finish(next(iter(self._open)))

    def finish(self) -> list[FileRef]:
        for partition in list(self._open):
            self._finish(partition)
        return self._finished

    def abort(self) -> None:
        for file in self._open.values():
            file.abort()
        self._stager.discard(self._finished)

    def _begin(self, partition: str) -> _StreamedFile | _SortedFile:
        name = f"data-{self._token}-{self._begun:05d}{self._stager.components.extension}"
        self._begun += 1
        path = self._stager.layout.data_path(
            self._stager.dataset_id, self._stager.snapshot_id, partition, name
        )
        streamed = _StreamedFile(self._stager.store, path, self._stager.components)
        file = _SortedFile(streamed, self._shape.sort_by) if self._shape.sort_by else streamed
        self._open[partition] = file
        return file

    def _finish(self, partition: str) -> None:
        self._finished.append(self._open[partition].finish())
        del self._open[partition]
