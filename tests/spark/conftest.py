"""One Spark for all of these tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lode
import lode.spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Two cores, and two attempts for every task.
    session = lode.spark.session(
        "local[2,2]",
        name="lode-tests",
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.log.level": "ERROR",
        },
    )
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return f"file://{tmp_path / 'lake'}?durable=false"
