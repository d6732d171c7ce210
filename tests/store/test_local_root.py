"""The folder of a local store goes away, or another one takes its place."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

import pytest

from lode.errors import NotFoundError, StoreError
from lode.store import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Call = Callable[[LocalStore], object]


@pytest.fixture(params=["openat2", "component by component"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with one object, with and without the kernel's help."""
    if request.param != "openat2":
        monkeypatch.setattr("lode.store.local_tree.openat2", lambda: None)
    LocalStore(tmp_path / "lake", durable=False).put("d/x", b"1")
    return tmp_path / "lake"


def read_with_reader(store: LocalStore) -> None:
    with store.open_reader("d/x") as reader:
        reader.read_at(0, 1)


def upload(store: LocalStore) -> None:
    with store.open_writer("d/new") as writer:
        writer.write(b"new")
        writer.commit()


CALLS: dict[str, Call] = {
    "get": lambda store: store.get("d/x"),
    "get_bounded": lambda store: store.get_bounded("d/x", 10),
    "get_range": lambda store: store.get_range("d/x", 0, 1),
    "get what is missing": lambda store: store.get("d/missing"),
    "exists": lambda store: store.exists("d/x"),
    "exists what is missing": lambda store: store.exists("d/missing"),
    "head": lambda store: store.head("d/x"),
    "list": lambda store: list(store.list()),
    "list a folder": lambda store: list(store.list("d/")),
    "temporaries": lambda store: list(store.temporaries()),
    "open_reader": read_with_reader,
    "local_path": lambda store: store.local_path("d/x"),
    "put": lambda store: store.put("d/new", b"new"),
    "put into a new folder": lambda store: store.put("e/f/new", b"new"),
    "put at the root": lambda store: store.put("new", b"new"),
    "put_volatile": lambda store: store.put_volatile("d/new", b"new"),
    "open_writer": upload,
    "link": lambda store: store.link("d/x", "d/new"),
    "create by swap": lambda store: store.compare_and_swap("d/new", None, b"new"),
    "swap": lambda store: store.compare_and_swap("d/x", b"1", b"2"),
    "delete": lambda store: store.delete("d/x"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "volatile"])
def test_a_store_whose_folder_is_missing_says_so_and_makes_no_other(
    lake: Path, call: str, durable: bool
) -> None:
    store = LocalStore(lake, durable=durable)
    assert store.get("d/x") == b"1"
    lake.rename(lake.with_name("away"))
    with pytest.raises(StoreError, match=r"/lake' of the store is missing, and was there before: mount it"):
        CALLS[call](store)
    assert not lake.exists()
    lake.with_name("away").rename(lake)
    assert store.get("d/x") == b"1"


@pytest.mark.parametrize("call", CALLS)
def test_an_empty_folder_in_its_place_is_neither_read_nor_written(lake: Path, call: str) -> None:
    store = LocalStore(lake, durable=False)
    store.put("before", b"")
    lake.rename(lake.with_name("away"))
    lake.mkdir()
    with pytest.raises(StoreError, match=r"another folder is in the place of '.*/lake'"):
        CALLS[call](store)
    assert list(lake.iterdir()) == []
    lake.rmdir()
    lake.with_name("away").rename(lake)
    store.put("after", b"")
    assert [info.path for info in store.list()] == ["after", "before", "d/x"]


def test_a_folder_that_was_removed_and_made_again_is_another_one(lake: Path) -> None:
    """Its number is not given to the next one while the store has it open."""
    store = LocalStore(lake, durable=False)
    store.delete("d/x")
    (lake / "d").rmdir()
    lake.rmdir()
    lake.mkdir()
    with pytest.raises(StoreError, match="another folder is in the place"):
        store.put("d/x", b"1")
    LocalStore(lake, durable=False).put("d/x", b"2")
    assert (lake / "d/x").read_bytes() == b"2"


def test_a_link_to_the_root_that_is_changed_is_another_folder(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(lake)
    store = LocalStore(tmp_path / "link", durable=False)
    assert store.get("d/x") == b"1"
    (tmp_path / "other").mkdir()
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "other")
    with pytest.raises(StoreError, match="another folder is in the place"):
        store.put("d/y", b"1")
    assert list((tmp_path / "other").iterdir()) == []


def test_an_upload_that_had_begun_is_finished_in_its_own_folder(lake: Path) -> None:
    store = LocalStore(lake, durable=False)
    writer = store.open_writer("d/new")
    writer.write(bytes(1 << 20))
    lake.rename(lake.with_name("away"))
    lake.mkdir()
    writer.commit()
    assert list(lake.iterdir()) == []
    assert sorted(path.name for path in (lake.with_name("away") / "d").iterdir()) == ["new", "x"]


def test_an_upload_that_is_given_up_leaves_nothing_in_its_own_folder(lake: Path) -> None:
    store = LocalStore(lake, durable=False)
    writer = store.open_writer("d/new")
    writer.write(bytes(1 << 20))
    lake.rename(lake.with_name("away"))
    writer.abort()
    assert [path.name for path in (lake.with_name("away") / "d").iterdir()] == ["x"]


def test_a_store_that_was_opened_before_its_folder_existed_uses_it_later(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake", durable=False)
    with pytest.raises(NotFoundError):
        store.get("x")
    assert list(store.list()) == []
    assert not store.exists("x")
    LocalStore(tmp_path / "lake", durable=False).put("x", b"1")
    assert store.get("x") == b"1"
    (tmp_path / "lake").rename(tmp_path / "away")
    with pytest.raises(StoreError, match="is missing, and was there before"):
        store.put("y", b"1")


def test_a_copy_of_a_store_in_another_process_does_not_make_its_folder_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "lake", durable=False)
    early = pickle.dumps(store)
    store.put("x", b"1")
    late = pickle.dumps(store)
    (tmp_path / "lake").rename(tmp_path / "away")
    with pytest.raises(StoreError, match="is missing, and was there before"):
        pickle.loads(late).put("y", b"1")
    assert not (tmp_path / "lake").exists()
    pickle.loads(early).put("y", b"1")
    assert (tmp_path / "lake/y").read_bytes() == b"1"


def test_a_store_whose_descriptors_were_closed_writes_to_its_own_folder(tmp_path: Path) -> None:
    """A daemon closes all descriptors when it starts. Their numbers are given to other files then."""
    one = LocalStore(tmp_path / "one", durable=False)
    one.put("first", b"1")
    descriptor = one._tree.descriptor
    os.close(descriptor)
    others = [LocalStore(tmp_path / f"other-{number}", durable=False) for number in range(3)]
    for other in others:
        other.put("x", b"x")
    assert any(other._tree.descriptor == descriptor for other in others)
    one.put("second", b"2")
    assert (tmp_path / "one" / "second").read_bytes() == b"2"
    del one
    assert [other.get("x") for other in others] == [b"x"] * 3
