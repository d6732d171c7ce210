"""Scan a range of history as a stream of Arrow batches."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final

from lode.codec.columnar import to_batch
from lode.codec.protocol import reads_whole
from lode.errors import DataError, InvalidFormatError, InvalidOptionError, LodeError, PermissionDeniedError
from lode.lazy import pa
from lode.read.files import check_components, decode_file, only_columns
from lode.read.lazy_history import LazyHistory
from lode.read.plan import FileSpan, check_options, filter_of, projected, spans_of, with_present_names
from lode.read.prune import matching, mentioned
from lode.read.small import is_small, read_small
from lode.read.source import verify_file
from lode.read.verified import Checksums
from lode.runtime import REAL, Runtime
from lode.store.protocol import SupportsLocalPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow.compute as pc
    import pyarrow.dataset as pads

    from lode.codec.components import Components
    from lode.definition import Definition
    from lode.filter import Filter
    from lode.format.manifest import FileRef, Manifest
    from lode.format.paths import Layout
    from lode.read.define import Definitions
    from lode.store.protocol import Store

# Maximum number and size on storage of the files that one pyarrow scanner reads.
MAX_GROUP_FILES: Final = 16
MAX_GROUP_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Scan:
    """The files of a range of history, ready to be read."""

    store: Store
    dataset_id: str
    layout: Layout
    components: Components
    manifests: Sequence[Manifest]
    runtime: Runtime = field(default=REAL, repr=False)
    # What the dataset is at the end of the range, and what it was when each file was written.
    definition: Definition | None = field(default=None, repr=False)
    definitions: Definitions | None = field(default=None, repr=False)
    # Large files one after another, a part of a row group at a time.
    is_steady: bool = field(default=False, repr=False, kw_only=True)
    # Compare files with their checksums, and pages with theirs where only some columns are read: what is read
    # decides what is written, or is written again.
    is_checked: bool = field(default=False, repr=False, kw_only=True)

    def __reduce__(self) -> tuple[Any, ...]:
        # Threads belong to this process, and the copy gets its own. A lazy history is pickled as a list.
        parts = (self.store, self.dataset_id, self.layout, self.components, list(self.manifests))
        made = partial(Scan, is_steady=self.is_steady, is_checked=self.is_checked)
        return made, (*parts, REAL, self.definition, self.definitions)

    def of(self, manifests: Sequence[Manifest]) -> Scan:
        """The same scan over other snapshots."""
        return replace(self, manifests=manifests)

    @property
    def files(self) -> list[FileRef]:
        """Every file with its statistics, in the order of history."""
        return [file for manifest in self.manifests for file in manifest.files]

    def files_with_names(self) -> Iterator[tuple[FileRef, dict[str, str | None] | None]]:
        """Every file in the order of history, with its statistics under the present names of columns.

        The second value maps each column of the dataset to its name in the file, or to None if the file does
        not have it. It is None itself if all names are the same and the file has no dropped columns.
        """
        now: dict[str, str | None] = {name: name for name in self.definition.ids} if self.definition else {}
        for span in self._spans():
            for file in span.files:
                names = span.names
                if names is None and file.stats and any(each.name not in now for each in file.stats.columns):
                    names = now or None
                yield (file if names is None else with_present_names(file, names)), names

    @property
    def paths(self) -> list[str]:
        """The path of every file, in the order of history. Several times faster than ``files``."""
        return self._line.paths

    @property
    def locations(self) -> list[str]:
        """The location of every file, for other readers of Parquet: a local path, or a URL (``s3://…``).

        If columns of the dataset were renamed or dropped, older files have them under their old names.
        """
        if isinstance(self.store, SupportsLocalPath):
            return [str(self.store.local_path(path)) for path in self.paths]
        return [f"{self.store.url}/{path}" for path in self.paths]

    @property
    def row_count(self) -> int:
        """The number of rows in these files, from the manifests."""
        return self._line.row_count

    @property
    def size_bytes(self) -> int:
        """The size of these files on storage, from the manifests."""
        return self._line.size_bytes

    def pruned(self, where: pc.Expression | str | None, schema: pa.Schema | None = None) -> list[FileRef]:
        """The files that may contain a row for which ``where`` is true.

        Args:
            where: SQL or a pyarrow expression, as for ``read``.
            schema: The columns that it names; those of the scan if not given.
        """
        if where is None:
            return self.files
        schema = self.schema() if schema is None else schema
        found = filter_of(where, schema)
        if found is None:
            return self.files
        return [file for span in self._spans() for file in span.matching(self._partition, schema, found)]

    def other_names(self) -> dict[str, dict[str, str | None]]:
        """By path of a file, the columns that have another name in it; the name is None if it has none.

        Files with the present names are left out. Files of one definition share a mapping.
        """
        found: dict[str, dict[str, str | None]] = {}
        for span in self._spans():
            if span.names is not None:
                changed = {now: then for now, then in span.names.items() if now != then}
                found |= dict.fromkeys((file.path for file in span.files), changed)
        return found

    def read(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: pc.Expression | str | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream the rows as Arrow batches.

        Args:
            columns: Only these columns.
            where: Only rows for which this is true: SQL such as ``"n > 3 AND kind LIKE 'a%'"``, or a pyarrow
                expression.
            limit: Stop after so many rows.
        """
        check_options(columns, where, limit)
        self._check_records()
        schema = self.schema()
        wanted = projected(schema, columns, self.dataset_id)
        found = self._filter(where, schema)
        batches = self._batches(schema, columns, found)
        if limit is not None:
            batches = _first_rows(batches, limit)
        return pa.RecordBatchReader.from_batches(wanted, batches)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All rows in little memory, for a task that rewrites them: several run at the same time.

        pyarrow's scanner holds whole row groups of several files, and each of them is fresh memory.
        """
        return iter(replace(self, is_steady=True).read())

    def dataset(self, where: pc.Expression | str | None = None) -> pads.Dataset:
        """The files as a ``pyarrow.dataset.Dataset``; see ``Dataset.dataset``."""
        from lode.read.arrow_dataset import dataset_of

        check_options(None, where, None)
        self._check_records()
        schema = self.schema()
        found = self._filter(where, schema)
        return dataset_of(
            self.store, self.dataset_id, self.components, schema, self._spans(), self._partition, found
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, for every tool that takes one: ``pa.table(scan)``."""
        reader: Any = self.read()
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def _check_records(self) -> None:
        """Refuse blobs, and files of another codec or compressor."""
        for manifest in self.manifests:
            check_components(manifest, self.components)
        if self.components.codec is None:
            raise InvalidOptionError(
                f"dataset {self.dataset_id!r} holds blobs, which have no rows to scan: use read(snapshot)"
            )

    def _filter(self, where: pc.Expression | str | None, schema: pa.Schema) -> Filter | None:
        """Parse a condition, and refuse one that does not fit the columns."""
        found = filter_of(where, schema)
        if found is None:
            return None
        try:
            mentioned(schema, found.where).empty_table().filter(found.where)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError) as error:
            raise InvalidOptionError(
                f"where={str(where)[:120]} does not fit dataset {self.dataset_id!r}, "
                f"whose columns are {', '.join(schema.names)}: {error}"
            ) from None
        return found

    def count(self, where: pc.Expression | str | None = None) -> int:
        """The number of rows for which ``where`` is true. Without it no data file is read."""
        if where is None and self.components.codec is not None:
            return self.row_count
        columns: list[str] | None = None
        if where is not None and self.components.codec is not None:
            schema = self.schema()
            found = filter_of(where, schema)
            columns = [name for name in schema.names if found is not None and mentions(found.columns, name)]
        # Without any column a batch has no number of rows.
        return sum(batch.num_rows for batch in self.read(columns=columns or None, where=where))

    def schema(self) -> pa.Schema:
        """The columns of the whole scan: those of the codec, or the union of the files' columns."""
        declared: pa.Schema | None = getattr(self.components.codec, "schema", None)
        if declared is not None:
            return declared
        found = self.runtime.each(self._schema_of, self.files)
        try:
            return pa.unify_schemas(found, promote_options="permissive") if found else pa.schema([])
        except pa.ArrowException as error:
            raise InvalidFormatError(
                f"the files of dataset {self.dataset_id!r} disagree about a column ({error}): "
                "open it with a schema to say which type is meant"
            ) from None

    def _schema_of(self, file: FileRef) -> pa.Schema:
        schemas = []
        for chunk in decode_file(self.store, file, self.components):
            if isinstance(chunk, pa.RecordBatch):
                return chunk.schema  # all batches of a file have the same schema
            schemas.append(_inferred(chunk, file).schema)
        try:
            return pa.unify_schemas(schemas, promote_options="permissive") if schemas else pa.schema([])
        except pa.ArrowException as error:
            raise InvalidFormatError(
                f"{file.path}: its records disagree about a column ({error}): give the codec a schema"
            ) from None

    @property
    def is_plain_parquet(self) -> bool:
        """Whether its files are plain Parquet, with the names of columns that the dataset has now."""
        return self.components.is_plain_parquet and all(span.names is None for span in self._spans())

    def _spans(self) -> list[FileSpan]:
        return spans_of(self.manifests, self.definition, self.definitions)

    def _batches(
        self, schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        spans = self._spans()
        if len(spans) == 1 and spans[0].names is None:
            return self._plain(spans[0], schema, columns, where)
        return chain.from_iterable(self._span(span, schema, columns, where) for span in spans)

    def _plain(
        self, span: FileSpan, schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        """Read files whose columns have their present names."""
        if self.components.is_native:
            return self._native(span.files, schema, columns, where)
        files = span.files if where is None else span.matching(self._partition, schema, where)
        return self._decoded(files, schema, columns, where)

    def _span(
        self, span: FileSpan, schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        """Read files written under another definition, by their own names of columns, and rename those."""
        if span.names is None:
            yield from self._plain(span, schema, columns, where)
            return
        names = span.names
        # A filter may use any column, so it is applied after renaming.
        wanted = list(dict.fromkeys(columns)) if columns is not None and where is None else schema.names
        if where is not None:
            span = replace(span, files=span.matching(self._partition, schema, where))
        renamed = ((now, then) for now, then in names.items() if then is not None)
        physical = pa.schema([schema.field(now).with_name(then) for now, then in renamed])
        present = [then for then in map(names.__getitem__, wanted) if then is not None]
        found_schema = pa.schema([schema.field(name) for name in wanted])
        for batch in self._plain(replace(span, names=None), physical, present, None):
            arrays = [
                pa.nulls(batch.num_rows, schema.field(now).type) if then is None else batch.column(then)
                for now, then in ((name, names[name]) for name in wanted)
            ]
            # Without columns, only ``select`` keeps the number of rows.
            found = pa.RecordBatch.from_arrays(arrays, schema=found_schema) if arrays else batch.select([])
            if where is not None:
                found = where.apply(found)
            yield found if columns is None else found.select(list(columns))

    def _native(
        self, files: Sequence[FileRef], schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        """Read Parquet: small files whole, others through pyarrow's scanner unless memory is to be saved."""
        if where is not None:
            files = matching(files, self._partition, schema, where.where)
        large = self._decoded if self.is_steady else self._scanned
        # A batch without columns has no number of rows.
        if not reads_whole(self.components.codec) or (columns is not None and not columns):
            return large(files, schema, columns, where)
        return chain.from_iterable(
            (self._whole if small else large)(list(run), schema, columns, where)
            for small, run in groupby(files, is_small)
        )

    def _whole(
        self, files: list[FileRef], schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        """Read small files. Those with columns of other types go through the scanner, which casts."""
        codec = self.components.codec
        assert reads_whole(codec)
        wanted = pa.schema([schema.field(name) for name in _used(schema, columns, where)])
        share = len(wanted) / max(1, len(schema))
        # The columns that are read, unless there are more for the filter or one is wanted twice.
        chosen = None if columns is None or list(columns) == wanted.names else list(columns)
        check = checksums_of(self).check if self.is_checked else None
        found_files = read_small(self.store, codec, files, wanted, self.runtime, share=share, check=check)
        for file, batches in found_files:
            if batches is None:
                yield from self._scanned([file], schema, columns, where)
                continue
            for batch in batches:
                found = batch if where is None else where.apply(batch)
                yield found if chosen is None else found.select(chosen)

    def _scanned(
        self, files: Sequence[FileRef], schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        """Read files through pyarrow's scanner, which prunes columns and row groups."""
        # A filter that must not prune row groups is applied to the batches.
        after = where if where is not None and not where.fits_row_groups else None
        condition = where.where if where is not None and after is None else None
        wanted = _used(schema, columns, after)
        for batch in self._streamed(files, schema, wanted, condition):
            found = batch if after is None else after.apply(batch)
            yield found if columns is None else found.select(list(columns))

    def _streamed(
        self, files: Sequence[FileRef], schema: pa.Schema, columns: list[str], condition: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Read the files group by group, with one group read ahead.

        A pyarrow scanner reads ahead of its consumer until it holds 1 GiB. Two groups bound that.
        """
        from lode.read.arrow_dataset import scanner_of

        try:
            started: deque[Iterator[pa.RecordBatch]] = deque()
            for group in _groups(files):
                scanner = scanner_of(
                    self.store,
                    self.components,
                    group,
                    schema,
                    columns,
                    condition,
                    check_pages=self.is_checked,
                )
                started.append(scanner.to_batches())
                if len(started) > 1:
                    yield from started.popleft()
            for batches in started:
                yield from batches
        except LodeError:
            raise
        except PermissionError as error:  # pyarrow opens local files by itself
            raise PermissionDeniedError(
                f"no permission for a file of dataset {self.dataset_id!r}: {error}"
            ) from error
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InvalidFormatError:
        """The error for a file that pyarrow cannot read. Its own error does not always name the file."""
        verify_files_of(self)
        for file in self.files:
            size = self.store.head(file.path).size
            if size != file.size_bytes:
                return InvalidFormatError(
                    f"{file.path} has {size} bytes, its manifest says {file.size_bytes}: {error}"
                )
        return InvalidFormatError(
            f"a file of dataset {self.dataset_id!r} cannot be read, lode verify may say which: {error}"
        )

    def _decoded(
        self, files: Sequence[FileRef], schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        # Files were checked when they were written, so a column that the schema does not have was dropped.
        is_known = self.definition is not None and self.definition.columns is not None
        checksums = checksums_of(self)
        for file in files:
            row = 0
            for chunk in decode_file(self.store, file, self.components, checksums.of(file)):
                if is_known:
                    chunk = only_columns(chunk, schema.names)
                try:
                    batch = to_batch(chunk, schema, first_row=row, from_json=isinstance(chunk, list))
                except DataError:
                    verify_files_of(self)  # rows that do not fit may be damage
                    raise
                row += len(chunk)
                if where is not None:
                    batch = where.apply(batch)
                yield batch if columns is None else batch.select(list(columns))

    @property
    def _line(self) -> LazyHistory:
        return self.manifests if isinstance(self.manifests, LazyHistory) else LazyHistory(self.manifests)

    def _partition(self, file: FileRef) -> str:
        return self.layout.partition_of(self.dataset_id, file.path)


def checked(scan: Scan) -> Scan:
    """The same scan for an operation that writes what it reads, or decides by it: damage is an error."""
    return replace(scan, is_checked=True)


def checksums_of(scan: Scan) -> Checksums:
    """The checksums that the files of a scan are compared with; none unless it is checked."""
    return Checksums(scan.manifests if scan.is_checked else (), scan.components)


def verify_files_of(scan: Scan) -> None:
    """Compare all files of a scan with their checksums, and read nothing else; only if it is checked."""
    checksums = checksums_of(scan)
    for file in scan.files:
        if (checksum := checksums.of(file)) is not None:
            verify_file(scan.store, file, checksum)


def _groups(files: Sequence[FileRef]) -> Iterator[list[FileRef]]:
    """Split into consecutive files that one scanner reads."""
    group: list[FileRef] = []
    held = 0
    for file in files:
        group.append(file)
        held += file.size_bytes
        if len(group) == MAX_GROUP_FILES or held >= MAX_GROUP_BYTES:
            yield group
            group, held = [], 0
    if group:
        yield group


def _used(schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None) -> list[str]:
    """The columns to read: those that are wanted, and those that the filter uses."""
    if columns is None:
        return schema.names
    used = [name for name in schema.names if where is not None and mentions(where.columns, name)]
    return list(dict.fromkeys([*columns, *used]))


def mentions(paths: Iterable[str], column: str) -> bool:
    """Whether one of these paths names a column or a field inside it."""
    return any(f"{path}.".startswith(f"{column}.") for path in paths)


def _first_rows(batches: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    while limit:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch[:limit]
        limit -= min(limit, batch.num_rows)


def _inferred(records: list[Any], file: FileRef) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_pylist(records)
    except (pa.ArrowException, AttributeError, TypeError) as error:
        raise InvalidFormatError(
            f"{file.path}: its records do not form columns ({error}): give the codec a schema"
        ) from None
