"""What is no plain file in a local lake: links, FIFOs, sockets, devices, directories."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import lode
from lode.errors import NotFoundError, StoreError
from lode.store import LocalStore
from lode.store.openat2 import openat2

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Call = Callable[[LocalStore, str], object]


@pytest.fixture(params=["openat2", "component by component"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake's directory, with and without the kernel's help."""
    if request.param == "openat2":
        assert (openat2() is not None) == (sys.platform == "linux")
    else:
        monkeypatch.setattr("lode.store.local_tree.openat2", lambda: None)
    lake = tmp_path / "lake"
    lake.mkdir()
    return lake


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"secret")
    (outside / "deep").mkdir()
    return outside


def read_with_reader(store: LocalStore, path: str) -> None:
    with store.open_reader(path) as reader:
        reader.read_at(0, 1)


def upload(store: LocalStore, path: str) -> None:
    with store.open_writer(path) as writer:
        writer.write(b"new")
        writer.commit()


READS: list[Call] = [
    lambda store, path: store.get(path),
    lambda store, path: store.get_range(path, 0, 1),
    lambda store, path: store.head(path),
    lambda store, path: store.exists(path),
    read_with_reader,
    lambda store, path: store.local_path(path),
    lambda store, path: store.link(path, "copy"),
]
WRITES: list[Call] = [
    lambda store, path: store.put(path, b"new"),
    lambda store, path: store.put_volatile(path, b"new"),
    lambda store, path: store.link("source", path),
    lambda store, path: store.compare_and_swap(path, None, b"new"),
    lambda store, path: store.compare_and_swap(path, b"secret", b"new"),
    upload,
]


def state(directory: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() if path.is_file() else None
        for path in directory.rglob("*")
    }


@pytest.mark.parametrize("call", range(len(READS) + len(WRITES)))
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "volatile"])
def test_a_link_to_a_file_is_refused_by_name(lake: Path, outside: Path, call: int, durable: bool) -> None:
    store = LocalStore(lake, durable=durable)
    store.put("source", b"1")
    (lake / "d").mkdir()
    (lake / "d/link").symlink_to(outside / "x")
    before = state(outside)
    with pytest.raises(StoreError, match="'d/link' is a symbolic link"):
        [*READS, *WRITES][call](store, "d/link")
    assert state(outside) == before
    assert not (lake / "copy").exists()


@pytest.mark.parametrize("call", range(len(READS) + len(WRITES)))
@pytest.mark.parametrize("path", ["d/link/x", "d/link/deep/x", "d/link/new/deep/x"])
def test_a_directory_that_is_a_link_is_refused_by_name(
    lake: Path, outside: Path, call: int, path: str
) -> None:
    store = LocalStore(lake, durable=False)
    store.put("source", b"1")
    (lake / "d").mkdir()
    (lake / "d/link").symlink_to(outside)
    before = state(outside)
    with pytest.raises(StoreError, match="'d/link' is a symbolic link"):
        [*READS, *WRITES][call](store, path)
    assert state(outside) == before


@pytest.mark.parametrize("name", ["latest.lock", "latest.queue.lock"])
def test_a_lock_file_that_is_a_link_makes_no_file_outside(lake: Path, outside: Path, name: str) -> None:
    store = LocalStore(lake, durable=False)
    store.put("latest", b"1")
    (lake / name).symlink_to(outside / "new")
    if name == "latest.lock":
        with pytest.raises(StoreError, match="symbolic link"):
            store.compare_and_swap("latest", b"1", b"2")
    with store.queue("latest", 0.01, 0.001):
        pass
    assert not (outside / "new").exists()


def test_a_lock_file_that_is_a_directory_is_named(lake: Path) -> None:
    store = LocalStore(lake, durable=False)
    store.put("latest", b"1")
    (lake / "latest.lock").mkdir()
    with pytest.raises(StoreError, match=r"'latest\.lock' is a directory"):
        store.compare_and_swap("latest", b"1", b"2")


def test_deleting_removes_a_link_and_nothing_behind_one(lake: Path, outside: Path) -> None:
    store = LocalStore(lake, durable=False)
    (lake / "file").symlink_to(outside / "x")
    (lake / "directory").symlink_to(outside)
    store.delete("file")
    assert not (lake / "file").is_symlink()
    with pytest.raises(StoreError, match="symbolic link"):
        store.delete("directory/x")
    assert (outside / "x").read_bytes() == b"secret"


def test_a_listing_goes_through_no_link(lake: Path, outside: Path) -> None:
    store = LocalStore(lake, durable=False)
    store.put("a/x", b"1")
    (lake / "link").symlink_to(outside)
    assert [info.path for info in store.list()] == ["a/x"]
    for prefix in ("link/", "link/x", "link/deep/"):
        with pytest.raises(StoreError, match="'link' is a symbolic link"):
            list(store.list(prefix))
        with pytest.raises(StoreError, match="'link' is a symbolic link"):
            list(store.temporaries(prefix))


def test_a_directory_that_a_link_replaces_later_is_refused_too(lake: Path, outside: Path) -> None:
    store = LocalStore(lake, durable=False)
    store.put("d/x", b"1")
    assert store.get("d/x") == b"1"
    (lake / "d").rename(lake / "before")
    (lake / "d").symlink_to(outside)
    for call in (lambda: store.get("d/x"), lambda: store.head("d/x"), lambda: store.put("d/y", b"2")):
        with pytest.raises(StoreError, match="'d' is a symbolic link"):
            call()


def test_an_upload_does_not_land_behind_a_link_that_came_meanwhile(lake: Path, outside: Path) -> None:
    store = LocalStore(lake, durable=False)
    before = state(outside)
    with store.open_writer("d/new") as writer:
        writer.write(b"1")
        (lake / "d").rename(lake / "before")
        (lake / "d").symlink_to(outside)
        with pytest.raises((StoreError, NotFoundError)):
            writer.commit()
    assert state(outside) == before


def test_a_link_to_nothing_is_refused_and_nothing_is_made_behind_it(lake: Path, tmp_path: Path) -> None:
    store = LocalStore(lake, durable=False)
    (lake / "link").symlink_to(tmp_path / "nowhere")
    for call in (
        lambda: store.put("link/x", b"1"),
        lambda: store.put("link", b"1"),
        lambda: store.get("link"),
    ):
        with pytest.raises(StoreError, match="'link' is a symbolic link"):
            call()
    assert not (tmp_path / "nowhere").exists()


def test_the_root_may_be_a_link_or_below_one(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(lake)
    (tmp_path / "above").symlink_to(tmp_path)
    LocalStore(tmp_path / "link").put("a/x", b"1")
    assert LocalStore(tmp_path / "above/lake").get("a/x") == b"1"
    assert LocalStore(tmp_path / "above/link", durable=False).compare_and_swap("a/x", b"1", b"2")
    assert LocalStore(lake).get("a/x") == b"2"
    LocalStore(tmp_path / "above/new/lake").put("a/x", b"3")
    assert (tmp_path / "new/lake/a/x").read_bytes() == b"3"


def test_a_root_that_becomes_a_link_while_the_store_is_open_is_found(lake: Path, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "later", durable=False)
    with pytest.raises(NotFoundError):
        store.get("a/x")
    (tmp_path / "later").symlink_to(lake)
    store.put("a/x", b"1")
    assert store.get("a/x") == b"1"
    assert (lake / "a/x").read_bytes() == b"1"


@pytest.fixture(params=["FIFO", "socket"])
def special(request: pytest.FixtureRequest, lake: Path) -> str:
    """Something in the lake that is no file: its kind. It is at ``d/x``."""
    (lake / "d").mkdir()
    os.mknod(lake / "d/x", 0o600 | (stat.S_IFIFO if request.param == "FIFO" else stat.S_IFSOCK))
    return f"{request.param}"


@pytest.mark.parametrize("call", range(len(READS) + len(WRITES)))
def test_what_is_no_file_is_named_and_never_waited_for(lake: Path, special: str, call: int) -> None:
    store = LocalStore(lake, durable=False)
    store.put("source", b"1")
    with pytest.raises(StoreError, match=f"'d/x' is a {special}"):
        [*READS, *WRITES][call](store, "d/x")
    assert [info.path for info in store.list()] == ["source"]


def test_a_device_is_named() -> None:
    store = LocalStore("/dev", durable=False)
    for path in ("null", "zero"):
        with pytest.raises(StoreError, match=f"'{path}' is a device"):
            store.get(path)


def test_a_directory_in_the_place_of_a_pointer_is_an_error(lake: Path) -> None:
    store = LocalStore(lake, durable=False)
    (lake / "latest").mkdir()
    assert not store.compare_and_swap("latest", b"1", b"2")
    with pytest.raises(StoreError, match="'latest'"):
        store.compare_and_swap("latest", None, b"2")


# -- datasets ----------------------------------------------------------------------------------------


SCHEMA = {"id": "int64"}


def written(lake: Path) -> tuple[lode.Dataset, Path]:
    """A dataset in Parquet, and its newest file."""
    dataset = lode.Dataset("events", LocalStore(lake, durable=False), codec=lode.Parquet(SCHEMA))
    dataset.write([{"id": 1}])
    snapshot = dataset.write([{"id": 2}])
    return dataset, lake / snapshot.files[0].path


def test_a_scan_follows_no_link(lake: Path, outside: Path) -> None:
    dataset, file = written(lake)
    file.rename(outside / "moved")
    file.symlink_to(outside / "moved")
    with pytest.raises(StoreError, match="symbolic link"):
        dataset.scan().read_all()


SCAN = """
import sys
import lode
try:
    lode.Dataset("events", sys.argv[1], codec=lode.Parquet({"id": "int64"})).scan().read_all()
except lode.StoreError as error:
    print(error)
"""


def test_a_scan_does_not_wait_at_a_fifo(tmp_path: Path) -> None:
    _, file = written(tmp_path)
    file.unlink()
    os.mkfifo(file)
    answer = subprocess.run(
        [sys.executable, "-c", SCAN, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert "is a FIFO" in answer.stdout


def test_a_manifest_that_is_a_fifo_is_not_taken_for_published(lake: Path) -> None:
    dataset, _ = written(lake)
    latest = dataset.latest()
    manifest = lake / f"datasets/events/snapshots/{latest.id}/manifest.json"
    manifest.unlink()
    os.mkfifo(manifest)
    again = lode.Dataset("events", LocalStore(lake, durable=False), codec=lode.Parquet(SCHEMA))
    for call in (again.latest, lambda: again.write([{"id": 3}])):
        with pytest.raises(StoreError, match="is a FIFO"):
            call()
