"""Many processes append to one table at once: on disk, and on an S3 server of its own for each contender."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.commit.writers import Race, check, compete, numbers
from benchmarks.distance import DISTANCE, far
from benchmarks.peers import contenders
from benchmarks.peers.contender import Place
from benchmarks.peers.s3 import LoggingS3Server
from benchmarks.rounds import ChildError, Outcome, Sample, about_slow, in_rounds, require, row_of
from benchmarks.table import Cell, Curve, Row, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.options import Options
    from benchmarks.peers.contender import Contender

MANY = 16
COMMITS = 25
PARTITION = "part"
COLUMNS = ["commits/s", "commits", "conflicts seen", "median, s", "slowest, s", "fairness"]
REQUESTS = "requests/commit"

# Makes a new place, the same place without delay to read it back, and a way to count the server's requests.
Setting = Callable[["Options"], AbstractContextManager[tuple[Place, Place, Callable[[], int] | None]]]


def tables(options: Options) -> list[Table]:
    found = []
    for where, said, setting in (("disk", "disk", _on_disk), ("s3", "S3 (moto)", _on_s3)):
        by_writers = {}
        for writers in (2, 8) if options.quick else (2, 8, MANY):
            by_writers[writers] = _contend(options, where, said, setting, writers)
        found += [_rates(where, said, by_writers), *by_writers.values()]
    # On this machine a request takes as long as the processors are busy. Elsewhere it takes its time.
    said = f"S3 (moto), answers {DISTANCE * 1000:.0f} ms late"
    return [*found, _contend(options, "far", said, on_far_s3, 8 if options.quick else MANY)]


def _contend(options: Options, where: str, said: str, setting: Setting, writers: int) -> Table:
    race = Race(writers, COMMITS, 2.0 if options.quick else 8.0)
    chosen = [each for each in contenders() if options.wants(each.name) and _takes_part(each, where, writers)]
    errors: dict[str, Counter[str]] = {each.name: Counter() for each in chosen}
    works = {each.name: partial(_once, options, setting, each, race, errors[each.name]) for each in chosen}
    # The distant store has no aim and no plot.
    rounds = 1 if where == "far" else options.rounds
    slow = _far_behind(where, writers)
    outcomes = in_rounds(works, rounds, label=f"{writers} writers, {said}", may_be_slow=slow)
    notes = [] if rounds == options.rounds else ["One round."]
    found = [(each, outcomes[each.name]) for each in chosen]
    return _table(where, said, race, found, errors, [*notes, *about_slow(outcomes, rounds)])


def _takes_part(each: Contender, where: str, writers: int) -> bool:
    """What syncs is measured with the most writers on disk: a bucket has nothing to sync."""
    return "synced" not in each.name or (where == "disk" and writers == MANY)


def _far_behind(where: str, writers: int) -> tuple[str, ...]:
    """The peers that make less than a fifth of Lode's commits, and run until the cap."""
    return ("Delta", "Iceberg", "Lance") if where == "s3" and writers == MANY else ("Delta", "Iceberg")


def _once(options: Options, setting: Setting, each: Contender, race: Race, errors: Counter[str]) -> Sample:
    require(each.package)
    with setting(options) as (place, near, requests):
        each.create(place)
        work = compete(each, place, race)
        asked = requests() if requests is not None else None
        check(each.read(near), work)
    for writer in work:
        errors.update(writer.errors)
    commits = sum(len(writer.done) for writer in work)
    if not commits:
        raise ChildError(f"not one commit in {race.cap:.0f} s; callers saw {dict(errors.most_common(2))}")
    return numbers(work) if asked is None else [*numbers(work), asked / commits]


@contextmanager
def _on_disk(options: Options) -> Iterator[tuple[Place, Place, Callable[[], int] | None]]:
    with options.scratch() as root:
        place = Place(str(root / "table"), _folder(root / "local"), partition=PARTITION)
        yield place, place, None


@contextmanager
def _on_s3(options: Options) -> Iterator[tuple[Place, Place, Callable[[], int] | None]]:
    with options.scratch() as root, LoggingS3Server() as server:
        url = server.create("bench")
        place = Place(f"{url}/table", _folder(root / "local"), server.endpoint, PARTITION)
        yield place, place, lambda: server.requests


@contextmanager
def on_far_s3(options: Options) -> Iterator[tuple[Place, Place, Callable[[], int] | None]]:
    """A bucket whose answers come late, the same without delay, and a way to count the requests."""
    with _on_s3(options) as (near, _, requests):
        address, _, port = (near.endpoint or "").rpartition(":")
        with far(int(port)) as listens:
            yield replace(near, endpoint=f"{address}:{listens}"), near, requests


def _folder(path: Path) -> str:
    path.mkdir()
    return str(path)


def _table(
    where: str,
    said: str,
    race: Race,
    outcomes: list[tuple[Contender, Outcome]],
    errors: dict[str, Counter[str]],
    notes: list[str],
) -> Table:
    counted = [] if where == "disk" else [REQUESTS]
    seen = [
        f"{name}: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common(2))}"
        for name, kinds in errors.items()
        if kinds
    ]
    return Table(
        f"contention-{where}-{race.writers}",
        f"{race.writers} processes, each appending {race.commits} times to its own partition, {said}",
        [*COLUMNS, *counted],
        [row_of(each.name, outcome, each.floor) for each, outcome in outcomes],
        ratios=["commits/s", *counted],
        notes=[
            f"A writer that is not done after {race.cap:.0f} s stops. A commit lasts from the caller's first "
            "try to its success; one without success counts until the end.",
            "Read back after every round: each row of each commit is there once, or it says what is not.",
            *notes,
            "Fairness: Jain's index over the commits each process had when half of all were done; 1 is even.",
            *(["Requests are those the server logged, creating the table included."] if counted else []),
            *([f"Conflicts that callers saw, in all rounds: {'; '.join(seen)}."] if seen else []),
        ],
    )


def _rates(where: str, said: str, by_writers: dict[int, Table]) -> Table:
    """Commits/s by the number of writers."""
    columns = [str(writers) for writers in by_writers]
    named = {row.name: row for table in by_writers.values() for row in table.rows if "synced" not in row.name}
    rows = []
    for name, row in named.items():
        found = [each for table in by_writers.values() if (each := table.row(name)) is not None]
        cells = [Cell(note=each.failed) if each.failed else each.cells[0] for each in found]
        failed = row.failed if all(each.failed for each in found) else None
        rows.append(Row(name, cells, row.against, failed))
    return Table(
        f"rates-{where}",
        f"Commits/s of so many writers on one table, {said}",
        columns,
        rows,
        ratios=columns,
        notes=["The numbers of the tables that follow."],
        curves=[Curve("contention", f"Commits/s, {said}", "writers", "commits/s", log_x=True, log_y=True)],
    )
