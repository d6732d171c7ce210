"""Changes as clients send them, and a table with a primary key to apply them to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.core.decoders import Decoders
from lode.ingest.names import TableName
from lode.ingest.types.columns import Column, TableSchema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.ingest.catalog.partitioning import Partitioning
    from lode.ingest.catalog.table import TableDefinition
    from lode.store.protocol import Store

KEYED = TableName("p", "d", "keyed")
SCHEMA = TableSchema(
    (Column("id", "INT64", "REQUIRED"), Column("name", "STRING", "REQUIRED"), Column("note", "STRING"))
)
_TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "name": pa.string(),
    "_CHANGE_TYPE": pa.string(),
    "_CHANGE_SEQUENCE_NUMBER": pa.string(),
}
ARROW = pa.schema(_TYPES)


class Change(NamedTuple):
    """One change; ``sequence`` as clients write it."""

    kind: str
    id: int
    name: str | None = None
    sequence: str | None = None


def upsert(id: int, name: str, sequence: str | None = None) -> Change:
    return Change("UPSERT", id, name, sequence)


def delete(id: int, sequence: str | None = None) -> Change:
    return Change("DELETE", id, None, sequence)


def create_keyed(
    store: Store,
    name: TableName = KEYED,
    *,
    schema: TableSchema = SCHEMA,
    keys: Sequence[str] = ("id",),
    partitioning: Partitioning | None = None,
) -> TableDefinition:
    """Create a table with a primary key, and its dataset if needed."""
    catalog = Catalog(store)
    if not catalog.list_datasets(name.project):
        catalog.create_dataset(DatasetName(name.project, name.dataset))
    info = {"tableConstraints": {"primaryKey": {"columns": list(keys)}}}
    return catalog.create_table(name, schema, partitioning=partitioning, info=info)


def decoded(definition: TableDefinition, changes: Sequence[Change]) -> pa.RecordBatch:
    """Changes as the server decodes them from Arrow."""
    rows = [
        {"id": id, "name": name, "_CHANGE_TYPE": kind, "_CHANGE_SEQUENCE_NUMBER": sequence}
        for kind, id, name, sequence in changes
    ]
    return decoded_batch(definition, pa.RecordBatch.from_pylist(rows, ARROW))


def decoded_batch(definition: TableDefinition, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as the server decodes them from Arrow."""
    rows: Any = Decoders().make("arrow_rows", definition, batch.schema.serialize().to_pybytes())
    found: pa.RecordBatch = rows.decode(batch.serialize().to_pybytes())
    return found


def names_in(store: Store, name: TableName = KEYED) -> dict[int, str]:
    """The table by the library: names by id. Fails if an id is there twice."""
    dataset = Catalog(store).table(name).open(store)
    if not dataset.exists:
        return {}
    rows = dataset.scan().read_all()
    ids: list[Any] = rows.column("id").to_pylist()
    assert len(set(ids)) == len(ids), f"an id is there twice: {sorted(ids)}"
    return dict(zip(ids, rows.column("name").to_pylist(), strict=True))
