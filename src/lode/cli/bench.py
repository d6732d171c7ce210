"""``lode bench``: how fast a store is with Lode, and how fast it could be at best."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.failure import PROBLEMS
from lode.cli.parameters import JSON, ROOT_ARGUMENT, STORE_OPTION, store_options
from lode.cli.terminal import TextTable, facts, print_json, print_lines, progress
from lode.units import count, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lode.bench import Results

_SECONDS: Final[Any] = typer.Option(20.0, "--seconds", metavar="N", help="The approximate duration.")
_WRITERS: Final[Any] = typer.Option(4, "--writers", metavar="N", help="The number of concurrent writers.")


def bench(
    url: str = ROOT_ARGUMENT,
    seconds: float = _SECONDS,
    writers: int = _WRITERS,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Measure a store: with Lode, and what it could do at best.

    Works in a new directory below the URL, .lode-bench-…, and removes it at the end, also when interrupted.
    Every row is read back. The exit code is 5 if a row is lost or duplicated.
    """
    from lode.bench import measure

    # As an exception, so that a termination too removes the files first.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    options = store_options(store_option)
    try:
        found = measure(url, options=options, seconds=seconds, writers=writers, progress=progress)
    except (KeyboardInterrupt, SystemExit):
        print("lode: interrupted; the files of the benchmark are removed", file=sys.stderr)
        raise
    if json:
        print_json(found)
    else:
        _print(found)
    if not found.is_sound:
        raise typer.Exit(PROBLEMS)


def _print(found: Results) -> None:
    commits, many, opening, blobs = found.commits, found.contention, found.opening, found.blobs
    fast, plain = blobs.megabytes_per_second
    table = TextTable("", "lode", "floor", "lode / floor", right=("lode", "floor", "lode / floor"))

    def add(what: str, lode: float, floor: float, form: Callable[[float], str]) -> None:
        table.add(what, form(lode), form(floor), f"{lode / floor:.2f}")

    add(f"commit of {size(commits.bytes)}, median", commits.lode.median, commits.floor.median, _time)
    add(f"the slowest of {commits.lode.rounds:,}", commits.lode.worst, commits.floor.worst, _time)
    together = f"{count(many.writers, 'writer')} at once, commits"
    add(together, many.commits_per_second, many.floor_per_second, lambda rate: f"{rate:,.0f}/s")
    planned = f"open and plan {count(opening.snapshots, 'snapshot')}"
    add(planned, opening.lode.median, opening.floor.median, _time)
    add(f"stream of {size(blobs.bytes)}", fast, plain, lambda rate: f"{rate:,.0f} MB/s")
    print_lines(found.url, "", table, "", *facts(_facts(found)))


def _facts(found: Results) -> Iterator[tuple[str, str]]:
    many = found.contention
    how = "process" if many.processes else "thread"
    yield "at once", f"{many.writers} {how}{'es' if many.processes else 's'}, {count(many.commits, 'commit')}"
    yield "", f"{many.rebases:,} rebases, {many.failed:,} gave up, the slowest {_time(many.slowest)}"
    yield "", "every row is there once" if found.is_sound else f"{many.lost:,} LOST, {many.doubled:,} DOUBLED"
    yield "calls", f"commit: {_calls(found.commits.calls)}"
    yield "", f"open and plan: {_calls(found.opening.calls)}"
    yield "", f"stream: {_calls(found.blobs.calls)}"
    yield "floor", "the store alone: a put and a swap, two reads, a plain upload"


def _calls(calls: Mapping[str, float]) -> str:
    each = ", ".join(f"{name} {_number(times)}" for name, times in calls.items())
    return f"{_number(sum(calls.values()))} ({each})"


def _number(number: float) -> str:
    return f"{number:,.1f}".removesuffix(".0")


def _time(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{seconds * 1000:,.2f} ms"
