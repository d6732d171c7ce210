"""A local Spark session that suits Lode, with a Java to run it on."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from lode import java
from lode.spark.gateway import without_fork

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    # spark-submit has started Java already.
    if SparkSession.getActiveSession() is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        java.use()
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Its tasks need what this process has installed, wherever PATH leads.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    with without_fork():
        return builder.getOrCreate()
