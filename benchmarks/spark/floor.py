"""The least that a Python data source of Spark can take: pyarrow reads and writes Parquet, nothing else."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType


class FloorSource(DataSource):
    """Needs the paths in the option ``paths``, separated by newlines, and the columns as a schema.

    A sink needs the option ``target``, a folder.
    """

    @classmethod
    def name(cls) -> str:
        return "floor"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self.options["paths"].split("\n"), schema.names)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _StreamReader(self.options["paths"].split("\n"), schema.names)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        return _StreamWriter(self.options["target"])


class _Reader(DataSourceReader):
    def __init__(self, paths: list[str], names: list[str]) -> None:
        self.paths = paths
        self.names = names

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(path) for path in self.paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(partition, self.names)


class _StreamReader(DataSourceStreamReader):
    """All files are its first batch."""

    def __init__(self, paths: list[str], names: list[str]) -> None:
        self.paths = paths
        self.names = names

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"batch": 0}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - the form without limits
        return {"batch": 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [] if start == end else [InputPartition(path) for path in self.paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(partition, self.names)


class _StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, target: str) -> None:
        self.target = target

    def write(  # type: ignore[override]  # Spark's own Arrow writer differs from its base in the same way
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        Path(self.target).mkdir(parents=True, exist_ok=True)
        rows = pa.Table.from_batches(list(iterator))
        pq.write_table(rows, f"{self.target}/part-{uuid.uuid4()}.parquet", compression="zstd")
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass


def _batches(partition: InputPartition, names: list[str]) -> Iterator[pa.RecordBatch]:
    path: Any = partition.value
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(columns=names)
