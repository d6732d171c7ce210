"""Writers of different partitions do not conflict; there is one line of history and one pointer."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lode
from lode.store.memory import MemoryStore
from lode.store.wrappers import CountingStore, StoreWrapper
from lode.write.rebase import common_partition, overlapping

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def pages(store: lode.Store, *keys: str) -> lode.Dataset:
    return lode.Dataset("pages", store, codec="jsonl", layout=lode.HiveLayout(*(keys or ("category",))))


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


def begun(store: lode.Store) -> lode.Dataset:
    """A writer that knows the first snapshot and nothing after it."""
    ours = pages(store)
    ours.write([{"category": "base"}])
    return ours


def test_a_writer_follows_any_number_of_writers_of_other_partitions(store: CountingStore) -> None:
    ours = begun(store)
    for number in range(10):
        pages(store).write([{"category": f"other-{number}"}])
    snapshot = ours.write([{"category": "alpha"}])
    assert snapshot.sequence == 12
    assert lode.verify(ours).ok


class Outrun(StoreWrapper):
    """Another writer commits before each swap of the pointer, a number of times."""

    def __init__(self, inner: lode.Store, times: int) -> None:
        super().__init__(inner)
        self.left = times

    def around(self, method: str, path: str, call: Callable[[], T]) -> T:
        if method == "compare_and_swap" and path.endswith("/latest") and self.left:
            self.left -= 1
            pages(self.inner).write([{"category": f"other-{self.left}"}])
        return call()


def test_no_number_of_rebases_is_too_many() -> None:
    inner = MemoryStore()
    pages(inner).write([{"category": "first"}])
    outrun = Outrun(inner, 50)
    snapshot = pages(outrun).write([{"category": "alpha"}])
    assert outrun.left == 0
    assert snapshot.commit is not None
    assert snapshot.commit.rebases == 50
    assert snapshot.sequence == 52
    assert [each.sequence for each in pages(inner).history()] == list(range(52, 0, -1))
    assert lode.verify(pages(inner)).ok


def test_a_rebased_snapshot_has_the_head_as_its_parent_and_latest_is_one_for_all(
    store: CountingStore,
) -> None:
    ours = begun(store)
    theirs = pages(store).write([{"category": "beta"}])
    snapshot = ours.write([{"category": "alpha"}])
    assert snapshot.parent_id == theirs.id
    assert pages(store).latest().id == snapshot.id
    assert [each.sequence for each in ours.history()] == [3, 2, 1]
    assert [path for path in store.list("datasets/pages/") if path.path.endswith("/latest")] == [
        store.head("datasets/pages/latest")
    ]


def test_a_rebase_uploads_no_data_again_and_swaps_from_the_new_head(store: CountingStore) -> None:
    ours = begun(store)
    pages(store).write([{"category": "beta"}])
    store.reset()
    snapshot = ours.write([{"category": "alpha"}])
    puts = [path for method, path in store.events if method == "put" and "/data/" in path]
    assert puts == [file.path for file in snapshot.files]
    swaps = [
        path for method, path in store.events if method == "compare_and_swap" and path.endswith("latest")
    ]
    assert len(swaps) == 2  # the one that was lost, and the one that was rebased


def test_an_overlap_behind_a_disjoint_commit_is_found(store: CountingStore) -> None:
    ours = begun(store)
    first = pages(store).write([{"category": "alpha"}])
    pages(store).write([{"category": "beta"}])
    with pytest.raises(lode.SnapshotConflictError, match=f"{first.id} also wrote partition category=alpha"):
        ours.write([{"category": "alpha"}])


def test_a_write_that_touches_one_shared_partition_among_many_conflicts(store: CountingStore) -> None:
    ours = begun(store)
    pages(store).write([{"category": "alpha"}, {"category": "beta"}])
    with pytest.raises(lode.SnapshotConflictError, match="partition category=beta"):
        ours.write([{"category": "beta"}, {"category": "gamma"}])


@pytest.mark.parametrize("other", ["alpha2", "alph", "alpha/x", "ALPHA"])
def test_partitions_that_only_share_the_beginning_of_their_names_do_not_overlap(
    store: CountingStore, other: str
) -> None:
    ours = begun(store)
    pages(store).write([{"category": other}])
    assert ours.write([{"category": "alpha"}]).sequence == 3


def test_writers_of_several_keys_overlap_only_if_all_of_them_are_equal(store: CountingStore) -> None:
    ours = pages(store, "source", "category")
    ours.write([{"source": "x", "category": "base"}])
    pages(store, "source", "category").write([{"source": "x", "category": "beta"}])
    assert ours.write([{"source": "x", "category": "alpha"}]).sequence == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda store: lode.Dataset("pages", store, codec="jsonl"),
        lambda store: lode.Dataset("pages", store, codec="jsonl", layout=lode.FlatLayout()),
    ],
    ids=["default", "flat"],
)
def test_without_partitions_any_two_writers_overlap(
    store: CountingStore, make: Callable[[lode.Store], lode.Dataset]
) -> None:
    ours = make(store)
    ours.write([{"n": 1}])
    make(store).write([{"n": 2}])
    with pytest.raises(lode.SnapshotConflictError):
        ours.write([{"n": 3}])


PARTITIONS = st.sampled_from(["", "a=1", "a=1/b=2", "a=10", "a=1e+06", "a=1000000/b=", "a=<nil>", "b=1"])


@given(st.frozensets(PARTITIONS, max_size=4), PARTITIONS)
def test_a_partition_overlaps_with_a_set_as_one_set_with_another(ours: frozenset[str], other: str) -> None:
    assert overlapping(ours)(other) == (common_partition(ours, {other}) is not None)
