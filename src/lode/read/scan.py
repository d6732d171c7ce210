"""Read the files of snapshots: one snapshot whole, or a range of history as a stream of Arrow batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lode.codec.columnar import to_batch
from lode.codec.parquet import Parquet
from lode.errors import ComponentMismatchError, InvalidFormatError, InvalidOptionError
from lode.lazy import pa
from lode.read.line import Line
from lode.read.prune import guarantee, matching, mentioned
from lode.read.source import arrow_filesystem, open_file, verify_file
from lode.runtime import REAL, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.compute as pc
    import pyarrow.dataset as pads

    from lode.codec.components import Components
    from lode.codec.protocol import Chunk
    from lode.format.manifest import FileRef, Manifest
    from lode.format.paths import Layout
    from lode.store.protocol import Store


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
    with open_file(store, file.path) as stored, components.compressor.decompress(stored) as plain:
        try:
            yield from components.codec.decode(plain)
        except InvalidFormatError as error:
            raise InvalidFormatError(f"{file.path}: {error}") from error


@dataclass(frozen=True, slots=True)
class Scan:
    """The files of a range of history, ready to be read."""

    store: Store
    dataset_id: str
    layout: Layout
    components: Components
    manifests: Sequence[Manifest]
    runtime: Runtime = field(default=REAL, repr=False)

    @property
    def files(self) -> list[FileRef]:
        """Every file with its statistics, in the order of history."""
        return [file for manifest in self.manifests for file in manifest.files]

    @property
    def paths(self) -> list[str]:
        """The name of every file, in the order of history; several times faster than ``files``."""
        return self._line.paths

    @property
    def row_count(self) -> int:
        return self._line.row_count

    @property
    def size_bytes(self) -> int:
        return self._line.size_bytes

    def pruned(self, where: pc.Expression | None, schema: pa.Schema) -> list[FileRef]:
        """The files that may hold a row for which ``where`` is true."""
        if where is None:
            return self.files
        return matching(self.files, self._partition, schema, where)

    def read(
        self, *, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> pa.RecordBatchReader:
        """Stream the rows as Arrow batches."""
        for manifest in self.manifests:
            check_components(manifest, self.components)
        if self.components.codec is None:
            raise InvalidOptionError(
                f"dataset {self.dataset_id!r} holds blobs, which have no rows to scan: use read(snapshot)"
            )
        schema = self.schema()
        wanted = _projected(schema, columns, self.dataset_id)
        try:
            batches = self._batches(schema, columns, where)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidOptionError(
                f"where={where} does not fit dataset {self.dataset_id!r}, "
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
        return pa.unify_schemas(schemas, promote_options="permissive") if schemas else pa.schema([])

    def _batches(
        self, schema: pa.Schema, columns: Sequence[str] | None, where: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        if isinstance(self.components.codec, Parquet) and self.components.compressor.name == "noop":
            return self._native(schema, columns, where)
        return self._decoded(self.pruned(where, schema), schema, columns, where)

    def _native(
        self, schema: pa.Schema, columns: Sequence[str] | None, where: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Read Parquet through pyarrow's own scanner: files, columns and row groups are pruned there."""
        import pyarrow.dataset as pads

        form = pads.ParquetFileFormat()
        filesystem = arrow_filesystem(self.store, self.paths)
        known = pa.schema([]) if where is None else mentioned(schema, where)
        fragments: list[pads.Fragment] = [
            form.make_fragment(file.path, filesystem, guarantee(file, self._partition(file), known))
            for file in self.files
        ]
        scanner = pads.FileSystemDataset(fragments, schema, form, filesystem).scanner(
            columns=list(columns) if columns is not None else None, filter=where
        )
        return self._streamed(scanner)

    def _streamed(self, scanner: pads.Scanner) -> Iterator[pa.RecordBatch]:
        try:
            yield from scanner.to_batches()
        except (pa.ArrowInvalid, pa.ArrowSerializationError) as error:
            raise InvalidFormatError(
                f"a file of dataset {self.dataset_id!r} cannot be read: {error}"
            ) from error

    def _decoded(
        self,
        files: list[FileRef],
        schema: pa.Schema,
        columns: Sequence[str] | None,
        where: pc.Expression | None,
    ) -> Iterator[pa.RecordBatch]:
        for file in files:
            row = 0
            for chunk in decode_file(self.store, file, self.components):
                batch = to_batch(chunk, schema, first_row=row, from_json=isinstance(chunk, list))
                row += len(chunk)
                if where is not None:
                    batch = batch.filter(where)
                yield batch if columns is None else batch.select(list(columns))

    @property
    def _line(self) -> Line:
        return self.manifests if isinstance(self.manifests, Line) else Line(self.manifests)

    def _partition(self, file: FileRef) -> str:
        return self.layout.partition_of(self.dataset_id, file.path)


def _blob(store: Store, file: FileRef, components: Components) -> bytes:
    with open_file(store, file.path) as stored, components.compressor.decompress(stored) as plain:
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
    schema = declared or pa.unify_schemas([batch.schema for batch in batches], promote_options="permissive")
    return pa.Table.from_batches([to_batch(batch, schema, first_row=0) for batch in batches], schema)


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
            f"dataset {dataset_id!r} has no column {unknown[0]!r}: it has {', '.join(schema.names)}"
        )
    return pa.schema([schema.field(name) for name in columns]).with_metadata(schema.metadata)
