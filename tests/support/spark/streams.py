"""Runs streams to their end, on a busy machine too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import StreamingQueryException

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_STARTS: Final = 20


def run_to_end(writer: DataStreamWriter) -> StreamingQuery:
    """Start a stream and wait until it has ended.

    Spark waits ten seconds, and no setting changes that, for the Python process of a source to start. A query
    that has failed for this reason has done nothing, and is started again.
    """
    for left in reversed(range(_STARTS)):
        query = writer.start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if not left or "Python worker failed to connect back" not in str(error):
                raise
        else:
            break
    return query
