"""The writer of one table: the only place of the server that commits to it, in groups of appends.

Appends that arrive during a commit share the next one: one file, one snapshot, many responses. Their file is
written while the commit before them is still on its way.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.errors import (
    CommitUnknownError,
    CommitUnpublishedError,
    ComponentMismatchError,
    HistoryLostError,
    LodeError,
    SchemaViolationError,
    SnapshotConflictError,
    StoreError,
    TransactionClosedError,
)
from lode.ingest.catalog.paths import no_table
from lode.ingest.catalog.table import complete, stored_as
from lode.ingest.core.append import Append, fail_all, succeed
from lode.ingest.core.changes import Changes, DeletedKeys
from lode.ingest.core.group import Group
from lode.ingest.core.progress import METADATA, StreamProgress
from lode.ingest.log.record import LogDamaged
from lode.ingest.status import Code, Refused, invalid
from lode.ingest.types.arrays import coalesce
from lode.lazy import pa
from lode.write.removal import Removal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    import lode
    from lode.change.base import Base
    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.metrics import Metrics
    from lode.store.protocol import Store

logger = logging.getLogger("lode.ingest")

# Arrow data of one group: it stays in memory until it is committed.
MAX_GROUP_BYTES: Final = 48 << 20
# A group with less Arrow data takes most of its time for what each group costs, however few its rows are.
_LIGHT_BYTES: Final = 4 << 20
# Attempts of one commit against commits of other servers.
_MAX_CONFLICTS: Final = 1000
# The pauses before a merge is prepared again.
_MIN_PAUSE_SECONDS: Final = 0.005
_MAX_PAUSE_SECONDS: Final = 1.0
# How often rows are staged again because another writer renamed a column after they were staged.
_MAX_STAGINGS: Final = 10


class OffsetRange(NamedTuple):
    """Rows of a stream, from offset ``start`` up to but not including ``end``."""

    start: int
    end: int


class AlreadyVisible(Exception):  # noqa: N818, an outcome rather than an error
    """Rows of these streams are visible already, by a commit that this server sent before a restart."""

    def __init__(self, streams: set[str]) -> None:
        super().__init__(f"streams whose rows are visible already: {', '.join(sorted(streams))}")
        self.streams = streams


class StagedRows(NamedTuple):
    """Rows whose files are written and that are not committed yet."""

    dataset: lode.Dataset
    transaction: lode.Transaction


class StagedGroup(NamedTuple):
    """Appends whose rows were staged while the group before them was committed, or the error of that."""

    appends: list[Append]
    rows: StagedRows | Exception | None

    def take(self) -> StagedRows | None:
        """The staged rows; None if they are to be staged now."""
        if isinstance(self.rows, Exception):
            raise self.rows
        return self.rows

    def discard(self) -> None:
        if isinstance(self.rows, StagedRows):
            self.rows.transaction.abort()


class ColumnRenamed(Exception):  # noqa: N818, an outcome rather than an error
    """Another writer renamed a column of the dataset after the rows were staged."""


class TableWriter:
    """Commits to the dataset of one table, one commit at a time.

    Args:
        definition: The table. If it is deleted and created again, the next generation has its own writer.
        catalog: Where its current definition is read.
        store: Where its snapshots are.
        pool: The threads for groups of appends.
        checkpoint: The file of its progress.
        metrics: Counts commits.
        on_visible: Called with a stream's id and its number of visible rows when the history of the dataset
            shows more of them than expected.
        confirm: Raises if the lake is not there, before a table gets its first snapshot.
    """

    def __init__(
        self,
        definition: TableDefinition,
        catalog: Catalog,
        store: Store,
        pool: Executor,
        checkpoint: Path,
        metrics: Metrics,
        on_visible: Callable[[str, int], None],
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = definition.name
        self.generation = definition.generation
        self.dataset_id = definition.dataset_id
        self.created = datetime.fromtimestamp(definition.created_ms / 1000, UTC)
        self.progress = StreamProgress(checkpoint)
        self.appends: Group[Append] = Group(
            pool,
            self._commit_group,
            weigh=lambda append: append.weight,
            max_weight=MAX_GROUP_BYTES,
            prepare=self._stage_group,
            light=_LIGHT_BYTES,
        )
        # The commits of this server with rows.
        self.commits = 0
        # Held while staged rows are committed: two requests never commit the same stream at once.
        self.staged_lock = threading.Lock()
        self._catalog = catalog
        self._store = store
        self._metrics = metrics
        self._on_visible = on_visible
        self._confirm = confirm
        self._lock = threading.Lock()
        self._opened: tuple[TableDefinition, lode.Dataset] | None = None
        self._is_ready = False

    def open(self) -> tuple[TableDefinition, lode.Dataset]:
        """The current definition of the table, and its dataset."""
        definition = self._catalog.table(self.name)
        if definition.generation != self.generation:
            raise no_table(self.name)  # rows of a deleted table must not reach the next one of its name
        opened = self._opened
        if opened is None or opened[0] is not definition:
            dataset = definition.open(self._store) if opened is None else opened[1]
            self._opened = opened = (definition, dataset)
        return opened

    def make_ready(self) -> None:
        """Ensure that rows can be committed later, before any are acknowledged.

        The dataset must exist: until it does, another program could create it with another layout or codec.
        Afterwards only its columns can change, and a commit of acknowledged rows does not depend on them.

        Raises:
            Refused: The dataset exists, and the table's rows do not fit it.
        """
        if self._is_ready:
            return
        try:
            definition, dataset = self.open()
            if dataset.exists:
                definition.evolution(acknowledged=False)(dataset.definition)
            else:
                self.commit(lambda *_: None, {})
        except StoreError as error:
            raise self._unavailable(error) from error
        except ComponentMismatchError as error:
            raise self._mismatched(error) from error
        self._is_ready = True

    def recover_progress(self, streams: Mapping[str, datetime]) -> None:
        """Read the progress of these streams, given when each was created, from the dataset's history."""
        try:
            self.progress.recover(self.open()[1], streams)
        except ComponentMismatchError as error:
            raise self._mismatched(error) from error

    def commit(
        self,
        stage: Callable[[TableDefinition, lode.Transaction], None],
        ranges: Mapping[str, OffsetRange],
        *,
        acknowledged: bool = False,
        ahead: StagedGroup | None = None,
    ) -> lode.Snapshot:
        """Commit the rows of ``stage`` in one snapshot, which also records the progress of these streams.

        Args:
            stage: Stages the rows. Called again if another writer renames a column meanwhile.
            ranges: The rows of each stream.
            acknowledged: The rows were acknowledged before. Columns of the dataset that they do not fit are
                renamed. Otherwise such rows are refused.
            ahead: The same rows, staged already.

        Raises:
            AlreadyVisible: Some of the rows are visible already; nothing was committed.
            Refused: The store failed; nothing was committed, or the outcome is unknown.
        """
        began = time.monotonic()
        with self._refusals("try again with the same offset"):
            snapshot = self._stage_and_publish(stage, ranges, acknowledged, ahead)
        self.commits += 1
        self._metrics.committed(snapshot, time.monotonic() - began)
        return snapshot

    def publish(
        self,
        dataset: lode.Dataset,
        transaction: lode.Transaction,
        check: Callable[[str | None], None] | None = None,
    ) -> lode.Snapshot:
        """Commit a transaction with the rows of a job.

        Args:
            dataset: The dataset of this table, as the transaction opened it.
            transaction: Its rows are staged.
            check: Refuses the commit by the id of the snapshot that it follows.

        Raises:
            ColumnRenamed: Another writer renamed a column after the rows were staged.
            Refused: The store failed; nothing was committed, or the outcome is unknown.
        """
        began = time.monotonic()
        with self._refusals("start the job again with the same id"):
            snapshot = self._publish(dataset, transaction, {}, check)
        self.commits += 1
        self._metrics.committed(snapshot, time.monotonic() - began)
        return snapshot

    @contextmanager
    def _refusals(self, remedy: str) -> Iterator[None]:
        """Turn the errors of a commit into refusals."""
        try:
            yield
        except ComponentMismatchError as error:
            raise self._mismatched(error) from error
        except (CommitUnknownError, StoreError, TransactionClosedError) as error:
            raise self._unavailable(error, remedy) from error
        except SnapshotConflictError as error:
            raise Refused(Code.ABORTED, f"{error}. Try again.") from error
        except LogDamaged as error:
            logger.error("a commit to %s failed: %s", self.name.short, error)
            raise Refused(Code.DATA_LOSS, f"The commit to {self.name.short} failed: {error}.") from error
        except LodeError as error:
            logger.exception("a commit to %s failed", self.name.short)
            raise Refused(Code.INTERNAL, f"The commit to {self.name.short} failed: {error}") from error

    def merge(self, changes: Changes) -> None:
        """Apply changes in one snapshot.

        It is prepared again after every commit of another writer, because any may have changed the same rows.

        Raises:
            Refused: The store failed or the table has no primary key any more; nothing was committed, or the
                outcome is unknown.
        """

        def stage(
            definition: TableDefinition, base: Base, transaction: lode.Transaction, removal: Removal
        ) -> bool:
            if not definition.primary_key:
                raise invalid(f"Table {self.name.short} has no primary key any more, so it takes no changes.")
            return changes.stage(definition, base, transaction, removal)

        self.change(stage, lambda: Removal("merge"), {METADATA: {"streams": {}}}, rebase=False)

    def change(
        self,
        stage: Callable[[TableDefinition, Base, lode.Transaction, Removal], bool],
        removal: Callable[[], Removal],
        metadata: dict[str, Any],
        *,
        key: tuple[str, str] | None = None,
        rebase: bool = True,
    ) -> lode.Snapshot | None:
        """Replace rows in one snapshot; returns None if there is nothing to commit.

        Args:
            stage: Stages what a change does to the snapshot that it is given, and records what that removes.
                Returns whether there is anything to commit. Called again after a conflict.
            removal: Makes an empty record of what is removed.
            metadata: Of the snapshot.
            key: The idempotency key of the snapshot.
            rebase: Whether it may follow commits with which it does not conflict.

        Raises:
            Refused: The store failed; nothing was committed, or the outcome is unknown.
        """
        began = time.monotonic()
        attempts = 0

        def attempt(made: Removal) -> lode.Snapshot | None:
            nonlocal attempts
            if attempts:
                self._metrics.conflicts.inc()
                time.sleep(random.random() * min(_MAX_PAUSE_SECONDS, _MIN_PAUSE_SECONDS * 2**attempts))
            attempts += 1
            return self._change(stage, made, metadata, key, rebase)

        with self._refusals("try again"):
            dataset = self._evolve()
            snapshot = dataset._changes.repeat(attempt, removal, redo=True)
        if snapshot is not None:
            self.commits += 1
            self._metrics.committed(snapshot, time.monotonic() - began)
        return snapshot

    def _change(
        self,
        stage: Callable[[TableDefinition, Base, lode.Transaction, Removal], bool],
        removal: Removal,
        metadata: dict[str, Any],
        key: tuple[str, str] | None,
        rebase: bool,
    ) -> lode.Snapshot | None:
        dataset = self._evolve()
        definition = self.open()[0]
        context = dataset._changes
        base = context.base()
        removal.prepared_on = base.manifest.snapshot_id
        begun = context.begin(metadata, key, base)
        with context.transaction(begun, removal) as transaction:
            if transaction.replayed is not None:
                return transaction.replayed
            if not stage(definition, base, transaction, removal):
                return None
            with self._lock:
                try:
                    snapshot = transaction.commit(rebase=rebase)
                except CommitUnpublishedError:
                    dataset.settle()
                    snapshot = dataset.snapshot(transaction.snapshot_id)
                self.progress.record(snapshot)
        return snapshot

    def _evolve(self) -> lode.Dataset:
        """The dataset with the table's columns: rows that are rewritten must have them already."""
        definition, dataset = self.open()
        evolution = definition.evolution(acknowledged=False)
        if not dataset.exists or evolution(dataset.definition).digest != dataset.definition.digest:
            self._stage_and_publish(lambda *_: None, {}, False)
        return dataset

    def _stage_and_publish(
        self,
        stage: Callable[[TableDefinition, lode.Transaction], None],
        ranges: Mapping[str, OffsetRange],
        acknowledged: bool,
        ahead: StagedGroup | None = None,
    ) -> lode.Snapshot:
        mismatched = False
        for _ in range(_MAX_STAGINGS):
            try:
                staged = ahead.take() if ahead is not None else None
                ahead = None
                dataset, transaction = staged or self._stage(stage, ranges, acknowledged)
                with transaction:
                    return self._publish(dataset, transaction, ranges)
            except ComponentMismatchError:
                if mismatched:
                    raise
                mismatched = True
            except ColumnRenamed:
                pass
            self._opened = None  # the next transaction begins with the current columns
        raise Refused(
            Code.ABORTED, f"Other writers rename the columns of {self.name.short} all the time. Try again."
        )

    def _stage(
        self,
        stage: Callable[[TableDefinition, lode.Transaction], None],
        ranges: Mapping[str, OffsetRange],
        acknowledged: bool,
    ) -> StagedRows:
        definition, dataset = self.open()
        evolution = definition.evolution(acknowledged=acknowledged)
        metadata = {METADATA: {"streams": {stream: rows.end for stream, rows in ranges.items()}}}
        transaction = dataset.transaction(metadata, on_conflict="append", evolve=evolution)
        try:
            stage(definition, transaction)
        except BaseException:
            transaction.abort()
            raise
        return StagedRows(dataset, transaction)

    def _publish(
        self,
        dataset: lode.Dataset,
        transaction: lode.Transaction,
        ranges: Mapping[str, OffsetRange],
        check: Callable[[str | None], None] | None = None,
    ) -> lode.Snapshot:
        with self._lock:
            for remaining in reversed(range(_MAX_CONFLICTS)):
                # Rows that the history shows already must not be shown again, so all of it is read first:
                # a commit whose response was lost, or of a server that died, may have landed meanwhile.
                # Rows of the default stream have no offsets. Among several servers, a commit of such rows
                # would come too late for its group if it read the commits of the others first.
                needed = bool(ranges) or check is not None or self.progress.is_far_behind
                base = transaction.capture()
                if base is None:
                    self._check_first()
                if base != self.progress.head and needed:
                    self._report(self.progress.catch_up(dataset))
                self._check_not_visible(ranges)
                if check is not None:
                    check(transaction.base_id)
                try:
                    # For the same reason, a commit with ranges is not rebased onto snapshots not yet read.
                    snapshot = transaction.commit(rebase=not ranges and check is None)
                    break
                except CommitUnpublishedError:
                    dataset.settle()
                    snapshot = dataset.snapshot(transaction.snapshot_id)
                    break
                except SchemaViolationError as error:
                    raise ColumnRenamed from error
                except SnapshotConflictError:
                    if not remaining:
                        transaction.abort()
                        raise
                    self._metrics.conflicts.inc()
            if snapshot.commit is not None:
                self._metrics.conflicts.inc(snapshot.commit.rebases)
            self.progress.record(snapshot)
            return snapshot

    def _check_first(self) -> None:
        """Refuse to begin the history of a table that has one, or of any table while the lake is away."""
        if self.progress.head is not None:
            raise HistoryLostError(
                f"the dataset {self.dataset_id!r} has no snapshots, and had {self.progress.head}: bring the "
                "lake back, or restart the server to go on with what is there",
                snapshot_id=self.progress.head,
            )
        self._confirm()

    def _check_not_visible(self, ranges: Mapping[str, OffsetRange]) -> None:
        changed = {stream for stream, rows in ranges.items() if self.progress.rows(stream) != rows.start}
        if changed:
            self._report(changed)  # again: an earlier catch-up that failed halfway reported nothing
            raise AlreadyVisible(changed)

    def _report(self, streams: set[str]) -> None:
        for stream in streams:
            self._on_visible(stream, self.progress.rows(stream))

    def _unavailable(self, error: Exception, remedy: str = "try again with the same offset") -> Refused:
        return Refused(Code.UNAVAILABLE, f"The store of {self.name.short} failed ({error}): {remedy}.")

    def _mismatched(self, error: ComponentMismatchError) -> Refused:
        """The refusal of rows that do not fit the dataset, which another program created."""
        return Refused(Code.FAILED_PRECONDITION, f"Table {self.name.short} cannot be written: {error}.")

    def _stage_group(self, appends: list[Append]) -> StagedGroup:
        """Write the file of appends whose turn to be committed has not come yet."""
        live = [append for append in appends if append.begin()]
        if not live or any(append.is_changes for append in live):
            return StagedGroup(live, None)
        try:
            return StagedGroup(live, self._stage(partial(_stage_appends, live), _ranges(live), False))
        except Exception as error:  # the commit raises it
            return StagedGroup(live, error)

    def _commit_group(self, group: StagedGroup) -> None:
        # In the order of arrival: a change may concern a row that was appended just before it.
        for changes, run in groupby(group.appends, key=lambda append: append.is_changes):
            if changes:
                self._commit_changes(list(run))
            else:
                self._commit_rows(list(run), group if group.rows is not None else None)

    def _commit_changes(self, group: list[Append]) -> None:
        try:
            self.merge(Changes([append.batch for append in group], self.deleted_keys))
        except Refused as refusal:
            fail_all(group, refusal)
            return
        except Exception as error:  # every append needs an answer
            logger.exception("a merge into %s failed", self.name.short)
            fail_all(group, Refused(Code.INTERNAL, f"The merge into {self.name.short} failed: {error}"))
            return
        self._answer(group)

    def _answer(self, group: list[Append]) -> None:
        self._metrics.group_size.observe(len(group))
        self.appends.expect(len(group))
        succeed(group, visible=True)

    @cached_property
    def deleted_keys(self) -> DeletedKeys:
        return DeletedKeys(self.dataset_id, self._store)

    def _commit_rows(self, group: list[Append], ahead: StagedGroup | None) -> None:
        while live := [append for append in group if append.begin()]:
            if ahead is not None and len(live) < len(group):
                # An append before them failed while they were staged.
                ahead.discard()
                ahead = None
            group = live
            try:
                self.commit(partial(_stage_appends, group), _ranges(group), ahead=ahead)
            except AlreadyVisible as error:
                # The appends of those streams are stale now. The others are committed without them.
                if not any(append.stale for append in group):
                    logger.error("%s: %s, but none of its appends is stale", self.name.short, error)
                    fail_all(group, Refused(Code.INTERNAL, str(error)))
                    return
                ahead = None
                continue
            except Refused as refusal:
                fail_all(group, refusal)
                return
            except Exception as error:  # every append needs an answer
                logger.exception("a commit to %s failed", self.name.short)
                fail_all(group, Refused(Code.INTERNAL, f"The commit to {self.name.short} failed: {error}"))
                return
            self._answer(group)
            return
        if ahead is not None:
            ahead.discard()


def _ranges(group: Sequence[Append]) -> dict[str, OffsetRange]:
    ranges: dict[str, OffsetRange] = {}
    for append in group:
        if append.first is not None:
            key = append.stream_id
            start = ranges[key].start if key in ranges else append.first
            ranges[key] = OffsetRange(start, append.first + append.rows)
    return ranges


def _stage_appends(
    group: Sequence[Append], definition: TableDefinition, transaction: lode.Transaction
) -> None:
    batches = coalesce(fit_batch(definition, transaction, append.batch) for append in group)
    transaction.add(transaction.stager.stage_named(pa.Table.from_batches(batches), ""))


def fit_batch(
    definition: TableDefinition, transaction: lode.Transaction, batch: pa.RecordBatch
) -> pa.RecordBatch:
    """Rows in the schema of the table's files, also if the table got new columns since they were decoded."""
    if not batch.schema.equals(definition.schema.arrow):
        batch = complete(batch, definition.schema)
    stored = getattr(transaction.stager.components.codec, "schema", None)
    return stored_as(definition.prepare(batch), stored)
