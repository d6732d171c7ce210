"""What Spark jobs cost with Lode, against the same jobs on plain Parquet: writes, reads, streams, graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.measure import in_child
from benchmarks.progress import progress
from benchmarks.rounds import Outcome, reason, row_of
from benchmarks.spark import graph, read, scale, small, stream, write
from benchmarks.spark.session import PARTS
from benchmarks.table import Curve, Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.options import Options

CONTENDERS = (
    *write.WRITERS,
    *read.READERS,
    *read.COLUMN_READERS[2:],
    *small.READERS,
    *stream.STREAMS,
    *graph.GRAPHS,
    *scale.JOBS,
)

_AGAINST_SPARK = "time against plain Spark's"


def run(options: Options) -> list[Table]:
    count = 500_000 if options.quick else 10_000_000
    with options.scratch() as root:
        order = {"root": str(root), "rounds": options.rounds, "only": list(options.only)}
        writes = _outcomes([write.WRITERS], write.measure, count=count, **order)
        groups = [read.READERS, read.READERS, read.COLUMN_READERS]
        reads = _outcomes(groups, read.measure, count=count, **order)
        small_files = _outcomes([small.READERS] * len(small.COUNTS), small.measure, **order)
        streams = _outcomes([stream.STREAMS], stream.measure, **order)
        graphs = _outcomes([graph.GRAPHS], graph.measure, **order)
        sizes = scale.QUICK if options.quick else scale.FULL
        scales = scale.rows(str(root), sizes, options.wants)
    rounds = f"Medians of {options.rounds}, in turn in one session, after one round to warm up"
    return [
        Table(
            "write",
            f"Spark: write of {count:,} rows x 6 columns in {PARTS} tasks, zstd, local[2]",
            ["seconds", "bytes written, MB"],
            _rows(options, writes[0], write.PLAIN),
            ratios=["seconds"],
            notes=[
                f"{rounds}; the rows are in Spark's cache; not synced. Rows counted in the files.",
                "Lode with statistics and an xxh3-128 checksum of every file.",
            ],
            curves=[_bars("Write", ["seconds"])],
        ),
        Table(
            "read",
            f"Spark: an aggregate over all columns of {count:,} rows, {PARTS} files, local[2]",
            ["seconds"],
            _rows(options, reads[0], read.PLAIN),
            ratios=["seconds"],
            notes=[
                f"{rounds}; planning included. The files are in the page cache; every aggregate is checked."
            ],
            curves=[_bars("Read all", ["seconds"])],
        ),
        Table(
            "read-one",
            f"Spark: the same where id is in a range that only one of the {PARTS} files has, local[2]",
            ["seconds"],
            _rows(options, reads[1], read.PLAIN),
            ratios=["seconds"],
            notes=[f"{rounds}, the same as above."],
            curves=[_bars("Read one file's rows", ["seconds"])],
        ),
        Table(
            "read-two",
            f"Spark: an aggregate over two of the six columns of {count:,} rows, {PARTS} files, local[2]",
            ["seconds"],
            _rows(options, reads[2], read.PLAIN),
            ratios=["seconds"],
            notes=[
                f"{rounds}, the same as above. Spark does not say which columns a query needs to a Python "
                "source, so they are named with `.schema(…)`.",
            ],
            curves=[_bars("Read two columns", ["seconds"])],
        ),
        *(
            Table(
                f"small-{number}",
                f"Spark: an aggregate over {number:,} files of 200 rows, local[2]",
                ["seconds"],
                _rows(options, found, small.PLAIN),
                ratios=["seconds"],
                notes=[f"{rounds}; planning included; every aggregate is checked."],
                curves=[_bars(f"{number:,} small files", ["seconds"])],
            )
            for number, found in zip(small.COUNTS, small_files, strict=True)
        ),
        Table(
            "stream",
            f"Spark: a micro-batch of {stream.ROWS:,} rows x 6 columns, Trigger.AvailableNow, local[2]",
            ["query, s", "micro-batch, s"],
            _rows(options, streams[0], stream.PLAIN),
            ratios=["query, s", "micro-batch, s"],
            notes=[
                f"{rounds}. Both from the same two files; rows counted in the files.",
                "The query from start() until it has ended; the micro-batch as Spark reports it. Of a "
                "pipeline, its run and its batch.",
                "The floor is what Spark's Python data sources take, without history, statistics, checksums.",
                "Lode with statistics and an xxh3-128 checksum of every file, both zstd.",
            ],
            curves=[_bars("Micro-batch", ["micro-batch, s"])],
        ),
        Table(
            "graph",
            f"Spark: a graph of {graph.PIPELINES} small pipelines, local[2]",
            ["seconds"],
            _rows(options, graphs[0], graph.PLAIN),
            ratios=["seconds"],
            notes=[
                f"{rounds}. Each pipeline filters the same 10,000 rows into a sink of its own; rows counted.",
                "Plain Spark runs the same queries one after the other, without positions and lineage.",
            ],
            curves=[_bars("Graph of pipelines", ["seconds"])],
        ),
        Table(
            "scale",
            "Spark: the memory of the driver, by the number of files, local[2]",
            scale.columns(sizes),
            scales,
            notes=[
                "One run of each, in a process and a Spark of its own; the times are no comparison. Files of "
                f"{scale.ROWS} rows, {scale.FILES_PER_SNAPSHOT:,} in a snapshot.",
                "MB: the peak of the Python process over what it had before the job. Its Java process, which "
                f"also runs the tasks, has a heap of {scale.HEAP} at most.",
                f"{scale.COMPUTED:,} files are computed from the two sizes. Jobs hold a share of the files: "
                "their number is computed for 512 MiB of manifests. For a copy it is the "
                "largest segment of history, 128 MiB of manifests; for an import it is all files.",
            ],
        ),
    ]


def _bars(title: str, columns: list[str]) -> Curve:
    return Curve("spark", title, "", _AGAINST_SPARK, kind="bars", columns=columns, ratio=True)


def _outcomes(
    groups: list[tuple[str, ...]], function: Callable[..., Any], **order: Any
) -> list[dict[str, Outcome]]:
    """What the child measured; a session that does not start fails all that it was for."""
    try:
        return msgspec.convert(in_child(function, **order), list[dict[str, Outcome]])
    except Exception as error:
        failed = reason(error)
        progress(f"Spark: {failed}")
        return [{name: Outcome(failed=failed) for name in names} for names in groups]


def _rows(options: Options, outcomes: dict[str, Outcome], baseline: str) -> list[Row]:
    return [
        row_of(name, outcome, None if name == baseline else baseline)
        for name, outcome in outcomes.items()
        if options.wants(name)
    ]
