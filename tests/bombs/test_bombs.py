"""Whatever one client sends, the server stays healthy, takes rows of others, and keeps to its memory."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from bombs.chosen import is_quick
from support.bombs.every import all_bombs
from support.bombs.served import LOAD_SECONDS, MIB, QUERY_BYTES

if TYPE_CHECKING:
    from bombs.conftest import Shared
    from support.bombs.bomb import Bomb
    from support.bombs.served import End, Seen, Served

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in /proc of Linux")

HEALTH_SECONDS: Final = 1.0
INSERT_SECONDS: Final = 2.0
# A bomb has the time of a query or a load, and some for a machine that does other work as well.
END_SECONDS: Final = LOAD_SECONDS + 12.0
# The process itself: its modules, two windows of 32 MiB, kept results, two large bodies that are parsed.
SERVER_BYTES: Final = 1024 * MIB
# One process that works for it: the memory of a query, and 512 MiB of its own until it is ended.
CHILD_BYTES: Final = QUERY_BYTES + 576 * MIB
TREE_BYTES: Final = SERVER_BYTES + 4 * CHILD_BYTES
# Two queries, two dry runs, four conditions, two loads.
CHILDREN: Final = 10


def _parameters() -> list[object]:
    # The others prove more of the same.
    return [
        pytest.param(bomb, id=bomb.id, marks=() if is_quick(bomb) else pytest.mark.soak)
        for bomb in all_bombs()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("bomb", _parameters())
def test_a_bomb_harms_only_itself(shared: Shared, bomb: Bomb) -> None:
    # A machine that does other work as well is late by chance, and a bomb each time.
    faults = _thrown(shared, bomb) and _thrown(shared, bomb)
    assert not faults, f"{bomb.id} {faults}"


def _thrown(shared: Shared, bomb: Bomb) -> str:
    """What was wrong with a server at which a bomb was thrown; empty if nothing was."""
    made = bomb.make()
    served = shared.get()
    began = time.monotonic()
    with served.watched() as seen:
        end = bomb.throw(served, made, END_SECONDS)
        seconds = time.monotonic() - began
    faults = [*_faults(seen[0]), *_faults_at_the_end(served, end, seconds)]
    if faults:
        shared.discard()
    return f"ended with {end}: {'; '.join(faults)}" if faults else ""


def _faults(seen: Seen) -> list[str]:
    """What was wrong while the bomb was there."""
    # The watch itself was late on a machine that does other work: the server may be so, too.
    late = 2 * seen.lag
    wrong = {
        f"health took {seen.health} s": seen.health > HEALTH_SECONDS + late,
        f"an insert took {seen.insert} s": seen.insert > INSERT_SECONDS + late,
        f"an append took {seen.append} s": seen.append > INSERT_SECONDS + late,
        f"the server took {seen.own // MIB} MiB": seen.own > SERVER_BYTES,
        f"a process took {seen.largest // MIB} MiB": seen.largest > CHILD_BYTES,
        f"all processes took {seen.tree // MIB} MiB": seen.tree > TREE_BYTES,
        f"{seen.count} processes ran": seen.count > CHILDREN,
        "the guard killed the server": seen.killed,
    }
    return [text for text, is_wrong in wrong.items() if is_wrong]


def _faults_at_the_end(served: Served, end: End, seconds: float) -> list[str]:
    """What is wrong with the end of a bomb, and with the server after it."""
    faults = [end.fault] if end.fault else []
    if end.status == 0:
        faults.append(f"it had no end after {seconds:.0f} s")
    elif end.status in (500, 501) and "not supported" not in end.text:
        faults.append("the server failed")
    if not served.is_alive:
        return [*faults, "the server has ended"]
    after = served.query("SELECT COUNT(*) FROM d.t", timeout=END_SECONDS)
    if after.status != 200:
        faults.append(f"a query after it: {after}")
    return faults
