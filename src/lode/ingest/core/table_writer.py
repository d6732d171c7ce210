"""The writer of one table: the only place of the server that commits to it, in groups.

Appends that arrive while a commit is under way share the next one: one file, one snapshot, many answers.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.errors import (
    CommitUnknownError,
    CommitUnpublishedError,
    ComponentMismatchError,
    LodeError,
    SchemaViolationError,
    SnapshotConflictError,
    StoreError,
    TransactionClosedError,
)
from lode.ingest.catalog.paths import no_table
from lode.ingest.catalog.table import complete, stored_as
from lode.ingest.core.append import succeed
from lode.ingest.core.group import Group
from lode.ingest.core.progress import METADATA, Progress
from lode.ingest.log.record import LogDamaged
from lode.ingest.status import Code, Refused
from lode.ingest.types.coalesce import joined
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    import lode
    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.append import Append
    from lode.ingest.core.metrics import Metrics
    from lode.ingest.names import TableName
    from lode.store.protocol import Store

logger = logging.getLogger("lode.ingest")

# A group is at most this much Arrow data: it is in memory until it is committed.
BYTES_PER_GROUP: Final = 48 << 20
# How often a commit steps behind other servers' before it gives up.
_MOST_CONFLICTS: Final = 1000
# How often rows are staged again because a column was renamed since they were.
_MOST_STAGINGS: Final = 10


class Span(NamedTuple):
    """The rows of a stream that a commit makes visible: from the first, up to but not including the end."""

    start: int
    end: int


class Moved(Exception):  # noqa: N818, an outcome rather than an error
    """Rows of these streams are visible already, by a commit of an earlier life of this server."""

    def __init__(self, streams: set[str]) -> None:
        super().__init__(f"streams moved: {', '.join(sorted(streams))}")
        self.streams = streams


class _Renamed(Exception):  # noqa: N818, an outcome rather than an error
    """A column of the dataset was renamed since the rows were staged."""


class TableWriter:
    """Commits to one table's dataset, one commit at a time.

    Args:
        name: The table.
        generation: Which of the tables of this name, should it have been deleted and created again.
        catalog: Where its definition is found.
        store: Where its snapshots are.
        pool: The threads for groups of appends.
        checkpoint: The file of its progress.
        metrics: Where commits are counted.
        moved: Told of a stream whose rows became visible, with their number, by whomever.
    """

    def __init__(
        self,
        name: TableName,
        generation: int,
        catalog: Catalog,
        store: Store,
        pool: Executor,
        checkpoint: Path,
        metrics: Metrics,
        moved: Callable[[str, int], None],
    ) -> None:
        self.name = name
        self.generation = generation
        self.progress = Progress(checkpoint)
        self.appends: Group[Append] = Group(
            pool, self._commit_group, weigh=lambda append: append.weight, most=BYTES_PER_GROUP
        )
        # Held by whoever commits staged streams: two batch commits never look at the same stream at once.
        self.staged_lock = threading.Lock()
        self._catalog = catalog
        self._store = store
        self._metrics = metrics
        self._moved = moved
        self._lock = threading.Lock()
        self._opened: tuple[TableDefinition, lode.Dataset] | None = None
        self._is_ready = False

    def open(self) -> tuple[TableDefinition, lode.Dataset]:
        """The table as it is defined now."""
        definition = self._catalog.table(self.name)
        if definition.generation != self.generation:
            raise no_table(self.name)  # what was meant for the table of before is not for this one
        opened = self._opened
        if opened is None or opened[0] is not definition:
            dataset = definition.open(self._store) if opened is None else opened[1]
            self._opened = opened = (definition, dataset)
        return opened

    def make_ready(self) -> None:
        """See to it, before rows are acknowledged that are committed later, that they can be.

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
            raise self.mismatched(error) from error
        self._is_ready = True

    def commit(
        self,
        stage: Callable[[TableDefinition, lode.Transaction], None],
        spans: Mapping[str, Span],
        *,
        acknowledged: bool = False,
    ) -> lode.Snapshot:
        """Make what ``stage`` stages one snapshot that also says how far these streams have come.

        Args:
            stage: Stages the rows; called again if another writer renamed a column meanwhile.
            spans: The rows, for each stream.
            acknowledged: The rows were acknowledged before: columns of the dataset that they do not fit give
                way to them. Otherwise the rows are refused.

        Raises:
            Moved: some of the spans are visible already, so nothing was committed.
            Refused: the store failed; nothing was committed, or that is not known.
        """
        began = time.monotonic()
        try:
            snapshot = self._staged_and_published(stage, spans, acknowledged)
        except ComponentMismatchError as error:
            raise self.mismatched(error) from error
        except (CommitUnknownError, StoreError, TransactionClosedError) as error:
            raise self._unavailable(error) from error
        except SnapshotConflictError as error:
            raise Refused(Code.ABORTED, f"{error}. Try again.") from error
        except LogDamaged as error:
            logger.error("a commit to %s failed: %s", self.name.short, error)
            raise Refused(Code.DATA_LOSS, f"The commit to {self.name.short} failed: {error}.") from error
        except LodeError as error:
            logger.exception("a commit to %s failed", self.name.short)
            raise Refused(Code.INTERNAL, f"The commit to {self.name.short} failed: {error}") from error
        self._metrics.committed(snapshot, time.monotonic() - began)
        return snapshot

    def _staged_and_published(
        self,
        stage: Callable[[TableDefinition, lode.Transaction], None],
        spans: Mapping[str, Span],
        acknowledged: bool,
    ) -> lode.Snapshot:
        mismatched = False
        for _ in range(_MOST_STAGINGS):
            definition, dataset = self.open()
            evolution = definition.evolution(acknowledged=acknowledged)
            try:
                with dataset.transaction(
                    _metadata(spans), on_conflict="append", evolve=evolution
                ) as transaction:
                    stage(definition, transaction)
                    return self._publish(dataset, transaction, spans)
            except ComponentMismatchError:
                if mismatched:
                    raise
                mismatched = True
            except _Renamed:
                pass
            self._opened = None  # the next transaction begins with the columns as they are now
        raise Refused(
            Code.ABORTED, f"Other writers rename the columns of {self.name.short} all the time. Try again."
        )

    def _publish(
        self, dataset: lode.Dataset, transaction: lode.Transaction, spans: Mapping[str, Span]
    ) -> lode.Snapshot:
        with self._lock:
            for remaining in reversed(range(_MOST_CONFLICTS)):
                # Rows that history shows already must not be shown again, so all of it is looked at first:
                # a commit whose answer was lost, or of a server that died, may have landed meanwhile.
                if transaction.capture() != self.progress.head:
                    self._tell(self.progress.catch_up(dataset))
                self._check(spans)
                try:
                    # Nor may a commit with spans follow what it has not looked at, whatever that touched.
                    snapshot = transaction.commit(rebase=not spans)
                    break
                except CommitUnpublishedError:
                    dataset.settle()
                    snapshot = dataset.snapshot(transaction.snapshot_id)
                    break
                except SchemaViolationError as error:
                    raise _Renamed from error
                except SnapshotConflictError:
                    if not remaining:
                        transaction.abort()
                        raise
                    self._metrics.conflicts.inc()
            if snapshot.commit is not None:
                self._metrics.conflicts.inc(snapshot.commit.rebases)
            self.progress.record(snapshot)
            return snapshot

    def _check(self, spans: Mapping[str, Span]) -> None:
        moved = {stream for stream, span in spans.items() if self.progress.rows(stream) != span.start}
        if moved:
            self._tell(moved)  # again: a look at history that failed halfway has told nobody
            raise Moved(moved)

    def _tell(self, moved: set[str]) -> None:
        for stream in moved:
            self._moved(stream, self.progress.rows(stream))

    def _unavailable(self, error: Exception) -> Refused:
        return Refused(
            Code.UNAVAILABLE,
            f"The store of {self.name.short} failed ({error}): try again with the same offset.",
        )

    def mismatched(self, error: ComponentMismatchError) -> Refused:
        """Another program made the dataset in a way that the table's rows do not fit."""
        return Refused(Code.FAILED_PRECONDITION, f"Table {self.name.short} cannot be written: {error}.")

    def _commit_group(self, group: list[Append]) -> None:
        while group := [append for append in group if append.begin()]:
            spans = _spans(group)
            try:
                self.commit(lambda definition, transaction: _stage(definition, transaction, group), spans)
            except Moved as error:
                # Those streams' appends have become stale by now; the others go on without them.
                if not any(append.stale for append in group):
                    logger.error("%s: %s, but none of its appends is stale", self.name.short, error)
                    self._fail(group, Refused(Code.INTERNAL, str(error)))
                    return
                continue
            except Refused as refusal:
                self._fail(group, refusal)
                return
            except Exception as error:  # an answer is owed whatever went wrong
                logger.exception("a commit to %s failed", self.name.short)
                self._fail(group, Refused(Code.INTERNAL, f"The commit to {self.name.short} failed: {error}"))
                return
            self._metrics.group_size.observe(len(group))
            succeed(group, visible=True)
            return

    def _fail(self, group: Sequence[Append], refusal: Refused) -> None:
        for append in group:
            append.fail(refusal)


def _spans(group: Sequence[Append]) -> dict[str, Span]:
    spans: dict[str, Span] = {}
    for append in group:
        if append.first is not None:
            key = append.stream.id
            start = spans[key].start if key in spans else append.first
            spans[key] = Span(start, append.first + append.rows)
    return spans


def _metadata(spans: Mapping[str, Span]) -> dict[str, Any]:
    return {METADATA: {"streams": {stream: span.end for stream, span in spans.items()}}}


def _stage(definition: TableDefinition, transaction: lode.Transaction, group: Sequence[Append]) -> None:
    batches = joined(fitted(definition, transaction, append.batch) for append in group)
    transaction.add(transaction.stager.stage_named(pa.Table.from_batches(batches), ""))


def fitted(
    definition: TableDefinition, transaction: lode.Transaction, batch: pa.RecordBatch
) -> pa.RecordBatch:
    """Rows as rows of the table's files, also if it got new columns since they were decoded."""
    if not batch.schema.equals(definition.schema.arrow):
        batch = complete(batch, definition.schema)
    stored = getattr(transaction.stager.components.codec, "schema", None)
    return stored_as(definition.prepare(batch), stored)
