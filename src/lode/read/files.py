"""Read the data files of one snapshot: whole, verified, or chunk by chunk."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lode.codec.columnar import to_batch
from lode.codec.protocol import takes_any_record
from lode.errors import ComponentMismatchError, InvalidFormatError, LodeError
from lode.lazy import pa
from lode.read.source import borrowed_file, verify_file
from lode.read.verified import finish, open_checked
from lode.runtime import REAL, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from lode.codec.checksum import Checksum
    from lode.codec.components import Components
    from lode.codec.protocol import Chunk
    from lode.format.manifest import FileRef, Manifest
    from lode.store.protocol import Store


def read_files(
    store: Store, manifest: Manifest, components: Components, *, verify: bool = False, runtime: Runtime = REAL
) -> Any:
    """The content of one snapshot, in the type that its codec decodes to."""
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
    """Refuse a snapshot that was written with another codec or compressor."""
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


def decode_file(
    store: Store, file: FileRef, components: Components, checksum: Checksum | None = None
) -> Iterator[Chunk]:
    """Yield a file's content chunk by chunk; damage becomes ``InvalidFormatError`` naming the file.

    With a checksum, the file is compared with it on the way. Damage is ``ChecksumMismatchError`` then, at the
    latest after the last chunk.
    """
    assert components.codec is not None
    with open_plain(store, file, components, checksum) as plain:
        yield from components.codec.decode(plain)


def count_rows(store: Store, file: FileRef, components: Components) -> int:
    """Count the rows of a file by decoding it; a blob is one."""
    if components.codec is None:
        return 1
    return sum(len(chunk) for chunk in decode_file(store, file, components))


@contextmanager
def open_plain(
    store: Store, file: FileRef, components: Components, checksum: Checksum | None = None
) -> Iterator[BinaryIO]:
    """Open a data file decompressed. Errors in its bytes name the file.

    With a checksum, leaving the ``with`` block compares the whole file with it.
    """
    with open_checked(store, file, checksum) as reader:
        with (
            named_errors(file.path),
            borrowed_file(reader) as stored,
            components.compressor.decompress(stored) as plain,
        ):
            yield plain
        finish(reader)


@contextmanager
def named_errors(path: str) -> Iterator[None]:
    """Raise ``InvalidFormatError`` that names the file for what pyarrow says of damaged bytes."""
    try:
        yield
    except InvalidFormatError as error:
        raise InvalidFormatError(f"{path}: {error}") from error
    except LodeError:
        raise
    except (pa.ArrowException, OSError, RecursionError, UnicodeError) as error:
        # Arrow's errors for damaged bytes have no errno. An error that has one comes from the system.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InvalidFormatError(f"{path} cannot be read: {error}") from error


def only_columns(chunk: Chunk, names: Sequence[str]) -> Chunk:
    """The chunk with no columns other than these."""
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


def _blob(store: Store, file: FileRef, components: Components) -> bytes:
    with open_plain(store, file, components) as plain:
        return plain.read()


def _is_columnar(components: Components) -> bool:
    return hasattr(components.codec, "schema") and not takes_any_record(components.codec)


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
        [to_batch(only_columns(batch, schema.names), schema, first_row=0) for batch in batches], schema
    )
