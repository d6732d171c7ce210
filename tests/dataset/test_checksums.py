"""The core model: checksums are opt-in, and then complete."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
import xxhash

import lode
from support.stores import contents, manifests

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store import CountingStore

HASHES: dict[str, Callable[[bytes], Any]] = {
    "md5": hashlib.md5,
    "sha256": hashlib.sha256,
    "xxh3-128": xxhash.xxh3_128,
}


@pytest.mark.parametrize("name", HASHES)
@pytest.mark.parametrize("compressor", ["noop", "gzip", "zstd"])
def test_with_a_checksum_the_manifest_names_it_and_has_a_value_for_each_file(
    store: CountingStore, name: str, compressor: str
) -> None:
    dataset = lode.Dataset(
        "events",
        store,
        codec="jsonl",
        checksum=name,
        compressor=compressor,
        layout=lode.HiveLayout("day"),
    )
    snapshot = dataset.write([{"day": "1"}, {"day": "2"}])
    assert snapshot.manifest.checksum_algorithm == name
    stored = contents(store)
    assert len(snapshot.files) == 2
    for file in snapshot.files:
        assert file.checksum == HASHES[name](stored[file.path]).hexdigest()


def test_every_way_of_writing_records_checksums(store: CountingStore) -> None:
    blobs = lode.Dataset("blobs", store, checksum="md5")
    rows = lode.Dataset("rows", store, codec="jsonl", checksum="md5")
    with blobs.stream_write() as writer:
        writer.write(b"x")
        streamed = writer.commit()
    with rows.transaction() as transaction:
        transaction.stage([{"id": 1}])
        transaction.write_records([{"id": 2}])
        staged = transaction.commit()
    snapshots = [blobs.write(b"x"), streamed, staged, rows.stream_write_records([{"id": 3}])]
    assert all(file.checksum for snapshot in snapshots for file in snapshot.files)
    assert lode.verify(blobs).ok
    assert lode.verify(rows).ok


def test_without_a_checksum_its_fields_are_left_out(store: CountingStore) -> None:
    lode.Dataset("events", store).write(b"x")
    (path,) = manifests(store)
    stored = json.loads(contents(store)[path])
    assert "checksum_algorithm" not in stored
    assert "checksum" not in stored["files"][0]


def test_a_checksum_of_ones_own_is_recorded_under_its_name(memory: CountingStore) -> None:
    class Sha1:
        name = "sha1"

        def start(self) -> Any:
            return hashlib.sha1()

    snapshot = lode.Dataset("events", memory, checksum=Sha1()).write(b"x")
    assert snapshot.manifest.checksum_algorithm == "sha1"
    assert snapshot.files[0].checksum == hashlib.sha1(b"x").hexdigest()
