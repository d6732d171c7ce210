"""The pages made of the results: every size has its own, and the full one the docs' and the README's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.aim import MISSING
from benchmarks.aims import AIMS
from benchmarks.markdown import grid, markdown
from benchmarks.results import HOME, PARTS, load
from benchmarks.scaling.page import filled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.aim import Aim
    from benchmarks.table import PartResult

ROOT: Final = Path(__file__).parent.parent
IMAGES: Final = ROOT / "docs" / "images"
BEGIN: Final = "<!-- bench:begin -->"
END: Final = "<!-- bench:end -->"

_HEAD: Final = """\
# Benchmarks

Made by `./run bench report` from what `./run bench --{size}` measured; do not edit.
Contenders run side by side in one run on shared cores, in rounds, so read the ratios, not the times. A number
is the median; in square brackets from the lowest to the highest, in round ones what it is to the row compared
with. Nothing counts before what was written has been found again. The floor is the least a commit can do: one
Parquet file and one compare-and-swap.
"""


def write_pages(size: str) -> list[Path]:
    """Make every page and plot of this size, and return where they are."""
    results = load(size)
    written = _plot(results, IMAGES if size == "full" else HOME / size)
    for path, text in pages(size, results).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written.append(path)
    return written


def pages(size: str, results: Mapping[str, PartResult]) -> dict[Path, str]:
    """What each page has to say."""
    own = HOME / size / "README.md"
    if size != "full":
        return {own: page(size, results, ".")}
    readme = ROOT / "README.md"
    return {
        **_scaling_page(results),
        own: page(size, results, "../../../docs/images"),
        ROOT / "docs" / "benchmarks.md": page(size, results, "images"),
        readme: with_table(readme.read_text(), aims_table([aim for aim in AIMS if aim.short], results)),
    }


def _scaling_page(results: Mapping[str, PartResult]) -> dict[Path, str]:
    path = ROOT / "docs" / "understanding" / "performance.md"
    return {path: filled(path.read_text(), results["scaling"])} if "scaling" in results else {}


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
        [_HEAD.format(size=size) + hint, f"## The aims\n\n{aims_table(AIMS, results)}\n", *sections]
    )


def aims_table(aims: Iterable[Aim], results: Mapping[str, PartResult]) -> str:
    """Every aim with what was measured and whether it is met."""
    body = []
    for aim in aims:
        measured, verdict = aim.judged(results)
        body.append([aim.what, measured, aim.said, verdict])
    return "\n".join(grid(["", "measured", "the aim", ""], body))


def with_table(readme: str, table: str) -> str:
    """The README with this table between its marks."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _section(result: PartResult, images: str) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    when = f"`{result.command}` on {result.started[:10]}, {result.seconds:.0f} s"
    origin = f"{when}; {result.machine}; {versions}."
    figures = dict.fromkeys(curve.figure for table in result.tables for curve in table.curves)
    plots = [f"![{figure}]({images}/bench-{figure}.svg)\n\n`{result.command}`" for figure in figures]
    return (
        "\n\n".join([f"## {result.part.capitalize()}", origin, *plots, *map(markdown, result.tables)]) + "\n"
    )


def _plot(results: Mapping[str, PartResult], folder: Path) -> list[Path]:
    # Only here, because the plots need a package that the pages do not.
    from benchmarks.plots import write_plots

    tables = [table for result in results.values() for table in result.tables]
    return write_plots(tables, folder)
