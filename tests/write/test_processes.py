"""Real processes on real stores: all get through, and kill -9 loses and doubles nothing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import pytest

import lode
from support import SUPPORT

if TYPE_CHECKING:
    from pathlib import Path

    from lode.testing.servers import S3Server

CRAWLER = SUPPORT / "crawler.py"
ENDLESS = 1_000_000


@dataclass
class Crawler:
    """One partition's writer, started again where it left off as often as it is killed."""

    url: str
    name: str
    count: int
    log: Path
    options: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    kills: int = 0

    @property
    def stop(self) -> Path:
        """Once this file exists, the crawler ends after its current row."""
        return self.log.with_name("stop")

    def acknowledged(self) -> list[int]:
        if not self.log.exists():
            return []
        whole_lines = self.log.read_text().rpartition("\n")[0].splitlines()
        return [int(line.split()[0]) for line in whole_lines]

    def start(self) -> None:
        done = self.acknowledged()
        first = max(done) + 1 if done else 0
        settings = json.dumps(self.options)
        arguments = [self.url, "d", self.name, str(first), str(self.count - first), str(self.stop), settings]
        output: IO[str]
        with self.log.open("a") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(CRAWLER), *arguments], stdout=output, text=True
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1
        # A line cut short was never acknowledged.
        text = self.log.read_text()
        self.log.write_text(text[: text.rfind("\n") + 1])

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def finish(self) -> None:
        assert self.process is not None
        assert self.process.wait(timeout=600) == 0, f"{self.name} failed"


def crawlers(url: str, number: int, count: int, folder: Path, **options: Any) -> list[Crawler]:
    return [Crawler(url, f"w{index:02d}", count, folder / f"{index}.log", options) for index in range(number)]


def rows_of(dataset: lode.Dataset) -> Counter[tuple[str, int]]:
    return Counter((row["name"], row["number"]) for row in dataset.scan().read_all().to_pylist())


def opened(url: str, **options: Any) -> lode.Dataset:
    store = lode.open_store(url, **options)
    schema = {"name": "string!", "number": "int64!"}
    return lode.Dataset("d", store, codec=lode.JSONL(schema), layout=lode.HiveLayout("name"))


@pytest.mark.slow
def test_sixteen_processes_with_fifty_commits_each_all_succeed_and_history_is_one_line(
    tmp_path: Path,
) -> None:
    url = f"file://{tmp_path}/lake?durable=false"
    group = crawlers(url, 16, 50, tmp_path)
    for crawler in group:
        crawler.start()
    for crawler in group:
        crawler.finish()
    dataset = opened(url)
    assert rows_of(dataset) == Counter(
        {(crawler.name, number): 1 for crawler in group for number in range(50)}
    )
    assert [snapshot.sequence for snapshot in dataset.snapshots()] == list(range(1, 801))
    assert lode.verify(dataset).problems == ()


def survive_kills(group: list[Crawler], kills: int, seed: int) -> None:
    """Kill one of the crawlers at random moments, so many times, then let all of them end."""
    chance = random.Random(seed)
    for crawler in group:
        crawler.start()
    for _ in range(kills):
        victim = chance.choice(group)
        # Until it has written a row or two since it was started, there is little to interrupt.
        goal = len(victim.acknowledged()) + chance.randint(1, 3)
        deadline = time.monotonic() + 240
        while len(victim.acknowledged()) < goal:
            assert victim.running(), f"{victim.name} ended"
            assert time.monotonic() < deadline, f"{victim.name} does not get on"
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.02))
        victim.kill()
        victim.start()
    group[0].stop.touch()
    for crawler in group:
        crawler.finish()


def nothing_lost_nothing_doubled(group: list[Crawler], dataset: lode.Dataset) -> None:
    """Every acknowledged row is there once; besides, at most the one whose acknowledgement was cut off."""
    found = rows_of(dataset)
    assert set(found.values()) == {1}
    for crawler in group:
        acknowledged = crawler.acknowledged()
        assert acknowledged == list(range(len(acknowledged)))
        written = sorted(number for name, number in found if name == crawler.name)
        assert written in (acknowledged, [*acknowledged, len(acknowledged)])
    assert lode.verify(dataset).problems == ()


@pytest.mark.slow
def test_kill_9_on_a_local_disk_loses_no_acknowledged_row_and_doubles_none(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/lake?durable=false"
    group = crawlers(url, 6, ENDLESS, tmp_path)
    survive_kills(group, 12, seed=1)
    nothing_lost_nothing_doubled(group, opened(url))


def test_eight_processes_on_an_s3_server_all_succeed_and_history_is_one_line(
    s3_server: S3Server, tmp_path: Path
) -> None:
    url = s3_server.create("contention")
    group = crawlers(url, 8, 5, tmp_path, **s3_server.options)
    for crawler in group:
        crawler.start()
    for crawler in group:
        crawler.finish()
    dataset = opened(url, **s3_server.options)
    nothing_lost_nothing_doubled(group, dataset)
    assert [snapshot.sequence for snapshot in dataset.snapshots()] == list(range(1, 41))


@pytest.mark.slow
def test_kill_9_on_an_s3_server_loses_no_acknowledged_row_and_doubles_none(
    s3_server: S3Server, tmp_path: Path
) -> None:
    url = s3_server.create("kills")
    group = crawlers(url, 3, ENDLESS, tmp_path, **s3_server.options)
    survive_kills(group, 5, seed=2)
    nothing_lost_nothing_doubled(group, opened(url, **s3_server.options))
