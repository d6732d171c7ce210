"""``lode verify``: check the history and every file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.failure import PROBLEMS
from lode.cli.parameters import DATASET, JSON, ROOT, STORE_OPTION, VOLUME, open_root
from lode.cli.terminal import TextTable, print_json, print_lines, progress
from lode.units import count, size

if TYPE_CHECKING:
    from lode.upkeep.verify import Verification

_QUICK: Final[Any] = typer.Option(False, "--quick", help="Compare only sizes; no file is read.")


def verify(
    dataset: str = DATASET,
    root: str = ROOT,
    quick: bool = _QUICK,
    volume: bool = VOLUME,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Check the history and every file of a dataset, or every block of a volume.

    The exit code is 5 if there are problems.
    """
    from lode.discover import open_damaged, open_damaged_volume
    from lode.upkeep.verify import verify as check

    store = open_root(root, store_option)
    target = open_damaged_volume(dataset, store) if volume else open_damaged(dataset, store)
    with progress(f"verifying {dataset}", "blocks" if volume else "files") as advance:
        found = check(target, checksums=not quick, progress=advance)
    print_verification(dataset, found, what="block" if volume else "file", json=json)


def print_verification(dataset: str, found: Verification, *, what: str = "file", json: bool) -> None:
    """Print the result; exit with code 5 if there are problems."""
    if json:
        print_json(
            {
                "dataset": dataset,
                "ok": found.ok,
                "snapshots": found.snapshots,
                "files": found.files,
                "bytes": found.bytes,
                "problems": found.problems,
            }
        )
    else:
        checked = f"{count(found.snapshots, 'snapshot')}, {count(found.files, what)}, {size(found.bytes)}"
        print(f"{dataset}: {'ok' if found.ok else count(len(found.problems), 'problem')} in {checked}")
        if not found.ok:
            table = TextTable("problem", "what")
            for problem in found.problems:
                table.add(problem.kind, problem.message)
            print_lines(table)
    if not found.ok:
        raise typer.Exit(PROBLEMS)
