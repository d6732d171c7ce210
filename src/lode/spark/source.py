"""The data source of ``format("lode")``: passes each kind of work to the module that does it.

Spark makes it once for a read and pickles it after asking for the schema; so that is when the snapshot is
chosen, and every query on the DataFrame reads the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


_NO_TABLES: Final = (
    "a table of the catalog cannot use lode, because Spark passes the options of a table to no Python data "
    "source: DROP TABLE it, which removes no file, and use lode.spark.attach(spark, path), CREATE TEMPORARY "
    "VIEW … USING lode OPTIONS (path '…', dataset '…'), or load() and save() of format('lode') with these"
)


class LodeDataSource(DataSource):
    """Datasets of Lode as tables of Spark."""

    @classmethod
    def name(cls) -> str:
        """The format's name, as in ``format("lode")``."""
        return "lode"

    # The snapshots that the options mean, from when the schema was asked for.
    _pinned: Mapping[str, str] = {}

    def schema(self) -> StructType:
        self._refuse_catalog()
        from lode.spark.batch import schema_of

        schema, self._pinned = schema_of(self.options)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        self._refuse_catalog()
        from lode.spark.batch import BatchReader

        return BatchReader({**self.options, **self._pinned}, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        self._refuse_catalog()
        from lode.spark.batch import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from lode.spark.stream import StreamSource

        return StreamSource(self.options, schema, self._pinned.get("asOf"))

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from lode.spark.stream import StreamSink

        return StreamSink(self.options, schema, overwrite)

    def _refuse_catalog(self) -> None:
        """Refuse a table of the catalog: it is made with Spark's own options, and used without any."""
        if "provider" in self.options or not ("path" in self.options or "dataset" in self.options):
            raise InvalidOptionError(_NO_TABLES)
