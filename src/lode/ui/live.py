"""The ingest server that the console is part of: its write streams and its metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence, Sized

MAX_STREAMS: Final = 500
_MAX_SAMPLES: Final = 2_000


class ServerMetrics(Protocol):
    """The metrics of a server."""

    def text(self) -> bytes: ...


class LiveEngine(Protocol):
    """The parts of the ingest server's engine that the console reads. It does not import the server."""

    @property
    def settings(self) -> Any: ...

    @property
    def metrics(self) -> ServerMetrics: ...

    @property
    def quarantine(self) -> Sized: ...

    def streams(self) -> Sequence[Any]: ...


class ServerReadiness(Protocol):
    """Whether a server takes writes."""

    async def problem(self) -> str | None: ...


def streams(engine: LiveEngine | None) -> dict[str, Any]:
    """The write streams, newest first, and the time of the reading, for rates."""
    found = engine.streams()[::-1] if engine is not None else []
    shown = []
    for stream in found[:MAX_STREAMS]:
        dataset = stream.log.facts.get("dataset") if stream.log is not None else None
        shown.append(
            {**stream.facts(), "id": stream.id, "table": stream.name.table.short, "dataset": dataset}
        )
    return {"live": engine is not None, "at": time.monotonic(), "total": len(found), "streams": shown}


def metrics(engine: LiveEngine | None) -> dict[str, Any]:
    """The metrics that ``/metrics`` shows, as JSON; histograms by their count and sum."""
    if engine is None:
        return {"live": False, "at": time.monotonic(), "metrics": []}
    from prometheus_client.parser import text_string_to_metric_families

    families = text_string_to_metric_families(engine.metrics.text().decode())
    samples = [
        {
            "name": sample.name,
            "help": family.documentation,
            "kind": family.type,
            "labels": sample.labels,
            "value": sample.value,
        }
        for family in families
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    ]
    return {"live": True, "at": time.monotonic(), "metrics": samples[:_MAX_SAMPLES]}
