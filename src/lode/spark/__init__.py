"""Datasets on Spark: tasks stage files in parallel, the driver makes one commit."""

from lode.extras import needs

with needs("lode.spark", "spark"):
    from lode.spark.change import delete, merge, overwrite
    from lode.spark.compact import compact
    from lode.spark.dataset_ref import DatasetRef
    from lode.spark.read import read
    from lode.spark.session import session
    from lode.spark.source import LodeDataSource
    from lode.spark.views import attach
    from lode.spark.write import write
    from lode.upkeep.expire import expire

__all__ = [
    "DatasetRef",
    "LodeDataSource",
    "attach",
    "compact",
    "delete",
    "expire",
    "merge",
    "overwrite",
    "read",
    "session",
    "write",
]
