"""Cut the files of a plan into tasks, and read a task's share as Arrow batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lode.codec.arrow_cast import cast_batch
from lode.codec.columnar import to_batch
from lode.codec.protocol import reads_whole
from lode.errors import InvalidFormatError, LodeError
from lode.read.change_scan import ChangeScan
from lode.read.files import decode_file
from lode.read.filesystem import arrow_filesystem
from lode.read.incremental import CHANGE
from lode.read.small import MAX_SMALL_BYTES, read_small
from lode.runtime import REAL
from lode.spark.filters import Condition, together

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    import pyarrow.compute as pc

    from lode.codec.components import Components
    from lode.format.manifest import FileRef
    from lode.read.scan import Scan
    from lode.store.protocol import Store

# By default splits depend on the size of the scan, so that a small one keeps all cores busy too.
SPLIT_BYTES: Final = 0
# A task costs Spark and its Python worker about 25 ms, as long as they need for a megabyte of Parquet.
_MIN_SPLIT_BYTES: Final = 4 << 20
# A small scan has several tasks nevertheless, so that more than one core reads it.
_MIN_AUTO_SPLITS: Final = 8
# Smaller files are not cut: they rarely have several row groups.
_MIN_CUT_BYTES: Final = 16 << 20
_MAX_SPLIT_BYTES: Final = 128 << 20
_MAX_AUTO_SPLITS: Final = 256
BATCH_ROWS: Final = 1 << 17
# The cost of opening a file, in bytes, so that a task does not get thousands of tiny files.
OPEN_BYTES: Final = 32 << 10
# Rows of small files go to Spark in batches of so many rows or bytes: each batch has a cost of its own.
_JOINED_ROWS: Final = 1 << 14
_JOINED_BYTES: Final = 8 << 20


Names: TypeAlias = Mapping[str, "str | None"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or the row groups of a Parquet file that begin in a range of its bytes.

    ``names`` has the columns that the file has under another name than the dataset; None for not at all.
    ``change`` says what happened to the rows, if the read reports it.
    """

    file: FileRef
    start: int
    stop: int
    names: Names = field(default_factory=dict)
    change: str | None = None


class Split(InputPartition):
    """What one task reads. Pieces of files of one definition share their names, also when pickled."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = tuple(pieces)


@dataclass(frozen=True, slots=True)
class PieceReader:
    """Reads pieces as batches of one schema. Pickles."""

    store: Store
    components: Components
    schema: pa.Schema
    conditions: tuple[Condition, ...] = ()
    batch_rows: int = BATCH_ROWS

    @property
    def splittable(self) -> bool:
        """Whether a file can be read in parts: its row groups can, if nothing is wrapped around them."""
        return self.components.is_plain_parquet

    def read(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        for small, run in groupby(pieces, self._is_small):
            if small:
                yield from _joined(self._small(list(run)), self.batch_rows)
            else:
                for piece in run:
                    yield from self._read_one(piece)

    def _read_one(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        batches = self._row_groups(piece) if self.splittable else self._decoded(piece)
        for batch in batches:
            if batch.num_rows:
                yield batch if piece.change is None else self._marked(batch, piece.change)

    def _is_small(self, piece: Piece) -> bool:
        """Whether the file is read in one request, without the conditions: Spark filters again."""
        size = piece.file.size_bytes
        return (
            self.splittable
            and piece.stop - piece.start == size <= MAX_SMALL_BYTES
            and not piece.names
            and piece.change is None
            and bool(self.schema.names)
        )

    def _small(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        codec = self.components.codec
        assert reads_whole(codec)
        files = [piece.file for piece in pieces]
        # Spark's tasks are parallel already.
        found = read_small(self.store, codec, files, self.schema, REAL, alone=True)
        for piece, (_, batches) in zip(pieces, found, strict=True):
            yield from self._read_one(piece) if batches is None else batches

    def _marked(self, batch: pa.RecordBatch, change: str) -> pa.RecordBatch:
        """The batch with what happened to its rows, if that is wanted."""
        index = self.schema.get_field_index(CHANGE)
        if index < 0:
            return batch
        field = self.schema.field(index)
        return batch.set_column(index, field, pa.repeat(pa.scalar(change, field.type), batch.num_rows))

    def _row_groups(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        # Spark's tasks are parallel already: without filters, a task decodes on its own thread alone. And
        # importing pyarrow's dataset module, which imports pandas, costs a fresh worker more than a scan.
        batches = self._filtered(piece) if self.conditions else self._whole(piece)
        try:
            for batch in batches:
                yield cast_batch(batch, self.schema, first_row=0)
        except LodeError:
            raise
        except (pa.ArrowInvalid, pa.ArrowSerializationError, OSError) as error:
            # Arrow's errors for damaged pages have no errno. An error that has one comes from the system.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise InvalidFormatError(f"{piece.file.path} cannot be read: {error}") from error

    def _whole(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        with arrow_filesystem(self.store, [piece.file]).open_input_file(piece.file.path) as source:
            file: Any = pq.ParquetFile(source, pre_buffer=True, page_checksum_verification=True)
            present = self._present(file.schema_arrow.names, piece)
            columns = list(present.values())
            groups = _row_groups_in(file.metadata, piece)
            for batch in file.iter_batches(self.batch_rows, groups, columns, use_threads=False):
                # Asked for a column named s.x, it also gives the x of a column s.
                yield batch.select(columns).rename_columns(list(present))

    def _filtered(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        import pyarrow.dataset as pads

        filesystem = arrow_filesystem(self.store, [piece.file])
        fragment: Any = pads.ParquetFileFormat().make_fragment(piece.file.path, filesystem)
        fragment = fragment.subset(row_group_ids=_row_groups_in(fragment.metadata, piece))
        schema = fragment.physical_schema
        present = self._present(schema.names, piece)
        scanner = fragment.scanner(
            schema=schema,
            columns=list(present.values()),
            # In the file another column may have the name that a condition means. Spark filters again.
            filter=together(self.conditions, set(schema.names) - set(piece.names)),
            batch_size=self.batch_rows,
            fragment_scan_options=pads.ParquetFragmentScanOptions(page_checksum_verification=True),
        )
        for batch in scanner.to_batches():
            yield batch.rename_columns(list(present))

    def _present(self, columns: Container[str], piece: Piece) -> dict[str, str]:
        """The columns to be read that a file has, with their names in it."""
        names = {name: piece.names.get(name, name) for name in self.schema.names}
        return {name: there for name, there in names.items() if there is not None and there in columns}

    def _decoded(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        names = self.schema.names
        where = together(self.conditions, names)
        row = 0
        for chunk in decode_file(self.store, piece.file, self.components):
            rows = len(chunk)
            if isinstance(chunk, list):
                there = [(name, piece.names.get(name, name)) for name in names]
                chunk = [{now: record.get(then) if then else None for now, then in there} for record in chunk]
            else:
                present = self._present(chunk.schema.names, piece)
                chunk = chunk.select(list(present.values())).rename_columns(list(present))
            batch = to_batch(chunk, self.schema, first_row=row, from_json=isinstance(chunk, list))
            row += rows
            yield batch if where is None else batch.filter(where)


def _joined(batches: Iterable[pa.RecordBatch], max_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of small batches in larger ones, with at most so many rows."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _JOINED_ROWS or size >= _JOINED_BYTES:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches(max_rows)
            held, rows, size = [], 0, 0
    if rows:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches(max_rows)


def plan_splits(
    scan: Scan,
    where: pc.Expression | None = None,
    schema: pa.Schema | None = None,
    *,
    split_bytes: int,
    splittable: bool,
) -> list[Split]:
    """Cut the files of a scan into tasks of about ``split_bytes``, in its order; 0 finds a size that fits.

    Args:
        scan: What is to be read.
        where: Leave out files that cannot have a row for which this is true.
        schema: The columns that ``where`` names.
        split_bytes: How much a task gets.
        splittable: Whether a file can be read in parts.
    """
    names: Mapping[str, Names] = scan.other_names()
    runs = scan.runs() if isinstance(scan, ChangeScan) else [(None, scan.manifests)]
    files = [(file, change) for change, run in runs for file in scan.of(run).pruned(where, schema)]
    cut_bytes = split_bytes
    if not split_bytes:
        total = sum(file.size_bytes for file, _ in files)
        cut_bytes = min(max(total // _MAX_AUTO_SPLITS, _MIN_CUT_BYTES), _MAX_SPLIT_BYTES)
        each = (total + len(files) * OPEN_BYTES) // _MIN_AUTO_SPLITS
        split_bytes = min(max(each, _MIN_SPLIT_BYTES), cut_bytes)
    found: list[Split] = []
    pieces: list[Piece] = []
    weight = 0
    same: Names = {}
    for piece in (
        piece
        for file, change in files
        for piece in _cut(file, names.get(file.path, same), change, cut_bytes, splittable)
    ):
        size = piece.stop - piece.start + OPEN_BYTES
        if pieces and weight + size > split_bytes + OPEN_BYTES:
            found.append(Split(pieces))
            pieces, weight = [], 0
        pieces.append(piece)
        weight += size
    return [*found, Split(pieces)]


def _cut(
    file: FileRef, names: Names, change: str | None, cut_bytes: int, splittable: bool
) -> Iterator[Piece]:
    slim = whole(file).file
    count = max(round(file.size_bytes / cut_bytes), 1) if splittable else 1
    step = -(-file.size_bytes // count)
    for start in range(0, file.size_bytes, max(step, 1)):
        yield Piece(slim, start, min(start + step, file.size_bytes), names, change)


def whole(file: FileRef) -> Piece:
    """A file that is read as a whole, without its statistics: tasks have no use for them."""
    return Piece(msgspec.structs.replace(file, stats=None), 0, file.size_bytes)


def _row_groups_in(footer: Any, piece: Piece) -> list[int]:
    return [
        index
        for index in range(footer.num_row_groups)
        if piece.start <= _beginning(footer.row_group(index)) < piece.stop
    ]


def _beginning(group: Any) -> int:
    column = group.column(0)
    first: int = column.data_page_offset
    return min(first, column.dictionary_page_offset) if column.has_dictionary_page else first
