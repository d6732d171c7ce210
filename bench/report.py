"""The page ``docs/benchmarks.md``: every number in it comes from a file that ``--json`` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.table import markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.table import PartResult, Run

REPORT: Final = Path(__file__).parent.parent / "docs" / "benchmarks.md"

_HEAD: Final = """\
# Benchmarks

Made by `./run bench report FILE…` from what `./run bench [part …] --json FILE` measured; do not edit.
Contenders run side by side in one run on shared cores, so read the ratios, not the times. The floor is the
least a commit can do: one Parquet file and one compare-and-swap.
"""


def render(runs: Sequence[Run]) -> str:
    """The page of one or more runs; of a part measured twice, the later one counts."""
    latest: dict[str, tuple[Run, PartResult]] = {}
    for run in runs:
        for result in run.parts:
            latest[result.part] = (run, result)
    sections = [_section(run, result) for run, result in latest.values()]
    return "\n".join([_HEAD, *sections])


def _section(run: Run, result: PartResult) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in run.versions.items())
    origin = f"`{run.command}` on {run.started[:10]}; {run.machine}; {versions}. Took {result.seconds:.0f} s."
    return (
        "\n\n".join(
            [f"## {result.part.replace('_s3', ' on S3').capitalize()}", origin, *map(markdown, result.tables)]
        )
        + "\n"
    )
