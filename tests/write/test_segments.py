"""A plan asks a segment for its listing alone; what is wrong with a segment costs time, never correctness."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import zstandard

import lode
from lode.errors import ManifestInvalidError
from lode.format.manifest import Manifest, decode_manifest
from lode.format.paths import DefaultLayout
from lode.read.history import History
from lode.read.resolve import Chain
from lode.read.segment import LEVELS, decode_segment, encode_segment, list_segment
from lode.runtime import REAL
from lode.store import CountingStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Segments are written at once instead of in the background, so that the tests know they are there.
AT_ONCE = replace(REAL, background=lambda chore: chore())
CODEC = lode.JSONL({"n": "int64"})
LENGTH = 300


def grown(length: int, store: lode.Store | None = None) -> lode.Store:
    """A history in which each snapshot has more rows than the one before."""
    store = store or MemoryStore()
    dataset = opened(store)
    for number in range(length):
        dataset.write([{"n": number}] * (number % 3 + 1), {"number": number})
    return store


def opened(store: lode.Store) -> lode.Dataset:
    return lode.Dataset("d", store, codec=CODEC, runtime=AT_ONCE)


@pytest.fixture(scope="module")
def long() -> lode.Store:
    return grown(LENGTH)


@pytest.fixture
def copy(long: lode.Store) -> MemoryStore:
    """The same history, for a test that damages it."""
    copied = MemoryStore()
    for entry in long.list():
        copied.put(entry.path, long.get(entry.path))
    return copied


class Counted:
    """A chain whose decoded manifests are counted."""

    def __init__(self, store: lode.Store) -> None:
        self.decoded = 0
        paths = DefaultLayout().chain("d")
        self.chain: Chain[Manifest] = Chain(store, paths, self._decode, lambda _: {}, "dataset 'd'", "d")
        self.history = History(self.chain, REAL)

    def _decode(self, data: bytes, origin: str) -> Manifest:
        self.decoded += 1
        return decode_manifest(data, origin)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 48, 257])
def test_a_plan_names_counts_and_weighs_what_its_manifests_hold(length: int) -> None:
    plan = opened(grown(length)).plan()
    assert plan.paths == [file.path for file in plan.files]
    assert plan.row_count == sum(manifest.row_count for manifest in plan.manifests)
    assert plan.size_bytes == sum(file.size_bytes for file in plan.files)
    assert len(plan.manifests) == length


def test_naming_every_file_decodes_only_the_manifests_that_are_in_no_segment_yet(long: lode.Store) -> None:
    counted = Counted(long)
    line = counted.history.up_to(counted.chain.resolve().manifest)
    assert len(line.paths) == len(line) == LENGTH
    assert line.row_count == 2 * LENGTH
    assert counted.decoded == LENGTH % 16


def test_manifests_are_decoded_once_however_often_they_are_asked_for(long: lode.Store) -> None:
    counted = Counted(long)
    line = counted.history.up_to(counted.chain.resolve().manifest)
    assert [manifest.metadata["number"] for manifest in line] == list(range(LENGTH))
    assert (line[0].sequence, line[-1].sequence) == (1, LENGTH)
    assert [manifest.sequence for manifest in line[1:3]] == [2, 3]
    assert all(one is other for one, other in zip(line, list(line), strict=True))


def test_the_first_page_of_a_history_that_ends_with_a_segment_decodes_little_more_than_the_page() -> None:
    counted = Counted(grown(256))
    newest = counted.history.newest_first(counted.chain.resolve().manifest)
    assert [manifest.sequence for manifest in islice(newest, 20)] == list(range(256, 236, -1))
    assert counted.decoded <= 22


def test_segments_that_follow_each_other_take_one_read_each(long: lode.Store) -> None:
    """The pointer, the twelve newest manifests, one segment of 256 and two of 16."""
    expected = 1 + 12 + 1 + 2
    store = CountingStore(long)
    assert len(opened(store).plan().paths) == LENGTH
    assert store.counts == {"get": expected}
    store.reset()
    assert len(list(opened(store).history())) == LENGTH
    assert store.counts == {"get": expected}


def test_a_directory_is_planned_the_same(tmp_path: Path) -> None:
    grown(40, lode.open_store(tmp_path, durable=False))
    plan = opened(lode.open_store(tmp_path)).plan()
    assert [manifest.metadata["number"] for manifest in plan.manifests] == list(range(40))
    assert plan.paths == [file.path for file in plan.files]


def without_listing(document: dict[str, Any]) -> None:
    """As segments were first written."""
    del document["listing"]


def with_fewer_paths(document: dict[str, Any]) -> None:
    document["listing"]["paths"].pop()


def with_fewer_snapshots(document: dict[str, Any]) -> None:
    for column in ("snapshots", "rows", "files", "paths", "sizes"):
        document["listing"][column].pop()


def with_other_sequences(document: dict[str, Any]) -> None:
    document["first"] += 1
    document["last"] += 1


def with_an_invalid_manifest(document: dict[str, Any]) -> None:
    document["manifests"][3]["metadata"] = "none"


def with_a_manifest_of_the_future(document: dict[str, Any]) -> None:
    del document["listing"]
    document["manifests"][3]["format_version"] = "9.0.0"


def with_manifests_that_do_not_follow_each_other(document: dict[str, Any]) -> None:
    del document["listing"]
    document["manifests"][3], document["manifests"][4] = document["manifests"][4], document["manifests"][3]


@pytest.mark.parametrize(
    "change",
    [
        without_listing,
        with_fewer_paths,
        with_fewer_snapshots,
        with_other_sequences,
        with_an_invalid_manifest,
        with_a_manifest_of_the_future,
        with_manifests_that_do_not_follow_each_other,
    ],
)
@pytest.mark.parametrize("pretty", [False, True], ids=["compact", "indented"])
def test_history_is_the_same_whatever_the_segments_say(
    copy: MemoryStore, long: lode.Store, change: Callable[[dict[str, Any]], None], pretty: bool
) -> None:
    for level in LEVELS:
        for entry in list(copy.list(f"datasets/d/history/{level}/")):
            document = msgspec.json.decode(zstandard.decompress(copy.get(entry.path)))
            change(document)
            data = msgspec.json.encode(document)
            copy.delete(entry.path)
            copy.put(entry.path, zstandard.compress(msgspec.json.format(data) if pretty else data))
    expected, found = opened(long), opened(copy)
    assert found.plan().paths == expected.plan().paths
    assert found.plan().row_count == expected.plan().row_count
    assert found.snapshots() == expected.snapshots()
    assert list(found.history()) == list(expected.history())


def test_a_segment_of_manifests_that_are_not_one_line_is_never_written(long: lode.Store) -> None:
    raw = decode_segment(long.get("datasets/d/history/16/000000000016.json.zst"))
    gap = [bytes(each) for each in (*raw[:5], *raw[6:])]
    with pytest.raises(ManifestInvalidError, match="does not follow"):
        encode_segment(gap, 16)


def test_a_listing_is_found_however_long_it_is() -> None:
    """Longer than what is decompressed at a time, and with text that looks like what ends it."""
    name = ',"manifests":[' * 1000
    manifests = [
        msgspec.json.encode(
            {
                "format_version": "1.0.0",
                "snapshot_id": f"s{number}",
                **({"parent_snapshot_id": f"s{number - 1}"} if number else {}),
                "row_count": 1,
                "files": [{"path": f"{name}{number}", "size_bytes": number}],
            }
        )
        for number in range(16)
    ]
    listing = list_segment(encode_segment(manifests, 16), 16, 16)
    assert listing.paths == [f"{name}{number}" for number in range(16)]
    assert listing.sizes == list(range(16))
