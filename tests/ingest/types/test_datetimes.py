"""A time as text means the same wherever it stands: in a row, in a default and in a restriction."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lode.ingest.api.grpc_read.restriction import parse_restriction
from lode.ingest.decode.proto.times import dates_of_text, datetimes_of_text, times_of_text, timestamps_of_text
from lode.ingest.status import Refused
from lode.ingest.types.columns import Column, TableSchema
from lode.ingest.types.defaults import Constant, parse_default
from lode.ingest.types.row_errors import Origin, Problems

READERS: dict[str, Any] = {
    "DATE": dates_of_text,
    "TIME": times_of_text,
    "DATETIME": datetimes_of_text,
    "TIMESTAMP": timestamps_of_text,
}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("DATE", "2024-1-31"),
        ("TIME", "7:05"),
        ("TIME", "23:59:59.999999"),
        ("DATETIME", "2024-01-31"),
        ("DATETIME", "2024-01-31t7:05:06.5"),
        ("TIMESTAMP", "2024-01-31 10:00:00"),
        ("TIMESTAMP", "2024-01-31 10:00:00 UTC"),
        ("TIMESTAMP", "2024-01-31 10:00:00+5:30"),
        ("TIMESTAMP", "2024-07-31 10:00:00 Europe/Berlin"),
        ("TIMESTAMP", "0001-01-01 00:00:00Z"),
    ],
)
def test_a_text_is_the_same_time_everywhere(kind: str, text: str) -> None:
    default = parse_default(Column("c", kind, default=f"{kind} '{text}'"))
    assert isinstance(default, Constant)
    row = READERS[kind](pa.array([text]), Origin(Problems(), "c"))[0]
    assert default.value == row
    schema = TableSchema((Column("c", kind),))
    restriction = parse_restriction(f"c = {kind} '{text}'", schema)
    assert restriction is not None
    assert pa.table([pa.array([row])], schema=schema.arrow).filter(restriction.where).num_rows == 1


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("DATE", "31.1.2024"),
        ("TIME", "25:00:00"),
        ("DATETIME", "2024-01-31 10:00:00Z"),
        ("TIMESTAMP", "2024-01-31 10:00:00 Nowhere/Town"),
        ("TIMESTAMP", "0001-01-01 00:00:00+01"),
    ],
)
def test_what_is_no_time_is_refused_everywhere(kind: str, text: str) -> None:
    with pytest.raises(Refused, match="is refused"):
        parse_default(Column("c", kind, default=f"{kind} '{text}'"))
    problems = Problems()
    READERS[kind](pa.array([text, "also bad"]), Origin(problems, "c"))
    assert [row.index for row in problems.refusal().rows] == [0, 1]
    with pytest.raises(Refused, match="row_restriction") as refused:
        parse_restriction(f"c = {kind} '{text}'", TableSchema((Column("c", kind),)))
    assert repr(text) in refused.value.message
