"""Read rows of Parquet files by their position, in the selected columns."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from lode.errors import InvalidFormatError, StoreError
from lode.ingest.api.grpc_read.selection import stored_columns
from lode.ingest.types.columns import TableSchema
from lode.lazy import pa
from lode.read.filesystem import arrow_filesystem
from lode.read.source import check_size
from lode.store.protocol import SupportsLocalPath

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow.compute as pc

    from lode.format.manifest import FileRef
    from lode.store.protocol import Store

Names: TypeAlias = "Mapping[str, str | None]"

_BATCH_BYTES: Final = 4 << 20
_MAX_BATCH_ROWS: Final = 1 << 16


@contextmanager
def open_parquet(store: Store, file: FileRef, data: bytes | None = None) -> Iterator[Any]:
    """Open a file for reading by row groups; damage becomes ``InvalidFormatError`` naming the file.

    Args:
        store: The store of the file.
        file: The file.
        data: Its content, if it was fetched before.
    """
    import pyarrow.parquet as pq

    remote = data is None and not isinstance(store, SupportsLocalPath)
    with _source(store, file, data) as source:
        with _naming_damage(file.path):
            opened = pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=remote)
        yield opened


def _source(store: Store, file: FileRef, data: bytes | None) -> Any:
    if data is not None:
        check_size(file, len(data))
        return pa.BufferReader(data)
    return arrow_filesystem(store, [file]).open_input_file(file.path)


@contextmanager
def _naming_damage(path: str) -> Iterator[None]:
    """Turn pyarrow's errors about invalid Parquet into an error that names the file."""
    try:
        yield
    except StoreError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise InvalidFormatError(f"{path} cannot be read: {error}") from error


def matching_groups(
    store: Store, file: FileRef, data: bytes | None, where: pc.Expression, schema: pa.Schema
) -> set[int]:
    """Return the row groups of a file whose statistics do not rule out a row for which ``where`` is true."""
    import pyarrow.dataset as pads

    form: Any = pads.ParquetFileFormat()
    if data is None:
        fragment = form.make_fragment(file.path, arrow_filesystem(store, [file]))
    else:
        fragment = form.make_fragment(pa.BufferReader(data))
    return {group.id for group in fragment.subset(where, schema=schema).row_groups}


def read_group(
    opened: Any, path: str, group: int, wanted: TableSchema, names: Names, start: int, stop: int
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a row group. Columns that the file lacks are left out.

    Args:
        opened: The open file.
        path: Its path, for errors.
        group: The number of the row group.
        wanted: The columns.
        names: The file's name for each column of the dataset; None for a column the file lacks.
        start: The first row.
        stop: The row after the last one.
    """
    present = {names[column.name]: column for column in wanted if names.get(column.name)}
    inside = TableSchema(
        tuple(msgspec.structs.replace(column, name=name) for name, column in present.items() if name)
    )
    with _naming_damage(path):
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
    batch_rows = min(max(_BATCH_BYTES * rows // max(size, 1), 1), _MAX_BATCH_ROWS)
    names = [footer.schema.column(index).path for index in needed]
    at = 0
    for batch in opened.iter_batches(batch_rows, row_groups=[group], columns=names):
        first, last = max(start, at), min(stop, at + batch.num_rows)
        if first < last:
            yield batch.slice(first - at, last - first)
        at += batch.num_rows
        if at >= stop:
            return


def count_rows(store: Store, file: FileRef) -> int:
    """Return the number of rows of a file, from its statistics, or from its footer if it has none."""
    if file.stats is not None:
        return file.stats.row_count
    with open_parquet(store, file) as opened:
        rows: int = opened.metadata.num_rows
        return rows


def row_group_starts(store: Store, file: FileRef) -> list[int]:
    """Return the number of the first row of each row group, from the file's footer."""
    with open_parquet(store, file) as opened:
        footer = opened.metadata
        counts = [footer.row_group(index).num_rows for index in range(footer.num_row_groups)]
    return list(accumulate(counts, initial=0))[:-1]
