"""The streaming sink: every micro-batch is one snapshot, exactly once, whoever dies when."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import LongType, StructType

import lode
from lode.cli import main
from lode.codec.schema import to_schema
from lode.lineage import Lineage, lineage_of
from lode.lineage.position import BEGINNING, position_of
from lode.lineage.record import Source, input_of
from lode.spark.options import Options
from lode.spark.origins import batch_origins
from lode.spark.staging import stage_batches
from lode.spark.stream import StagedPart, StreamSink
from support import SUPPORT
from support.spark import stream_driver
from support.spark.streams import run_to_end

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def source_in(lake: str, snapshots: int, rows: int = 3) -> lode.Dataset:
    dataset = lode.Dataset("src", lake, codec=lode.Parquet({"number": "int64!", "snapshot": "string"}))
    for index in range(snapshots):
        dataset.write([{"number": 10 * index + row, "snapshot": f"s{index}"} for row in range(rows)])
    return dataset


def sink_in(lake: str, **options: Any) -> lode.Dataset:
    return lode.Dataset("out", lake, codec="parquet", **options)


def numbers(dataset: lode.Dataset) -> list[int]:
    return sorted(row["number"] for row in dataset.scan(columns=["number"]).read_all().to_pylist())


def stream(
    spark: SparkSession, lake: str, folder: Path, *, where: str = "true", mode: str = "append", **options: str
) -> Any:
    """Run what is there from ``src`` to ``out``, a snapshot at a time."""
    frame = (
        spark.readStream.format("lode")
        .schema("number long, snapshot string")
        .options(path=lake, dataset="src", maxSnapshotsPerBatch="1")
        .load()
        .where(where)
    )
    writer = (
        frame.writeStream.format("lode")
        .options(path=lake, dataset="out", checkpointLocation=str(folder / "checkpoint"), **options)
        .outputMode(mode)
        .trigger(availableNow=True)
    )
    return run_to_end(writer)


def test_every_micro_batch_is_one_snapshot_under_the_key_of_query_and_batch(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    source = source_in(lake, 3)
    query = stream(spark, lake, tmp_path, metadata='{"team": "web"}', checksum="sha256")
    sink = sink_in(lake)
    assert numbers(sink) == numbers(source)
    positions = [BEGINNING, *(position_of(source, each) for each in source.snapshots())]
    for batch, snapshot in enumerate(sink.snapshots()):
        assert snapshot.metadata["team"] == "web"
        assert snapshot.metadata["spark"] == {"query": query.id, "batch": batch}
        read = input_of(source, positions[batch], positions[batch + 1])
        assert lineage_of(snapshot) == Lineage(f"stream:{query.id}", (read,), batch=batch)
        assert snapshot.manifest.idempotency == (f"spark:{query.id}", str(batch))
        assert snapshot.manifest.checksum_algorithm == "sha256"
        assert all(snapshot.id in file.path for file in snapshot.files)
    assert lode.verify(sink).ok


def test_the_lineage_of_a_batch_names_the_files_that_it_read(
    spark: SparkSession, lake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    sink = {"path": lake, "dataset": "out", "checkpointLocation": (tmp_path / "checkpoint").as_uri()}
    for batch in range(2):
        (folder / f"{batch}.json").write_text(f'{{"number": {batch}}}')
        rows = spark.readStream.schema("number long").json(str(folder))
        query = run_to_end(rows.writeStream.format("lode").options(**sink).trigger(availableNow=True))
    for batch, snapshot in enumerate(sink_in(lake).snapshots()):
        lineage = lineage_of(snapshot)
        assert lineage is not None
        (source,) = lineage.sources
        assert (lineage.batch, source.files) == (batch, 1)
        assert [path.rpartition("/")[2] for path in source.paths] == [f"{batch}.json"]
    for command in (["log", "out", "--lineage"], ["spark", "lineage", "out"]):
        assert main([*command, "--root", lake]) == 0
        shown = "".join(capsys.readouterr().out.split())
        assert f"bystream:{query.id}batch1" in shown
        assert f"1fileinfile://{folder}" in shown


def test_offsets_of_other_sources_are_in_the_lineage_as_spark_writes_them(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "0").write_text('v1\n{"conf":{}}\n{"topic":{"0":5}}\n-')
    (offsets / "1").write_text('v1\n{"conf":{}}\n{"topic":{"0":9}}\n' + "7" * 3000)
    options = Options({"checkpointLocation": str(tmp_path)}, also=["checkpointLocation"])
    assert batch_origins(options, 0).sources == (Source("source 0", up_to='{"topic":{"0":5}}'),)
    topic, long = batch_origins(options, 1).sources
    assert topic == Source("source 0", after='{"topic":{"0":5}}', up_to='{"topic":{"0":9}}')
    assert (long.name, len(long.up_to)) == ("source 1", 1000)
    # A checkpoint that cannot be read is no reason to lose a batch.
    (offsets / "1").write_bytes(b"\xff")
    for batch in (1, 2):
        assert batch_origins(options, batch) == ((), ())


def test_a_batch_that_spark_replays_changes_nothing(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    source = source_in(lake, 3)
    stream(spark, lake, tmp_path)
    before = sink_in(lake).snapshots()
    # A driver that is killed after the commit leaves this: Spark has not noted that the last batch is done.
    for note in (tmp_path / "checkpoint" / "commits").glob("*2*"):
        note.unlink()
    stream(spark, lake, tmp_path)
    assert sink_in(lake).snapshots() == before
    assert numbers(sink_in(lake)) == numbers(source)
    # What the replay staged was removed again.
    found = lode.sweep(lode.Dataset("out", lake), timedelta(0))
    assert {item.reason for item in found.leftovers} <= {"the intent of a snapshot that is published"}


def test_a_batch_without_rows_makes_no_snapshot(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    source_in(lake, 3)
    stream(spark, lake, tmp_path, where="snapshot <> 's1'")
    sink = sink_in(lake)
    assert [snapshot.metadata["spark"]["batch"] for snapshot in sink.snapshots()] == [0, 2]
    assert numbers(sink) == [0, 1, 2, 20, 21, 22]


def test_partitions_come_from_an_option(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    source = source_in(lake, 2)
    stream(spark, lake, tmp_path, partitionBy="snapshot")
    sink = sink_in(lake, layout=lode.HiveLayout("snapshot"))
    assert numbers(sink) == numbers(source)
    reader = lode.DatasetReader(lake, layout=sink.layout)
    assert reader.list_partitions("out") == ["snapshot=s0", "snapshot=s1"]


def test_a_batch_that_fails_leaves_history_as_it_was_and_is_done_once_when_it_can_be(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    source = source_in(lake, 2)
    with pytest.raises(StreamingQueryException, match=r"DIVIDE_BY_ZERO"):
        stream(spark, lake, tmp_path, where="snapshot = 's0' OR number / (number - number) > 0")
    assert numbers(sink_in(lake)) == [0, 1, 2]
    stream(spark, lake, tmp_path)
    assert numbers(sink_in(lake)) == numbers(source)


def test_a_sink_shares_its_dataset_with_other_writers(spark: SparkSession, lake: str, tmp_path: Path) -> None:
    source = source_in(lake, 2)
    stream(spark, lake, tmp_path / "a")
    sink_in(lake).write(source.read(source.latest()))
    stream(spark, lake, tmp_path / "b")
    assert Counter(numbers(sink_in(lake))) == Counter(numbers(source) * 2 + [10, 11, 12])
    assert [snapshot.sequence for snapshot in sink_in(lake).snapshots()] == [1, 2, 3, 4, 5]


def test_a_batch_with_a_column_too_many_fails_before_its_tasks_and_merge_schema_lets_it_in(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    source_in(lake, 1)
    lode.Dataset.create("out", lake, schema={"number": "int64"})
    with pytest.raises(StreamingQueryException, match=r"column 'snapshot' \(string\) is not one of"):
        stream(spark, lake, tmp_path / "a")
    assert len(sink_in(lake).snapshots()) == 1
    stream(spark, lake, tmp_path / "b", mergeSchema="true")
    assert numbers(sink_in(lake)) == [0, 1, 2]
    assert sink_in(lake).schema == to_schema({"number": "int64", "snapshot": "string"})


def test_complete_mode_is_refused_because_a_dataset_is_only_appended_to(lake: str) -> None:
    schema = StructType().add("number", LongType())
    with pytest.raises(lode.InvalidOptionError, match=r"foreachBatch with Dataset\.overwrite, or a pipeline"):
        StreamSink({"path": lake, "dataset": "out"}, schema, overwrite=True)


def test_totals_of_complete_mode_are_kept_by_overwriting_in_foreach_batch(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    source_in(lake, 2)
    totals = lode.Dataset("totals", lake, codec="parquet")

    def replace(batch: DataFrame, _: int) -> None:
        totals.overwrite(batch, everything=True)

    def run() -> None:
        rows = spark.readStream.format("lode").options(path=lake, dataset="src").load()
        run_to_end(
            rows.groupBy((rows.number % 2).alias("odd"))
            .count()
            .writeStream.outputMode("complete")
            .foreachBatch(replace)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )

    run()
    before = totals.scan().read_all().to_pylist()
    source_in(lake, 1)
    run()
    after = totals.scan().read_all().to_pylist()
    assert sum(row["count"] for row in after) == lode.open_dataset("src", lake).count()
    assert sum(row["count"] for row in after) > sum(row["count"] for row in before) > 0
    assert len(after) == len(before) == 2


def test_an_abort_removes_what_was_staged_but_never_what_may_have_been_committed(lake: str) -> None:
    schema = StructType().add("number", LongType())
    sink = StreamSink({"path": lake, "dataset": "out", "checksum": "md5"}, schema, overwrite=False)
    dataset = sink_in(lake)

    def staged() -> StagedPart:
        job = StreamSink({"path": lake, "dataset": "out", "checksum": "md5"}, schema, overwrite=False)._job
        batches = [pa.record_batch({"number": pa.array([1, 2], pa.int64())})]
        return StagedPart(job, "query", stage_batches(job.stager, batches, task="0"), 0)

    failed = staged()
    sink.abort([failed, None], 0)
    assert not dataset.store.exists(failed.staged.files[0].path)
    # Spark also aborts when a commit failed, and it may have failed after the swap.
    landed = staged()
    sink.commit([landed], 0)
    sink.abort([landed], 0)
    assert numbers(dataset) == [1, 2]
    assert lode.verify(dataset).ok


def run_driver(lake: str, folder: Path, die_at: str) -> int:
    arguments = [lake, str(folder / "checkpoint"), str(folder / "pids")]
    command = [sys.executable, stream_driver.__file__, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT.parent), "DIE_AT": die_at}
    return subprocess.run(command, env=environment, timeout=600, check=False).returncode


def test_killing_the_driver_before_or_in_a_commit_loses_nothing_and_doubles_nothing(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    source = source_in(lake, 4)
    expected = [2 * number for number in numbers(source)]
    for die_at, visible in (
        ("before commit:1", 3),
        # Decided, but its writer did not live to show it: whoever commits next does.
        ("between swap and publication:2", 6),
    ):
        assert run_driver(lake, tmp_path, die_at) == -signal.SIGKILL, die_at
        assert numbers(sink_in(lake)) == expected[:visible], die_at
    stream_driver.run(spark, lake, str(tmp_path / "checkpoint"), "lode")
    sink = sink_in(lake)
    assert numbers(sink) == expected
    assert [snapshot.metadata["spark"]["batch"] for snapshot in sink.snapshots()] == [0, 1, 2, 3]
    assert len({snapshot.metadata["spark"]["query"] for snapshot in sink.snapshots()}) == 1
    # What the dead left behind is found, and nothing else is.
    lode.sweep(lode.Dataset("out", lake), timedelta(0), dry_run=False)
    assert numbers(sink) == expected
    assert lode.verify(sink).ok
