"""The durable log of one write stream: what was staged, and what was decided about it."""

from lode.ingest.log.acknowledged import LogMissing
from lode.ingest.log.record import LogDamaged, LogIncomplete, LogUnusable
from lode.ingest.log.stream_log import StreamLog

__all__ = ["LogDamaged", "LogIncomplete", "LogMissing", "LogUnusable", "StreamLog"]
