"""Reading returns the whole range or lists the gaps; as bytes and as a file."""

from __future__ import annotations

import io
import shutil
import threading
import zipfile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lode
from lode.store.local import LocalStore
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore, StoreWrapper

if TYPE_CHECKING:
    from pathlib import Path

LENGTH = 100
# Present: [0, 10), [10, 20), [30, 40), [60, 80). Each byte is its own offset.
RANGES = [(0, 10), (10, 20), (30, 40), (60, 80)]


def sparse(store: lode.Store, checksum: str | None = None) -> lode.Volume:
    volume = lode.Volume("v", store, LENGTH, checksum=checksum)
    volume.commit([volume.stage_write_at(start, bytes(range(start, end))) for start, end in RANGES])
    return volume


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def volume(store: CountingStore) -> lode.Volume:
    return sparse(store)


@pytest.fixture
def head(volume: lode.Volume) -> lode.VolumeSnapshot:
    return volume.latest()


def covered(data: bytes, store: lode.Store, piece: int = 1000) -> tuple[lode.Volume, lode.VolumeSnapshot]:
    """A complete volume with ``data``, in blocks of ``piece`` bytes."""
    volume = lode.Volume("whole", store, len(data))
    blocks = [volume.stage_write_at(at, data[at : at + piece]) for at in range(0, len(data), piece)]
    return volume, volume.commit(blocks)


@pytest.mark.parametrize(("start", "end"), [(0, 10), (0, 20), (3, 7), (5, 15), (30, 40), (79, 80), (0, 1)])
def test_a_complete_range_is_read_exactly(
    start: int, end: int, volume: lode.Volume, head: lode.VolumeSnapshot
) -> None:
    assert volume.read_at(head.id, start, end - start) == bytes(range(start, end))


@pytest.mark.parametrize(
    ("start", "end", "missing"),
    [
        (0, 100, [(20, 10), (40, 20), (80, 20)]),
        (15, 35, [(20, 10)]),
        (20, 30, [(20, 10)]),
        (22, 25, [(22, 3)]),
        (35, 65, [(40, 20)]),
        (99, 100, [(99, 1)]),
        (19, 21, [(20, 1)]),
    ],
)
def test_a_range_with_gaps_is_an_error_that_lists_exactly_them(
    start: int,
    end: int,
    missing: list[tuple[int, int]],
    volume: lode.Volume,
    head: lode.VolumeSnapshot,
    store: CountingStore,
) -> None:
    store.reset()
    with pytest.raises(lode.RangeMissingError, match="has no bytes at") as caught:
        volume.read_at(head, start, end - start)
    assert list(caught.value.missing) == missing
    assert store.total == 0, "nothing is read when not everything can be"


@pytest.mark.parametrize(("offset", "length"), [(-1, 2), (0, -1), (99, 2), (101, 0)])
def test_a_range_outside_the_volume_is_refused(
    offset: int, length: int, volume: lode.Volume, head: lode.VolumeSnapshot
) -> None:
    with pytest.raises(lode.InvalidRangeError):
        volume.read_at(head, offset, length)


@pytest.mark.parametrize("offset", [0, 5, 25, 100])
def test_no_bytes_are_read_without_a_call(
    offset: int, volume: lode.Volume, head: lode.VolumeSnapshot, store: CountingStore
) -> None:
    store.reset()
    assert volume.read_at(head, offset, 0) == b""
    assert store.total == 0


def test_an_older_snapshot_keeps_its_gaps(volume: lode.Volume, head: lode.VolumeSnapshot) -> None:
    volume.commit([volume.stage_write_at(20, b"x" * 10)])
    with pytest.raises(lode.RangeMissingError):
        volume.read_at(head, 0, 30)
    assert len(volume.read_at(volume.latest(), 0, 30)) == 30


def test_a_read_costs_one_range_read_for_each_block_it_touches(
    volume: lode.Volume, head: lode.VolumeSnapshot, store: CountingStore
) -> None:
    store.reset()
    volume.read_at(head, 5, 10)
    assert dict(store.counts) == {"get_range": 2}
    assert store.bytes_out == 10


def test_the_first_read_by_id_costs_one_manifest_and_later_ones_none(
    head: lode.VolumeSnapshot, store: CountingStore
) -> None:
    fresh = lode.Volume("v", store, LENGTH)
    store.reset()
    fresh.read_at(head.id, 0, 5)
    fresh.read_at(head.id, 0, 5)
    assert dict(store.counts) == {"get": 1, "get_range": 2}


def test_a_snapshot_that_is_not_there_is_an_error(volume: lode.Volume) -> None:
    with pytest.raises(lode.NotFoundError, match="volume 'v' has no snapshot 'nope'"):
        volume.read_at("nope", 0, 1)


def test_blocks_are_read_in_parallel() -> None:
    meeting = threading.Barrier(4, timeout=120)

    class Meet(StoreWrapper):
        """Delays range reads until four of them are in progress."""

        def around(self, method: str, path: str, call: Any) -> Any:
            if method == "get_range":
                meeting.wait()
            return call()

    volume, head = covered(bytes(range(40)), Meet(MemoryStore()), piece=10)
    assert volume.read_at(head, 0, 40) == bytes(range(40))


def damage(store: MemoryStore, path: str, data: bytes) -> None:
    store.delete(path)
    store.put(path, data)


@pytest.mark.parametrize("verify", [False, True])
def test_a_block_that_is_shorter_than_recorded_is_damage_and_not_a_gap(verify: bool) -> None:
    store = MemoryStore()
    volume = sparse(store, "md5")
    head = volume.latest()
    damage(store, head.blocks[1].path, bytes(range(10, 15)))
    with pytest.raises(lode.ChecksumMismatchError, match=head.blocks[1].path):
        volume.read_at(head, 0, 20, verify=verify)
    assert volume.read_at(head, 0, 15) == bytes(range(15))
    with pytest.raises(lode.ChecksumMismatchError):
        volume.read_at(head, 17, 2)


def test_a_missing_block_is_named(
    volume: lode.Volume, head: lode.VolumeSnapshot, store: CountingStore
) -> None:
    store.delete(head.blocks[0].path)
    with pytest.raises(lode.NotFoundError, match=head.blocks[0].path):
        volume.read_at(head, 0, 20)


@pytest.mark.parametrize("checksum", ["md5", "sha256", "xxh3-128"])
def test_verifying_finds_a_flipped_bit_anywhere_in_a_block_that_is_touched(checksum: str) -> None:
    store = MemoryStore()
    volume = sparse(store, checksum)
    head = volume.latest()
    assert volume.read_at(head, 0, 20, verify=True) == bytes(range(20))
    assert volume.read_at(head, 12, 3, verify=True) == bytes(range(12, 15))
    damage(store, head.blocks[1].path, bytes([*range(10, 19), 0xFF]))
    assert volume.read_at(head, 10, 5) == bytes(range(10, 15))
    with pytest.raises(lode.ChecksumMismatchError, match=f"has {checksum} "):
        volume.read_at(head, 10, 5, verify=True)
    assert volume.read_at(head, 0, 10, verify=True) == bytes(range(10))


def test_verifying_reads_each_block_once_and_in_small_pieces(tmp_path: Path) -> None:
    data = bytes(range(256)) * (20 << 10)
    volume = lode.Volume("v", LocalStore(tmp_path, durable=False), len(data), checksum="xxh3-128")
    head = volume.commit([volume.stage_write_at(0, data)])
    counting = CountingStore(volume.store)
    fresh = lode.Volume("v", counting, len(data))
    assert fresh.read_at(head, (1 << 20) - 5, 10, verify=True) == data[(1 << 20) - 5 : (1 << 20) + 5]
    assert counting.bytes_out == len(data)
    assert counting.counts["open_reader"] == 1


def test_verifying_uses_the_recorded_checksum() -> None:
    store = MemoryStore()
    head = sparse(store, "sha256").latest()
    assert lode.Volume("v", store, LENGTH).read_at(head, 0, 5, verify=True) == bytes(range(5))


def test_verifying_without_a_checksum_is_refused(volume: lode.Volume, head: lode.VolumeSnapshot) -> None:
    with pytest.raises(lode.ComponentMismatchError, match="no checksums to verify"):
        volume.read_at(head, 0, 5, verify=True)
    mixed = lode.Volume("v", volume.store, LENGTH, checksum="md5")
    newest = mixed.commit([mixed.stage_write_at(20, b"x")])
    assert mixed.read_at(newest, 20, 1, verify=True) == b"x"
    with pytest.raises(lode.ComponentMismatchError, match="without a checksum"):
        mixed.read_at(newest, 19, 2, verify=True)


# -- what is missing ------------------------------------------------------------------------------


def test_the_gaps_of_a_snapshot_are_listed_in_order(volume: lode.Volume, head: lode.VolumeSnapshot) -> None:
    gaps = [(20, 10), (40, 20), (80, 20)]
    assert volume.missing(head) == volume.missing(head.id) == volume.missing() == gaps
    assert not volume.is_complete()


def test_a_volume_without_a_snapshot_lacks_everything() -> None:
    volume = lode.Volume("v", MemoryStore(), LENGTH)
    assert volume.missing() == [(0, LENGTH)]
    assert not volume.is_complete()


def test_a_volume_is_complete_when_the_last_gap_is_filled(
    volume: lode.Volume, head: lode.VolumeSnapshot
) -> None:
    newest = volume.commit([volume.stage_write_at(at, b"x" * size) for at, size in volume.missing()])
    assert volume.is_complete()
    assert volume.is_complete(newest)
    assert not volume.is_complete(head)
    assert newest.size_bytes == LENGTH


# -- as a file ------------------------------------------------------------------------------------


def test_a_file_reads_seeks_and_tells_like_any_other() -> None:
    data = bytes(range(256)) * 100
    volume, head = covered(data, MemoryStore())
    plain = io.BytesIO(data)
    with volume.open(head) as file:
        assert file.readable()
        assert file.seekable()
        assert not file.writable()
        for move in [(5, 0), (100, 1), (-7, 2), (0, 0), (50, 1), (-20, 1), (10, 2), (25_000, 0)]:
            assert file.seek(*move) == plain.seek(*move)
            assert file.tell() == plain.tell()
            assert file.read(33) == plain.read(33)
        file.seek(0)
        assert file.read() == data
        assert file.read(1) == b""
        file.seek(17)
        assert file.readline() == data[17 : data.index(b"\n", 17) + 1]
    assert file.closed


def test_a_file_refuses_to_seek_before_its_beginning(volume: lode.Volume, head: lode.VolumeSnapshot) -> None:
    with volume.open(head) as file:
        with pytest.raises(ValueError, match="before the beginning"):
            file.seek(-1, io.SEEK_END - 2)
        with pytest.raises(ValueError, match="whence"):
            file.raw.seek(0, 9)


def test_a_file_cannot_be_written(volume: lode.Volume, head: lode.VolumeSnapshot) -> None:
    with volume.open(head) as file, pytest.raises(io.UnsupportedOperation):
        file.write(b"x")


def test_bytes_before_a_gap_are_read_and_the_gap_is_named_when_it_is_reached(
    volume: lode.Volume, head: lode.VolumeSnapshot
) -> None:
    with volume.open(head) as file:
        assert file.read(20) == bytes(range(20))
        with pytest.raises(lode.RangeMissingError) as caught:
            file.read(1)
        assert caught.value.missing == ((20, 10),)
        file.seek(30)
        assert file.read(10) == bytes(range(30, 40))
        file.seek(15)
        with pytest.raises(lode.RangeMissingError):
            file.read(10)
        file.seek(15)
        assert file.read(5) == bytes(range(15, 20))
        file.seek(0)
        with pytest.raises(lode.RangeMissingError) as caught:
            file.read()
        assert caught.value.missing[0] == (20, 10)


def test_a_range_is_a_file_of_its_own_length(volume: lode.Volume, head: lode.VolumeSnapshot) -> None:
    with volume.open(head.id, offset=62, length=10) as file:
        assert file.read() == bytes(range(62, 72))
        assert file.seek(-3, io.SEEK_END) == 7
        assert file.read(100) == bytes(range(69, 72))
    with pytest.raises(lode.InvalidRangeError):
        volume.open(head, offset=95, length=6)


def test_reading_all_is_one_range_read_for_each_block() -> None:
    store = CountingStore(MemoryStore())
    volume, head = covered(bytes(50_000), store, piece=10_000)
    store.reset()
    with volume.open(head) as file:
        file.read()
    assert dict(store.counts) == {"get_range": 5}


def test_small_reads_share_a_range_read() -> None:
    store = CountingStore(MemoryStore())
    volume, head = covered(bytes(50_000), store, piece=50_000)
    store.reset()
    with volume.open(head) as file:
        while file.read(100):
            pass
    assert dict(store.counts) == {"get_range": 1}


def test_a_zip_archive_is_read_in_place(tmp_path: Path) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("one.txt", "first" * 1000)
        made.writestr("two.txt", "second" * 1000)
    volume, head = covered(archive.getvalue(), LocalStore(tmp_path, durable=False), piece=37)
    with volume.open(head) as file, zipfile.ZipFile(file) as opened:
        assert opened.testzip() is None
        assert opened.read("two.txt") == b"second" * 1000


def test_a_parquet_file_is_read_in_place(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(10_000)), "name": [f"row {n}" for n in range(10_000)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1000)
    data = (tmp_path / "t.parquet").read_bytes()
    volume, head = covered(data, LocalStore(tmp_path / "lake", durable=False), piece=5000)
    with volume.open(head) as file:
        assert pq.read_table(file).equals(table)
    with volume.open(head) as file:
        assert pq.ParquetFile(file).read_row_group(3, columns=["n"])["n"].to_pylist() == list(
            range(3000, 4000)
        )


def test_a_complete_range_of_a_sparse_volume_is_copied_out(
    volume: lode.Volume, head: lode.VolumeSnapshot, tmp_path: Path
) -> None:
    with volume.open(head, offset=60, length=20) as file, (tmp_path / "out").open("wb") as out:
        shutil.copyfileobj(file, out)
    assert (tmp_path / "out").read_bytes() == bytes(range(60, 80))
