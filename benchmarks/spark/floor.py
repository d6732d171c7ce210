"""The least that a Python data source of Spark can take: it reads Parquet with pyarrow, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType


class FloorSource(DataSource):
    """Needs the paths in the option ``paths``, separated by newlines, and the columns as a schema."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options["paths"].split("\n"), schema.names)


class _Reader(DataSourceReader):
    def __init__(self, paths: list[str], names: list[str]) -> None:
        self.paths = paths
        self.names = names

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(path) for path in self.paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        path: Any = partition.value
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(columns=self.names)
