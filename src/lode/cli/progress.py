"""How far long work has come, on stderr, and only where somebody watches it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress(what: str, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function to call with (done, in all) now and then; None if nobody knows how much there is."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, told="")

        def advance(done: int, total: int | None) -> None:
            told = f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"
            bar.update(task, completed=done, total=total, told=told)

        yield advance
