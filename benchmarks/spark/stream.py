"""What one micro-batch takes from files to files, and from dataset to dataset."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import Sample, verify
from benchmarks.spark.session import (
    DATASET,
    files_of,
    frame,
    in_turn,
    row_count,
    session,
    timed,
    url,
    write_dataset,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = "Spark, Parquet files to Parquet files"
OURS = "Lode, dataset to dataset"
STREAMS = (PLAIN, OURS)
ROWS = 1_000_000


def measure(root: str, rounds: int, only: list[str]) -> list[Any]:
    """In a child: seconds of the query and of its micro-batch."""
    with session() as spark, tempfile.TemporaryDirectory(dir=root) as source:
        files = write_dataset(source, frame(spark, ROWS, 2))
        schema = spark.read.parquet(*(str(file) for file in files)).schema

        def plain(target: str) -> Any:
            rows = spark.readStream.schema(schema).parquet(str(files[0].parent))
            return rows.writeStream.format("parquet").options(path=f"{target}/plain", compression="zstd")

        def ours(target: str) -> Any:
            stream = spark.readStream.format("lode").schema(schema)
            rows = stream.options(path=url(source), dataset=DATASET).load()
            named = {"path": url(target), "dataset": DATASET, "checksum": "xxh3-128"}
            return rows.writeStream.format("lode").options(**named)

        def measured(stream: Callable[[str], Any]) -> Sample:
            with tempfile.TemporaryDirectory(dir=root) as target:

                def work() -> list[dict[str, Any]]:
                    writer = stream(target).option("checkpointLocation", f"{target}/checkpoint")
                    query = writer.trigger(availableNow=True).start()
                    query.awaitTermination()
                    return list(query.recentProgress)

                took, batches = timed(work)
                found = list(Path(f"{target}/plain").glob("part-*")) or files_of(target)
                verify(row_count(found), ROWS, "rows written")
                return [took, sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000]

        streams: dict[str, Callable[[str], Any]] = {PLAIN: plain, OURS: ours}
        return [in_turn(streams, measured, rounds, only, "micro-batch")]
