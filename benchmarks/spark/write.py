"""What the writers take for the same cached rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import Sample, verify
from benchmarks.spark.session import (
    DATASET,
    PARTS,
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

PLAIN = "Spark, df.write.parquet"
SAME_LEVEL = "Spark, df.write.parquet, zstd level 1"
OURS = "Lode, lode.spark.write"
FORMAT = 'Lode, df.write.format("lode")'
WRITERS = (PLAIN, SAME_LEVEL, OURS, FORMAT)


def measure(root: str, count: int, rounds: int, only: list[str]) -> list[Any]:
    """In a child: seconds and megabytes of each."""
    with session() as spark:
        df = frame(spark, count, PARTS).cache()
        verify(df.count(), count, "cached rows")

        def plain(target: str, **options: str) -> list[Path]:
            df.write.options(compression="zstd", **options).parquet(f"{target}/plain")
            return list(Path(f"{target}/plain").glob("part-*"))

        def save(target: str) -> list[Path]:
            named = {"path": url(target), "dataset": DATASET, "checksum": "xxh3-128"}
            df.write.format("lode").options(**named).mode("append").save()
            return files_of(target)

        writers: dict[str, Callable[[str], list[Path]]] = {
            PLAIN: plain,
            SAME_LEVEL: lambda target: plain(target, **{"parquet.compression.codec.zstd.level": "1"}),
            OURS: lambda target: write_dataset(target, df),
            FORMAT: save,
        }

        def measured(work: Callable[[str], list[Path]]) -> Sample:
            with tempfile.TemporaryDirectory(dir=root) as target:
                took, files = timed(lambda: work(target))
                verify(row_count(files), count, "rows written")
                return [took, sum(file.stat().st_size for file in files) / 1e6]

        return [in_turn(writers, measured, rounds, only, "write")]
