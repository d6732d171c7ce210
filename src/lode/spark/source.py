"""The data source behind ``format("lode")``: hands each kind of work to the file that does it.

Spark pickles this class by name and makes it anew in every process that plans or runs a part of a query,
so nothing is kept here but the options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class LodeDataSource(DataSource):
    """Datasets of Lode as tables of Spark."""

    @classmethod
    def name(cls) -> str:
        return "lode"

    def schema(self) -> StructType:
        from lode.spark.batch import schema_of

        return schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from lode.spark.batch import BatchReader

        return BatchReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from lode.spark.batch import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from lode.spark.stream import StreamSource

        return StreamSource(self.options, schema)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from lode.spark.stream import StreamSink

        return StreamSink(self.options, schema, overwrite)
