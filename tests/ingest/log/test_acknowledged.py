"""Opening logs with an acknowledged length: a log that is shorter is damaged, others are not."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lode.ingest.log.acknowledged import SIZE, read_acknowledged
from lode.ingest.log.record import LogDamaged
from lode.ingest.log.stream_log import StreamLog
from support.ingest.logs import FACTS, batch, holds_its_rows, segments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip syncs: only the content of the files matters here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)


class Kept:
    """A log in ``log`` with its acknowledged length in ``length``."""

    def __init__(self, directory: Path, *, segment_bytes: int = 1 << 20) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory / "log"
        self.length = directory / "length"
        self.segment_bytes = segment_bytes

    def create(self) -> StreamLog:
        return StreamLog.create(
            self.directory, FACTS, acknowledged=self.length, segment_bytes=self.segment_bytes
        )

    def open(self) -> StreamLog:
        return StreamLog.open(self.directory, acknowledged=self.length, segment_bytes=self.segment_bytes)

    def fill(self, appends: int = 4) -> StreamLog:
        """A log of some appends, with a mark before the last."""
        log = self.create()
        for number in range(appends):
            if number == appends - 1:
                log.mark("finalized", True)
            log.append([batch(log.end, number % 4 + 1)])
        log.close()
        return log

    @property
    def newest(self) -> Path:
        return segments(self.directory)[-1]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def refusal(kept: Kept) -> LogDamaged:
    with pytest.raises(LogDamaged) as caught:
        kept.open()
    return caught.value


def test_a_log_cut_anywhere_is_damaged_and_left_as_it_is(kept: Kept) -> None:
    log = kept.fill()
    content = kept.newest.read_bytes()
    for cut in range(len(content)):
        kept.newest.write_bytes(content[:cut])
        found = refusal(kept)
        assert kept.newest.read_bytes() == content[:cut]
        assert found.path == kept.newest
        assert f"acknowledged up to row {log.end}, at byte {len(content)}" in str(found)
        assert found.position <= cut
    kept.newest.write_bytes(content)
    assert holds_its_rows(kept.open())


def test_a_flipped_bit_is_damage_also_in_the_last_record(kept: Kept) -> None:
    kept.fill()
    content = kept.newest.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        kept.newest.write_bytes(changed)
        refusal(kept)
    kept.newest.write_bytes(content)
    assert holds_its_rows(kept.open())


def empty(kept: Kept) -> None:
    kept.newest.write_bytes(b"")


def fill_with_zeros(kept: Kept) -> None:
    kept.newest.write_bytes(bytes(kept.newest.stat().st_size))


def delete(kept: Kept) -> None:
    kept.newest.unlink()


def delete_all(kept: Kept) -> None:
    for path in segments(kept.directory):
        path.unlink()


@pytest.mark.parametrize("segment_bytes", [1 << 20, 800], ids=["one segment", "several"])
@pytest.mark.parametrize("harm", [empty, fill_with_zeros, delete, delete_all])
def test_a_log_without_its_newest_segment_is_damaged(
    tmp_path: Path, harm: Callable[[Kept], None], segment_bytes: int
) -> None:
    kept = Kept(tmp_path, segment_bytes=segment_bytes)
    log = kept.fill(12)
    harm(kept)
    before = {path: path.read_bytes() for path in segments(kept.directory)}
    assert f"acknowledged up to row {log.end}" in str(refusal(kept))
    assert {path: path.read_bytes() for path in segments(kept.directory)} == before


def test_an_older_copy_of_a_log_is_damaged(kept: Kept, tmp_path: Path) -> None:
    log = kept.fill()
    for number in range(3):
        shutil.copytree(kept.directory, tmp_path / f"copy {number}")
        log.append([batch(log.end, 2)])
    log.close()
    for number in range(3):
        shutil.rmtree(kept.directory)
        shutil.copytree(tmp_path / f"copy {number}", kept.directory)
        assert f"acknowledged up to row {log.end}" in str(refusal(kept))


def test_another_log_in_its_place_is_damaged(kept: Kept, tmp_path: Path) -> None:
    kept.fill()
    Kept(tmp_path / "other").fill(9)
    shutil.rmtree(kept.directory)
    shutil.copytree(tmp_path / "other" / "log", kept.directory)
    assert "belongs to another log" in str(refusal(kept))


def test_a_mark_that_was_acknowledged_and_cut_off_is_damage(kept: Kept) -> None:
    log = kept.fill()
    before = log.bytes
    log.mark("flushed", 3)
    log.close()
    os.truncate(kept.newest, before)
    refusal(kept)


def test_the_remains_of_an_unacknowledged_append_are_cut_off_without_an_error(kept: Kept) -> None:
    log = kept.fill()
    end, whole = log.end, log.bytes
    acknowledged = kept.length.read_bytes()
    log.append([batch(end, 3), batch(end + 3, 30)])
    log.close()
    content = kept.newest.read_bytes()
    for cut in range(whole, len(content)):
        kept.newest.write_bytes(content[:cut])
        kept.length.write_bytes(acknowledged)
        again = kept.open()
        assert again.end in (end, end + 3)
        assert holds_its_rows(again)


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "mark", "trim", "empty", "reopen"]), st.integers(1, 12)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, segment_bytes=st.sampled_from([300, 800, 1 << 20]))
def test_an_old_length_after_a_power_failure_never_makes_a_log_damaged(
    tmp_path: Path, steps: list[tuple[str, int]], segment_bytes: int
) -> None:
    """The length is not synced, so any earlier version of it may be on the disk, or none."""
    shutil.rmtree(tmp_path / "kept", ignore_errors=True)
    kept = Kept(tmp_path / "kept", segment_bytes=segment_bytes)
    log = kept.create()
    lengths = [b"", kept.length.read_bytes()]
    for step, size in steps:
        match step:
            case "append":
                log.append([batch(log.end, size)])
            case "mark":
                log.mark("flushed", "x" * size)
            case "trim":
                log.trim(min(log.end, log.start + size))
            case "empty":
                log.trim(log.end, to_nothing=True)
            case "reopen":
                log.close()
                log = kept.open()
        lengths.append(kept.length.read_bytes())
    log.close()
    # A segment without rows may be replaced by a smaller one; the length is synced before that.
    for length in lengths:
        found = None
        if length:
            kept.length.write_bytes(length)
            found = read_acknowledged(kept.length)
            assert found is not None
        newest = segments(kept.directory)[-1]
        if found is not None and found.first == int(newest.stem) and found.size > newest.stat().st_size:
            assert found.end == found.first, "only a segment without rows is replaced"
            continue
        kept.length.write_bytes(length)
        assert kept.open().end == log.end


class Killed(BaseException):
    """The process is killed at this call."""


CALLS = ("pwritev", "pwrite", "replace", "unlink", "ftruncate")


def die_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Kill the process at the n-th call that changes a file: before it, or halfway through a write."""
    left = [number]

    def wrap(name: str) -> None:
        real: Any = getattr(os, name)

        def call(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                if name == "pwritev":
                    descriptor, pieces, position = arguments
                    whole = b"".join(pieces)
                    os.pwrite(descriptor, whole[: len(whole) // 2], position)
                raise Killed
            if left[0] < 0:
                raise Killed
            return real(*arguments)

        monkeypatch.setattr(os, name, call)

    for name in CALLS:
        wrap(name)


def live(kept: Kept, acknowledged: list[tuple[int, Any]]) -> None:
    """A series of changes of a log, of every kind."""
    log = kept.create()
    acknowledged.append((0, None))
    for number in range(6):
        log.append([batch(log.end, 4), batch(log.end + 4, 5)])
        acknowledged.append((log.end, log.marks.get("flushed")))
        log.mark("flushed", number)
        acknowledged.append((log.end, number))
        if number == 3:
            log.trim(log.end, to_nothing=True)
            for _ in range(8):
                log.mark("flushed", number)
    log.close()


def test_acknowledged_rows_survive_a_kill_at_any_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = 0
    while True:
        deaths += 1
        kept = Kept(tmp_path / str(deaths), segment_bytes=600)
        acknowledged: list[tuple[int, Any]] = []
        with monkeypatch.context() as dying:
            die_at(dying, deaths)
            try:
                live(kept, acknowledged)
                break
            except Killed:
                pass
        if not acknowledged:
            continue
        log = kept.open()
        assert log.end >= acknowledged[-1][0]
        assert log.marks.get("flushed") in {acknowledged[-1][1], *range(6)}
        assert holds_its_rows(log)
        log.append([batch(log.end, 3)])
        log.close()
        assert holds_its_rows(kept.open())
    assert deaths > 40


def test_a_log_without_a_length_gets_one_when_it_is_opened(kept: Kept) -> None:
    log = StreamLog.create(kept.directory, FACTS)
    log.append([batch(0, 3)])
    log.close()
    assert kept.open().end == 3
    empty(kept)
    assert "acknowledged up to row 3" in str(refusal(kept))


@pytest.mark.parametrize("content", [b"", bytes(SIZE), b"x" * SIZE, b"\xa7Ln\x9c"])
def test_an_invalid_length_is_written_again(kept: Kept, content: bytes) -> None:
    log = kept.fill()
    kept.length.write_bytes(content)
    assert kept.open().end == log.end
    found = read_acknowledged(kept.length)
    assert found is not None
    assert found.end == log.end


def test_a_removed_log_leaves_no_length(kept: Kept) -> None:
    kept.fill().remove()
    assert not kept.length.exists()


def test_an_append_is_not_stored_if_its_length_cannot_be_written(kept: Kept) -> None:
    log = kept.fill()
    end, size = log.end, log.bytes
    length = kept.length.read_bytes()
    kept.length.unlink()
    kept.length.mkdir()
    with pytest.raises(IsADirectoryError):
        log.append([batch(end, 3)])
    assert (log.end, kept.newest.stat().st_size) == (end, size)
    kept.length.rmdir()
    kept.length.write_bytes(length)
    assert log.append([batch(end, 3)]) == end
    assert holds_its_rows(kept.open())
