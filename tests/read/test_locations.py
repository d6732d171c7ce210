"""Other readers of Parquet read the files of a plan where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import fs

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from lode.testing.servers import S3Server

# The stubs of pandas know of one path only.
read_parquet: Final[Any] = pd.read_parquet


def planned(store: lode.Store) -> list[str]:
    """Two snapshots, by day: the rows 0 to 3, of which each day has a file in each."""
    dataset = lode.Dataset("visits", store, codec="parquet", layout=lode.HiveLayout("day"))
    for first in (0, 2):
        dataset.write(pa.table({"n": [first, first + 1], "day": ["2026-11-15", "2026-11-16"]}))
    return dataset.plan().locations


def test_duckdb_polars_and_pandas_read_local_files(tmp_path: Path) -> None:
    files = planned(lode.open_store(tmp_path / "a lake"))
    query = "SELECT sum(n), min(day) FROM read_parquet($1, hive_partitioning = false)"
    assert duckdb.execute(query, [files]).fetchall() == [(6, "2026-11-15")]
    assert pl.scan_parquet(files, hive_partitioning=False).collect()["n"].sum() == 6
    assert read_parquet(files, partitioning=None)["n"].sum() == 6


def test_polars_and_pandas_read_files_of_a_bucket(s3_server: S3Server) -> None:
    store = lode.open_store(f"{s3_server.create('locations')}/lake", **s3_server.options)
    files = planned(store)
    assert all(file.startswith("s3://locations/lake/datasets/visits/") for file in files)
    options = {
        "aws_endpoint_url": s3_server.endpoint,
        "aws_region": "us-east-1",
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "aws_allow_http": "true",
    }
    found = pl.scan_parquet(files, storage_options=options, hive_partitioning=False).collect()
    assert found["n"].sum() == 6
    bucket = fs.S3FileSystem(
        access_key="test", secret_key="test", endpoint_override=s3_server.endpoint, region="us-east-1"
    )
    names = [file.removeprefix("s3://") for file in files]
    assert read_parquet(names, filesystem=bucket, partitioning=None)["n"].sum() == 6


def test_the_files_that_can_match_are_found_by_the_same_text_as_in_a_scan(tmp_path: Path) -> None:
    dataset = lode.Dataset.create("visits", tmp_path, schema={"n": "int64", "day": "string"})
    for first in (0, 10):
        dataset.write([{"n": first, "day": "mon"}, {"n": first + 1, "day": "tue"}])
    plan = dataset.plan()
    assert [file.path for file in plan.pruned("day = 'mon' AND n > 3")] == plan.paths[1:]
    assert plan.pruned(None) == plan.files
    assert plan.read(where="day = 'mon' AND n > 3").read_all()["n"].to_pylist() == [10]
    assert dataset.plan_snapshot("latest~1").read(where="n > 0").read_all()["n"].to_pylist() == [1]
    with pytest.raises(lode.InvalidOptionError, match="no column 'm'"):
        plan.pruned("m > 3")
