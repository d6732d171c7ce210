"""Datasets and tables as REST v2 writes them: one declaration for requests and answers.

A property that is not supported is refused and not stored: a table that is said to be encrypted with a key of
its own, and is not, would mislead its users.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType

from lode.format.ids import is_utf8, shortened
from lode.ingest.api.errors import not_implemented
from lode.ingest.catalog.expiry import milliseconds
from lode.ingest.catalog.partitioning import Partitioning, RangePartitioning, TimePartitioning
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.ingest.catalog.partitioning import Unit

R = TypeVar("R", bound="Resource")

# Clients write 64-bit integers as text or as numbers.
Text: TypeAlias = str | int | UnsetType | None
Labels: TypeAlias = dict[str, str | None] | UnsetType | None
# Set by the server. Clients send these properties back, and any value is ignored.
ServerSet: TypeAlias = Any
# Properties that are absent if they are zero.
EXPIRATIONS: Final = ("expirationTime", "defaultTableExpirationMs", "defaultPartitionExpirationMs")
# Set by BigQuery and not by this server. They are ignored, too.
_BIGQUERY_SET: Final = re.compile(r"satisfiesPz[is]|num\w*PhysicalBytes|streamingBuffer")

_KEYS: Final = "files are encrypted as the store is set up"
_ROUNDING: Final = "set roundingMode of each column instead"
_SNAPSHOTS: Final = "every commit is a snapshot: read them with the library instead"
_REPLICAS: Final = "tables are not replicated by the server: the store does that"


class _Json(msgspec.Struct, kw_only=True, rename="camel"):
    """A JSON object with names in camel case."""


class Resource(_Json):
    """A dataset or a table: the properties that both have, which the server only stores."""

    noun: ClassVar[str]
    # The names of all properties that the server only stores.
    stored: ClassVar[frozenset[str]]
    # The reason for each property that is refused.
    unsupported: ClassVar[dict[str, str]]

    friendly_name: Text = UNSET
    description: Text = UNSET
    labels: Labels = UNSET
    resource_tags: Labels = UNSET

    def merged_info(self, current: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored properties after this change. Null removes one; objects are merged by key."""
        merged = dict(current)
        for key, value in msgspec.to_builtins(self).items():
            if key not in self.stored:
                continue
            if isinstance(value, dict):
                both = {**current.get(key, {}), **value}
                value = {name: item for name, item in both.items() if item is not None}
            elif isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
            if value is None or value == {} or (key in EXPIRATIONS and value == "0"):
                merged.pop(key, None)
            else:
                merged[key] = value
        return merged


class DatasetReference(_Json):
    dataset_id: str
    project_id: str | UnsetType = UNSET


class AccessEntry(_Json, forbid_unknown_fields=True):
    """One entry of an access list: a role, and what has it."""

    role: str | UnsetType | None = UNSET
    user_by_email: str | UnsetType = UNSET
    group_by_email: str | UnsetType = UNSET
    domain: str | UnsetType = UNSET
    special_group: str | UnsetType = UNSET
    iam_member: str | UnsetType = UNSET
    view: dict[str, str] | UnsetType = UNSET
    routine: dict[str, str] | UnsetType = UNSET
    dataset: dict[str, Any] | UnsetType = UNSET
    condition: dict[str, str] | UnsetType = UNSET


class _DatasetInfo(Resource):
    # Stored and shown, not enforced: a client with the server's token may do everything.
    access: list[AccessEntry] | UnsetType | None = UNSET
    default_table_expiration_ms: Text = UNSET
    default_partition_expiration_ms: Text = UNSET
    max_time_travel_hours: Text = UNSET
    storage_billing_model: Text = UNSET


class DatasetResource(_DatasetInfo):
    """A dataset."""

    noun = "dataset"
    stored = frozenset(_DatasetInfo.__struct_encode_fields__)
    unsupported = {
        "defaultEncryptionConfiguration": _KEYS,
        "isCaseInsensitive": "the names of tables are case-sensitive",
        "defaultCollation": "text is compared by its bytes",
        "defaultRoundingMode": _ROUNDING,
        "externalDatasetReference": "datasets elsewhere cannot be linked",
        "linkedDatasetSource": "datasets cannot be linked",
        "externalCatalogDatasetOptions": "there are no external catalogs",
        "tags": "there are no tags: use labels",
    }

    dataset_reference: DatasetReference | UnsetType = UNSET
    location: str | UnsetType | None = UNSET
    kind: ServerSet = UNSET
    etag: ServerSet = UNSET
    id: ServerSet = UNSET
    self_link: ServerSet = UNSET
    creation_time: ServerSet = UNSET
    last_modified_time: ServerSet = UNSET
    type: ServerSet = UNSET


class TableReference(_Json):
    table_id: str
    dataset_id: str | UnsetType = UNSET
    project_id: str | UnsetType = UNSET


class TimePartitioningResource(_Json):
    type: str | UnsetType | None = UNSET
    field: str | UnsetType | None = UNSET
    expiration_ms: Text = UNSET
    # Older clients send it here.
    require_partition_filter: bool | UnsetType | None = UNSET


class IntegerRange(_Json):
    start: str | int
    end: str | int
    interval: str | int


class RangePartitioningResource(_Json):
    field: str | UnsetType | None = UNSET
    range: IntegerRange | UnsetType | None = UNSET


class Clustering(_Json, forbid_unknown_fields=True):
    fields: list[str] | None = None


class PrimaryKey(_Json, forbid_unknown_fields=True):
    columns: list[str]


class ColumnReference(_Json, forbid_unknown_fields=True):
    referencing_column: str
    referenced_column: str


class ForeignKey(_Json, forbid_unknown_fields=True):
    referenced_table: TableReference
    column_references: list[ColumnReference]
    name: str | UnsetType | None = UNSET


class TableConstraints(_Json, forbid_unknown_fields=True):
    """Keys, which are not enforced. Changes find their rows by the primary key."""

    primary_key: PrimaryKey | UnsetType | None = UNSET
    foreign_keys: list[ForeignKey] | UnsetType | None = UNSET


class _TableInfo(Resource):
    clustering: Clustering | UnsetType | None = UNSET
    table_constraints: TableConstraints | UnsetType | None = UNSET
    expiration_time: Text = UNSET
    # Changes are visible at the answer, so rows are never stale.
    max_staleness: Text = UNSET
    require_partition_filter: bool | UnsetType | None = UNSET


class TableResource(_TableInfo):
    """A table."""

    noun = "table"
    stored = frozenset(_TableInfo.__struct_encode_fields__)
    unsupported = {
        "materializedView": "use CREATE MATERIALIZED VIEW",
        "externalDataConfiguration": "there are no external tables: append the rows instead",
        "model": "there are no models",
        "encryptionConfiguration": _KEYS,
        "cloneDefinition": "tables cannot be cloned: read snapshots with the library instead",
        "snapshotDefinition": _SNAPSHOTS,
        "snapshotTableInfo": _SNAPSHOTS,
        "biglakeConfiguration": "there are no external tables: append the rows instead",
        "tableReplicationInfo": _REPLICAS,
        "replicas": _REPLICAS,
        "defaultCollation": "text is compared by its bytes",
        "defaultRoundingMode": _ROUNDING,
        "externalCatalogTableOptions": "there are no external catalogs",
        "partitionDefinition": "use timePartitioning or rangePartitioning",
    }

    table_reference: TableReference | UnsetType = UNSET
    # ``lode.ingest.types.rest`` checks it.
    schema: Any = UNSET
    time_partitioning: TimePartitioningResource | UnsetType | None = UNSET
    range_partitioning: RangePartitioningResource | UnsetType | None = UNSET
    # Checked when a table is created.
    type: Any = UNSET
    kind: ServerSet = UNSET
    etag: ServerSet = UNSET
    id: ServerSet = UNSET
    self_link: ServerSet = UNSET
    location: ServerSet = UNSET
    creation_time: ServerSet = UNSET
    last_modified_time: ServerSet = UNSET
    num_bytes: ServerSet = UNSET
    num_long_term_bytes: ServerSet = UNSET
    num_rows: ServerSet = UNSET
    num_partitions: ServerSet = UNSET
    num_total_logical_bytes: ServerSet = UNSET
    num_active_logical_bytes: ServerSet = UNSET
    num_long_term_logical_bytes: ServerSet = UNSET

    def merged_info(self, current: Mapping[str, Any]) -> dict[str, Any]:
        if self.time_partitioning and self.require_partition_filter is UNSET:
            self.require_partition_filter = self.time_partitioning.require_partition_filter
        return super().merged_info(current)

    def partitioning(self, current: Partitioning | None = None) -> Partitioning | None:
        """Return the partitioning, None if there is none. An empty object is the same as none.

        Args:
            current: The partitioning whose parts are kept if they are left out.
        """
        time = None if self.time_partitioning == TimePartitioningResource() else self.time_partitioning
        ranges = None if self.range_partitioning == RangePartitioningResource() else self.range_partitioning
        if time and ranges:
            raise invalid("A table is partitioned by time or by ranges: leave out one of the two.")
        if time:
            return _time_partitioning(time, current if isinstance(current, TimePartitioning) else None)
        return _range_partitioning(ranges) if ranges else None


def parse_resource(body: Mapping[str, Any], kind: type[R]) -> R:
    """Check the body of a request and convert it."""
    supported: dict[str, Any] = {}
    for key, value in body.items():
        if key in kind.__struct_encode_fields__:
            supported[key] = value
        elif _BIGQUERY_SET.fullmatch(key):
            continue
        elif key not in kind.unsupported:
            raise invalid(
                f"Invalid JSON payload received. Unknown name {shortened(key)} of a {kind.noun}: "
                "leave it out."
            )
        # Clients send empty values along.
        elif value and value not in ("ROUNDING_MODE_UNSPECIFIED", "0"):
            raise not_implemented(f"A {kind.noun} with {key} is not supported: {kind.unsupported[key]}.")
    try:
        return msgspec.convert({key: _storable(value, key) for key, value in supported.items()}, kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        raise invalid(f"Invalid value for {path.rstrip('`')}: {problem[0].lower()}{problem[1:]}.") from None


def _storable(value: Any, key: str) -> Any:
    """Return a JSON value with plain numbers; refuse text that UTF-8 cannot encode."""
    match value:
        case str():
            if not is_utf8(value):
                raise invalid(f"{key} holds text that UTF-8 cannot encode: leave out lone surrogates.")
            return value
        case Decimal():
            return float(value)
        case dict():
            return {_storable(name, key): _storable(item, key) for name, item in value.items()}
        case list():
            return [_storable(item, key) for item in value]
    return value


def partitioning_properties(partitioning: Partitioning | None) -> dict[str, Any]:
    """Return the partitioning as keyword arguments for a ``TableResource``."""
    match partitioning:
        case TimePartitioning(unit=unit, column=column, expiration_ms=expires):
            shown = TimePartitioningResource(
                type=unit, field=column or UNSET, expiration_ms=str(expires) if expires else UNSET
            )
            return {"time_partitioning": shown}
        case RangePartitioning(column=column, start=start, end=end, interval=interval):
            ranges = IntegerRange(start=str(start), end=str(end), interval=str(interval))
            return {"range_partitioning": RangePartitioningResource(field=column, range=ranges)}
    return {}


def _time_partitioning(
    resource: TimePartitioningResource, current: TimePartitioning | None
) -> TimePartitioning:
    current = current or TimePartitioning("DAY")
    unit = resource.type or current.unit
    if unit not in ("HOUR", "DAY", "MONTH", "YEAR"):
        raise invalid(
            f"Invalid value for timePartitioning.type: {shortened(unit)} is not HOUR, DAY, MONTH or YEAR."
        )
    column = current.column if resource.field is UNSET else resource.field or ""
    if resource.expiration_ms is UNSET:
        expires = current.expiration_ms
    else:
        expires = milliseconds(resource.expiration_ms, "timePartitioning.expirationMs")
    return TimePartitioning(cast("Unit", unit), column, expires)


def _range_partitioning(resource: RangePartitioningResource) -> RangePartitioning:
    if not resource.field:
        raise invalid("Invalid value for rangePartitioning.field: it must name a column.")
    if not resource.range:
        raise invalid("Invalid value for rangePartitioning: it must be an object with field and range.")
    try:
        numbers = [int(number) for number in msgspec.structs.astuple(resource.range)]
    except ValueError:
        raise invalid(
            "Invalid value for rangePartitioning.range: start, end and interval must be whole numbers."
        ) from None
    return RangePartitioning(resource.field, *numbers)
