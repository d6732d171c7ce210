"""Every line of docs/reference/cli.md that begins with ``lode`` runs, in order, and ends as the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import SUPPORT

# The page has little data.
FEW_TASKS = "--conf spark.sql.shuffle.partitions=1 pyspark-shell"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
DRIVER = SUPPORT / "cli" / "page_driver.py"


@pytest.mark.slow
@pytest.mark.usefixtures("java_archive")
def test_the_lines_of_the_page_run(tmp_path: Path) -> None:
    # In a process of its own: Spark's session would otherwise be shared with other tests of this one.
    ended = subprocess.run(
        [sys.executable, str(DRIVER), str(PAGE)],
        cwd=tmp_path,
        env={
            **os.environ,
            "SPARK_MASTER": "local[1]",
            "PYSPARK_SUBMIT_ARGS": FEW_TASKS,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    ran = json.loads(ended.stdout.splitlines()[-1])
    assert ran == len(re.findall(r"^lode |\| lode ", PAGE.read_text(), re.MULTILINE))
