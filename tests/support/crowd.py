"""Processes of a crowd on one dataset: writers, a compactor, a deleter, a sweep and a reader.

Each keeps a log of what it began and what was acknowledged. After a kill it is started again with the same
log, and goes on there: with a key it repeats what was not acknowledged, without one it leaves that open.
"""

from __future__ import annotations

import random
import time
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lode
from lode.errors import (
    CommitError,
    CommitUnknownError,
    CommitUnpublishedError,
    LodeError,
    OverlappingBlocksError,
    StoreError,
    TransactionClosedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.snapshot import Snapshot

# Forked from a process that has imported all modules: they start in milliseconds.
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["lode", "pyarrow", "support.crowd"])

SCHEMA = {"part": "string!", "name": "string!", "number": "int64!"}
# The partitions that many append to, and that rivals are refused in.
SHARED, CONTESTED = "shared", "contested"
MAX_FAILURES = 100
# Of a volume: the bytes of a block, and the blocks of each writer.
BLOCK_BYTES, STRIPE_BLOCKS, STRIPES = 100, 1_000, 8


def opened(url: str, options: dict[str, Any]) -> lode.Dataset:
    store = lode.open_store(url, **options)
    return lode.Dataset("d", store, codec=lode.JSONL(SCHEMA), layout=lode.HiveLayout("part"))


def opened_volume(url: str, options: dict[str, Any]) -> lode.Volume:
    return lode.Volume("v", lode.open_store(url, **options), BLOCK_BYTES * STRIPE_BLOCKS * STRIPES)


def block_of(name: str, number: int) -> tuple[int, bytes]:
    """Where the block of a writer belongs, and its bytes."""
    offset = (int(name[1:]) * STRIPE_BLOCKS + number) * BLOCK_BYTES
    return offset, f"{name} {number}".encode().ljust(BLOCK_BYTES)


class Log:
    """The log of one process: lines of a word and a number, and perhaps more."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def repair(self) -> None:
        """Remove a line that a kill cut short: it was never acknowledged. Only its writer calls this."""
        if self.path.exists():
            text = self.path.read_text()
            self.path.write_text(text[: text.rfind("\n") + 1])

    def say(self, *words: object) -> None:
        with self.path.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def lines(self, word: str) -> list[list[str]]:
        if not self.path.exists():
            return []
        whole = self.path.read_text().rpartition("\n")[0].splitlines()
        return [line.split() for line in whole if line.startswith(f"{word} ")]

    def numbers(self, word: str) -> list[int]:
        return [int(line[1]) for line in self.lines(word)]

    def next_number(self, word: str) -> int:
        return max(self.numbers(word), default=-1) + 1


class Member:
    """One process of the crowd."""

    def __init__(self, url: str, options: dict[str, Any], name: str, folder: Path) -> None:
        self.url = url
        self.options = options
        self.name = name
        self.log = Log(folder / f"{name}.log")
        self.log.repair()
        self.stop = folder / "stop"
        self.dataset = opened(url, options)

    def row(self, part: str, number: int) -> dict[str, Any]:
        return {"part": part, "name": self.name, "number": number}

    def acknowledge(self, number: int, snapshot: Snapshot) -> None:
        """Log a commit, after a look whether a reader would see it."""
        assert snapshot.commit is not None
        seen = insist(self.log, number, lambda: opened(self.url, self.options).latest().sequence)
        assert seen >= snapshot.sequence, f"{snapshot.id} was acknowledged and is not visible"
        self.log.say("ack", number, snapshot.id, snapshot.commit.group, int(snapshot.commit.replayed))

    def append(self) -> None:
        """Append to the shared partition, each row under its own key."""
        self._write_keyed(SHARED, on_conflict="append")

    def own(self) -> None:
        """Write to a partition of its own, each row under its own key."""
        self._write_keyed(self.name, on_conflict="raise")

    def _write_keyed(self, part: str, **options: Any) -> None:
        for number in self._numbers("ack"):
            self._write(part, number, **options)

    def _write(self, part: str, number: int, **options: Any) -> None:
        key, rows = (self.name, str(number)), [self.row(part, number)]
        write = self.dataset.write
        self.acknowledge(
            number, insist(self.log, number, lambda: write(rows, idempotency_key=key, **options))
        )

    def rival(self) -> None:
        """Write to the contested partition without a key: whatever the answer is, a row is written once."""
        for number in self._numbers("begin"):
            self.log.say("begin", number)
            try:
                snapshot = self.dataset.write([self.row(CONTESTED, number)])
            except CommitUnpublishedError as error:
                self.log.say("ack", number, error.snapshot_id, 1, 0)
            except CommitUnknownError:
                self.log.say("unknown", number)
            except LodeError as error:
                self.log.say("refused", number, type(error).__name__)
            else:
                self.acknowledge(number, snapshot)

    def stripe(self) -> None:
        """Write to its own part of a volume, block by block."""
        volume = opened_volume(self.url, self.options)
        for number in self._numbers("ack"):
            offset, data = block_of(self.name, number)

            def commit(offset: int = offset, data: bytes = data) -> tuple[str, int]:
                try:
                    snapshot = volume.commit([volume.stage_write_at(offset, data)])
                except OverlappingBlocksError:
                    return "earlier", 1  # before a kill, or by a commit without an answer
                assert snapshot.commit is not None
                return snapshot.id, snapshot.commit.group

            self.log.say("ack", number, *insist(self.log, number, commit), 0)

    def delete(self) -> None:
        """Write rows under keys, and delete each of them."""
        for number in self._numbers("deleted"):
            if number not in self.log.numbers("ack"):
                self._write(self.name, number)
            where = f"part = '{self.name}' and number = {number}"
            delete = partial(self.dataset.delete, where, on_conflict="redo")
            insist(self.log, number, delete)
            self.log.say("deleted", number)

    def compact(self) -> None:
        for number in self._numbers("compacted"):
            insist(self.log, number, self.dataset.compact)
            self.log.say("compacted", number)
            self._rest(0.5)

    def sweep(self) -> None:
        for number in self._numbers("swept"):
            found = insist(self.log, number, lambda: lode.sweep(self.dataset, timedelta(0), dry_run=False))
            self.log.say("swept", number, len(found.leftovers))
            self._rest(0.3)

    def read(self) -> None:
        """Check that history is one line and never goes back, and that shared rows are never fewer."""
        last: Snapshot | None = None
        rows = 0
        for number in self._numbers("read"):
            head = insist(self.log, number, self._head)
            if head is None:
                continue
            if last is not None:
                insist(self.log, number, partial(self._check_line, last, head))
            last = head
            if number % 5 == 0:
                found = insist(self.log, number, partial(self._count_shared, head))
                assert found >= rows, f"snapshot {head.id} has {found} rows, and there were {rows}"
                rows = found
            self.log.say("read", number, head.sequence)
            self._rest(0.1)

    def _head(self) -> Snapshot | None:
        try:
            return opened(self.url, self.options).latest()
        except lode.NoSnapshotsError:
            return None

    def _count_shared(self, head: Snapshot) -> int:
        count: int = self.dataset.scan(as_of=head.id, where=f"part = '{SHARED}'").read_all().num_rows
        return count

    def _check_line(self, last: Snapshot, head: Snapshot) -> None:
        goal, number = last.sequence or 0, head.sequence or 0
        assert number >= goal, f"history went back from {last.id} to {head.id}"
        while number > goal:
            assert head.parent_id is not None
            head, number = self.dataset.snapshot(head.parent_id), number - 1
            assert head.sequence == number, f"{head.id} is not number {number}"
        assert head.id == last.id, f"{head.id} and {last.id} are both number {last.sequence}"

    def _numbers(self, word: str) -> Any:
        number = self.log.next_number(word)
        while not self.stop.exists():
            yield number
            number += 1

    def _rest(self, seconds: float) -> None:
        time.sleep(seconds * (0.5 + random.random()))


def insist(log: Log, number: int, call: Callable[[], Any]) -> Any:
    """Call again after a failure of the store, a conflict or a sweep; what else is raised is a fault."""
    for failures in range(MAX_FAILURES):
        try:
            return call()
        except OverlappingBlocksError:
            raise
        except (StoreError, CommitError, TransactionClosedError) as error:
            log.say("again", number, type(error).__name__, str(error).replace("\n", " "))
            time.sleep(min(0.02 * failures, 0.5))
    raise AssertionError(f"{log.path.name}: number {number} failed {MAX_FAILURES} times")


def main(role: str, url: str, options: dict[str, Any], name: str, folder: str) -> None:
    member = Member(url, options, name, Path(folder))
    try:
        getattr(member, role)()
    except BaseException as error:
        member.log.say("fault", -1, type(error).__name__, str(error).replace("\n", " "))
        raise
