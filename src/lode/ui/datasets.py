"""Datasets in the console: facts, definition, history and partitions."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache

from lode.errors import LodeError
from lode.snapshot import Snapshot
from lode.times import ns_to_rfc3339
from lode.ui.paging import MAX_PAGE_ROWS, page_of
from lode.ui.sample import text_of
from lode.ui.snippets import SnippetTarget, kind_of, snippets
from lode.ui.timeline import MAX_PARTITIONS, DatasetTimeline, buckets, contention, view_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lode.definition import Column, Definition
    from lode.describe import Partition
    from lode.format.manifest import Manifest
    from lode.store.protocol import Store
    from lode.ui.paging import PageRequest
    from lode.ui.timeline import HistoryLine, HistoryView

MAX_TIMELINES: Final = 256
MAX_BUCKETS: Final = 240
MAX_COLUMNS: Final = 200
MAX_PROPERTIES: Final = 20
_SPARKLINE_POINTS: Final = 24
# For a definition that cannot be read, or is not needed.
UNKNOWN: Final[Mapping[str, Any]] = {"problem": None, "columns": [], "columns_total": 0}
_LINE_COLUMNS: Final[Mapping[str, Callable[[HistoryLine], Any]]] = {
    "sequence": lambda line: line.sequence,
    "created_at": lambda line: line.created_ns,
    "rows": lambda line: line.added - line.removed,
    "bytes": lambda line: line.bytes,
    "files": lambda line: line.files,
}
_PARTITION_COLUMNS: Final[Mapping[str, Callable[[Partition], Any]]] = {
    "partition": lambda partition: partition.name,
    "rows": lambda partition: partition.rows,
    "bytes": lambda partition: partition.bytes,
    "files": lambda partition: partition.files,
    "last_write": lambda partition: partition.written_ns,
}


class Datasets:
    """The datasets of one store. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._timelines: LRUCache[str, DatasetTimeline] = LRUCache(MAX_TIMELINES)

    def look(self, name: str) -> HistoryView:
        """The current history of the dataset."""
        with self._lock:
            found = self._timelines.get(name)
            if found is None:
                found = self._timelines[name] = DatasetTimeline(self._store, name)
        return found.look()

    def summary(self, name: str) -> dict[str, Any]:
        """A dataset in the list of all."""
        view = self.look(name)
        # Deriving a definition that is not stored reads all files, which is too slow for a list.
        is_stored = view.newest.definition is not None
        definition = definition_of(view, view.newest) if is_stored else UNKNOWN
        return {
            **_facts(view),
            "growth": [bucket["total_rows"] for bucket in buckets(view.lines, _SPARKLINE_POINTS)],
            "problem": view.broken or definition["problem"],
        }

    def describe(self, name: str, *, points: int) -> dict[str, Any]:
        """A dataset, with its whole history in at most ``points`` points."""
        view = self.look(name)
        manifest = view.newest
        definition = definition_of(view, manifest)
        kind = kind_of(manifest.codec, has_columns=bool(definition["columns"]))
        return {
            **_facts(view),
            "compressor": manifest.compressor,
            "checksum": manifest.checksum_algorithm,
            "layout": type(view.dataset.layout).__name__,
            "first": view.first,
            "first_write": ns_to_rfc3339(view.lines[0].created_ns),
            "rebased": sum(line.rebased > 0 for line in view.lines),
            "contention": contention(view.lines),
            "partitions": len(view.partitions),
            "definition": definition,
            "open": snippets(SnippetTarget(view.dataset.store.url, name, kind)),
            "buckets": list(buckets(view.lines, max(1, min(points, MAX_BUCKETS)))),
        }

    def history(self, name: str, *, start: int | None, limit: int) -> dict[str, Any]:
        """A part of the history in its order: from ``start``, or the newest part."""
        view = self.look(name)
        size = max(1, min(limit, MAX_PAGE_ROWS))
        first = max(view.first, view.last - size + 1 if start is None else start)
        return _history(view, view.lines[first - view.first :][:size])

    def sorted_history(self, name: str, wanted: PageRequest) -> dict[str, Any]:
        """One page of the history, sorted as a whole."""
        view = self.look(name)
        lines, about = page_of(view.lines, wanted, _LINE_COLUMNS)
        return {**_history(view, lines), **about}

    def partitions(self, name: str, snapshot: str | None, wanted: PageRequest) -> dict[str, Any]:
        """One page of the partitions of a dataset, or of one snapshot of it, sorted as a whole."""
        view = self.look(name)
        found = view.partitions
        if snapshot is not None:
            found = view_partitions(view.dataset, view.snapshot(snapshot).manifest)
        shown, about = page_of(list(found.values()), wanted, _PARTITION_COLUMNS)
        return {
            **about,
            "keys": list(view.dataset.layout.keys),
            "more": len(found) == MAX_PARTITIONS,
            "partitions": [_partition(partition) for partition in shown],
        }


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "partition": partition.name,
        "files": partition.files,
        "rows": partition.rows,
        "bytes": partition.bytes,
        "last_write": ns_to_rfc3339(partition.written_ns),
    }


def definition_of(view: HistoryView, manifest: Manifest) -> Mapping[str, Any]:
    """The definition at a snapshot. One that cannot be read is reported as a ``problem``."""
    try:
        definition = view.dataset.definition_at(Snapshot(manifest))
        columns = definition.columns or ()
        shown = [_column(column, definition) for column in columns[:MAX_COLUMNS]]
    except LodeError as error:
        return {**UNKNOWN, "problem": f"The definition cannot be read: {error}"}
    properties = [[name, text_of(value)] for name, value in definition.properties.items()]
    return {
        "problem": None,
        "description": definition.description,
        "timestamp_column": definition.timestamp_column,
        "sort_by": list(definition.sort_by),
        "primary_key": list(definition.primary_key),
        "properties": properties[:MAX_PROPERTIES],
        "columns": shown,
        "columns_total": len(columns),
    }


def _column(column: Column, definition: Definition) -> dict[str, Any]:
    roles = {
        "partition key": definition.keys,
        "primary key": definition.primary_key,
        "sort key": definition.sort_by,
        "timestamp": (definition.timestamp_column,),
    }
    return {
        "name": column.name,
        "type": column.type_text,
        "nullable": column.nullable,
        "roles": [role for role, names in roles.items() if column.name in names],
    }


def _history(view: HistoryView, lines: Sequence[HistoryLine]) -> dict[str, Any]:
    return {
        "first": view.first,
        "last": view.last,
        "pending": view.pending,
        "broken": view.broken,
        "snapshots": [line.as_dict(view.short(line.id)) for line in lines],
    }


def _facts(view: HistoryView) -> dict[str, Any]:
    newest = view.lines[-1]
    return {
        "name": view.dataset.id,
        "codec": view.newest.codec,
        "partitioned_by": list(view.dataset.layout.keys),
        "snapshots": len(view.lines) if view.is_whole else view.last,
        "rows": view.rows,
        "bytes": view.bytes,
        # If not, the sums are lower bounds.
        "whole": view.is_whole,
        "last_write": ns_to_rfc3339(newest.created_ns),
        "latest": newest.id,
        "pending": view.pending,
        "broken": view.broken,
    }
