"""A writer far behind the head catches up by history segments, and decides as by the manifests."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pytest
import zstandard
from benchmarks.scaling.virtual import VirtualStore, VirtualTime
from hypothesis import given, settings
from hypothesis import strategies as st

import lode
from lode.errors import DatasetDroppedError, OutcomeUnknownError, SnapshotConflictError
from lode.format.manifest import COMPACT, DROP, Manifest, encode_manifest
from lode.read.resolve import Chain, Head, digest_of, head_at
from lode.read.segment import LEVELS
from lode.runtime import REAL
from lode.store import CountingStore, MemoryStore
from lode.store.wrappers import StoreWrapper
from lode.write.rebase import commits_after
from lode.write.segments import write_segments
from support import golang
from support.crashes import cloned

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lode.write.draft import CommitSummary

T = TypeVar("T")

LAYOUT = lode.HiveLayout("p")
# Segments are written at once instead of in the background, so that the tests know they are there.
AT_ONCE = replace(REAL, background=lambda chore: chore())
NO_CHORES = replace(REAL, background=lambda _: None)


def opened(store: lode.Store, runtime: Any = AT_ONCE) -> lode.Dataset:
    return lode.Dataset(
        "d", store, codec=lode.JSONL({"p": "string!", "n": "int64"}), layout=LAYOUT, runtime=runtime
    )


def row(partition: str, number: int = 0) -> list[dict[str, Any]]:
    return [{"p": partition, "n": number}]


def chain_of(store: lode.Store, *, has_segments: bool = True) -> Chain[Manifest]:
    return replace(opened(store).chain, store=store, has_segments=has_segments)


def after(
    chain: Chain[Manifest], dataset: lode.Dataset, base: Manifest | None, head: Manifest
) -> list[CommitSummary] | None:
    """What a new commit of this dataset finds between the two."""
    draft = dataset.transaction()._draft
    found = Head(None, None) if base is None else head_at(base.snapshot_id.encode(), base)
    return commits_after(found, head, draft, chain)


# -- cost --------------------------------------------------------------------------------------------------


@cache
def long_history(length: int) -> tuple[MemoryStore, list[Manifest]]:
    """Commits of one file each to the partition ``early``, and their segments; made without a dataset."""
    store = MemoryStore()
    first = opened(store).write(row("early")).manifest
    chain = chain_of(store)
    manifests = [first]
    data = encode_manifest(first)
    for sequence in range(2, length + 1):
        id = f"{sequence:019d}-{sequence:016x}"
        file = msgspec.structs.replace(
            first.files[0], path=LAYOUT.data_path("d", id, "p=early", "data.jsonl")
        )
        made = msgspec.structs.replace(
            first,
            snapshot_id=id,
            parent_snapshot_id=manifests[-1].snapshot_id,
            sequence=sequence,
            files=(file,),
            x={**(first.x or {}), "parent_sha256": digest_of(data)},
        )
        data = encode_manifest(made)
        store.put(chain.paths.manifest(id), data)
        manifests.append(made)
        if sequence % LEVELS[-1] == 0:
            write_segments(chain, made)
    return store, manifests


@pytest.mark.parametrize("behind", [200, 2_000, 4_300])
def test_a_rebase_takes_about_a_dozen_reads_however_many_commits_came_first(behind: int) -> None:
    inner, manifests = long_history(4_400)
    store = CountingStore(inner)
    dataset = opened(inner, NO_CHORES)
    chance = random.Random(behind)
    reads = []
    for _ in range(10):
        head = chance.randrange(behind, len(manifests))
        chain = chain_of(store)
        store.reset()
        found = after(chain, dataset, manifests[head - behind], manifests[head])
        assert found is not None
        assert [commit.snapshot_id for commit in found] == [
            each.snapshot_id for each in reversed(manifests[head - behind + 1 : head + 1])
        ]
        assert store.counts.keys() <= {"get"}
        reads.append(store.total)
    # At most 15 manifests, and three segments of a size before one of the next.
    assert max(reads) <= 15 + 3 * len(LEVELS)
    assert sum(reads) / len(reads) <= 16


def test_a_writer_200_commits_behind_lands_after_20_calls() -> None:
    store = CountingStore(MemoryStore())
    early, late = opened(store), opened(store, NO_CHORES)
    early.write(row("early"))
    late.transaction().abort()  # its first look
    for _ in range(200):
        early.write(row("early"))
    store.reset()
    assert late.write(row("late")).sequence == 202
    assert store.total <= 20
    assert store.counts["list"] == 0


def test_a_writer_that_is_a_few_commits_behind_looks_for_no_segment() -> None:
    store = CountingStore(MemoryStore())
    early, late = opened(store, NO_CHORES), opened(store, NO_CHORES)
    for _ in range(15):
        early.write(row("early"))
    late.transaction().abort()
    for _ in range(3):
        early.write(row("early"))
    store.reset()
    late.write(row("late"))
    assert not [path for _, path in store.events if "/history/" in path]


def test_without_segments_a_rebase_reads_each_manifest_and_one_object_more_for_each_sixteen() -> None:
    store = CountingStore(MemoryStore())
    early, late = opened(store, NO_CHORES), opened(store, NO_CHORES)
    early.write(row("early"))
    late.transaction().abort()
    for _ in range(100):
        early.write(row("early"))
    store.reset()
    assert late.write(row("late")).sequence == 102
    assert len([path for _, path in store.events if "/history/" in path]) == 6 + 1
    assert len([path for method, path in store.events if method == "get" and "manifest" in path]) == 100


def test_a_volume_has_no_segments_to_look_for() -> None:
    store = CountingStore(MemoryStore())
    early, late = (lode.Volume("v", store, 4096) for _ in range(2))
    early.commit([early.stage_write_at(0, b"x")])
    late.latest()
    staged = late.stage_write_at(4000, b"y")
    for number in range(1, 40):
        early.commit([early.stage_write_at(number, b"x")])
    late.commit([staged])
    assert not [path for _, path in store.events if "/history/" in path]


# -- decisions ---------------------------------------------------------------------------------------------


def test_a_conflict_deep_in_a_segment_is_found_and_named() -> None:
    store = MemoryStore()
    dataset = opened(store)
    base = dataset.write(row("first"))
    for number in range(5):
        dataset.write(row(f"before{number}"))
    rival = dataset.write(row("ours"))
    for number in range(60):
        dataset.write(row(f"after{number % 7}"))
    with pytest.raises(SnapshotConflictError, match=f"{rival.id} also wrote partition p=ours"):
        opened(store).write(row("ours"), base=base)
    assert opened(store).write(row("theirs"), base=base).sequence == 68


@pytest.mark.parametrize("act", ["overwrite", "delete", "compact", "restore"])
def test_removals_deep_in_a_segment_are_seen_as_without_segments(act: str) -> None:
    store = MemoryStore()
    dataset = opened(store)
    for number in range(6):
        base = dataset.write(row("ours", number))
    match act:
        case "overwrite":
            dataset.overwrite(row("ours", 9))
        case "delete":
            dataset.delete("n = 3")
        case "compact":
            dataset.compact()
        case _:
            dataset.restore(base)
    for number in range(40):
        dataset.write(row(f"after{number}"))
    bare = cloned(store)
    for entry in list(bare.list("datasets/d/history/")):
        bare.delete(entry.path)

    def outcome(lake: lode.Store, write: Callable[[lode.Dataset], Any]) -> str:
        try:
            write(opened(lake))
        except lode.LodeError as error:
            return str(error).partition(", so ")[0]
        return "landed"

    for attempt in (
        lambda dataset: dataset.write(row("ours"), base=base),
        lambda dataset: dataset.write(row("else"), base=base),
    ):
        assert outcome(cloned(store), attempt) == outcome(cloned(bare), attempt)


class LostAnswer(StoreWrapper):
    """Loses the answer to the first swap of the pointer, after others have committed behind it."""

    def __init__(self, inner: lode.Store, others: Callable[[], object]) -> None:
        super().__init__(inner)
        self._others: Callable[[], object] | None = others

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        result = call()
        others = self._others
        if method == "compare_and_swap" and path.endswith("/latest") and others is not None:
            self._others = None
            others()
            raise OutcomeUnknownError("no answer")
        return result


def test_a_writer_finds_its_own_commit_in_a_segment() -> None:
    store = MemoryStore()
    opened(store).write(row("first"))

    def others() -> None:
        dataset = opened(store)
        for number in range(70):
            dataset.write(row(f"other{number}"))

    late = opened(LostAnswer(store, others), NO_CHORES)
    snapshot = late.write(row("late"))
    assert snapshot.sequence == 2
    assert [each.id for each in opened(store).snapshots()].count(snapshot.id) == 1
    assert opened(store).latest().sequence == 72


def test_a_writer_from_before_a_drop_is_refused_however_much_came_after_it() -> None:
    store = MemoryStore()
    dataset = opened(store)
    for _ in range(20):
        dataset.write(row("old"))
    late = opened(store)
    late.transaction().abort()
    dataset.drop()
    again = opened(store)
    for _ in range(50):
        again.write(row("new"))
    with pytest.raises(DatasetDroppedError):
        late.write(row("late"))


def test_a_base_of_another_history_is_refused() -> None:
    store, other = MemoryStore(), MemoryStore()
    for lake in (store, other):
        dataset = opened(lake)
        for _ in range(70):
            dataset.write(row("x"))
    foreign = opened(other).snapshots()[20].manifest
    newest = opened(store).latest().manifest
    assert after(chain_of(store), opened(store), foreign, newest) is None
    assert after(chain_of(store), opened(store), opened(other).latest().manifest, newest) is None


def test_manifests_of_go_without_sequences_are_walked_over(tmp_path: Path) -> None:
    parent = None
    for number in range(20):
        id = f"17947693300000000{number:02d}"
        golang.write(
            tmp_path, id, [{"p": f"{number % 3}", "n": number}], parent=parent, keys=["p"], dataset="d"
        )
        parent = id
    store = lode.open_store(tmp_path, durable=False)
    dataset = lode.Dataset("d", store, codec="jsonl", layout=LAYOUT, runtime=AT_ONCE)
    base = dataset.snapshots()[2]
    for number in range(40):
        dataset.write(row("python", number))
    assert lode.Dataset("d", store, codec="jsonl", layout=LAYOUT).write(row("q"), base=base).sequence == 61
    with pytest.raises(SnapshotConflictError, match="p=1"):
        lode.Dataset("d", store, codec="jsonl", layout=LAYOUT).write(row("1"), base=base)


# -- the fast walk equals the plain one ----------------------------------------------------------------------


@cache
def mixed_history(seed: int) -> tuple[MemoryStore, list[Manifest]]:
    """All kinds of commits, some of them under contention, so that manifests have summaries."""
    chance = random.Random(seed)
    store = MemoryStore()
    dataset = opened(store)
    dataset.write(row("a"))
    while (length := dataset.latest().sequence or 0) < 150:
        partition = chance.choice("abcdef")
        match chance.choice(
            ["write"] * 12 + ["rebased"] * 4 + ["overwrite", "delete", "compact", "restore", "evolve"]
        ):
            case "write":
                dataset.write(row(partition, length))
            case "rebased":
                transaction = opened(store).transaction()
                transaction.stage(row("g", length))
                dataset.write(row(partition, length))
                transaction.commit()
            case "overwrite":
                dataset.overwrite(row(partition, length))
            case "delete":
                dataset.delete(f"n = {chance.randrange(length)}")
            case "compact":
                dataset.compact()
            case "restore":
                dataset.restore(dataset.snapshot(chance.randrange(1, length + 1)))
            case _:
                dataset.evolve(add={f"c{length}": "int64"})
    return store, [snapshot.manifest for snapshot in dataset.snapshots()]


@cache
def grouped_history() -> tuple[MemoryStore, list[Manifest]]:
    """Commits of sixteen writers that wait for each other and are committed in groups."""
    inner = MemoryStore(now_ns=lambda: 0)
    time = VirtualTime(seed=1)
    store = VirtualStore(inner, time)

    def write(number: int) -> None:
        runtime = replace(time.runtime(), background=lambda chore: chore())
        dataset = opened(store, runtime)
        for commit in range(8):
            dataset.write(row(f"w{number}", commit))

    time.run([partial(write, number) for number in range(16)])
    return inner, [snapshot.manifest for snapshot in opened(inner).snapshots()]


def test_members_of_groups_are_found_in_segments_and_in_the_intents_of_their_leaders() -> None:
    inner, manifests = grouped_history()
    assert max(manifest.group.size for manifest in manifests) > 4
    store = CountingStore(inner)
    dataset = opened(inner, NO_CHORES)
    ids = [manifest.snapshot_id for manifest in manifests]
    for head in range(1, len(manifests), 6):
        for behind in (1, 3, 9, 20, 100):
            base = head - behind
            if base < 0:
                continue
            store.reset()
            found = after(chain_of(store), dataset, manifests[base], manifests[head])
            assert found is not None
            assert [commit.snapshot_id for commit in found] == ids[base + 1 : head + 1][::-1]
            assert [commit.partitions for commit in found] == [
                frozenset({f"p={json.loads(inner.get(each.files[0].path))['p']}"})
                for each in manifests[base + 1 : head + 1][::-1]
            ]
            assert store.total <= 15 + 3 + 1


def damaged(kind: str, data: bytes, foreign: bytes, place: int) -> bytes | None:
    """The bytes of a segment after something has happened to it; None if it is gone."""
    document = msgspec.json.decode(zstandard.decompress(data))
    count = len(document["manifests"])
    match kind:
        case "missing":
            return None
        case "cut":
            return data[: place * len(data) // 64]
        case "flipped":
            at = place * len(data) // 64 % len(data)
            return data[:at] + bytes([data[at] ^ (1 << place % 8)]) + data[at + 1 :]
        case "foreign":
            return foreign
        case "short":
            del document["manifests"][place % count]
        case "renamed":
            document["manifests"][place % count]["snapshot_id"] = "another"
        case "renumbered":
            document["manifests"][place % count]["sequence"] = place + 1
        case "relinked":
            document["manifests"][place % count]["parent_snapshot_id"] = document["manifests"][-1][
                "snapshot_id"
            ]
        case "circular":
            for each in document["manifests"]:
                each.pop("sequence", None)
                each["snapshot_id"] = each["parent_snapshot_id"] = document["manifests"][-1]["snapshot_id"]
        case "owned by another":
            document["manifests"][place % count]["dataset_id"] = "another"
        case _:
            document["manifests"] = []
    return zstandard.compress(msgspec.json.encode(document))


DAMAGES = (
    "missing", "cut", "flipped", "foreign", "short", "renamed", "renumbered", "relinked", "circular",
    "owned by another", "empty",
)  # fmt: skip


def relevant(found: list[CommitSummary] | None) -> list[CommitSummary] | None:
    """A summary of recent commits does not tell operations that remove nothing apart."""
    if found is None:
        return None
    return [
        each
        if each.operation in (COMPACT, DROP) or each.removes or each.restores
        else replace(each, operation="append")
        for each in found
    ]


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2),
    damages=st.lists(
        st.tuples(st.sampled_from(DAMAGES), st.integers(0, 200), st.integers(0, 63)), max_size=12
    ),
    ends=st.tuples(st.integers(-1, 149), st.integers(0, 149)),
)
def test_the_walk_by_segments_finds_what_the_walk_by_manifests_finds(
    seed: int, damages: list[tuple[str, int, int]], ends: tuple[int, int]
) -> None:
    inner, manifests = mixed_history(seed)
    foreign, _ = mixed_history(seed + 1)
    store = cloned(inner)
    segments = [entry.path for entry in inner.list("datasets/d/history/")]
    for kind, number, place in damages:
        path = segments[number % len(segments)]
        data = damaged(kind, inner.get(path), foreign.get(path), place)
        if store.exists(path):
            store.delete(path)
        if data is not None:
            store.put(path, data)
    dataset = opened(inner, NO_CHORES)
    base, head = (manifests[place] if place >= 0 else None for place in ends)
    assert head is not None
    by_manifests = after(chain_of(store, has_segments=False), dataset, base, head)
    by_segments = after(chain_of(store), dataset, base, head)
    assert relevant(by_segments) == relevant(by_manifests)
    expected = [each.snapshot_id for each in reversed(manifests[max(ends[0] + 1, 0) : ends[1] + 1])]
    is_ancestor = ends[0] <= ends[1]
    assert [each.snapshot_id for each in by_segments or ()] == (expected if is_ancestor else [])
    assert (by_segments is None) == (not is_ancestor)
