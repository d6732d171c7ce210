"""Create a dataset, or change its columns: one snapshot without rows, which records the definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from lode.definition import check_names, check_storable
from lode.errors import DatasetExistsError, SnapshotConflictError
from lode.evolution import column_names
from lode.evolution import evolve as evolved
from lode.format.manifest import check_metadata
from lode.options import check_codec
from lode.snapshot import Snapshot
from lode.write.open_files import check_sort_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lode.change.base import ChangeContext
    from lode.codec.schema import TypeSpec
    from lode.definition import Definition


def create(context: ChangeContext, **described: Any) -> None:
    """Commit the first snapshot. See ``Dataset.create``.

    Args:
        context: The dataset, with the options that it is created with.
        described: Fields of the definition that are no options of an open dataset.
    """
    handle = context.handle
    found, base = handle.find_to_write()
    definition = msgspec.structs.replace(handle.given.definition(), **described)
    if handle.given.schema is not None:
        definition = definition.with_schema(handle.given.schema)
    for what, names in (
        ("partition_by", definition.keys),
        ("sort_by", definition.sort_by),
        ("primary_key", definition.primary_key),
        ("timestamp_column", [definition.timestamp_column] if definition.timestamp_column else []),
    ):
        check_names(definition, what, names)
    if definition.sort_by and definition.schema is not None:
        check_sort_by(definition.schema, definition.sort_by)
    check_storable(definition)
    check_codec(handle.given.codec, definition.schema)
    if base.manifest is None and (base.pointer is None or base.dropped is not None):
        try:
            handle.commit_definition(found, base, definition, {}, "create", creates=True)
        except SnapshotConflictError:
            pass
        else:
            handle.follow_stored_schema()
            return
    raise DatasetExistsError(
        f"dataset {handle.id!r} exists in {handle.store.url}: open it with lode.open_dataset, or choose "
        "another name"
    )


def evolve(
    context: ChangeContext,
    *,
    add: Mapping[str, TypeSpec] | None,
    widen: Mapping[str, TypeSpec] | None,
    relax: Iterable[str],
    rename: Mapping[str, str] | None,
    drop: Iterable[str],
    metadata: dict[str, Any] | None,
) -> Snapshot:
    """Change the columns. See ``Dataset.evolve``."""
    clean = check_metadata(metadata)
    relaxed, dropped = column_names("relax", relax), column_names("drop", drop)

    def change(definition: Definition) -> Definition:
        return evolved(definition, add=add, widen=widen, relax=relaxed, rename=rename, drop=dropped)

    handle = context.handle
    found, _ = handle.find_to_write()
    base = found.committer.settle()
    if base.manifest is None:
        raise context.reads.no_snapshots()
    definition = found.definitions.at(base.manifest)
    changed = change(definition)
    if changed.digest == definition.digest:
        return Snapshot(base.manifest)
    check_storable(changed)
    check_codec(handle.components(found, definition).codec, changed.schema)
    if handle.define(found, base, definition):
        base = found.committer.settle()
    snapshot = handle.commit_definition(found, base, definition, clean, "evolve", change)
    handle.follow_stored_schema()
    return snapshot
