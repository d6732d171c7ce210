"""Engines on a store in memory, their crash, and a client that retries until it succeeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lode.errors import StoreError
from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.catalog.partitioning import RangePartitioning
from lode.ingest.core.engine import Engine
from lode.ingest.core.streams import AppendInFlight
from lode.ingest.names import TableName
from lode.ingest.settings import Settings
from lode.ingest.status import Code, Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.store.memory import MemoryStore
from lode.store.wrappers import SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    import lode
    from lode.ingest.catalog.partitioning import Partitioning
    from lode.ingest.core.streams import Stream
    from lode.store.protocol import Store
    from lode.store.wrappers import FaultStore

PLAIN = TableName("p", "d", "plain")
PARTS = TableName("p", "d", "parts")
TABLES = (PLAIN, PARTS)
SCHEMA = TableSchema((Column("id", "INT64"), Column("text", "STRING")))
WIDER = TableSchema((*SCHEMA.columns, Column("more", "STRING")))
# One partition for every ten rows.
TENS = RangePartitioning("id", 0, 100_000, 10)
PARTITIONINGS: dict[TableName, Partitioning | None] = {PLAIN: None, PARTS: TENS}


def lake() -> MemoryStore:
    """A store with both tables."""
    store = MemoryStore()
    catalog = Catalog(store)
    catalog.create_dataset(DatasetName("p", "d"))
    for name in TABLES:
        create_table(catalog, name)
    return store


def create_table(catalog: Catalog, name: TableName) -> None:
    catalog.create_table(name, SCHEMA, partitioning=PARTITIONINGS[name])


def engine_on(store: Store, state: Path, **settings: Any) -> Engine:
    return Engine(store, state, Settings(root=store, state=state, **settings))


def job_on(state: Path, run: Callable[[Engine], object]) -> Callable[[Store], None]:
    """What a new engine does with a store that may crash. A job reports the crash as a refusal."""

    def act(store: Store) -> None:
        engine = engine_on(store, state)
        try:
            run(engine)
        except Refused as refused:
            raise SimulatedCrash from refused
        finally:
            engine.close()

    return act


def rows(ids: Sequence[int], schema: TableSchema = SCHEMA) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {
        "id": list(ids),
        "text": [f"text {i}" for i in ids],
        "more": [f"more {i}" for i in ids],
    }
    return pa.RecordBatch.from_pydict(
        {column.name: columns[column.name] for column in schema}, schema=schema.arrow
    )


def dataset_of(store: Store, table: TableName) -> lode.Dataset:
    """The dataset of the table, opened without the server."""
    return Catalog(store).table(table).open(store)


def ids_in(store: Store, table: TableName) -> list[int]:
    """The visible rows."""
    dataset = dataset_of(store, table)
    found: list[Any] = dataset.scan().read_all().column("id").to_pylist() if dataset.exists else []
    return found


def is_one_line(store: Store, table: TableName) -> bool:
    """Whether the history is linear and complete."""
    dataset = dataset_of(store, table)
    snapshots = dataset.snapshots()
    parents = [None, *(snapshot.id for snapshot in snapshots)][: len(snapshots)]
    published = sum(1 for _ in dataset.chain.listed())
    return [snapshot.parent_id for snapshot in snapshots] == parents and published == len(snapshots)


def die(engine: Engine, store: FaultStore) -> None:
    """Simulate kill -9: work in progress ends at the store's crash, and nothing follows.

    It uses private attributes, as no method of a server does this.
    """
    engine._pool.shutdown(wait=True)
    store.crashed = True
    for stream in engine.streams():
        if stream.log is not None:
            stream.log._removed = True
    engine._state.close()


def refusal_of(answer: Future[int | None]) -> Refused | None:
    """The refusal of an append, None if it succeeded."""
    error = answer.exception(timeout=120)
    assert error is None or isinstance(error, Refused), error
    return error


def append(stream: Stream, ids: Sequence[int], offset: int | None = None) -> int | None:
    """Append and wait for the answer; raises ``Refused``."""
    while True:
        try:
            return stream.append(rows(ids), offset).result(timeout=120)
        except AppendInFlight as other:
            other.until.exception(timeout=120)


# The codes after which clients retry.
RETRIED = (Code.UNAVAILABLE, Code.ABORTED)
MAX_ATTEMPTS = 12


def until_stored(find: Callable[[], Stream], ids: Sequence[int], offset: int) -> None:
    """Append at an offset as clients do: retry after a failure, until the rows are stored."""
    for _ in range(MAX_ATTEMPTS):
        try:
            assert append(find(), ids, offset) == offset
            return
        except Refused as refusal:
            if refusal.code is Code.ALREADY_EXISTS:
                return
            if refusal.code not in RETRIED:
                raise
        except StoreError:
            pass  # the API answers UNAVAILABLE
    raise AssertionError(f"not stored after {MAX_ATTEMPTS} attempts")


def until_done(ask: Callable[[], object]) -> None:
    """Retry after refusals that ask for it."""
    for _ in range(MAX_ATTEMPTS):
        try:
            ask()
            return
        except Refused as refusal:
            if refusal.code not in RETRIED:
                raise
        except StoreError:
            pass  # the API answers UNAVAILABLE
    raise AssertionError(f"not done after {MAX_ATTEMPTS} attempts")
