"""What CREATE and ALTER declare: columns, keys, partitioning and options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from sqlglot import exp

from lode.ingest.catalog.keys import check_keys
from lode.ingest.catalog.partitioning import RangePartitioning, TimePartitioning
from lode.ingest.types.columns import Column, TableSchema
from lode.sql.errors import QueryError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lode.ingest.catalog.partitioning import Partitioning
    from lode.ingest.names import TableName

    # The value of an expression, cast to a type.
    Evaluate = Callable[[exp.Expression, str], Any]

_DAY_MS: Final = 24 * 3600 * 1000
_TYPES: Final = {
    "BIGINT": "INT64",
    "INT": "INT64",
    "TEXT": "STRING",
    "VARCHAR": "STRING",
    "DOUBLE": "FLOAT64",
    "FLOAT": "FLOAT64",
    "BOOLEAN": "BOOL",
    "BINARY": "BYTES",
    "VARBINARY": "BYTES",
    "DECIMAL": "NUMERIC",
    "BIGDECIMAL": "BIGNUMERIC",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMP": "DATETIME",
    "DATETIME": "DATETIME",
    "DATE": "DATE",
    "TIME": "TIME",
    "JSON": "JSON",
    "GEOGRAPHY": "GEOGRAPHY",
    "INTERVAL": "INTERVAL",
}
# Options by their names in REST. Some are stored as another type.
_TABLE_OPTIONS: Final = {
    "description": "description",
    "friendly_name": "friendlyName",
    "labels": "labels",
    "require_partition_filter": "requirePartitionFilter",
    "expiration_timestamp": "expirationTime",
    "max_staleness": "maxStaleness",
    "partition_expiration_days": "",
}
# Views are always computed anew, so these have no effect.
_VIEW_OPTIONS: Final = {
    **_TABLE_OPTIONS,
    **dict.fromkeys(("enable_refresh", "refresh_interval_minutes", "allow_non_incremental_definition"), ""),
}
_DATASET_OPTIONS: Final = {
    "description": "description",
    "friendly_name": "friendlyName",
    "labels": "labels",
    "default_table_expiration_days": "defaultTableExpirationMs",
    "default_partition_expiration_days": "defaultPartitionExpirationMs",
}
OPTIONS: Final = {"TABLE": _TABLE_OPTIONS, "VIEW": _VIEW_OPTIONS, "SCHEMA": _DATASET_OPTIONS}
_CLAUSES: Final = (
    exp.ClusterProperty,
    exp.ClusteredByProperty,
    exp.LikeProperty,
    exp.LocationProperty,
    exp.MaterializedProperty,
    exp.PartitionedByProperty,
    exp.TemporaryProperty,
)


class Declared(NamedTuple):
    """The partitioning and the stored properties of a statement. A property that is None is to be removed."""

    partitioning: Partitioning | None
    info: dict[str, Any]
    # Of partition_expiration_days; None without it.
    expiration_ms: int | None

    def applied(
        self, partitioning: Partitioning | None, info: Mapping[str, Any]
    ) -> tuple[Partitioning | None, dict[str, Any]]:
        """The partitioning and the properties of a table after the statement."""
        merged = {key: value for key, value in {**info, **self.info}.items() if value is not None}
        if self.expiration_ms is None:
            return partitioning, merged
        if not isinstance(partitioning, TimePartitioning):
            raise QueryError(
                "partition_expiration_days can only be set for a table that is partitioned by time",
                reason="invalid",
            )
        return msgspec.structs.replace(partitioning, expiration_ms=self.expiration_ms), merged


def check_properties(kind: str, properties: Sequence[exp.Expression]) -> None:
    """Refuse clauses and options that are not supported."""
    for each in properties:
        if isinstance(each, exp.ExternalProperty):
            raise UnsupportedError(f"CREATE EXTERNAL {kind}")
        if type(each) is exp.Property:
            if each.name.lower() not in OPTIONS[kind]:
                raise UnsupportedError(f"The option {each.name.lower()}")
        elif not isinstance(each, _CLAUSES):
            raise UnsupportedError(f"CREATE {kind} … {each.sql('bigquery')[:40]}")


def read_properties(kind: str, properties: Sequence[exp.Expression], evaluate: Evaluate) -> Declared:
    """Read PARTITION BY, CLUSTER BY and OPTIONS."""
    partitioning: Partitioning | None = None
    info: dict[str, Any] = {}
    expiration: int | None = None
    for each in properties:
        match each:
            case exp.PartitionedByProperty():
                partitioning = _partitioning(each.this)
            case exp.ClusterProperty() | exp.ClusteredByProperty():
                info["clustering"] = {"fields": [column.name for column in each.expressions]}
            case exp.Property() if type(each) is exp.Property:
                name, value = each.name.lower(), each.args["value"]
                if name == "partition_expiration_days":
                    expiration = int((evaluate(value, "FLOAT64") or 0) * _DAY_MS)
                elif OPTIONS[kind].get(name):
                    info[OPTIONS[kind][name]] = _option(name, value, evaluate)
    return Declared(partitioning, info, expiration)


def _option(name: str, value: Any, evaluate: Evaluate) -> Any:
    if isinstance(value, exp.Null):
        return None
    match name:
        case "require_partition_filter":
            return evaluate(value, "BOOL")
        case "labels":
            pairs = [item.expressions for item in value.expressions]
            return {pair[0].name: pair[1].name for pair in pairs if len(pair) == 2}
        case "expiration_timestamp":
            moment = evaluate(value, "TIMESTAMP")
            return None if moment is None else str(int(moment.timestamp() * 1000))
        case "default_table_expiration_days" | "default_partition_expiration_days":
            return str(int(evaluate(value, "FLOAT64") * _DAY_MS))
    return evaluate(value, "STRING")


# -- columns and keys ---------------------------------------------------------------------------------------


def declared_columns(schema: exp.Schema) -> TableSchema:
    """The columns of CREATE TABLE."""
    return TableSchema(tuple(column(each) for each in schema.expressions if isinstance(each, exp.ColumnDef)))


def declared_keys(
    parts: Sequence[exp.Expression], schema: TableSchema, name_of: Callable[[tuple[str, ...]], TableName]
) -> dict[str, Any]:
    """The ``tableConstraints`` of the parts of a statement, as REST writes them; empty if it has none.

    Args:
        parts: The columns and keys.
        schema: The columns of the table.
        name_of: Completes the name of a table.
    """
    primary: list[str] = []
    foreign: list[dict[str, Any]] = []
    for part in parts:
        key, name = part, ""
        if isinstance(part, exp.Constraint):
            key, name = part.expressions[0], part.name
        if isinstance(key, exp.ColumnDef):
            kinds = [each.args.get("kind") for each in key.args.get("constraints") or ()]
            primary += [key.name for kind in kinds if isinstance(kind, exp.PrimaryKeyColumnConstraint)]
            foreign += [
                _foreign_key("", [key.name], kind, name_of)
                for kind in kinds
                if isinstance(kind, exp.Reference)
            ]
        elif isinstance(key, exp.PrimaryKey):
            primary += [each.name for each in key.expressions]
        elif isinstance(key, exp.ForeignKey):
            columns = [each.name for each in key.expressions]
            foreign.append(_foreign_key(name, columns, key.args["reference"], name_of))
        else:
            raise UnsupportedError(key.sql("bigquery")[:40])
    found: dict[str, Any] = {}
    if primary:
        found["primaryKey"] = {"columns": primary}
    if foreign:
        found["foreignKeys"] = foreign
    check_keys(found, schema)
    return found


def _foreign_key(
    name: str, columns: list[str], reference: Any, name_of: Callable[[tuple[str, ...]], TableName]
) -> dict[str, Any]:
    table = reference.this.this if isinstance(reference.this, exp.Schema) else reference.this
    project, dataset, id = name_of(tuple(part.name for part in table.parts))
    others = [each.name for each in reference.this.expressions]
    if len(others) != len(columns):
        raise QueryError("A foreign key needs as many columns as it refers to", reason="invalid")
    return {
        **({"name": name} if name else {}),
        "referencedTable": {"projectId": project, "datasetId": dataset, "tableId": id},
        "columnReferences": [
            {"referencingColumn": own, "referencedColumn": other}
            for own, other in zip(columns, others, strict=True)
        ],
    }


def column(definition: exp.ColumnDef) -> Column:
    """A column of CREATE TABLE or ADD COLUMN."""
    if not definition.name or definition.args.get("kind") is None:
        raise QueryError("Syntax error: a column needs a name and a type")
    made = column_of(definition.name, definition.args["kind"])
    changes: dict[str, Any] = {}
    for constraint in definition.args.get("constraints") or ():
        match constraint.args.get("kind"):
            case exp.NotNullColumnConstraint() as found if not found.args.get("allow_null"):
                if made.mode != "REPEATED":
                    changes["mode"] = "REQUIRED"
            case exp.DefaultColumnConstraint() as found:
                changes["default"] = found.this.sql("bigquery")
            case exp.Properties() as found:
                for option in found.expressions:
                    if option.name.lower() != "description":
                        raise UnsupportedError(f"The option {option.name.lower()} of a column")
                    changes["description"] = option.args["value"].name
            case exp.PrimaryKeyColumnConstraint() | exp.Reference() | exp.NotNullColumnConstraint():
                pass
            case _:
                raise UnsupportedError(f"A column with {constraint.sql('bigquery')[:40]}")
    return msgspec.structs.replace(made, **changes) if changes else made


def column_of(name: str, kind: exp.DataType) -> Column:
    """A column of a type in SQL."""
    found = kind.this.name if isinstance(kind.this, exp.DType) else str(kind.this).upper()
    if found == "ARRAY":
        return msgspec.structs.replace(column_of(name, kind.expressions[0]), mode="REPEATED")
    if found == "STRUCT":
        fields = tuple(
            column(each) if isinstance(each, exp.ColumnDef) else column_of(f"_field_{number}", each)
            for number, each in enumerate(kind.expressions, 1)
        )
        return Column(name, "STRUCT", fields=fields)
    if found == "RANGE":
        return Column(name, "RANGE", range_element=column_of("", kind.expressions[0]).type)
    if found not in _TYPES:
        raise QueryError(f"Type not found: {kind.sql('bigquery')}")
    numbers = [int(each.name) for each in kind.expressions if each.name.isdigit()]
    type_ = _TYPES[found]
    if numbers and type_ in ("NUMERIC", "BIGNUMERIC"):
        return Column(name, type_, precision=numbers[0], scale=numbers[1] if len(numbers) > 1 else 0)
    return Column(name, type_, max_length=numbers[0] if numbers else 0)


def _partitioning(by: exp.Expression) -> Partitioning:
    column = by
    unit = "DAY"
    if isinstance(by, exp.Anonymous) and by.name.upper() == "RANGE_BUCKET":
        bounds = by.expressions[1].expressions if len(by.expressions) == 2 else ()
        texts = [each.sql("bigquery") for each in bounds]
        if len(texts) not in (2, 3) or not all(re.fullmatch(r"-?[0-9]{1,19}", each) for each in texts):
            raise QueryError(
                "PARTITION BY RANGE_BUCKET needs a column and GENERATE_ARRAY of integers, not "
                f"{by.sql('bigquery')[:100]}"
            )
        start, end, interval = (*map(int, texts), 1)[:3]
        return RangePartitioning(by.expressions[0].name, start, end, interval)
    if isinstance(by, exp.Anonymous) and by.expressions:
        column = by.expressions[0]
        if len(by.expressions) > 1:
            unit = by.expressions[1].name.upper()
    name = column.name
    if name.upper() in ("_PARTITIONDATE", "_PARTITIONTIME"):
        name = ""
    if unit not in ("HOUR", "DAY", "MONTH", "YEAR"):
        raise QueryError(
            f"PARTITION BY expression must be DATE, DATETIME_TRUNC or the like, not {by.sql('bigquery')}"
        )
    return TimePartitioning(unit, name)  # type: ignore[arg-type]  # it is checked above
