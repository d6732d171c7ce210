"""``schema``: columns, keys and how a dataset is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli.running import Run


def created(lake: Path) -> lode.Dataset:
    return lode.Dataset.create(
        "orders",
        str(lake),
        schema={"day": "string!", "id": "int32!", "price": "float64"},
        partition_by=["day"],
        primary_key=["id"],
        checksum="md5",
        description="Orders by day",
    )


def test_a_table_has_the_columns_and_their_roles(run: Run, lake: Path) -> None:
    created(lake)
    lines = run("schema", "orders").lines
    empty = lines.index("")
    facts = dict(line.split(maxsplit=1) for line in lines[:empty] if "by" not in line and "key" not in line)
    assert facts["dataset"] == "orders"
    assert (facts["codec"], facts["layout"], facts["format"]) == ("parquet", "hive", "1.0.0")
    assert [line.split() for line in lines[empty + 1 :]] == [
        ["column", "type", "nulls", "key"],
        ["day", "string", "refused", "partition"],
        ["id", "int32", "refused", "primary", "key"],
        ["price", "float64", "allowed"],
    ]


def test_json_has_everything(run: Run, lake: Path) -> None:
    dataset = created(lake)
    described = json.loads(run("schema", "orders", "--json").out)
    assert described["snapshot"] == dataset.latest().id
    assert described["columns"][0] == {
        "name": "day",
        "type": "string",
        "nullable": False,
        "partition": True,
        "primary_key": False,
    }
    assert (described["partition_by"], described["codec"], described["checksum"]) == (
        ["day"],
        "parquet",
        "md5",
    )


def test_the_columns_of_the_past(run: Run, lake: Path) -> None:
    created(lake).evolve(rename={"price": "amount"})
    for name, column in (("latest", "amount"), ("latest~1", "price"), ("1", "price")):
        described = json.loads(run("schema", "orders", "--as-of", name, "--json").out)
        assert described["columns"][2]["name"] == column
    assert run("schema", "orders", "--as-of", "2001-01-01").code == 3


def test_what_has_no_columns_says_why(run: Run, lake: Path) -> None:
    lode.Dataset("blobs", str(lake)).write(b"x")
    lode.Dataset("logs", str(lake), codec="jsonl").write([{"a": 1}])
    lode.Dataset.create("empty", str(lake), codec="parquet")
    assert run("schema", "blobs").lines[-1] == "blobs stores blobs, which have no columns"
    assert run("schema", "logs").lines[-1] == "logs has no schema: its records may have any shape"
    assert run("schema", "empty").lines[-1] == "empty has no columns yet: its first rows decide them"


def test_a_volume_is_named_as_one(run: Run, lake: Path) -> None:
    volume = lode.Volume("disk", str(lake), total_length=10)
    volume.commit([volume.stage_write_at(0, b"x")])
    ended = run("schema", "disk")
    assert ended.code == 2
    assert ended.err == (
        "lode: 'disk' is a volume, which has bytes and no columns: see lode show disk --volume\n"
    )
