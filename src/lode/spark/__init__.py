"""Datasets on Spark: tasks stage files in parallel, the driver makes one commit."""

try:
    import pyspark as _pyspark  # noqa: F401 - asked for once, so that the answer names the remedy
except ImportError as error:
    from lode.errors import MissingDependencyError

    raise MissingDependencyError(
        "lode.spark needs pyspark, which is not installed: pip install 'lode-store[spark]'"
    ) from error

from lode.spark.read import read
from lode.spark.session import session
from lode.spark.source import LodeDataSource
from lode.spark.write import write

__all__ = ["LodeDataSource", "read", "session", "write"]
