"""A graph of ten pipelines whose driver is killed again and again, while its input grows and is corrected."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import lode
from support import SUPPORT
from support.spark.graph_driver import graph

if TYPE_CHECKING:
    from pathlib import Path

DRIVER = SUPPORT / "spark" / "graph_driver.py"
DAYS = [f"2026-11-{day:02}" for day in range(1, 9)]
KILLS = int(os.environ.get("LODE_SOAK_KILLS", "30"))


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
    """A process that runs the graph, and can be killed with its JVM."""

    def __init__(self, lake: Lake, runs: int, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), lake.url, str(runs), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": f"{SUPPORT.parent}:{os.environ.get('PYTHONPATH', '')}"},
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.ready = threading.Event()
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == "ready":
                self.ready.set()
            self.lines.append(line.strip())
        self.ready.set()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        code = self.process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    @property
    def batches(self) -> int:
        return sum(line.startswith("batch ") for line in list(self.lines))

    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines if line.startswith("{")]


@pytest.mark.soak
def test_a_graph_of_ten_pipelines_survives_any_number_of_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("LODE_SOAK_SEED", "7"))
    lake = Lake(f"file://{tmp_path / 'lake'}?durable=false", random.Random(seed))
    names = graph(lake.url).graph.order
    assert len(names) == 10
    seen: Counter[str] = Counter()
    for number in range(KILLS):
        lake.change()
        refresh: list[str] = []
        if number and lake.rng.random() < 0.4:
            refresh = [lake.rng.choice(names)]
            if lake.rng.random() < 0.5:
                refresh += sorted(lake.rng.sample(DAYS, 2))
            seen["backfills"] += 1
        driver = Driver(lake, 100, *refresh)
        driver.ready.wait()
        # While it runs, more arrives and is corrected. It dies after some batches, wherever it is then.
        wanted = int(lake.rng.random() ** 2 * 10)
        while driver.process.poll() is None and driver.batches < wanted:
            threading.Event().wait(0.5)
            if lake.rng.random() < 0.2:
                lake.change()
        threading.Event().wait(lake.rng.uniform(0, 4))
        assert driver.process.poll() is None, driver.errors[-20:]
        driver.kill()
        seen["kills"] += 1
        seen["batches"] += driver.batches
        seen["recomputations"] += sum(line.endswith(" recompute") for line in driver.lines)
        for run in driver.runs():
            assert {error for _, _, error in run.values()} == {None}, run
    assert seen["batches"] >= KILLS
    last = Driver(lake, 2)
    assert last.wait() == 0, last.errors[-20:]
    first, second = last.runs()
    assert {state for state, _, _ in first.values()} == {"done"}, first
    assert {batches for _, batches, _ in second.values()} == {0}, second
    for name, content in lake.expected().items():
        assert lake.content(name) == content, name
    bad = [row for row in lake.raw.scan().read_all().to_pylist() if row["n"] < 0]
    quarantined = lode.open_dataset("clean_quarantine", lake.url).scan().read_all().to_pylist()
    assert sorted(row["id"] for row in quarantined) == sorted(row["id"] for row in bad)
    rows = len(lake.content("clean"))
    print(f"seed {seed}: {dict(seen)}, input {dict(lake.counts)}, {rows} rows at the end")
