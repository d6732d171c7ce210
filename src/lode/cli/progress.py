"""Progress of long work, on stderr, and only on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lode.units import size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BYTES: Final = "bytes"
_quiet = False


def be_quiet(quiet: bool) -> bool:
    """Say whether the command that is about to run shows no progress (``--quiet``)."""
    global _quiet
    _quiet = quiet
    return quiet


@contextmanager
def progress(what: str, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function to call with (done, total) now and then; None if the total is not known.

    Args:
        what: What is being done, such as ``copying events``.
        unit: What is counted; ``bytes`` are shown as a size.
    """
    if _quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[counted]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, counted="")

        def advance(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total, counted=counted(done, total, unit))

        yield advance


def counted(done: int, total: int | None, unit: str) -> str:
    """``3,000 rows``, ``3 of 12 files``, ``1.2 MB of 3.4 MB``."""
    if unit == BYTES:
        return size(done) if total is None else f"{size(done)} of {size(total)}"
    return f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"
