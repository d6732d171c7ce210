"""``lode write``: files or stdin into a dataset, as one snapshot."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.parameters import (
    ALLOW_EMPTY,
    CHECKSUM,
    COMPRESSOR,
    DATASET,
    EVOLVE,
    FILES,
    FROM,
    JSON,
    KEY,
    METADATA,
    PARTITION_BY,
    ROOT,
    SCHEMA,
    STORE_OPTION,
    TIMESTAMP_COLUMN,
    InputFormat,
    codec_option,
    open_root,
    parse_metadata,
)
from lode.cli.terminal import print_json, printable, progress
from lode.errors import InvalidOptionError, SchemaViolationError
from lode.units import count, size

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    import pyarrow as pa

    from lode.cli.input_files import InputFile
    from lode.dataset import Dataset
    from lode.definition import Definition
    from lode.snapshot import Snapshot
    from lode.write.retry import OnConflict
    from lode.write.stream import StreamWriter
    from lode.write.transaction import Transaction

_PIECE_BYTES: Final = 1 << 20
_CODEC: Final[Any] = codec_option(
    "The format of records in a new dataset (parquet by default), or blob for bytes."
)
_RETRIES: Final[Any] = typer.Option(
    None,
    "--retries",
    min=0,
    help="How often to retry after a conflict with another writer. Default: no limit. 0 fails with exit "
    "code 4.",
)


def write(
    dataset: str = DATASET,
    files: list[str] = FILES,
    root: str = ROOT,
    source: InputFormat | None = FROM,
    codec: str | None = _CODEC,
    schema: str | None = SCHEMA,
    partition_by: str | None = PARTITION_BY,
    compressor: str | None = COMPRESSOR,
    checksum: str | None = CHECKSUM,
    timestamp_column: str | None = TIMESTAMP_COLUMN,
    metadata: list[str] = METADATA,
    idempotency_key: str | None = KEY,
    retries: int | None = _RETRIES,
    evolve: bool = EVOLVE,
    allow_empty: bool = ALLOW_EMPTY,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Write files or stdin as one snapshot.

    An existing dataset keeps its definition: format, layout and columns. The options describe a new one.
    """
    from lode.cli.input_files import columns_of, open_bytes, open_input
    from lode.cli.write_target import declared_schema, open_target
    from lode.write.retry import Retry

    merged = parse_metadata(metadata)
    declared = declared_schema(schema)
    target, definition = open_target(
        open_root(root, store_option, create=True),
        dataset,
        codec=codec,
        schema=declared,
        partition_by=partition_by,
        retry=Retry(retries or 0, max_delay=1.0),
        compressor=compressor,
        checksum=checksum,
        timestamp_column=timestamp_column,
    )
    on_conflict: OnConflict = "append" if retries is None else "raise"
    names = files or ["-"]
    is_blob = definition.codec is None
    with ExitStack() as stack, progress(f"writing {dataset}", "bytes" if is_blob else "rows") as advance:
        if is_blob:
            _refuse_several(dataset, names)
            source_file = stack.enter_context(open_bytes(names[0]))
            first = source_file.read(_PIECE_BYTES)
            if not allow_empty and not first:
                raise no_rows(dataset, "bytes")
            with target.stream_write(merged, idempotency_key=idempotency_key, on_conflict=on_conflict) as out:
                snapshot = _write_blob(out, first, source_file, advance)
        else:
            known = declared if declared is not None else definition.schema
            inputs = [stack.enter_context(open_input(name, source, known)) for name in names]
            if not allow_empty and not any(file.has_rows() for file in inputs):
                raise no_rows(dataset, "rows")
            columns = None if declared is not None else columns_of(definition, inputs)
            if columns is not None and not evolve:
                refuse_new(dataset, definition, columns)
            with target.transaction(
                merged,
                idempotency_key=idempotency_key,
                on_conflict=on_conflict,
                schema=columns,
                evolve=evolve,
            ) as transaction:
                snapshot = _write_records(transaction, inputs, advance)
    print_commit(dataset, snapshot, json=json)
    if snapshot.sequence == 1:
        _warn_of_similar_names(target)


def _warn_of_similar_names(target: Dataset) -> None:
    """Print similar names to stderr: a mistyped name creates a dataset instead of appending to one."""
    from lode.near import question
    from lode.reader import DatasetReader

    names = [name for name in DatasetReader(target.store).near(target.id) if name != target.id]
    if names:
        print(printable(f"lode: dataset {target.id!r} is new: {question(names)}"), file=sys.stderr)


def refuse_new(dataset: str, definition: Definition, columns: pa.Schema, *, evolve: bool = True) -> None:
    """Refuse columns that the dataset does not have, and name the commands that add them.

    Args:
        dataset: The name of the dataset.
        definition: What it is.
        columns: The columns of the files.
        evolve: Whether the command has the option ``--evolve``.
    """
    if definition.columns is None:
        return
    for column in definition.with_schema(columns).columns or ():
        if column.name not in definition.ids:
            raise SchemaViolationError(
                f"column {column.name!r} ({column.type_text}) is not one of dataset {dataset!r}, which has "
                f"{', '.join(definition.ids)}: {'write with --evolve, or ' if evolve else ''}add it with "
                "lode evolve --add",
                column=column.name,
            )


def _write_records(
    transaction: Transaction, inputs: list[InputFile], advance: Callable[[int, int | None], None]
) -> Snapshot:
    done = 0

    def counted(file: InputFile) -> Any:
        nonlocal done
        for chunk in file.chunks():
            done += len(chunk)
            advance(done, None)
            # The library takes a stream of single records or of Arrow batches.
            yield from chunk if isinstance(chunk, list) else (chunk,)

    if transaction.replayed is not None:
        return transaction.replayed
    for number, file in enumerate(inputs):
        if file.has_rows():
            transaction.write_records(counted(file), task=f"file-{number}")
    return transaction.commit()


def _refuse_several(dataset: str, names: list[str]) -> None:
    if len(names) > 1:
        raise InvalidOptionError(f"a snapshot of dataset {dataset!r} is one blob: write the files one by one")


def _write_blob(
    out: StreamWriter, piece: bytes, file: BinaryIO, advance: Callable[[int, int | None], None]
) -> Snapshot:
    done = 0
    while piece:
        done += out.write(piece)
        advance(done, None)
        piece = file.read(_PIECE_BYTES)
    return out.commit()


def no_rows(dataset: str, what: str) -> InvalidOptionError:
    """The error for files without rows."""
    return InvalidOptionError(
        f"there are no {what} to write to dataset {dataset!r}, so nothing was committed: commit an empty "
        "snapshot with --allow-empty"
    )


def print_commit(dataset: str, snapshot: Snapshot, *, json: bool) -> None:
    """Print the snapshot that was committed, and the number of rebases."""
    report = snapshot.commit
    replayed = report is not None and report.replayed
    rebases = report.rebases if report is not None else 0
    if json:
        print_json(
            {
                "dataset": dataset,
                "id": snapshot.id,
                "sequence": snapshot.sequence,
                "rows": snapshot.row_count,
                "bytes": snapshot.size_bytes,
                "files": len(snapshot.files),
                "rebases": rebases,
                "replayed": replayed,
            }
        )
        return
    if replayed:
        print(f"{dataset}: this key was written before, as snapshot {snapshot.id}")
        return
    rows, files = count(snapshot.row_count, "row"), count(len(snapshot.files), "file")
    behind = f", behind {count(rebases, 'other writer')}" if rebases else ""
    held = f"{rows}, {files}, {size(snapshot.size_bytes)}"
    new = "new dataset, " if snapshot.sequence == 1 else ""
    print(f"{dataset}: {new}snapshot {snapshot.id}, number {snapshot.sequence}, {held}{behind}")
