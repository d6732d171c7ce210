"""Create a dataset, or change its columns: one snapshot without rows, which records the definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from lode.codec.go_profile import check_go_schema, go_schema
from lode.definition import check_names, check_storable
from lode.errors import DatasetExistsError, InvalidOptionError, SnapshotConflictError
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
    schema = handle.given.schema
    if definition.shared_with_go and definition.codec == "parquet":
        if schema is None:
            raise InvalidOptionError(
                f"dataset {handle.id!r} is shared with Go, which finds the columns of Parquet by position: "
                "give its columns, as schema=…"
            )
        schema = go_schema(schema)
    if schema is not None:
        definition = definition.with_schema(schema)
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


def _shared(definition: Definition) -> Definition:
    """The definition of a dataset that exists, shared with Go."""
    if definition.codec == "parquet" and definition.schema is not None:
        check_go_schema(definition.schema)
    return msgspec.structs.replace(definition, shared_with_go=True)


def evolve(
    context: ChangeContext,
    *,
    add: Mapping[str, TypeSpec] | None,
    widen: Mapping[str, TypeSpec] | None,
    relax: Iterable[str],
    rename: Mapping[str, str] | None,
    drop: Iterable[str],
    shared_with_go: bool,
    metadata: dict[str, Any] | None,
) -> Snapshot:
    """Change the columns. See ``Dataset.evolve``."""
    clean = check_metadata(metadata)
    relaxed, dropped = column_names("relax", relax), column_names("drop", drop)

    def change(definition: Definition) -> Definition:
        if shared_with_go and not definition.shared_with_go:
            definition = _shared(definition)
            if not (add or widen or relaxed or rename or dropped):
                return definition
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
