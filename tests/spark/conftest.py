"""One Spark for all of these tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
import lode.spark
from support.spark import archive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    archive.use_archive()
    # Two cores, and two attempts for every task.
    session = lode.spark.session(
        "local[2,2]",
        name="lode-tests",
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.log.level": "ERROR",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect_url(spark: SparkSession) -> str:
    """A server of Spark Connect in the Java process of the session."""
    jvm: Any = spark.sparkContext._jvm
    service = getattr(getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")
    if not service.started():
        service.start(spark.sparkContext._jsc.sc())
    return f"sc://127.0.0.1:{service.localPort()}"


@pytest.fixture(scope="session")
def connect(connect_url: str) -> Iterator[SparkSession]:
    client = lode.spark.session(connect_url)
    yield client
    client.stop()


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return f"file://{tmp_path / 'lake'}?durable=false"
