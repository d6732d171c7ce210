"""How long one small append takes, and whether it takes longer when history is long."""

from __future__ import annotations

import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.data import rows
from benchmarks.peers import contenders
from benchmarks.peers.contender import Place
from benchmarks.peers.s3 import LoggingS3Server
from benchmarks.progress import progress
from benchmarks.rounds import reason, require, verify
from benchmarks.table import Cell, Curve, Row, Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from benchmarks.options import Options
    from benchmarks.peers.contender import Contender, Handle

_ROWS = 1000
_NOTES = {
    "disk": "First all that do not sync; then those that do: one that syncs makes the file system's journal "
    "wait, and with it all that follow.",
    "s3": "Each on a server of its own.",
}
_WINDOW = 31
# Commits by which the speed of Iceberg is estimated.
_PACE = 20
_DASH = {
    "disk": "A dash: building that history would have taken more than {0:g} s ({1:g} s with syncs).",
    "s3": "A dash: building that history would have taken more than {0:g} s.",
}


@dataclass(frozen=True, slots=True)
class Course:
    """Where, up to which commits, and how many seconds of committing each contender may need."""

    where: str
    said: str
    depths: tuple[int, ...]
    budget: float


@dataclass(slots=True)
class Runner:
    """One contender on its way through a course."""

    contender: Contender
    place: Place
    budget: float
    requests: Callable[[], int] | None
    handle: Handle | None = None
    done: int = 0
    failed: str | None = None
    latencies: dict[int, list[float]] = field(default_factory=dict)
    asked: dict[int, float] = field(default_factory=dict)

    def start(self) -> None:
        require(self.contender.package)
        self.contender.create(self.place)
        self.handle = self.contender.open(self.place)

    def append(self, data: pa.Table) -> float:
        assert self.handle is not None
        began = time.perf_counter()
        self.handle.append(data)
        took = time.perf_counter() - began
        self.done += 1
        self.budget -= took
        return took

    def timed(self, depth: int, data: pa.Table) -> None:
        self.latencies.setdefault(depth, []).append(self.append(data) * 1000)

    def reach(self, commit: int, data: pa.Table) -> None:
        """Commit up to there unless that takes too long; a log that can be written by hand is."""
        if self.contender.by_hand and self.place.endpoint is None and 0 < self.done < commit:
            assert self.handle is not None
            self.contender.build(self.place, data, self.done, commit)
            self.handle.refresh()
            self.done = commit
        took: deque[float] = deque(maxlen=_PACE)
        while self.done < commit and self.budget > 0:
            took.append(self.append(data))
            # Each of its commits is slower than the last, so this estimate is too low. Others vary.
            known = self.contender.name == "Iceberg" and len(took) == _PACE
            if known and median(took) * (commit - self.done) > self.budget:
                return

    def attempt(self, work: Callable[..., None], *arguments: Any) -> None:
        """One that fails is not asked again, and says why."""
        if self.failed is None:
            try:
                work(*arguments)
            except Exception as error:
                self.failed = reason(error)
                progress(f"{self.contender.name}: {self.failed}")

    def check(self) -> None:
        found = self.contender.history(self.place)
        verify(found, self.done, "appends in the history")


def tables(options: Options) -> list[Table]:
    quick = options.quick
    disk = Course("disk", "disk", (10, 100, 300) if quick else (10, 500, 2000, 5000), 3.0 if quick else 60.0)
    s3 = Course("s3", "S3 (moto)", (10, 50) if quick else (10, 100, 500), 3.0 if quick else 25.0)
    chosen = [each for each in contenders() if options.wants(each.name)]
    with options.scratch() as root, ExitStack() as servers:
        on_disk = [
            Runner(each, _folder(root / str(at)), _budget(each, disk), None) for at, each in enumerate(chosen)
        ]
        for group in _groups(on_disk):
            _in_turn(group, disk)
        on_s3 = [_on_s3(each, root, servers, s3) for each in chosen if "synced" not in each.name]
        _in_turn(on_s3, s3)
    return [_latencies(disk, on_disk), _latencies(s3, on_s3), _requests(s3, on_s3)]


def _budget(each: Contender, course: Course) -> float:
    """Half of it for those that wait for the disk: they take long, and say the same at every depth."""
    return course.budget / 2 if "synced" in each.name or each.name == "Iceberg" else course.budget


def _folder(path: Path) -> Place:
    path.mkdir()
    return Place(str(path / "table"), str(path))


def _on_s3(each: Contender, root: Path, servers: ExitStack, course: Course) -> Runner:
    server = servers.enter_context(LoggingS3Server())
    local = _folder(root / f"s3-{each.name}").local
    place = Place(f"{server.create('bench')}/table", local, server.endpoint)
    return Runner(each, place, course.budget, lambda: server.requests)


def _groups(runners: list[Runner]) -> list[list[Runner]]:
    """The contenders that take turns: Iceberg's catalog syncs with every commit, so it is on its own."""
    synced = [each for each in runners if "synced" in each.contender.name]
    alone = [each for each in runners if each.contender.name == "Iceberg"]
    return [[each for each in runners if each not in synced and each not in alone], synced, alone]


def _in_turn(runners: list[Runner], course: Course) -> None:
    """At each depth everyone commits once, then everyone again."""
    data = rows(_ROWS)
    for runner in runners:
        runner.attempt(runner.start)
    for depth in course.depths:
        window = min(_WINDOW, depth - 2)
        for runner in runners:
            runner.attempt(runner.reach, depth - window, data)
        ready = [each for each in runners if each.failed is None and each.done == depth - window]
        before = {each.contender.name: each.requests() for each in ready if each.requests is not None}
        for _ in range(window):
            for runner in ready:
                runner.attempt(runner.timed, depth, data)
        for runner in ready:
            if runner.requests is not None and runner.failed is None:
                runner.asked[depth] = (runner.requests() - before[runner.contender.name]) / window
        brief = ", ".join(_brief(each, depth) for each in ready)
        progress(f"small appends, {course.said}, commit {depth:,}: {brief}")
    for runner in runners:
        runner.attempt(runner.check)


def _brief(runner: Runner, depth: int) -> str:
    value = Cell(runner.latencies.get(depth, [])).value
    return f"{runner.contender.name} {value or 0:.2f} ms"


def _latencies(course: Course, runners: list[Runner]) -> Table:
    columns = [f"{depth:,}" for depth in course.depths]
    by_hand = [
        each.contender.name for each in runners if each.contender.by_hand and each.place.endpoint is None
    ]
    return Table(
        f"latency-{course.where}",
        f"Commit latency of small appends (1,000 rows x 6 columns, Parquet), {course.said}, ms at commit",
        columns,
        [
            Row(
                runner.contender.name,
                [Cell(runner.latencies.get(depth, [])) for depth in course.depths],
                runner.contender.floor,
                runner.failed,
            )
            for runner in runners
        ],
        ratios=columns,
        notes=[
            f"Medians of up to {_WINDOW} commits in turn, commit by commit; the ratio is to the floor with "
            "the same sync setting. Delta and Lance do not sync.",
            _NOTES[course.where],
            _DASH[course.where].format(course.budget, course.budget / 2),
            *([f"{', '.join(by_hand)}: the log between the depths written by hand."] if by_hand else []),
        ],
        curves=[
            Curve(
                "latency", f"Commit latency, {course.said}", "commits before it", "ms", log_x=True, log_y=True
            )
        ],
    )


def _requests(course: Course, runners: list[Runner]) -> Table:
    columns = [f"{depth:,}" for depth in course.depths]
    return Table(
        "latency-requests",
        f"Requests for one small append, {course.said}, at commit",
        columns,
        [
            Row(
                runner.contender.name,
                [Cell([runner.asked[depth]] if depth in runner.asked else []) for depth in course.depths],
                runner.contender.floor,
                runner.failed,
            )
            for runner in runners
        ],
        ratios=columns,
        notes=[
            "As the server logged them while the table above was measured; one number for all commits there."
        ],
    )
