"""What a statement of a query did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lode.ingest.names import TableName


@dataclass(slots=True)
class Outcome:
    """What a statement did. A query has a schema and rows."""

    statement: str
    schema: pa.Schema | None = None
    batches: Iterator[pa.RecordBatch] | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    is_dml: bool = False
    ddl_operation: str = ""
    table: TableName | None = None
    bytes: int = 0
    # Whether the server keeps the rows.
    is_kept: bool = False
    # The number of files and rows of EXPORT DATA.
    exported: tuple[int, int] | None = None
    children: list[Outcome] = field(default_factory=list)

    @property
    def affected(self) -> int:
        return self.inserted + self.updated + self.deleted
