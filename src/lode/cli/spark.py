"""``lode spark``: pipelines and work on whole datasets, spread over a cluster."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Literal

import typer

from lode.cli import pipeline
from lode.cli.change import open_existing, print_change
from lode.cli.compact import SORT_BY, TARGET_FILE_SIZE, WHERE, file_bytes
from lode.cli.expire import DELETE as EXPIRE
from lode.cli.expire import KEEP, expire_limit, print_expired
from lode.cli.expire import OLDER_THAN as EXPIRE_OLDER_THAN
from lode.cli.parameters import (
    AS_OF,
    DATASET,
    DRY_RUN,
    JSON,
    KEY,
    METADATA,
    ROOT,
    SINCE,
    STORE_OPTION,
    age_or_time,
    key_values,
    open_root,
    parse_metadata,
)
from lode.cli.sweep import DELETE as SWEEP
from lode.cli.sweep import OLDER_THAN as SWEEP_OLDER_THAN
from lode.cli.sweep import print_swept
from lode.cli.terminal import print_json, progress
from lode.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lode.snapshot import Snapshot
    from lode.spark.dataset_ref import DatasetRef

app: Final = typer.Typer(
    help="Pipelines and work on whole datasets, on Spark.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

_MASTER: Final[Any] = typer.Option("local[*]", "--master", envvar="SPARK_MASTER", help="Where Spark runs.")
_SETTING: Final[Any] = typer.Option(
    [], "--conf", metavar="KEY=VALUE", help="A setting of Spark. Several are fine."
)
_FILES: Final[Any] = typer.Argument(..., metavar="PATH", help="What to read, as Spark names it.")
_READ: Final[Any] = typer.Option("parquet", "--from", help="What the files are.")
_WRITTEN: Final[Any] = typer.Option("parquet", "--format", "-f", help="What the files are to be.")
_READER: Final[Any] = typer.Option(
    [], "--option", metavar="KEY=VALUE", help="Of Spark's reader or writer, such as header=true."
)
_PARTITION: Final[Any] = typer.Option(
    None, "--partition-by", "-p", metavar="A,B", help="The columns that partition it."
)
_IMPORT_KEY: Final[Any] = typer.Option(
    ..., "--key", "-k", help="Names this import: a second one of this name writes nothing."
)
_WRITE_KEY: Final[Any] = typer.Option(
    None, "--idempotency-key", "-k", metavar="KEY", help="A second write under this key writes nothing."
)
_SPLIT: Final[Any] = typer.Option(
    None, "--split-by", metavar="COLUMN", help="A snapshot for each of its values."
)
_PATH: Final[Any] = typer.Argument(..., metavar="PATH", help="The folder, as Spark names it.")
_OVERWRITE: Final[Any] = typer.Option(False, "--overwrite", help="Replace what is in the folder.")
_INTO: Final[Any] = typer.Argument(..., metavar="INTO", help="The other dataset.")
_INTO_ROOT: Final[Any] = typer.Option(
    None, "--into-root", metavar="URL", help="Its store, if it is another one."
)
_SORT: Final[Any] = typer.Option(
    None, "--sort-by", metavar="A,B", help="Sort the rows by these columns over all files."
)
_FILE_BYTES: Final[Any] = typer.Option(None, "--file-bytes", min=1, help="How large a file should be.")
_QUICK: Final[Any] = typer.Option(False, "--quick", help="Compare sizes only; no file is read.")


app.command("run")(pipeline.run)
app.command("validate")(pipeline.validate)
app.command("status")(pipeline.status)
app.command("lineage")(pipeline.lineage)
app.command("test")(pipeline.check_steps)


@app.command("write")
def write(
    dataset: str = DATASET,
    paths: list[str] = _FILES,
    root: str = ROOT,
    source: str = _READ,
    option: list[str] = _READER,
    partition_by: str | None = _PARTITION,
    metadata: list[str] = METADATA,
    idempotency_key: str | None = _WRITE_KEY,
    master: str = _MASTER,
    conf: list[str] = _SETTING,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Write files as one snapshot, staged by tasks."""
    from lode.spark.write import write as write_frame

    place = _dataset_ref(root, dataset, store_option, partition_by)
    said = parse_metadata(metadata)
    with _session(master, conf, f"writing {dataset}") as spark:
        frame = _frame(spark, paths, source, option)
        snapshot = write_frame(place.open(), frame, said, idempotency_key=idempotency_key)
    _tell([snapshot], json=json)


@app.command("import")
def import_(
    dataset: str = DATASET,
    paths: list[str] = _FILES,
    key: str = _IMPORT_KEY,
    root: str = ROOT,
    source: str = _READ,
    option: list[str] = _READER,
    split_by: str | None = _SPLIT,
    partition_by: str | None = _PARTITION,
    metadata: list[str] = METADATA,
    master: str = _MASTER,
    conf: list[str] = _SETTING,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Import files once, under a key.

    As one snapshot, or as one for each value of a column.
    """
    from lode.spark import jobs

    place = _dataset_ref(root, dataset, store_option, partition_by)
    said = parse_metadata(metadata)
    with _session(master, conf, f"importing {dataset}") as spark:
        frame = _frame(spark, paths, source, option)
        snapshots = jobs.import_(frame, place, key=key, split_by=split_by, metadata=said)
    _tell(snapshots, json=json)


@app.command("export")
def export(
    dataset: str = DATASET,
    path: str = _PATH,
    root: str = ROOT,
    form: Literal["parquet", "json", "csv", "orc"] = _WRITTEN,
    since: str | None = SINCE,
    as_of: str | None = AS_OF,
    partition_by: str | None = _PARTITION,
    overwrite: bool = _OVERWRITE,
    option: list[str] = _READER,
    master: str = _MASTER,
    conf: list[str] = _SETTING,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Write a dataset as plain files, once.

    A receipt beside them says what they hold; the same export again does nothing.
    """
    from lode.spark import jobs

    place = _dataset_ref(root, dataset, store_option)
    with _session(master, conf, f"exporting {dataset}") as spark:
        made = jobs.export(
            spark,
            place,
            path,
            file_format=form,
            since=since,
            as_of=as_of,
            partition_by=_names(partition_by),
            overwrite=overwrite,
            options=key_values(option, "--option"),
        )
    if json:
        print_json(made)
        return
    before = ", as it had been before" if made.replayed else ""
    print(f"{made.path}: {count(made.receipt.rows, 'row')} as {made.receipt.format}{before}")


@app.command("rewrite")
def rewrite(
    dataset: str = DATASET,
    into: str = _INTO,
    root: str = ROOT,
    into_root: str | None = _INTO_ROOT,
    since: str | None = SINCE,
    as_of: str | None = AS_OF,
    sort_by: str | None = _SORT,
    file_bytes: int | None = _FILE_BYTES,
    partition_by: str | None = _PARTITION,
    master: str = _MASTER,
    conf: list[str] = _SETTING,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Write history as one snapshot of another dataset.

    In files of a good size, and sorted if you like. The same again does nothing.
    """
    from lode.spark import jobs
    from lode.write.open_files import TARGET_FILE_BYTES

    source = _dataset_ref(root, dataset, store_option)
    sink = _dataset_ref(into_root or root, into, store_option, partition_by)
    with _session(master, conf, f"rewriting {dataset}") as spark:
        snapshot = jobs.rewrite(
            spark,
            source,
            sink,
            since=since,
            as_of=as_of,
            sort_by=_names(sort_by),
            target_file_bytes=file_bytes or TARGET_FILE_BYTES,
        )
    _tell([snapshot], json=json)


@app.command("copy")
def copy(
    dataset: str = DATASET,
    into: str = _INTO,
    root: str = ROOT,
    into_root: str | None = _INTO_ROOT,
    master: str = _MASTER,
    conf: list[str] = _SETTING,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Copy snapshots another dataset does not have yet.

    File by file as they are, checked on the way.
    """
    from lode.spark import jobs

    source, sink = (
        _dataset_ref(where, name, store_option)
        for where, name in ((root, dataset), (into_root or root, into))
    )
    with _session(master, conf) as spark, progress(f"copying {dataset}", "snapshots") as advance:
        snapshots = jobs.copy(spark, source, sink, progress=advance)
    _tell(snapshots, json=json)


@app.command("verify")
def verify(
    dataset: str = DATASET,
    root: str = ROOT,
    quick: bool = _QUICK,
    master: str = _MASTER,
    conf: list[str] = _SETTING,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Check history and every file, in tasks.

    The exit code is 5 if there are problems.
    """
    from lode.cli.verify import print_verification
    from lode.spark import jobs

    place = _dataset_ref(root, dataset, store_option)
    with _session(master, conf, f"verifying {dataset}") as spark:
        found = jobs.verify(spark, place, checksums=not quick)
    print_verification(dataset, found, json=json)


@app.command("expire")
def expire(
    dataset: str = DATASET,
    root: str = ROOT,
    older_than: str | None = EXPIRE_OLDER_THAN,
    keep: int | None = KEEP,
    delete: bool = EXPIRE,
    master: str = _MASTER,
    conf: list[str] = _SETTING,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Count the snapshots that are too old, or --delete them, in tasks.

    As lode expire does. The newest snapshot and tagged ones stay.
    """
    from lode.spark import jobs

    limit = expire_limit(older_than, keep)
    place = open_existing(dataset, root, store_option)
    with _session(master, conf) as spark, progress(f"expiring {dataset}", "files") as advance:
        done = jobs.expire(spark, place, older_than=limit, keep=keep, dry_run=not delete, progress=advance)
    print_expired(dataset, done, json=json)


@app.command("sweep")
def sweep(
    dataset: str = DATASET,
    root: str = ROOT,
    older_than: str = SWEEP_OLDER_THAN,
    delete: bool = SWEEP,
    master: str = _MASTER,
    conf: list[str] = _SETTING,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """List the files of writers that failed, or --delete them, in tasks."""
    from lode.discover import open_damaged
    from lode.spark import jobs

    min_age = age_or_time(older_than)
    place = open_damaged(dataset, open_root(root, store_option))
    with _session(master, conf) as spark, progress(f"sweeping {dataset}", "objects") as advance:
        found = jobs.sweep(spark, place, min_age, dry_run=not delete, progress=advance)
    print_swept(dataset, found, json=json)


@app.command("compact")
def compact(
    dataset: str = DATASET,
    root: str = ROOT,
    target_file_size: str = TARGET_FILE_SIZE,
    sort_by: str | None = SORT_BY,
    where: str | None = WHERE,
    metadata: list[str] = METADATA,
    idempotency_key: str | None = KEY,
    dry_run: bool = DRY_RUN,
    master: str = _MASTER,
    conf: list[str] = _SETTING,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Put the rows of small files into fewer large ones, in tasks."""
    from lode.spark.compact import compact as compact_files

    said, size = parse_metadata(metadata), file_bytes(target_file_size)
    place = open_existing(dataset, root, store_option)
    with _session(master, conf, f"compacting {dataset}") as spark:
        change = compact_files(
            place,
            said,
            target_file_bytes=size,
            sort_by=_names(sort_by) or None,
            where=where,
            idempotency_key=idempotency_key,
            dry_run=dry_run,
            spark=spark,
        )
    print_change(dataset, change, json=json, dry_run=dry_run)


@contextmanager
def _session(master: str, settings: list[str], what: str | None = None) -> Iterator[SparkSession]:
    """A session of Spark. With ``what``, a sign that work is going on; Spark's own progress is in its UI."""
    from lode.spark.session import session, stop

    with progress(what, "") if what is not None else nullcontext():
        spark = session(master, settings=key_values(settings, "--conf"))
        try:
            yield spark
        finally:
            stop(spark)


def _dataset_ref(root: str, dataset: str, options: list[str], partition_by: str | None = None) -> DatasetRef:
    from lode.spark.dataset_ref import DatasetRef

    given = {f"store.{name}": value for name, value in key_values(options, "--store-option").items()}
    return DatasetRef(root, dataset, **({"partitionBy": partition_by} if partition_by else {}), **given)


def _frame(spark: SparkSession, paths: list[str], source: str, options: list[str]) -> DataFrame:

    return spark.read.format(source).options(**key_values(options, "--option")).load(paths)


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def _tell(snapshots: Sequence[Snapshot], *, json: bool) -> None:
    from lode.cli.write import print_commit

    for snapshot in snapshots:
        print_commit(snapshot.manifest.dataset_id, snapshot, json=json)
    if not snapshots and not json:
        print("nothing to do")
