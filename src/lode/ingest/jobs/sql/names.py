"""Finds the tables of a query in the catalog."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.catalog.partitioning import PARTITION_ID, TimePartitioning
from lode.ingest.jobs.sql.information import information
from lode.ingest.names import TableName, parse_table
from lode.ingest.status import Code, Refused
from lode.lazy import pa
from lode.sql.engine import WILDCARD, Source
from lode.sql.errors import QueryError
from lode.sql.numbered import narrow
from lode.sql.parser import parse_one
from lode.sql.rows import ScanRows

if TYPE_CHECKING:
    import datetime

    from lode.dataset import Dataset
    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.jobs.sql.information import View
    from lode.read.scan import Scan

_PROCEDURE: Final = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?PROCEDURE\b", re.IGNORECASE)
_DATASET_ID: Final = re.compile(r"[\w-]{1,1024}")


class CatalogTables:
    """The tables of a project for one query. Implements ``Resolver``."""

    def __init__(self, catalog: Catalog, project: str, dataset: str | None) -> None:
        self.catalog = catalog
        self.project = project
        self.dataset = dataset
        self.requires_filters = True
        # Views of INFORMATION_SCHEMA that others make.
        self.views: dict[str, View] = {}
        # Tables that the query itself created, by their name in lower case.
        self.temporary: dict[str, pa.Table] = {}
        # Snapshots that a statement reads instead of the newest, by the dataset of the table.
        self.pinned: dict[str, Scan] = {}

    def name(self, parts: tuple[str, ...]) -> TableName:
        """The full name of a table."""
        path = [piece for part in parts for piece in (part.split(".") if "." in part else [part])]
        if len(path) == 1 and self.dataset is None:
            raise QueryError(
                f'Table "{path[0]}" must be qualified with a dataset (e.g. dataset.table).', reason="invalid"
            )
        given = [self.project, self.dataset or "", ""]
        given[3 - len(path[-3:]) :] = path[-3:]
        if _DATASET_ID.fullmatch(given[1]) is None:
            raise QueryError(
                f'Invalid dataset ID "{given[1]}". Dataset IDs must be alphanumeric (plus underscores and '
                "dashes) and must be at most 1024 characters long.",
                reason="invalid",
                location=f"{given[1]}.{given[2]}",
            )
        try:
            return parse_table(str(TableName(*given)))
        except Refused as refused:
            raise as_query_error(refused) from None

    def table(self, parts: tuple[str, ...], as_of: datetime.datetime | None) -> Source:
        if len(parts) == 1 and parts[0].lower() in self.temporary:
            rows = self.temporary[parts[0].lower()]
            return Source(rows, rows.schema, rows.nbytes)
        try:
            found = information(self.catalog, self.project, parts, self.views)
        except Refused as refused:
            raise as_query_error(refused) from None
        if found is not None:
            return Source(found, found.schema)
        name = self.name(parts)
        if name.table.endswith("*"):
            return self._wildcard(name)
        return self.source(self.definition(name), as_of)

    def routine(self, parts: tuple[str, ...]) -> str | None:
        """The statement that created a routine of a dataset; None if there is none."""
        *path, name = (piece for part in parts for piece in part.split("."))
        if not path and self.dataset is not None:
            path = [self.dataset]
        if len(path) not in (1, 2):
            return None
        try:
            dataset = self.catalog.dataset(DatasetName(path[0] if len(path) > 1 else self.project, path[-1]))
        except Refused:
            return None
        return dataset.routines.get(name.lower())

    def function(self, parts: tuple[str, ...]) -> exp.Create | None:
        """The statement that created a function of a dataset; None if there is none."""
        text = self.routine(parts)
        found = parse_one(text) if text is not None and not is_procedure(text) else None
        return found if isinstance(found, exp.Create) else None

    def definition(self, name: TableName) -> TableDefinition:
        try:
            return self.catalog.table(name, fresh=True)
        except Refused as refused:
            if refused.code is not Code.NOT_FOUND:
                raise as_query_error(refused) from None
            raise self.missing(name) from None

    def missing(self, name: TableName) -> QueryError:
        """The error of a table that does not exist, or whose dataset does not."""
        shown = f"{name.project}:{name.dataset}"
        try:
            self.catalog.dataset(DatasetName(name.project, name.dataset))
        except Refused:
            if name.project != self.project:
                table = f"{shown}.{name.table}"
                return QueryError(
                    f"Access Denied: Table {table}: User does not have permission to query table {table}, or "
                    "perhaps it does not exist.",
                    reason="accessDenied",
                    location="",
                )
            return QueryError(
                f"Not found: Dataset {shown} was not found in location {self.catalog.location}",
                reason="notFound",
                location="",
            )
        return QueryError(
            f"Not found: Table {shown}.{name.table} was not found in location {self.catalog.location}",
            reason="notFound",
            location="",
        )

    def source(self, definition: TableDefinition, as_of: datetime.datetime | None = None) -> Source:
        """The rows of a table, read in place as far as the query needs them."""
        if "view" in definition.info:
            return Source(None, definition.schema.arrow, query=definition.info["view"]["query"])
        schema = definition.schema.arrow
        pseudo = pseudo_columns(definition)
        filtered = definition.filtered_columns if self.requires_filters else ()
        required: Any = {"filtered": filtered, "name": definition.name.short}
        scan = self.pinned.get(definition.dataset_id) if as_of is None else None
        if scan is None:
            dataset = definition.open(self.catalog.store)
            head = _head(dataset, as_of)
            if head is None:
                whole = pa.schema([*schema, pa.field(PARTITION_ID, pa.string())]) if pseudo else schema
                return Source(narrow(whole).empty_table(), schema, 0, pseudo, **required)
            scan = dataset.plan(as_of=head)
        return Source(ScanRows(scan), schema, scan.size_bytes, pseudo, **required)

    def _wildcard(self, name: TableName) -> Source:
        """All tables whose name begins alike, with the rest of their names as _TABLE_SUFFIX."""
        prefix = name.table[:-1]
        found = [
            each
            for each in self.catalog.list_tables(
                DatasetName(name.project, name.dataset), after="", limit=10_000
            )
            if each.name.table.startswith(prefix) and each.kind == "TABLE"
        ]
        if not found:
            raise QueryError(
                f"{name.project}:{name.dataset}.{name.table} does not match any table.", reason="invalid"
            )
        newest = max(found, key=lambda each: each.created_ms)
        schema = newest.schema.arrow
        parts = tuple(
            (
                each.name.table[len(prefix) :],
                replace(self.source(each), schema=schema, pseudo={}, filtered=()),
            )
            for each in found
        )
        return Source(
            None,
            schema,
            pseudo={WILDCARD: ""},
            filtered=newest.filtered_columns if self.requires_filters else (),
            name=f"{name.project}.{name.dataset}.{name.table}",
            parts=parts,
        )


def is_procedure(text: str) -> bool:
    """Whether a statement creates a procedure."""
    return _PROCEDURE.match(text) is not None


def as_query_error(refused: Refused) -> QueryError:
    """The refusal of the catalog as an error of a query."""
    if refused.code is Code.NOT_FOUND:
        message = refused.message
        if "was not found" not in message:
            message = f"{message.rstrip('.')} was not found in location US"
        return QueryError(message, reason="notFound", location="")
    return QueryError(refused.message, reason="invalid", location="")


def _head(dataset: Dataset, as_of: datetime.datetime | None) -> Any:
    for snapshot in dataset.history():
        if as_of is None or snapshot.created_at <= as_of:
            return snapshot
    return None


def pseudo_columns(definition: TableDefinition) -> dict[str, str]:
    """The pseudo columns of a table that is partitioned by the time of arrival."""
    match definition.partitioning:
        case TimePartitioning(unit=unit, column=""):
            form = {"HOUR": "%Y%m%d%H", "DAY": "%Y%m%d", "MONTH": "%Y%m", "YEAR": "%Y"}[unit]
            moment = f"timezone('UTC', strptime(\"{PARTITION_ID}\", '{form}'))"
            return {
                "_PARTITIONTIME": moment,
                "_PARTITIONDATE": f"CAST(strptime(\"{PARTITION_ID}\", '{form}') AS DATE)",
            }
    return {}
