"""The definition of a table: its schema, partitioning and info, and how its rows fit its dataset."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.parquet import Parquet
from lode.dataset import Dataset
from lode.errors import ComponentMismatchError, InvalidOptionError, SchemaViolationError
from lode.evolution import adopt, evolve, include, united
from lode.ingest.catalog.partition_times import COLUMNS as PARTITION_TIMES
from lode.ingest.catalog.partition_times import PARTITION_DATE, PARTITION_TIME, by_arrival
from lode.ingest.catalog.partitioning import (
    PARTITION_ID,
    Partitioning,
    TimePartitioning,
    is_derived,
    layout_of,
    partition_ids,
)
from lode.ingest.names import TableName, escaped  # msgspec needs the types of fields
from lode.ingest.status import Code, Refused
from lode.ingest.types.arrays import has_required, list_array, without_inner_nulls
from lode.ingest.types.arrow import element_of
from lode.ingest.types.changes import CHANGE_SEQUENCE
from lode.ingest.types.columns import TableSchema
from lode.lazy import pa, pt
from lode.write.retry import Retry

if TYPE_CHECKING:
    from lode.definition import Definition
    from lode.evolution import Evolution
    from lode.store.protocol import Store

CHECKSUM: Final = "xxh3-128"


class TableDefinition(
    msgspec.Struct, frozen=True, kw_only=True, dict=True, tag_field="kind", tag="lode-table"
):
    """One version of a table's definition; ``version`` counts its changes.

    Deleting a table and creating it again makes its next ``generation``, with a new, empty dataset. The
    snapshots of earlier generations stay on the store, and ``lode.Dataset`` still reads them: the first as
    ``project.dataset.table``, the second with ``.2`` added. A table that took the place of another in one
    step has a word of its own at the end, such as ``.2.4f1c9a3e``: failed attempts leave datasets.
    """

    format_version: str = "1.0.0"
    name: TableName
    schema: TableSchema
    partitioning: Partitioning | None = None
    # Fields of REST clients that the server only stores: description, labels and the like.
    info: dict[str, Any] = {}
    version: int = 1
    generation: int = 1
    # Part of the name of the rows' dataset, if they were written before the table was stored.
    storage: str = ""
    # The dataset of the rows of a table that was renamed.
    rows_in: str = ""
    # The generation of its dataset: deleting the dataset deletes the table.
    dataset_generation: int = 1
    created_ms: int
    modified_ms: int
    etag: str

    @cached_property
    def dataset_id(self) -> str:
        """The dataset of the rows: ``project.dataset.table``, with ``.2`` added for the second generation."""
        if self.rows_in:
            return self.rows_in
        return dataset_id_of(self.name, self.generation) + (f".{self.storage}" if self.storage else "")

    @cached_property
    def arrow(self) -> pa.Schema:
        """The columns of its files: those of the table, and those that readers of the table do not see.

        ``_PARTITIONID`` if partitions need it, and with a primary key the number of a row's last change.
        """
        own = self.schema.arrow
        if is_derived(self.partitioning):
            own = own.append(pa.field(PARTITION_ID, pa.string()))
        return own.append(pa.field(CHANGE_SEQUENCE, pa.string())) if self.primary_key else own

    @property
    def kind(self) -> str:
        """TABLE, VIEW or MATERIALIZED_VIEW. Only a table has rows of its own."""
        if "materializedView" in self.info:
            return "MATERIALIZED_VIEW"
        return "VIEW" if "view" in self.info else "TABLE"

    def check_readable(self) -> TableDefinition:
        """The table itself, or a refusal if it is a view, which has no rows of its own."""
        return self._check_table("Cannot list a table of type {kind}: query {name} instead.")

    def check_writable(self) -> TableDefinition:
        """The table itself, or a refusal if it is a view."""
        return self._check_table("Cannot add rows to a table of type {kind}: {name}.")

    def _check_table(self, refusal: str) -> TableDefinition:
        if self.kind != "TABLE":
            project, dataset, table = self.name
            message = refusal.format(kind=self.kind, name=f"{project}:{dataset}.{table}")
            raise Refused(Code.INVALID_ARGUMENT, message, reason="invalid")
        return self

    @cached_property
    def readable(self) -> TableSchema:
        """The columns that readers may name: the table's, and the times of partitions by arrival."""
        if by_arrival(self.partitioning) is None:
            return self.schema
        return TableSchema((*self.schema.columns, *PARTITION_TIMES))

    @cached_property
    def primary_key(self) -> tuple[str, ...]:
        """The columns by which changes find their rows; empty if the table takes no changes."""
        constraints = self.info.get("tableConstraints") or {}
        wanted = (constraints.get("primaryKey") or {}).get("columns") or ()
        positions = [self.schema.positions.get(name.lower()) for name in wanted]
        # A job that replaced all rows and columns may have removed one of the key.
        found = [self.schema.columns[position].name for position in positions if position is not None]
        return tuple(found) if len(found) == len(positions) else ()

    @property
    def filtered_columns(self) -> tuple[str, ...]:
        """The columns of which every read must filter one; none if that is not required."""
        if self.partitioning is None or not self.info.get("requirePartitionFilter"):
            return ()
        if self.partitioning.column:
            return (self.partitioning.column,)
        return (PARTITION_DATE, PARTITION_TIME)

    @cached_property
    def expires_ms(self) -> int | None:
        """When the table is deleted by itself, in milliseconds since 1970; None for never."""
        expires = self.info.get("expirationTime")
        return None if expires is None else int(expires)

    def open(self, store: Store) -> Dataset:
        """Open the dataset with its rows. It raises conflicts at once: the table writer handles them.

        It is opened without a schema: the columns of the dataset may differ from those of the table until
        the next commit, which evolves them by ``evolution``.
        """
        return Dataset(
            self.dataset_id,
            store,
            codec=Parquet(),
            compressor="noop",
            layout=layout_of(self.partitioning),
            checksum=CHECKSUM,
            retry=Retry(0),
        )

    def evolution(self, *, acknowledged: bool) -> Evolution:
        """How a commit of its rows changes the dataset's definition.

        Args:
            acknowledged: The rows were acknowledged before, so they must not be refused.
        """
        return self._claiming if acknowledged else self._fitting

    @cached_property
    def replacement(self) -> Evolution:
        """How a commit that replaces all rows, and perhaps the columns, changes the dataset's definition."""
        return _cached(lambda definition: _replace_columns(definition, self.arrow, self._timestamp_column))

    @cached_property
    def _fitting(self) -> Evolution:
        return _cached(lambda definition: _fit_definition(definition, self.arrow, self._timestamp_column))

    @cached_property
    def _claiming(self) -> Evolution:
        return _cached(lambda definition: _claim_definition(definition, self.arrow, self._timestamp_column))

    def prepare(
        self, batch: pa.RecordBatch, *, now_ms: int | None = None, sequences: Any = None
    ) -> pa.RecordBatch:
        """Convert rows from ``schema.arrow`` to ``arrow``.

        Args:
            batch: The rows.
            now_ms: When they arrived, by default now.
            sequences: The numbers of the changes that they are, by default none.
        """
        if self.is_plain:
            return batch
        columns: list[Any] = [without_inner_nulls(column) for column in batch.columns]
        if self.partitioning is not None and is_derived(self.partitioning):
            columns.append(partition_ids(self.partitioning, batch, now_ms=now_ms))
        if self.primary_key:
            columns.append(pa.nulls(batch.num_rows, pa.string()) if sequences is None else sequences)
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    @cached_property
    def is_plain(self) -> bool:
        """Whether batches are stored unchanged."""
        return (
            not is_derived(self.partitioning)
            and not self.primary_key
            and not any(has_required(field.type) for field in self.schema.arrow)
        )

    @property
    def _timestamp_column(self) -> str | None:
        """The column whose range snapshots record: the partitioning column, if it is a timestamp."""
        match self.partitioning:
            case TimePartitioning(column=column) if column:
                return column if pt.is_timestamp(self.schema.arrow.field(column).type) else None
        return None


class DeletedTable(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="lode-table-deleted"):
    """The tombstone of a table, so that the next table of its name gets a new generation."""

    format_version: str = "1.0.0"
    name: TableName
    version: int
    generation: int
    deleted_ms: int
    etag: str


def dataset_id_of(name: TableName, generation: int) -> str:
    """The id of the dataset for the rows of one generation of a table."""
    own = ".".join(map(escaped, name))
    return own if generation == 1 else f"{own}.{generation}"


def _cached(change: Evolution) -> Evolution:
    """Cache the last result: each commit applies the change twice to the same definition."""
    last: list[tuple[str, Definition]] = []

    def apply(definition: Definition) -> Definition:
        known = last[:1]
        if not known or known[0][0] != definition.digest:
            known = last[:] = [(definition.digest, change(definition))]
        return known[0][1]

    return apply


def _fit_definition(definition: Definition, schema: pa.Schema, timestamp_column: str | None) -> Definition:
    """Return the dataset's definition with the table's new columns, wider types and relaxed modes.

    It is the same object if nothing changes.

    Raises:
        ComponentMismatchError: A column of the table does not fit the type it has in the dataset.
    """
    if not len(schema):
        return definition
    try:
        found = include(adopt(definition, schema), schema, declared=True)
    except (InvalidOptionError, SchemaViolationError) as error:
        raise ComponentMismatchError(
            f"the dataset's columns are not those of the table: {error}; rename the dataset's column with "
            "lode.Dataset(…).evolve(rename=…), or use another table"
        ) from error
    return _with_timestamps(found, schema, timestamp_column)


def _claim_definition(definition: Definition, schema: pa.Schema, timestamp_column: str | None) -> Definition:
    """Return a definition of the dataset that always fits the table's rows, for acknowledged rows.

    A column of the dataset with the name of a table's column and an incompatible type was created by another
    writer. It is renamed, and keeps its values.
    """
    stored = definition.schema
    if stored is not None:
        for field in schema:
            index = stored.get_field_index(field.name)
            if index >= 0 and united(stored.field(index).type, field.type) is None:
                free = _free_name(field.name, {*definition.ids, *schema.names})
                definition = evolve(definition, rename={field.name: free})
    return _fit_definition(definition, schema, timestamp_column)


def _replace_columns(definition: Definition, schema: pa.Schema, timestamp_column: str | None) -> Definition:
    """Return a definition with the table's columns alone. One that changes its type is a new column."""
    stored = definition.schema
    if stored is None or not len(schema):
        return _fit_definition(definition, schema, timestamp_column)
    definition = msgspec.structs.replace(definition, timestamp_column=None)
    gone: list[str] = []
    for field in stored:
        if field.name not in definition.keys and not _keeps(field, schema):
            # A dataset has at least one column, so the old ones are dropped after the new ones are added.
            gone.append(_free_name(field.name, {*definition.ids, *schema.names}))
            definition = evolve(definition, rename={field.name: gone[-1]})
    definition = _fit_definition(definition, schema, None)
    return _with_timestamps(evolve(definition, drop=gone), schema, timestamp_column)


def _keeps(field: pa.Field[Any], schema: pa.Schema) -> bool:
    """Whether a column of the dataset has the type that it has in the table."""
    index = schema.get_field_index(field.name)
    return index >= 0 and schema.field(index).type == field.type


def _free_name(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _with_timestamps(definition: Definition, schema: pa.Schema, wanted: str | None) -> Definition:
    """Set the column whose range snapshots record: a timestamp that every row of the table has."""
    present = definition.timestamp_column
    index = -1 if present is None else schema.get_field_index(present)
    if wanted is None and index >= 0 and pt.is_timestamp(schema.field(index).type):
        wanted = present
    return definition if wanted == present else msgspec.structs.replace(definition, timestamp_column=wanted)


def complete(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Convert scanned rows to ``schema.arrow``, also if the table had another schema when they were written.

    A column that was added later is null in older rows, or empty if it is REPEATED. Columns that are not in
    the schema, such as ``_PARTITIONID``, are dropped.
    """
    wanted = schema.arrow
    if batch.schema.equals(wanted, check_metadata=True) and not any(
        pt.is_nested(field.type) for field in wanted
    ):
        return batch
    arrays = [
        _fitted(batch.column(field.name), field)
        if field.name in batch.schema.names
        else _complete(pa.nulls(batch.num_rows, field.type), field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _fitted(array: Any, field: pa.Field[Any]) -> Any:
    try:
        return _complete(array, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Refused(
            Code.FAILED_PRECONDITION,
            f"Column {field.name!r} is {array.type} in the dataset, where another program changed it, and "
            f"has a value that does not fit the table's type ({error}): leave it out of the selected fields.",
        ) from error


def stored_as(batch: pa.RecordBatch, schema: pa.Schema | None) -> pa.RecordBatch:
    """Convert rows to the column types of the dataset, which may be wider than those of the table.

    The encoder fills columns that only the dataset has with nulls.
    """
    if schema is None or batch.schema.equals(schema):
        return batch
    fields = [schema.field(name) for name in batch.schema.names]
    arrays = [
        without_inner_nulls(_complete(array, field.type))
        for array, field in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _complete(array: Any, kind: Any) -> Any:
    """Convert a column or member to a type: add missing members, and replace null lists by empty ones."""
    if pt.is_struct(kind):
        members = [
            _complete(array.field(array.type.get_field_index(member.name)), member.type)
            if array.type.get_field_index(member.name) >= 0
            else _complete(pa.nulls(len(array), member.type), member.type)
            for member in kind
        ]
        nulls = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=nulls)
    if pt.is_list(kind):
        return _complete_list(array, kind)
    return array if array.type == kind else array.cast(kind)


def _complete_list(array: Any, kind: Any) -> Any:
    if not pt.is_list(array.type):
        array = array.cast(pa.list_(element_of(array.type).type))  # a map, or another list type
    # Only the items of the lists that are not null, without unused values between them.
    items = _complete(array.flatten(), kind.value_type)
    if not array.null_count and not array.offset and len(items) == len(array.values):
        return pa.ListArray.from_arrays(array.offsets, items, type=kind)
    return list_array(array, items, kind)
