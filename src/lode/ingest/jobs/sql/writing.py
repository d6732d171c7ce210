"""Writes the rows of a statement to a table, as one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.errors import LodeError, SchemaViolationError, StoreError
from lode.ingest.catalog.partitioning import PARTITION_ID
from lode.ingest.catalog.table import complete, stored_as
from lode.ingest.core.table_writer import ColumnRenamed
from lode.ingest.status import Code, Refused
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    import lode
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.engine import Engine

MAX_ATTEMPTS: Final = 20


class Moved(Exception):  # noqa: N818, an outcome rather than an error
    """Another writer has changed what a statement was computed on."""


def write(
    engine: Engine,
    definition: TableDefinition,
    rows: Iterable[pa.RecordBatch],
    *,
    key: tuple[str, str],
    base: str | bool | None = True,
    replace: bool = False,
    columns: bool = False,
) -> lode.Snapshot | None:
    """Write rows in one snapshot; returns None if there are none and nothing is replaced.

    Args:
        engine: The tables.
        definition: The table.
        rows: In the table's columns, or also with ``_PARTITIONID``.
        key: The idempotency key of the snapshot.
        base: The snapshot that the rows were computed on. If another one is the newest, ``Moved`` is raised.
            True if that does not matter.
        replace: Replace all rows.
        columns: The columns of the table are replaced, too.
    """
    dataset = definition.open(engine.store)
    try:
        transaction = dataset.transaction(
            {"job": {"id": key[1], "type": "query"}},
            idempotency_key=key,
            on_conflict="append",
            evolve=definition.replacement if columns else definition.evolution(acknowledged=False),
            replaces=[""] if replace else None,
        )
    except StoreError:
        raise
    except LodeError as error:
        raise Refused(
            Code.FAILED_PRECONDITION, f"Table {definition.name.short} cannot be written: {error}."
        ) from error
    with transaction:
        if transaction.replayed is not None:
            return transaction.replayed
        staged = _stage(definition, transaction, rows)
        if not staged and not replace:
            return None

        def check(found: str | None) -> None:
            if base is not True and found != base:
                raise Moved

        try:
            return engine.writer(definition).publish(dataset, transaction, None if base is True else check)
        except ColumnRenamed:
            raise Moved from None


def _stage(
    definition: TableDefinition, transaction: lode.Transaction, rows: Iterable[pa.RecordBatch]
) -> bool:
    stored: Any = getattr(transaction.stager.components.codec, "schema", None)

    def prepared() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            if batch.num_rows:
                own = (
                    batch
                    if PARTITION_ID in batch.schema.names
                    else definition.prepare(complete(batch, definition.schema))
                )
                yield stored_as(own, stored)

    found = prepared()
    first = next(found, None)
    if first is None:
        return False
    from itertools import chain

    try:
        transaction.add(transaction.stager.stage_named(chain([first], found), ""))
    except SchemaViolationError as error:
        raise QueryError(
            f"Table {definition.name.short} cannot be written: {error}", reason="invalid"
        ) from error
    return True


def again(attempt: Callable[[], Any], name: str) -> Any:
    """Compute and write again while other writers change the table."""
    for _ in range(MAX_ATTEMPTS):
        try:
            return attempt()
        except Moved:
            continue
    raise Refused(
        Code.ABORTED,
        f"Could not serialize access to table {name} due to concurrent update",
        reason="invalidQuery",
    )
