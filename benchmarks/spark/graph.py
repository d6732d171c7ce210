"""What a graph of small pipelines takes, against the Spark jobs that it consists of."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import Sample, verify
from benchmarks.spark.session import DATASET, frame, in_turn, row_count, session, timed, url, write_dataset

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = "Spark, the jobs one after the other"
OURS = "Lode, one run of the graph"
GRAPHS = (PLAIN, OURS)
PIPELINES = 20
_ROWS = 10_000
_SQL = "SELECT id, at, kind, place, value, count FROM {source} WHERE pmod(id, {modulus}) <> 0"


def measure(root: str, rounds: int, only: list[str]) -> list[Any]:
    """In a child: seconds of each."""
    with session() as spark, tempfile.TemporaryDirectory(dir=root) as source:
        files = write_dataset(source, frame(spark, _ROWS, 1))
        expected = [_ROWS - (_ROWS + modulus - 1) // modulus for modulus in range(2, PIPELINES + 2)]

        def plain(target: str) -> list[int]:
            for number in range(PIPELINES):
                spark.read.parquet(*map(str, files)).createOrReplaceTempView("source")
                rows = spark.sql(_SQL.format(source="source", modulus=number + 2))
                rows.write.options(compression="zstd").parquet(f"{target}/{number}")
            return [row_count(list(Path(f"{target}/{number}").glob("part-*"))) for number in range(PIPELINES)]

        def ours(target: str) -> list[int]:
            import lode
            from lode.pipeline import Project

            project = Project(url(target), master="local[2]")
            for number in range(PIPELINES):
                project.add(
                    f"p{number}",
                    from_={"dataset": DATASET, "lake": url(source)},
                    into={"dataset": f"out{number}", "checksum": "xxh3-128"},
                    steps=_SQL.format(source=f"{{{DATASET}}}", modulus=number + 2),
                )
            project.run(spark)
            return [
                lode.open_dataset(f"out{number}", url(target)).latest().row_count
                for number in range(PIPELINES)
            ]

        def measured(work: Callable[[str], list[int]]) -> Sample:
            with tempfile.TemporaryDirectory(dir=root) as target:
                took, counts = timed(lambda: work(target))
                verify(counts, expected, "rows of the sinks")
                return [took]

        graphs: dict[str, Callable[[str], list[int]]] = {PLAIN: plain, OURS: ours}
        return [in_turn(graphs, measured, rounds, only, f"a graph of {PIPELINES} pipelines")]
