"""Spark starts in a process in which gRPC works, and neither disturbs the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DRIVER = Path(__file__).with_name("grpc_driver.py")


def test_spark_starts_every_time_in_a_process_with_busy_grpc_threads(tmp_path: Path) -> None:
    command = [sys.executable, str(DRIVER), "300", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = "0 of 300 children died, 0 of 1 sessions failed, 0 calls broke\n"
    assert done.stdout == told, done.stderr[-4000:]
