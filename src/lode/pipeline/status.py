"""How far the pipelines of a project are: what waits, and how the last runs ended. Needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from lode.errors import LodeError
from lode.lineage.flow import Expected, Waiting, expectations_of, waiting_in
from lode.lineage.position import starting_position
from lode.lineage.record import history_of, lineage_of
from lode.lineage.runs import Run, runs_of
from lode.pipeline.definition import SOURCE_OPTIONS
from lode.runtime import REAL
from lode.spark.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.lineage.record import Lineage
    from lode.pipeline.project import Project
    from lode.pipeline.task import Task
    from lode.snapshot import Snapshot
    from lode.spark.dataset_ref import DatasetRef


@dataclass(frozen=True, slots=True)
class Status:
    """How far a pipeline is.

    ``waiting`` and ``rows`` count the snapshots that it has not read, and their new rows. ``oldest`` is the
    time of the first of them. ``steps_changed`` means that rows of the sink were made by other steps than
    those of now: ``--full-refresh`` computes them anew. ``problem`` says why they are not known.
    """

    pipeline: str
    sink: str
    waiting: int = 0
    rows: int = 0
    oldest: datetime | None = None
    snapshot: str | None = None
    made_at: datetime | None = None
    expectations: tuple[Expected, ...] = ()
    steps_changed: bool = False
    runs: tuple[Run, ...] = ()
    problem: str | None = None

    @property
    def last_run(self) -> Run | None:
        return self.runs[0] if self.runs else None

    @property
    def last_error(self) -> str | None:
        """The error of the last run; None if it went well."""
        return self.problem or (self.runs[0].error if self.runs else None)

    def lag_seconds(self, now: datetime | None = None) -> float:
        """How long the oldest snapshot has been waiting."""
        return ((now or datetime.now(UTC)) - self.oldest).total_seconds() if self.oldest is not None else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "sink": self.sink,
            "waiting_snapshots": self.waiting,
            "waiting_rows": self.rows,
            "lag_seconds": round(self.lag_seconds(), 3),
            "snapshot": self.snapshot,
            "made_at": self.made_at,
            "expectations": [msgspec.to_builtins(each) for each in self.expectations],
            "steps_changed": self.steps_changed,
            "last_error": self.last_error,
            "runs": [msgspec.to_builtins(run) for run in self.runs],
        }


def status_of(project: Project, select: Iterable[str] = ()) -> list[Status]:
    """The status of the chosen pipelines, in order. One that cannot be read has a ``problem``."""
    names = project.graph.select(select)
    return REAL.each(lambda name: _status(project, project.tasks[name]), names)


def _status(project: Project, task: Task) -> Status:
    pipeline = task.pipeline
    runs = runs_of(project.store, pipeline.name)
    known: dict[str, Any] = {"pipeline": pipeline.name, "sink": pipeline.sink_ref.dataset, "runs": runs}
    try:
        newest, lineage = _newest(pipeline.sink_ref, pipeline.name)
        if newest is not None and lineage is not None:
            known |= {"snapshot": newest.id, "made_at": newest.created_at}
            known["expectations"] = expectations_of(newest)
            changed = lineage.changed_after is not None or lineage.steps not in ("", pipeline.digest)
            known["steps_changed"] = changed
        waits = [_waits(ref, lineage) for ref in pipeline.inputs.values()]
    except LodeError as error:
        return Status(**known, problem=project.without_secrets(str(error)))
    oldest = [each.oldest for each in waits if each is not None and each.oldest is not None]
    return Status(
        **known,
        waiting=sum(each.snapshots for each in waits if each is not None),
        rows=sum(each.rows for each in waits if each is not None),
        oldest=min(oldest) if oldest else None,
    )


def _newest(sink: DatasetRef, name: str) -> tuple[Snapshot | None, Lineage | None]:
    if sink.exists:
        for snapshot in history_of(sink.open()):
            lineage = lineage_of(snapshot)
            if lineage is not None and lineage.made_by == name:
                return snapshot, lineage
    return None, None


def _waits(ref: DatasetRef, lineage: Lineage | None) -> Waiting | None:
    place = ref.without(SOURCE_OPTIONS)
    if not place.exists:
        return None
    dataset = place.open()
    for read in () if lineage is None else lineage.inputs:
        if read.dataset == ref.dataset:
            return waiting_in(dataset, read.up_to)
    start = Options(ref.given, also=SOURCE_OPTIONS).text("startingPosition")
    return waiting_in(dataset, starting_position(dataset, start or "earliest"))
