"""Write rows to a table's dataset like the server does, without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    import lode
    from lode.ingest.catalog.table import TableDefinition
    from lode.store.protocol import Store


def write_rows(definition: TableDefinition, store: Store, batch: pa.RecordBatch) -> lode.Snapshot:
    """Commit rows in ``schema.arrow``, with the table's columns."""
    evolution = definition.evolution(acknowledged=False)
    with definition.open(store).transaction(evolve=evolution) as transaction:
        transaction.add(transaction.stager.stage_named(definition.prepare(batch), ""))
        return transaction.commit()
