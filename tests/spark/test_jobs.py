"""Jobs over whole datasets: spread over tasks, and done once however often they are run."""

from __future__ import annotations

import itertools
import json
import pickle
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode
from lode.cli import main
from lode.lineage import Lineage, lineage_of
from lode.spark import copier, jobs
from lode.spark.dataset_ref import DatasetRef
from lode.spark.spread import _balanced
from lode.upkeep import share
from lode.upkeep.leftovers import Errand

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = {"day": "string!", "n": "int64!"}


def sales_in(lake: str, snapshots: int = 4, rows: int = 50, **options: Any) -> lode.Dataset:
    options = {"layout": lode.HiveLayout("day"), "checksum": "sha256", **options}
    dataset = lode.Dataset("sales", lake, codec=lode.Parquet(SCHEMA), **options)
    for index in range(snapshots):
        data = [{"day": f"d{row % 2}", "n": (row * 7919 + index) % 1000} for row in range(rows)]
        dataset.write(data, {"batch": index})
    return dataset


def rows_of(dataset: lode.Dataset) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in dataset.scan().read_all().to_pylist())


def test_costs_are_spread_evenly() -> None:
    slices = _balanced([100, 1, 1, 50, 50, 1], 2)
    assert sorted(sum(slices, [])) == [0, 1, 2, 3, 4, 5]  # noqa: RUF017 - two slices
    assert max(sum([100, 1, 1, 50, 50, 1][index] for index in part) for part in slices) == 102


def test_verify_finds_what_lode_verify_finds_in_the_same_words(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    dataset = sales_in(lake)
    assert jobs.verify(spark, dataset) == lode.verify(dataset)
    assert jobs.verify(spark, DatasetRef(lake, "sales")).ok
    first, second, third, fourth = (snapshot.files[0] for snapshot in dataset.snapshots())
    root = tmp_path / "lake"
    (root / first.path).unlink()
    (root / second.path).write_bytes((root / second.path).read_bytes()[:-1])
    damaged = bytearray((root / third.path).read_bytes())
    damaged[10] ^= 1
    (root / third.path).write_bytes(damaged)
    newest = dataset.chain.published(dataset.latest().id)
    assert newest is not None
    copy = next(iter(dataset.chain.copies(newest)))
    (root / copy).unlink()
    found = jobs.verify(spark, dataset)
    assert found == lode.verify(dataset)
    assert {problem.kind for problem in found.problems} == {
        "missing-file",
        "size",
        "checksum",
        "missing-copy",
    }
    assert found.files == 8
    sizes_only = jobs.verify(spark, dataset, checksums=False)
    assert "checksum" not in {problem.kind for problem in sizes_only.problems}
    assert fourth.path not in {problem.path for problem in found.problems}


def test_copy_makes_the_same_snapshots_of_the_same_bytes_and_only_what_is_new_the_next_time(
    spark: SparkSession, lake: str
) -> None:
    source = sales_in(lake)
    steps: list[tuple[int, int]] = []
    copied = jobs.copy(spark, source, DatasetRef(lake, "twin"), progress=lambda *step: steps.append(step))
    assert steps == [(4, 4)]
    twin = lode.Dataset("twin", lake, codec=lode.Parquet(SCHEMA), layout=source.layout, checksum="sha256")
    assert [snapshot.id for snapshot in twin.snapshots()] == [snapshot.id for snapshot in copied]
    for old, new in zip(source.snapshots(), twin.snapshots(), strict=True):
        assert {(file.checksum, file.stats) for file in new.files} == {
            (file.checksum, file.stats) for file in old.files
        }
        assert (new.row_count, new.metadata["batch"]) == (old.row_count, old.metadata["batch"])
        lineage = lineage_of(new)
        assert lineage is not None
        assert lineage.inputs[0].up_to.snapshot == old.id
    assert rows_of(twin) == rows_of(source)
    assert lode.verify(twin).ok

    assert not jobs.copy(spark, source, twin)
    sales_in(lake, 1)
    assert len(jobs.copy(spark, source, twin)) == 1
    assert rows_of(twin) == rows_of(source)


def test_the_tasks_of_a_copy_get_no_statistics(lake: str) -> None:
    source = lode.Dataset("wide", lake, codec="parquet")
    (file,) = source.write(pa.table({f"column {n}": [n] for n in range(100)})).files
    errand = copier._errand(source, source.latest().manifest, file, "new", 0)
    assert file.stats is not None
    assert len(pickle.dumps(errand)) < 1000 < len(pickle.dumps(file))


def test_a_dataset_is_not_copied_into_itself(spark: SparkSession, lake: str) -> None:
    source = sales_in(lake, 1)
    with pytest.raises(lode.InvalidOptionError, match="another dataset than 'sales' itself"):
        jobs.copy(spark, source, DatasetRef(lake.partition("?")[0], "sales"))
    assert len(source.snapshots()) == 1


def test_a_dataset_that_was_dropped_and_begun_again_is_copied_and_then_what_is_new(
    spark: SparkSession, lake: str
) -> None:
    sales_in(lake, 2).drop()
    source = sales_in(lake, 1)
    sink = DatasetRef(lake, "copy")
    assert len(jobs.copy(spark, source, sink)) == 1
    sales_in(lake, 1)
    assert len(jobs.copy(spark, source, sink)) == 1
    assert rows_of(sink.open()) == rows_of(source)


def test_a_copy_has_the_columns_of_the_origin_at_every_snapshot(spark: SparkSession, lake: str) -> None:
    source = lode.Dataset("source", lake, codec="parquet")
    source.write(pa.table({"n": [1], "old": ["a"]}))
    jobs.copy(spark, source, DatasetRef(lake, "twin"))
    source.evolve(rename={"old": "new"})
    source.evolve(add={"old": "int64"})
    source.write(pa.table({"n": [2], "new": ["b"], "old": [3]}))
    jobs.copy(spark, source, DatasetRef(lake, "twin"))
    twin = lode.open_dataset("twin", lake)
    assert [twin.schema_at(each) for each in twin.snapshots()] == [
        source.schema_at(each) for each in source.snapshots()
    ]
    assert twin.scan().read_all() == source.scan().read_all()
    assert twin.scan().read_all()["new"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("at_once", [2000, 1])
def test_a_copy_has_the_rows_of_the_origin_after_every_change(
    spark: SparkSession, lake: str, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    # However few files a job copies and of however few snapshots the files are kept.
    monkeypatch.setattr(copier, "_FILES_PER_JOB", at_once)
    monkeypatch.setattr(copier, "_SNAPSHOTS_KEPT", min(at_once, copier._SNAPSHOTS_KEPT))
    origin = sales_in(lake, 2)
    sink = DatasetRef(lake, "copy")
    jobs.copy(spark, origin, sink)
    origin.delete("n < 100")  # removes files that an earlier run has copied
    before = origin.compact()
    origin.overwrite([{"day": "d0", "n": 1}])
    assert before.snapshot is not None
    origin.restore(before.snapshot)
    copied = jobs.copy(spark, origin, sink)
    copy = sink.open()
    operations = [snapshot.manifest.operation for snapshot in copied]
    assert operations == ["delete", "compact", "overwrite", "restore"]
    for there, here in zip(origin.snapshots(), copy.snapshots(), strict=True):
        assert rows_at(copy, here.id) == rows_at(origin, there.id)
        assert here.manifest.removed == there.manifest.removed
    assert lode.verify(copy).ok


def rows_at(dataset: lode.Dataset, snapshot: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in dataset.scan(as_of=snapshot).read_all().to_pylist())


def test_copy_refuses_damaged_files_and_datasets_of_another_shape(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    source = sales_in(lake, 1)
    flat = lode.Dataset("flat", lake, codec=lode.Parquet(SCHEMA))
    flat.write([{"day": "d0", "n": 1}])
    with pytest.raises(lode.ComponentMismatchError, match=r"rewrite\(\) changes the layout"):
        jobs.copy(spark, source, flat)
    path = tmp_path / "lake" / source.latest().files[0].path
    damaged = bytearray(path.read_bytes())
    damaged[10] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(Exception, match="is not what its manifest says"):
        jobs.copy(spark, source, DatasetRef(lake, "twin"))
    assert DatasetRef(lake, "twin").open().snapshots() == []


def test_import_takes_files_of_any_format_once_as_one_snapshot_or_many(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    frame = spark.createDataFrame([("mon", 1), ("tue", 2), ("tue", 3), (None, 4)], "day string, n long")
    for form in ("parquet", "json", "csv"):
        frame.write.format(form).save(str(tmp_path / form))
        found = spark.read.format(form).schema("day string, n long").load(str(tmp_path / form))
        into = DatasetRef(lake, form, checksum="md5", sortBy="n")
        (snapshot,) = jobs.import_(found, into, key="first", metadata={"from": form})
        assert (snapshot.row_count, snapshot.metadata["from"]) == (4, form)
        files = sorted((tmp_path / form).glob("part-*"))
        assert_imported_from(snapshot, tmp_path / form, files)
        (again,) = jobs.import_(found, into, key="first")
        assert (again.id, again.commit and again.commit.replayed) == (snapshot.id, True)

    days = DatasetRef(lake, "days", partitionBy="day")
    snapshots = jobs.import_(frame, days, key="days", split_by="day")
    assert [(snapshot.metadata["day"], snapshot.row_count) for snapshot in snapshots] == [
        (None, 1),
        ("mon", 1),
        ("tue", 2),
    ]
    more = frame.union(spark.createDataFrame([("wed", 5)], "day string, n long"))
    assert len(jobs.import_(more, days, key="days", split_by="day")) == 4
    assert len(days.open().snapshots()) == 4
    with pytest.raises(lode.InvalidOptionError, match="split_by names 'hour'"):
        jobs.import_(frame, days, key="x", split_by="hour")
    with pytest.raises(lode.InvalidOptionError, match="needs a key"):
        jobs.import_(frame, days, key="")


def assert_imported_from(snapshot: lode.Snapshot, folder: Path, files: list[Path]) -> None:
    lineage = lineage_of(snapshot)
    assert lineage is not None
    (source,) = lineage.sources
    assert (source.name.removeprefix("file:").replace("//", ""), source.files) == (str(folder), len(files))
    assert sorted(path.rpartition("/")[2] for path in source.paths) == [file.name for file in files]
    assert lineage == Lineage("import:first", sources=(source,))


def test_the_lineage_of_an_import_names_some_of_many_files(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    for number in range(30):
        folder = tmp_path / "json" / f"n{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:02}.json").write_text(f'{{"n": {number}}}')
    frame = spark.read.schema("n long").option("recursiveFileLookup", "true").json(str(tmp_path / "json"))
    (snapshot,) = jobs.import_(frame, DatasetRef(lake, "n"), key="k")
    lineage = lineage_of(snapshot)
    assert lineage is not None
    (source,) = lineage.sources
    assert (source.files, len(source.paths)) == (30, 20)
    assert source.words.startswith("30 files in file:")
    assert source.words.endswith("/json")
    # Without files there is nothing to name.
    (other,) = jobs.import_(spark.range(2), DatasetRef(lake, "ids"), key="k")
    assert lineage_of(other) == Lineage("import:k")


def test_an_import_that_fails_for_one_value_commits_none_after_it(spark: SparkSession, lake: str) -> None:
    frame = spark.range(4).selectExpr("id AS n", "assert_true(id < 2) IS NULL AS ok")
    with pytest.raises(Exception, match="is not true"):
        jobs.import_(frame, DatasetRef(lake, "parts"), key="k", split_by="n")
    parts = lode.open_dataset("parts", lake)
    assert [snapshot.metadata["n"] for snapshot in parts.snapshots()] in ([], [0], [0, 1])
    assert lode.verify(parts).ok
    fixed = frame.withColumn("ok", frame.n >= 0)
    jobs.import_(fixed, DatasetRef(lake, "parts"), key="k", split_by="n")
    assert [snapshot.metadata["n"] for snapshot in parts.snapshots()] == [0, 1, 2, 3]
    assert parts.count() == 4


def test_export_writes_a_range_of_history_as_plain_files_once(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    dataset = sales_in(lake)
    first, *_, last = dataset.snapshots()
    for form, options in (("parquet", {}), ("json", {}), ("csv", {"header": "true"})):
        folder = str(tmp_path / form)
        done = jobs.export(spark, dataset, folder, file_format=form, options=options, since=first)
        assert (done.replayed, done.receipt.rows, done.receipt.source.snapshots) == (False, 150, 3)
        found = spark.read.format(form).options(**options).load(folder)
        expected = list(rows_of(dataset))
        assert found.count() == 150
        assert {(row.day, int(row.n)) for row in found.collect()} <= set(expected)
        assert jobs.export(spark, dataset, folder, file_format=form, since=first).replayed
    receipt = json.loads((tmp_path / "csv" / "_lode.json").read_text())
    assert receipt["source"]["up_to"]["snapshot"] == last.id

    with pytest.raises(lode.InvalidOptionError, match=r"holds an export of 'sales' up to .* as csv"):
        jobs.export(spark, dataset, str(tmp_path / "csv"))
    replaced = jobs.export(spark, dataset, str(tmp_path / "csv"), overwrite=True, partition_by=["day"])
    assert not replaced.replayed
    assert sorted(path.name for path in (tmp_path / "csv").glob("day=*")) == ["day=d0", "day=d1"]
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "notes.txt").write_text("keep")
    with pytest.raises(lode.InvalidOptionError, match="no finished export"):
        jobs.export(spark, dataset, str(tmp_path / "foreign"))


def test_rewrite_makes_one_sorted_snapshot_in_files_of_the_size_asked_for(
    spark: SparkSession, lake: str
) -> None:
    source = sales_in(lake, 6, 400, layout=None)
    size = sum(snapshot.size_bytes for snapshot in source.snapshots()[2:])
    since = source.snapshots()[1]
    sink = DatasetRef(lake, "tidy", checksum="md5")
    arguments: dict[str, Any] = {"since": since, "sort_by": ["n"], "target_file_bytes": size // 3}
    snapshot = jobs.rewrite(spark, source, sink, **arguments)
    tidy = lode.Dataset("tidy", lake, codec="parquet")
    assert rows_of(tidy) == sorted(
        tuple(row.values()) for row in source.scan(since=since).read_all().to_pylist()
    )
    assert len(snapshot.files) == 3
    ranges = []
    for file in snapshot.files:
        assert file.stats is not None
        (column,) = (column for column in file.stats.columns if column.name == "n")
        ranges.append((column.min, column.max))
    ranges.sort()
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(ranges))
    lineage = lineage_of(snapshot)
    assert lineage is not None
    assert (lineage.inputs[0].after.snapshot, lineage.inputs[0].snapshots) == (since.id, 4)
    again = jobs.rewrite(spark, source, sink, **arguments)
    assert (again.id, len(tidy.snapshots())) == (snapshot.id, 1)
    with pytest.raises(lode.InvalidOptionError, match="history is never changed"):
        jobs.rewrite(spark, source, source)


def test_datasets_in_memory_are_out_of_reach_and_that_is_said(spark: SparkSession) -> None:
    dataset = sales_in("memory://", 1)
    with pytest.raises(lode.InvalidOptionError, match="memory"):
        jobs.verify(spark, dataset)


# -- removing ----------------------------------------------------------------------------------------


def test_expire_removes_what_lode_expire_removes(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    dataset = sales_in(lake)
    dataset.overwrite([{"day": "d0", "n": 1}])
    expected = lode.expire(dataset, keep=1)
    assert expected.files > 0
    found = jobs.expire(spark, dataset, keep=1, dry_run=False)
    assert sorted(found.paths) == sorted(expected.paths)
    assert not any((tmp_path / "lake" / path).exists() for path in found.paths)
    assert lode.verify(dataset).ok


def test_sweep_removes_what_lode_sweep_finds_and_no_committed_file(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    dataset = sales_in(lake)
    before = rows_of(dataset)
    dead = dataset.transaction()
    dead.stage([{"day": "d0", "n": 1}, {"day": "d1", "n": 2}])
    expected = lode.sweep(dataset, timedelta(0))
    assert {leftover.path for leftover in expected.leftovers}
    found = jobs.sweep(spark, DatasetRef(lake, "sales"), timedelta(0), dry_run=False)
    assert {each.path for each in found.leftovers} == {each.path for each in expected.leftovers}
    assert not any((tmp_path / "lake" / each.path).exists() for each in found.leftovers)
    assert rows_of(dataset) == before


def test_jobs_that_take_the_files_in_shares_find_the_same(
    spark: SparkSession, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = sales_in(lake, 6)
    dataset.tag("kept", dataset.snapshot("2"))
    dataset.overwrite([{"day": "d0", "n": 1}])
    dataset.delete("day = 'd1'")
    dataset.restore("5")
    dataset.compact()
    for number in range(3):
        dataset.transaction().stage([{"day": "d0", "n": number}, {"day": "d1", "n": 2}])
    lost = dataset.latest().files[0].path
    (tmp_path / "lake" / lost).unlink()
    expected = lode.verify(dataset), lode.sweep(dataset, timedelta(0)), lode.expire(dataset, keep=1)
    assert not expected[0].ok
    assert expected[1].leftovers
    assert expected[2].paths
    monkeypatch.setattr(share, "BYTES_PER_SHARE", 2_000)
    assert len(share.shares_of(dataset.chain)) > 4
    found = jobs.verify(spark, dataset)
    assert (found.snapshots, found.files, found.bytes) == (
        expected[0].snapshots,
        expected[0].files,
        expected[0].bytes,
    )
    assert set(found.problems) == set(expected[0].problems)
    assert len(found.problems) == len(expected[0].problems)
    swept = jobs.sweep(spark, dataset, timedelta(0), dry_run=False)
    assert {each.path for each in swept.leftovers} == {each.path for each in expected[1].leftovers}
    expired = jobs.expire(spark, dataset, keep=1, dry_run=False)
    assert sorted(expired.paths) == sorted(expected[2].paths)
    assert (expired.files, expired.bytes, expired.snapshots) == (
        expected[2].files,
        expected[2].bytes,
        expected[2].snapshots,
    )
    assert not any((tmp_path / "lake" / path).exists() for path in expired.paths)
    assert [problem.path for problem in lode.verify(dataset).problems] == [lost]
    assert dataset.scan(as_of="kept").read_all().num_rows == 100


def test_the_commands_remove_nothing_unless_it_is_asked_for(
    spark: SparkSession, lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = sys.modules["lode.spark.session"]
    monkeypatch.setattr(module, "session", lambda *_, **__: spark)
    monkeypatch.setattr(module, "stop", lambda _: None)
    dataset = sales_in(lake)
    dead = dataset.transaction()
    dead.stage([{"day": "d0", "n": 1}])

    def run(command: str, *words: str) -> Any:
        assert main(["spark", command, "sales", "--root", lake, *words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    expected = len(dataset.plan().files)
    assert run("compact", "--dry-run")["id"] is None
    assert len(dataset.plan().files) == expected
    assert run("compact")["id"] is not None
    assert len(dataset.plan().files) == 2
    for command, words, key in (("expire", ("--keep", "1"), "files"), ("sweep", ("--older-than", "0s"), "")):
        found = run(command, *words)
        assert not found["removed"]
        again = run(command, *words, "--delete")
        assert again["removed"]
        assert again[key] == found[key] == expected if key else again["leftovers"] == found["leftovers"]
        assert run(command, *words)["bytes"] == 0
    assert lode.verify(dataset).ok
    assert main(["spark", "expire", "sale", "--root", lake, "--keep", "1"]) == 3
    assert "did you mean 'sales'" in capsys.readouterr().err


def test_a_file_whose_manifest_appears_before_it_is_removed_stays(lake: str) -> None:
    store = lode.open_store(lake)
    store.put("datasets/d/data", b"rows")
    store.put("datasets/d/manifest.json", b"{}")
    assert not Errand(("datasets/d/data",), unless="datasets/d/manifest.json").run(store)
    assert store.exists("datasets/d/data")
    assert Errand(("datasets/d/data",), unless="datasets/d/missing.json").run(store)
    assert not store.exists("datasets/d/data")
