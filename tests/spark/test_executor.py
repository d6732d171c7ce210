"""On executors that are processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import lode
from support import SUPPORT

DRIVER = SUPPORT / "spark" / "executor_driver.py"


def test_a_killed_executor_leaves_no_row_twice_and_no_file(lake: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, DRIVER, lake, tmp_path / "victim"],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(SUPPORT.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ds = lode.Dataset("events", lake, codec="parquet", layout=lode.HiveLayout("half"))
    newest = ds.latest()
    assert newest.row_count == 40
    assert set(ds.scan().read_all()["id"].to_pylist()) == set(range(40))
    staged = [path for path in Path(urlsplit(lake).path).rglob("data-*") if path.is_file()]
    assert len(staged) == len(newest.files)
