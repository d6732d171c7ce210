"""The table that a job writes: created, appended to or replaced, with all rows in one snapshot."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.errors import LodeError, SchemaViolationError, StoreError
from lode.format.ids import shortened
from lode.ingest.catalog.partitioning import PARTITION_ID, partition_ids
from lode.ingest.catalog.paths import display_name
from lode.ingest.catalog.table import stored_as
from lode.ingest.core.table_writer import ColumnRenamed
from lode.ingest.jobs.tables import arrival_ms, check_partition, path_of
from lode.ingest.status import Code, Refused, invalid
from lode.lazy import pa
from lode.read.which import ExactId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import lode
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.job import Job
    from lode.ingest.jobs.tables import TableRef

CREATE: Final = ("CREATE_IF_NEEDED", "CREATE_NEVER")
WRITE: Final = ("WRITE_APPEND", "WRITE_TRUNCATE", "WRITE_EMPTY")
# How often the rows are staged again because another writer changed the table meanwhile.
_MAX_STAGINGS: Final = 10
# Small batches are combined, since each costs some time.
_MIN_BATCH_BYTES: Final = 1 << 20


class Destination:
    """One table and its dispositions.

    Args:
        engine: The tables.
        ref: The table, perhaps with a partition.
        create: One of ``CREATE``.
        write: One of ``WRITE``.
    """

    def __init__(self, engine: Engine, ref: TableRef, create: str, write: str) -> None:
        self.ref = ref
        self.create = create
        self.write = write
        self._engine = engine

    @property
    def replaces_table(self) -> bool:
        """Whether all rows are replaced, and so also the schema may be."""
        return self.write == "WRITE_TRUNCATE" and not self.ref.partition

    def current(self) -> TableDefinition | None:
        """The table; None if it does not exist and may be created."""
        try:
            return self._engine.catalog.table(self.ref.name, fresh=True)
        except Refused as refused:
            if refused.code is not Code.NOT_FOUND or self.create == "CREATE_NEVER":
                raise
            self._engine.catalog.location_of(self.ref.name)  # its dataset must exist
            return None

    def load(
        self,
        job: Job,
        decide: Callable[[TableDefinition | None], TableDefinition],
        rows: Callable[[TableDefinition], Iterable[pa.RecordBatch]],
    ) -> lode.Snapshot:
        """Write rows in one snapshot under the job's key. A job that was committed before writes nothing.

        Args:
            job: The job.
            decide: The table as it is to be, from the current one, or from None for a new one.
            rows: The rows in the ``schema.arrow`` of that table. Called again if another writer changes it.
        """
        for _ in range(_MAX_STAGINGS):
            current = self.current()
            wanted = decide(current)
            if self.ref.partition:
                check_partition(self.ref, wanted.partitioning)
            try:
                return self._attempt(job, current, wanted, rows)
            except (ColumnRenamed, _Changed):
                continue
        raise Refused(
            Code.ABORTED, f"Other writers change {self.ref.name.short} all the time: start the job again."
        )

    def _attempt(
        self,
        job: Job,
        current: TableDefinition | None,
        wanted: TableDefinition,
        rows: Callable[[TableDefinition], Iterable[pa.RecordBatch]],
    ) -> lode.Snapshot:
        dataset = wanted.open(self._engine.store)
        try:
            transaction = dataset.transaction(
                {"job": {"id": job.full_id, "type": job.kind}},
                idempotency_key=job.idempotency_key,
                on_conflict="append",
                evolve=wanted.replacement if self.replaces_table else wanted.evolution(acknowledged=False),
                replaces=self._replaced(wanted),
            )
        except StoreError:
            raise
        except LodeError as error:
            raise Refused(
                Code.FAILED_PRECONDITION, f"Table {self.ref.name.short} cannot be written: {error}."
            ) from error
        with transaction:
            snapshot = transaction.replayed
            if snapshot is None:
                self._stage(job, wanted, transaction, rows(wanted))
                job.check_cancelled()
                stored = self._prepare(current, wanted)
                check = self._check_empty(dataset, wanted) if self.write == "WRITE_EMPTY" else None
                snapshot = self._engine.writer(stored).publish(dataset, transaction, check)
        if self.replaces_table and current is not None and current.schema != wanted.schema:
            # After the rows: if this is interrupted, the same job finds its commit and comes here again.
            self._engine.catalog.update_table(
                self.ref.name,
                lambda now: msgspec.structs.replace(now, schema=wanted.schema, info=wanted.info),
                replace_schema=True,
            )
        return snapshot

    def _replaced(self, wanted: TableDefinition) -> list[str] | None:
        if self.write != "WRITE_TRUNCATE":
            return None
        if not self.ref.partition:
            return [""]
        assert wanted.partitioning is not None
        return [path_of(self.ref, wanted.partitioning)]

    def _prepare(self, current: TableDefinition | None, wanted: TableDefinition) -> TableDefinition:
        """Create the table, or add its new columns, when all rows are staged."""
        catalog = self._engine.catalog
        if current is None:
            try:
                created = catalog.create_table(
                    wanted.name, wanted.schema, partitioning=wanted.partitioning, info=wanted.info
                )
            except Refused as refused:
                if refused.code is Code.ALREADY_EXISTS:
                    raise _Changed from refused
                raise
            if created.generation != wanted.generation:
                raise _Changed
            return created
        if current.schema != wanted.schema and not self.replaces_table:
            changed = catalog.update_table(
                wanted.name,
                lambda now: msgspec.structs.replace(now, schema=_kept(now, current, wanted).schema),
            )
            if changed.generation != wanted.generation:
                raise _Changed
            return changed
        return current

    def _stage(
        self,
        job: Job,
        wanted: TableDefinition,
        transaction: lode.Transaction,
        batches: Iterable[pa.RecordBatch],
    ) -> None:
        arrived = arrival_ms(self.ref, wanted.partitioning)
        stored = getattr(transaction.stager.components.codec, "schema", None)

        def prepared() -> Iterator[pa.RecordBatch]:
            for batch in _combined(batches):
                job.check_cancelled()
                if not batch.num_rows:
                    continue
                self._check_inside(wanted, batch, arrived)
                # Copied rows may have their partition already.
                own = batch if PARTITION_ID in batch.schema.names else wanted.prepare(batch, now_ms=arrived)
                yield stored_as(own, stored)

        found = prepared()
        first = next(found, None)
        if first is None:
            return
        try:
            transaction.add(transaction.stager.stage_named(chain([first], found), ""))
        except SchemaViolationError as error:
            raise Refused(
                Code.FAILED_PRECONDITION, f"Table {self.ref.name.short} cannot be written: {error}."
            ) from error

    def _check_inside(self, wanted: TableDefinition, batch: pa.RecordBatch, arrived: int | None) -> None:
        """Refuse rows that do not belong to the partition of the decorator."""
        if not self.ref.partition or arrived is not None or wanted.partitioning is None:
            return
        import pyarrow.compute as pc

        outside: Any = pc.not_equal(partition_ids(wanted.partitioning, batch), pa.scalar(self.ref.partition))
        if pc.any(outside, min_count=0).as_py():
            raise invalid(
                f"Some rows belong to other partitions than ${self.ref.partition} of {self.ref.name.short}: "
                "load them without the decorator, or leave them out."
            )

    def _check_empty(self, dataset: lode.Dataset, wanted: TableDefinition) -> Callable[[str | None], None]:
        """Refuses to follow a snapshot with rows in the table, or in the partition."""
        partitioning = wanted.partitioning
        path = path_of(self.ref, partitioning) if self.ref.partition and partitioning else None

        def check(base: str | None) -> None:
            manifests = dataset.plan(as_of=ExactId(base)).manifests if base is not None else ()
            files = [file.path for manifest in manifests for file in manifest.files]
            if any(path in (None, dataset.layout.partition_of(dataset.id, file)) for file in files):
                suffix = f"${self.ref.partition}" if self.ref.partition else ""
                raise Refused(
                    Code.ALREADY_EXISTS, f"Already Exists: Table {display_name(self.ref.name)}{suffix}"
                )

        return check


class _Changed(Exception):  # noqa: N818, an outcome rather than an error
    """Another request created, deleted or changed the table meanwhile."""


def _kept(now: TableDefinition, current: TableDefinition, wanted: TableDefinition) -> TableDefinition:
    if now.schema != current.schema or now.generation != current.generation:
        raise _Changed
    return wanted


def _combined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Combine small batches."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _MIN_BATCH_BYTES:
            yield from _one(waiting)
            waiting, size = [], 0
    yield from _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) < 2:
        yield from batches
        return
    yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def disposition(settings: dict[str, Any], key: str, choices: tuple[str, ...], default: str) -> str:
    """A disposition of the configuration, or a refusal."""
    found = settings.get(key) or default
    if found not in choices:
        raise invalid(f"Invalid value for {key}: {shortened(str(found))} is not one of {', '.join(choices)}.")
    return str(found)
