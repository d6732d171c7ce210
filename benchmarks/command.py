"""The command: measures parts, keeps what it found, and makes the pages of it."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks.markdown import markdown
from benchmarks.options import Options
from benchmarks.progress import progress
from benchmarks.releases import ReleaseError, keep
from benchmarks.report import write_pages
from benchmarks.results import PARTS, load, machine, save, versions
from benchmarks.rounds import reason
from benchmarks.table import PartResult, Table

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    said = _parser().parse_args(arguments)
    if said.smoke or said.record:
        _smoke(said)
        return
    if said.keep and said.parts != ["report"]:
        sys.exit("--keep goes with report: ./run bench report --keep 0.2")
    if said.parts == ["report"]:
        if said.keep:
            _keep(said.keep)
        _report("full")
        return
    unknown = [part for part in said.parts if part not in PARTS]
    if unknown:
        sys.exit(f"no part {unknown[0]!r}: there are {', '.join(PARTS)}, and report")
    parts = list(dict.fromkeys(said.parts)) or list(PARTS)
    options = Options(not said.full, tuple(said.only), said.directory)
    modules = {part: importlib.import_module(f"benchmarks.{part}") for part in parts}
    _refuse_strangers(options, modules)
    wrong = [line for part, module in modules.items() for line in _measure(part, module, options)]
    if not options.only:
        _report(options.size)
    if wrong:
        sys.exit("\n".join(wrong))


def _keep(release: str) -> None:
    """Keep what was measured as the results of a release."""
    try:
        progress(f"wrote {keep(release, load('full'))}")
    except ReleaseError as error:
        sys.exit(str(error))


def _smoke(said: argparse.Namespace) -> None:
    """Compare counts with their bounds, or record them."""
    from benchmarks import smoke

    if not said.smoke:
        sys.exit("--record goes with --smoke: ./run bench --smoke --record")
    if said.parts or said.full or said.quick:
        sys.exit("--smoke counts all operations once: --only NAME chooses some of them")
    for part in said.only:
        if not any(part in name for name in smoke.OPERATIONS):
            sys.exit(f"no operation {part!r}: there are {'; '.join(smoke.OPERATIONS)}")
    over = smoke.run(said.only, record=said.record)
    if over:
        sys.exit("\n".join(over))


def _refuse_strangers(options: Options, modules: dict[str, Any]) -> None:
    known = [name for module in modules.values() for name in module.CONTENDERS]
    for name in options.only:
        if not any(name in each for each in known):
            sys.exit(
                f"no contender {name!r} in {', '.join(modules)}: there are {'; '.join(dict.fromkeys(known))}"
            )


def _measure(part: str, module: Any, options: Options) -> list[str]:
    """What went wrong; a part that breaks leaves the others, and its last result, alone."""
    try:
        return failures(part, _run(part, module, options))
    except Exception as error:
        traceback.print_exc()
        progress(f"{part}: {reason(error)}")
        return [f"not measured: {part}; the reason is above"]


def failures(part: str, tables: Sequence[Table]) -> list[str]:
    """The rows of Lode that failed. A peer may fail: that is a result."""
    return [
        f"{part}, {table.name}, {row.name}: {why}"
        for table in tables
        for row in table.rows
        if row.name.startswith("Lode")
        for why in [row.failed, *(cell.note for cell in row.cells if cell.value is None)]
        if why
    ]


def _run(part: str, module: Any, options: Options) -> list[Table]:
    print(f"## {part}\n", flush=True)
    progress(f"{part}, {options.size}")
    started, began = datetime.now(UTC), time.monotonic()
    tables: list[Table] = module.run(options)
    seconds = time.monotonic() - began
    for table in tables:
        print(markdown(table), end="\n\n", flush=True)
    progress(f"{part} took {seconds:.0f} s")
    if options.only:
        progress("not kept, because only some contenders were measured")
        return tables
    result = PartResult(
        part,
        f"./run bench {part} --{options.size}",
        started.isoformat(timespec="seconds"),
        machine(),
        versions(),
        seconds,
        tables,
    )
    progress(f"wrote {save(options.size, result)}")
    return tables


def _report(size: str) -> None:
    for path in write_pages(size):
        progress(f"wrote {path}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="part",
        help=f"{', '.join(PARTS)} (default: all); or report: make the pages of what was measured",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a few minutes for all of it; the default")
    size.add_argument(
        "--full", action="store_true", help="the real sizes, three rounds of each; an hour for all of it"
    )
    parser.add_argument(
        "--keep", metavar="RELEASE", help="with report: keep what was measured as that of a release"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="compare counts with their recorded bounds, without a clock"
    )
    parser.add_argument("--record", action="store_true", help="with --smoke: keep the counts as the bounds")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="contenders, or operations of --smoke, whose name contains this",
    )
    parser.add_argument("--directory", help="where to write data (default: the temporary directory)")
    return parser
