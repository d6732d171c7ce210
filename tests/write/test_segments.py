"""A segment is believed only if the snapshot after it vouches for it; any other costs time, never rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import lode
from lode.errors import ManifestInvalidError
from lode.format.manifest import Manifest, decode_manifest, encode_manifest
from lode.format.paths import DefaultLayout
from lode.read.history import History
from lode.read.resolve import Chain, Named, digest_of
from lode.read.segment import LEVELS, decode_segment, encode_segment, list_segment, open_segment
from lode.runtime import REAL
from lode.store import CountingStore, MemoryStore
from lode.write.segments import write_segments

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


def changed(raw: bytes, **fields: Any) -> bytes:
    """A manifest as its writer would have written it with other fields."""
    return encode_manifest(msgspec.structs.replace(decode_manifest(raw, ""), **fields))


def with_fewer_rows(manifests: list[bytes]) -> list[bytes]:
    return [changed(raw, row_count=0) for raw in manifests]


def without_a_file(manifests: list[bytes]) -> list[bytes]:
    return [*manifests[:3], changed(manifests[3], files=()), *manifests[4:]]


def with_another_time(manifests: list[bytes]) -> list[bytes]:
    return [changed(manifests[0], created_at="2020-01-01T00:00:00Z"), *manifests[1:]]


def with_a_forged_line(manifests: list[bytes]) -> list[bytes]:
    """Every manifest names the digest of the one before it; only the snapshot after them does not."""
    line = [changed(manifests[0], files=(), row_count=0)]
    for raw in manifests[1:]:
        x = {**(decode_manifest(raw, "").x or {}), "parent_sha256": digest_of(line[-1])}
        line.append(changed(raw, x=x))
    return line


def with_a_manifest_missing(manifests: list[bytes]) -> list[bytes]:
    return manifests[1:]


def with_an_invalid_manifest(manifests: list[bytes]) -> list[bytes]:
    return [*manifests[:3], manifests[3].replace(b'"metadata"', b'"meta"'), *manifests[4:]]


def with_a_manifest_of_the_future(manifests: list[bytes]) -> list[bytes]:
    return [*manifests[:3], changed(manifests[3], format_version="9.0.0"), *manifests[4:]]


def in_another_order(manifests: list[bytes]) -> list[bytes]:
    return [*manifests[:3], manifests[4], manifests[3], *manifests[5:]]


FORGERIES = (
    with_fewer_rows,
    without_a_file,
    with_another_time,
    with_a_forged_line,
    with_a_manifest_missing,
    with_an_invalid_manifest,
    with_a_manifest_of_the_future,
    in_another_order,
)


def forge(store: lode.Store, forgery: Callable[[list[bytes]], list[bytes]]) -> None:
    """Replace every segment by a well-formed one, with a checksum that fits, that says something else."""
    for level in LEVELS:
        for entry in list(store.list(f"datasets/d/history/{level}/")):
            manifests = [bytes(raw) for raw in decode_segment(store.get(entry.path))]
            last = int(entry.path.rpartition("/")[2].removesuffix(".json.zst"))
            store.delete(entry.path)
            store.put(entry.path, encode_segment(forgery(manifests), last))


@pytest.mark.parametrize("forgery", FORGERIES)
def test_history_is_the_same_whatever_the_segments_say(
    copy: MemoryStore, long: lode.Store, forgery: Callable[[list[bytes]], list[bytes]]
) -> None:
    forge(copy, forgery)
    expected, found = opened(long), opened(copy)
    assert found.plan().paths == expected.plan().paths
    assert found.plan().row_count == expected.plan().row_count
    assert found.snapshots() == expected.snapshots()
    assert list(found.history()) == list(expected.history())
    moment = expected.snapshot(20).created_at
    assert found.snapshot(moment) == expected.snapshot(moment)


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_larger_segment_is_not_made_of_forged_ones(
    copy: MemoryStore, forgery: Callable[[list[bytes]], list[bytes]]
) -> None:
    forge(copy, forgery)
    large = "datasets/d/history/256/000000000256.json.zst"
    good = decode_segment(grown(256).get(large))
    copy.delete(large)
    chain = opened(copy).chain
    newest = next(each for each in chain.back(chain.resolve().manifest) if each.sequence == 256)
    write_segments(chain, newest)
    names = [(each.id, each.row_count, len(each.files)) for each in opened(copy).snapshots()[:256]]
    made = [decode_manifest(bytes(raw), "") for raw in decode_segment(copy.get(large))]
    assert len(made) == len(good)
    assert [(each.snapshot_id, each.row_count, len(each.files)) for each in made] == names


def test_a_process_checks_a_segment_once(long: lode.Store) -> None:
    store = CountingStore(long)
    dataset = opened(store)
    expected = dataset.plan().paths
    store.reset()
    assert dataset.plan().paths == expected
    # The pointer. The newest manifests are kept too.
    assert store.counts == {"get": 1}


def test_an_ignored_segment_is_reported_once(copy: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    forge(copy, with_fewer_rows)
    dataset = opened(copy)
    for _ in range(3):
        dataset.plan()
    lines = [record.getMessage() for record in caplog.records if "is ignored" in record.getMessage()]
    assert len(lines) == len(set(lines)) > 0
    assert "datasets/d/history/16/000000000288.json.zst is ignored, it is damaged or forged" in lines[0]


def test_manifests_that_are_not_one_line_are_not_taken_for_a_segment(long: lode.Store) -> None:
    raw = decode_segment(long.get("datasets/d/history/16/000000000016.json.zst"))
    swapped = [bytes(each) for each in (*raw[:5], raw[6], raw[5], *raw[7:])]
    newest = Named(decode_manifest(swapped[-1], "").snapshot_id)
    with pytest.raises(ManifestInvalidError, match="in the place of"):
        open_segment(encode_segment(swapped, 16), "d", 16, 16, newest)


def test_a_segment_is_listed_whatever_text_its_paths_have() -> None:
    name = ',"manifests":[' * 1000
    manifests = [
        msgspec.json.encode(
            {
                "format_version": "1.0.0",
                "dataset_id": "d",
                "snapshot_id": f"s{number}",
                **({"parent_snapshot_id": f"s{number - 1}"} if number else {}),
                "row_count": 1,
                "files": [{"path": f"{name}{number}", "size_bytes": number}],
            }
        )
        for number in range(16)
    ]
    listing = list_segment(encode_segment(manifests, 16), "d", 16, 16, Named("s15"))
    assert listing.paths == [f"{name}{number}" for number in range(16)]
    assert listing.sizes == list(range(16))


def test_a_segment_that_reaches_over_a_drop_is_ignored() -> None:
    store = MemoryStore()
    before = opened(store)
    for number in range(10):
        before.write([{"n": number}])
    kept = {snapshot.sequence: snapshot for snapshot in before.snapshots()}
    manifests = {number: store.get(before.chain.paths.manifest(each.id)) for number, each in kept.items()}
    before.drop()
    after = opened(store)
    for number in range(6):
        after.write([{"n": number}])
    chain = after.chain
    drop = chain.resolve().manifest
    while drop is not None and drop.operation != "drop":
        manifests[drop.sequence or 0] = store.get(chain.paths.manifest(drop.snapshot_id))
        drop = chain.manifest(drop.parent_snapshot_id or "")
    assert drop is not None
    manifests[11] = store.get(chain.paths.manifest(drop.snapshot_id))
    line = [manifests[number] for number in range(1, 17)]
    store.put(chain.paths.segment(16, 16), encode_segment(line, 16))
    assert opened(store).count() == 6
    assert len(opened(store).snapshots()) == 6
    assert [problem.kind for problem in lode.verify(opened(store)).problems] == ["segment"]


def test_segments_of_many_files_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.read.history.MAX_KEPT", 31)
    store = CountingStore(grown(17))
    dataset = opened(store)
    dataset.plan()
    store.reset()
    dataset.plan()
    assert store.counts["get"] == 2, "the pointer, and the segment again"
