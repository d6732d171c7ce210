"""The streaming source: whole snapshots, in order, each exactly once."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles
from pyspark.sql.types import LongType, StringType, StructType

import lode
from lode.lineage import position
from lode.lineage.position import BEGINNING, Frontier, Limit, Position, between, starting_position
from lode.spark.stream import StreamSource
from lode.store.wrappers import CountingStore
from support.spark.streams import run_to_end

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = StructType().add("number", LongType()).add("snapshot", StringType())


def dataset_in(lake: str, **options: Any) -> lode.Dataset:
    return lode.Dataset("d", lake, codec=lode.Parquet({"number": "int64!", "snapshot": "string"}), **options)


def grow(dataset: lode.Dataset, count: int, rows: int = 3) -> list[lode.Snapshot]:
    """Write snapshots that say which one they are."""
    first = len(dataset.snapshots())
    return [
        dataset.write([{"number": row, "snapshot": f"s{first + index}"} for row in range(rows)])
        for index in range(count)
    ]


class Collector:
    """Runs a stream to the end of what is there, again and again from one checkpoint."""

    def __init__(self, spark: SparkSession, lake: str, folder: Path, **options: object) -> None:
        self.spark = spark
        self.folder = folder
        self.options = {"path": lake, "dataset": "d", **{name: str(value) for name, value in options.items()}}
        self.column = "snapshot"
        self.batches: list[list[str]] = []

    def run(self, **trigger: Any) -> list[list[str]]:
        """The values of the column in each batch."""

        def take(frame: Any, _: int) -> None:
            self.batches.append([row[self.column] for row in frame.collect()])

        self.batches = []
        stream = self.spark.readStream.format("lode").options(**self.options).load()
        run_to_end(
            stream.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(**(trigger or {"availableNow": True}))
        )
        return self.batches


def named(*numbers: int, rows: int = 3) -> list[str]:
    return [f"s{number}" for number in numbers for _ in range(rows)]


# -- positions, without Spark ----------------------------------------------------------------------


def test_a_batch_takes_as_many_whole_snapshots_as_the_limits_allow_and_at_least_one(lake: str) -> None:
    dataset = dataset_in(lake)
    snapshots = grow(dataset, 5)
    frontier = Frontier(dataset)
    size = snapshots[0].size_bytes
    assert frontier.advance(BEGINNING) == Position(5, snapshots[4].id)
    assert frontier.advance(BEGINNING, Limit(snapshots=2)) == Position(2, snapshots[1].id)
    assert frontier.advance(BEGINNING, Limit(bytes=3 * size + size // 2)).sequence == 3
    assert frontier.advance(BEGINNING, Limit(snapshots=4, bytes=2 * size + 5)).sequence == 2
    assert frontier.advance(BEGINNING, Limit(bytes=1)).sequence == 1
    head = Position(5, snapshots[4].id)
    assert frontier.advance(head) == head


def test_a_slow_stream_does_not_walk_the_same_history_again_with_every_batch(lake: str) -> None:
    counted = CountingStore(lode.open_store(lake))
    writer = dataset_in(lake)
    grow(writer, 40, rows=1)
    dataset = lode.Dataset("d", counted, codec="parquet")
    frontier = Frontier(dataset)
    at = frontier.advance(BEGINNING, Limit(snapshots=1))
    before = counted.counts.total()
    for _ in range(30):
        at = frontier.advance(at, Limit(snapshots=1))
    assert at.sequence == 31
    assert counted.counts.total() - before <= 2 * 30  # the pointer, and its manifest where it is forgotten
    grow(writer, 1, rows=1)
    assert frontier.advance(at).sequence == 41


def test_a_stream_without_a_limit_reads_no_manifest_between(lake: str) -> None:
    snapshots = grow(dataset_in(lake), 40, rows=1)
    counted = CountingStore(lode.open_store(lake))
    frontier = Frontier(lode.Dataset("d", counted, codec="parquet"))
    assert frontier.advance(BEGINNING).sequence == 40
    assert counted.counts.total() < 10
    start = Position(30, snapshots[29].id)
    assert frontier.advance(start).sequence == 40
    with pytest.raises(lode.InvalidOptionError, match="replaced by another one"):
        frontier.advance(Position(30, snapshots[28].id))


def test_a_stream_with_a_limit_reads_ahead_a_bounded_number_of_snapshots(
    lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = grow(dataset_in(lake), 40, rows=1)
    monkeypatch.setattr(position, "WINDOW", 3)
    dataset = dataset_in(lake)
    frontier = Frontier(dataset)
    at, seen = BEGINNING, []
    while (end := frontier.advance(at, Limit(snapshots=7))) != at:
        assert len(frontier._waiting) <= 7 + 3
        seen.append(end)
        at = end
    assert seen == [Position(n, snapshots[n - 1].id) for n in (7, 14, 21, 28, 35, 40)]
    size = snapshots[0].size_bytes
    assert Frontier(dataset).advance(BEGINNING, Limit(bytes=10 * size + size // 2)).sequence == 10


def test_a_stream_of_a_dataset_without_snapshots_waits(lake: str) -> None:
    options = {"path": lake, "dataset": "d"}
    waiting = StreamSource(options, SCHEMA)
    start = waiting.initialOffset()
    assert waiting.latestOffset(start, ReadAllAvailable()) == start
    assert waiting.partitions(start, start) == []
    latest = StreamSource({**options, "startingPosition": "latest"}, SCHEMA)
    assert latest.initialOffset() == start  # what is written later is read
    once = StreamSource(options, SCHEMA)
    once.prepareForTriggerAvailableNow()
    (snapshot,) = grow(dataset_in(lake), 1)
    assert once.latestOffset(start, ReadAllAvailable()) == start
    end = waiting.latestOffset(start, ReadAllAvailable())
    assert Position.from_json(end) == Position(1, snapshot.id)
    (split,) = waiting.partitions(start, end)
    assert sum(batch.num_rows for batch in waiting.read(split)) == 3


def test_a_dataset_that_was_dropped_and_begun_again_is_read_from_its_new_beginning(lake: str) -> None:
    dataset = dataset_in(lake)
    grow(dataset, 2)
    dataset.drop()
    again = dataset_in(lake)
    first, second = (again.write([{"number": 1, "snapshot": "new"}]) for _ in range(2))
    frontier = Frontier(again)
    at = frontier.advance(BEGINNING, Limit(snapshots=1))
    assert at.snapshot == first.id
    assert frontier.advance(at, Limit(snapshots=1)).snapshot == second.id
    assert [snapshot.id for snapshot in between(again, BEGINNING, frontier.known())] == [first.id, second.id]


def test_starting_positions_leave_out_exactly_what_as_of_the_same_would_read(lake: str) -> None:
    dataset = dataset_in(lake)
    first, second, third = grow(dataset, 3)
    time = second.manifest.created_at
    for where, expected in (
        ("earliest", BEGINNING),
        ("latest", Position(3, third.id)),
        (first.id, Position(1, first.id)),
        (time, Position(2, second.id)),
        ("2", Position(2, second.id)),
        ("latest~2", Position(1, first.id)),
        (first.id[:-1], Position(1, first.id)),
        ("2001-01-01", BEGINNING),
        ("2001-01-01T00:00:00Z", BEGINNING),
    ):
        assert starting_position(dataset, where) == expected, where
    with pytest.raises(lode.InvalidOptionError, match="startingPosition is 'yesterday'"):
        starting_position(dataset, "yesterday")


def test_a_dataset_that_was_replaced_is_noticed(lake: str, tmp_path: Path) -> None:
    dataset = dataset_in(lake)
    _, second, _ = grow(dataset, 3)
    reached = Position(2, second.id)
    shutil.rmtree(tmp_path / "lake")
    with pytest.raises(lode.InvalidOptionError, match="replaced by another one"):
        Frontier(dataset_in(lake)).advance(reached)
    for count in (1, 1, 1):  # shorter than, as long as, and longer than the stream had read
        grow(dataset_in(lake), count)
        with pytest.raises(lode.InvalidOptionError, match="replaced by another one"):
            Frontier(dataset_in(lake)).advance(reached)
    with pytest.raises(lode.InvalidOptionError, match="replaced by another one"):
        between(dataset_in(lake), reached, Position(3, dataset_in(lake).latest().id))


def test_an_offset_of_another_source_is_refused_in_words() -> None:
    with pytest.raises(lode.InvalidOptionError, match="not a position"):
        Position.from_json({"index": 3})


def test_limits_are_told_to_spark_and_overruled_by_a_trigger_that_wants_everything(lake: str) -> None:
    grow(dataset_in(lake), 3)
    at = {"path": lake, "dataset": "d"}
    assert StreamSource(at, SCHEMA).getDefaultReadLimit() == ReadAllAvailable()
    assert StreamSource({**at, "maxBytesPerBatch": "1m"}, SCHEMA).getDefaultReadLimit() == ReadMaxBytes(
        1 << 20
    )
    source = StreamSource({**at, "maxsnapshotsperbatch": "1", "maxBytesPerBatch": "1m"}, SCHEMA)
    assert source.getDefaultReadLimit() == ReadMaxFiles(1)
    start = source.initialOffset()
    assert source.latestOffset(start, ReadMaxFiles(1))["sequence"] == 1
    assert source.latestOffset(start, ReadAllAvailable())["sequence"] == 3
    assert source.reportLatestOffset()["sequence"] == 3
    for options in (
        {"maxSnapshotsPerBatch": "0"},
        {"maxBytesPerBatch": "many"},
        {"maxSnapshotPerBatch": "3"},
    ):
        with pytest.raises(lode.InvalidOptionError, match=f"(?i){next(iter(options))}"):
            StreamSource({**at, **options}, SCHEMA)


def test_after_prepare_for_available_now_the_source_ends_where_history_ended_then(lake: str) -> None:
    dataset = dataset_in(lake)
    grow(dataset, 2)
    source = StreamSource({"path": lake, "dataset": "d"}, SCHEMA)
    source.prepareForTriggerAvailableNow()
    grow(dataset, 2)
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    assert end["sequence"] == 2
    assert source.latestOffset(end, ReadAllAvailable()) == end


def test_a_compaction_moves_the_position_and_brings_no_rows(lake: str) -> None:
    dataset = dataset_in(lake)
    snapshots = grow(dataset, 2)
    dataset.compact()
    source = StreamSource({"path": lake, "dataset": "d", "maxBytesPerBatch": "1"}, SCHEMA)
    start = Position(2, snapshots[1].id).to_json()
    end = source.latestOffset(start, ReadMaxBytes(1))
    assert end["sequence"] == 3
    assert source.partitions(start, end) == []


def test_a_position_that_is_expired_names_the_remedy_and_a_new_stream_begins_with_the_state(
    lake: str,
) -> None:
    dataset = dataset_in(lake)
    snapshots = grow(dataset, 4)
    lode.expire(dataset, keep=2, dry_run=False)
    source = StreamSource({"path": lake, "dataset": "d", "maxSnapshotsPerBatch": "1"}, SCHEMA)
    start = Position(1, snapshots[0].id).to_json()
    with pytest.raises(lode.SnapshotExpiredError, match=r"begins at number 3 now.*a new checkpoint"):
        source.partitions(start, source.latestOffset(start, ReadMaxFiles(1)))
    end = source.latestOffset(source.initialOffset(), ReadMaxFiles(1))
    assert end["sequence"] == 3
    (split,) = source.partitions(source.initialOffset(), end)
    rows = [row for batch in source.read(split) for row in batch.column("snapshot").to_pylist()]
    assert rows == named(0, 1, 2)


# -- in Spark --------------------------------------------------------------------------------------


def test_available_now_reads_everything_in_batches_of_whole_snapshots_and_ends(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    dataset = dataset_in(lake)
    grow(dataset, 5)
    collector = Collector(spark, lake, tmp_path, maxSnapshotsPerBatch=2)
    assert collector.run() == [named(0, 1), named(2, 3), named(4)]
    # From the checkpoint: nothing again, and then only what is new.
    assert collector.run() == []
    grow(dataset, 3)
    assert collector.run() == [named(5, 6), named(7)]


def test_a_batch_that_failed_is_read_again_with_the_same_snapshots(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    dataset = dataset_in(lake)
    grow(dataset, 2)
    collector = Collector(spark, lake, tmp_path)

    def fail(*_: Any) -> None:
        raise RuntimeError("this batch is not to be")

    stream = spark.readStream.format("lode").options(**collector.options).load()
    writer = (
        stream.writeStream.foreachBatch(fail)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    with pytest.raises(StreamingQueryException, match="not to be"):
        run_to_end(writer)
    grow(dataset, 1)  # not part of the batch that was begun
    assert collector.run() == [named(0, 1), named(2)]


def test_a_stream_begins_at_its_starting_position_and_only_there(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    dataset = dataset_in(lake)
    snapshots = grow(dataset, 3)
    after_first = Collector(spark, lake, tmp_path / "a", startingPosition=snapshots[0].id)
    assert after_first.run() == [named(1, 2)]
    latest = Collector(spark, lake, tmp_path / "b", startingPosition="latest")
    assert latest.run() == [[]]  # with a first batch, be it empty, Spark notes where it began
    grow(dataset, 1)
    # The checkpoint says where the stream stands; the option only says where it began.
    assert latest.run() == [named(3)]
    assert after_first.run() == [named(3)]


def test_json_and_arrow_datasets_stream_like_parquet_ones_partitions_included(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = {"number": "int64!", "snapshot": "string"}
    for codec in (lode.JSONL(schema), lode.ArrowIPC(schema)):
        lake = f"file://{tmp_path / codec.name}?durable=false"
        dataset = lode.Dataset(
            "d", lake, codec=codec, layout=lode.HiveLayout("snapshot"), compressor="gzip", checksum="md5"
        )
        dataset.write([{"number": 1, "snapshot": "s0"}, {"number": 2, "snapshot": "s1"}])
        (batch,) = Collector(spark, lake, tmp_path / codec.name).run()
        assert sorted(batch) == ["s0", "s1"]


def test_what_is_wrong_with_the_options_is_one_sentence_at_the_driver(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    grow(dataset_in(lake), 1)
    with pytest.raises(
        Exception, match="'maxsnapshotperbatch' is unknown: did you mean 'maxSnapshotsPerBatch'"
    ):
        Collector(spark, lake, tmp_path, maxSnapshotPerBatch=1).run()


def test_a_stream_resumed_after_a_compaction_and_a_delete_refuses_ignores_or_reports_it(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    dataset = dataset_in(lake)
    grow(dataset, 2, rows=1)
    fails = Collector(spark, lake, tmp_path / "fail")
    reports = Collector(spark, lake, tmp_path / "report", onRemoval="report")
    for collector in (fails, reports):
        assert collector.run() == [["s0", "s1"]]
    dataset.compact()
    grow(dataset, 1, rows=1)
    dataset.delete("snapshot = 's0'")
    grow(dataset, 1, rows=1)
    with pytest.raises(StreamingQueryException, match=r"on_removal=.ignore.*option is onRemoval"):
        fails.run()
    # A stream that refused goes on from its checkpoint with another choice.
    fails.options["onRemoval"] = "ignore"
    assert fails.run() == [["s3", "s5"]]
    reports.column = "_change"
    assert reports.run() == [["insert", "delete", "delete", "insert", "insert"]]
