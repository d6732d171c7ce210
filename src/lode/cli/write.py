"""``lode write``: files, or what comes from a pipe, into a dataset as one snapshot."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import typer

from lode.cli.parameters import DATASET, JSON, METADATA, ROOT, STORE_OPTION
from lode.cli.terminal import as_json
from lode.cli.units import count, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.cli.intake import Intake
    from lode.dataset import Dataset
    from lode.snapshot import Snapshot
    from lode.write.retry import OnConflict

Input: TypeAlias = Literal["jsonl", "csv", "parquet", "arrow"]
CodecName: TypeAlias = Literal["jsonl", "parquet", "arrow", "blob"]

_FILES: Final[Any] = typer.Argument(None, metavar="FILE", help="Files to write; - or none is stdin.")
_FROM: Final[Any] = typer.Option(
    None, "--from", help="What the files are, if their names do not tell; stdin is jsonl unless told."
)
_CODEC: Final[Any] = typer.Option(
    None,
    "--codec",
    help="How a new dataset keeps records (parquet unless told), or blob for bytes as they are.",
)
_SCHEMA: Final[Any] = typer.Option(
    None, "--schema", metavar="JSON", help='The columns: {"id": "int64!", "name": "string"}.'
)
_PARTITION: Final[Any] = typer.Option(
    None, "--partition-by", "-p", metavar="A,B", help="The columns that partition a new dataset."
)
_COMPRESSOR: Final[Any] = typer.Option(None, "--compressor", help="noop, gzip or zstd, over whole files.")
_CHECKSUM: Final[Any] = typer.Option(None, "--checksum", help="md5, sha256 or xxh3-128.")
_TIMESTAMP: Final[Any] = typer.Option(
    None, "--timestamp-column", metavar="COLUMN", help="The column whose range the snapshot records."
)
_KEY: Final[Any] = typer.Option(
    None, "--idempotency-key", "-k", metavar="KEY", help="A second write under this key writes nothing."
)
_RETRIES: Final[Any] = typer.Option(
    None,
    "--retries",
    min=0,
    help="How often to follow another writer that was faster, without a limit if not given; 0 fails with "
    "exit code 4.",
)


def write(
    dataset: str = DATASET,
    files: list[str] = _FILES,
    root: str = ROOT,
    source: Input | None = _FROM,
    codec: CodecName | None = _CODEC,
    schema: str | None = _SCHEMA,
    partition_by: str | None = _PARTITION,
    compressor: str | None = _COMPRESSOR,
    checksum: str | None = _CHECKSUM,
    timestamp_column: str | None = _TIMESTAMP,
    metadata: list[str] = METADATA,
    idempotency_key: str | None = _KEY,
    retries: int | None = _RETRIES,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Write files or stdin as one snapshot.

    A dataset that is there already says how its files are written; else it is made, as the options say.
    """
    from lode.cli import pairs
    from lode.cli.intake import open_intake
    from lode.cli.progress import progress
    from lode.cli.root import open_root
    from lode.cli.target import Target
    from lode.write.retry import Retry

    said = pairs.metadata(metadata)
    target = Target.of(
        open_root(root, store_option, create=True),
        dataset,
        codec=codec,
        partition_by=partition_by,
        compressor=compressor,
        checksum=checksum,
        schema=schema,
    )
    with ExitStack() as stack, progress(f"writing {dataset}", "rows" if target.codec else "bytes") as advance:
        names = files or ["-"]
        retry = Retry(retries or 0, max_delay=1.0)
        on_conflict: OnConflict = "append" if retries is None else "raise"
        if target.codec is None:
            snapshot = _blob(target.open(retry=retry), names, said, idempotency_key, on_conflict, advance)
        else:
            intakes = [stack.enter_context(open_intake(name, source, target.known)) for name in names]
            wanted = target.schema_for(intakes)
            opened = target.open(wanted, retry=retry, timestamp_column=timestamp_column)
            snapshot = _records(opened, intakes, said, idempotency_key, on_conflict, advance)
    tell(dataset, snapshot, json=json)


def _records(
    dataset: Dataset,
    intakes: list[Intake],
    metadata: dict[str, Any],
    key: str | None,
    on_conflict: OnConflict,
    advance: Callable[[int, int | None], None],
) -> Snapshot:
    done = 0

    def counted(intake: Intake) -> Any:
        nonlocal done
        for chunk in intake.chunks():
            done += len(chunk)
            advance(done, None)
            # Records go on one by one, Arrow batches whole: what the library takes a stream of.
            yield from chunk if isinstance(chunk, list) else (chunk,)

    with dataset.transaction(metadata, idempotency_key=key, on_conflict=on_conflict) as transaction:
        if transaction.replayed is not None:
            return transaction.replayed
        for number, intake in enumerate(intakes):
            transaction.write_records(counted(intake), task=f"file-{number}")
        return transaction.commit()


def _blob(
    dataset: Dataset,
    names: list[str],
    metadata: dict[str, Any],
    key: str | None,
    on_conflict: OnConflict,
    advance: Callable[[int, int | None], None],
) -> Snapshot:
    from lode.cli.intake import open_bytes
    from lode.errors import InvalidOptionError

    if len(names) > 1:
        raise InvalidOptionError(
            f"a snapshot of dataset {dataset.id!r} is one blob: write the files one by one"
        )
    with (
        open_bytes(names[0]) as file,
        dataset.stream_write(metadata, idempotency_key=key, on_conflict=on_conflict) as out,
    ):
        done = 0
        while piece := file.read(1 << 20):
            done += out.write(piece)
            advance(done, None)
        return out.commit()


def tell(dataset: str, snapshot: Snapshot, *, json: bool) -> None:
    """Say what was committed, and what it took."""
    report = snapshot.commit
    replayed = report is not None and report.replayed
    rebases = report.rebases if report is not None else 0
    if json:
        as_json(
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
    print(f"{dataset}: snapshot {snapshot.id}, number {snapshot.sequence}, {held}{behind}")
