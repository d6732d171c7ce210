"""The order of writes and syncs, in place of a power failure, which a test cannot have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lode.ingest.log.stream_log import StreamLog
from support.ingest.logs import FACTS, batch, segments

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST = f"{0:020}.log"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The calls that change or sync files, with the names of the files, in order."""
    found: list[tuple[str, str]] = []
    real: dict[str, Any] = {name: getattr(os, name) for name in ("fsync", "fdatasync", "pwritev", "replace")}

    def name_of(descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    def sync(descriptor: int) -> None:
        found.append(("sync", name_of(descriptor)))
        real["fdatasync"](descriptor)

    def write(descriptor: int, pieces: Sequence[Any], position: int) -> int:
        found.append(("write", name_of(descriptor)))
        return int(real["pwritev"](descriptor, pieces, position))

    def replace(source: Path, target: Path) -> None:
        found.append(("name", target.name))
        real["replace"](source, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync)
    monkeypatch.setattr(os, "pwritev", write)
    monkeypatch.setattr(os, "replace", replace)
    return found


def test_a_new_log_is_synced_before_its_rename_and_the_directory_after_it(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    StreamLog.create(tmp_path / "above" / "log", FACTS)
    assert calls == [
        ("sync", "above"),
        ("sync", tmp_path.name),
        ("write", "new.tmp"),
        ("sync", "new.tmp"),
        ("name", FIRST),
        ("sync", "log"),
    ]


def test_an_append_of_many_batches_is_one_write_and_one_sync(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    log = StreamLog.create(tmp_path / "log", FACTS)
    calls.clear()
    log.append([batch(first, 1) for first in range(100)])
    assert calls == [("write", FIRST), ("sync", FIRST)]
    log.mark("finalized", True)
    assert calls[2:] == [("write", FIRST), ("sync", FIRST)]
    log.close()


def test_a_segment_is_sealed_before_another_begins(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    log = StreamLog.create(tmp_path / "log", FACTS, segment_bytes=500)
    log.append([batch(0, 20)])
    calls.clear()
    log.append([batch(20, 1)])
    second = f"{20:020}.log"
    assert calls == [
        ("write", FIRST),
        ("sync", FIRST),
        ("write", "new.tmp"),
        ("sync", "new.tmp"),
        ("name", second),
        ("sync", "log"),
        ("write", second),
        ("sync", second),
    ]
    log.close()


def test_opening_a_log_syncs_it(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    """An earlier process may have died between its write and its sync."""
    StreamLog.create(tmp_path / "log", FACTS, durable=False).append([batch(0, 5)])
    calls.clear()
    assert StreamLog.open(tmp_path / "log").end == 5
    assert calls == [("sync", FIRST), ("sync", "log"), ("sync", tmp_path.name)]


def test_a_log_that_is_not_durable_makes_no_syncs(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    log = StreamLog.create(tmp_path / "log", FACTS, durable=False, segment_bytes=500)
    for first in range(0, 60, 20):
        log.append([batch(first, 20)])
    log.mark("finalized", True)
    log.close()
    StreamLog.open(tmp_path / "log", durable=False)
    assert len(segments(tmp_path / "log")) > 2
    assert "sync" not in [call for call, _ in calls]
