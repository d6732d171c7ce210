"""INFORMATION_SCHEMA.JOBS: the jobs that the server knows as a table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.ingest.jobs.job import Job

# The rows of all jobs are in memory at once.
_MAX_QUERY_CHARS: Final = 64 << 10
# All jobs of a server are those of one user.
VIEWS: Final = ("JOBS", "JOBS_BY_PROJECT", "JOBS_BY_USER")


def job_rows(jobs: Sequence[Job]) -> pa.Table:
    """The jobs of a project, newest first."""
    return pa.Table.from_pylist([_row(job.loaded()) for job in jobs], _schema())


def _schema() -> pa.Schema:
    text: Any = pa.string()
    whole: Any = pa.int64()
    moment: Any = pa.timestamp("us", "UTC")
    table = pa.struct([("project_id", text), ("dataset_id", text), ("table_id", text)])
    error = pa.struct([("reason", text), ("location", text), ("debug_info", text), ("message", text)])
    counts = pa.struct([(f"{name}_row_count", whole) for name in ("inserted", "deleted", "updated")])
    return pa.schema(
        [
            ("creation_time", moment),
            ("project_id", text),
            ("user_email", text),
            ("job_id", text),
            ("job_type", text),
            ("statement_type", text),
            ("priority", text),
            ("start_time", moment),
            ("end_time", moment),
            ("query", text),
            ("state", text),
            ("total_bytes_processed", whole),
            ("total_bytes_billed", whole),
            ("total_slot_ms", whole),
            ("error_result", error),
            ("cache_hit", pa.bool_()),
            ("destination_table", table),
            ("labels", pa.list_(pa.struct([("key", text), ("value", text)]))),
            ("dml_statistics", counts),
        ]
    )


def _row(job: Job) -> dict[str, Any]:
    resource = job.resource("")
    statistics: dict[str, Any] = resource["statistics"]
    query: dict[str, Any] = statistics.get("query") or {}
    settings = job.settings
    destination = settings.get("destinationTable") or {}
    counts = query.get("dmlStats")
    labels = job.configuration.get("labels") or {}
    return {
        "creation_time": _moment(job.created_ms),
        "project_id": job.project,
        "user_email": resource["user_email"],
        "job_id": job.id,
        "job_type": job.kind.upper(),
        "statement_type": query.get("statementType"),
        "priority": settings.get("priority"),
        "start_time": _moment(job.started_ms),
        "end_time": _moment(job.ended_ms),
        "query": (settings.get("query") or "")[:_MAX_QUERY_CHARS] or None,
        "state": job.state,
        "total_bytes_processed": _number(query.get("totalBytesProcessed")),
        "total_bytes_billed": _number(query.get("totalBytesBilled")),
        "total_slot_ms": _number(statistics.get("totalSlotMs")),
        "error_result": job.errors[0] if job.failed and job.errors else None,
        "cache_hit": query.get("cacheHit"),
        "destination_table": {
            f"{part}_id": _text(destination.get(f"{part}Id")) for part in ("project", "dataset", "table")
        }
        if isinstance(destination, dict) and destination
        else None,
        "labels": [{"key": str(key), "value": str(value)} for key, value in labels.items()]
        if isinstance(labels, dict)
        else [],
        "dml_statistics": None
        if counts is None
        else {
            f"{name}_row_count": _number(counts.get(f"{name}RowCount")) or 0
            for name in ("inserted", "deleted", "updated")
        },
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _moment(ms: int) -> datetime | None:
    return datetime.fromtimestamp(ms / 1000, UTC) if ms else None
