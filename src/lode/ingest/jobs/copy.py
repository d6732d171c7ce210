"""Copy jobs: the rows of tables become rows of another, in one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.format.ids import shortened
from lode.ingest.catalog.partitioning import PARTITION_ID, TimePartitioning
from lode.ingest.catalog.paths import display_name
from lode.ingest.catalog.table import complete
from lode.ingest.jobs.destination import CREATE, WRITE, Commit, Destination, disposition
from lode.ingest.jobs.origin import Origin, reference_list
from lode.ingest.jobs.schema_update import SchemaUpdate
from lode.ingest.jobs.tables import parse_destination, parse_reference
from lode.ingest.status import Code, Refused, invalid
from lode.ingest.types.changes import CHANGE_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.job import Job
    from lode.ingest.jobs.tables import TableRef

_OPERATIONS: Final = ("COPY", "CLONE", "OPERATION_TYPE_UNSPECIFIED")
_MAX_SOURCES: Final = 1200


class CopyJobs:
    """Runs copy jobs.

    Args:
        engine: The tables.
    """

    durable = True
    workers = 4

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def check(self, job: Job) -> None:
        settings = job.settings
        _sources(job)
        parse_destination(settings.get("destinationTable"), job.project, "copy.destinationTable")
        disposition(settings, "createDisposition", CREATE, CREATE[0])
        disposition(settings, "writeDisposition", WRITE, "WRITE_EMPTY")
        operation = settings.get("operationType") or "COPY"
        if operation not in _OPERATIONS:
            raise Refused(
                Code.UNIMPLEMENTED,
                f"A copy job with operationType {shortened(str(operation))} is not supported: every commit "
                "is a snapshot, copy one with a decorator such as t@1700000000000.",
            )

    def run(self, job: Job) -> None:
        settings = job.settings
        origins = [Origin(self._engine, ref) for ref in _sources(job)]
        target = Destination(
            self._engine,
            parse_destination(settings.get("destinationTable"), job.project, "copy.destinationTable"),
            disposition(settings, "createDisposition", CREATE, CREATE[0]),
            disposition(settings, "writeDisposition", WRITE, "WRITE_EMPTY"),
        )
        copy = _Copy(self._engine, target, origins)
        snapshot = target.load(Commit.of(job), copy.decide, copy.rows)
        assert snapshot is not None
        job.statistics = {
            "copy": {
                "copiedRows": str(snapshot.row_count),
                "copiedLogicalBytes": str(sum(file.size_bytes for file in snapshot.files)),
            }
        }


class _Copy:
    """One copy job."""

    def __init__(self, engine: Engine, target: Destination, origins: list[Origin]) -> None:
        self._engine = engine
        self._target = target
        self._origins = origins
        first = origins[0].definition
        for origin in origins[1:]:
            if origin.definition.schema != first.schema:
                raise invalid(
                    f"The tables {display_name(first.name)} and {display_name(origin.definition.name)} have "
                    "different schemas: copy them one by one."
                )

    def decide(self, current: TableDefinition | None) -> TableDefinition:
        first = self._origins[0].definition
        if current is None:
            return self._engine.catalog.draft_table(
                self._target.ref.name, first.schema, partitioning=first.partitioning, info=first.info
            )
        if self._target.replaces_table:
            if first.partitioning is not None and first.partitioning != current.partitioning:
                raise invalid(
                    f"Incompatible table partitioning specification for {display_name(current.name)}: create "
                    "another table."
                )
            return msgspec.structs.replace(current, schema=first.schema)
        SchemaUpdate(current, declared=True, updates=[], ignore=False).schema(first.schema)
        return current

    def rows(self, wanted: TableDefinition) -> Iterator[pa.RecordBatch]:
        for origin in self._origins:
            carried = [
                *([PARTITION_ID] if self._carries_partitions(origin, wanted) else []),
                *([CHANGE_SEQUENCE] if _carries_changes(origin, wanted) else []),
            ]
            for batch in origin.stored():
                rows = complete(batch, wanted.schema)
                yield _with_hidden(wanted.prepare(rows), batch, carried) if carried else rows

    def _carries_partitions(self, origin: Origin, wanted: TableDefinition) -> bool:
        """Whether rows keep the partition of their arrival."""
        partitioning = wanted.partitioning
        return (
            isinstance(partitioning, TimePartitioning)
            and not partitioning.column
            and partitioning == origin.definition.partitioning
            and not self._target.ref.partition
        )


def _carries_changes(origin: Origin, wanted: TableDefinition) -> bool:
    """Whether rows keep the numbers of their last changes."""
    return bool(wanted.primary_key) and wanted.primary_key == origin.definition.primary_key


def _with_hidden(prepared: pa.RecordBatch, stored: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    for name in names:
        if name in stored.schema.names:
            index = prepared.schema.get_field_index(name)
            prepared = prepared.set_column(index, prepared.schema.field(index), stored.column(name))
    return prepared


def _sources(job: Job) -> list[TableRef]:
    found: list[Any] = reference_list(job.settings, "sourceTable", "sourceTables")
    if len(found) > _MAX_SOURCES:
        raise invalid(f"A copy job has {len(found)} source tables, the limit is {_MAX_SOURCES}.")
    return [parse_reference(each, job.project, "copy.sourceTable") for each in found]
