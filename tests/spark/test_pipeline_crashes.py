"""Pipelines whose process dies: every row once, and downstream as if everything was computed at once."""

from __future__ import annotations

import copy
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

import lode
from lode.store import FaultStore, SimulatedCrash
from lode.store.open import open_store
from support import SUPPORT
from support.spark.pipeline_chain import chain, computed, found, source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lode.store import Store

T = TypeVar("T")

DRIVER = SUPPORT / "spark" / "pipeline_chain.py"
WRITES = ("put", "put_volatile", "compare_and_swap", "link", "delete", "commit")
KILLS = 10


class DriverDies(FaultStore):
    """Ends the driver at one of its writes. Tasks of Spark get the store inside."""

    writes_left = 0

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if method in WRITES and not self.crashed:
            DriverDies.writes_left -= 1
            self.crashed = DriverDies.writes_left < 0
        return super().around(method, path, call)

    def __reduce__(self) -> Any:
        return copy.copy, (self.inner,)


def mortal(path: str, **options: Any) -> Store:
    return DriverDies(open_store(path, **options))


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
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "lake", kept)
    died = 0
    while True:
        DriverDies.writes_left = died
        with monkeypatch.context() as patch:
            patch.setattr("lode.spark.options.open_store", mortal)
            try:
                clean.run(spark)
                break
            except SimulatedCrash:
                died += 1
        lode.open_dataset("clean", lake).settle()
        assert found(lake)["clean"] in (before["clean"], expected["clean"]), died
        clean.run(spark)
        for name in ("clean", "clean_quarantine"):
            assert found(lake)[name] == expected[name], (died, name)
        shutil.rmtree(tmp_path / "lake")
        shutil.copytree(kept, tmp_path / "lake")
    assert died > 8, "two commits have more writes than that"
    assert found(lake)["clean"] == expected["clean"]


def kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.soak
def test_a_chain_whose_driver_is_killed_at_random_has_every_row_once(
    spark: SparkSession, lake: str, tmp_path: Path
) -> None:
    choose = random.Random(7)
    raw = source(lake)
    number = 0
    for _ in range(KILLS):
        pids = tmp_path / "pids"
        pids.unlink(missing_ok=True)
        driver = subprocess.Popen([sys.executable, str(DRIVER), lake, str(pids)])
        while not pids.exists() or len(pids.read_text().split()) < 2:
            assert driver.poll() is None
            time.sleep(0.05)
        dies = time.monotonic() + choose.uniform(2, 12)
        while time.monotonic() < dies:
            days = [f"d{choose.randrange(4)}" for _ in range(3)]
            rows = [(day, number + at, choose.randrange(-2, 9)) for at, day in enumerate(days)]
            number += len(rows)
            match choose.randrange(6):
                case 0 if raw.exists:
                    raw.overwrite(records(*rows))
                case 1 if raw.exists:
                    raw.delete(f"id % 7 = {choose.randrange(7)}")
                case 2 if raw.exists:
                    raw.merge(records(*((day, id - 5, n) for day, id, n in rows)), on=["day", "id"])
                case 3 if raw.exists:
                    raw.compact()
                case _:
                    raw.write(records(*rows))
            time.sleep(choose.uniform(0.05, 0.4))
        assert driver.poll() is None, "it ended by itself"
        kill([int(pid) for pid in pids.read_text().split()])
        driver.wait()
    for pipeline in chain(lake):
        pipeline.run(spark)
    expected = computed(lake)
    assert found(lake) == expected
    for pipeline in chain(lake):
        assert pipeline.run(spark) == []
        pipeline.refresh(spark)
    for pipeline in chain(lake):
        pipeline.run(spark)
    assert found(lake) == expected
    for name in ("clean", "clean_quarantine", "daily", "total"):
        assert lode.verify(lode.open_dataset(name, lake)).ok
