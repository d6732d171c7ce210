"""Opening logs whose files were truncated, extended, exchanged, or have flipped bits."""

from __future__ import annotations

import os
import pickle
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lode.ingest.log.record import LogDamaged, LogIncomplete
from lode.ingest.log.stream_log import StreamLog
from support.ingest.logs import FACTS, batch, holds_its_rows, numbers, segments

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def without_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip syncs: only the content of the files matters here, and thousands of syncs would be slow."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)


class Step(NamedTuple):
    """A log after one more append or mark: the end of its newest segment, and its content."""

    size: int
    end: int
    marks: dict[str, Any]


def made(directory: Path, *, appends: int = 6, segment_bytes: int = 1 << 20) -> list[Step]:
    """A log of some appends with a mark in the middle, and its steps; the first is its creation."""
    log = StreamLog.create(directory, FACTS, segment_bytes=segment_bytes)
    steps = [Step(log.bytes, 0, {})]
    for number in range(appends):
        if number == appends // 2:
            log.mark("finalized", True)
            steps.append(Step(log.bytes, log.end, log.marks))
        log.append([batch(log.end, number % 4 + 1)])
        steps.append(Step(log.bytes, log.end, log.marks))
    log.close()
    return steps


def rewrite(path: Path, content: bytes | bytearray) -> None:
    """Write in place: some file systems sync a truncated file when it is closed."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


def flip(path: Path, position: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ (1 << bit)]))


def goes_on(directory: Path) -> bool:
    """Whether a log accepts another append and has all its rows after that."""
    log = StreamLog.open(directory)
    log.append([batch(log.end, 2)])
    log.close()
    return holds_its_rows(StreamLog.open(directory))


def test_a_truncated_log_has_exactly_the_records_before_the_cut(tmp_path: Path) -> None:
    steps = made(tmp_path / "log")
    path = segments(tmp_path / "log")[0]
    content = path.read_bytes()
    assert len(content) == steps[-1].size
    for cut in range(len(content)):
        rewrite(path, content[:cut])
        whole = [step for step in steps if step.size <= cut]
        if not whole:
            with pytest.raises(LogIncomplete):
                StreamLog.open(tmp_path / "log")
            continue
        log = StreamLog.open(tmp_path / "log")
        assert (log.bytes, log.end, log.marks) == whole[-1]
        assert path.stat().st_size == log.bytes
        if cut % 5 == 0:
            assert holds_its_rows(log)
            assert goes_on(tmp_path / "log")


@pytest.mark.parametrize(
    "filling", [b"\0" * 10_000, b"\xff" * 77, b"\xa7Lo\x9c" * 500], ids=["0", "ff", "magic"]
)
def test_bytes_after_the_last_record_are_cut_off(tmp_path: Path, filling: bytes) -> None:
    steps = made(tmp_path)
    path = segments(tmp_path)[0]
    content = path.read_bytes()
    for step in steps:
        rewrite(path, content[: step.size] + filling)
        log = StreamLog.open(tmp_path)
        assert (log.bytes, log.end, log.marks) == step
        assert path.stat().st_size == step.size
    assert goes_on(tmp_path)


def test_a_flipped_bit_in_the_newest_segment_is_damage_unless_nothing_follows_it(tmp_path: Path) -> None:
    steps = made(tmp_path / "log")
    path = segments(tmp_path / "log")[0]
    content = path.read_bytes()
    for position in range(len(content)):
        flip(path, position, position % 8)
        before = [step for step in steps if step.size <= position]
        if len(before) < len(steps) - 1:
            with pytest.raises(LogDamaged, match=f"{path.name} is damaged at byte") as caught:
                StreamLog.open(tmp_path / "log")
            assert caught.value.path == path
            assert caught.value.position == (before[-1].size if before else 0)
            assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
            assert path.stat().st_size == len(content), "a damaged log is left as it is"
        else:
            log = StreamLog.open(tmp_path / "log")
            assert (log.bytes, log.end, log.marks) == before[-1]
        rewrite(path, content)


def test_an_older_segment_that_is_cut_is_damage(tmp_path: Path) -> None:
    made(tmp_path, appends=8, segment_bytes=800)
    oldest = segments(tmp_path)[0]
    content = oldest.read_bytes()
    for cut in range(len(content)):
        rewrite(oldest, content[:cut])
        with pytest.raises(LogDamaged, match=f"{oldest.name} is damaged .* without a seal") as caught:
            StreamLog.open(tmp_path)
        assert (caught.value.path, caught.value.position) == (oldest, cut)


def test_a_flipped_bit_in_an_older_segment_is_never_read_as_rows(tmp_path: Path) -> None:
    made(tmp_path, appends=8, segment_bytes=800)
    oldest, following = segments(tmp_path)[:2]
    content = oldest.read_bytes()
    rows = range(int(following.stem))
    noticed = 0
    for position in range(len(content)):
        flip(oldest, position, position % 8)
        try:
            assert numbers(StreamLog.open(tmp_path), 0, rows.stop) == list(rows)
        except LogDamaged:
            noticed += 1
        rewrite(oldest, content)
    # Its facts are not checked, as every segment repeats them.
    assert noticed > len(content) - 200


def test_damage_in_an_older_segment_leaves_the_rows_of_others_readable(tmp_path: Path) -> None:
    made(tmp_path, appends=20, segment_bytes=800)
    first, second, third = segments(tmp_path)[:3]
    flip(second, second.stat().st_size // 2, 0)
    log = StreamLog.open(tmp_path)
    assert numbers(log, 0, int(second.stem)) == list(range(int(second.stem)))
    assert numbers(log, int(third.stem), log.end) == list(range(int(third.stem), log.end))
    with pytest.raises(LogDamaged, match=second.name):
        numbers(log)
    assert first.exists()


def test_a_missing_segment_is_damage(tmp_path: Path) -> None:
    made(tmp_path, appends=20, segment_bytes=800)
    first, second = segments(tmp_path)[:2]
    second.unlink()
    with pytest.raises(
        LogDamaged, match=f"{first.name} .* the segment of row {int(second.stem)} should follow"
    ):
        StreamLog.open(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xa7Lo", b"\0" * 5000], ids=["empty", "short", "zeros"])
def test_a_newest_segment_without_a_head_is_ignored(tmp_path: Path, content: bytes) -> None:
    made(tmp_path, appends=20, segment_bytes=800)
    before = StreamLog.open(tmp_path)
    newest = tmp_path / f"{before.end:020}.log"
    newest.write_bytes(content)
    log = StreamLog.open(tmp_path)
    assert (log.end, log.marks, log.bytes) == (before.end, before.marks, before.bytes)
    assert not newest.exists()
    assert goes_on(tmp_path)


def test_a_first_segment_of_zeros_is_incomplete(tmp_path: Path) -> None:
    made(tmp_path)
    segments(tmp_path)[0].write_bytes(bytes(4096))
    with pytest.raises(LogIncomplete):
        StreamLog.open(tmp_path)


def test_a_trimmed_log_without_a_head_is_damage(tmp_path: Path) -> None:
    made(tmp_path, appends=20, segment_bytes=800)
    for path in segments(tmp_path)[:-1]:
        path.unlink()
    segments(tmp_path)[0].write_bytes(b"")
    with pytest.raises(LogDamaged, match="no head"):
        StreamLog.open(tmp_path)


def test_records_of_another_log_are_not_accepted(tmp_path: Path) -> None:
    made(tmp_path / "one")
    steps = made(tmp_path / "two")
    one, two = segments(tmp_path / "one")[0], segments(tmp_path / "two")[0]
    assert one.stat().st_size == two.stat().st_size
    two.write_bytes(two.read_bytes()[: steps[3].size] + one.read_bytes()[steps[3].size :])
    assert StreamLog.open(tmp_path / "two").end == steps[3].end


def test_a_record_at_another_position_is_not_accepted(tmp_path: Path) -> None:
    log = StreamLog.create(tmp_path, FACTS)
    before = log.bytes
    log.mark("flushed", 1)
    after = log.bytes
    log.mark("flushed", 2)
    log.close()
    path = segments(tmp_path)[0]
    content = path.read_bytes()
    rewrite(path, content + content[before:after])
    assert StreamLog.open(tmp_path).marks == {"flushed": 2}


@pytest.mark.parametrize("distance", [-64, -48, -8, 0, 8])
def test_a_valid_record_is_found_far_after_an_invalid_one(tmp_path: Path, distance: int) -> None:
    """The search reads a megabyte at a time, and a header may cross the boundary."""
    log = StreamLog.create(tmp_path, FACTS)
    bad = log.bytes
    log.append([pa.record_batch([pa.array([b"x" * 1000])], ["bytes"])])
    missing = (1 << 20) + 8 + distance - (log.bytes - bad)
    log.remove()
    log = StreamLog.create(tmp_path, FACTS)
    log.append([pa.record_batch([pa.array([b"x" * (1000 + missing)])], ["bytes"])])
    assert log.bytes - bad == (1 << 20) + 8 + distance
    log.mark("finalized", True)
    log.close()
    flip(segments(tmp_path)[0], bad + 100, 0)
    with pytest.raises(LogDamaged, match=f"at byte {bad}"):
        StreamLog.open(tmp_path)


def test_an_unfinished_record_whose_rows_contain_a_log_is_not_damage(tmp_path: Path) -> None:
    steps = made(tmp_path)
    path = segments(tmp_path)[0]
    log = StreamLog.open(tmp_path)
    log.append([pa.record_batch({"bytes": pa.array([path.read_bytes()])})])
    log.close()
    flip(path, steps[-1].size, 0)
    assert StreamLog.open(tmp_path).end == steps[-1].end


def test_an_append_with_only_its_later_records_on_disk_is_not_damage(tmp_path: Path) -> None:
    log = StreamLog.create(tmp_path, FACTS)
    log.append([batch(0, 3)])
    before = log.bytes
    log.append([batch(3, 3), batch(6, 3), batch(9, 3)])
    log.close()
    flip(segments(tmp_path)[0], before + 70, 0)
    assert (StreamLog.open(tmp_path).end, StreamLog.open(tmp_path).bytes) == (3, before)
    assert goes_on(tmp_path)


def test_a_log_that_was_never_synced_ends_before_its_first_invalid_record(tmp_path: Path) -> None:
    log = StreamLog.create(tmp_path, FACTS, durable=False)
    log.append([batch(0, 3)])
    before = log.bytes
    log.append([batch(3, 3)])
    log.append([batch(6, 3)])
    log.close()
    flip(segments(tmp_path)[0], before + 70, 0)
    assert StreamLog.open(tmp_path).end == 3
    assert goes_on(tmp_path)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_earlier_rows_survive_a_power_failure_during_an_append(tmp_path: Path, data: st.DataObject) -> None:
    """Blocks that were written after the last sync reach the disk in any order, as zeros, or not at all."""
    directory = tmp_path / "log"
    shutil.rmtree(directory, ignore_errors=True)
    sizes = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=5), label="last append")
    block = data.draw(st.sampled_from([8, 64, 512]), label="block")
    made(directory, appends=data.draw(st.integers(0, 3), label="appends"))
    log = StreamLog.open(directory)
    synced, start = log.bytes, log.end
    log.append([batch(start + sum(sizes[:at]), size) for at, size in enumerate(sizes)])
    log.close()
    path = segments(directory)[0]
    written = path.read_bytes()

    torn = bytearray(written[:synced])
    # Blocks are aligned in the file: the first may contain synced bytes, which it keeps.
    blocks = range(synced - synced % block, len(written), block)
    fates = data.draw(st.binary(min_size=len(blocks), max_size=len(blocks)), label="fates")
    for at, fate in zip(blocks, fates, strict=True):
        part = written[max(at, synced) : at + block]
        torn += part if fate % 4 else bytes(len(part))
    length = data.draw(st.integers(synced, len(torn)) | st.just(len(torn)), label="length")
    rewrite(path, torn[:length])

    log = StreamLog.open(directory)
    ends = [start + sum(sizes[:at]) for at in range(len(sizes) + 1)]
    assert log.end in ends
    assert holds_its_rows(log)
    if torn[:length] == written:
        assert log.end == ends[-1]
    assert goes_on(directory)
