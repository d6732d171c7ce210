"""Snapshot ids sort by time and never repeat; ids people choose are checked."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lode
from lode.errors import InvalidPathError
from lode.format.ids import SnapshotIds, check_id, check_new_id
from support import golang

if TYPE_CHECKING:
    from pathlib import Path


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


REFUSED = [
    "datasets",
    "Volumes",
    ".lode-cas-1",
    ".lode-x.tmp",
    "a.lock",
    " a",
    "a ",
    "a\u00a0",
    "a.",
    "x" * 256,
]


@pytest.mark.parametrize("kind", ["dataset", "volume"])
@pytest.mark.parametrize("id", REFUSED)
def test_nothing_is_written_under_a_name_that_lode_or_a_store_uses(id: str, kind: str) -> None:
    assert check_id(id, kind=kind) == id
    with pytest.raises(InvalidPathError, match=f"{kind} id .*(choose|leave that out)"):
        check_new_id(id, kind=kind)


@pytest.mark.parametrize(
    "id",
    ["latest", "LATEST", "latest.lock", "keys", "history", "definition", "tags", "data", "segments", "a\t "],
)
def test_no_snapshot_is_called_like_what_a_history_has_beside_it(id: str) -> None:
    with pytest.raises(InvalidPathError, match="snapshot id"):
        check_new_id(id, kind="snapshot")


@pytest.mark.parametrize(
    "id", ["latest", "events", ".hidden", "a.b", "catalog", "keys", "x" * 255, "é" * 127]
)
def test_other_names_of_a_dataset_are_free(id: str) -> None:
    assert check_new_id(id, kind="dataset") == id


@pytest.mark.parametrize("id", ["datasets", "volumes", "catalog", "ingest-state", "Datasets"])
def test_a_flat_layout_has_no_dataset_that_is_a_folder_of_the_lake(id: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidPathError, match=f"dataset id '{id}'"):
        lode.Dataset(id, tmp_path, layout=lode.FlatLayout())
    assert lode.FlatLayout().place(f"{id}/1/manifest.json") is None


def test_a_dataset_with_a_reserved_name_is_read_and_neither_written_nor_swept(tmp_path: Path) -> None:
    golang.write(tmp_path, "1794769330000000001", [{"n": 1}], dataset="volumes")
    dataset = lode.open_dataset("volumes", tmp_path)
    assert dataset.scan().read_all().to_pylist() == [{"n": 1}]
    with pytest.raises(InvalidPathError, match="choose another"):
        dataset.write([{"n": 2}])
    with pytest.raises(InvalidPathError, match="cannot be swept"):
        lode.sweep(lode.Dataset("volumes", tmp_path), timedelta(0), dry_run=False)
    assert dataset.scan().read_all().to_pylist() == [{"n": 1}]


def test_a_volume_with_a_reserved_name_takes_no_blocks(tmp_path: Path) -> None:
    with pytest.raises(InvalidPathError, match="volume id 'volumes'"):
        lode.Volume("volumes", tmp_path, 8).stage_write_at(0, b"x")
