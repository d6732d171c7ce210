"""Real processes on real stores: all get through. ``test_crowd_processes.py`` kills and stops them too."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import lode
from support.crowd import PROCESSES

if TYPE_CHECKING:
    from pathlib import Path

    from lode.testing.servers import S3Server


def opened(url: str, options: dict[str, Any]) -> lode.Dataset:
    schema = {"name": "string!", "number": "int64!"}
    store = lode.open_store(url, **options)
    return lode.Dataset("d", store, codec=lode.JSONL(schema), layout=lode.HiveLayout("name"))


def crawl(url: str, options: dict[str, Any], name: str, count: int) -> None:
    """Append numbered rows to a partition of its own."""
    dataset = opened(url, options)
    for number in range(count):
        dataset.write([{"name": name, "number": number}], idempotency_key=(name, str(number)))


def all_succeed_and_history_is_one_line(
    url: str, options: dict[str, Any], processes: int, commits: int
) -> None:
    names = [f"w{number:02d}" for number in range(processes)]
    group = [PROCESSES.Process(target=crawl, args=(url, options, name, commits)) for name in names]
    for process in group:
        process.start()
    for process in group:
        process.join(600)
    assert [process.exitcode for process in group] == [0] * processes
    dataset = opened(url, options)
    found = Counter((row["name"], row["number"]) for row in dataset.scan().read_all().to_pylist())
    assert found == Counter((name, number) for name in names for number in range(commits))
    expected = list(range(1, processes * commits + 1))
    assert [snapshot.sequence for snapshot in dataset.snapshots()] == expected
    assert lode.verify(dataset).problems == ()


@pytest.mark.slow
def test_sixteen_processes_with_fifty_commits_each_all_succeed_and_history_is_one_line(
    tmp_path: Path,
) -> None:
    all_succeed_and_history_is_one_line(f"file://{tmp_path}/lake?durable=false", {}, 16, 50)


def test_eight_processes_on_an_s3_server_all_succeed_and_history_is_one_line(s3_server: S3Server) -> None:
    all_succeed_and_history_is_one_line(s3_server.create("contention"), s3_server.options, 8, 5)
