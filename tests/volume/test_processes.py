"""Eight real processes fill one volume without an error, and kill -9 loses only uncommitted blocks."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from typing import TYPE_CHECKING

import lode
from support import SUPPORT
from support.volume.striper import content, fill_and_die
from support.volume.striper import main as fill

if TYPE_CHECKING:
    from pathlib import Path

STRIPER = SUPPORT / "volume" / "striper.py"


def start(url: str, *arguments: object, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        command = [sys.executable, str(STRIPER), url, *map(str, arguments)]
        return subprocess.Popen(command, stdout=output)


def acknowledged(log: Path) -> list[tuple[int, int, str]]:
    """The complete lines of a log: a truncated line was never acknowledged."""
    lines = [line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(int(at), int(until), id) for at, until, id in lines]


def is_whole(url: str, length: int) -> lode.VolumeSnapshot:
    """Check every byte, and that history is linear."""
    volume = lode.Volume("v", url, length)
    head = volume.latest()
    assert volume.is_complete(head)
    assert volume.read_at(head, 0, length, verify=True) == content(0, length)
    snapshots = volume.snapshots()
    assert [snapshot.sequence for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    return head


def test_eight_processes_each_fill_their_stripe_of_one_volume_without_an_error(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/lake?durable=false"
    stripe, pieces = 20_000, 20
    length = 8 * stripe
    logs = [tmp_path / f"{number}.log" for number in range(8)]
    group = [
        start(url, length, number * stripe, (number + 1) * stripe, stripe // pieces, log=log)
        for number, log in enumerate(logs)
    ]
    assert [process.wait(timeout=600) for process in group] == [0] * 8
    head = is_whole(url, length)
    assert len(head.blocks) == head.sequence == 8 * pieces
    assert sum(len(acknowledged(log)) for log in logs) == 8 * pieces


def test_kill_9_at_any_store_call_of_staging_and_committing_is_resumed_by_the_next_process(
    tmp_path: Path,
) -> None:
    """The block is large enough to be uploaded in parts, so that the process also dies during an upload."""
    length, piece = 6 << 20, 5 << 20
    processes = get_context("forkserver")
    processes.set_forkserver_preload(["lode"])
    deaths = 0
    while True:
        url = f"file://{tmp_path}/{deaths}?durable=false"
        dying = processes.Process(target=fill_and_die, args=(url, length, piece, deaths + 1))
        dying.start()
        dying.join(timeout=60)
        fill(lode.open_store(url), length, 0, length, piece)
        assert len(is_whole(url, length).blocks) == 2
        if dying.exitcode == 0:
            break
        assert dying.exitcode == -signal.SIGKILL
        deaths += 1
    assert deaths > 10, "staging and committing two blocks takes more calls than that"


def test_kill_9_at_random_moments_loses_no_acknowledged_block(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/lake?durable=false"
    stripe, piece = 1_500_000, 5_000
    length = 3 * stripe
    chance = random.Random(4)
    logs = [tmp_path / f"{number}.log" for number in range(3)]

    def begin(number: int) -> subprocess.Popen[bytes]:
        return start(url, length, number * stripe, (number + 1) * stripe, piece, log=logs[number])

    group = [begin(number) for number in range(3)]
    kills = 0
    while kills < 15 and any(process.poll() is None for process in group):
        victim = chance.choice(range(3))
        # By what it has done, so that it is neither before its start nor after its end on a busy machine.
        goal = len(acknowledged(logs[victim])) + chance.randrange(30)
        while group[victim].poll() is None and len(acknowledged(logs[victim])) < goal:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.01))
        if group[victim].poll() is None:
            group[victim].kill()
            group[victim].wait()
            # What is cut short would run into the next line.
            text = logs[victim].read_text()
            logs[victim].write_text(text[: text.rfind("\n") + 1])
            group[victim] = begin(victim)
            kills += 1
    assert [process.wait(timeout=600) for process in group] == [0, 0, 0]
    assert kills >= 2
    head = is_whole(url, length)
    blocks = {(block.offset, block.end) for block in head.blocks}
    for log in logs:
        assert {(at, until) for at, until, _ in acknowledged(log)} <= blocks
