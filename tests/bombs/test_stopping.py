"""SIGTERM ends the server and all that it has started, whatever they work on."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final

import pytest

from support.bombs.every import all_bombs
from support.bombs.served import GRACE_SECONDS, Served

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc of Linux")

# Two periods of grace, of gRPC and of HTTP, and some time to stop jobs and save the state.
STOP_SECONDS: Final = 2 * GRACE_SECONDS + 5.0
RUNNING: Final = (
    "load Avro: array of empty fixed",
    "load CSV, detected: equal names",
    "load Parquet: nulls in a list",
    "SQL nesting: nested GREATEST",
    "SQL growth: CROSS JOIN",
    "SQL scripts: an endless loop",
    "append Arrow: views of one text",
    "connections: slow bodies",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNING)
def test_a_server_that_works_on_a_bomb_stops_in_its_grace_time(tmp_path: Path, name: str) -> None:
    bomb = next(each for each in all_bombs() if each.id == name)
    made = bomb.make()
    with Served(tmp_path) as served:
        thrown = threading.Thread(target=bomb.throw, args=(served, made, 30.0))
        thrown.start()
        thrown.join(1.0)  # it runs, unless it was refused
        seconds, left = served.terminate()
        assert not served.is_alive, f"the server still ran after {seconds:.0f} s"
        assert not left
        assert seconds <= STOP_SECONDS
        thrown.join()
