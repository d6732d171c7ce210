"""The pages made of the results: every size has its own, and the full one the docs' and the README's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import minute, releases
from benchmarks.aim import MISSING
from benchmarks.aims import AIMS
from benchmarks.markdown import filled, markdown
from benchmarks.results import HOME, PARTS, load
from benchmarks.scaling.page import BEGIN as SCALING_BEGIN
from benchmarks.scaling.page import END as SCALING_END
from benchmarks.scaling.page import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.table import Curve, PartResult, Table

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"
IMAGES: Final = DOCS / "images"
BEGIN: Final = "<!-- bench:begin -->"
END: Final = "<!-- bench:end -->"

_HEAD: Final = """\
# All results

This page has every table and plot of the benchmarks. It is made by `./run bench report` from what
`./run bench --{size}` measured; do not edit it.

Contenders run side by side in one run on shared cores, in rounds, so read the ratios, not the times. A number
is the median; in square brackets from the lowest to the highest, in round ones what it is to the row compared
with. Nothing counts before what was written has been found again. The floor is the least a commit can do: one
Parquet file and one compare-and-swap.

Each round has a folder of its own. On ext4 the folders are far apart: without a journal, it takes up to 30
times as long to create a file where thousands were removed a minute ago.
"""
_NEXT: Final = (
    "**Next:** [results by release](releases.md), [costs and scaling](../understanding/costs.md).\n"
)


def write_pages(size: str) -> list[Path]:
    """Make every page and plot of this size, and return where they are."""
    # Only here, because the plots need a package that the pages do not.
    from benchmarks.plots import write_plots

    results = load(size)
    written = write_plots(figures(size, results), IMAGES if size == "full" else HOME / size)
    for path, text in pages(size, results).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written.append(path)
    return written


def figures(size: str, results: Mapping[str, PartResult]) -> dict[str, list[tuple[Table, Curve]]]:
    """The panels of every plot, by its name."""
    found = minute.figures(results) if size == "full" else {}
    for result in results.values():
        for table in result.tables:
            for curve in table.curves:
                found.setdefault(curve.figure, []).append((table, curve))
    return found


def pages(size: str, results: Mapping[str, PartResult]) -> dict[Path, str]:
    """What each page has to say."""
    if size != "full":
        return {HOME / size / "README.md": page(size, results, ".")}
    readme, by_release = ROOT / "README.md", DOCS / "reference" / "releases.md"
    costs = DOCS / "understanding" / "costs.md"
    kept = releases.table(results, releases.load())
    return {
        costs: filled(costs.read_text(), SCALING_BEGIN, SCALING_END, _scaling(results)),
        DOCS / "benchmarks.md": minute.page(results),
        DOCS / "reference" / "benchmarks.md": f"{page(size, results, '../images')}\n{_NEXT}",
        by_release: filled(by_release.read_text(), BEGIN, END, kept),
        readme: filled(readme.read_text(), BEGIN, END, minute.ten(results)),
    }


def _scaling(results: Mapping[str, PartResult]) -> str:
    return render(results["scaling"]) if "scaling" in results else f"{MISSING.capitalize()}."


def page(size: str, results: Mapping[str, PartResult], images: str) -> str:
    """All aims, then every part with its plots and tables."""
    hint = "" if size == "full" else "\nSmall sizes and one round: what follows only hints at the aims.\n"
    sections = [
        _section(results[part], images)
        if part in results
        else f"## {part.capitalize()}\n\n{MISSING.capitalize()}.\n"
        for part in PARTS
    ]
    return "\n".join(
        [_HEAD.format(size=size) + hint, f"## The aims\n\n{minute.aims_table(AIMS, results)}\n", *sections]
    )


def _section(result: PartResult, images: str) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    when = f"`{result.command}` on {result.started[:10]}, {result.seconds:.0f} s"
    origin = f"{when}; {result.machine}; {versions}."
    figures = dict.fromkeys(curve.figure for table in result.tables for curve in table.curves)
    plots = [f"![{figure}]({images}/bench-{figure}.svg)\n\n`{result.command}`" for figure in figures]
    return (
        "\n\n".join([f"## {result.part.capitalize()}", origin, *plots, *map(markdown, result.tables)]) + "\n"
    )
