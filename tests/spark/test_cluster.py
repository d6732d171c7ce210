"""Spark as it runs in earnest: a master, workers and executors that are processes of their own, and die."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import lode
from support.spark.cluster import Cluster, Driver, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("java_archive")]

# So that a part of a few thousand rows is several files.
SMALL_FILES = {"targetFileBytes": "64k", "rowGroupRows": "100", "checksum": "sha256"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def driver(cluster: Cluster) -> Iterator[Driver]:
    started = Driver(cluster)
    yield started
    started.stop()


def ids(dataset: lode.Dataset) -> list[int]:
    return sorted(row["id"] for row in dataset.scan(columns=["id"]).read_all().to_pylist())


def store_options(options: dict[str, Any]) -> dict[str, str]:
    """The options of a store as ``format("lode")`` takes them."""
    found: dict[str, str] = {}
    for name, value in options.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        found |= {f"store.{name}{'.' if key else ''}{key}": str(each) for key, each in inner}
    return found


def files_with(folder: Path, numbers: range) -> set[Path]:
    """The data files that hold one of these rows."""
    return {
        path
        for path in folder.rglob("data-*")
        if not set(numbers).isdisjoint(pq.read_table(path, columns=["id"])["id"].to_pylist())
    }


def kill_the_held_executor(cluster: Cluster, marker: Path, folder: Path, before: range) -> set[Path]:
    """Kill the executor whose task waits, when it has staged files; return those."""
    pid = wait_for("a task that waits", lambda: marker.read_text() if marker.exists() else None)
    staged = wait_for("a file of the task that waits", lambda: files_with(folder, before))
    cluster.kill_executor(cluster.executor_above(int(pid)))
    return staged


def test_executors_write_and_read_a_dataset_on_a_shared_file_system(
    cluster: Cluster, driver: Driver, lake: str
) -> None:
    options = {"path": lake, "dataset": "d"}
    spark, python = driver.run("write_and_read", count=1000, options=options, readers=["spark", "python"])
    assert sorted(spark) == sorted(python) == list(range(1000))
    assert len(cluster.executors()) == 2
    dataset = lode.Dataset("d", lake, codec="parquet")
    assert ids(dataset) == list(range(1000))
    assert len(dataset.latest().files) == 4
    assert lode.verify(dataset).ok


def test_executors_write_and_read_a_dataset_on_s3(driver: Driver, s3_server: Any) -> None:
    url = s3_server.create("cluster")
    options = {"path": url, "dataset": "d", **store_options(s3_server.options)}
    (found,) = driver.run("write_and_read", count=1000, options=options, readers=["auto"])
    assert sorted(found) == list(range(1000))
    dataset = lode.Dataset("d", lode.open_store(url, **s3_server.options), codec="parquet")
    assert ids(dataset) == list(range(1000))
    assert len(dataset.latest().files) == 4
    assert lode.verify(dataset).ok


CHANGED: dict[str, dict[Any, int]] = {
    "append": {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5},
    "dynamic": {0: 0, 2: 2, 3: 3, 5: 5, 10: 10},
    "replaceWhere": {0: 0, 2: 20, 3: 3, 5: 5, 10: 10},
    "merge": {0: 100, 2: 20, 3: 3, 5: 5, 7: 7, 10: 10},
    "delete": {0: 100, 2: 20, 3: 3, 5: 5, 7: 7},
    "compact": {0: 100, 2: 20, 3: 3, 5: 5, 7: 7},
    "pipeline": {"d0": 110, "d2": 25},
}


@pytest.mark.parametrize("connect", [False, True], ids=["classic", "connect"])
def test_executors_change_a_dataset_on_s3_in_every_way(driver: Driver, s3_server: Any, connect: bool) -> None:
    url = s3_server.create(f"changes-{connect}".lower())
    found = driver.run(
        "change_in_every_way", url=url, options=store_options(s3_server.options), connect=connect
    )
    assert found == {name: {str(key): n for key, n in rows.items()} for name, rows in CHANGED.items()}
    dataset = lode.open_dataset("d", lode.open_store(url, **s3_server.options))
    operations = [snapshot.operation for snapshot in dataset.snapshots()]
    assert operations == ["append", "overwrite", "overwrite", "merge", "delete", "compact"]
    assert {row["id"]: row["n"] for row in dataset.scan().read_all().to_pylist()} == CHANGED["compact"]
    assert len(dataset.plan().files) == 2
    assert lode.verify(dataset).ok


def test_an_executor_killed_in_the_middle_of_a_write_loses_nothing_and_doubles_nothing(
    cluster: Cluster, driver: Driver, lake: str, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    options = {"path": lake, "dataset": "d", **SMALL_FILES}
    # The third of four parts waits: its executor has finished another, which stays good.
    driver.begin("write_held", count=20_000, parts=4, marker=str(marker), row=14_000, options=options)
    staged = kill_the_held_executor(cluster, marker, tmp_path / "lake", range(10_000, 14_000))
    driver.result()
    dataset = lode.Dataset("d", lake, codec="parquet")
    assert ids(dataset) == list(range(20_000))
    assert len(dataset.snapshots()) == 1
    assert lode.verify(dataset).ok
    # What the dead attempt had staged is gone.
    assert not any(path.exists() for path in staged)


def test_an_executor_killed_between_the_files_of_a_part_leaves_no_row_twice_and_no_file(
    cluster: Cluster, driver: Driver, lake: str, tmp_path: Path
) -> None:
    victim = driver.run("write_killing", lake=lake)
    assert victim not in cluster.executors()
    dataset = lode.open_dataset("d", lake)
    assert ids(dataset) == list(range(40))
    assert len(dataset.snapshots()) == 1
    staged = {str(path.relative_to(tmp_path / "lake")) for path in (tmp_path / "lake").rglob("data-*")}
    assert staged == {file.path for file in dataset.latest().files}


def test_an_executor_killed_in_the_middle_of_a_stream_loses_nothing_and_doubles_nothing(
    cluster: Cluster, driver: Driver, lake: str, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    source = lode.Dataset("src", lake, codec=lode.Parquet({"id": "int64!", "text": "string"}))
    for first in (0, 5000, 10_000):
        source.write([{"id": number, "text": secrets.token_hex(64)} for number in range(first, first + 5000)])
    driver.begin(
        "stream_held",
        marker=str(marker),
        row=9000,
        source={"path": lake, "dataset": "src", "maxSnapshotsPerBatch": "1"},
        sink={
            "path": lake,
            "dataset": "out",
            "checkpointLocation": str(tmp_path / "checkpoint"),
            **SMALL_FILES,
        },
    )
    sink = lode.Dataset("out", lake, codec="parquet")
    folder = tmp_path / "lake" / "datasets" / "out"
    staged = kill_the_held_executor(cluster, marker, folder, range(5000, 9000))
    driver.result()
    assert ids(sink) == list(range(15_000))
    assert [snapshot.metadata["spark"]["batch"] for snapshot in sink.snapshots()] == [0, 1, 2]
    assert lode.verify(sink).ok
    assert not any(path.exists() for path in staged)


def test_a_run_whose_java_process_is_killed_ends_with_one_error_and_the_next_one_goes_on(
    driver: Driver, lake: str
) -> None:
    lode.Dataset("raw", lake, codec=lode.Parquet({"id": "int64!"})).write([{"id": 1}, {"id": 2}])
    lost, states = driver.run("lose_java", lake=lake)
    assert lost.startswith("the Java process of the Spark session has ended, killed or out of memory: run")
    assert states == {"one": "done", "two": "done"}
    assert ids(lode.open_dataset("copy", lake)) == [1, 2]
