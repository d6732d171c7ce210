"""Processes that are killed during appends, and the memory of a process that reads."""

from __future__ import annotations

import random
import subprocess
import sys
from multiprocessing import get_context
from typing import TYPE_CHECKING

from lode.ingest.log.stream_log import StreamLog
from support import SUPPORT
from support.ingest.log_driver import append_until_killed, open_kept
from support.ingest.logs import FACTS, holds_its_rows

if TYPE_CHECKING:
    from pathlib import Path

DRIVER = SUPPORT / "ingest" / "log_driver.py"


def test_all_acknowledged_rows_are_there_after_kills(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    StreamLog.create(directory, FACTS)
    # Forked from a server that has imported all modules, also those that pyarrow imports late.
    context = get_context("forkserver")
    context.set_forkserver_preload(["pandas", "pyarrow.ipc", "lode.ingest.log.stream_log"])
    chance = random.Random(7)
    end = 0
    for seed in range(20):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=append_until_killed, args=(str(directory), seed, theirs))
        process.start()
        theirs.close()
        acknowledged = [ours.recv() for _ in range(chance.randint(1, 12))]
        # At a random moment of the next append.
        ours.poll(chance.uniform(0, 0.003))
        process.kill()
        process.join()
        try:
            while True:
                acknowledged.append(ours.recv())
        except EOFError:
            ours.close()

        start, acknowledged_end, marked = acknowledged[-1]
        log = open_kept(directory)
        assert log.end >= acknowledged_end > end
        assert log.start >= start
        assert log.marks.get("ended", 0) >= (marked or 0)
        assert log.facts == FACTS
        assert holds_its_rows(log)
        end = log.end


def test_reading_a_big_log_takes_no_more_memory_than_a_record(tmp_path: Path) -> None:
    command = [sys.executable, str(DRIVER), str(tmp_path / "log"), "200"]
    grown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    assert int(grown) < 16, "a record has 2.3 MB"
