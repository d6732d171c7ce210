"""What one micro-batch takes from files to files, and from dataset to dataset."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import Sample, verify
from benchmarks.spark.floor import FloorSource
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
PIPELINE = "Lode, a pipeline of the same datasets"
FLOOR = "floor: a Python source and sink that only read and write the files"
STREAMS = (PLAIN, OURS, PIPELINE, FLOOR)
ROWS = 1_000_000


def measure(root: str, rounds: int, only: list[str]) -> list[Any]:
    """In a child: seconds of the query and of its micro-batch."""
    from lode.pipeline import Pipeline
    from lode.spark.dataset_ref import DatasetRef

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

        def floor(target: str) -> Any:
            paths = "\n".join(map(str, files))
            rows = spark.readStream.format("floor").schema(schema).options(paths=paths).load()
            return rows.writeStream.format("floor").options(target=f"{target}/plain")

        def query(stream: Callable[[str], Any], target: str) -> float:
            writer = stream(target).option("checkpointLocation", f"{target}/checkpoint")
            running = writer.trigger(availableNow=True).start()
            running.awaitTermination()
            batches = running.recentProgress
            return float(sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000)

        def pipeline(target: str) -> float:
            sink = DatasetRef(url(target), DATASET, checksum="xxh3-128")
            (batch,) = Pipeline("bench", DatasetRef(url(source), DATASET), sink).run(spark)
            return batch.seconds

        def measured(work: Callable[[str], float]) -> Sample:
            with tempfile.TemporaryDirectory(dir=root) as target:
                took, batch = timed(lambda: work(target))
                found = list(Path(f"{target}/plain").glob("part-*")) or files_of(target)
                verify(row_count(found), ROWS, "rows written")
                return [took, batch]

        spark.dataSource.register(FloorSource)
        works: dict[str, Callable[[str], float]] = {
            PLAIN: partial(query, plain),
            OURS: partial(query, ours),
            PIPELINE: pipeline,
            FLOOR: partial(query, floor),
        }
        return [in_turn(works, measured, rounds, only, "micro-batch")]
