"""What a table is: its schema, its partitions and what people say about it, as one object on the store."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.parquet import Parquet
from lode.dataset import Dataset
from lode.ingest.catalog.claim import claiming, fitting
from lode.ingest.catalog.partitioning import (
    PARTITION_ID,
    Partitioning,
    TimePartitioning,
    is_derived,
    layout_of,
    partition_ids,
)
from lode.ingest.names import TableName, escaped  # msgspec reads the types of fields
from lode.ingest.status import Code, Refused
from lode.ingest.types.arrays import has_required, without_inner_nulls
from lode.ingest.types.arrow import element_of
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
    """One state of a table's definition; ``version`` counts its changes.

    Deleting a table and creating it again makes the next ``generation`` of it, with a new, empty dataset.
    The snapshots of the generations before stay on the store: nothing is deleted behind anybody's back, and
    ``lode.Dataset`` still reads them, the first as ``project.dataset.table``, the second with ``.2`` added.
    """

    format_version: str = "1.0.0"
    name: TableName
    schema: TableSchema
    partitioning: Partitioning | None = None
    # What REST clients say about a table and the server only keeps: description, labels and the like.
    info: dict[str, Any] = {}
    version: int = 1
    generation: int = 1
    # The generation of the dataset it belongs to: when that is gone, so is the table.
    dataset_generation: int = 1
    created_ms: int
    modified_ms: int
    etag: str

    @cached_property
    def dataset_id(self) -> str:
        """The dataset of the rows: ``project.dataset.table``, with ``.2`` added for the second generation."""
        return dataset_id_of(self.name, self.generation)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The columns of its files: the table's own, and ``_PARTITIONID`` where partitions need it."""
        own = self.schema.arrow
        return own.append(pa.field(PARTITION_ID, pa.string())) if is_derived(self.partitioning) else own

    def open(self, store: Store) -> Dataset:
        """The dataset that holds its rows. A conflict is raised at once: the committer decides.

        It is opened without a schema: what the dataset has may differ from what the table has until the next
        commit, which evolves it by ``evolution``.
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
            acknowledged: The rows were acknowledged before, so that nothing may refuse them.
        """
        return self._claiming if acknowledged else self._fitting

    @cached_property
    def _fitting(self) -> Evolution:
        return _remembered(lambda definition: fitting(definition, self.arrow, self._timestamp_column))

    @cached_property
    def _claiming(self) -> Evolution:
        return _remembered(lambda definition: claiming(definition, self.arrow, self._timestamp_column))

    def prepare(self, batch: pa.RecordBatch, *, now_ms: int | None = None) -> pa.RecordBatch:
        """Rows in ``schema.arrow`` as rows of its files; ``now_ms`` is when they arrived, if not now."""
        if self._is_plain:
            return batch
        columns: list[Any] = [without_inner_nulls(column) for column in batch.columns]
        if self.partitioning is not None and is_derived(self.partitioning):
            columns.append(partition_ids(self.partitioning, batch, now_ms=now_ms))
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)

    @cached_property
    def _is_plain(self) -> bool:
        """Whether its files hold batches as they come."""
        return not is_derived(self.partitioning) and not any(
            has_required(field.type) for field in self.schema.arrow
        )

    @property
    def _timestamp_column(self) -> str | None:
        """The column whose range snapshots record: the partitioning one, if it is a timestamp."""
        match self.partitioning:
            case TimePartitioning(column=column) if column:
                return column if pt.is_timestamp(self.schema.arrow.field(column).type) else None
        return None


class DeletedTable(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="lode-table-deleted"):
    """What stays of a deleted table's definition, so that the next of its name gets a new generation."""

    format_version: str = "1.0.0"
    name: TableName
    version: int
    generation: int
    deleted_ms: int
    etag: str


def dataset_id_of(name: TableName, generation: int) -> str:
    """The id of the dataset that holds the rows of one generation of a table."""
    own = ".".join(map(escaped, name))
    return own if generation == 1 else f"{own}.{generation}"


def _remembered(change: Evolution) -> Evolution:
    """The same change, computed again only for another definition: each commit applies it twice."""
    last: list[tuple[str, Definition]] = []

    def apply(definition: Definition) -> Definition:
        known = last[:1]
        if not known or known[0][0] != definition.digest:
            known = last[:] = [(definition.digest, change(definition))]
        return known[0][1]

    return apply


def complete(batch: pa.RecordBatch, schema: TableSchema) -> pa.RecordBatch:
    """Return scanned rows exactly in ``schema.arrow``, whatever the table had when they were written.

    A column that came later is null in older rows, and where it is REPEATED, empty. Columns the schema does
    not have, ``_PARTITIONID`` among them, are left out.
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
            f"has a value that is none of the table's type ({error}): leave it out of the selected fields.",
        ) from error


def stored_as(batch: pa.RecordBatch, schema: pa.Schema | None) -> pa.RecordBatch:
    """Rows of a table's files in the types that its dataset has for their columns, which may be wider.

    Columns that only the dataset has are left to the encoder, which fills them with nulls.
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
    """One column or member in its type, with members that are missing, and without null lists."""
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
    import pyarrow.compute as pc

    compute: Any = pc
    if not pt.is_list(array.type):
        array = array.cast(pa.list_(element_of(array.type).type))  # another writer's kind of list, or a map
    # The items of the lists that are not null, without what lies between and behind them.
    items = _complete(array.flatten(), kind.value_type)
    if not array.null_count and not array.offset and len(items) == len(array.values):
        return pa.ListArray.from_arrays(array.offsets, items, type=kind)
    lengths = compute.fill_null(compute.list_value_length(array), 0)
    ends = compute.cumulative_sum(compute.cast(lengths, pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, items, type=kind)
