"""INFORMATION_SCHEMA: the datasets, tables and columns of the catalog as tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.catalog.partitioning import RangePartitioning, TimePartitioning
from lode.lazy import pa
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.dataset import DatasetDefinition
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.types.columns import Column

    # The rows of a project, or of one of its datasets; None if the view does not exist there.
    View = Callable[[str, str | None], pa.Table | None]
    Rows = Callable[[Catalog, str, str | None], Iterator[tuple[Any, ...]]]

_MARK: Final = "INFORMATION_SCHEMA"


def information(
    catalog: Catalog, own: str, parts: tuple[str, ...], more: Mapping[str, View]
) -> pa.Table | None:
    """The table of INFORMATION_SCHEMA that a name means; None if it means another table.

    Args:
        catalog: The tables.
        own: The project of names without one.
        parts: The name.
        more: Views that do not come from the definitions of tables.
    """
    path = [piece for part in parts for piece in part.split(".")]
    upper = [piece.upper() for piece in path]
    if _MARK not in upper:
        return None
    at = upper.index(_MARK)
    view = upper[at + 1] if len(upper) > at + 1 else ""
    before = path[:at]
    project: str = own
    dataset: str | None = None
    if before and before[-1].lower().startswith("region-"):
        project = before[-2] if len(before) > 1 else project
    elif before:
        dataset = before[-1]
        project = before[-2] if len(before) > 1 else project
    made = more[view](project, dataset) if view in more else None
    if made is not None:
        return made
    if view not in VIEWS:
        where = ".".join([*before, _MARK, view])
        raise QueryError(
            f"Not found: Table {project}:{where} was not found in location US", reason="notFound", location=""
        )
    columns, rows = VIEWS[view]
    return as_table(columns, list(rows(catalog, project, dataset)))


def as_table(columns: Mapping[str, str], found: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows as a table, whose columns have the given names and types."""
    types = {
        "text": pa.string(),
        "int": pa.int64(),
        "bool": pa.bool_(),
        "time": pa.timestamp("us", "UTC"),
        "float": pa.float64(),
    }
    arrays = [
        pa.array([row[number] for row in found], types[kind]) for number, kind in enumerate(columns.values())
    ]
    return pa.table(arrays, names=list(columns))


def datasets(catalog: Catalog, project: str) -> Iterator[DatasetDefinition]:
    """All datasets of a project that are not hidden."""
    after = ""
    while True:
        found = catalog.list_datasets(project, after=after, limit=1000, hidden=False)
        yield from found
        if len(found) < 1000:
            return
        after = found[-1].name.dataset


def _tables(catalog: Catalog, project: str, dataset: str | None) -> Iterator[TableDefinition]:
    names = [dataset] if dataset else [each.name.dataset for each in datasets(catalog, project)]
    for name in names:
        catalog.dataset(DatasetName(project, name))
        after = ""
        while True:
            found = catalog.list_tables(DatasetName(project, name), after=after, limit=1000)
            yield from found
            if len(found) < 1000:
                break
            after = found[-1].name.table


def _schemata(catalog: Catalog, project: str, _dataset: str | None) -> Iterator[tuple[Any, ...]]:
    for each in datasets(catalog, project):
        yield (
            project,
            each.name.dataset,
            None,
            _moment(each.created_ms),
            _moment(each.modified_ms),
            catalog.location_of(each.name),
            None,
            None,
        )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _kind(definition: TableDefinition) -> str:
    if "materializedView" in definition.info:
        return "MATERIALIZED VIEW"
    return "VIEW" if "view" in definition.info else "BASE TABLE"


def _table_rows(catalog: Catalog, project: str, dataset: str | None) -> Iterator[tuple[Any, ...]]:
    for each in _tables(catalog, project, dataset):
        base = _kind(each) == "BASE TABLE"
        yield (
            *each.name,
            _kind(each),
            None,
            "YES" if base else "NO",
            "NO",
            "NO",
            _moment(each.created_ms),
            None,
            None,
            None,
            None,
            None,
            None,
            None,
            ddl(each),
            None,
            None,
        )


def type_text(column: Column) -> str:
    """The type of a column as SQL writes it."""
    if column.type == "STRUCT":
        inner = ", ".join(f"{each.name} {type_text(each)}" for each in column.fields)
        made = f"STRUCT<{inner}>"
    elif column.type == "RANGE":
        made = f"RANGE<{column.range_element}>"
    elif column.precision:
        made = f"{column.type}({column.precision}{f', {column.scale}' if column.scale else ''})"
    elif column.max_length:
        made = f"{column.type}({column.max_length})"
    else:
        made = column.type
    return f"ARRAY<{made}>" if column.mode == "REPEATED" else made


def ddl(definition: TableDefinition) -> str:
    """The statement that would create the table."""
    project, dataset, table = definition.name
    lines = ",\n".join(
        f"  {each.name} {type_text(each)}{' NOT NULL' if each.mode == 'REQUIRED' else ''}"
        for each in definition.schema
    )
    return f"CREATE TABLE `{project}.{dataset}.{table}`\n(\n{lines}\n);"


def _is_partitioning(definition: TableDefinition, column: Column) -> bool:
    found = definition.partitioning
    return found is not None and found.column.lower() == column.name.lower()


def _column_rows(catalog: Catalog, project: str, dataset: str | None) -> Iterator[tuple[Any, ...]]:
    for each in _tables(catalog, project, dataset):
        clustering = [name.lower() for name in each.info.get("clustering", {}).get("fields", ())]
        for number, column in enumerate(each.schema, 1):
            place = clustering.index(column.name.lower()) + 1 if column.name.lower() in clustering else None
            yield (
                *each.name,
                column.name,
                number,
                "NO" if column.mode == "REQUIRED" else "YES",
                type_text(column),
                "NEVER",
                None,
                None,
                "NO",
                None,
                "NO",
                "YES" if _is_partitioning(each, column) else "NO",
                place,
                "NULL",
                column.default or "NULL",
                None,
            )


def _paths(column: Column, prefix: str) -> Iterator[tuple[str, Column]]:
    path = f"{prefix}{column.name}"
    yield path, column
    for child in column.fields:
        yield from _paths(child, f"{path}.")


def _field_rows(catalog: Catalog, project: str, dataset: str | None) -> Iterator[tuple[Any, ...]]:
    for each in _tables(catalog, project, dataset):
        for column in each.schema:
            for path, found in _paths(column, ""):
                yield (
                    *each.name,
                    column.name,
                    path,
                    type_text(found),
                    found.description or None,
                    "NULL",
                    None,
                )


def _option_rows(catalog: Catalog, project: str, dataset: str | None) -> Iterator[tuple[Any, ...]]:
    for each in _tables(catalog, project, dataset):
        for name, kind, value in options(each):
            yield (*each.name, name, kind, value)


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def options(definition: TableDefinition) -> Iterator[tuple[str, str, str]]:
    """The options of a table: name, type and value as SQL writes it."""
    info = definition.info
    if info.get("description"):
        yield "description", "STRING", _quoted(info["description"])
    if info.get("friendlyName"):
        yield "friendly_name", "STRING", _quoted(info["friendlyName"])
    if info.get("labels"):
        pairs = ", ".join(
            f"STRUCT({_quoted(key)}, {_quoted(value)})" for key, value in sorted(info["labels"].items())
        )
        yield "labels", "ARRAY<STRUCT<STRING, STRING>>", f"[{pairs}]"
    if info.get("requirePartitionFilter"):
        yield "require_partition_filter", "BOOL", "true"


def _partition_rows(catalog: Catalog, project: str, dataset: str | None) -> Iterator[tuple[Any, ...]]:
    for each in _tables(catalog, project, dataset):
        yield from (
            (*each.name, id, rows, size, modified, "ACTIVE")
            for id, rows, size, modified in partitions(catalog, each)
        )


def partitions(
    catalog: Catalog, definition: TableDefinition
) -> list[tuple[str | None, int, int, datetime | None]]:
    """The partitions of a table: id, rows, bytes, and when it was changed."""
    from lode.format.paths import partition_values

    dataset = definition.open(catalog.store)
    head = next(dataset.history(), None)
    if head is None:
        return []
    found: dict[str | None, list[int]] = {}
    layout = dataset.layout
    for manifest in dataset.plan(as_of=head).manifests:
        for file in manifest.files:
            id: str | None = None
            if definition.partitioning is not None:
                value = next(
                    iter(partition_values(layout.partition_of(dataset.id, file.path)).values()), None
                )
                id = (
                    "__NULL__" if value is None else value.replace("-", "") if _is_date(definition) else value
                )
            counts = found.setdefault(id, [0, 0])
            counts[0] += file.stats.row_count if file.stats else 0
            counts[1] += file.size_bytes
    return [
        (id, rows, size, head.created_at)
        for id, (rows, size) in sorted(found.items(), key=lambda each: each[0] or "")
    ]


def _is_date(definition: TableDefinition) -> bool:
    match definition.partitioning:
        case TimePartitioning():
            return True
        case RangePartitioning():
            return False
    return False


def _view_rows(catalog: Catalog, project: str, dataset: str | None) -> Iterator[tuple[Any, ...]]:
    for each in _tables(catalog, project, dataset):
        if "view" in each.info:
            yield (*each.name, each.info["view"]["query"], None, "YES")


_NAMES: Final = {"table_catalog": "text", "table_schema": "text", "table_name": "text"}
VIEWS: Final[dict[str, tuple[dict[str, str], Rows]]] = {
    "SCHEMATA": (
        {
            "catalog_name": "text",
            "schema_name": "text",
            "schema_owner": "text",
            "creation_time": "time",
            "last_modified_time": "time",
            "location": "text",
            "ddl": "text",
            "default_collation_name": "text",
        },
        _schemata,
    ),
    "TABLES": (
        {
            **_NAMES,
            "table_type": "text",
            "managed_table_type": "text",
            "is_insertable_into": "text",
            "is_fine_grained_mutations_enabled": "text",
            "is_typed": "text",
            "creation_time": "time",
            "base_table_catalog": "text",
            "base_table_schema": "text",
            "base_table_name": "text",
            "snapshot_time_ms": "time",
            "replica_source_catalog": "text",
            "replica_source_schema": "text",
            "replica_source_name": "text",
            "ddl": "text",
            "default_collation_name": "text",
            "upsert_stream_apply_watermark": "time",
        },
        _table_rows,
    ),
    "COLUMNS": (
        {
            **_NAMES,
            "column_name": "text",
            "ordinal_position": "int",
            "is_nullable": "text",
            "data_type": "text",
            "is_generated": "text",
            "generation_expression": "text",
            "is_stored": "text",
            "is_hidden": "text",
            "is_updatable": "text",
            "is_system_defined": "text",
            "is_partitioning_column": "text",
            "clustering_ordinal_position": "int",
            "collation_name": "text",
            "column_default": "text",
            "rounding_mode": "text",
        },
        _column_rows,
    ),
    "COLUMN_FIELD_PATHS": (
        {
            **_NAMES,
            "column_name": "text",
            "field_path": "text",
            "data_type": "text",
            "description": "text",
            "collation_name": "text",
            "rounding_mode": "text",
        },
        _field_rows,
    ),
    "TABLE_OPTIONS": (
        {**_NAMES, "option_name": "text", "option_type": "text", "option_value": "text"},
        _option_rows,
    ),
    "PARTITIONS": (
        {
            **_NAMES,
            "partition_id": "text",
            "total_rows": "int",
            "total_logical_bytes": "int",
            "last_modified_time": "time",
            "storage_tier": "text",
        },
        _partition_rows,
    ),
    "VIEWS": (
        {**_NAMES, "view_definition": "text", "check_option": "text", "use_standard_sql": "text"},
        _view_rows,
    ),
}
