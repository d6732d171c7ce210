"""REST v2: tables insert, get, list, patch, update and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from lode.format.ids import shortened
from lode.ingest.api.errors import not_implemented
from lode.ingest.api.rest.call import PARTITIONS_SUMMARY, RestCall, etag_of, page_token, table_name
from lode.ingest.api.rest.resources import (
    TableReference,
    TableResource,
    parse_resource,
    partitioning_properties,
)
from lode.ingest.catalog.keys import check_keys
from lode.ingest.catalog.partitioning import check_partitioning
from lode.ingest.jobs.job import VIEW
from lode.ingest.jobs.tables import TableRef, rows_of_partition
from lode.ingest.status import invalid
from lode.ingest.types.columns import Column, TableSchema
from lode.ingest.types.intervals import canonical_interval
from lode.ingest.types.rest import from_rest, to_rest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.ingest.api.rest.contents import ContentCache
    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.partitioning import Partitioning
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.jobs.registry import Jobs
    from lode.ingest.names import TableName

_VIEWS: Final = ("TABLE_METADATA_VIEW_UNSPECIFIED", "BASIC", "STORAGE_STATS", "FULL")
# The columns of the table of a table's partitions.
SUMMARY: Final = TableSchema(
    tuple(
        Column(name, kind)
        for name, kind in (
            ("project_id", "STRING"),
            ("dataset_id", "STRING"),
            ("table_id", "STRING"),
            ("partition_id", "STRING"),
            ("creation_time", "INT64"),
            ("last_modified_time", "INT64"),
        )
    )
)
_VIEW_INFO: Final[tuple[str, ...]] = ("view", "materializedView")
_LISTED_INFO: Final = ("friendlyName", "labels", "clustering", "requirePartitionFilter", "expirationTime")


class TableMethods:
    """The methods on tables. Each returns the JSON of the answer."""

    def __init__(self, catalog: Catalog, contents: ContentCache, jobs: Jobs) -> None:
        self._catalog = catalog
        self._contents = contents
        self._jobs = jobs

    def insert(self, call: RestCall) -> dict[str, Any]:
        view = call.body.pop("view", None)
        resource = parse_resource(call.body, TableResource)
        name = _referenced(resource, call)
        if resource.type not in (UNSET, "VIEW" if view else "TABLE"):
            raise not_implemented(
                f"A table of type {shortened(resource.type)} is not supported: only TABLE and VIEW are."
            )
        schema = from_rest({} if resource.schema in (UNSET, None) else resource.schema)
        if view:
            schema, view = self._viewed(call, view)
        info = _checked_info(resource, {"view": view} if view else {}, schema)
        created = self._catalog.create_table(name, schema, partitioning=resource.partitioning(), info=info)
        return self._answer(created, call)

    def get(self, call: RestCall) -> dict[str, Any]:
        if (name := call.summarized()) is not None:
            return self._summary(self._catalog.table(name, fresh=True), call)
        view = call.choice("view", _VIEWS)
        ref = call.table_ref
        definition = self._catalog.table(ref.name, fresh=True)
        fields = call.query.get("selectedFields", "")
        shown = select_columns(definition.schema, fields, definition.readable)
        answer = self._answer(definition, call, counts=view != "BASIC", ref=ref) | {"schema": to_rest(shown)}
        if ref.partition:
            answer["id"] += f"${ref.partition}"
            answer["tableReference"]["tableId"] += f"${ref.partition}"
        return answer

    def list(self, call: RestCall) -> dict[str, Any]:
        after, limit = call.page()
        found = self._catalog.list_tables(call.dataset, after=after, limit=limit)
        answer: dict[str, Any] = {"kind": "bigquery#tableList", "etag": etag_of(found)}
        if found:
            answer["tables"] = [_item(definition) for definition in found]
        if len(found) == limit:
            answer["nextPageToken"] = page_token(found[-1].name.table)
        elif not after:
            answer["totalItems"] = len(found)
        return answer

    def delete(self, call: RestCall) -> None:
        ref = call.table_ref
        if not ref.partition:
            self._catalog.delete_table(ref.name, etag=call.etag)
            return
        definition = self._catalog.table(ref.name, fresh=True)
        dataset = definition.open(self._catalog.store)
        if dataset.exists:
            dataset.delete(rows_of_partition(ref, definition), on_conflict="redo")

    def test_permissions(self, call: RestCall) -> dict[str, Any]:
        """Return all permissions that were asked for: a client with the server's token may do everything."""
        self._catalog.table(call.table, fresh=True)
        wanted = call.body.get("permissions")
        if not isinstance(wanted, list) or not all(isinstance(each, str) for each in wanted):
            raise invalid("Invalid value for permissions: it must be a list of names.")
        return {"permissions": wanted}

    def change(self, call: RestCall, *, replace: bool) -> dict[str, Any]:
        """Merge the body into the resource, as PATCH does; or replace it, as PUT does."""
        view = call.body.pop("view", None)
        resource = parse_resource(call.body, TableResource)
        if resource.table_reference and _referenced(resource, call) != call.table:
            raise invalid("The tableReference cannot change: create another table.")
        new_schema = None if resource.schema in (UNSET, None) else from_rest(resource.schema)
        if view:
            new_schema, view = self._viewed(call, view)

        def change(current: TableDefinition) -> TableDefinition:
            if view and current.kind != "VIEW":
                raise invalid("A table cannot become a view: delete it, then create the view.")
            schema = current.schema if new_schema is None else new_schema
            # PUT replaces the properties; what makes it a view stays.
            left = _VIEW_INFO if replace else tuple(current.info)
            kept = {key: current.info[key] for key in left if key in current.info}
            return msgspec.structs.replace(
                current,
                schema=schema,
                info=_checked_info(resource, {**kept, "view": view} if view else kept, schema),
                partitioning=resource.partitioning(None if replace else current.partitioning)
                or current.partitioning,
            )

        changed = self._catalog.update_table(call.table, change, etag=call.etag, replace_schema=bool(view))
        return self._answer(changed, call)

    def _viewed(self, call: RestCall, view: Any) -> tuple[TableSchema, dict[str, Any]]:
        """The columns of a view, and what is stored of it. Its query is checked and not run."""
        if not isinstance(view, dict) or not isinstance(view.get("query"), str):
            raise invalid("Invalid value for view: it must be an object with a query.")
        settings = {"query": view["query"], "useLegacySql": view.get("useLegacySql") or False}
        job = self._jobs.check(call.project, {"query": settings}, payload=VIEW, client=call.client)
        if job.statistics["query"]["statementType"] != "SELECT":
            raise invalid("Invalid value for view.query: it must be one SELECT.")
        return job.result.schema, settings

    def _summary(self, definition: TableDefinition, call: RestCall) -> dict[str, Any]:
        """The table of the partitions of a table, which clients read to list them."""
        project, dataset, table = definition.name
        id = table + PARTITIONS_SUMMARY
        return {
            "kind": "bigquery#table",
            "id": f"{project}:{dataset}.{id}",
            "etag": definition.etag,
            "selfLink": call.link(f"projects/{project}/datasets/{dataset}/tables/{id}"),
            "tableReference": {"projectId": project, "datasetId": dataset, "tableId": id},
            "type": "TABLE",
            "schema": to_rest(SUMMARY),
        }

    def _answer(
        self, definition: TableDefinition, call: RestCall, *, counts: bool = True, ref: TableRef | None = None
    ) -> dict[str, Any]:
        modified_ms = definition.modified_ms
        more: dict[str, str] = {}
        if counts:
            content = self._contents.of(definition)
            if ref is not None and ref.partition:
                content = self._contents.in_partition(definition, content, content.rows, ref)
            modified_ms = max(modified_ms, content.modified_ms)
            more = {
                "num_rows": str(content.rows),
                "num_bytes": str(content.size),
                "num_long_term_bytes": "0",
                "num_total_logical_bytes": str(content.size),
                "num_active_logical_bytes": str(content.size),
                "num_long_term_logical_bytes": "0",
            }
            if definition.partitioning is not None:
                more["num_partitions"] = str(len(content.partitions))
        answer = _item(
            definition,
            etag=definition.etag,
            self_link=call.link(str(definition.name)),
            last_modified_time=str(modified_ms),
            location=self._catalog.location_of(definition.name),
            schema=to_rest(definition.schema),
            **more,
        )
        return answer | definition.info


def table_properties(
    configuration: Mapping[str, Any], schema: TableSchema
) -> tuple[Partitioning | None, dict[str, Any]]:
    """Return the partitioning and the stored properties of a table that a job creates."""
    named = ("timePartitioning", "rangePartitioning", "clustering")
    body = {key: configuration[key] for key in named if configuration.get(key)}
    resource = parse_resource(body | (configuration.get("destinationTableProperties") or {}), TableResource)
    partitioning = resource.partitioning()
    checked = None if partitioning is None else check_partitioning(partitioning, schema)
    return checked, _checked_info(resource, {}, schema)


def select_columns(shown: TableSchema, text: str, readable: TableSchema | None = None) -> TableSchema:
    """Return the columns that ``selectedFields`` names, separated by commas, in the order of the table.

    Args:
        shown: The columns if it names none.
        text: The value of ``selectedFields``.
        readable: The columns that can be named, if there are more.
    """
    wanted = {name.strip().lower() for name in text.split(",") if name.strip()}
    if not wanted:
        return shown
    schema = readable or shown
    for name in sorted(wanted):
        if name.partition(".")[0] not in schema.positions:
            raise invalid(f"No such field: {name}; select columns that the table has.")
        if "." in name:
            raise not_implemented(f"Selecting {name} is not supported: select the whole column instead.")
    return TableSchema(tuple(column for column in schema if column.name.lower() in wanted))


def _referenced(resource: TableResource, call: RestCall) -> TableName:
    reference = resource.table_reference
    if not reference:
        raise invalid("Required parameter is missing: tableReference.tableId.")
    project, dataset = call.dataset
    if reference.project_id not in (UNSET, project) or reference.dataset_id not in (UNSET, dataset):
        raise invalid(
            f"The tableReference names another dataset than the path: give {project}:{dataset} in both."
        )
    return table_name(project, dataset, reference.table_id)


def _checked_info(resource: TableResource, current: Mapping[str, Any], schema: TableSchema) -> dict[str, Any]:
    """Return the stored properties. Clustering is only a hint for readers. All columns must exist."""
    info = resource.merged_info(current)
    for field in info.get("clustering", {}).get("fields", ()):
        if field.lower() not in schema.positions:
            raise invalid(
                f"The table cannot be clustered by {shortened(field)}: there is no column of that name, "
                "add it to the schema."
            )
    check_keys(info.get("tableConstraints", {}), schema)
    if "maxStaleness" in info:
        try:
            canonical_interval(info["maxStaleness"])
        except ValueError as error:
            raise invalid(f"Invalid value for maxStaleness: {info['maxStaleness']!r} {error}.") from None
    return info


def _item(definition: TableDefinition, **more: Any) -> dict[str, Any]:
    """Return a table as lists have it."""
    project, dataset, table = definition.name
    item = TableResource(
        kind="bigquery#table",
        id=f"{project}:{dataset}.{table}",
        table_reference=TableReference(project_id=project, dataset_id=dataset, table_id=table),
        type="VIEW" if "view" in definition.info else "TABLE",
        creation_time=str(definition.created_ms),
        **partitioning_properties(definition.partitioning),
        **more,
    )
    info = {key: definition.info[key] for key in _LISTED_INFO if key in definition.info}
    answer: dict[str, Any] = msgspec.to_builtins(item)
    return answer | info
