"""Commit under a snapshot id that was chosen elsewhere.

Spark builds one writer to plan a job and another, in another process, to commit it. The tasks stage under
the id the first one chose, and sweep can fence a dead job's files only by the id in their paths: so the
second must commit under that same id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lode.errors import LodeError
from lode.format.ids import SnapshotIds
from lode.runtime import REAL

if TYPE_CHECKING:
    import pyarrow as pa

    from lode.dataset import Dataset
    from lode.definition import Definition
    from lode.write.stage import Stager
    from lode.write.transaction import Transaction
    from lode.writes import IdempotencyKey

_IDS: Final = SnapshotIds(REAL.now_ns, REAL.random_bits)


def new_snapshot_id() -> str:
    """An id under which tasks may stage, to be committed by ``resume``."""
    return _IDS.next()


@dataclass(frozen=True, slots=True)
class Job:
    """A write between the process that planned it and the one that commits it. Pickles.

    ``definition`` is what the dataset was when it was planned, ``schema`` what the rows have.
    """

    stager: Stager
    definition: Definition
    schema: pa.Schema
    evolve: bool = False

    @staticmethod
    def of(transaction: Transaction, schema: pa.Schema, *, evolve: bool) -> Job:
        return Job(transaction.stager, transaction.definition, schema, evolve)


def may_be_committed(stager: Stager) -> bool:
    """Whether a commit of this snapshot has begun, so that its files may be part of history.

    Spark also aborts a job whose commit failed or did not answer. The swap comes after the intent,
    and sweep removes an intent only when the manifest is published. So the files belong to nobody only if
    there is neither, asked in this order.
    """
    paths = stager.layout.chain(stager.dataset_id)
    try:
        return stager.store.exists(paths.intent(stager.snapshot_id)) or stager.store.exists(
            paths.manifest(stager.snapshot_id)
        )
    except LodeError:
        return True


def resume(
    dataset: Dataset,
    snapshot_id: str,
    metadata: dict[str, Any] | None = None,
    *,
    idempotency_key: IdempotencyKey | None = None,
    job: Job | None = None,
) -> Transaction:
    """A transaction for files that were staged under ``snapshot_id``; it conflicts with nobody.

    What ``job`` was planned for is checked again, against what the dataset is when it is committed.
    """
    evolve = job is not None and job.evolve
    # A job appends to whatever came before it: a conflict is never a reason to stage everything again.
    transaction = dataset.transaction(
        metadata,
        idempotency_key=idempotency_key,
        snapshot_id=snapshot_id,
        on_conflict="append",
        schema=job.schema if job is not None and evolve else None,
        evolve=evolve,
    )
    if job is not None:
        transaction.take_over(job.stager, job.definition)
    return transaction
