"""A lake as pipelines leave it: their lineage, the counts of their expectations and notes on their runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import lode
from lode.lineage.flow import EXPECTATIONS
from lode.lineage.position import BEGINNING, position_of
from lode.lineage.record import Lineage, input_of
from lode.lineage.runs import Run, note_run
from support.ui.lake import Clock, runtime_of

if TYPE_CHECKING:
    from lode.store import Store

ERROR = "SchemaViolationError: column 'amount' of dataset 'daily' is double, and int in the result of step 2"


def fill_pipelines(store: Store, *, until: datetime | None = None) -> None:
    """Orders and customers → clean → daily and people; daily fails, two snapshots wait for people."""
    end = until or datetime.now(UTC)
    clock = Clock(end - timedelta(hours=5))
    runtime = runtime_of(clock)
    rows = [{"id": number, "amount": number * 1.5} for number in range(900)]

    def dataset(name: str) -> lode.Dataset:
        return lode.Dataset(name, store, codec="jsonl", runtime=runtime)

    def made(name: str, sink: str, sources: list[str], tables: list[str], count: int, **more: Any) -> None:
        clock.pass_by(minutes=20)
        inputs = tuple(
            input_of(dataset(source), BEGINNING, position_of(dataset(source), dataset(source).latest()))
            for source in sources
        )
        looked_up = {
            table: input_of(dataset(table), BEGINNING, position_of(dataset(table), dataset(table).latest()))
            for table in tables
        }
        lineage = Lineage(name, inputs, looked_up, steps=f"{name:*<8}".encode().hex())
        dataset(sink).write(rows[:count], {**lineage.as_metadata(), **more})

    def run(name: str, state: Any, minutes: int, **about: Any) -> None:
        ended = end - timedelta(minutes=minutes)
        note_run(
            store, name, Run(state=state, started_at=ended - timedelta(seconds=8), ended_at=ended, **about)
        )

    for _ in range(3):
        dataset("orders").write(rows)
    dataset("customers").write(rows[:40])
    counts = {
        "has_id": {"passed": 2698, "failed": 0, "on_fail": "fail"},
        "sane_amount": {"passed": 2695, "failed": 3, "on_fail": "quarantine"},
    }
    made("clean", "clean", ["orders"], ["customers"], 890, **{EXPECTATIONS: counts})
    made("clean", "clean_quarantine", ["orders"], ["customers"], 3, **{EXPECTATIONS: counts})
    made("daily", "daily", ["clean"], [], 30)
    made("people", "people", ["clean"], ["customers"], 40)
    made("report", "report", ["daily", "people"], [], 12)
    clock.pass_by(minutes=30)
    dataset("orders").write(rows[:100])
    made("clean", "clean", ["orders"], ["customers"], 99, **{EXPECTATIONS: counts})
    clock.pass_by(minutes=20)
    dataset("orders").write(rows[:200])
    run("clean", "done", 62, batches=1, rows_in=2700, rows_out=2695)
    run("daily", "failed", 12, rows_in=0, rows_out=0, tries=3, error=ERROR)
    run("people", "done", 60, batches=1, rows_in=890, rows_out=40)
    run("report", "skipped", 12, error="pipeline 'daily', which it reads from, has failed")
