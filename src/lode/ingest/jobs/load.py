"""Load jobs: an uploaded file, or files of a bucket, become rows of a table in one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from lode.format.ids import shortened
from lode.ingest.catalog.paths import display_name
from lode.ingest.jobs.buckets import parse_uri
from lode.ingest.jobs.destination import CREATE, WRITE, Commit, Destination, disposition
from lode.ingest.jobs.formats.remote import Files, Limits, Request
from lode.ingest.jobs.formats.source import FORMATS, TooManyErrors
from lode.ingest.jobs.schema_update import UPDATES, SchemaUpdate
from lode.ingest.jobs.tables import parse_destination
from lode.ingest.jobs.uploads import Upload
from lode.ingest.status import Code, Refused, invalid
from lode.ingest.types.rest import from_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from lode.ingest.catalog.partitioning import Partitioning
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.buckets import Buckets
    from lode.ingest.jobs.job import Job
    from lode.ingest.types.columns import TableSchema
    from lode.sandbox.processes import Processes

    Properties: TypeAlias = Callable[
        [dict[str, Any], TableSchema], tuple[Partitioning | None, dict[str, Any]]
    ]

# Options that change which rows are loaded, and that are not supported. Ignoring them would mislead.
_UNSUPPORTED: Final = {
    "hivePartitioningOptions": "rows have only the columns of the file",
    "projectionFields": "backups of Datastore are not supported",
    "jsonExtension": "GeoJSON files are not supported",
    "columnNameCharacterMap": "column names are stored as they are",
    "fileSetSpecType": "manifests of files are not read",
    "referenceFileSchemaUri": "the schema is that of the first file",
    "destinationEncryptionConfiguration": "files are encrypted as the store is set up",
    "datetimeFormat": "times are read in the formats of BigQuery",
    "dateFormat": "times are read in the formats of BigQuery",
    "timeFormat": "times are read in the formats of BigQuery",
    "timestampFormat": "times are read in the formats of BigQuery",
    "timeZone": "times without a zone are UTC",
    "nullMarkers": "give one nullMarker",
    "sourceColumnMatch": "columns of CSV match by their position",
}


class LoadJobs:
    """Runs load jobs. The file of a job is its ``payload``.

    Args:
        engine: The tables.
        properties: Reads the partitioning and the stored properties of a table from a configuration.
        buckets: The files of jobs without an upload.
        processes: Those of the server, which read the files.
    """

    durable = True

    def __init__(
        self, engine: Engine, properties: Properties, buckets: Buckets, processes: Processes
    ) -> None:
        self._engine = engine
        self._properties = properties
        self._buckets = buckets
        self._processes = processes
        settings = engine.settings
        self.workers = settings.loads
        self._limits = Limits(settings.load_bytes, settings.load_time)

    def check(self, job: Job) -> None:
        settings = job.settings
        parse_destination(settings.get("destinationTable"), job.project, "load.destinationTable")
        disposition(settings, "createDisposition", CREATE, CREATE[0])
        disposition(settings, "writeDisposition", WRITE, WRITE[0])
        if not isinstance(job.payload, Upload):
            for uri in _uris(settings):
                parse_uri(uri, "source")
        for key, reason in _UNSUPPORTED.items():
            value = settings.get(key)
            if value and value != "COLUMN_NAME_CHARACTER_MAP_UNSPECIFIED":
                raise Refused(Code.UNIMPLEMENTED, f"A load job with {key} is not supported: {reason}.")
        _format(settings)
        if settings.get("schema") is not None:
            from_rest(settings["schema"])

    def run(self, job: Job) -> None:
        settings = job.settings
        upload: Upload | None = job.payload
        files = self._buckets.find(_uris(settings)) if upload is None else [upload.path]
        given = from_rest(settings["schema"]) if (settings.get("schema") or {}).get("fields") else None
        size = sum(path.stat().st_size for path in files)
        request = Request(files, _format(settings), settings, given, size)
        try:
            with Files(self._processes, request, self._limits, lambda: job.is_cancelled) as opened:
                _Load(self._engine, self._properties, job, request, opened).run()
        except TooManyErrors as error:
            job.add_errors(error.errors)
            raise


class _Load:
    """One load job."""

    def __init__(
        self, engine: Engine, properties: Properties, job: Job, request: Request, files: Files
    ) -> None:
        self._engine = engine
        self._properties = properties
        self._job = job
        self._request = request
        self._files = files
        self._settings = settings = job.settings
        self._given = request.given
        self._target = Destination(
            engine,
            parse_destination(settings.get("destinationTable"), job.project, "load.destinationTable"),
            disposition(settings, "createDisposition", CREATE, CREATE[0]),
            disposition(settings, "writeDisposition", WRITE, WRITE[0]),
        )

    def run(self) -> None:
        snapshot = self._target.load(Commit.of(self._job), self._decide, self._rows)
        assert snapshot is not None
        bad = self._files.bad
        self._job.add_errors(bad.errors)
        self._job.statistics = {
            "load": {
                "inputFiles": str(len(self._request.paths)),
                "inputFileBytes": str(self._request.size),
                "outputRows": str(snapshot.row_count),
                "outputBytes": str(sum(file.size_bytes for file in snapshot.files)),
                "badRecords": str(bad.count),
            }
        }

    def _rows(self, wanted: TableDefinition) -> Iterator[pa.RecordBatch]:
        return self._files.batches(wanted.schema)

    def _decide(self, current: TableDefinition | None) -> TableDefinition:
        """The table that the rows are written to."""
        settings = self._settings
        if current is None:
            schema = self._given or self._files.schema().schema
            if schema is None:
                raise invalid(
                    f"No schema specified on job or table {display_name(self._target.ref.name)}: give a "
                    "schema, or set autodetect."
                )
            partitioning, info = self._properties(settings, schema)
            return self._engine.catalog.draft_table(
                self._target.ref.name, schema, partitioning=partitioning, info=info
            )
        schema = self._schema(current)
        partitioning, _ = self._properties(settings, schema)
        if partitioning is not None and partitioning != current.partitioning:
            raise invalid(
                f"Incompatible table partitioning specification for {display_name(current.name)}: leave it "
                "out, or create another table."
            )
        return msgspec.structs.replace(current, schema=schema)

    def _schema(self, current: TableDefinition) -> TableSchema:
        found = self._files.schema() if self._given is None else None
        sent = self._given if found is None else found.schema
        if sent is None or not len(sent):
            return current.schema
        if self._target.replaces_table:
            return sent
        if found is not None and not found.named:
            return current.schema
        updates = self._settings.get("schemaUpdateOptions") or []
        if not isinstance(updates, list) or not set(updates) <= set(UPDATES):
            raise invalid(f"Invalid value for schemaUpdateOptions: use some of {', '.join(UPDATES)}.")
        ignore = self._settings.get("ignoreUnknownValues") in (True, "true")
        return SchemaUpdate(current, declared=self._given is not None, updates=updates, ignore=ignore).schema(
            sent
        )


def _uris(settings: dict[str, Any]) -> list[str]:
    found = settings.get("sourceUris")
    if not found:
        raise invalid(
            "Load configuration must specify at least one source URI, or the request must upload a file."
        )
    if not isinstance(found, list) or not all(isinstance(uri, str) for uri in found):
        raise invalid("Invalid value for load.sourceUris: it must be a list of text.")
    return found


def _format(settings: dict[str, Any]) -> str:
    name = settings.get("sourceFormat") or "CSV"
    if name not in FORMATS:
        raise invalid(
            f"Invalid value for sourceFormat: {shortened(str(name))} is not one of {', '.join(FORMATS)}."
        )
    return str(name)
