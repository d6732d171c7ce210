"""Go programs that only read, beside Python writers: no acknowledged write is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from support.real_go import GoProcess

WRITES = 150


def test_no_write_is_lost_while_go_asks_for_the_latest_snapshot(go: GoProcess, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    dataset = lode.Dataset.create("events", lake, codec="jsonl", shared_with_go=True)
    with go.dataset(lake).watching(tmp_path / "stop") as seen:
        written = [dataset.write([{"n": number}]).id for number in range(WRITES)]
    assert [snapshot.id for snapshot in lode.open_dataset("events", lake).snapshots()][1:] == written
    assert seen["calls"] > WRITES
    assert seen["failures"] == {}


def test_no_block_is_lost_while_go_asks_for_the_latest_snapshot(go: GoProcess, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    volume = lode.Volume("disk", lake, WRITES, shared_with_go=True)
    with go.volume(lake, length=WRITES).watching(tmp_path / "stop") as seen:
        written = [volume.commit([volume.stage_write_at(at, b"x")]).id for at in range(WRITES)]
    again = lode.Volume("disk", lake, WRITES)
    assert [snapshot.id for snapshot in again.snapshots()] == written
    assert again.read_at(again.latest(), 0, WRITES) == b"x" * WRITES
    assert seen["calls"] > WRITES
    assert seen["failures"] == {}
