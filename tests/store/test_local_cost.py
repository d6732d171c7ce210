"""How many calls of the system a write to a disk makes, counted: each of them is paid by every commit."""

from __future__ import annotations

import fcntl
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.definition import Column, Definition
from lode.format.manifest import FileRef, Manifest
from lode.read.segment import HistorySegment, SegmentListing
from lode.store import LocalStore
from lode.store.openat2 import openat2

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="openat2 and O_TMPFILE are Linux's")

CALLS = ("open", "mkdir", "link", "unlink", "replace", "write", "fsync", "fstat", "close", "stat", "lstat")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls made and, as ``failed``, those that raised."""
    counted: Counter[str] = Counter()

    def counting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            counted[name] += 1
            try:
                return call(*arguments, **options)
            except OSError:
                counted["failed"] += 1
                raise

        return noted

    from_root = openat2()
    assert from_root is not None
    counting_from_root = counting("openat2", from_root)
    monkeypatch.setattr("lode.store.local_tree.openat2", lambda: counting_from_root)
    monkeypatch.setattr(fcntl, "flock", counting("flock", fcntl.flock))
    for name in CALLS:
        monkeypatch.setattr(os, name, counting(name, getattr(os, name)))
    return counted


def test_a_commit_opens_six_paths_from_the_root_and_no_call_fails(
    tmp_path: Path, calls: Counter[str]
) -> None:
    """Three puts, a swap, and a link with its two ends."""
    dataset = lode.Dataset(
        "events", LocalStore(tmp_path, durable=False), codec="jsonl", layout=lode.HiveLayout("day")
    )
    for _ in range(3):
        calls.clear()
        dataset.write([{"day": "mon"}])
    assert calls["openat2"] == 6
    assert calls["failed"] == 0
    assert calls["mkdir"] == 3
    # The lock of the pointer.
    assert calls["flock"] == 1
    assert calls["unlink"] == 0
    # Is the root still at its place, and its descriptor still its own? Two looks for each path.
    assert calls["stat"] == 6
    assert calls["lstat"] == 0
    assert calls.total() == 57, calls


def test_a_put_beside_another_makes_eight_calls(tmp_path: Path, calls: Counter[str]) -> None:
    store = LocalStore(tmp_path, durable=False)
    store.put("d/x", b"1")
    calls.clear()
    store.put("d/y", b"2")
    assert calls == {"stat": 1, "fstat": 1, "openat2": 1, "open": 1, "write": 1, "link": 1, "close": 2}


def test_a_durable_put_opens_its_directory_once(tmp_path: Path, calls: Counter[str]) -> None:
    store = LocalStore(tmp_path)
    store.put("d/x", b"1")
    calls.clear()
    store.put("d/y", b"2")
    assert (calls.pop("fsync"), calls.pop("close")) == (2, 2)
    assert calls == {"stat": 1, "fstat": 1, "openat2": 1, "open": 1, "write": 1, "link": 1}


def test_a_swap_opens_its_directory_once(tmp_path: Path, calls: Counter[str]) -> None:
    store = LocalStore(tmp_path, durable=False)
    store.compare_and_swap("d/latest", None, b"1")
    calls.clear()
    assert store.compare_and_swap("d/latest", b"1", b"2")
    assert (calls["stat"], calls["openat2"]) == (1, 1)
    assert calls.total() == 14, calls


def test_a_read_makes_five_calls(tmp_path: Path, calls: Counter[str]) -> None:
    store = LocalStore(tmp_path, durable=False)
    store.put("d/x", b"1")
    calls.clear()
    assert store.get("d/x") == b"1"
    assert calls == {"stat": 1, "openat2": 1, "fstat": 2, "close": 1}


def test_more_directories_than_a_store_remembers_are_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lode.store.local_tree.MAX_REMEMBERED_DIRECTORIES", 3)
    store = LocalStore(tmp_path, durable=False)
    paths = [f"a/{number}/b/x" for number in range(10)]
    for path in paths:
        store.put(path, b"1")
    assert [info.path for info in store.list()] == paths


@pytest.mark.parametrize("kind", [Manifest, FileRef, Definition, Column, HistorySegment, SegmentListing])
def test_what_a_process_decodes_first_has_no_annotations_as_text(kind: type) -> None:
    """The decoder compiles each of them, which takes longer than reading the object."""
    assert not [name for name, annotation in kind.__annotations__.items() if isinstance(annotation, str)]
