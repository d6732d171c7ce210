"""Changes as actors for the explorer, and what must hold after each of their steps.

The actors are the library itself on one thread. ``Serial`` compares the rows at every snapshot with those of
the snapshot before it, changed by what the actor that committed it does: so all of history is a serial order.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import zstandard

import lode
from lode.errors import CommitError
from lode.store.protocol import ObjectInfo
from lode.testing import scenario
from lode.testing.actor import run_alone
from lode.testing.protocol import DATASET, SPLIT, WHOLE, Holds, published, still
from lode.testing.sim import SINCE, SimSwapStore
from lode.write.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lode.format.manifest import Manifest
    from lode.format.paths import Layout
    from lode.testing.actor import Actor
    from lode.testing.scenario import View
    from lode.testing.sim import Contents, SwapStore

    Row = tuple[str, int, str]
    Rows = tuple[Row, ...]
    # The rows before it to the rows after it.
    Effect = Callable[[Rows], Rows]
    # Snapshots, oldest first, with their rows; None if they have expired.
    Chain = tuple[tuple[str, Rows | None], ...]

SCHEMA = {"p": "string", "n": "int64", "v": "string"}
# What the recovery actor appends.
RECOVERY = 99
LAST: Rows = (("z", 0, "appended"),)
FIRST: tuple[Rows, ...] = (
    (("a", 1, "old"), ("a", 2, "old")),
    (("a", 3, "old"),),
    (("b", 9, "old"),),
)


def opened(store: Any, number: int, layout: Layout) -> lode.Dataset:
    """A dataset whose snapshot ids and file names contain ``number``."""
    bits = count()
    runtime = still(number)
    object.__setattr__(runtime, "random_bits", lambda _: (number << 32) | next(bits))
    return lode.Dataset(
        DATASET, store, codec=lode.JSONL(SCHEMA), layout=layout, retry=Retry(0), runtime=runtime
    )


def committed_by(snapshot_id: str) -> int:
    """The number of the actor that committed a snapshot."""
    return int(snapshot_id[-16:], 16) >> 32


def records(rows: Rows) -> list[dict[str, Any]]:
    return [dict(zip(SCHEMA, row, strict=True)) for row in rows]


def in_one_thread(monkeypatch: Any) -> None:
    """Let changes run without threads: the explorer answers the calls of one."""
    monkeypatch.setattr("lode.change.base.pipelined", lambda task, items: [task(item) for item in items])


class FewCalls(SimSwapStore):
    """A store that reads an object that never changes once, and the first ones without asking anybody.

    What such a call answers does not depend on what others do, as long as nothing expires. Without it an
    operation makes thirty calls, and two of them more interleavings than can be explored.
    """

    def __init__(self, inner: Any, kept: Mapping[str, bytes]) -> None:
        super().__init__(inner._answer)
        self._kept = dict(kept)

    def get(self, path: str) -> bytes:
        if path in self._kept:
            return self._kept[path]
        found = super().get(path)
        if "/data" in path or "/definition/" in path:
            self._kept[path] = found
        return found

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self.get(path)[offset : offset + length]

    def head(self, path: str) -> ObjectInfo:
        return ObjectInfo(path, len(self.get(path)), SINCE)

    def put(self, path: str, data: Any) -> None:
        # A definition has the digest of its content as its name: all writers put the same.
        super().put(path, data)
        if "/data" in path or "/definition/" in path:
            self._kept[path] = bytes(data)


class Operation:
    """What an actor does to the dataset, and what it does to the rows."""

    def __init__(self, run: Callable[[lode.Dataset], Any], effect: Effect) -> None:
        self.run = run
        self.effect = effect

    def actor(self, number: int, layout: Layout, kept: Mapping[str, bytes]) -> Actor:
        never_changed = {path: data for path, data in kept.items() if not path.endswith("/latest")}

        def act(store: SwapStore) -> str | None:
            done = self.run(opened(FewCalls(store, never_changed), number, layout))
            snapshot = done.snapshot if isinstance(done, lode.Change) else done
            return None if snapshot is None else str(snapshot.id)

        return act


def append(p: str, n: int, *, key: str | None = None) -> Operation:
    rows = ((p, n, "appended"),)
    return Operation(
        lambda ds: ds.write(records(rows), on_conflict="append", idempotency_key=key),
        lambda before: before + rows,
    )


def overwrite(p: str, n: int, *, redo: bool = False) -> Operation:
    rows = ((p, n, "overwritten"),)
    options: Any = {"on_conflict": "redo" if redo else "raise"}
    return Operation(
        lambda ds: (
            ds.overwrite(records(rows), **options)
            if ds.plan().layout.keys
            else ds.overwrite(records(rows), where=f"p = '{p}'", **options)
        ),
        lambda before: (*(row for row in before if row[0] != p), *rows),
    )


def delete(*numbers: int, redo: bool = False) -> Operation:
    where = f"n IN ({', '.join(map(str, numbers))})"
    return Operation(
        lambda ds: ds.delete(where, on_conflict="redo" if redo else "raise"),
        lambda before: tuple(row for row in before if row[1] not in numbers),
    )


def merge(*numbers: int, p: str = "a", redo: bool = False) -> Operation:
    source = {n: (p, n, "merged") for n in numbers}
    return Operation(
        lambda ds: ds.merge(
            records(tuple(source.values())), on=["p", "n"], on_conflict="redo" if redo else "raise"
        ),
        lambda before: (
            *(source.get(row[1], row) if row[0] == p else row for row in before),
            *(row for n, row in source.items() if not any(old[:2] == (p, n) for old in before)),
        ),
    )


def compact() -> Operation:
    return Operation(lambda ds: ds.compact(), lambda before: before)


def expire(keep: int) -> Operation:
    def run(dataset: lode.Dataset) -> None:
        lode.expire(dataset, keep=keep, dry_run=False, runtime=dataset._runtime)

    return Operation(run, lambda before: before)


def restore(sequence: int) -> Operation:
    return Operation(
        lambda ds: ds.restore(sequence),
        lambda _: tuple(row for rows in FIRST[:sequence] for row in rows),
    )


def reader(layout: Layout, kept: Mapping[str, bytes]) -> Actor:
    """Read all rows as of the snapshot that is the newest when it looks."""
    never_changed = {path: data for path, data in kept.items() if not path.endswith("/latest")}

    def read(store: SwapStore) -> tuple[str, Rows] | None:
        dataset = opened(FewCalls(store, never_changed), 0, layout)
        newest = dataset.latest()
        try:
            return newest.id, _sorted(dataset, newest.id)
        except (lode.NotFoundError, lode.SnapshotExpiredError):
            return None  # its files have expired meanwhile

    return read


def liar(store: SwapStore) -> None:
    """Replace every checkpoint, several times, by a well-formed one that says that nothing is visible."""
    for _ in range(6):
        for entry in list(store.list(f"datasets/{DATASET}/state/")):
            with suppress(lode.NotFoundError, lode.PathExistsError):
                emptied = emptied_checkpoint(store.get(entry.path))
                store.delete(entry.path)
                store.put(entry.path, emptied)


def emptied_checkpoint(data: bytes) -> bytes:
    """A checkpoint of the same snapshot without files."""
    document = msgspec.json.decode(zstandard.decompress(data))
    return zstandard.ZstdCompressor(write_checksum=True).compress(
        msgspec.json.encode({**document, "manifests": []})
    )


def _sorted(dataset: lode.Dataset, id: str) -> Rows:
    found = dataset.scan(as_of=id).read_all().to_pylist()
    assert dataset.count(as_of=id) == len(found)
    return tuple(sorted(tuple(row.values()) for row in found))


def states(layout: Layout) -> Actor:
    """The rows at every snapshot, oldest first."""

    def read(store: SwapStore) -> Chain:
        dataset = opened(store, 0, layout)
        found: list[tuple[str, Rows | None]] = []
        for each in dataset.snapshots():
            try:
                found.append((each.id, _sorted(dataset, each.id)))
            except lode.SnapshotExpiredError:
                found.append((each.id, None))
        return tuple(found)

    return read


def first(layout: Layout) -> dict[str, bytes]:
    """What the store holds after three appends."""

    def write(store: SwapStore) -> None:
        dataset = opened(store, 0, layout)
        for rows in FIRST:
            dataset.write(records(rows))

    done = run_alone(write, {})
    assert done.value is None
    return dict(done.store)


class Serial(Holds):
    """What must be true of every state: each snapshot is the one before it, changed by one operation."""

    def __init__(self, layout: Layout, operations: Mapping[str, Operation], *, expires: bool = False) -> None:
        super().__init__(layout, {})
        self._expires = expires
        self._operations = dict(enumerate(operations.values(), 1))
        self._numbers = {name: number for number, name in enumerate(operations, 1)}
        self._states = states(layout)
        self._known: dict[Any, Chain] = {}

    def __call__(self, view: View) -> None:
        manifests = published(view.store)
        self._is_linear(manifests)
        for manifest in () if self._expires else manifests:
            for file in manifest.files:
                assert file.path in view.store, f"{file.path} of {manifest.snapshot_id} is missing"
        self._check_promises(view, self._serial(view))

    def _serial(self, view: View) -> Chain:
        """The rows at each snapshot; they depend on nothing but the manifests, files being there."""
        key = _manifests(view.store, with_files=self._expires)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = view.ask(self._states)
            self._check_order(known, {each.snapshot_id: each for each in published(view.store)})
        return known

    def _check_order(self, chain: Chain, manifests: Mapping[str, Manifest]) -> None:
        before: Rows = ()
        for place, (id, after) in enumerate(chain):
            number = committed_by(id)
            expected = before + FIRST[place] if number == 0 else self._operation(number).effect(before)
            if after is None:
                before = expected  # expired
                continue
            assert after == tuple(sorted(expected)), f"{id} has {after}, not {tuple(sorted(expected))}"
            grown = manifests[id].row_count - manifests[id].removed.rows
            if manifests[id].restores is None:
                assert grown == len(after) - len(before), f"{id} says that it adds {grown} rows"
            before = after

    def _operation(self, number: int) -> Operation:
        return self._operations.get(number) or append(*LAST[0][:2])

    def _check_promises(self, view: View, chain: Chain) -> None:
        found = dict(chain)
        for name, value in view.returned.items():
            if name == scenario.RECOVERY:
                assert value in found, f"the recovery committed {value}, and it is not there"
            elif name not in self._numbers:
                if value is None:
                    continue  # what it reads has expired meanwhile
                id, rows = value
                assert found[id] in (rows, None), f"{name} read {rows} at {id}, where {found[id]} are"
            elif value is not None:
                assert value in found, f"{name} was told that {value} is committed, and it is not"
            else:
                effect = self._operations[self._numbers[name]].effect
                idle = any(rows is None or tuple(sorted(effect(rows))) == rows for _, rows in chain)
                assert idle, f"{name} changed nothing, and there always was something to change"
        for name, error in view.raised.items():
            if isinstance(error, CommitError) and error.landed is False:
                mine = [id for id in found if committed_by(id) == self._numbers[name]]
                assert not mine, f"{name} was refused, and {mine} is visible"


def _manifests(store: Contents, *, with_files: bool) -> Any:
    found = tuple(each for each in store.items() if each[0].endswith(("manifest.json", "/latest")))
    return found, tuple(path for path in store if "/data" in path) if with_files else ()


LAYOUTS: dict[str, Layout] = {"whole": WHOLE, "split": SPLIT}
