"""The pipelines of a lake, as the snapshots of its datasets show them: no project file is needed."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from lode.dataset import Dataset
from lode.errors import LodeError, NoManifestsError
from lode.lineage.position import Position, plan_between, position_of
from lode.lineage.record import KEY, Input, Lineage, history_of, lineage_of
from lode.lineage.runs import Run, pipelines_with_runs, runs_of
from lode.read.incremental import changes_rows
from lode.read.which import ExactId
from lode.reader import DatasetReader
from lode.runtime import REAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lode.snapshot import Snapshot
    from lode.store.protocol import Store

# How many datasets are looked at, and how many of the newest snapshots of each.
MAX_DATASETS: Final = 1_000
WINDOW: Final = 20
# How many snapshots a tree of origins names.
MAX_ORIGINS: Final = 200
# The key of the counts in a snapshot's metadata.
EXPECTATIONS: Final = "expectations"


class Waiting(msgspec.Struct, frozen=True):
    """The snapshots after a position, the rows that they have added, and the time of the first."""

    snapshots: int = 0
    rows: int = 0
    oldest: datetime | None = None


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """How many rows of a snapshot met an expectation and how many did not, and what became of those."""

    name: str
    passed: int
    failed: int
    on_fail: Literal["warn", "drop", "fail", "quarantine"]


class FlowInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a pipeline, and what waits in it.

    ``waiting`` is None if the dataset is in another store or cannot be read; ``oldest`` is the time of the
    first snapshot that waits.
    """

    dataset: str
    store: str
    sequence: int
    waiting: int | None = None
    rows: int | None = None
    oldest: datetime | None = None


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline with its newest snapshot. One that has only failed so far has no ``sink``.

    ``also`` are other datasets that it writes, such as that of rows that are put aside.
    """

    pipeline: str
    sink: str | None = None
    also: tuple[str, ...] = ()
    snapshot: str | None = None
    made_at: datetime | None = None
    rows: int = 0
    inputs: tuple[FlowInput, ...] = ()
    tables: dict[str, str] = {}
    lineage: Lineage | None = None
    expectations: tuple[Expected, ...] = ()
    last_run: Run | None = None


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot, the pipeline that made it, and the origins of what that has read.

    ``after`` and ``up_to`` are the ends of the range that was read. ``problem`` says why it goes no further;
    ``repeated`` means that it is described before.
    """

    dataset: str
    store: str
    after: int
    up_to: int
    snapshot: str
    table: str | None = None
    made_at: datetime | None = None
    lineage: Lineage | None = None
    inputs: tuple[Origin, ...] = ()
    repeated: bool = False
    problem: str | None = None


def flows(store: Store) -> list[Flow]:
    """The pipelines that have written datasets of a store, by name. A damaged dataset is left out.

    Only the newest ``WINDOW`` snapshots of each dataset are looked at, so a pipeline that has long stopped
    is not found in a dataset that others write to.
    """
    try:
        names = DatasetReader(store).list_datasets(limit=MAX_DATASETS)
    except NoManifestsError:
        names = []
    by_name: dict[str, list[Flow]] = {name: [] for name in pipelines_with_runs(store)}
    for several in REAL.each(lambda name: _flows_into(store, name), names):
        for flow in several:
            by_name.setdefault(flow.pipeline, []).append(flow)
    found = [_joined(name, flows) for name, flows in sorted(by_name.items())]
    return REAL.each(lambda flow: _with_last_run(store, flow), found)


def origin_of(dataset: Dataset, snapshot: Snapshot) -> Origin:
    """Where the newest snapshot with lineage, at or before ``snapshot``, comes from: a tree of origins."""
    sequence = position_of(dataset, snapshot).sequence
    return _origin(dataset, 0, sequence, snapshot.id, None, set())


def waiting_in(dataset: Dataset, position: Position) -> Waiting:
    """What a dataset has after a position. Rows that were removed again are not counted.

    A pipeline does not store that it has read snapshots in which no rows came or went. They do not wait.
    """
    latest = dataset.latest()
    newest = position_of(dataset, latest)
    if newest.sequence <= position.sequence:
        return Waiting()
    rows = plan_between(dataset, position, newest, "ignore").row_count
    if not position.snapshot:
        oldest = dataset.snapshot(max(latest.manifest.begins, latest.manifest.floor))
        return Waiting(newest.sequence, rows, oldest.created_at)
    later = dataset.history(since=ExactId(position.snapshot), as_of=latest)
    waiting = [snapshot for snapshot in later if changes_rows(snapshot.manifest)]
    return Waiting(len(waiting), rows, waiting[-1].created_at) if waiting else Waiting()


def lineage_in(metadata: Mapping[str, Any]) -> Lineage | None:
    """The lineage in metadata; None if there is none that can be read."""
    try:
        return msgspec.convert(metadata[KEY], Lineage)
    except (KeyError, msgspec.ValidationError):
        return None


def expectations_of(snapshot: Snapshot) -> tuple[Expected, ...]:
    """The counts of expectations in a snapshot's metadata; none if they cannot be read."""
    return expectations_in(snapshot.metadata)


def expectations_in(metadata: Mapping[str, Any]) -> tuple[Expected, ...]:
    """The counts of expectations in metadata; none if they cannot be read."""
    stored = metadata.get(EXPECTATIONS, {})
    try:
        return tuple(msgspec.convert({"name": name, **about}, Expected) for name, about in stored.items())
    except (AttributeError, TypeError, msgspec.ValidationError):
        return ()


def _flows_into(store: Store, name: str) -> list[Flow]:
    found: dict[str, Flow] = {}
    try:
        for snapshot in islice(history_of(Dataset(name, store)), WINDOW):
            lineage = lineage_of(snapshot)
            if lineage is not None and lineage.made_by not in found:
                found[lineage.made_by] = Flow(
                    pipeline=lineage.made_by,
                    sink=name,
                    snapshot=snapshot.id,
                    made_at=snapshot.created_at,
                    rows=snapshot.row_count,
                    inputs=tuple(_waiting(store, read) for read in lineage.inputs),
                    tables={table: read.dataset for table, read in lineage.tables.items()},
                    lineage=lineage,
                    expectations=expectations_of(snapshot),
                )
    except LodeError:
        pass  # the overview shows what is damaged
    return list(found.values())


def _joined(name: str, found: list[Flow]) -> Flow:
    """One flow for all datasets that a pipeline writes.

    The sink is the one that is furthest. A quarantine dataset gets a snapshot only with rows that fail; with
    the same position its name is usually longer.
    """
    if not found:
        return Flow(pipeline=name)
    first, *others = sorted(
        found, key=lambda flow: (-sum(each.sequence for each in flow.inputs), len(flow.sink or ""), flow.sink)
    )
    return msgspec.structs.replace(first, also=tuple(sorted(other.sink for other in others if other.sink)))


def _waiting(store: Store, read: Input) -> FlowInput:
    known = FlowInput(dataset=read.dataset, store=read.store, sequence=read.up_to.sequence)
    if read.store != store.url:
        return known
    try:
        found = waiting_in(Dataset(read.dataset, store), read.up_to)
    except LodeError:
        return known
    return msgspec.structs.replace(known, waiting=found.snapshots, rows=found.rows, oldest=found.oldest)


def _with_last_run(store: Store, flow: Flow) -> Flow:
    runs = runs_of(store, flow.pipeline)
    return msgspec.structs.replace(flow, last_run=runs[0]) if runs else flow


def _origin(
    dataset: Dataset, after: int, up_to: int, snapshot_id: str, table: str | None, seen: set[tuple[str, str]]
) -> Origin:
    known: dict[str, Any] = {
        "dataset": dataset.id,
        "store": dataset.store.url,
        "after": after,
        "up_to": up_to,
        "snapshot": snapshot_id,
        "table": table,
    }
    if not snapshot_id:
        return Origin(**known, problem="it had no snapshots then")
    if (dataset.id, snapshot_id) in seen:
        return Origin(**known, repeated=True)
    seen.add((dataset.id, snapshot_id))
    if len(seen) > MAX_ORIGINS:
        return Origin(**known, problem=f"more than {MAX_ORIGINS:,} snapshots are not followed")
    try:
        for snapshot in islice(history_of(dataset, snapshot_id), WINDOW):
            lineage = lineage_of(snapshot)
            if lineage is not None:
                below = tuple(_below(dataset.store, lineage, seen))
                return Origin(**known, made_at=snapshot.created_at, lineage=lineage, inputs=below)
    except LodeError as error:
        return Origin(**known, problem=str(error))
    return Origin(**known)


def _below(store: Store, lineage: Lineage, seen: set[tuple[str, str]]) -> Iterator[Origin]:
    reads = [(None, read) for read in lineage.inputs]
    for table, read in (*reads, *lineage.tables.items()):
        if read.store == store.url:
            after = read.after.sequence if table is None else 0
            there = Dataset(read.dataset, store)
            yield _origin(there, after, read.up_to.sequence, read.up_to.snapshot, table, seen)
        else:
            yield Origin(
                dataset=read.dataset,
                store=read.store,
                after=read.after.sequence,
                up_to=read.up_to.sequence,
                snapshot=read.up_to.snapshot,
                table=table,
                problem="it is in another store",
            )
