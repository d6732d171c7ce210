"""Pipelines whose process dies: every row once, and downstream as if everything was computed at once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import lode
from support import SUPPORT
from support.spark.dying import LosesAnswers, deaths, losing
from support.spark.pipeline_chain import chain, commits, computed, found, source

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DRIVER = SUPPORT / "spark" / "pipeline_chain.py"
KILLS = 10


def records(*rows: tuple[str, int, int]) -> list[dict[str, Any]]:
    return [{"day": day, "id": id, "n": n} for day, id, n in rows]


def test_a_correcting_batch_that_dies_at_any_write_is_before_or_after_and_is_done_once(
    spark: SparkSession, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = source(lake)
    raw.write(records(("d1", 1, 1), ("d1", 2, -1), ("d2", 3, 3)))
    clean = chain(lake)[0]
    clean.run(spark)
    raw.overwrite(records(("d1", 1, 5), ("d1", 4, -4)))
    before = found(lake)
    expected = computed(lake)
    died = 0
    for died in deaths(monkeypatch, tmp_path / "lake", lambda: clean.run(spark)):
        lode.open_dataset("clean", lake).settle()
        assert found(lake)["clean"] in (before["clean"], expected["clean"]), died
        clean.run(spark)
        for name in ("clean", "clean_quarantine"):
            assert found(lake)[name] == expected[name], (died, name)
    assert died > 8, "two commits have more writes than that"
    assert found(lake)["clean"] == expected["clean"]


def test_a_batch_whose_store_loses_an_answer_removes_nothing_that_was_committed(
    spark: SparkSession, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = source(lake)
    raw.write(records(("d1", 1, 1), ("d1", 2, -1)))
    clean = chain(lake)[0]
    clean.run(spark)
    for swap in range(2):  # of the quarantine dataset, and of the sink
        raw.overwrite(records(("d1", 10 + swap, 5), ("d1", 20 + swap, -4)))
        with monkeypatch.context() as patch:
            losing(patch, swaps=swap)
            with suppress(lode.CommitError, lode.StoreError):
                clean.run(spark)
        assert LosesAnswers.swaps_left < 0
        clean.run(spark)
        expected = computed(lake)
        for name in ("clean", "clean_quarantine"):
            assert found(lake)[name] == expected[name], (swap, name)
            assert lode.verify(lode.open_dataset(name, lake)).ok


def change(raw: lode.Dataset, choose: random.Random, number: int) -> None:
    """Add or correct some rows."""
    days = [f"d{choose.randrange(4)}" for _ in range(3)]
    rows = [(day, number + at, choose.randrange(-2, 9)) for at, day in enumerate(days)]
    action = choose.randrange(6) if raw.exists else 5
    if action == 0:
        raw.overwrite(records(*rows))
    elif action == 1:
        first = choose.randrange(number + 1)
        raw.delete(f"id BETWEEN {first} AND {first + 5}")
    elif action == 2:
        raw.merge(records(*((day, id - 6, n) for day, id, n in rows)), on=["day", "id"])
    elif action == 3:
        raw.compact()
    else:
        raw.write(records(*rows))


@pytest.mark.soak
def test_a_chain_whose_driver_is_killed_at_random_has_every_row_once(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    choose = random.Random(7)
    raw = source(lake)
    number = 0
    pids = tmp_path / "pids"
    for _ in range(KILLS):
        pids.unlink(missing_ok=True)
        change(raw, choose, number)
        number += 3
        driver = subprocess.Popen([sys.executable, str(DRIVER), lake, str(pids)])
        try:
            while not pids.exists() or len(pids.read_text().split()) < 2:
                assert driver.poll() is None
                time.sleep(0.05)
            # By what it has done, so that it is far enough on a slow machine too.
            dies, changes = commits(lake) + choose.randrange(1, 10), 4
            while commits(lake) < dies:
                assert driver.poll() is None, "it ended by itself"
                if changes and choose.random() < 0.1:
                    change(raw, choose, number)
                    number, changes = number + 3, changes - 1
                time.sleep(0.05)
            time.sleep(choose.uniform(0, 0.5))
        finally:
            if pids.exists():
                java = int(pids.read_text().split()[0])
                with suppress(ProcessLookupError):
                    os.kill(java, signal.SIGKILL)
            driver.kill()
            driver.wait()
    for pipeline in chain(lake):
        pipeline.run(spark)
    expected = computed(lake)
    assert found(lake) == expected
    for pipeline in chain(lake):
        assert pipeline.run(spark) == []
    for pipeline in chain(lake):
        pipeline.run(spark)
        pipeline.refresh(spark)
    assert found(lake) == expected
    for name in ("clean", "clean_quarantine", "daily", "total"):
        assert lode.verify(lode.open_dataset(name, lake)).ok
