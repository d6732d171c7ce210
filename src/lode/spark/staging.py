"""Stage the rows of a Spark task, and remove what lost attempts have left."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.types as pt

from lode.errors import LodeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.change.overwrite import Fulfils
    from lode.format.manifest import FileRef
    from lode.write.stage import Staged, Stager


def stage_batches(
    stager: Stager,
    batches: Iterable[pa.RecordBatch],
    *,
    task: str | None,
    check: Fulfils | None = None,
) -> Staged:
    """Stream the batches of a task into files, by partition; a failure removes what this call wrote.

    Args:
        stager: Says where, how files are encoded, how large they get and how they are sorted.
        batches: Pulled one at a time.
        task: Names the piece of work; a commit takes only the first result of each.
        check: Refuses rows that a condition does not select.
    """
    rows: Iterable[pa.RecordBatch] = map(in_utc, batches)
    staged = stager.write_records(rows if check is None else check(rows), task=task, serial=True)
    # The commit checks these files as its own: it was begun with the columns of this stager.
    return msgspec.structs.replace(staged, definition=None)


def discard_unreferenced(stager: Stager, kept: Iterable[FileRef] = ()) -> None:
    """Remove the files of failed and of surplus attempts under this snapshot, best effort.

    Without ``kept`` all staged files are removed; with it, the other files in the folders of those.
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
    """Return the same times in the zone UTC: Spark labels them with the zone of its session."""
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
