"""Stage files from many places, commit them as one snapshot."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import msgspec

from lode.errors import InvalidOptionError, LodeError, SnapshotConflictError, TransactionClosedError
from lode.read.resolve import Head
from lode.snapshot import CommitReport, Snapshot
from lode.store.protocol import is_nearby
from lode.write.removal import nowhere
from lode.write.uploads import HeldUploads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType
    from typing import Self

    from lode.definition import Definition
    from lode.evolution import Evolution
    from lode.format.manifest import Manifest
    from lode.write.commit import Committer
    from lode.write.dataset_draft import DatasetDraft
    from lode.write.stage import Staged, Stager


class Transaction:
    """One snapshot that is being written; leaving its ``with`` block without ``commit()`` aborts it.

    Threads call ``stage`` on the transaction itself. Processes and Spark tasks get a pickled
    ``transaction.stager``, stage with it, send back what it returns, and ``transaction.add`` takes that in.
    """

    def __init__(self, committer: Committer[Manifest], draft: DatasetDraft, found: Manifest | None) -> None:
        self._committer = committer
        self._draft = draft
        self._found = found
        self._staged: dict[object, Staged] = {}
        self._surplus: list[Staged] = []
        self._lock = threading.Lock()
        self._state = "open"
        # Whether it is staged and committed by one call of the user, which has begun with the first of both.
        self._is_one_call = False

    @property
    def snapshot_id(self) -> str:
        """The id the snapshot will have."""
        return self._draft.snapshot_id

    @property
    def base_id(self) -> str | None:
        """The snapshot it expects to follow; None at the beginning of history, and before it is captured.

        It is captured by ``capture()``, given by ``base=``, or else taken when ``commit()`` begins.
        """
        return self._draft.base.id if self._draft.base else None

    @property
    def stager(self) -> Stager:
        """Stages files for this transaction from anywhere; pickles."""
        return self._draft.stager

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the snapshot, to which JSON values can be added before the commit."""
        return self._draft.metadata

    @property
    def definition(self) -> Definition:
        """What the dataset was when this began."""
        return self._draft.definition

    def take_over(self, stager: Stager, definition: Definition, evolution: Evolution | None = None) -> None:
        """Commit what a stager of another process staged for a dataset with this definition.

        The commit checks the stager's columns against what the dataset has become since.

        Args:
            stager: Has this transaction's snapshot id.
            definition: What the dataset was then.
            evolution: How the commit changes what the dataset is; as it was begun if not given.
        """
        assert stager.snapshot_id == self.snapshot_id
        self._draft.stager, self._draft.definition = stager, definition
        if evolution is not None:
            self._draft.evolution = evolution

    @property
    def replayed(self) -> Snapshot | None:
        """The snapshot already committed under this idempotency key: there is nothing left to do then."""
        return Snapshot(self._found, CommitReport(replayed=True)) if self._found else None

    @property
    def kept(self) -> bool:
        """Whether the staged files must stay: committed, perhaps committed, or kept for a second try."""
        return self._state in ("committed", "undecided", "conflicted", "refused")

    def stage(self, data: Any, *, task: str | None = None) -> Staged:
        """Write ``data`` to new files of this transaction. Safe from many threads at once."""
        self._require("open")
        staged = self.stager.stage(data, task=task)
        self.add(staged)
        return staged

    def _stage_whole(self, data: Any) -> None:
        """Stage all data of this transaction. Far from the store, small files wait for the commit."""
        self._require("open")
        self._is_one_call = True
        stager = self.stager
        if not is_nearby(stager.store):
            uploads = self._draft.uploads = self._draft.uploads or HeldUploads(stager.store)
            stager = msgspec.structs.replace(stager, store=uploads)
        self.add(stager.stage_named(data, ""))

    def write_records(self, records: Iterable[Any], *, task: str | None = None) -> Staged:
        """Stream records into this transaction, partitions included, in bounded memory."""
        self._require("open")
        staged = self.stager.write_records(records, task=task)
        self.add(staged)
        return staged

    def add(self, *staged: Staged) -> None:
        """Take in what stagers elsewhere returned. A task's second result is dropped."""
        with self._lock:
            self._require("open")
            for part in staged:
                key = (
                    part.task
                    if part.task is not None
                    else tuple(file.path for file in part.files) or object()
                )
                kept = self._staged.setdefault(key, part)
                if kept.files != part.files:
                    self._surplus.append(part)

    def capture(self) -> str | None:
        """Capture the base now instead of when ``commit()`` begins, and return its id; None for no snapshot.

        The base is the head this ``Dataset`` knows: its last commit, or its first look. Whatever overlaps and
        is committed after it is a conflict. A base that is captured already stays.
        """
        with self._lock:
            self._require("open", "conflicted")
            if self._draft.base is None:
                self._draft.base = self._committer.capture()
        return self.base_id

    def commit(self, *, rebase: bool = True) -> Snapshot:
        """Make everything staged one snapshot.

        After ``SnapshotConflictError`` it can be called again: nothing is uploaded twice.

        Args:
            rebase: Whether it may follow snapshots that came first and touch none of its partitions. If
                not, any of them is a conflict, for a caller whose data depends on all of history.
        """
        with self._lock:
            self._require("open", "conflicted")
            if self._found is None:
                self._require_one_blob()
            self._state = "committing"
            if not self._is_one_call:
                # What ``latest()`` reads while another call stages and commits does not hide its conflicts.
                self._draft.refreshed = self._committer.refreshed
            self._draft.rebase = rebase
            self._draft.staged = tuple(self._staged.values())
        if self._found is not None:
            return self._finish(Snapshot(self._found, CommitReport(replayed=True)))
        try:
            committed = self._committer.commit(self._draft)
        except SnapshotConflictError as error:
            self._state = "conflicted"
            error.transaction = self
            raise
        except TransactionClosedError:
            # Somebody else holds this id: files under it may be part of their commit.
            self._state = "refused"
            raise
        except LodeError:
            # Unless no swap took effect, its files may be part of history and must not be removed.
            self._state = "open" if self._draft.landed is False else "undecided"
            raise
        return self._finish(Snapshot(committed.manifest, committed.report))

    def follow_any(self) -> None:
        """Let the commit follow any other: what it replaces is what is there when it lands."""
        removal = self._draft.removal
        if removal is not None:
            removal.depends_on = nowhere

    def prepare_again(self, base: Manifest, dropped: Sequence[Staged]) -> None:
        """After a conflict, go on with another base, and without some of the staged files.

        Args:
            base: The snapshot that it was prepared on.
            dropped: What was staged for the earlier base. It is removed.
        """
        with self._lock:
            self._require("conflicted")
            self._state = "open"
            self._draft.base = Head(base.snapshot_id.encode(), base)
            gone = set(map(id, dropped))
            self._staged = {key: part for key, part in self._staged.items() if id(part) not in gone}
        self._discard(dropped)

    def abort(self) -> None:
        """Give up and remove the staged files, best effort. Does nothing once committed or undecided."""
        if self._state in ("open", "conflicted"):
            self._state = "aborted"
            self._discard([*self._staged.values(), *self._surplus])

    def _finish(self, snapshot: Snapshot) -> Snapshot:
        self._state = "committed"
        if snapshot.commit is not None and snapshot.commit.replayed:
            self._discard([*self._staged.values(), *self._surplus])
        elif self._surplus:
            self._discard(self._surplus)
        return snapshot

    def _discard(self, parts: Iterable[Staged]) -> None:
        self.stager.discard(file for part in parts for file in part.files)

    def _require_one_blob(self) -> None:
        stager = self.stager
        if stager.components.codec is not None:
            return
        blobs = sum(len(part.files) for part in self._staged.values())
        if blobs != 1:
            raise InvalidOptionError(
                f"a snapshot of dataset {stager.dataset_id!r}, which has no codec, is exactly one blob, and "
                f"{blobs} are staged: stage one in each transaction"
            )

    def _require(self, *states: str) -> None:
        if self._state not in states:
            raise TransactionClosedError(
                f"transaction {self.snapshot_id} is {self._state}: "
                "begin another one with dataset.transaction()"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After a conflict the caller holds the transaction in the error and decides.
        if not isinstance(error, SnapshotConflictError):
            self.abort()
