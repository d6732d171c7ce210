"""Jobs on datasets that are too large for the driver: it holds one share of the files at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
import lode.spark
from lode.lineage.position import ends, plan_between
from lode.spark import copier, jobs
from lode.spark import export as exports
from lode.spark.spread import spread
from lode.upkeep import share

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("small_shares")

DAYS = 6
SNAPSHOTS = 8


@pytest.fixture
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share has about ten files."""
    monkeypatch.setattr(share, "BYTES_PER_SHARE", 10 * share._BYTES_PER_FILE)


def days_in(lake: str, **options: Any) -> lode.Dataset:
    """A dataset with a file for each day in each snapshot."""
    codec = lode.Parquet({"day": "string!", "n": "int64!"})
    options = {"codec": codec, "layout": lode.HiveLayout("day"), "checksum": "md5", **options}
    dataset = lode.Dataset("days", lake, **options)
    for number in range(SNAPSHOTS):
        dataset.write([{"day": f"d{day}", "n": number} for day in range(DAYS)])
    return dataset


def rows_at(dataset: lode.Dataset, snapshot: lode.Snapshot | None = None) -> list[tuple[Any, ...]]:
    rows = dataset.scan(as_of=snapshot).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def test_the_files_of_a_partition_are_in_one_share_unless_they_are_too_many(lake: str) -> None:
    found = days_in(lake)._handle.find()
    head = found.chain.resolve().manifest
    assert head is not None
    for partition_of, together in ((lambda path: path.split("/")[3], True), (lambda _: "", False)):
        shares = share.partition_shares(found.history.newest_first(head), partition_of)
        assert len(shares) >= 5
        places = {
            file.path: [number for number, each in enumerate(shares) if each.has(file.path)]
            for manifest in found.history.newest_first(head)
            for file in manifest.files
        }
        assert all(len(numbers) == 1 for numbers in places.values())
        by_partition: dict[str, set[int]] = {}
        for path, (number,) in places.items():
            by_partition.setdefault(partition_of(path), set()).add(number)
        assert all((len(numbers) == 1) is together for numbers in by_partition.values())


def test_a_compaction_in_shares_has_the_rows_and_files_of_one_that_holds_everything(
    spark: SparkSession, lake: str
) -> None:
    dataset = days_in(lake)
    before = rows_at(dataset)
    planned = lode.spark.compact(dataset, dry_run=True, spark=spark)
    done = lode.spark.compact(dataset, {"by": "night"}, spark=spark)
    assert (planned.snapshot, planned.removed) == (None, done.removed)
    assert (done.removed.files, done.removed.rows) == (DAYS * SNAPSHOTS, DAYS * SNAPSHOTS)
    assert (done.added.files, done.rows) == (DAYS, 0)
    *made, named = dataset.snapshots()[SNAPSHOTS:]
    assert len(made) > 3
    assert done.snapshot is not None
    assert done.snapshot.id == made[-1].id
    for snapshot in made:
        assert (snapshot.manifest.operation, snapshot.metadata) == ("compact", {"by": "night"})
        assert rows_at(dataset, snapshot) == before
    assert len(dataset.plan().files) == DAYS
    assert lode.verify(dataset).ok
    # Readers need nothing from before the compaction, and the next one has nothing to do.
    # The last snapshot changes nothing: it names the checkpoint.
    assert (named.manifest.operation, named.files) == ("compact", ())
    ref = named.manifest.checkpoint
    assert ref is not None
    assert ref.snapshot == made[-1].id
    assert dataset.store.exists(dataset.chain.paths.state(ref.sha256))
    assert lode.spark.compact(dataset, spark=spark).snapshot is None
    # A second compaction holds the few files that are left, not the whole history.
    dataset.write([{"day": "d0", "n": 9}])
    again = lode.spark.compact(dataset, spark=spark)
    assert (again.removed.files, again.added.files) == (2, 1)
    assert len(dataset.plan().files) == DAYS


@pytest.mark.parametrize("codec", [None, "jsonl"])
def test_one_partition_that_is_larger_than_a_share_becomes_a_few_files(
    spark: SparkSession, lake: str, codec: str | None
) -> None:
    dataset = lode.Dataset("flat", lake, codec=codec or lode.Parquet({"n": "int64!"}))
    for number in range(SNAPSHOTS):
        with dataset.transaction() as transaction:
            for row in range(5):
                transaction.stage([{"n": number * 10 + row}] * (row + 1))
            transaction.commit()
    dataset.delete("n < 5")
    before = rows_at(dataset)
    files = len(dataset.plan().files)
    done = lode.spark.compact(dataset, spark=spark)
    assert 1 <= len(dataset.plan().files) <= 8 < files
    assert (done.removed.rows, done.rows, rows_at(dataset)) == (len(before), 0, before)
    assert lode.verify(dataset).ok


def test_a_key_is_of_the_last_commit_of_a_compaction_in_shares(spark: SparkSession, lake: str) -> None:
    dataset = days_in(lake)
    done = lode.spark.compact(dataset, idempotency_key="night", spark=spark)
    assert done.snapshot is not None
    assert [bool(each.manifest.idempotency) for each in dataset.snapshots()][SNAPSHOTS - 1 :].count(True) == 1
    dataset.write([{"day": "d0", "n": 9}])
    again = lode.spark.compact(dataset, idempotency_key="night", spark=spark)
    assert again.snapshot is not None
    assert again.snapshot.id == done.snapshot.id
    assert len(dataset.plan().files) == DAYS + 1


class Died(BaseException):
    """Ends the work of the driver where it is. Only ``finally`` blocks run after it."""


def dying_after(jobs: int) -> Callable[..., Any]:
    """A job runner that ends the driver after so many Spark jobs."""
    done = 0

    def run(*arguments: Any, **options: Any) -> Any:
        nonlocal done
        if done == jobs:
            raise Died
        done += 1
        return spread(*arguments, **options)

    return run


def test_a_driver_that_dies_between_shares_leaves_complete_compactions_and_the_next_does_the_rest(
    spark: SparkSession, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = days_in(lake)
    before = rows_at(dataset)
    with monkeypatch.context() as patch:
        patch.setattr("lode.spark.workers.spread", dying_after(2))
        with pytest.raises(Died):
            lode.spark.compact(dataset, spark=spark)
    made = dataset.snapshots()[SNAPSHOTS:]
    assert [snapshot.manifest.operation for snapshot in made] == ["compact"] * 2
    assert DAYS < len(dataset.plan().files) < DAYS * SNAPSHOTS
    assert rows_at(dataset) == before
    assert lode.verify(dataset).ok
    lode.spark.compact(dataset, spark=spark)
    assert (len(dataset.plan().files), rows_at(dataset)) == (DAYS, before)


def test_another_writer_between_shares_loses_nothing(
    spark: SparkSession, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = days_in(lake)
    other = lode.open_dataset("days", lake)

    def run(*arguments: Any, **options: Any) -> Any:
        other.write([{"day": "d0", "n": 100}])
        return spread(*arguments, **options)

    monkeypatch.setattr("lode.spark.workers.spread", run)
    other.delete("day = 'd1' and n = 3")
    lode.spark.compact(dataset, spark=spark)
    rows = rows_at(dataset)
    assert rows == rows_at(other)
    assert len([row for row in rows if row[1] == 100]) >= 3
    assert len([row for row in rows if row[1] != 100]) == DAYS * SNAPSHOTS - 1
    assert lode.verify(dataset).ok


# -- export ------------------------------------------------------------------------------------------


def exported(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.read.parquet(str(folder)).select("day", "n").collect())


@pytest.mark.parametrize("codec", ["parquet", "jsonl"])
def test_an_export_in_shares_and_batches_has_every_row_once(
    spark: SparkSession, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    monkeypatch.setattr(exports, "_FILES_PER_JOB", 4)
    schema = {"day": "string!", "n": "int64!"}
    dataset = days_in(lake, codec=lode.Parquet(schema) if codec == "parquet" else lode.JSONL(schema))
    first = dataset.snapshots()[0]
    shares = list(exports._plans(dataset, *ends(dataset, None, None)))
    assert len(shares) >= 3
    assert sum(scan.row_count for scan in shares) == DAYS * SNAPSHOTS
    assert max(len(scan.paths) for scan in shares) < DAYS * SNAPSHOTS
    done = jobs.export(spark, dataset, str(tmp_path / "appended"))
    assert (done.receipt.rows, exported(spark, tmp_path / "appended")) == (DAYS * SNAPSHOTS, rows_at(dataset))
    since = jobs.export(spark, dataset, str(tmp_path / "since"), since=first)
    assert since.receipt.rows == DAYS * (SNAPSHOTS - 1)
    dataset.delete("n = 3")
    dataset.overwrite([{"day": "d2", "n": 50}])
    changed = jobs.export(spark, dataset, str(tmp_path / "changed"), partition_by=["day"])
    assert exported(spark, tmp_path / "changed") == rows_at(dataset)
    assert changed.receipt.rows == len(rows_at(dataset))
    assert jobs.export(spark, dataset, str(tmp_path / "changed")).replayed
    # Rows that came and went in a range are left out.
    jobs.export(spark, dataset, str(tmp_path / "range"), since=dataset.snapshots()[-1])
    assert exported(spark, tmp_path / "range") == []


def test_a_range_with_removals_is_exported_in_shares_too(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    dataset = days_in(lake)
    since = dataset.latest()
    dataset.write([{"day": f"d{day}", "n": 100 + day} for day in range(DAYS)])
    dataset.delete("n = 103")
    done = jobs.export(spark, dataset, str(tmp_path / "range"), since=since)
    expected = [(f"d{day}", 100 + day) for day in range(DAYS) if day != 3]
    assert (done.receipt.rows, exported(spark, tmp_path / "range")) == (len(expected), expected)
    dataset.delete("n = 1")
    with pytest.raises(lode.RowsRemovedError):
        jobs.export(spark, dataset, str(tmp_path / "refused"), since=since)
    assert not (tmp_path / "refused").exists()


def test_a_driver_that_dies_between_shares_of_an_export_leaves_no_receipt(
    spark: SparkSession, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = days_in(lake)
    before = dataset.snapshots()
    calls = 0

    def plan(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Died
        return plan_between(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(exports, "plan_between", plan)
        with pytest.raises(Died):
            jobs.export(spark, dataset, str(tmp_path / "out"))
    assert 0 < len(exported(spark, tmp_path / "out")) < DAYS * SNAPSHOTS
    with pytest.raises(lode.InvalidOptionError, match="files that are no finished export"):
        jobs.export(spark, dataset, str(tmp_path / "out"))
    jobs.export(spark, dataset, str(tmp_path / "out"), overwrite=True)
    assert exported(spark, tmp_path / "out") == rows_at(dataset)
    assert dataset.snapshots() == before


# -- copy --------------------------------------------------------------------------------------------


def test_a_driver_that_dies_between_groups_of_a_copy_leaves_whole_snapshots_and_the_next_copies_the_rest(
    spark: SparkSession, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copier, "_FILES_PER_JOB", 2 * DAYS)
    origin = days_in(lake)
    origin.delete("n = 2")
    sink = lode.spark.DatasetRef(lake, "copy")
    with monkeypatch.context() as patch:
        patch.setattr(copier, "spread", dying_after(2))
        with pytest.raises(Died):
            jobs.copy(spark, origin, sink)
    copied = sink.open().snapshots()
    assert 0 < len(copied) < SNAPSHOTS
    for there, here in zip(origin.snapshots(), copied, strict=False):
        assert rows_at(sink.open(), here) == rows_at(origin, there)
    assert lode.verify(sink.open()).ok
    rest = jobs.copy(spark, origin, sink)
    assert len(rest) == SNAPSHOTS + 1 - len(copied)
    assert rows_at(sink.open()) == rows_at(origin)
