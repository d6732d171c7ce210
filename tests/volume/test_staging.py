"""Staging accepts or refuses a block, and makes nothing visible before a commit."""

from __future__ import annotations

import array
import hashlib
import io
import mmap
import pickle
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.store.local import LocalStore
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore, Fault, FaultStore

if TYPE_CHECKING:
    from pathlib import Path

LENGTH = 100


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def volume(store: CountingStore) -> lode.Volume:
    return lode.Volume("v", store, LENGTH)


class Endless:
    """A source that generates zeros on demand."""

    def __init__(self, length: int) -> None:
        self.left = length
        self.largest = 0

    def read(self, size: int) -> bytes:
        self.largest = max(self.largest, size)
        piece = bytes(min(size, self.left))
        self.left -= len(piece)
        return piece


def test_a_block_is_one_put_under_a_name_with_its_offset(store: CountingStore, volume: lode.Volume) -> None:
    block = volume.stage_write_at(10, b"hello")
    assert dict(store.counts) == {"put": 1}
    assert (block.offset, block.length, block.end, block.checksum) == (10, 5, 15, None)
    assert block.path.startswith("volumes/v/data/10-5-")
    assert block.path.endswith(".bin")
    assert store.get(block.path) == b"hello"


def test_a_staged_block_is_not_visible(volume: lode.Volume) -> None:
    volume.stage_write_at(0, b"x" * LENGTH)
    assert volume.missing() == [(0, LENGTH)]
    assert volume.snapshots() == []
    with pytest.raises(lode.NoSnapshotsError):
        volume.latest()


def test_the_same_range_can_be_staged_again_after_a_writer_died(volume: lode.Volume) -> None:
    first, second = volume.stage_write_at(0, b"abc"), volume.stage_write_at(0, b"abc")
    assert first.path != second.path
    volume.commit([second])


@pytest.mark.parametrize("offset", [-1, LENGTH, LENGTH + 1])
def test_an_offset_outside_is_refused_before_anything_is_stored(
    offset: int, store: CountingStore, volume: lode.Volume
) -> None:
    with pytest.raises(lode.InvalidRangeError, match="outside volume 'v' of 100 bytes"):
        volume.stage_write_at(offset, b"x")
    assert store.total == 0


@pytest.mark.parametrize("source", [b"", bytearray(), io.BytesIO()], ids=["bytes", "bytearray", "reader"])
def test_an_empty_block_is_refused_and_leaves_nothing(
    source: Any, store: CountingStore, volume: lode.Volume
) -> None:
    with pytest.raises(lode.InvalidRangeError, match="empty"):
        volume.stage_write_at(0, source)
    assert list(store.inner.list()) == []


@pytest.mark.parametrize("reader", [False, True], ids=["bytes", "reader"])
def test_a_block_that_reaches_past_the_end_is_refused_and_leaves_nothing(
    reader: bool, store: CountingStore, volume: lode.Volume
) -> None:
    data = b"x" * 11
    with pytest.raises(lode.InvalidRangeError, match="ends at 100"):
        volume.stage_write_at(90, io.BytesIO(data) if reader else data)
    assert list(store.inner.list()) == []


def test_a_block_may_end_exactly_where_the_volume_does(volume: lode.Volume) -> None:
    assert volume.stage_write_at(90, b"x" * 10).end == LENGTH


@pytest.mark.parametrize("wrong", ["text", 7, None, [1, 2]])
def test_a_value_that_is_neither_bytes_nor_a_reader_is_refused(wrong: Any, volume: lode.Volume) -> None:
    with pytest.raises(lode.InvalidOptionError, match="cannot be staged"):
        volume.stage_write_at(0, wrong)


def test_a_file_in_text_mode_is_refused(volume: lode.Volume) -> None:
    text: Any = io.StringIO("text")
    with pytest.raises(lode.InvalidOptionError, match="binary mode"):
        volume.stage_write_at(0, text)


def test_a_non_blocking_source_without_data_is_refused(volume: lode.Volume) -> None:
    class NotReady:
        def read(self, size: int) -> Any:
            return None

    with pytest.raises(lode.InvalidOptionError, match="gave a NoneType"):
        volume.stage_write_at(0, NotReady())


@pytest.mark.parametrize(
    "data",
    [
        bytearray(b"abcd"),
        memoryview(b"abcd"),
        memoryview(b"aXbXcXdX")[::2],
        array.array("H", [0x6261, 0x6463]),
    ],
    ids=["bytearray", "memoryview", "strided", "array"],
)
def test_any_buffer_is_staged_as_its_bytes(data: Any, volume: lode.Volume) -> None:
    snapshot = volume.commit([volume.stage_write_at(3, data)])
    assert volume.read_at(snapshot, 3, 4) == b"abcd"


def test_a_memory_map_is_staged_whole(volume: lode.Volume) -> None:
    with mmap.mmap(-1, 4) as mapped:
        mapped.write(b"abcd")
        snapshot = volume.commit([volume.stage_write_at(0, mapped)])
    assert volume.read_at(snapshot, 0, 4) == b"abcd"


def test_a_reader_is_staged_to_its_end_however_little_it_gives_at_a_time(volume: lode.Volume) -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(1)

    snapshot = volume.commit([volume.stage_write_at(0, Trickle(b"abcdef"))])
    assert volume.read_at(snapshot, 0, 6) == b"abcdef"


def test_a_long_stream_is_staged_in_memory_that_does_not_grow_with_it(tmp_path: Path) -> None:
    length = 200 << 20
    volume = lode.Volume("v", LocalStore(tmp_path, durable=False), length, checksum="xxh3-128")
    source = Endless(length)
    tracemalloc.start()
    block = volume.stage_write_at(0, source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert block.length == length
    assert source.largest <= 1 << 20
    assert peak < 12 << 20


def test_a_stream_that_fails_midway_leaves_nothing(tmp_path: Path) -> None:
    class Broken(Endless):
        def read(self, size: int) -> bytes:
            if self.left < 2 << 20:
                raise ConnectionResetError("gone")
            return super().read(size)

    store = LocalStore(tmp_path, durable=False)
    with pytest.raises(ConnectionResetError):
        lode.Volume("v", store, 16 << 20).stage_write_at(0, Broken(16 << 20))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("length", [3, 5 << 20], ids=["one put", "in pieces"])
def test_a_block_can_be_staged_again_after_a_store_error(length: int) -> None:
    inner = MemoryStore()
    method = "put" if length == 3 else "commit"
    store = FaultStore(inner, Fault(method, "*.bin", error=lode.StoreError("disk full")))
    volume = lode.Volume("v", store, length)
    with pytest.raises(lode.StoreError, match="disk full"):
        volume.stage_write_at(0, b"x" * length)
    assert volume.is_complete(volume.commit([volume.stage_write_at(0, b"x" * length)]))


def test_checksums_are_of_the_blocks_bytes() -> None:
    volume = lode.Volume("v", MemoryStore(), LENGTH, checksum="md5")
    assert volume.stage_write_at(0, b"abc").checksum == hashlib.md5(b"abc").hexdigest()
    assert volume.stage_write_at(0, io.BytesIO(b"abc")).checksum == hashlib.md5(b"abc").hexdigest()


def test_a_block_is_the_same_after_pickling(volume: lode.Volume) -> None:
    block = volume.stage_write_at(0, b"abc")
    assert pickle.loads(pickle.dumps(block)) == block


def test_many_threads_stage_through_one_volume_and_one_commit_takes_all(volume: lode.Volume) -> None:
    with ThreadPoolExecutor(8) as pool:
        blocks = list(pool.map(lambda n: volume.stage_write_at(n, bytes([n])), range(LENGTH)))
    snapshot = volume.commit(blocks)
    assert volume.read_at(snapshot, 0, LENGTH) == bytes(range(LENGTH))


def stage_letter(volume: lode.Volume, offset: int) -> lode.BlockRef:
    return volume.stage_write_at(offset, bytes([97 + offset]))


def test_many_processes_stage_through_a_pickled_volume_and_one_commit_takes_all(tmp_path: Path) -> None:
    volume = lode.Volume("v", LocalStore(tmp_path, durable=False), 26, checksum="md5", retry=lode.Retry(2))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        blocks = list(pool.map(stage_letter, [volume] * 26, range(26)))
    snapshot = volume.commit(reversed(blocks))
    assert volume.read_at(snapshot, 0, 26, verify=True) == b"abcdefghijklmnopqrstuvwxyz"


def test_a_volume_in_memory_cannot_be_pickled() -> None:
    with pytest.raises(lode.UsageError, match="use a file or object store"):
        pickle.dumps(lode.Volume("v", MemoryStore(), LENGTH))


@pytest.mark.parametrize("length", [0, -1, 2**63])
def test_a_length_no_volume_can_have_is_refused(length: int) -> None:
    with pytest.raises(lode.InvalidOptionError, match="total_length"):
        lode.Volume("v", MemoryStore(), length)


@pytest.mark.parametrize("id", ["", "a/b", "..", "a\n"])
def test_an_id_that_cannot_be_a_path_segment_is_refused(id: str) -> None:
    with pytest.raises(lode.InvalidPathError):
        lode.Volume(id, MemoryStore(), 1)
