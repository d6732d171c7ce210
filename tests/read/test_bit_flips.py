"""No single flipped bit of a derived object changes an answer: it is ignored, or it means the same."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.errors import ManifestInvalidError
from lode.format.group import decode_waiting, encode_waiting
from lode.format.manifest import encode_manifest
from lode.read.history import History
from lode.read.lazy_history import LazyHistory
from lode.runtime import REAL
from lode.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

AT_ONCE = replace(REAL, background=lambda chore: chore())
CODEC = lode.Parquet({"n": "int64"})


def opened(store: lode.Store) -> lode.Dataset:
    return lode.Dataset("d", store, codec=CODEC, runtime=AT_ONCE)


def flips(data: bytes) -> Iterator[bytes]:
    """The same bytes with each of their bits flipped in turn."""
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            yield bytes(flipped)


class Flipped(MemoryStore):
    """One object is read with other bytes than it has."""

    path = ""
    data = b""

    def get(self, path: str) -> bytes:
        return self.data if path == self.path else super().get(path)


def with_segment(store: lode.Store) -> str:
    dataset = opened(store)
    for number in range(17):
        # Longer than what is decompressed at a time, because the checksum comes last.
        dataset.write([{"n": number}] * (number % 3), {"note": "long " * 300})
    (path,) = [entry.path for entry in store.list("datasets/d/history/")]
    return path


def with_checkpoint(store: lode.Store) -> str:
    dataset = opened(store)
    for number in range(4):
        dataset.write([{"n": number}] * 2)
    dataset.delete("n = 1")
    dataset.compact(where="n < 3")
    dataset.write([{"n": 9}])
    (path,) = [entry.path for entry in store.list("datasets/d/state/")]
    return path


def by_history(dataset: lode.Dataset) -> LazyHistory:
    """Without what the dataset has checked before."""
    return History(dataset.chain, REAL).up_to(dataset.chain.resolve().manifest)


def by_plan(dataset: lode.Dataset) -> lode.Scan:
    return dataset.plan()


@pytest.mark.parametrize(("made", "read"), [(with_segment, by_history), (with_checkpoint, by_plan)])
def test_no_flipped_bit_changes_what_is_read(
    made: Callable[[lode.Store], str], read: Callable[[lode.Dataset], LazyHistory | lode.Scan]
) -> None:
    store = Flipped()
    path = made(store)
    dataset = opened(store)

    def answers() -> Any:
        """Which files there are, with the statistics by which scans and deletions choose."""
        found = read(dataset)
        manifests = found if isinstance(found, LazyHistory) else found.manifests
        return found.paths, found.row_count, [file for manifest in manifests for file in manifest.files]

    expected = answers()
    good = store.get(path)
    store.path = path
    for number, data in enumerate(flips(good)):
        store.data = data
        assert answers() == expected, f"bit {number % 8} of byte {number // 8}"


def test_a_checkpoint_with_a_flipped_bit_deletes_no_other_rows() -> None:
    store = Flipped()
    path = with_checkpoint(store)
    good = store.get(path)
    before = {entry.path: store.get(entry.path) for entry in store.list()}
    for place in range(0, len(good), 7):
        copy = Flipped()
        for name, data in before.items():
            copy.put(name, data)
        copy.path, copy.data = path, good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        opened(copy).delete("n >= 3")
        assert sorted(row["n"] for row in opened(copy).scan().read_all().to_pylist()) == [0, 0, 2, 2]


def test_no_flipped_bit_of_a_key_doubles_or_hides_its_write() -> None:
    store = MemoryStore()
    first = opened(store).write([{"n": 1}], idempotency_key="job")
    (path,) = [entry.path for entry in store.list("datasets/d/keys/")]
    for data in flips(store.get(path)):
        store.delete(path)
        store.put(path, data)
        assert opened(store).write([{"n": 1}], idempotency_key="job").id == first.id
    assert len(opened(store).snapshots()) == 1


def test_no_flipped_bit_of_a_slot_is_committed_by_a_leader() -> None:
    manifest = encode_manifest(opened(MemoryStore()).write([{"n": 1}]).manifest)
    slot = encode_waiting("disjoint", manifest, 0.03)
    for data in flips(slot):
        with suppress(ManifestInvalidError):
            waiting = decode_waiting(data, "slot")
            found = (waiting.follows, bytes(waiting.manifest), waiting.write)
            assert found == ("disjoint", manifest, 0.03)
