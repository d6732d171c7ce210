"""Datasets and volumes open without options."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lode
from lode.discover import dataset_names, open_damaged, volume_names
from lode.store.memory import MemoryStore

SCHEMA = {"day": "string!", "visits": "int64!"}
ROWS = [{"day": "mon", "visits": 1}, {"day": "tue", "visits": 2}]


@pytest.mark.parametrize("layout", [lode.DefaultLayout(), lode.HiveLayout("day"), lode.FlatLayout()])
@pytest.mark.parametrize("codec", [lode.Parquet(SCHEMA), lode.JSONL(SCHEMA), lode.ArrowIPC(SCHEMA)])
def test_a_dataset_opens_as_it_was_written(layout: lode.HiveLayout, codec: lode.Parquet) -> None:
    store = MemoryStore()
    written = lode.Dataset("visits", store, codec=codec, layout=layout, checksum="sha256")
    written.write(ROWS)
    opened = lode.open_dataset("visits", store)
    assert opened.layout == layout
    assert opened.scan().read_all().to_pylist() == ROWS
    assert lode.verify(opened).ok
    opened.write(pa.Table.from_pylist([{"day": "wed", "visits": 3}]))
    assert len(written.snapshots()) == 2


def test_a_compressed_dataset_of_blobs_opens_too() -> None:
    store = MemoryStore()
    snapshot = lode.Dataset("blobs", store, compressor="zstd").write(b"bytes")
    assert lode.open_dataset("blobs", store).read(snapshot.id) == b"bytes"


def test_a_volume_opens_with_its_length() -> None:
    store = MemoryStore()
    volume = lode.Volume("disk", store, total_length=1 << 20)
    volume.commit([volume.stage_write_at(0, b"start")])
    assert lode.open_volume("disk", store).total_length == 1 << 20


def test_a_missing_dataset_or_volume_is_named() -> None:
    with pytest.raises(lode.NotFoundError, match="nobody"):
        lode.open_dataset("nobody", MemoryStore())
    with pytest.raises(lode.NotFoundError, match="nobody"):
        lode.open_volume("nobody", MemoryStore())


def test_datasets_and_volumes_can_be_listed() -> None:
    store = MemoryStore()
    lode.Dataset("b", store).write(b"1")
    lode.Dataset("a", store, codec=lode.Parquet(SCHEMA), layout=lode.HiveLayout("day")).write(ROWS)
    volume = lode.Volume("disk", store, total_length=10)
    volume.commit([volume.stage_write_at(0, b"x")])
    assert dataset_names(store) == ["a", "b"]
    assert volume_names(store) == ["disk"]


def test_a_dataset_with_a_damaged_head_can_still_be_checked() -> None:
    store = MemoryStore()
    snapshot = lode.Dataset("visits", store, codec=lode.JSONL()).write(ROWS)
    path = f"datasets/visits/snapshots/{snapshot.id}/manifest.json"
    store.delete(path)
    store.put(path, b"not json")
    assert not lode.verify(open_damaged("visits", store)).ok
