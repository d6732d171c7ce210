"""Rows of Parquet files by their position, in the columns that are wanted of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from lode.errors import InvalidFormatError, StoreError
from lode.ingest.api.grpc_read.selection import stored_columns
from lode.ingest.types.columns import TableSchema
from lode.lazy import pa
from lode.read.source import arrow_filesystem, check_size, check_sizes
from lode.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow.compute as pc

    from lode.format.manifest import FileRef
    from lode.store.protocol import Store

Names: TypeAlias = "Mapping[str, str | None]"

_READ_BYTES: Final = 4 << 20
_MOST_ROWS: Final = 1 << 16


@contextmanager
def open_parquet(store: Store, file: FileRef, data: bytes | None = None) -> Iterator[Any]:
    """Open a file for reading by row groups; damage becomes ``InvalidFormatError`` naming the file.

    Args:
        store: Where the file is.
        file: Which one.
        data: What it holds, if it was fetched before.
    """
    import pyarrow.parquet as pq

    far = data is None and not isinstance(store, LocalStore)
    with _source(store, file, data) as source:
        with _damage_told(file.path):
            opened = pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=far)
        yield opened


def _source(store: Store, file: FileRef, data: bytes | None) -> Any:
    if data is not None:
        check_size(file, len(data))
        return pa.BufferReader(data)
    check_sizes(store, [file])
    return arrow_filesystem(store, [file]).open_input_file(file.path)


@contextmanager
def _damage_told(path: str) -> Iterator[None]:
    """Turn what pyarrow says about bytes that are no Parquet into an error that names the file."""
    try:
        yield
    except StoreError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise InvalidFormatError(f"{path} cannot be read: {error}") from error


def matching_groups(
    store: Store, file: FileRef, data: bytes | None, where: pc.Expression, schema: pa.Schema
) -> set[int]:
    """The row groups of a file that may have a row for which ``where`` is true, by their statistics."""
    import pyarrow.dataset as pads

    form: Any = pads.ParquetFileFormat()
    if data is None:
        check_sizes(store, [file])
        fragment = form.make_fragment(file.path, arrow_filesystem(store, [file]))
    else:
        fragment = form.make_fragment(pa.BufferReader(data))
    return {group.id for group in fragment.subset(where, schema=schema).row_groups}


def read_group(
    opened: Any, path: str, group: int, wanted: TableSchema, names: Names, start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows from ``start`` to ``stop`` of a row group, in those of the columns that the file has.

    Args:
        opened: The file.
        path: Its path, for errors.
        group: The number of the row group.
        wanted: The columns.
        names: The name in the file of each column of the dataset; None where the file has none.
        start: The first row.
        stop: The row behind the last.
    """
    present = {names[column.name]: column for column in wanted if names.get(column.name)}
    inside = TableSchema(
        tuple(msgspec.structs.replace(column, name=name) for name, column in present.items() if name)
    )
    with _damage_told(path):
        for batch in _read_group(opened, group, inside, start, stop):
            yield batch.rename_columns([present[name].name for name in batch.schema.names])


def _read_group(
    opened: Any, group: int, wanted: TableSchema, start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    footer = opened.metadata
    needed = stored_columns(wanted, opened.schema_arrow)
    group_footer = footer.row_group(group)
    rows: int = group_footer.num_rows
    size = sum(group_footer.column(index).total_uncompressed_size for index in needed)
    batch_rows = min(max(_READ_BYTES * rows // max(size, 1), 1), _MOST_ROWS)
    names = [footer.schema.column(index).path for index in needed]
    at = 0
    for batch in opened.iter_batches(batch_rows, row_groups=[group], columns=names):
        first, last = max(start, at), min(stop, at + batch.num_rows)
        if first < last:
            yield batch.slice(first - at, last - first)
        at += batch.num_rows
        if at >= stop:
            return
