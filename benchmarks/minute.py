"""The page that shows in a minute how Lode compares: eight charts, ten results, and what is missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.aim import MET, find
from benchmarks.aims import AIMS
from benchmarks.markdown import grid
from benchmarks.table import Curve, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.aim import Aim
    from benchmarks.table import PartResult

_TABLES: Final = ["Lode", "Delta", "Iceberg", "Lance"]
_PEERS: Final = ["Lode", "floor", "Delta", "Iceberg", "Lance"]
_HEAD: Final = """\
# Benchmarks

This page compares Lode with Delta, Iceberg, Lance, DuckLake, DuckDB, Spark and an emulator of BigQuery. All
do the same work in the same run on one machine with two cores, in turn, and every result is checked. So
compare the bars of a chart, not the times of two charts. Blue is Lode. Grey is the floor: the least that any
implementation must do.

Made by `./run bench report` from what `./run bench --full` measured; do not edit.
"""
_TAIL: Final = """\
## More

- [Costs and scaling](understanding/costs.md): store calls of every operation, growth, and money.
- [All results](reference/benchmarks.md): every table and plot, with versions and spreads.
- [Results by release](reference/releases.md): every aim in each release.
- Counts are compared with recorded bounds in CI by `./run bench --smoke`; they need no clock.
- On your machine: `./run bench` takes some minutes, `./run bench --full` an hour.

**Next:** [costs and scaling](understanding/costs.md).
"""


class Panel(NamedTuple):
    """A chart of one column of a table."""

    part: str
    table: str
    column: str
    title: str
    rows: list[str]

    def drawn(self, figure: str, results: Mapping[str, PartResult]) -> tuple[Table, Curve]:
        """The table to draw, without rows if it has not been measured, and how."""
        found = find(results, self.part, self.table)
        if found is None or self.column not in found.columns:
            found = Table(self.table, self.title, [self.column], [])
        chosen = [row for name in self.rows if (row := found.row(name)) is not None]
        ordered = Table(found.name, found.title, found.columns, chosen)
        return ordered, Curve(figure, self.title, "", "", kind="bars", columns=[self.column])


class Section(NamedTuple):
    """Two charts, and the sentence that says what is seen there."""

    name: str
    heading: str
    says: str
    panels: tuple[Panel, ...]

    @property
    def figure(self) -> str:
        return f"minute-{self.name}"


SECTIONS: Final = (
    Section(
        "write",
        "Many small writes",
        "Sixteen processes append to one table, each to its own partition; and one process appends "
        "1,000 rows again and again.",
        (
            Panel(
                "commit", "contention-s3-16", "commits/s", "16 writers, S3: commits/s, more is better", _PEERS
            ),
            Panel("commit", "latency-disk", "500", "Small append, disk: ms, less is better", _PEERS),
        ),
    ),
    Section(
        "read",
        "Reading",
        "A new process opens a table with 2,000 commits and plans a scan; and 1,000 small files are read "
        "whole.",
        (
            Panel("open", "open", "2,000", "Open and plan, disk: ms, less is better", _TABLES),
            Panel(
                "lifecycle",
                "scan",
                "all columns, s",
                "Scan of 1,000 small files: s, less is better",
                ["Lode", "DuckDB's reader on Lode's files", "Delta", "Iceberg", "Lance", "DuckLake"],
            ),
        ),
    ),
    Section(
        "change",
        "Large writes and changes",
        "20,000,000 rows are written at once; and 100,000 rows are merged into as many by key. Lode and "
        "Delta rewrite files; Lance and DuckLake mark rows as gone.",
        (
            Panel(
                "tables",
                "write",
                "seconds",
                "Bulk write: s, less is better",
                ["Lode", "pyarrow, two files in two threads", "Delta", "Iceberg", "Lance"],
            ),
            Panel(
                "lifecycle",
                "change",
                "merge, s",
                "Merge by key: s, less is better",
                ["Lode", "pyarrow, files without history", "Delta", "Iceberg", "Lance", "DuckLake"],
            ),
        ),
    ),
    Section(
        "server",
        "The server and Spark",
        "A BigQuery client streams rows into the server, which answers when they are durable; and Spark "
        "aggregates 10,000,000 rows.",
        (
            Panel(
                "ingest",
                "arrow-1000-1",
                "default",
                "Streaming in: rows/s, more is better",
                ["Lode", "bqemulator"],
            ),
            Panel(
                "spark",
                "read",
                "seconds",
                "Spark reads: s, less is better",
                [
                    "Lode, lode.spark.read",
                    'Lode, spark.read.format("lode")',
                    "Spark, spark.read.parquet on the same files",
                ],
            ),
        ),
    ),
)


def figures(results: Mapping[str, PartResult]) -> dict[str, list[tuple[Table, Curve]]]:
    """The charts of the page, by figure."""
    return {
        section.figure: [panel.drawn(section.figure, results) for panel in section.panels]
        for section in SECTIONS
    }


def page(results: Mapping[str, PartResult]) -> str:
    """The whole page."""
    charts = [
        f"## {section.heading}\n\n{section.says}\n\n![{section.heading}](images/bench-{section.figure}.svg)\n"
        for section in SECTIONS
    ]
    return "\n".join(
        [_HEAD, *charts, f"## Ten results\n\n{ten(results)}\n", f"{_missed_section(results)}\n", _TAIL]
    )


def ten(results: Mapping[str, PartResult]) -> str:
    """The ten results that matter, and how many of all aims are met."""
    missed, waiting = _missed(results), [aim for aim in AIMS if _is_waiting(aim, results)]
    met = len(AIMS) - len(missed) - len(waiting)
    said = [f"Of all {len(AIMS)} aims {met} are met, {len(missed)} are missed"]
    said += [f" and {len(waiting)} are not measured yet"] if waiting else []
    said += [". The page of benchmarks has the missed ones, with their causes." if missed else "."]
    return f"{aims_table([aim for aim in AIMS if aim.short], results)}\n\n{''.join(said)}"


def aims_table(aims: Iterable[Aim], results: Mapping[str, PartResult]) -> str:
    """Every aim with what was measured and whether it is met."""
    body = []
    for aim in aims:
        measured, verdict = aim.judged(results)
        body.append([aim.what, measured, aim.said, verdict])
    return "\n".join(grid(["", "measured", "the aim", ""], body))


def _missed(results: Mapping[str, PartResult]) -> list[Aim]:
    """The aims that are not met; one whose run failed is among them."""
    return [aim for aim in AIMS if not _is_waiting(aim, results) and aim.judged(results)[1] != MET]


def _is_waiting(aim: Aim, results: Mapping[str, PartResult]) -> bool:
    return aim.judged(results)[0].startswith("not measured")


def _missed_section(results: Mapping[str, PartResult]) -> str:
    body = [[aim.what, *aim.judged(results), aim.why or "-"] for aim in _missed(results)]
    if not body:
        return "## Missed aims\n\nNone of what has been measured."
    return "\n".join(["## Missed aims", "", *grid(["", "measured", "", "why"], body)])
