"""Query jobs: SQL over the tables of the server, computed in processes with limits."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.format.ids import shortened
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.catalog.paths import display_name
from lode.ingest.jobs.buckets import Buckets
from lode.ingest.jobs.destination import CREATE, Commit, Destination
from lode.ingest.jobs.job import VIEW
from lode.ingest.jobs.sql.fit import fitted
from lode.ingest.jobs.sql.host import ServerHost
from lode.ingest.jobs.sql.job_rows import job_rows
from lode.ingest.jobs.sql.names import CatalogTables
from lode.ingest.jobs.sql.process import Request, run
from lode.ingest.jobs.sql.spool import Spool
from lode.ingest.jobs.tables import TableRef
from lode.ingest.names import TableName
from lode.ingest.status import Code, Refused, invalid
from lode.ingest.types.arrow import from_arrow
from lode.ingest.types.columns import TableSchema
from lode.ingest.types.rest import to_rest
from lode.lazy import pa
from lode.sandbox.peer import Rows as SentRows
from lode.sql.database import Limits
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lode.ingest.catalog.partitioning import Partitioning
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.job import Job
    from lode.ingest.jobs.sql.apart import SqlApart
    from lode.ingest.jobs.sql.outcome import Outcome
    from lode.ingest.settings import Settings
    from lode.ingest.types.columns import Column

    Properties = Callable[[dict[str, Any], TableSchema], tuple[Partitioning | None, dict[str, Any]]]

# Larger results become a table, which the Storage Read API reads, too.
MAX_KEPT_BYTES: Final = 1 << 20
# The longest time of a dry run, whose client waits for it.
DRY_SECONDS: Final = 30.0
_KEPT_BYTES: Final = 256 << 20
_RESULTS: Final = "_lode_results"
_RESULT_MS: Final = 24 * 3600 * 1000
_CODES: Final = {
    "notFound": Code.NOT_FOUND,
    "duplicate": Code.ALREADY_EXISTS,
    "notImplemented": Code.UNIMPLEMENTED,
    "accessDenied": Code.PERMISSION_DENIED,
    "stopped": Code.CANCELLED,
    "backendError": Code.UNAVAILABLE,
}
_UNSUPPORTED: Final = {
    "tableDefinitions": "Queries of external files are not supported: load them into a table.",
    "createSession": "Sessions are not supported: write the statements into one query.",
    "userDefinedFunctionResources": "Functions of other files are not supported: write them in the query.",
    "destinationEncryptionConfiguration": "Files are encrypted as the store is set up.",
}
_DISPOSITIONS: Final = ("WRITE_EMPTY", "WRITE_APPEND", "WRITE_TRUNCATE", "WRITE_TRUNCATE_DATA")


def limits_of(settings: Settings) -> Limits:
    """What a query may use."""
    return Limits(settings.query_bytes, settings.query_time, settings.query_threads, settings.result_bytes)


class Rows:
    """The result of a query: a small table in memory, or a table of the catalog."""

    def __init__(
        self, schema: TableSchema, kept: pa.Table | None, table: TableDefinition | None, total: int
    ) -> None:
        self.schema = schema
        self.kept = kept
        self.table = table
        self.total = total


class QueryJobs:
    """Runs query jobs.

    Args:
        engine: The tables, and in its settings what one query may use.
        properties: Reads the partitioning and the stored properties of a table from a configuration.
        buckets: Where EXPORT DATA writes.
        jobs: The jobs of a project, for INFORMATION_SCHEMA.
        apart: Runs queries in processes; this process does if not given.
    """

    durable = False

    def __init__(
        self,
        engine: Engine,
        properties: Properties | None = None,
        buckets: Buckets | None = None,
        jobs: Callable[[str], Sequence[Job]] = lambda _project: (),
        apart: SqlApart | None = None,
    ) -> None:
        self._jobs = jobs
        self._buckets = buckets or Buckets(None)
        self.workers = engine.settings.queries
        self._engine = engine
        self._limits = limits_of(engine.settings)
        self._properties = properties
        self._apart = apart if apart is not None and apart.can_query else None
        self._kept: OrderedDict[str, Rows] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, job: Job) -> None:
        settings = job.settings
        query = settings.get("query")
        if not isinstance(query, str) or not query.strip():
            raise invalid("Required parameter is missing: query.")
        if settings.get("useLegacySql") in (True, "true"):
            raise Refused(Code.UNIMPLEMENTED, "Legacy SQL is not supported: set useLegacySql to false.")
        for key, reason in _UNSUPPORTED.items():
            if settings.get(key):
                raise Refused(Code.UNIMPLEMENTED, f"A query with {key} is not supported. {reason}")
        if settings.get("writeDisposition") not in (None, "", *_DISPOSITIONS):
            raise invalid(
                f"Invalid value for writeDisposition: {shortened(str(settings['writeDisposition']))}."
            )
        updates = settings.get("schemaUpdateOptions")
        if updates and settings.get("writeDisposition") != "WRITE_APPEND":
            raise invalid(
                "Schema update options should only be specified with WRITE_APPEND disposition, or with "
                "WRITE_TRUNCATE disposition on a table partition."
            )
        for each in settings.get("connectionProperties") or ():
            if isinstance(each, dict) and each.get("key") == "session_id":
                raise invalid("Invalid input session id.")

    def run(self, job: Job) -> None:
        settings = job.settings
        default = settings.get("defaultDataset") or {}
        request = Request(
            settings["query"],
            settings.get("queryParameters") or [],
            default.get("projectId") or job.project,
            default.get("datasetId"),
            job.idempotency_key,
            self._limits_of(job),
            dry=job.is_dry,
            requires_filters=job.payload is not VIEW,
        )
        engine = self._engine
        try:
            with Spool(engine.results, engine.staged, self._limits.result_bytes) as spool:
                host = ServerHost(
                    engine,
                    self._buckets,
                    lambda project: job_rows(self._jobs(project)),
                    spool.keep,
                    job.check_cancelled,
                )
                with self._running(request, host, lambda: job.is_cancelled) as (outcome, rows):
                    self._conclude(job, request, outcome, spool.rows if outcome.is_kept else rows)
        except QueryError as error:
            raise as_refusal(error) from None

    @contextmanager
    def _running(
        self, request: Request, host: ServerHost, is_cancelled: Callable[[], bool]
    ) -> Iterator[tuple[Outcome, Callable[[], SentRows]]]:
        if self._apart is not None:
            with self._apart.query(request, host, is_cancelled) as found:
                yield found
            return
        # A lake in memory is known to this process only.
        session, outcome = run(request, host, is_cancelled)
        try:
            yield outcome, lambda: SentRows(outcome.schema or pa.schema([]), outcome.batches or ())
        finally:
            session.__exit__()

    def _conclude(self, job: Job, request: Request, outcome: Outcome, rows: Callable[[], SentRows]) -> None:
        """Set what the job answers, and store its rows."""
        if outcome.schema is not None:
            found = rows()
            outcome.schema, outcome.batches = found.schema, iter(found.batches)
        job.statistics = _statistics(outcome, dry=request.dry)
        if outcome.schema is None or outcome.batches is None:
            return
        if request.dry:
            job.result = Rows(from_arrow(outcome.schema), None, None, 0)
            for _ in outcome.batches:
                pass
        else:
            job.result = self._store(job, request, outcome)

    def _limits_of(self, job: Job) -> Limits:
        millis = _number(job.configuration, "jobTimeoutMs")
        billed = _number(job.settings, "maximumBytesBilled")
        most = min(self._limits.seconds, DRY_SECONDS) if job.is_dry else self._limits.seconds
        seconds = min(millis / 1000, most) if millis else most
        return replace(self._limits, seconds=seconds, billed_bytes=billed)

    # -- results -------------------------------------------------------------------------------

    def _store(self, job: Job, request: Request, outcome: Outcome) -> Rows:
        assert outcome.schema is not None
        assert outcome.batches is not None
        if job.settings.get("destinationTable") and outcome.statement == "SELECT":
            return self._destination(job, request, outcome)
        schema = from_arrow(outcome.schema)
        first: list[pa.RecordBatch] = []
        size = 0
        for batch in outcome.batches:
            first.append(batch)
            size += batch.nbytes
            if size > MAX_KEPT_BYTES:
                table = self._anonymous(job, schema, chain(first, outcome.batches))
                return self._table_rows(job, table)
        kept = pa.Table.from_batches(first, outcome.schema)
        rows = Rows(schema, kept, None, kept.num_rows)
        self._keep(job.full_id, rows)
        return rows

    def _keep(self, id: str, rows: Rows) -> None:
        """Keep a small result; the oldest are dropped when all of them are too large."""
        with self._lock:
            self._kept[id] = rows
            total = sum(each.kept.nbytes for each in self._kept.values() if each.kept is not None)
            while total > _KEPT_BYTES and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                total -= oldest.kept.nbytes if oldest.kept is not None else 0
                oldest.kept = None

    def _anonymous(self, job: Job, schema: TableSchema, batches: Iterator[pa.RecordBatch]) -> TableDefinition:
        catalog = self._engine.catalog
        dataset = DatasetName(job.project, _RESULTS)
        try:
            catalog.create_dataset(dataset)
        except Refused as refused:
            if refused.code is not Code.ALREADY_EXISTS:
                raise
        self._expire(dataset)
        name = TableName(
            job.project, _RESULTS, "anon" + hashlib.sha256(job.full_id.encode()).hexdigest()[:32]
        )
        target = Destination(self._engine, TableRef(name), CREATE[0], "WRITE_TRUNCATE")
        rows = _Rows(self._engine, None, {}, target, schema)
        target.load(Commit.of(job), rows.decide, rows.once(batches))
        return catalog.table(name, fresh=True)

    def _expire(self, dataset: DatasetName) -> None:
        """Remove results of the day before."""
        limit = int(time.time() * 1000) - _RESULT_MS
        for each in self._engine.catalog.list_tables(dataset, after="", limit=1000):
            if each.created_ms < limit:
                self._engine.catalog.delete_table(each.name)
                rows = each.open(self._engine.store)
                if rows.exists:
                    rows.drop()

    def _table_rows(self, job: Job, definition: TableDefinition) -> Rows:
        project, dataset, table = definition.name
        job.settings["destinationTable"] = {"projectId": project, "datasetId": dataset, "tableId": table}
        rows = definition.open(self._engine.store)
        head = next(rows.history(), None)
        total = 0 if head is None else rows.plan(as_of=head).row_count
        return Rows(definition.schema, None, definition, total)

    def _destination(self, job: Job, request: Request, outcome: Outcome) -> Rows:
        settings = job.settings
        given = settings["destinationTable"]
        parts = (given.get("projectId") or job.project, given["datasetId"], given["tableId"])
        assert outcome.schema is not None
        assert outcome.batches is not None
        table, _, partition = parts[2].partition("$")
        names = CatalogTables(self._engine.catalog, request.project, request.dataset)
        ref = TableRef(names.name((*parts[:2], table)), partition)
        write = settings.get("writeDisposition") or "WRITE_EMPTY"
        write = "WRITE_TRUNCATE" if write == "WRITE_TRUNCATE_DATA" else write
        target = Destination(self._engine, ref, settings.get("createDisposition") or CREATE[0], write)
        rows = _Rows(self._engine, self._properties, settings, target, from_arrow(outcome.schema))
        target.load(Commit.of(job), rows.decide, rows.once(outcome.batches))
        return self._table_rows(job, self._engine.catalog.table(ref.name, fresh=True))


class _Rows:
    """The rows of a query, and the table that takes them."""

    def __init__(
        self,
        engine: Engine,
        properties: Properties | None,
        settings: dict[str, Any],
        target: Destination,
        schema: TableSchema,
    ) -> None:
        self._engine = engine
        self._properties = properties
        self._settings = settings
        self._target = target
        self._schema = schema

    def decide(self, current: TableDefinition | None) -> TableDefinition:
        """The table as it is to be."""
        schema, catalog = self._schema, self._engine.catalog
        if current is None:
            partitioning, info = self._properties(self._settings, schema) if self._properties else (None, {})
            return catalog.draft_table(self._target.ref.name, schema, partitioning=partitioning, info=info)
        if self._target.write == "WRITE_EMPTY":
            return current if current.schema == schema else self._as_empty(current)
        if self._target.replaces_table:
            return msgspec.structs.replace(current, schema=schema)
        new = [each for each in schema if each.name.lower() not in current.schema.positions]
        if new and "ALLOW_FIELD_ADDITION" not in (self._settings.get("schemaUpdateOptions") or ()):
            raise QueryError(
                f"Invalid schema update. Cannot add fields (field: {new[0].name})",
                reason="invalid",
                location="",
            )
        for each in schema:
            place = current.schema.positions.get(each.name.lower())
            old = each if place is None else current.schema.columns[place]
            if _kind(old) != _kind(each):
                raise QueryError(
                    f"Provided Schema does not match Table {display_name(current.name)}. "
                    f"Field {each.name} has changed type from {old.type} to {each.type}",
                    reason="invalid",
                    location="",
                )
        return msgspec.structs.replace(current, schema=TableSchema((*current.schema.columns, *new)))

    def _as_empty(self, current: TableDefinition) -> TableDefinition:
        """A table without rows takes the columns of the query."""
        dataset = current.open(self._engine.store)
        head = next(dataset.history(), None)
        if head is not None and dataset.plan(as_of=head).row_count:
            raise Refused(Code.ALREADY_EXISTS, f"Already Exists: Table {display_name(current.name)}")
        return self._engine.catalog.draft_replacement(
            current, self._schema, partitioning=current.partitioning, info=current.info
        )

    def once(
        self, batches: Iterator[pa.RecordBatch]
    ) -> Callable[[TableDefinition], Iterator[pa.RecordBatch]]:
        """The rows for a destination, which can be read only once."""
        found: list[Iterator[pa.RecordBatch]] = [batches]

        def rows(wanted: TableDefinition) -> Iterator[pa.RecordBatch]:
            if not found:
                raise Refused(
                    Code.ABORTED,
                    f"Other writers have changed {wanted.name.short} meanwhile: start the job again.",
                )
            return (fitted(_spelled(each, wanted.schema), wanted.schema) for each in found.pop())

        return rows


def _kind(column: Column) -> tuple[Any, ...]:
    """What must be the same in a column and in the values that are appended to it."""
    fields = {field.name.lower(): _kind(field) for field in column.fields}
    return column.type, column.mode == "REPEATED", column.range_element, fields


def _spelled(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Rows with the names of columns as the table writes them."""
    names = [
        schema.columns[schema.positions[name.lower()]].name if name.lower() in schema.positions else name
        for name in batch.schema.names
    ]
    return batch.rename_columns(names)


def _number(settings: dict[str, Any], key: str) -> int | None:
    given = settings.get(key)
    if given in (None, ""):
        return None
    try:
        return int(given)
    except (TypeError, ValueError):
        raise invalid(f"Invalid value for {key}: {shortened(str(given))} is not a number.") from None


def as_refusal(error: QueryError) -> Refused:
    """An error of a query as the API answers it."""
    code = _CODES.get(error.reason, Code.INVALID_ARGUMENT)
    return Refused(code, str(error), reason=error.reason, location=error.location)


def _statistics(outcome: Outcome, *, dry: bool) -> dict[str, Any]:
    query: dict[str, Any] = {
        "statementType": outcome.statement,
        "totalBytesProcessed": str(outcome.bytes),
        "totalBytesBilled": "0" if dry else str(outcome.bytes),
        "cacheHit": False,
    }
    if dry:
        query["totalBytesProcessedAccuracy"] = "PRECISE"
    if outcome.schema is not None and dry:
        query["schema"] = to_rest(from_arrow(outcome.schema))
    if outcome.is_dml:
        query["numDmlAffectedRows"] = str(outcome.affected)
        query["dmlStats"] = dml_stats(outcome)
    if outcome.exported is not None:
        files, rows = outcome.exported
        query["exportDataStatistics"] = {"fileCount": str(files), "rowCount": str(rows)}
        query |= {"totalPartitionsProcessed": "0", "transferredBytes": "0"}
    if outcome.ddl_operation:
        query["ddlOperationPerformed"] = outcome.ddl_operation
    if outcome.ddl_operation and outcome.table is not None:
        project, dataset, table = outcome.table
        query["ddlTargetTable"] = {"projectId": project, "datasetId": dataset, "tableId": table}
    found: dict[str, Any] = {"totalBytesProcessed": str(outcome.bytes), "query": query}
    if outcome.children:
        found["numChildJobs"] = str(len(outcome.children))
    return found


def dml_stats(outcome: Outcome) -> dict[str, str]:
    """The numbers of rows by what happened to them."""
    counts = {"inserted": outcome.inserted, "updated": outcome.updated, "deleted": outcome.deleted}
    return {f"{name}RowCount": str(count) for name, count in counts.items() if count}
