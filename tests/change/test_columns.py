"""Operations on rows with columns of every kind that a codec stores as text."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

import lode
from lode.store import MemoryStore


def test_json_lines_with_a_duration_can_be_filtered_deleted_and_merged() -> None:
    fields: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("took", pa.duration("us"))]
    schema = pa.schema(fields)
    dataset = lode.Dataset("d", MemoryStore(), codec=lode.JSONL(schema))
    dataset.write([{"id": number, "took": timedelta(days=number, microseconds=5)} for number in range(4)])
    assert dataset.scan(where="id = 2").read_all()["took"].to_pylist() == [timedelta(days=2, microseconds=5)]
    dataset.delete("id = 1")
    dataset.merge([{"id": 2, "took": timedelta(hours=-1)}, {"id": 9, "took": None}], on=["id"])
    found = {row["id"]: row["took"] for row in dataset.scan().read_all().to_pylist()}
    assert found == {
        0: timedelta(microseconds=5),
        2: timedelta(hours=-1),
        3: timedelta(days=3, microseconds=5),
        9: None,
    }
