"""A graph of ten pipelines whose processes are killed again and again while its input is corrected."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import lode
from support import SUPPORT
from support.spark.cluster import Cluster, environment, wait_for
from support.spark.graph_driver import graph

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

DRIVER = SUPPORT / "spark" / "graph_driver.py"
DAYS = [f"2026-11-{day:02}" for day in range(1, 9)]
KILLS = int(os.environ.get("LODE_SOAK_KILLS", "32"))
SECONDS = float(os.environ.get("LODE_SOAK_SECONDS", "2400"))
KINDS = ("executor", "python", "java", "driver")


class Lake:
    """The input, as another program writes and corrects it."""

    def __init__(self, url: str, rng: random.Random) -> None:
        self.url = url
        self.rng = rng
        schema = {"day": "string!", "id": "int64!", "n": "int64!"}
        self.raw = lode.Dataset("raw", url, codec=lode.Parquet(schema), layout=lode.HiveLayout("day"))
        names = lode.Dataset("names", url, codec=lode.Parquet({"k": "int64!", "name": "string!"}))
        names.write([{"k": k, "name": name} for k, name in enumerate(("zero", "one", "two"))])
        self.next_id = 0
        self.counts: Counter[str] = Counter()

    def rows(self, days: list[str], count: int) -> list[dict[str, Any]]:
        first = self.next_id
        self.next_id += count
        return [
            {"day": self.rng.choice(days), "id": number, "n": self.rng.randrange(-2, 50)}
            for number in range(first, self.next_id)
        ]

    def change(self) -> None:
        """Append, also for days long gone; and now and then correct what is there."""
        self.counts["appends"] += 1
        self.raw.write(self.rows(DAYS, 20))
        chance = self.rng.random()
        day = self.rng.choice(DAYS)
        if chance < 0.3:
            self.counts["deletes"] += 1
            self.raw.delete(f"day = '{day}' AND n < {self.rng.randrange(10, 30)}")
        elif chance < 0.6:
            self.counts["overwrites"] += 1
            self.raw.overwrite(self.rows([day], 5), where=f"day = '{day}'")
        elif chance < 0.7:
            self.counts["compactions"] += 1
            self.raw.compact()

    def content(self, name: str) -> list[tuple[Any, ...]]:
        rows = lode.open_dataset(name, self.url).scan().read_all().to_pylist()
        return sorted(tuple(row[key] for key in sorted(row)) for row in rows)

    def expected(self) -> dict[str, list[tuple[Any, ...]]]:
        """The content of every dataset, computed from the input alone. Columns are in the order of names."""
        raw = self.raw.scan().read_all().to_pylist()
        clean = [row for row in raw if row["n"] >= 0]
        days = sorted({row["day"] for row in clean})
        of = {day: [row["n"] for row in clean if row["day"] == day] for day in days}
        plain = [(row["day"], row["id"], row["n"]) for row in clean]
        names = ("zero", "one", "two")
        return {
            "clean": sorted(plain),
            "doubled": sorted((day, number, 2 * n) for day, number, n in plain),
            "named": sorted((day, number, names[number % 3]) for day, number, _ in plain),
            "evens": sorted(row for row in plain if row[1] % 2 == 0),
            "odds": sorted(row for row in plain if row[1] % 2 == 1),
            "daily": sorted((len(of[day]), day, sum(of[day])) for day in days),
            "twice": [(day, 2 * sum(of[day])) for day in days],
            "both": sorted(plain),
            "joined": sorted((len(of[day]), day, 2 * sum(of[day]), sum(of[day])) for day in days),
            "report": sorted(
                (len(of[day]), day, len(of[day]), 2 * sum(of[day]), sum(of[day])) for day in days
            ),
        }


class Driver:
    """A process that runs the graph, and can be killed with its JVM or without."""

    def __init__(self, lake: Lake, cluster: Cluster) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), lake.url, cluster.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=environment(),
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._threads = [
            threading.Thread(target=self._keep, args=(self.process.stdout, self.lines)),
            threading.Thread(target=self._keep, args=(self.process.stderr, self.errors)),
        ]
        for thread in self._threads:
            thread.start()
        self.java = self.wait_for("ready", 0)

    @staticmethod
    def _keep(stream: IO[str], lines: list[str]) -> None:
        lines.extend(line.strip() for line in stream)

    def begin(self, **run: Any) -> int:
        """Begin a run, and return how many lines there were before."""
        assert self.process.stdin is not None
        before = len(self.lines)
        self.process.stdin.write(json.dumps(run) + "\n")
        self.process.stdin.flush()
        return before

    def batches(self, before: int) -> list[str]:
        """The batches since a line."""
        return [line for line in self.lines[before:] if line.startswith("batch ")]

    def has_ended(self, before: int) -> bool:
        return any(line.startswith("{") for line in self.lines[before:])

    def result(self, before: int) -> dict[str, Any]:
        """How the run ended that was begun at a line."""
        return json.loads(self.wait_for("{", before))  # type: ignore[no-any-return]

    def wait_for(self, start: str, before: int) -> str:
        """The first line after one that begins so; of ``ready`` the rest."""

        def look() -> str | None:
            assert self.process.poll() is None, self.errors[-20:]
            return next((line for line in self.lines[before:] if line.startswith(start)), None)

        return wait_for(f"a line {start!r}", look).removeprefix("ready ")

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


class Soak:
    """Runs a graph on a cluster, and kills one process after another while it runs."""

    def __init__(self, lake: Lake, cluster: Cluster) -> None:
        self.lake = lake
        self.cluster = cluster
        self.names = graph(lake.url).graph.order
        self.seen: Counter[str] = Counter()
        self.driver = Driver(lake, cluster)

    def kill_once(self, kind: str) -> None:
        """Change the input, run, and kill a process of this kind while the run goes on."""
        rng, driver = self.lake.rng, self.driver
        while True:
            before = driver.begin(**self._run())
            wanted = rng.randrange(4)
            while not driver.has_ended(before) and len(driver.batches(before)) < wanted:
                time.sleep(0.05)
            time.sleep(rng.uniform(0, 1.5))
            if not driver.has_ended(before) and self._kill(kind):
                break
            assert self._is_done(driver.result(before))
        self.seen[kind] += 1
        if kind == "driver":
            self.driver = Driver(self.lake, self.cluster)
        elif kind == "java":
            found = driver.result(before)
            # There is one error, and it says what happened.
            assert "the Java process of the Spark session has ended" in found.get("lost", ""), found
            driver.java = driver.wait_for("ready", before)
        else:
            assert self._is_done(driver.result(before)), (kind, driver.lines[before:])
        batches = driver.batches(before)
        self.seen["batches"] += len(batches)
        self.seen["recomputations"] += sum(line.endswith(" recompute") for line in batches)

    def _kill(self, kind: str) -> bool:
        rng = self.lake.rng
        if kind == "driver":
            self.driver.kill()
        elif kind == "java":
            os.kill(int(self.driver.java), signal.SIGKILL)
        else:
            look = self.cluster.executors if kind == "executor" else self.cluster.python_workers
            found = sorted(look())
            if not found:
                return False
            try:
                os.kill(rng.choice(found), signal.SIGKILL)
            except ProcessLookupError:
                return False
        return True

    def _run(self) -> dict[str, Any]:
        """Change the input; and now and then compute a pipeline anew, or a range of it."""
        rng = self.lake.rng
        self.lake.change()
        if rng.random() < 0.6:
            return {}
        self.seen["backfills"] += 1
        run: dict[str, Any] = {"full_refresh": [rng.choice(self.names)]}
        if rng.random() < 0.5:
            run["since"], run["until"] = sorted(rng.sample(DAYS, 2))
        return run

    @staticmethod
    def _is_done(found: dict[str, Any]) -> bool:
        return {state for state, _, _ in found.values()} == {"done"}


@pytest.mark.soak
def test_a_graph_of_ten_pipelines_survives_kills_of_every_process(tmp_path: Path) -> None:
    seed = int(os.environ.get("LODE_SOAK_SEED", "7"))
    lake = Lake(f"file://{tmp_path / 'lake'}?durable=false", random.Random(seed))
    with Cluster(tmp_path) as cluster:
        soak = Soak(lake, cluster)
        assert len(soak.names) == 10
        deadline = time.monotonic() + SECONDS
        for number in range(KILLS):
            if number >= len(KINDS) and time.monotonic() > deadline:
                break
            soak.kill_once(KINDS[number % len(KINDS)])
        first = soak.driver.result(soak.driver.begin())
        assert {state for state, _, _ in first.values()} == {"done"}, first
        second = soak.driver.result(soak.driver.begin())
        assert {batches for _, batches, _ in second.values()} == {0}, second
        soak.driver.close()
    for name, content in lake.expected().items():
        assert lake.content(name) == content, name
    bad = [row for row in lake.raw.scan().read_all().to_pylist() if row["n"] < 0]
    quarantined = lode.open_dataset("clean_quarantine", lake.url).scan().read_all().to_pylist()
    assert sorted(row["id"] for row in quarantined) == sorted(row["id"] for row in bad)
    rows = len(lake.content("clean"))
    print(f"seed {seed}: {dict(soak.seen)}, input {dict(lake.counts)}, {rows} rows at the end")
