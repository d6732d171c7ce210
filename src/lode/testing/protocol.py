"""The commit protocol as actors for the explorer, and what must hold after each of their steps.

The actors are the library itself, ``Dataset`` and all, on a runtime without chance, time or threads.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from lode.dataset import Dataset
from lode.errors import CommitError, NoSnapshotsError, NotFoundError, SnapshotConflictError, StoreError
from lode.format.group import decode_group
from lode.format.manifest import Manifest, decode_manifest
from lode.format.paths import MANIFEST, DefaultLayout, HiveLayout, Layout
from lode.format.pointer import named_in
from lode.runtime import Runtime, one_by_one
from lode.testing.sim import SimStore
from lode.upkeep.sweep import sweep
from lode.write.retry import Retry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lode.store.protocol import Store
    from lode.testing.actor import Actor
    from lode.testing.scenario import View
    from lode.testing.sim import Contents, SwapStore

DATASET = "d"
# Bytes in one place, records in partitions: the two ways overlap is decided.
WHOLE: Layout = DefaultLayout()
SPLIT: Layout = HiveLayout("p")

LONG_AFTER = 4 * 10**18
"""Nanoseconds since 1970 at which everything simulated is old."""


def last_first(task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Run ``task`` over the items on this thread, the last one first, and return the results in order."""
    return [task(item) for item in reversed(list(items))][::-1]


def still(number: int) -> Runtime:
    """A runtime on which nothing happens by chance; the ids it makes contain ``number``."""
    return Runtime(
        now_ns=lambda: number,
        monotonic=lambda: 0.0,
        sleep=lambda _: None,
        random=lambda: 0.0,
        random_bits=lambda _: number,
        each=one_by_one,
        each_small=one_by_one,
        background=lambda _: None,
    )


def snapshot_id(number: int) -> str:
    """The id of the snapshot that ``writer(number)`` commits."""
    return f"{number:019d}-{number:016x}"


def dataset(
    store: Store, number: int = 0, *, layout: Layout = WHOLE, retries: int = 0, beside: bool = False
) -> Dataset:
    codec = "jsonl" if layout.keys else None
    runtime = still(number)
    if beside:
        runtime = replace(runtime, each_small=last_first)
    return Dataset(DATASET, store, codec=codec, layout=layout, retry=Retry(retries), runtime=runtime)


def writer(
    number: int,
    *,
    partition: str | None = None,
    key: str | None = None,
    retries: int = 0,
    warm: bool = False,
    append: bool = False,
    id: str | None = None,
    beside: bool = False,
) -> Actor:
    """Return an actor that writes one snapshot and returns its id.

    Args:
        number: Makes its snapshot's id.
        partition: Write a record into this partition; None writes a blob.
        key: The idempotency key.
        retries: How often it may be retried after a conflict.
        warm: After a conflict, commit the same staged transaction once more.
        append: Follow any other snapshot.
        id: The snapshot's id, chosen by the caller.
        beside: Upload the file beside the intent, as ``Dataset.write`` does, and after it.
    """
    layout = SPLIT if partition is not None else WHOLE
    data: Any = [{"p": partition, "by": number}] if partition is not None else f"by {number}".encode()

    def write(store: SwapStore) -> str:
        target = dataset(store, number, layout=layout, retries=retries, beside=beside)
        try:
            with target.transaction(
                idempotency_key=key, snapshot_id=id, on_conflict="append" if append else "raise"
            ) as transaction:
                if transaction.replayed is None and beside:
                    transaction._stage_whole(data)
                elif transaction.replayed is None:
                    # Files of two writers under one id have two names.
                    suffix = "" if id is None else f"-{number}"
                    transaction.add(transaction.stager.stage_named(data, suffix))
                return transaction.commit().id
        except SnapshotConflictError as conflict:
            if not warm:
                raise
            return str(conflict.transaction.commit().id)

    return write


def two_transactions(number: int, *, key: str | None = None) -> Actor:
    """Return an actor that begins two transactions of one dataset, then commits one after the other.

    It returns the id of the second. Both are begun before either is committed, as by two threads.
    """

    def write(store: SwapStore) -> str:
        target = dataset(store, number)
        transactions = [target.transaction(idempotency_key=key) for _ in range(2)]
        for place, transaction in enumerate(transactions):
            transaction.add(transaction.stager.stage_named(f"{place} by {number}".encode(), ""))
        return [transaction.commit().id for transaction in transactions][-1]

    return write


def patient(number: int, *, tries: int = 2) -> Actor:
    """Return an actor that reads the dataset and then writes to it, again if it is refused.

    It returns the id of its snapshot; None if there was nothing to read at first.
    """

    def write(store: SwapStore) -> str | None:
        target = dataset(store, number)
        try:
            if not target.exists:
                return None
        except NotFoundError:
            return None  # the history vanished between two of its objects
        transaction = target.transaction(on_conflict="append")
        transaction.add(transaction.stager.stage_named(f"by {number}".encode(), ""))
        for remaining in reversed(range(tries)):
            try:
                return transaction.commit().id
            except (StoreError, NotFoundError, SnapshotConflictError):
                if not remaining:
                    raise
        raise AssertionError("the last try returns or raises")

    return write


def mover(*, missed: bool) -> Actor:
    """Return an actor that takes the history away and brings it back; ``missed`` as for ``take_away``."""

    def move(store: SwapStore) -> None:
        assert isinstance(store, SimStore)
        store.take_away(missed=missed)
        store.bring_back()

    return move


def reader(layout: Layout = WHOLE) -> Actor:
    """Return an actor that reads the head and returns its id, or None."""

    def read(store: SwapStore) -> str | None:
        try:
            return dataset(store, layout=layout).latest().id
        except NoSnapshotsError:
            return None

    return read


def history(layout: Layout = WHOLE) -> Actor:
    """Return an actor that returns the ids of all visible snapshots, oldest first."""

    def read(store: SwapStore) -> tuple[str, ...]:
        return tuple(snapshot.id for snapshot in dataset(store, layout=layout).snapshots())

    return read


def sweeper(layout: Layout = WHOLE) -> Actor:
    """Return an actor that sweeps everything it may, as if every object were old."""

    def run(store: SwapStore) -> None:
        sweep(Dataset(DATASET, store, layout=layout), timedelta(0), dry_run=False, runtime=still(LONG_AFTER))

    return run


class Holds:
    """What must be true of every state: called with a view, raises ``AssertionError`` where it is not.

    Args:
        layout: The layout the writers use.
        writers: The snapshot each writer commits, by the actor's name.
        readers: The names of the actors that return a head.
    """

    def __init__(self, layout: Layout, writers: Mapping[str, str], readers: tuple[str, ...] = ()) -> None:
        self._layout = layout
        self._writers = writers
        self._readers = readers
        self._history = history(layout)

    def __call__(self, view: View) -> None:
        manifests = published(view.store)
        chain: tuple[str, ...] = view.ask(self._history)
        self._is_linear(manifests)
        self._is_whole(view.store, manifests, chain)
        self._keeps_promises(view, chain)

    def _is_linear(self, manifests: tuple[Manifest, ...]) -> None:
        children: dict[str | None, str] = {}
        ids = {manifest.snapshot_id for manifest in manifests}
        for manifest in manifests:
            parent = manifest.parent_snapshot_id
            id = manifest.snapshot_id
            assert parent is None or parent in ids, f"the parent of {id} is {parent}, which does not exist"
            assert parent not in children, f"{children[parent]} and {id} fork at {parent}"
            children[parent] = id

    def _is_whole(self, store: Contents, manifests: tuple[Manifest, ...], chain: tuple[str, ...]) -> None:
        """Every published manifest is visible, and everything a visible one names is there."""
        by_id = {manifest.snapshot_id: manifest for manifest in manifests}
        hidden = by_id.keys() - set(chain)
        assert set(chain) <= by_id.keys(), f"visible are {chain}, published are {tuple(by_id)}"
        assert hidden <= unpublished_group(store, self._layout), f"{hidden} are published and not visible"
        keys: set[tuple[str, str]] = set()
        for place, id in enumerate(chain, 1):
            manifest = by_id[id]
            assert manifest.sequence == place, f"{id} has sequence {manifest.sequence}, not {place}"
            for file in manifest.files:
                assert file.path in store, f"{file.path} of {id} is missing"
            if manifest.idempotency is not None:
                assert manifest.idempotency not in keys, f"two snapshots have the key {manifest.idempotency}"
                keys.add(manifest.idempotency)

    def _keeps_promises(self, view: View, chain: tuple[str, ...]) -> None:
        for name, value in view.returned.items():
            if name in self._readers:
                assert value is None or value in chain, f"{name} saw {value}, which is not in {chain}"
                self._saw_what_came_before(view, name, value, chain)
            elif value is not None:
                assert value in chain, (
                    f"{name} got the answer that {value} is committed, and it is not in {chain}"
                )
        for name, error in view.raised.items():
            if isinstance(error, CommitError) and error.landed is False:
                lost = self._writers[name]
                assert lost not in chain, f"{name} was refused, and {lost} is visible"

    def _saw_what_came_before(self, view: View, name: str, value: str | None, chain: tuple[str, ...]) -> None:
        seen = chain[: chain.index(value) + 1] if value else ()
        for earlier in view.before(name):
            mine = view.returned.get(earlier)
            if earlier in self._writers and mine is not None:
                assert mine in seen, f"{name} began after {mine} was committed, and saw only {seen}"


def unpublished_group(store: Contents, layout: Layout) -> set[str]:
    """The members of the group that the pointer names, while its leader is not published."""
    paths = layout.chain(DATASET)
    leader = named_in(store.get(paths.pointer, b"")).decode()
    intent = store.get(paths.intent(leader), b"")
    if paths.manifest(leader) in store or b'"group"' not in intent:
        return set()
    members = decode_group(intent, paths.pointer)[1]
    return {decode_manifest(member, origin="a member").snapshot_id for member in members}


@cache
def published(store: Contents) -> tuple[Manifest, ...]:
    """Every manifest at its canonical place."""
    return tuple(_manifests(store))


def _manifests(store: Contents) -> Iterator[Manifest]:
    for path, data in store.items():
        if path.endswith(f"/{MANIFEST}") and "/partitions/" not in path:
            yield decode_manifest(data, origin=path)
