"""What the console tells about datasets: which there are, and the history of one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from lode.errors import DataError
from lode.format.manifest import format_time_ns
from lode.snapshot import Snapshot
from lode.ui.buckets import buckets, growth
from lode.ui.cells import text_of
from lode.ui.timeline import Timeline

if TYPE_CHECKING:
    from lode.store.protocol import Store
    from lode.ui.timeline import View

REMEMBERED: Final = 256
MOST_BUCKETS: Final = 240
MOST_LINES_A_PAGE: Final = 500
MAX_COLUMNS: Final = 200
MAX_PROPERTIES: Final = 20
_SPARK: Final = 24


class Datasets:
    """The datasets of one store. Threads share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._timelines: OrderedDict[str, Timeline] = OrderedDict()

    def look(self, name: str) -> View:
        """The dataset's history as it is now."""
        with self._lock:
            timeline = self._timelines.pop(name, None) or Timeline(self._store, name)
            self._timelines[name] = timeline
            while len(self._timelines) > REMEMBERED:
                self._timelines.popitem(last=False)
        return timeline.look()

    def summary(self, name: str) -> dict[str, Any]:
        """A dataset in the list of all."""
        view = self.look(name)
        return {**_facts(view), "growth": growth(view.lines, _SPARK)}

    def describe(self, name: str, *, points: int) -> dict[str, Any]:
        """A dataset, with its whole history in at most so many points."""
        view = self.look(name)
        manifest = view.newest
        return {
            **_facts(view),
            "compressor": manifest.compressor,
            "checksum": manifest.checksum_algorithm,
            "layout": type(view.dataset.layout).__name__,
            "first": view.first,
            "first_write": format_time_ns(view.lines[0].created_ns),
            "rebased": sum(line.rebased > 0 for line in view.lines),
            "definition": _definition(view),
            "buckets": buckets(view.lines, max(1, min(points, MOST_BUCKETS))),
        }

    def history(self, name: str, *, start: int | None, limit: int) -> dict[str, Any]:
        """A page of the history in its order; the newest one if no start is given."""
        view = self.look(name)
        size = max(1, min(limit, MOST_LINES_A_PAGE))
        first = max(view.first, view.last - size + 1 if start is None else start)
        page = view.lines[first - view.first :][:size]
        return {
            "first": view.first,
            "last": view.last,
            "pending": view.pending,
            "broken": view.broken,
            "snapshots": [line.as_dict() for line in page],
        }


def _definition(view: View) -> dict[str, Any]:
    """What the dataset is. A definition that cannot be read hides nothing else of it."""
    try:
        definition = view.dataset.definition_at(Snapshot(view.newest))
    except DataError as error:
        return {"problem": str(error), "columns": [], "columns_total": 0}
    columns = definition.columns or ()
    return {
        "problem": None,
        "description": definition.description,
        "timestamp_column": definition.timestamp_column,
        "sort_by": list(definition.sort_by),
        "primary_key": list(definition.primary_key),
        "properties": [[name, text_of(value)] for name, value in definition.properties.items()][
            :MAX_PROPERTIES
        ],
        "columns": [
            {"name": column.name, "type": column.type_text, "required": not column.nullable}
            for column in columns[:MAX_COLUMNS]
        ],
        "columns_total": len(columns),
    }


def _facts(view: View) -> dict[str, Any]:
    newest = view.lines[-1]
    return {
        "name": view.dataset.id,
        "codec": view.newest.codec,
        "partitioned_by": list(view.dataset.layout.keys),
        "snapshots": view.last,
        "rows": sum(line.rows for line in view.lines),
        "bytes": sum(line.bytes for line in view.lines),
        # Sums over a history that could not be read whole are at least this much.
        "whole": view.is_whole,
        "last_write": format_time_ns(newest.created_ns),
        "latest": newest.id,
        "pending": view.pending,
        "broken": view.broken,
    }
