"""Read the files of snapshots: one snapshot whole, or a range of history as a stream of Arrow batches."""

from __future__ import annotations

import re
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.columnar import to_batch
from lode.codec.parquet import Parquet
from lode.errors import ComponentMismatchError, InvalidFormatError, InvalidOptionError, LodeError
from lode.format.ids import shortened
from lode.lazy import pa
from lode.near import column_hint
from lode.read.lazy_history import Line
from lode.read.prune import guarantee, matching, mentioned
from lode.read.source import arrow_filesystem, check_sizes, open_file, verify_file
from lode.runtime import REAL, Runtime
from lode.store.local import LocalStore
from lode.store.protocol import check_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import BinaryIO

    import pyarrow.compute as pc
    import pyarrow.dataset as pads

    from lode.codec.components import Components
    from lode.codec.protocol import Chunk
    from lode.definition import Definition
    from lode.filter import Filter
    from lode.format.manifest import FileRef, Manifest
    from lode.format.paths import Layout
    from lode.read.define import Definitions
    from lode.store.protocol import Store


_FLOAT: Final = re.compile("float|double")
# What may be true of NaN, which the statistics of row groups leave out: all but comparisons, AND and OR.
_TRUE_OF_NAN: Final = re.compile(r"!=|\) (?:[=<>])|\b(?!is_in|is_null|is_valid|and|or|FieldRef)\w+\(")

# Files that one scanner of pyarrow reads, and their size on storage.
MAX_GROUP_FILES: Final = 16
MAX_GROUP_BYTES: Final = 32 << 20


def read_files(
    store: Store, manifest: Manifest, components: Components, *, verify: bool = False, runtime: Runtime = REAL
) -> Any:
    """Everything one snapshot holds, in the shape its codec gives it."""
    check_components(manifest, components)
    if verify:
        verify_files(store, manifest, components, runtime)
    if components.codec is None:
        return b"".join(runtime.each(lambda file: _blob(store, file, components), manifest.files))
    chunks = [chunk for file in manifest.files for chunk in decode_file(store, file, components)]
    if all(isinstance(chunk, pa.RecordBatch) for chunk in chunks) and (chunks or _is_columnar(components)):
        return _table(chunks, components)
    return [
        record for chunk in chunks for record in (chunk if isinstance(chunk, list) else chunk.to_pylist())
    ]


def verify_files(store: Store, manifest: Manifest, components: Components, runtime: Runtime = REAL) -> None:
    """Check every file of a snapshot against its checksum."""
    checksum = components.checksum
    if manifest.checksum_algorithm is None:
        raise ComponentMismatchError(
            f"snapshot {manifest.snapshot_id} of dataset {manifest.dataset_id!r} has no checksums to verify: "
            "read it without verify, or compare sizes with lode verify --quick"
        )
    if checksum is None or manifest.checksum_algorithm != checksum.name:
        raise ComponentMismatchError(
            f"snapshot {manifest.snapshot_id} has checksums by {manifest.checksum_algorithm!r}: "
            f"open the dataset with checksum={manifest.checksum_algorithm!r} to verify them"
        )
    runtime.each(lambda file: verify_file(store, file, checksum), manifest.files)


def check_components(manifest: Manifest, components: Components) -> None:
    """Refuse a snapshot that was written with another codec or compressor than it is read with."""
    codec = components.codec.name if components.codec else None
    for what, written, opened in (
        ("codec", manifest.codec, codec),
        ("compressor", manifest.compressor, components.compressor.name),
    ):
        if written != opened:
            raise ComponentMismatchError(
                f"snapshot {manifest.snapshot_id} of dataset {manifest.dataset_id!r} was written with the "
                f"{what} {written!r} and is read with {opened!r}: open the dataset with {what}={written!r}"
            )


def decode_file(store: Store, file: FileRef, components: Components) -> Iterator[Chunk]:
    """Yield a file's content chunk by chunk; damage becomes ``InvalidFormatError`` naming the file."""
    assert components.codec is not None
    with open_plain(store, file, components) as plain:
        yield from components.codec.decode(plain)


@contextmanager
def open_plain(store: Store, file: FileRef, components: Components) -> Iterator[BinaryIO]:
    """Open a data file decompressed; whatever is wrong with its bytes names the file."""
    path = file.path
    try:
        with open_file(store, file) as stored, components.compressor.decompress(stored) as plain:
            yield plain
    except InvalidFormatError as error:
        raise InvalidFormatError(f"{path}: {error}") from error
    except LodeError:
        raise
    except (pa.ArrowException, OSError, RecursionError, UnicodeError) as error:
        # Arrow has no number for damage. An error that has one is of the system, and perhaps of the caller.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InvalidFormatError(f"{path} cannot be read: {error}") from error


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

    def __reduce__(self) -> tuple[Any, ...]:
        # Threads are of this process; the copy has its own. A history that is read lazily travels as a list.
        parts = (self.store, self.dataset_id, self.layout, self.components, list(self.manifests))
        return Scan, (*parts, REAL, self.definition, self.definitions)

    def of(self, manifests: Sequence[Manifest]) -> Scan:
        """The same scan over other snapshots."""
        return replace(self, manifests=manifests)

    @property
    def files(self) -> list[FileRef]:
        """Every file with its statistics, in the order of history."""
        return [file for manifest in self.manifests for file in manifest.files]

    def files_with_names(self) -> Iterator[tuple[FileRef, dict[str, str | None] | None]]:
        """Every file in the order of history, with its statistics under the present names of columns.

        With each comes the name in the file of every column of the dataset, None where the file has none; or
        None if all names are the same and the file has no columns that were dropped.
        """
        now: dict[str, str | None] = {name: name for name in self.definition.ids} if self.definition else {}
        for span in self._spans():
            for file in span.files:
                names = span.names
                if names is None and file.stats and any(each.name not in now for each in file.stats.columns):
                    names = now or None
                yield (file if names is None else _renamed(file, names)), names

    @property
    def paths(self) -> list[str]:
        """The name of every file, in the order of history; several times faster than ``files``."""
        return self._line.paths

    @property
    def locations(self) -> list[str]:
        """Where every file is, for other readers of Parquet: a path on this machine, or a URL (``s3://…``).

        Files of a dataset whose columns were renamed or dropped have the columns that they were written with.
        """
        if isinstance(self.store, LocalStore):
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
        """The files that may hold a row for which ``where`` is true.

        Args:
            where: SQL or a pyarrow expression, as for ``read``.
            schema: The columns that it names; those of the scan if not given.
        """
        if where is None:
            return self.files
        schema = self.schema() if schema is None else schema
        found = _filter(where, schema)
        if found is None:
            return self.files
        return [file for span in self._spans() for file in self._matching(span, schema, found)]

    def other_names(self) -> dict[str, dict[str, str | None]]:
        """By path of a file, the columns with another name in it than in the dataset; None if it has none.

        Files with the names that the dataset has now are left out. Files of one definition share a mapping.
        """
        found: dict[str, dict[str, str | None]] = {}
        for span in self._spans():
            if span.names is not None:
                changed = {now: then for now, then in span.names.items() if now != then}
                found |= dict.fromkeys((file.path for file in span.files), changed)
        return found

    def read(
        self, *, columns: Sequence[str] | None = None, where: pc.Expression | str | None = None
    ) -> pa.RecordBatchReader:
        """Stream the rows as Arrow batches; ``where`` may be SQL, such as ``"n > 3 AND kind LIKE 'a%'"``."""
        _check_options(columns, where)
        for manifest in self.manifests:
            check_components(manifest, self.components)
        if self.components.codec is None:
            raise InvalidOptionError(
                f"dataset {self.dataset_id!r} holds blobs, which have no rows to scan: use read(snapshot)"
            )
        schema = self.schema()
        wanted = _projected(schema, columns, self.dataset_id)
        found = _filter(where, schema)
        try:
            if found is not None:
                mentioned(schema, found.where).empty_table().filter(found.where)
            batches = self._batches(schema, columns, found)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError) as error:
            raise InvalidOptionError(
                f"where={str(where)[:120]} does not fit dataset {self.dataset_id!r}, "
                f"whose columns are {', '.join(schema.names)}: {error}"
            ) from None
        return pa.RecordBatchReader.from_batches(wanted, batches)

    def schema(self) -> pa.Schema:
        """The columns of the whole scan: the codec's own, or what the files have between them."""
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
                return chunk.schema  # one file has one schema
            schemas.append(_inferred(chunk, file).schema)
        try:
            return pa.unify_schemas(schemas, promote_options="permissive") if schemas else pa.schema([])
        except pa.ArrowException as error:
            raise InvalidFormatError(
                f"{file.path}: its records disagree about a column ({error}): give the codec a schema"
            ) from None

    @property
    def is_plain_parquet(self) -> bool:
        """Whether its files are plain Parquet whose columns have the names that the dataset has now."""
        if not isinstance(self.components.codec, Parquet) or self.components.compressor.name != "noop":
            return False
        return all(span.names is None for span in self._spans())

    def _batches(
        self, schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        spans = self._spans()
        if len(spans) == 1 and spans[0].names is None:
            return self._plain(spans[0], schema, columns, where)
        return chain.from_iterable(self._span(span, schema, columns, where) for span in spans)

    def _spans(self) -> list[_Span]:
        """The files of the range, in its order, by the definition under which they were written."""
        now = self.definition
        if now is None or now.columns is None or self.definitions is None:
            return [_Span(self.files)]
        spans: list[_Span] = []
        last: object = None
        written = self.definitions.by_manifest(self.manifests)
        for manifest, then in zip(self.manifests, written, strict=True):
            kind = (then.digest if then is not None else None, manifest.surplus)
            if not spans or kind != last:
                spans.append(_span_of(now, then, manifest.surplus))
            spans[-1].files.extend(manifest.files)
            last = kind
        if any(span.names is not None for span in spans):
            return spans
        return [_Span([file for span in spans for file in span.files])]

    def _plain(
        self, span: _Span, schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        """Read files whose columns have the names that the dataset has now."""
        if isinstance(self.components.codec, Parquet) and self.components.compressor.name == "noop":
            return self._native(span.files, schema, columns, where)
        files = span.files if where is None else self._matching(span, schema, where)
        return self._decoded(files, schema, columns, where)

    def _span(
        self, span: _Span, schema: pa.Schema, columns: Sequence[str] | None, where: Filter | None
    ) -> Iterator[pa.RecordBatch]:
        """Read files written under another definition: columns by the names they had, then renamed."""
        if span.names is None:
            yield from self._plain(span, schema, columns, where)
            return
        names = span.names
        # A filter may name any column, so it is applied after the columns have their present names.
        wanted = list(dict.fromkeys(columns)) if columns is not None and where is None else schema.names
        if where is not None:
            span = replace(span, files=self._matching(span, schema, where))
        renamed = ((now, then) for now, then in names.items() if then is not None)
        physical = pa.schema([schema.field(now).with_name(then) for now, then in renamed])
        present = [then for then in map(names.__getitem__, wanted) if then is not None]
        found_schema = pa.schema([schema.field(name) for name in wanted])
        for batch in self._plain(replace(span, names=None), physical, present, None):
            arrays = [
                pa.nulls(batch.num_rows, schema.field(now).type) if then is None else batch.column(then)
                for now, then in ((name, names[name]) for name in wanted)
            ]
            # Without columns only a batch that has some rows already keeps their number.
            found = pa.RecordBatch.from_arrays(arrays, schema=found_schema) if arrays else batch.select([])
            if where is not None:
                found = where.apply(found)
            yield found if columns is None else found.select(list(columns))

    def _matching(self, span: _Span, schema: pa.Schema, where: Filter) -> list[FileRef]:
        """The files of a span that may hold a row for which ``where`` is true."""
        if span.names is None:
            return matching(span.files, self._partition, schema, where.where)
        renamed = [_renamed(file, span.names) for file in span.files]
        paths = {file.path for file in matching(renamed, self._partition, schema, where.where)}
        return [file for file in span.files if file.path in paths]

    def _native(
        self,
        files: Sequence[FileRef],
        schema: pa.Schema,
        columns: Sequence[str] | None,
        where: Filter | None,
    ) -> Iterator[pa.RecordBatch]:
        """Read Parquet through pyarrow's own scanner: files, columns and row groups are pruned there."""
        if where is not None and not where.fits_row_groups:
            return self._native_after(files, schema, columns, where)
        condition = None if where is None else where.where
        known = pa.schema([]) if condition is None else mentioned(schema, condition)
        dataset = self.arrow_dataset(files, schema, known)
        kept: list[Any] = list(dataset.get_fragments(filter=condition))
        sized = {file.path: file for file in files}
        check_sizes(self.store, (sized[fragment.path] for fragment in kept))
        wanted = list(columns) if columns is not None else None
        # A plan is made for the whole scan at once, so that a filter or column that does not fit fails here.
        dataset.scanner(columns=wanted, filter=condition)
        return self._streamed(dataset, _groups(kept, sized), wanted, condition)

    def _native_after(
        self, files: Sequence[FileRef], schema: pa.Schema, columns: Sequence[str] | None, where: Filter
    ) -> Iterator[pa.RecordBatch]:
        """The same for a filter that row groups must not be pruned by: it is applied to what was read."""
        kept = matching(files, self._partition, schema, where.where)
        used = [
            name for name in schema.names if any(f"{path}.".startswith(f"{name}.") for path in where.columns)
        ]
        wanted = list(dict.fromkeys([*columns, *used])) if columns is not None else None
        for batch in self._native(kept, schema, wanted, None):
            found = where.apply(batch)
            yield found if columns is None else found.select(list(columns))

    def arrow_dataset(
        self, files: Sequence[FileRef], schema: pa.Schema, known: pa.Schema
    ) -> pads.FileSystemDataset:
        """Parquet files as pyarrow reads them, with what is known of the columns ``known``."""
        import pyarrow.dataset as pads

        form = pads.ParquetFileFormat()
        filesystem = arrow_filesystem(self.store, files)
        for file in files:
            check_path(file.path)  # pyarrow opens it without asking the store
        fragments: list[pads.Fragment] = [
            form.make_fragment(file.path, filesystem, guarantee(file, self._partition(file), known))
            for file in files
        ]
        return pads.FileSystemDataset(fragments, schema, form, filesystem)

    def _streamed(
        self,
        dataset: pads.FileSystemDataset,
        groups: Iterable[list[pads.Fragment]],
        columns: list[str] | None,
        condition: pc.Expression | None,
    ) -> Iterator[pa.RecordBatch]:
        """Read the files group by group, with one group ahead.

        A scanner of pyarrow reads on without its consumer until it holds 1 GiB. Two groups bound that.
        """

        def start(group: list[pads.Fragment]) -> Iterator[pa.RecordBatch]:
            part = type(dataset)(group, dataset.schema, dataset.format, dataset.filesystem)
            return part.scanner(columns=columns, filter=condition).to_batches()

        try:
            started: deque[Iterator[pa.RecordBatch]] = deque()
            for group in groups:
                started.append(start(group))
                if len(started) > 1:
                    yield from started.popleft()
            for batches in started:
                yield from batches
        except LodeError:
            raise
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InvalidFormatError:
        """The error for a file that pyarrow cannot read; it does not always say which one."""
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
        self,
        files: list[FileRef],
        schema: pa.Schema,
        columns: Sequence[str] | None,
        where: Filter | None,
    ) -> Iterator[pa.RecordBatch]:
        # What was written was checked, so a column that is not there any more was dropped.
        checked = self.definition is not None and self.definition.columns is not None
        for file in files:
            row = 0
            for chunk in decode_file(self.store, file, self.components):
                if checked:
                    chunk = _only(chunk, schema.names)
                batch = to_batch(chunk, schema, first_row=row, from_json=isinstance(chunk, list))
                row += len(chunk)
                if where is not None:
                    batch = where.apply(batch)
                yield batch if columns is None else batch.select(list(columns))

    @property
    def _line(self) -> Line:
        return self.manifests if isinstance(self.manifests, Line) else Line(self.manifests)

    def _partition(self, file: FileRef) -> str:
        return self.layout.partition_of(self.dataset_id, file.path)


def _groups(fragments: list[Any], files: dict[str, FileRef]) -> Iterator[list[pads.Fragment]]:
    """Consecutive files that are read by one scanner."""
    group: list[pads.Fragment] = []
    held = 0
    for fragment in fragments:
        group.append(fragment)
        held += files[fragment.path].size_bytes
        if len(group) == MAX_GROUP_FILES or held >= MAX_GROUP_BYTES:
            yield group
            group, held = [], 0
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class _Span:
    """Consecutive files that were written under one definition.

    ``names`` has the name in the files of each column of the dataset, None where they have none; it is None
    itself if all names are the same.
    """

    files: list[FileRef]
    names: dict[str, str | None] | None = None


def _span_of(now: Definition, then: Definition | None, surplus: Sequence[str]) -> _Span:
    if then is None or then.digest == now.digest or then.columns is None:
        return _Span([])
    names = {name: then.names.get(id) for name, id in now.ids.items()}
    # A name that the files have and that means another column there must not be read.
    taken = {*then.ids, *surplus}
    same = all(old == name or (old is None and name not in taken) for name, old in names.items())
    return _Span([], None if same else names)


def _renamed(file: FileRef, names: dict[str, str | None]) -> FileRef:
    """The file with its statistics under the present names of their columns."""
    if file.stats is None:
        return file
    present = {then: now for now, then in names.items() if then is not None}
    columns = tuple(
        msgspec.structs.replace(column, name=present[column.name])
        for column in file.stats.columns
        if column.name in present
    )
    return msgspec.structs.replace(file, stats=msgspec.structs.replace(file.stats, columns=columns))


def _only(chunk: Chunk, names: Sequence[str]) -> Chunk:
    """The chunk without other columns than these."""
    if isinstance(chunk, list):
        known = frozenset(names)
        if all(known.issuperset(record) for record in chunk if isinstance(record, dict)):
            return chunk
        return [
            {name: value for name, value in record.items() if name in known}
            if isinstance(record, dict)
            else record
            for record in chunk
        ]
    if chunk.schema.names == list(names):
        return chunk
    return chunk.select([name for name in names if name in chunk.schema.names])


def _check_options(columns: object, where: object) -> None:
    import pyarrow.compute as pc

    if isinstance(columns, str):
        raise InvalidOptionError(f"columns is a list of names: write columns=[{columns!r}]")
    if where is not None and not isinstance(where, pc.Expression | str):
        raise InvalidOptionError(
            f"where is {shortened(where)}: give SQL such as \"day = 'mon'\", or a pyarrow expression"
        )


def _filter(where: pc.Expression | str | None, schema: pa.Schema) -> Filter | None:
    if where is None:
        return None
    from lode.filter import Filter, parse_filter

    if isinstance(where, str):
        return parse_filter(where, schema)
    columns = mentioned(schema, where)
    floats = any(_FLOAT.search(str(column.type)) for column in columns)
    return Filter(where, tuple(columns.names), not floats or _TRUE_OF_NAN.search(str(where)) is None)


def _blob(store: Store, file: FileRef, components: Components) -> bytes:
    with open_plain(store, file, components) as plain:
        return plain.read()


def _is_columnar(components: Components) -> bool:
    return (
        hasattr(components.codec, "schema")
        and components.codec is not None
        and components.codec.name != "jsonl"
    )


def _table(batches: list[Any], components: Components) -> pa.Table:
    declared = getattr(components.codec, "schema", None)
    if not batches:
        return (declared or pa.schema([])).empty_table()
    try:
        schema = declared or pa.unify_schemas(
            [batch.schema for batch in batches], promote_options="permissive"
        )
    except pa.ArrowException as error:
        raise InvalidFormatError(f"the files of one snapshot disagree about a column: {error}") from None
    # A file may have a column that was dropped while it was written.
    return pa.Table.from_batches(
        [to_batch(_only(batch, schema.names), schema, first_row=0) for batch in batches], schema
    )


def _inferred(records: list[Any], file: FileRef) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_pylist(records)
    except (pa.ArrowException, AttributeError, TypeError) as error:
        raise InvalidFormatError(
            f"{file.path}: its records do not form columns ({error}): give the codec a schema"
        ) from None


def _projected(schema: pa.Schema, columns: Sequence[str] | None, dataset_id: str) -> pa.Schema:
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise InvalidOptionError(
            f"dataset {dataset_id!r} has no column {unknown[0]!r}: {column_hint(unknown[0], schema.names)}"
        )
    return pa.schema([schema.field(name) for name in columns]).with_metadata(schema.metadata)
