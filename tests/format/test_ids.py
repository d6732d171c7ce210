"""Snapshot ids sort by time and never repeat; ids people choose are checked."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lode.errors import InvalidPathError
from lode.format.ids import SnapshotIds, check_id


def test_an_id_is_nanoseconds_and_randomness() -> None:
    assert SnapshotIds(lambda: 1_794_769_330_294_366_391, lambda _: 255).next() == (
        "1794769330294366391-00000000000000ff"
    )


def test_an_id_can_be_a_path_segment() -> None:
    id = SnapshotIds(time.time_ns, lambda bits: 2**bits - 1).next()
    assert re.fullmatch(r"\d{19}-[0-9a-f]{16}", id)
    assert check_id(id, kind="snapshot") == id


@given(st.lists(st.integers(10**18, 9 * 10**18), min_size=2, max_size=20))
def test_ids_of_one_process_sort_in_their_order_whatever_the_clock_does(clock: list[int]) -> None:
    ids = SnapshotIds(iter(clock).__next__, lambda _: 0)
    made = [ids.next() for _ in clock]
    assert all(earlier < later for earlier, later in pairwise(made))


def test_ids_from_many_threads_are_unique_and_a_later_call_sorts_later() -> None:
    ids = SnapshotIds(lambda: 10**18, lambda _: 7)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: ids.next(), range(400)))
    assert len(set(made)) == 400
    assert ids.next() > max(made)


def test_two_processes_at_the_same_nanosecond_differ_by_chance() -> None:
    here = SnapshotIds(lambda: 10**18, lambda _: 1).next()
    there = SnapshotIds(lambda: 10**18, lambda _: 2).next()
    assert here != there


@pytest.mark.parametrize("id", ["events", "a.b", "ünï", "with space", "1794769330294366391", "a=b", "~"])
def test_an_id_that_is_one_path_segment_is_allowed(id: str) -> None:
    assert check_id(id, kind="dataset") == id


@pytest.mark.parametrize(
    "id", ["", ".", "..", "a..b", "/a", "a/b", "a\\b", "\n", "\0", "\x7f", "\ud800", None, 7]
)
def test_an_id_that_is_not_says_what_is_wrong(id: Any) -> None:
    with pytest.raises(InvalidPathError, match="volume id"):
        check_id(id, kind="volume")
