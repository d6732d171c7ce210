"""The metrics of the server, for Prometheus."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from lode.ingest.core.strategies import StreamType

if TYPE_CHECKING:
    from collections.abc import Callable

    import lode
    from lode.change.result import Change
    from lode.ingest.status import Code

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one server, in their own registry: several servers may share a process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        of: Any = {"registry": self._registry}
        self._active = Gauge(
            "lode_write_streams_active",
            "Write streams that are open, by type; default streams are not counted.",
            ["stream_type"],
            **of,
        )
        self.calls = Gauge("lode_append_calls_open", "AppendRows calls that are open.", **of)
        self.appends = Counter("lode_appends", "Append requests that were stored.", ["stream_type"], **of)
        self.rows = Counter("lode_append_rows", "Rows that were stored.", ["stream_type"], **of)
        # To look labels up takes longer than to count.
        self._of_type = {
            kind: (self.appends.labels(kind.name), self.rows.labels(kind.name)) for kind in StreamType
        }
        self.bytes = Counter("lode_append_bytes", "Bytes of the requests that were stored.", **of)
        self.errors = Counter("lode_errors", "Requests that were refused, by code.", ["method", "code"], **of)
        self.commit_seconds = Histogram(
            "lode_commit_seconds", "Time from staging to a visible snapshot.", buckets=_SECONDS, **of
        )
        self.commit_rows = Counter("lode_commit_rows", "Rows made visible.", **of)
        self.group_size = Histogram(
            "lode_commit_group_size", "Appends that shared one commit.", buckets=_SIZES, **of
        )
        self.rebases = Counter("lode_commit_rebases", "Commits rebased onto those of other writers.", **of)
        self.swap_size = Histogram(
            "lode_commit_swap_size",
            "Snapshots, of any writer, that the swap of a commit made visible.",
            buckets=_SIZES,
            **of,
        )
        self.wait_seconds = Histogram(
            "lode_commit_wait_seconds",
            "Time in which a commit waited for other writers, to share a swap.",
            buckets=_SECONDS,
            **of,
        )
        self.conflicts = Counter("lode_commit_conflicts", "Commits tried again after a conflict.", **of)
        self.compactions = Counter("lode_compactions", "Compactions of tables.", **of)
        self.compacted_files = Counter("lode_compacted_files", "Files that compactions replaced.", **of)
        self.compact_seconds = Counter("lode_compact_seconds", "Time that compactions took.", **of)
        self._damaged = Gauge(
            "lode_write_streams_damaged", "Write streams that are refused, as their logs are damaged.", **of
        )
        self._staged = Gauge("lode_staged_bytes", "Bytes staged in PENDING and BUFFERED streams.", **of)

    def watch(
        self,
        *,
        staged_bytes: Callable[[], int],
        damaged: Callable[[], int],
        active: Callable[[StreamType], int],
    ) -> None:
        """Read the gauges from these functions at each scrape."""
        self._staged.set_function(staged_bytes)
        self._damaged.set_function(damaged)
        for kind in (StreamType.COMMITTED, StreamType.PENDING, StreamType.BUFFERED):
            self._active.labels(kind.name).set_function(partial(active, kind))

    def appended(self, kind: StreamType, rows: int, size: int) -> None:
        appends, of_rows = self._of_type[kind]
        appends.inc()
        of_rows.inc(rows)
        self.bytes.inc(size)

    def refused(self, method: str, code: Code) -> None:
        self.errors.labels(method, code.name).inc()

    def committed(self, snapshot: lode.Snapshot, seconds: float) -> None:
        self.commit_seconds.observe(seconds)
        self.commit_rows.inc(snapshot.row_count)
        if snapshot.commit is not None:
            self.rebases.inc(snapshot.commit.rebases)
            self.swap_size.observe(snapshot.commit.group)
            self.wait_seconds.observe(snapshot.commit.waited)

    def compacted(self, change: Change, seconds: float) -> None:
        self.compactions.inc()
        self.compacted_files.inc(change.removed.files)
        self.compact_seconds.inc(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)
