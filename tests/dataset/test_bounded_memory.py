"""Memory does not grow with the data: four times the data needs the same memory."""

from __future__ import annotations

import gc
import io
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lode
from lode.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MIB = 1 << 20
TEXT = "x" * 5000
# Readers and encoders hold some buffers whatever the length; what is measured grows by less than this.
ALLOWED_GROWTH = 1.25


class Meter:
    """The most memory in use, of Python and of Arrow, over all measurements."""

    def __init__(self) -> None:
        self.peak = 0

    def look(self) -> None:
        self.peak = max(self.peak, tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes())

    def look_when_settled(self) -> None:
        """Measure when prefetching has stopped, so that the peak does not depend on the load."""
        before = -1
        while before != (before := pa.total_allocated_bytes()):
            time.sleep(0.005)
        self.look()

    def records(self, count: int) -> Iterator[dict[str, Any]]:
        for number in range(count):
            if number % 64 == 0:
                self.look()
            yield {"part": number % 4, "n": number, "text": f"{number}{TEXT[:1000]}"}


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.fixture
def store(tmp_path: Path) -> lode.Store:
    return LocalStore(tmp_path, durable=False)


def assert_bounded(measure: Callable[[int], Meter], amount: int) -> None:
    """Measure an amount twice, then four times as much.

    The first time fills caches, and how far the threads of a pipeline get depends on the load.
    """
    small = max(measure(amount).peak for _ in range(2))
    large = measure(4 * amount).peak
    assert 0 < large < small * ALLOWED_GROWTH + 2 * MIB, f"{small / MIB:.1f} MiB, then {large / MIB:.1f} MiB"


SCHEMA = {"part": "int64!", "n": "int64!", "text": "string"}


@pytest.mark.parametrize(
    "codec",
    [lode.JSONL(), lode.Parquet(SCHEMA, row_group_bytes=MIB), lode.ArrowIPC(SCHEMA)],
    ids=lambda codec: codec.name,
)
def test_streamed_records_of_any_number_need_the_same_memory(store: lode.Store, codec: Any) -> None:
    def measure(count: int) -> Meter:
        meter = Meter()
        lode.Dataset(f"d{count}", store, codec=codec).stream_write_records(meter.records(count))
        return meter

    assert_bounded(measure, 16_000)


def test_records_streamed_into_partitions_need_the_same_memory(store: lode.Store) -> None:
    def measure(count: int) -> Meter:
        meter = Meter()
        dataset = lode.Dataset(f"d{count}", store, codec="jsonl", layout=lode.HiveLayout("part"))
        with dataset.transaction() as transaction:
            transaction.write_records(meter.records(count))
            transaction.commit()
        return meter

    assert_bounded(measure, 16_000)


@pytest.mark.parametrize("compressor", ["noop", "gzip", "zstd"])
def test_a_streamed_blob_of_any_length_needs_the_same_memory(store: lode.Store, compressor: str) -> None:
    piece = bytes(range(256)) * 1024

    def measure(pieces: int) -> Meter:
        meter = Meter()
        dataset = lode.Dataset(f"d{pieces}", store, compressor=compressor, checksum="sha256")
        with dataset.stream_write() as out:
            for _ in range(pieces):
                out.write(piece)
                meter.look()
            out.commit()
        return meter

    assert_bounded(measure, 100)


@pytest.mark.parametrize("codec", ["jsonl", "parquet", "arrow"])
def test_a_scan_of_any_number_of_files_needs_the_same_memory(store: lode.Store, codec: str) -> None:
    table = pa.table({"n": pa.array(range(200)), "text": [f"{n}{TEXT}" for n in range(200)]})

    def measure(files: int) -> Meter:
        dataset = lode.Dataset(f"d{files}", store, codec=codec)
        if not dataset.exists:
            with dataset.transaction(schema=None if codec == "jsonl" else table.schema) as transaction:
                for number in range(files):
                    transaction.stage(table, task=f"{number}")
                transaction.commit()
        meter, rows = Meter(), 0
        for batch in dataset.scan():
            rows += batch.num_rows
            meter.look_when_settled()
        assert rows == 200 * files
        return meter

    assert_bounded(measure, 32)


def test_a_block_of_a_volume_of_any_length_needs_the_same_memory(store: lode.Store) -> None:
    class Watched(io.RawIOBase):
        def __init__(self, length: int, meter: Meter) -> None:
            self.left, self.meter = length, meter

        def readable(self) -> bool:
            return True

        def readinto(self, into: Any) -> int:
            self.meter.look()
            size = min(len(into), self.left)
            into[:size] = bytes(size)
            self.left -= size
            return size

    def measure(length: int) -> Meter:
        meter = Meter()
        volume = lode.Volume(f"v{length}", store, length)
        volume.stage_write_at(0, Watched(length, meter))
        return meter

    assert_bounded(measure, 16 * MIB)
