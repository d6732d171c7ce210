"""What ``mode("overwrite")`` of ``format("lode")`` replaces.

Spark plans, stages and commits in three processes, and only tasks see the settings of the session. The commit
has no tasks: if a condition selects some rows of a file, threads of the driver rewrite it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lode.change.matching import condition_of
from lode.change.overwrite import Fulfils, check_has_schema, overwrite
from lode.errors import InvalidOptionError, SnapshotConflictError
from lode.filter import parse_filter
from lode.read.which import ExactId
from lode.spark.options import OVERWRITE_OPTIONS
from lode.spark.staging import discard_unreferenced

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

    from lode.change.base import Base, ChangeContext
    from lode.change.result import Change
    from lode.codec.protocol import Codec
    from lode.dataset import Dataset
    from lode.spark.options import Options
    from lode.spark.resume import Job
    from lode.spark.write import TaskResult
    from lode.write.stage import Staged, Stager
    from lode.write.transaction import Transaction
    from lode.writes import BegunWrite, IdempotencyKey

_MODES: Final = ("static", "dynamic")


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a job replaces. Pickles."""

    # The mode of partitions that the writer was given; without it, the session's is found by the tasks.
    mode: str | None
    where: str | pc.Expression | None
    on_conflict: str
    # The newest snapshot when the job was planned.
    base: str | None
    check: Fulfils | None

    def commit(
        self,
        dataset: Dataset,
        job: Job,
        results: Sequence[TaskResult],
        metadata: dict[str, Any] | None,
        idempotency_key: IdempotencyKey | None,
    ) -> Change:
        """Commit what the tasks staged, in place of what it replaces."""
        context = dataset._changes
        # A dataset that did not exist has no rows that a condition could select.
        where = None if self.base is None else self.where
        everything = where is None and (not self._is_dynamic(results) or not job.stager.layout.keys)
        base = None if self.base is None else context.reads.manifest(ExactId(self.base))
        try:
            change = overwrite(
                context,
                _StagedRows(job, self.base, [result.staged for result in results]),
                metadata,
                partitions=None,
                where=where,
                everything=everything,
                idempotency_key=idempotency_key,
                on_conflict=self.on_conflict,
                evolve=job.evolve,
                dry_run=False,
                progress=None,
                base=base,
            )
        except SnapshotConflictError as error:
            if error.transaction is not None:
                error.transaction.abort()  # it cannot be committed again: this process ends
            raise
        if change.snapshot is not None and any(result.attempt for result in results):
            discard_unreferenced(job.stager, change.snapshot.files)
        return change

    def _is_dynamic(self, results: Sequence[TaskResult]) -> bool:
        mode = self.mode or next((result.overwrite_mode for result in results), None)
        return self.where is None and mode is not None and mode.lower() == "dynamic"


def replacement_of(options: Options, dataset: Dataset, stager: Stager, schema: pa.Schema) -> Replacement:
    """What the options of a writer replace in a dataset as it is now.

    Args:
        options: Of the writer.
        dataset: As it is.
        stager: Stages the rows.
        schema: The columns of the rows.
    """
    mode, where = options.text("partitionOverwriteMode"), options.text("replaceWhere")
    on_conflict = options.text("onConflict") or "raise"
    if mode is not None and mode.lower() not in _MODES:
        raise InvalidOptionError(f"option 'partitionOverwriteMode' is static or dynamic, got {mode!r}")
    if on_conflict not in ("raise", "redo"):
        raise InvalidOptionError(f"option 'onConflict' is raise or redo, got {on_conflict!r}")
    if where is not None and mode is not None and mode.lower() == "dynamic":
        raise InvalidOptionError("options 'replaceWhere' and 'partitionOverwriteMode' exclude each other")
    base = dataset.latest() if dataset.exists else None
    check = None
    if where is not None:
        columns = getattr(stager.components.codec, "schema", None) or schema
        if base is None:
            check = Fulfils(parse_filter(where, columns), columns)
        else:
            found = dataset._changes.base(base.manifest)
            check_has_schema(found)
            check = Fulfils(condition_of(found.scan, where)[0], columns)
    return Replacement(mode, where, on_conflict, base.id if base else None, check)


def refuse_without_overwrite(options: Options) -> None:
    """Refuse options that would replace rows in a job that appends. Spark passes its own mode to both."""
    for name in OVERWRITE_OPTIONS:
        if name in options and name != "partitionOverwriteMode":
            raise InvalidOptionError(f"option {name!r} is of mode('overwrite'), and this job appends")


@dataclass(frozen=True, slots=True)
class _StagedRows:
    """Rows that tasks have staged."""

    job: Job
    base: str | None
    staged: list[Staged]
    can_repeat: bool = False

    def schema(self, codec: Codec | None) -> pa.Schema | None:
        return self.job.schema if self.job.evolve else None

    def begin(
        self,
        context: ChangeContext,
        metadata: dict[str, Any] | None,
        idempotency_key: IdempotencyKey | None,
        base: Base | None,
    ) -> BegunWrite:
        planned = None if self.base is None else ExactId(self.base)
        return context.writes.begin(metadata, idempotency_key, self.job.stager.snapshot_id, planned, "raise")

    def stage(self, transaction: Transaction, check: Fulfils | None) -> list[Staged]:
        transaction.take_over(self.job.stager, self.job.definition)
        return self.staged
