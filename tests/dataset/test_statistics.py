"""The core model: statistics come from the codec or are absent."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode
from lode.format.manifest import ColumnStats, FileStats
from support.codecs import CountedLines, CountedStreamedLines, StreamedLines, WholeLines
from support.stores import contents, data_files, manifests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.codec.protocol import Chunk
    from lode.store import CountingStore

TABLE = pa.table(
    {
        "id": [3, 1, None],
        "name": ["b", None, "a"],
        "price": [Decimal("1.50"), Decimal("2.25"), Decimal("0.10")],
        "day": [date(2026, 1, 2), date(2026, 1, 1), date(2026, 1, 3)],
        "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", tz="UTC")),
    }
)


def stored_stats(store: CountingStore) -> Any:
    (path,) = manifests(store)
    return json.loads(contents(store)[path])["files"][0].get("stats")


@pytest.mark.parametrize("codec", [CountedLines(), CountedStreamedLines()], ids=["whole file", "streaming"])
def test_statistics_a_codec_reports_are_persisted_on_the_file(memory: CountingStore, codec: Any) -> None:
    lode.Dataset("events", memory, codec=codec).write(["b", "a"])
    assert stored_stats(memory) == {
        "row_count": 2,
        "columns": [{"name": "line", "min": "a", "max": "b", "null_count": 0}],
    }


@pytest.mark.parametrize("codec", [WholeLines(), StreamedLines(), lode.JSONL()])
def test_statistics_a_codec_does_not_report_are_left_out(memory: CountingStore, codec: Any) -> None:
    lode.Dataset("events", memory, codec=codec).write(["b", "a"])
    assert stored_stats(memory) is None


@pytest.mark.parametrize("codec", ["parquet", "arrow"])
def test_statistics_have_row_count_and_bounds_and_nulls_of_each_column(
    memory: CountingStore, codec: str
) -> None:
    lode.Dataset("events", memory, codec=codec).write(TABLE)
    assert stored_stats(memory) == {
        "row_count": 3,
        "columns": [
            {"name": "id", "min": 1, "max": 3, "null_count": 1},
            {"name": "name", "min": "a", "max": "b", "null_count": 1},
            {"name": "price", "min": "0.10", "max": "2.25", "null_count": 0},
            {"name": "day", "min": "2026-01-01", "max": "2026-01-03", "null_count": 0},
            {"name": "at", "min": "2026-01-01T00:00:00Z", "max": "2026-01-01T00:00:00Z", "null_count": 0},
        ],
    }


def test_the_distinct_count_is_optional_and_left_out_when_not_computed(memory: CountingStore) -> None:
    counted = lode.Dataset("events", memory, codec=lode.Parquet(distinct_count=True)).write(TABLE)
    stats = counted.files[0].stats
    assert stats is not None
    assert [column.distinct_count for column in stats.columns] == [2, 2, 3, 3, 1]
    plain = lode.Dataset("plain", memory, codec="parquet").write(TABLE).files[0].stats
    assert plain is not None
    assert {column.distinct_count for column in plain.columns} == {0}


def test_statistics_describe_the_data_of_their_own_file_only(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory, codec="parquet", layout=lode.HiveLayout("region"))
    table = pa.table({"region": ["eu", "us", "eu"], "id": [1, 50, 3]})
    found = {}
    for file in dataset.write(table).files:
        assert file.stats is not None
        found[file.path.split("/")[3]] = [
            (column.min, column.max) for column in file.stats.columns if column.name == "id"
        ]
    assert found == {"region=eu": [(1, 3)], "region=us": [(50, 50)]}


def test_statistics_are_not_inferred_where_the_data_leaves_them_open(memory: CountingStore) -> None:
    """NaN is outside every range, so a column that has one reports no bounds."""
    lode.Dataset("events", memory, codec="parquet").write(pa.table({"x": [1.0, float("nan")]}))
    assert stored_stats(memory)["columns"] == [{"name": "x", "null_count": 0}]


@pytest.mark.parametrize("value", [object(), float("nan")], ids=["object", "nan"])
def test_statistics_that_are_not_json_are_refused_and_nothing_stays(
    memory: CountingStore, value: object
) -> None:
    class Odd(WholeLines):
        def statistics(self, chunks: Sequence[Chunk]) -> FileStats:
            return FileStats(len(chunks), (ColumnStats(name="line", min=value, max=value, null_count=0),))

    with pytest.raises(lode.LodeError, match="line"):
        lode.Dataset("events", memory, codec=Odd()).write(["a"])
    assert (manifests(memory), data_files(memory)) == ([], [])
