"""What requests of the Storage Read API ask for, checked."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lode.ingest.catalog.table import TableDefinition

AVRO: Final = 1
ARROW: Final = 2
COMPRESSIONS: Final = (None, "lz4", "zstd")
# None, and LZ4 over a whole response: a server may send any response without it, and this one always does.
RESPONSE_CODECS: Final = (0, 2)
# Without a word from the client: one stream for so many bytes of files, at most so many for a core.
STREAM_BYTES: Final = 16 << 20
STREAMS_PER_CORE: Final = 4
MOST_STREAMS: Final = 1_000


def check_format(wanted: Any) -> None:
    if wanted.data_format == 0:
        raise invalid("data_format is not set: it must be ARROW.")
    if wanted.data_format not in (ARROW, AVRO):
        raise invalid(f"data_format {wanted.data_format} is not known: it must be ARROW.")
    if wanted.data_format == AVRO:
        raise Refused(
            Code.UNIMPLEMENTED,
            "Read sessions in Avro are not supported by this server: set data_format to ARROW.",
        )
    options = wanted.read_options
    if options.response_compression_codec not in RESPONSE_CODECS:
        raise invalid(
            f"response_compression_codec {options.response_compression_codec} is not known: leave it unset."
        )
    if options.HasField("sample_percentage") and options.sample_percentage != 100:
        raise Refused(Code.UNIMPLEMENTED, "Lode does not sample tables: leave sample_percentage unset.")


def check_partition_filter(table: TableDefinition, columns: Collection[str]) -> None:
    """Refuse to read a whole table that requires a filter; ``columns`` are those of the restriction.

    The time of arrival is no column, so that no restriction can name it: such tables are read whole.
    """
    partitioning = table.partitioning
    if partitioning is None or not partitioning.column or not table.info.get("requirePartitionFilter"):
        return
    if partitioning.column not in columns:
        raise invalid(
            f"request failed: Cannot query over table '{table.name.short}' without a filter over column(s) "
            f"'{partitioning.column}' that can be used for partition elimination"
        )


def stream_limit(most: int, preferred: int) -> Callable[[int], int]:
    """Tells into how many streams so many bytes are to be cut."""
    if most < 0 or preferred < 0:
        raise invalid("max_stream_count and preferred_min_stream_count must not be negative.")
    if most and preferred > most:
        raise invalid(f"preferred_min_stream_count is {preferred}, more than max_stream_count, {most}.")
    return partial(_streams, most, preferred)


def _streams(most: int, preferred: int, size: int) -> int:
    if most:
        # Who says how many wants that many units of work.
        return min(most, MOST_STREAMS)
    enough = min(-(-size // STREAM_BYTES), STREAMS_PER_CORE * (os.cpu_count() or 1))
    return min(max(enough, preferred, 1), MOST_STREAMS)


def compression_of(options: Any) -> int:
    codec: int = options.buffer_compression
    if not 0 <= codec < len(COMPRESSIONS):
        raise invalid(f"buffer_compression {codec} is not known: use LZ4_FRAME or ZSTD.")
    return codec


def moment_of(stamp: Any) -> datetime:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=stamp.seconds)
    except OverflowError:
        moment = None
    if moment is None or not 0 <= stamp.nanos < 1_000_000_000:
        raise invalid("snapshot_time is not a valid time.")
    return moment + timedelta(microseconds=stamp.nanos // 1000)
