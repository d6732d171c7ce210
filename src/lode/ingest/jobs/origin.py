"""The rows of tables that copy and extract jobs read, at one snapshot each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from lode.errors import MissingError
from lode.ingest.catalog.paths import display_name
from lode.ingest.catalog.table import complete
from lode.ingest.jobs.tables import check_partition, moment_of, path_of
from lode.ingest.status import invalid
from lode.read.scan import checked

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.tables import TableRef
    from lode.ingest.types.columns import TableSchema
    from lode.read.scan import Scan


class Origin:
    """A table as it is when the job begins, or as it was at the moment that its decorator names.

    Args:
        engine: The tables.
        ref: The table, perhaps with a partition or a moment.
    """

    def __init__(self, engine: Engine, ref: TableRef) -> None:
        self.ref = ref
        self.definition: TableDefinition = engine.catalog.table(ref.name, fresh=True).check_readable()
        if ref.partition:
            check_partition(ref, self.definition.partitioning)
        self._scan = self._plan(engine)

    def _plan(self, engine: Engine) -> Scan | None:
        moment = moment_of(self.ref, datetime.now(UTC))
        if moment is not None and moment.timestamp() * 1000 < self.definition.created_ms:
            raise invalid(
                f"Invalid snapshot time {self.ref.moment} for table {display_name(self.ref.name)}: it was "
                f"created at {self.definition.created_ms}."
            )
        dataset = self.definition.open(engine.store)
        try:
            scan = dataset.plan(as_of=moment)
        except MissingError:
            return None  # it has no rows yet, or had none then
        partitioning = self.definition.partitioning
        if not self.ref.partition or partitioning is None:
            return scan
        wanted = path_of(self.ref, partitioning)
        return scan.of(
            [
                msgspec.structs.replace(
                    manifest,
                    files=tuple(
                        file
                        for file in manifest.files
                        if dataset.layout.partition_of(dataset.id, file.path) == wanted
                    ),
                )
                for manifest in scan.manifests
            ]
        )

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(file.size_bytes for file in self._scan.files) if self._scan else 0

    def stored(self) -> Iterator[pa.RecordBatch]:
        """The rows as they are stored, with ``_PARTITIONID`` if the table has it.

        They are written elsewhere, so files are compared with their checksums.
        """
        if self._scan is not None and self._scan.files:
            yield from checked(self._scan).rows()

    def rows(self, schema: TableSchema | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in the ``schema.arrow`` of a table, by default of this one."""
        for batch in self.stored():
            yield complete(batch, schema or self.definition.schema)


def reference_list(settings: dict[str, Any], one: str, many: str) -> list[Any]:
    """References that are given as one or as a list."""
    found = settings.get(many) or [settings.get(one)]
    if not isinstance(found, list):
        raise invalid(f"Invalid value for {many}: it must be a list.")
    return found
