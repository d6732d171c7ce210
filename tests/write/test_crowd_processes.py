"""Crowds of real processes that commit in groups, through a store that loses and delays requests.

Processes are killed and stopped at random moments. Beside the writers a compactor, a deleter, a sweep without
a minimum age and a reader are at work. Whatever happens, each acknowledged row is there once, and history is
one line.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import lode
from support.crowd import PROCESSES, SHARED, STRIPES, Log, block_of, main, opened, opened_volume
from support.store.proxy import Proxy, Request, Trick

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path
    from typing import Self

    from lode.testing.servers import S3Server

WRITERS = ("append", "own", "append", "rival")
OTHERS = ("compact", "delete", "sweep", "read")


def faults(seed: int) -> Any:
    """Choose at random which requests are lost or late, and which answers are lost."""
    chance = random.Random(seed)

    def choose(request: Request) -> Trick | None:
        roll = chance.random()
        if roll < 0.01:
            return Trick(request.method, "lose request")
        if roll < 0.025:
            return Trick(request.method, "lose answer")
        if roll < 0.035:
            return Trick(request.method, "late", seconds=chance.uniform(0.05, 1.0))
        if roll < 0.06:
            return Trick(request.method, "delay", seconds=chance.uniform(0.01, 0.3))
        return None

    return choose


@dataclass
class Crowd:
    """Processes on one dataset, each started again as often as it is killed."""

    url: str
    options: dict[str, Any]
    folder: Path
    roles: dict[str, str]
    processes: dict[str, ForkServerProcess] = field(default_factory=dict)
    kills: int = 0
    stops: int = 0

    def log(self, name: str) -> Log:
        return Log(self.folder / f"{name}.log")

    def start(self, name: str) -> None:
        arguments = (self.roles[name], self.url, self.options, name, str(self.folder))
        process = PROCESSES.Process(target=main, args=arguments, daemon=True)
        process.start()
        self.processes[name] = process

    def send(self, name: str, number: signal.Signals) -> None:
        pid = self.processes[name].pid
        assert pid is not None
        assert self.processes[name].is_alive(), self._fault(name)
        os.kill(pid, number)

    def _fault(self, name: str) -> str:
        said = [" ".join(line) for line in self.log(name).lines("fault")]
        return f"{name} ended with {self.processes[name].exitcode}: {said}"

    def __enter__(self) -> Self:
        for name in self.roles:
            self.start(name)
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()

    def acknowledged(self) -> int:
        return sum(len(self.log(name).lines("ack")) for name in self.roles)

    def groups(self) -> Counter[int]:
        """How many acknowledged commits were made in groups of each size."""
        return Counter(int(line[3]) for name in self.roles for line in self.log(name).lines("ack"))

    def torment(self, *, goal: int, kills: int, pauses: int, seconds: float, seed: int) -> None:
        """Kill and stop processes at random moments until so much has happened, then let all of them end."""
        chance = random.Random(seed)
        stopped: dict[str, float] = {}
        until = time.monotonic() + seconds
        while not self._is_enough(goal, kills, pauses):
            assert time.monotonic() < until, f"{self.acknowledged()} commits, groups: {self.groups()}"
            time.sleep(chance.uniform(0.02, 0.3))
            for name in [name for name, moment in stopped.items() if moment < time.monotonic()]:
                del stopped[name]
                self.send(name, signal.SIGCONT)
            name = chance.choice(list(self.roles))
            # All along the way, not only while the processes start.
            progress = min(self.acknowledged() / goal, 1)
            if name in stopped or self.kills + self.stops > (kills + pauses) * progress:
                continue
            if self.stops < pauses * progress:
                self.send(name, signal.SIGSTOP)
                stopped[name] = time.monotonic() + chance.expovariate(1)
                self.stops += 1
            else:
                self.send(name, signal.SIGKILL)
                self.processes[name].join()
                self.kills += 1
                self.start(name)
        for name in stopped:
            self.send(name, signal.SIGCONT)
        (self.folder / "stop").touch()
        for name, process in self.processes.items():
            process.join(240)
            assert process.exitcode == 0, self._fault(name)

    def _is_enough(self, goal: int, kills: int, pauses: int) -> bool:
        if self.kills < kills or self.stops < pauses or self.acknowledged() < goal:
            return False
        return self._is_apart or any(size > 1 for size in self.groups())

    @property
    def _is_apart(self) -> bool:
        """Whether commits are made one by one, as on a disk."""
        return self.url.startswith("file:")

    def check(self, dataset: lode.Dataset) -> str:
        """Check the rows, the history and the keys; returns what happened, in numbers."""
        rows = dataset.scan().read_all().to_pylist()
        found = Counter((row["name"], row["number"]) for row in rows)
        assert set(found.values()) <= {1}, [row for row, count in found.items() if count > 1]
        for name, role in self.roles.items():
            written = {number for other, number in found if other == name}
            CHECKS.get(role, nothing)(self.log(name), written)
        snapshots = dataset.snapshots()
        assert [snapshot.sequence for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
        keys = [snapshot.manifest.idempotency for snapshot in snapshots if snapshot.manifest.idempotency]
        assert len(keys) == len(set(keys))
        committed = {snapshot.id for snapshot in snapshots}
        for name in self.roles:
            assert {line[2] for line in self.log(name).lines("ack")} <= committed
        assert lode.verify(dataset).problems == ()
        groups = Counter(snapshot.manifest.group.size for snapshot in snapshots)
        if not self._is_apart:
            assert any(size > 1 for size in groups)
        again = Counter(line[2] for name in self.roles for line in self.log(name).lines("again"))
        refused = sum(len(self.log(name).lines("refused")) for name in self.roles)
        return (
            f"{self.acknowledged()} acknowledged of {len(snapshots)} commits, {refused} refused, "
            f"{self.kills} kills, {self.stops} stops, repeated after {dict(again)}, "
            f"commits by size of group {dict(sorted(groups.items()))}"
        )


def keyed(log: Log, written: set[int]) -> None:
    """All that was acknowledged is there; besides, at most the one whose acknowledgement was cut off."""
    acknowledged = set(log.numbers("ack"))
    assert acknowledged == set(range(len(acknowledged)))
    assert acknowledged <= written <= acknowledged | {len(acknowledged)}


def unkeyed(log: Log, written: set[int]) -> None:
    """All that was acknowledged is there, and nothing that was refused."""
    assert set(log.numbers("ack")) <= written
    assert not written & set(log.numbers("refused"))
    assert written <= set(log.numbers("begin"))


def deleted(log: Log, written: set[int]) -> None:
    """Nothing that was deleted is there."""
    acknowledged, gone = set(log.numbers("ack")), set(log.numbers("deleted"))
    assert not written & gone
    assert written <= (acknowledged | {len(acknowledged)}) - gone


def nothing(_: Log, written: set[int]) -> None:
    """A process that writes no rows."""
    assert not written


CHECKS = {"append": keyed, "own": keyed, "rival": unkeyed, "delete": deleted}


def crowd(url: str, options: dict[str, Any], folder: Path, writers: int, others: tuple[str, ...]) -> Crowd:
    roles = {f"w{number:02}": WRITERS[number % len(WRITERS)] for number in range(writers)}
    return Crowd(url, options, folder, roles | {name: name for name in others})


def through_faults(
    server: S3Server, bucket: str, folder: Path, writers: int, seed: int, **torment: Any
) -> str:
    url = server.create(bucket)
    opened(url, server.options).write([{"part": SHARED, "name": "first", "number": 0}])
    with Proxy(server.port, faults(seed)) as proxy:
        options = {**server.options, "endpoint": f"http://127.0.0.1:{proxy.port}"}
        with crowd(url, options, folder, writers, OTHERS) as members:
            members.torment(seed=seed, **torment)
    return members.check(opened(url, server.options))


@pytest.mark.slow
def test_sixteen_processes_on_a_faulty_s3_server_lose_and_double_nothing(
    s3_server: S3Server, tmp_path: Path, record_property: Any
) -> None:
    happened = through_faults(s3_server, "crowd", tmp_path, 12, 1, goal=60, kills=12, pauses=12, seconds=600)
    record_property("crowd", happened)
    print(happened)


@pytest.mark.slow
def test_sixteen_processes_on_a_disk_lose_and_double_nothing(tmp_path: Path, record_property: Any) -> None:
    url = f"file://{tmp_path}/lake?durable=false"
    opened(url, {}).write([{"part": SHARED, "name": "first", "number": 0}])
    with crowd(url, {}, tmp_path, 12, OTHERS) as members:
        members.torment(goal=200, kills=12, pauses=12, seconds=600, seed=2)
    happened = members.check(opened(url, {}))
    record_property("crowd", happened)
    print(happened)


@pytest.mark.slow
def test_eight_processes_fill_a_volume_on_a_faulty_s3_server_in_groups(
    s3_server: S3Server, tmp_path: Path, record_property: Any
) -> None:
    url = s3_server.create("volumes")
    roles = {f"w{number}": "stripe" for number in range(STRIPES)}
    with Proxy(s3_server.port, faults(7)) as proxy:
        options = {**s3_server.options, "endpoint": f"http://127.0.0.1:{proxy.port}"}
        with Crowd(url, options, tmp_path, roles) as members:
            members.torment(goal=60, kills=6, pauses=6, seconds=600, seed=7)
    volume = opened_volume(url, s3_server.options)
    head = volume.latest()
    written = {(block.offset, block.length) for block in head.blocks}
    assert len(written) == len(head.blocks)
    for name in roles:
        for number in members.log(name).numbers("ack"):
            offset, data = block_of(name, number)
            assert (offset, len(data)) in written
            assert volume.read_at(head, offset, len(data)) == data
    snapshots = volume.snapshots()
    assert [snapshot.sequence for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    assert lode.verify(volume).problems == ()
    groups = Counter(snapshot.manifest.group.size for snapshot in snapshots)
    assert max(groups) > 1
    happened = (
        f"{members.acknowledged()} acknowledged of {len(snapshots)}, {members.kills} kills, {dict(groups)}"
    )
    record_property("crowd", happened)
    print(happened)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_sixty_four_processes_on_a_faulty_s3_server_lose_and_double_nothing(
    s3_server: S3Server, tmp_path: Path, record_property: Any, seed: int
) -> None:
    happened = through_faults(
        s3_server, f"crowd-{seed}", tmp_path, 60, seed, goal=300, kills=60, pauses=60, seconds=3600
    )
    record_property("crowd", happened)
    print(happened)
