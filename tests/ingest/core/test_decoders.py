"""The cache of decoders is bounded, and evicts those that were not used for longest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.core.decoders import Decoders
from support.ingest.engines import PLAIN, lake

if TYPE_CHECKING:
    from lode.ingest.catalog.table import TableDefinition


def definition() -> TableDefinition:
    return Catalog(lake()).table(PLAIN)


def writer_schema(number: int, size: int = 0) -> bytes:
    """A schema that differs from others only in its metadata."""
    columns = pa.schema([pa.field("id", pa.int64())], metadata={"number": f"{number}", "filling": "x" * size})
    return columns.serialize().to_pybytes()


def test_a_decoder_is_found_by_its_table_and_schema() -> None:
    decoders, table = Decoders(), definition()
    assert decoders.find("arrow_rows", table, writer_schema(1)) is None
    made = decoders.make("arrow_rows", table, writer_schema(1))
    assert decoders.find("arrow_rows", table, writer_schema(1)) is made
    assert decoders.find("arrow_rows", table, writer_schema(2)) is None


def test_the_least_recently_used_decoder_is_evicted_at_the_limit() -> None:
    decoders, table = Decoders(), definition()
    for number in range(256):
        decoders.make("arrow_rows", table, writer_schema(number))
    assert decoders.find("arrow_rows", table, writer_schema(0)) is not None
    decoders.make("arrow_rows", table, writer_schema(256))
    assert decoders.find("arrow_rows", table, writer_schema(0)) is not None
    assert decoders.find("arrow_rows", table, writer_schema(1)) is None


def test_large_schemas_count_by_their_bytes() -> None:
    decoders, table = Decoders(), definition()
    for number in range(5):
        decoders.make("arrow_rows", table, writer_schema(number, size=1 << 20))
    kept = [decoders.find("arrow_rows", table, writer_schema(number, size=1 << 20)) for number in range(5)]
    assert [found is not None for found in kept] == [False, False, True, True, True]


def test_a_schema_larger_than_the_limit_is_cached_alone() -> None:
    decoders, table = Decoders(), definition()
    decoders.make("arrow_rows", table, writer_schema(1))
    decoders.make("arrow_rows", table, writer_schema(2, size=5 << 20))
    assert decoders.find("arrow_rows", table, writer_schema(1)) is None
    assert decoders.find("arrow_rows", table, writer_schema(2, size=5 << 20)) is not None
