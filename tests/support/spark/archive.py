"""Options for every Java of the tests, and an archive of classes, with which Spark starts in half the time.

The tests have little data: a Java that compiles little uses half the processor time, and few tasks are
enough.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lode import java
from support import ROOT, SUPPORT

OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS: Final = "-Dspark.sql.shuffle.partitions=2"
FOLDER: Final = ROOT / ".tools" / "cache" / "spark"
DRIVER: Final = SUPPORT / "spark" / "archive_driver.py"
_SECONDS: Final = 1200.0


def set_options(options: str = OPTIONS) -> None:
    """Give these options to every Spark that is started from here on, to its executors and to clusters."""
    # A folder on the class path must be empty, else Java makes no archive.
    os.environ["SPARK_CONF_DIR"] = str(FOLDER / "conf")
    # The launcher is the Java that starts the other.
    os.environ["SPARK_LAUNCHER_OPTS"] = OPTIONS
    os.environ["SPARK_DAEMON_JAVA_OPTS"] = options
    os.environ["SPARK_SUBMIT_OPTS"] = f"{options} {SETTINGS} '-Dspark.executor.defaultJavaOptions={options}'"


def use_archive() -> None:
    """Let every Spark that is started from here on use the archive. The first that needs it makes it.

    A Java with another class path starts without it, and says nothing.
    """
    found, spark = java.find(), find_spec("pyspark")
    # Options are separated by spaces.
    if found is None or spark is None or spark.origin is None or " " in str(FOLDER):
        return
    jars = Path(spark.origin).parent / "jars"
    made_for = (found.executable.resolve(), found.version, jars, jars.stat().st_mtime_ns)
    archive = FOLDER / f"{hashlib.sha256(repr(made_for).encode()).hexdigest()[:16]}.jsa"
    (FOLDER / "conf").mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
    # It is empty if this Java makes none.
    if archive.stat().st_size:
        set_options(f"{OPTIONS} -XX:SharedArchiveFile={archive} -Xlog:disable")


def _make(archive: Path) -> None:
    for old in FOLDER.glob("*.jsa*"):
        old.unlink()
    made = archive.with_suffix(".jsa-new")
    options = f"{OPTIONS} -XX:ArchiveClassesAtExit={made} -Xlog:disable {SETTINGS}"
    done = subprocess.run(
        [sys.executable, str(DRIVER)],
        env={**os.environ, "SPARK_SUBMIT_OPTS": options},
        check=False,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"no archive of classes was made: {done.stderr[-4000:]}")
    made.touch()
    made.rename(archive)
