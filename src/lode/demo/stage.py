"""What the demo shows of itself: numbered steps, a bar where one waits, a line on what each step proves."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Stage:
    """The terminal."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._number = 0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Run one step and print how long it took."""
        self._number += 1
        self.console.print(f"\n[bold]{self._number}. {title}[/bold]")
        began = time.monotonic()
        yield
        self.console.print(f"   [dim]{time.monotonic() - began:.1f} s[/dim]")

    def say(self, text: str) -> None:
        self._print("   ", text)

    def proves(self, text: str) -> None:
        """What the step has shown."""
        self._print("   [green]✓[/green] ", text)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A sign of life while nothing can be counted."""
        if not self.console.is_terminal:
            yield
            return
        with self.console.status(f"[dim]{what}[/dim]"):
            yield

    def _print(self, mark: str, text: str) -> None:
        """Print text after its mark; on a narrow terminal the rest is below the text."""
        if not self.console.is_terminal:
            self.console.print(f"{mark}{text}", soft_wrap=True)
            return
        grid = Table.grid()
        grid.add_row(mark, text)
        self.console.print(grid)

    @contextmanager
    def bar(self, what: str, total: int) -> Iterator[Callable[[], None]]:
        """A progress bar; call what it yields once for each piece done."""
        columns = (
            TextColumn("   {task.description}"),
            BarColumn(30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, disable=not self.console.is_terminal) as progress:
            task = progress.add_task(what, total=total)
            yield lambda: progress.advance(task)

    def end(self, verdict: str, why: str) -> None:
        """The last heading, below a line."""
        self.console.print()
        self.console.rule(style="dim")
        self.console.print(f"[bold green]✓ {verdict}[/bold green] {why}\n", soft_wrap=True)

    def ways(self, ways: Iterable[tuple[str, str]]) -> None:
        """What one can do next, each below its name: a command is copied whole, however narrow it is here."""
        self.console.print()
        for name, command in ways:
            self.console.print(f"   [dim]{name}[/dim]\n     {command}", soft_wrap=True)

    def table(self, headings: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
        """Rows below their headings, as far in as everything else."""
        drawn = Table(box=None, padding=(0, 3, 0, 0))
        for number, heading in enumerate(headings):
            drawn.add_column(heading, justify="left" if number == 0 else "right", header_style="dim")
        for row in rows:
            drawn.add_row(*map(str, row))
        self.console.print(Padding(drawn, (0, 0, 0, 3)))
