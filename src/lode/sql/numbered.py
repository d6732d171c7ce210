"""The rows of a snapshot with a number for each, so that a statement can name the rows that it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lode.change.base import slim
from lode.errors import InvalidFormatError
from lode.read.arrow_dataset import EngineDataset, native_dataset
from lode.read.files import count_rows
from lode.read.prune import guarantee, mentioned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.compute as pc

    from lode.format.manifest import FileRef, Manifest
    from lode.read.scan import Scan

ROW: Final = "row$"
_WIDE: Final = pa.decimal128(38, 18)


@dataclass(frozen=True, slots=True)
class NumberedFile:
    """A file of a snapshot and the numbers of its rows: ``count`` of them from ``start``."""

    path: str
    start: int
    count: int


class NumberedRows(EngineDataset):
    """The rows of a scan as DuckDB reads them, with the column ``row$``: 0 for the first of the first file.

    A number does not depend on the filter of a query. So a filter leaves out whole files by what their
    partition and statistics say, and is applied to the rows of the others after they were numbered.

    Files are read by the scan. So columns that were renamed have their present names.
    """

    numbered: list[NumberedFile]
    total: int
    # What has ended a read: DuckDB's error has only its text.
    failure: BaseException | None
    scan: Scan

    def __reduce__(self) -> Any:
        return numbered_rows, (self.scan,)

    def scanner(  # type: ignore[override, unused-ignore]  # DuckDB gives columns and a filter
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002, the name of pyarrow
        **_options: Any,
    ) -> Any:
        names = self.schema.names if columns is None else list(columns)
        return _Scanner(self, names, filter)

    def batches(self, columns: list[str], where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """The rows for which a condition is true."""
        chosen = {fragment.path for fragment in self.get_fragments(filter=where)}
        files = [file for file in self.numbered if file.path in chosen]
        wanted = pa.schema([self.schema.field(name) for name in columns])
        used = {*columns, *(mentioned(self.schema, where).names if where is not None else ())} - {ROW}
        # Without any column a batch has no number of rows.
        read = [name for name in self.scan.schema().names if name in used] or self.scan.schema().names[:1]
        at = 0
        done = 0
        for batch in self.scan.of(_part(self.scan, chosen)).read(columns=read):
            if not batch.num_rows:
                continue
            while done == files[at].count:
                at, done = at + 1, 0
            start = files[at].start + done
            done += batch.num_rows
            if done > files[at].count:
                raise InvalidFormatError(
                    f"{files[at].path} has more than the {files[at].count} rows that its manifest says: "
                    "run lode verify"
                )
            numbers = pa.array(range(start, start + batch.num_rows), pa.int64())
            found = _narrowed(batch).append_column(ROW, numbers)
            if where is not None:
                found = found.filter(where)
            if found.num_rows:
                yield found.select(columns).cast(wanted)


class _Scanner:
    """What DuckDB asks a scanner for."""

    def __init__(self, rows: NumberedRows, columns: list[str], where: pc.Expression | None) -> None:
        self._rows = rows
        self._columns = columns
        self._where = where
        self.projected_schema = pa.schema([rows.schema.field(name) for name in columns])

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._noted())

    def _noted(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._rows.batches(self._columns, self._where)
        except GeneratorExit:
            raise  # the query has ended before its rows have
        except BaseException as error:
            self._rows.failure = error
            raise


def numbered_rows(scan: Scan) -> NumberedRows:
    """The rows of a scan of Parquet files."""
    files: list[FileRef] = [file for file, _ in scan.files_with_names()]
    schema = scan.schema()
    # What statistics say of decimals of 256 bits cannot be compared with DuckDB's decimals.
    plain = pa.schema([each for each in schema if not pa.types.is_decimal256(each.type)])
    known = [guarantee(file, scan.layout.partition_of(scan.dataset_id, file.path), plain) for file in files]
    whole = narrow(schema).append(pa.field(ROW, pa.int64()))
    native = native_dataset(scan.store, scan.components, files, whole, known)
    made = NumberedRows(list(native.get_fragments()), whole, native.format, native.filesystem)
    made.numbered = []
    made.total = 0
    made.failure = None
    made.scan = scan
    for file in files:
        count = file.stats.row_count if file.stats else count_rows(scan.store, file, scan.components)
        made.numbered.append(NumberedFile(file.path, made.total, count))
        made.total += count
    return made


def _part(scan: Scan, paths: set[str]) -> list[Manifest]:
    found = []
    for manifest in scan.manifests:
        files = tuple(file for file in manifest.files if file.path in paths)
        if files:
            found.append(slim(manifest, files))
    return found


def narrow(schema: pa.Schema) -> pa.Schema:
    """A schema without decimals of 256 bits, which DuckDB does not read."""
    return pa.schema(
        [each.with_type(_WIDE) if pa.types.is_decimal256(each.type) else each for each in schema]
    )


def _narrowed(batch: pa.RecordBatch) -> pa.RecordBatch:
    wanted = narrow(batch.schema)
    if wanted.equals(batch.schema):
        return batch
    try:
        return batch.cast(wanted)
    except pa.ArrowInvalid:
        raise ValueError(
            "A BIGNUMERIC value has more digits than a query has: 20 before the point and 18 after it"
        ) from None
