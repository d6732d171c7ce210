"""Spark starts in a process in which gRPC works, and neither disturbs the other."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support import SUPPORT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = SUPPORT / "spark" / "grpc_driver.py"


@pytest.mark.slow
@pytest.mark.usefixtures("java_archive")
def test_spark_starts_every_time_in_a_process_with_busy_grpc_threads(tmp_path: Path) -> None:
    command = [sys.executable, str(DRIVER), "300", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = "0 of 300 children died, 0 of 1 sessions failed, 0 calls broke\n"
    assert done.stdout == told, done.stderr[-4000:]


def test_an_interrupt_does_not_reach_java(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    status = Path(f"/proc/{gateway.proc.pid}/status").read_text()
    ignored = re.search(r"^SigIgn:\s*(\w+)$", status, re.MULTILINE)
    assert ignored is not None
    assert int(ignored[1], 16) & (1 << (signal.SIGINT - 1))
