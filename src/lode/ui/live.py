"""What the console tells about a running server: its write streams and its metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lode.ingest.core.engine import Engine

MOST_STREAMS: Final = 500
_MOST_SAMPLES: Final = 2_000


def streams(engine: Engine | None) -> dict[str, Any]:
    """The write streams, newest first, and the moment they were looked at, from which rates follow."""
    found = engine.streams()[::-1] if engine is not None else []
    shown = []
    for stream in found[:MOST_STREAMS]:
        dataset = stream.log.facts.get("dataset") if stream.log is not None else None
        shown.append(
            {**stream.facts(), "id": stream.id, "table": stream.name.table.short, "dataset": dataset}
        )
    return {
        "live": engine is not None,
        "at": time.monotonic(),
        "total": len(found),
        "streams": shown,
    }


def metrics(engine: Engine | None) -> dict[str, Any]:
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
    return {"live": True, "at": time.monotonic(), "metrics": samples[:_MOST_SAMPLES]}
