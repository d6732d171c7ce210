"""Steps in Python: functions from DataFrame to DataFrame."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def without_robots(visits: DataFrame) -> DataFrame:
    return visits.where("agent NOT LIKE '%bot%'")


def alert(pipeline: str, error: Exception) -> None:
    """Called when a run has failed: send a message to your team here."""
    print(f"pipeline {pipeline} failed: {error}", file=sys.stderr)
