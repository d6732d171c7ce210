"""How much memory the driver of each job needs, by the number of files in a dataset."""

from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import in_child, measured
from benchmarks.progress import progress
from benchmarks.rounds import reason, verify
from benchmarks.spark.session import dataset_at, session, url
from benchmarks.table import Cell, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession

    import lode

# In this order on one lake: a compaction leaves the files that an expiry removes.
JOBS = ("verify", "copy", "import", "export", "compact", "expire", "sweep")
QUICK = (1_000, 10_000)
FULL = (3_000, 30_000)
COMPUTED = 10_000_000
HEAP = "1g"
ROWS = 10
FILES_PER_SNAPSHOT = 1_000
# Of a disk's file system, which allows some 65,000 links to a file.
_LINKS = 50_000
_SECONDS = 3_600
# The folder of plain files for the import.
_PLAIN = "plain"


def columns(sizes: tuple[int, ...]) -> list[str]:
    """For each size seconds and megabytes, then what they make of ten million files."""
    each = [f"{size:,} files, {unit}" for size in sizes for unit in ("s", "MB")]
    return [*each, "a file, kB", f"{COMPUTED:,} files, MB"]


def rows(root: str, sizes: tuple[int, ...], wants: Callable[[str], bool]) -> list[Row]:
    """A row for each job, every one in a process and a Spark of its own."""
    samples: dict[str, list[list[float]]] = {job: [] for job in JOBS if wants(job)}
    failed: dict[str, str] = {}
    held: list[float] = []
    for size in sizes if samples else ():
        with tempfile.TemporaryDirectory(dir=root) as target:
            held = in_child(build, limit=_SECONDS, target=target, count=size)
            for job in samples:
                try:
                    sample = in_child(run, limit=_SECONDS, target=target, job=job, count=size)
                except Exception as error:
                    failed[job] = reason(error)
                    progress(f"{job} of {size:,} files: {failed[job]}")
                    continue
                progress(f"{job} of {size:,} files: {sample[0]:.1f} s, {sample[1]:.0f} MB")
                samples[job].append(sample)
    return [_row(job, found, sizes, held, failed.get(job)) for job, found in samples.items()]


def _row(
    job: str, found: list[list[float]], sizes: tuple[int, ...], held: list[float], failed: str | None
) -> Row:
    if failed is not None:
        return Row(job, failed=failed)
    first, last = found[0][1], found[-1][1]
    slope = max((last - first) / (sizes[-1] - sizes[0]), 0.0)
    # All hold one share of the files at a time, but for two: an import has the files of Spark's plan, and a
    # copy, like every writer, at most the largest segment of history.
    most = {"import": COMPUTED, "copy": held[1]}.get(job, held[0])
    cells = [value for sample in found for value in sample]
    more = max(min(most, COMPUTED) - sizes[-1], 0)
    return Row(job, [Cell([value]) for value in (*cells, slope * 1000, last + slope * more)])


def build(target: str, count: int) -> list[float]:
    """In a child: make a dataset of so many small files.

    Returns the number of files in a share, and in the largest segment of history.
    """
    from lode.read.segment import MAX_SEGMENT_BYTES
    from lode.upkeep.share import BYTES_PER_SHARE

    dataset = dataset_at(target)
    model = dataset.write(_rows()).files[0]
    links = _Links(target, model.path)
    made = 1
    while made < count:
        with dataset.transaction(on_conflict="append") as transaction:
            number = min(FILES_PER_SNAPSHOT, count - made)
            transaction.add(_staged(links, transaction.stager, model, number))
            transaction.commit()
        made += number
    for number in range(count):
        links.add(f"{_PLAIN}/{number:06d}.parquet")
    _leave(dataset, links, count)
    size = sum(entry.size for entry in dataset.store.list() if entry.path.endswith("manifest.json"))
    return [most / (size / count) for most in (BYTES_PER_SHARE, MAX_SEGMENT_BYTES)]


def _rows() -> pa.Table:
    import pyarrow as pa

    numbers = list(range(ROWS))
    kinds = [f"kind-{n}" for n in numbers]
    return pa.table({"id": numbers, "kind": kinds, "value": [n / 3 for n in numbers]})


class _Links:
    """The same file under many names."""

    def __init__(self, root: str, path: str) -> None:
        self._root = root
        self._file = Path(root, path)
        self._content = self._file.read_bytes()
        self._made = 0

    def add(self, path: str) -> None:
        there = Path(self._root, path)
        there.parent.mkdir(parents=True, exist_ok=True)
        if self._made % _LINKS == 0:
            there.write_bytes(self._content)
            self._file = there
        else:
            os.link(self._file, there)
        self._made += 1


def _staged(links: _Links, stager: Any, model: Any, count: int) -> Any:
    import msgspec

    from lode.write.stage import Staged

    files = []
    for number in range(count):
        name = f"data-{number:06d}.parquet"
        path = stager.layout.data_path(stager.dataset_id, stager.snapshot_id, "", name)
        links.add(path)
        files.append(msgspec.structs.replace(model, path=path))
    return Staged(tuple(files), count * ROWS)


def _leave(dataset: lode.Dataset, links: _Links, count: int) -> None:
    """Files of writers that died, as many again, for a sweep."""
    for _ in range(0, count, FILES_PER_SNAPSHOT):
        stager = dataset.stager()
        for number in range(FILES_PER_SNAPSHOT):
            name = f"data-{number:06d}.parquet"
            links.add(stager.layout.data_path(stager.dataset_id, stager.snapshot_id, "", name))


def run(target: str, job: str, count: int) -> list[float]:
    """In a child: seconds of a job, and the peak of this process over what it has before it, in MB."""
    with session({"spark.driver.memory": HEAP}) as spark:
        spark.range(1).count()
        work = {
            "verify": _verify,
            "copy": _copy,
            "import": _import,
            "export": _export,
            "compact": _compact,
            "expire": _expire,
            "sweep": _sweep,
        }[job]
        import lode.spark.jobs  # noqa: F401 - a part of what the process has before

        took, _, peak = measured(lambda: work(spark, target, count))
        return [took, peak]


def _verify(spark: SparkSession, target: str, count: int) -> None:
    from lode.spark import jobs

    found = jobs.verify(spark, dataset_at(target))
    verify((found.files, found.ok), (count, True), "files verified")


def _copy(spark: SparkSession, target: str, count: int) -> None:
    import lode
    from lode.spark import jobs

    made = jobs.copy(spark, dataset_at(target), lode.Dataset("copied", url(f"{target}/copy")))
    verify(sum(len(each.files) for each in made), count, "files copied")


def _import(spark: SparkSession, target: str, count: int) -> None:
    import lode
    from lode.spark import jobs

    files = spark.read.parquet(f"{target}/{_PLAIN}")
    into = lode.Dataset("imported", url(f"{target}/import"), codec="parquet")
    (made,) = jobs.import_(files, into, key="files")
    verify(made.row_count, count * ROWS, "rows imported")


def _export(spark: SparkSession, target: str, count: int) -> None:
    from lode.spark import jobs

    made = jobs.export(spark, dataset_at(target), f"{target}/export")
    verify(made.receipt.rows, count * ROWS, "rows exported")
    verify(spark.read.parquet(f"{target}/export").count(), count * ROWS, "rows in the export")


def _compact(spark: SparkSession, target: str, count: int) -> None:
    import lode.spark

    change = lode.spark.compact(dataset_at(target), spark=spark)
    verify(change.removed.files, count, "files compacted")


def _expire(spark: SparkSession, target: str, count: int) -> None:
    from lode.spark import jobs

    done = jobs.expire(spark, dataset_at(target), keep=1, dry_run=False)
    verify(done.files, count, "files expired")


def _sweep(spark: SparkSession, target: str, count: int) -> None:
    from lode.spark import jobs

    found = jobs.sweep(spark, dataset_at(target), timedelta(0), dry_run=False)
    files = [item for item in found.leftovers if item.path.endswith(".parquet")]
    verify(len(files), count, "files swept")
