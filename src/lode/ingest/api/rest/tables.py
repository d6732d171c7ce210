"""REST v2: tables insert, get, list, patch, update and delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.format.ids import shortened
from lode.ingest.api.errors import not_implemented
from lode.ingest.api.rest.call import Call, etag_of, page_token, plain, table_name
from lode.ingest.api.rest.info import TABLE, info_of, merged_info
from lode.ingest.api.rest.partitioning import partitioning_from, partitioning_to
from lode.ingest.status import invalid
from lode.ingest.types.columns import TableSchema
from lode.ingest.types.rest import from_rest, to_rest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.ingest.api.rest.contents import Contents
    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.names import TableName

_VIEWS: Final = ("TABLE_METADATA_VIEW_UNSPECIFIED", "BASIC", "STORAGE_STATS", "FULL")


class TableMethods:
    """The methods on tables, each from a call to the JSON that answers it."""

    def __init__(self, catalog: Catalog, contents: Contents) -> None:
        self._catalog = catalog
        self._contents = contents

    def insert(self, call: Call) -> dict[str, Any]:
        name = _referenced(call)
        if call.body.get("type", "TABLE") != "TABLE":
            raise not_implemented(
                f"A table of type {shortened(call.body['type'])} is not supported: only TABLE is."
            )
        info = info_of(_with_filter(call.body), TABLE, "table")
        schema = _schema(call.body)
        _check_clustering(info, schema)
        created = self._catalog.create_table(
            name, schema, partitioning=partitioning_from(call.body), info=info
        )
        return self._resource(created, call)

    def get(self, call: Call) -> dict[str, Any]:
        view = call.choice("view", _VIEWS)
        definition = self._catalog.table(call.table, fresh=True)
        shown = selected(definition.schema, call.query.get("selectedFields", ""))
        resource = self._resource(definition, call, counts=view != "BASIC")
        return resource | {"schema": to_rest(shown)}

    def list(self, call: Call) -> dict[str, Any]:
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

    def patch(self, call: Call) -> dict[str, Any]:
        return self._change(call, replace=False)

    def update(self, call: Call) -> dict[str, Any]:
        return self._change(call, replace=True)

    def delete(self, call: Call) -> None:
        self._catalog.delete_table(call.table, etag=call.etag)

    def _change(self, call: Call, *, replace: bool) -> dict[str, Any]:
        if "tableReference" in call.body and _referenced(call) != call.table:
            raise invalid("The tableReference cannot change: create another table.")

        def change(current: TableDefinition) -> TableDefinition:
            says = _says_partitioning(call.body)
            schema = current.schema if call.body.get("schema") is None else _schema(call.body)
            info = merged_info({} if replace else current.info, _with_filter(call.body), TABLE, "table")
            _check_clustering(info, schema)
            return msgspec.structs.replace(
                current,
                schema=schema,
                info=info,
                partitioning=partitioning_from(call.body) if says else current.partitioning,
            )

        return self._resource(self._catalog.update_table(call.table, change, etag=call.etag), call)

    def _resource(self, definition: TableDefinition, call: Call, *, counts: bool = True) -> dict[str, Any]:
        resource = {
            **_item(definition),
            **definition.info,
            "etag": definition.etag,
            "selfLink": call.link(str(definition.name)),
            "lastModifiedTime": str(definition.modified_ms),
            "location": self._catalog.location_of(definition.name),
            "schema": to_rest(definition.schema),
        }
        if not counts:
            return resource
        content = self._contents.of(definition)
        written = content.modified_ms or definition.modified_ms
        if definition.partitioning is not None:
            resource["numPartitions"] = str(len(content.partitions))
        return resource | {
            "lastModifiedTime": str(max(definition.modified_ms, written)),
            "numRows": str(content.rows),
            "numBytes": str(content.size),
            "numLongTermBytes": "0",
            "numTotalLogicalBytes": str(content.size),
            "numActiveLogicalBytes": str(content.size),
            "numLongTermLogicalBytes": "0",
        }


def selected(schema: TableSchema, text: str) -> TableSchema:
    """The columns that ``selectedFields`` names, separated by commas, in the order of the table."""
    wanted = {name.strip().lower() for name in text.split(",") if name.strip()}
    if not wanted:
        return schema
    for name in sorted(wanted):
        if name.partition(".")[0] not in schema.positions:
            raise invalid(f"No such field: {name}; select columns that the table has.")
        if "." in name:
            raise not_implemented(f"Selecting {name} is not supported: select the whole column instead.")
    return TableSchema(tuple(column for column in schema if column.name.lower() in wanted))


def _referenced(call: Call) -> TableName:
    reference = call.body.get("tableReference")
    if not isinstance(reference, dict) or not isinstance(reference.get("tableId"), str):
        raise invalid("Required parameter is missing: tableReference.tableId.")
    project, dataset = call.dataset
    if (reference.get("projectId", project), reference.get("datasetId", dataset)) != call.dataset:
        raise invalid(
            f"The tableReference names another dataset than the path: give {project}:{dataset} in both."
        )
    return table_name(project, dataset, reference["tableId"])


def _schema(body: Mapping[str, Any]) -> TableSchema:
    schema = body.get("schema")
    return from_rest({} if schema is None else plain(schema, "The schema"))


def _with_filter(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body with ``requirePartitionFilter`` where it belongs; older clients send it inside."""
    inner = body.get("timePartitioning")
    if not isinstance(inner, dict) or "requirePartitionFilter" not in inner:
        return body
    return {"requirePartitionFilter": inner["requirePartitionFilter"], **body}


def _says_partitioning(body: Mapping[str, Any]) -> bool:
    return bool(body.get("timePartitioning") or body.get("rangePartitioning"))


def _check_clustering(info: Mapping[str, Any], schema: TableSchema) -> None:
    """Clustering is kept as what readers may expect of the order; the columns must be there."""
    if "clustering" not in info:
        return
    fields = info["clustering"].get("fields")
    if (
        info["clustering"].keys() != {"fields"}
        or not isinstance(fields, list)
        or not all(isinstance(field, str) for field in fields)
    ):
        raise invalid("Invalid value for clustering: its fields must be a list of columns.")
    for field in fields:
        if field.lower() not in schema.positions:
            raise invalid(
                f"The table cannot be clustered by {shortened(field)}: there is no column of that name, "
                "add it to the schema."
            )


def _item(definition: TableDefinition) -> dict[str, Any]:
    project, dataset, table = definition.name
    item = {
        "kind": "bigquery#table",
        "id": f"{project}:{dataset}.{table}",
        "tableReference": {"projectId": project, "datasetId": dataset, "tableId": table},
        "type": "TABLE",
        "creationTime": str(definition.created_ms),
        **partitioning_to(definition.partitioning),
    }
    shown = ("friendlyName", "labels", "clustering", "requirePartitionFilter")
    return item | {key: definition.info[key] for key in shown if key in definition.info}
