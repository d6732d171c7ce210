"""The table that a job writes: created, appended to or replaced, with all rows in one snapshot."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from lode.errors import (
    CommitUnknownError,
    CommitUnpublishedError,
    LodeError,
    SchemaViolationError,
    StoreError,
)
from lode.format.ids import shortened
from lode.ingest.catalog.partitioning import partition_ids
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
    from lode.evolution import Evolution
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


class Commit(NamedTuple):
    """Who writes: the key of the snapshot, by which a repeated job is found, and the type of the job."""

    key: tuple[str, str]
    kind: str
    check_cancelled: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, job: Job) -> Commit:
        return cls(job.idempotency_key, job.kind, job.check_cancelled)

    @property
    def metadata(self) -> dict[str, Any]:
        return {"job": {"id": self.key[1], "type": self.kind}}


class Destination:
    """One table and its dispositions.

    Args:
        engine: The tables.
        ref: The table, perhaps with a partition.
        create: One of ``CREATE``.
        write: One of ``WRITE``.
        anew: A view may be there, too. It is replaced by a table.
    """

    def __init__(self, engine: Engine, ref: TableRef, create: str, write: str, *, anew: bool = False) -> None:
        self._anew = anew
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
        commit: Commit,
        decide: Callable[[TableDefinition | None], TableDefinition],
        rows: Callable[[TableDefinition], Iterable[pa.RecordBatch]],
        *,
        empty: bool = True,
    ) -> lode.Snapshot | None:
        """Write rows in one snapshot under the job's key. A job that was committed before writes nothing.

        Readers see the table as it was before or as it is after. If all rows are replaced and the columns
        change, the rows are written to a dataset of their own, which then takes the place of the table's in
        one step. A new table appears with its rows.

        Args:
            commit: Who writes.
            decide: The table as it is to be, from the current one, or from None for a new one. A draft of
                ``Catalog.draft_replacement`` always takes the place of the table.
            rows: The rows in the ``schema.arrow`` or in the ``arrow`` of that table. Called again if another
                writer changes it.
            empty: Commit a snapshot also if there are no rows; otherwise None is returned.
        """
        for _ in range(_MAX_STAGINGS):
            current = self.current()
            if current is not None and not self._anew:
                current.check_writable()
            wanted = decide(current)
            is_same = current is not None and wanted.generation == current.generation
            if current is not None and is_same and self.replaces_table and wanted.schema != current.schema:
                wanted = self._replacement(current, wanted)
            if self.ref.partition:
                check_partition(self.ref, wanted.partitioning)
            try:
                is_draft = current is None or wanted.generation != current.generation
                if is_draft and (wanted.storage or not wanted.open(self._engine.store).exists):
                    return self._replace(commit, current, wanted, rows)
                return self._attempt(commit, current, wanted, rows, empty)
            except (ColumnRenamed, _Changed):
                continue
        raise Refused(
            Code.ABORTED, f"Other writers change {self.ref.name.short} all the time: start the job again."
        )

    def _replacement(self, current: TableDefinition, wanted: TableDefinition) -> TableDefinition:
        draft = self._engine.catalog.draft_replacement(
            current, wanted.schema, partitioning=wanted.partitioning, info=wanted.info
        )
        return msgspec.structs.replace(draft, created_ms=current.created_ms)

    def _replace(
        self,
        commit: Commit,
        current: TableDefinition | None,
        wanted: TableDefinition,
        rows: Callable[[TableDefinition], Iterable[pa.RecordBatch]],
    ) -> lode.Snapshot:
        """Write the rows to the unused dataset of a draft, then make it the table."""
        done = None if current is None else written_by(self._engine, commit.key, current)
        if done is not None:
            return done
        dataset = wanted.open(self._engine.store)
        with self._transaction(dataset, commit, wanted.evolution(acknowledged=False), None) as transaction:
            self._stage(commit, wanted, transaction, rows(wanted))
            commit.check_cancelled()
            if not wanted.storage:
                with _changes():
                    self._engine.catalog.reserve_table(wanted)
            try:
                snapshot = transaction.commit()
            except CommitUnpublishedError:
                dataset.settle()
                snapshot = dataset.snapshot(transaction.snapshot_id)
            except (CommitUnknownError, StoreError) as error:
                raise Refused(
                    Code.UNAVAILABLE,
                    f"The store of {self.ref.name.short} failed ({error}): start the job again.",
                ) from error
        with _changes():
            if current is None:
                self._engine.catalog.publish_table(wanted)
            else:
                self._engine.catalog.replace_table(current, wanted)
        return snapshot

    def _transaction(
        self,
        dataset: lode.Dataset,
        commit: Commit,
        evolution: Evolution,
        replaced: list[str] | None,
    ) -> lode.Transaction:
        try:
            return dataset.transaction(
                commit.metadata,
                idempotency_key=commit.key,
                on_conflict="append",
                evolve=evolution,
                replaces=replaced,
            )
        except StoreError:
            raise
        except LodeError as error:
            raise Refused(
                Code.FAILED_PRECONDITION, f"Table {self.ref.name.short} cannot be written: {error}."
            ) from error

    def _attempt(
        self,
        commit: Commit,
        current: TableDefinition | None,
        wanted: TableDefinition,
        rows: Callable[[TableDefinition], Iterable[pa.RecordBatch]],
        empty: bool,
    ) -> lode.Snapshot | None:
        dataset = wanted.open(self._engine.store)
        evolution = wanted.replacement if self.replaces_table else wanted.evolution(acknowledged=False)
        with self._transaction(dataset, commit, evolution, self._replaced(wanted)) as transaction:
            if transaction.replayed is not None:
                return transaction.replayed
            staged = self._stage(commit, wanted, transaction, rows(wanted))
            if not staged and not empty:
                return None
            commit.check_cancelled()
            stored = self._prepare(current, wanted)
            check = self._check_empty(dataset, wanted) if self.write == "WRITE_EMPTY" else None
            return self._engine.writer(stored).publish(dataset, transaction, check)

    def _replaced(self, wanted: TableDefinition) -> list[str] | None:
        if self.write != "WRITE_TRUNCATE":
            return None
        if not self.ref.partition:
            return [""]
        assert wanted.partitioning is not None
        return [path_of(self.ref, wanted.partitioning)]

    def _prepare(self, current: TableDefinition | None, wanted: TableDefinition) -> TableDefinition:
        """Add the new columns when all rows are staged. A dataset without a table becomes one."""
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
        commit: Commit,
        wanted: TableDefinition,
        transaction: lode.Transaction,
        batches: Iterable[pa.RecordBatch],
    ) -> bool:
        """Stage rows; returns whether there were any."""
        arrived = arrival_ms(self.ref, wanted.partitioning)
        stored = getattr(transaction.stager.components.codec, "schema", None)

        def prepared() -> Iterator[pa.RecordBatch]:
            for batch in _combined(batches):
                commit.check_cancelled()
                if not batch.num_rows:
                    continue
                self._check_inside(wanted, batch, arrived)
                # Copied rows have all columns of the files already.
                is_prepared = batch.schema.names == wanted.arrow.names
                own = batch if is_prepared and not wanted.is_plain else wanted.prepare(batch, now_ms=arrived)
                yield stored_as(own, stored)

        found = prepared()
        first = next(found, None)
        if first is None:
            return False
        try:
            transaction.add(transaction.stager.stage_named(chain([first], found), ""))
        except SchemaViolationError as error:
            raise Refused(
                Code.FAILED_PRECONDITION, f"Table {self.ref.name.short} cannot be written: {error}."
            ) from error
        return True

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


def written_by(engine: Engine, key: tuple[str, str], table: TableDefinition) -> lode.Snapshot | None:
    """The snapshot of a table that a job wrote, perhaps before a restart."""
    dataset = table.open(engine.store)
    if not dataset.exists:
        return None
    with dataset.transaction({}, idempotency_key=key) as transaction:
        return transaction.replayed


class _Changed(Exception):  # noqa: N818, an outcome rather than an error
    """Another request created, deleted or changed the table meanwhile."""


@contextmanager
def _changes() -> Iterator[None]:
    """Raise ``_Changed`` instead of a refusal because of another request."""
    try:
        yield
    except Refused as refused:
        if refused.code in (Code.FAILED_PRECONDITION, Code.NOT_FOUND):
            raise _Changed from refused
        raise


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
