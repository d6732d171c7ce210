"""``lode spark``: pipelines and work on whole datasets, spread over a cluster."""

from __future__ import annotations

import inspect
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Literal

import typer

from lode.cli import pipeline
from lode.cli.change import open_existing, print_change
from lode.cli.compact import compact, file_bytes
from lode.cli.expire import expire, expire_limit, print_expired
from lode.cli.parameters import (
    AS_OF,
    DATASET,
    JSON,
    METADATA,
    ROOT,
    SINCE,
    STORE_OPTION,
    age_or_time,
    key_values,
    open_root,
    parse_metadata,
)
from lode.cli.sweep import print_swept, sweep
from lode.cli.terminal import print_json, progress
from lode.cli.write_target import names_in
from lode.units import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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


@dataclass(frozen=True, slots=True)
class _Call:
    """What every command of this file is given."""

    root: str = ROOT
    master: str = _MASTER
    conf: list[str] = _SETTING
    json: bool = JSON
    store_option: list[str] = STORE_OPTION

    def ref(self, dataset: str, partition_by: str | None = None, root: str | None = None) -> DatasetRef:
        """A reference to a dataset in this root or another one."""
        from lode.spark.dataset_ref import DatasetRef

        given = key_values(self.store_option, "--store-option")
        options = {f"store.{name}": value for name, value in given.items()}
        if partition_by:
            options["partitionBy"] = partition_by
        return DatasetRef(root or self.root, dataset, **options)

    @contextmanager
    def session(self, what: str | None = None) -> Iterator[SparkSession]:
        """A session of Spark. With ``what``, a sign that work is going on; Spark's progress is in its UI."""
        from lode.spark.session import session, stop

        with progress(what, "") if what is not None else nullcontext():
            spark = session(self.master, settings=key_values(self.conf, "--conf"))
            try:
                yield spark
            finally:
                stop(spark)

    def tell(self, snapshots: Sequence[Snapshot]) -> None:
        """Print the snapshots that a command has made."""
        from lode.cli.write import print_commit

        for snapshot in snapshots:
            print_commit(snapshot.manifest.dataset_id, snapshot, json=self.json)
        if not snapshots and not self.json:
            print("nothing to do")


def _command(name: str, like: Callable[..., None] | None = None) -> Callable[[Callable[..., None]], None]:
    """Register a command, which takes a call and parameters of its own.

    Args:
        name: The command.
        like: A command on this machine, which has the defaults and the help of these parameters.
    """

    def register(function: Callable[..., None]) -> None:
        known = {} if like is None else inspect.signature(like).parameters
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        shared = inspect.signature(_Call, eval_str=True).parameters
        parameters = [
            each.replace(kind=each.KEYWORD_ONLY, default=known[each.name].default if like else each.default)
            for each in own
        ] + [each.replace(kind=each.KEYWORD_ONLY) for each in shared.values()]

        @wraps(function)
        def called(**given: Any) -> None:
            call = _Call(**{each: given.pop(each) for each in shared})
            function(call, **given)

        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # any function may have one
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        app.command(name)(called)

    return register


@_command("write")
def _write(
    call: _Call,
    dataset: str = DATASET,
    paths: list[str] = _FILES,
    source: str = _READ,
    option: list[str] = _READER,
    partition_by: str | None = _PARTITION,
    metadata: list[str] = METADATA,
    idempotency_key: str | None = _WRITE_KEY,
) -> None:
    """Write files as one snapshot, staged by tasks."""
    from lode.spark.write import write as write_frame

    place = call.ref(dataset, partition_by)
    said = parse_metadata(metadata)
    with call.session(f"writing {dataset}") as spark:
        frame = _frame(spark, paths, source, option)
        snapshot = write_frame(place.open(), frame, said, idempotency_key=idempotency_key)
    call.tell([snapshot])


@_command("import")
def _import(
    call: _Call,
    dataset: str = DATASET,
    paths: list[str] = _FILES,
    key: str = _IMPORT_KEY,
    source: str = _READ,
    option: list[str] = _READER,
    split_by: str | None = _SPLIT,
    partition_by: str | None = _PARTITION,
    metadata: list[str] = METADATA,
) -> None:
    """Import files once, under a key.

    As one snapshot, or as one for each value of a column.
    """
    from lode.spark import jobs

    place = call.ref(dataset, partition_by)
    said = parse_metadata(metadata)
    with call.session(f"importing {dataset}") as spark:
        frame = _frame(spark, paths, source, option)
        snapshots = jobs.import_(frame, place, key=key, split_by=split_by, metadata=said)
    call.tell(snapshots)


@_command("export")
def _export(
    call: _Call,
    dataset: str = DATASET,
    path: str = _PATH,
    form: Literal["parquet", "json", "csv", "orc"] = _WRITTEN,
    since: str | None = SINCE,
    as_of: str | None = AS_OF,
    partition_by: str | None = _PARTITION,
    overwrite: bool = _OVERWRITE,
    option: list[str] = _READER,
) -> None:
    """Write a dataset as plain files, once.

    A receipt beside them says what they hold; the same export again does nothing.
    """
    from lode.spark import jobs

    place = call.ref(dataset)
    with call.session(f"exporting {dataset}") as spark:
        made = jobs.export(
            spark,
            place,
            path,
            file_format=form,
            since=since,
            as_of=as_of,
            partition_by=names_in("--partition-by", partition_by),
            overwrite=overwrite,
            options=key_values(option, "--option"),
        )
    if call.json:
        print_json(made)
        return
    before = ", as it had been before" if made.replayed else ""
    print(f"{made.path}: {count(made.receipt.rows, 'row')} as {made.receipt.format}{before}")


@_command("rewrite")
def _rewrite(
    call: _Call,
    dataset: str = DATASET,
    into: str = _INTO,
    into_root: str | None = _INTO_ROOT,
    since: str | None = SINCE,
    as_of: str | None = AS_OF,
    sort_by: str | None = _SORT,
    file_bytes: int | None = _FILE_BYTES,
    partition_by: str | None = _PARTITION,
) -> None:
    """Write history as one snapshot of another dataset.

    In files of a good size, and sorted if you like. The same again does nothing.
    """
    from lode.spark import jobs
    from lode.write.open_files import TARGET_FILE_BYTES

    source, sink = call.ref(dataset), call.ref(into, partition_by, into_root)
    with call.session(f"rewriting {dataset}") as spark:
        snapshot = jobs.rewrite(
            spark,
            source,
            sink,
            since=since,
            as_of=as_of,
            sort_by=names_in("--sort-by", sort_by),
            target_file_bytes=file_bytes or TARGET_FILE_BYTES,
        )
    call.tell([snapshot])


@_command("copy")
def _copy(call: _Call, dataset: str = DATASET, into: str = _INTO, into_root: str | None = _INTO_ROOT) -> None:
    """Copy snapshots another dataset does not have yet.

    File by file as they are, checked on the way.
    """
    from lode.spark import jobs

    source, sink = call.ref(dataset), call.ref(into, root=into_root)
    with call.session() as spark, progress(f"copying {dataset}", "snapshots") as advance:
        snapshots = jobs.copy(spark, source, sink, progress=advance)
    call.tell(snapshots)


@_command("verify")
def _verify(call: _Call, dataset: str = DATASET, quick: bool = _QUICK) -> None:
    """Check history and every file, in tasks.

    The exit code is 5 if there are problems.
    """
    from lode.cli.verify import print_verification
    from lode.spark import jobs

    place = call.ref(dataset)
    with call.session(f"verifying {dataset}") as spark:
        found = jobs.verify(spark, place, checksums=not quick)
    print_verification(dataset, found, json=call.json)


@_command("expire", expire)
def _expire(call: _Call, dataset: str, older_than: str | None, keep: int | None, delete: bool) -> None:
    """Count the snapshots that are too old, or --delete them, in tasks.

    As lode expire does. The newest snapshot and tagged ones stay.
    """
    from lode.spark import jobs

    limit = expire_limit(older_than, keep)
    place = open_existing(dataset, call.root, call.store_option)
    with call.session() as spark, progress(f"expiring {dataset}", "files") as advance:
        done = jobs.expire(spark, place, older_than=limit, keep=keep, dry_run=not delete, progress=advance)
    print_expired(dataset, done, json=call.json)


@_command("sweep", sweep)
def _sweep(call: _Call, dataset: str, older_than: str, delete: bool) -> None:
    """List the files of writers that failed, or --delete them, in tasks."""
    from lode.discover import open_damaged
    from lode.spark import jobs

    min_age = age_or_time(older_than)
    place = open_damaged(dataset, open_root(call.root, call.store_option))
    with call.session() as spark, progress(f"sweeping {dataset}", "objects") as advance:
        found = jobs.sweep(spark, place, min_age, dry_run=not delete, progress=advance)
    print_swept(dataset, found, json=call.json)


@_command("compact", compact)
def _compact(
    call: _Call,
    dataset: str,
    target_file_size: str,
    sort_by: str | None,
    where: str | None,
    metadata: list[str],
    idempotency_key: str | None,
    dry_run: bool,
) -> None:
    """Put the rows of small files into fewer large ones, in tasks."""
    from lode.spark.compact import compact as compact_files

    said, size = parse_metadata(metadata), file_bytes(target_file_size)
    place = open_existing(dataset, call.root, call.store_option)
    with call.session(f"compacting {dataset}") as spark:
        change = compact_files(
            place,
            said,
            target_file_bytes=size,
            sort_by=names_in("--sort-by", sort_by) or None,
            where=where,
            idempotency_key=idempotency_key,
            dry_run=dry_run,
            spark=spark,
        )
    print_change(dataset, change, json=call.json, dry_run=dry_run)


def _frame(spark: SparkSession, paths: list[str], source: str, options: list[str]) -> DataFrame:
    return spark.read.format(source).options(**key_values(options, "--option")).load(paths)
