"""The store in a directory."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lode
from lode.errors import (
    InvalidPathError,
    LodeError,
    OutcomeUnknownError,
    PathExistsError,
    PermissionDeniedError,
    StoreError,
)
from lode.store import LocalStore
from lode.testing.store_suite import (
    LinkTests,
    QueueTests,
    StoreSuite,
    TemporaryTests,
    VolatilePutTests,
    race,
)


class TestLocalStore(StoreSuite, LinkTests, VolatilePutTests, QueueTests, TemporaryTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> LocalStore:
        return LocalStore(tmp_path / "lake", durable=False)


class TestDurableLocalStore(StoreSuite, LinkTests, VolatilePutTests, QueueTests, TemporaryTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> LocalStore:
        return LocalStore(tmp_path / "lake")


class TestLocalStoreWithoutUnnamedFiles(StoreSuite, LinkTests, VolatilePutTests, QueueTests, TemporaryTests):
    @pytest.fixture
    def store(self, tmp_path: Path, without_unnamed_files: None) -> LocalStore:
        return LocalStore(tmp_path / "lake", durable=False)


@pytest.fixture
def without_unnamed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that refuses ``O_TMPFILE``, as NFS does."""
    opened = os.open

    def refuse(path: str, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return opened(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake", durable=False)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and directories synced, in order, by the real call."""
    names: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        names.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return names


def files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


WRITER = """
import sys
from lode.store import LocalStore
store = LocalStore(sys.argv[1], durable=False)
for number in range(10**6):
    content = (b"%08d" % number) * 40_000
    if number % 2:
        store.put(f"d/{number:08}", content)
    else:
        with store.open_writer(f"d/{number:08}") as writer:
            for start in range(0, len(content), 7_000):
                writer.write(content[start : start + 7_000])
            writer.commit()
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_no_torn_object(tmp_path: Path) -> None:
    chance = random.Random(5)
    store = LocalStore(tmp_path, durable=False)
    for _ in range(4):
        for info in store.list():
            store.delete(info.path)
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
        found = list(store.list())
        assert found
        for info in found:
            assert store.get(info.path) == info.path[2:].encode() * 40_000


def test_a_writer_nobody_finished_leaves_nothing_once_it_is_collected(
    store: LocalStore, tmp_path: Path
) -> None:
    writer = store.open_writer("d/x")
    writer.write(bytes(3_000_000))
    assert len(files(tmp_path)) == 1
    del writer
    gc.collect()
    assert files(tmp_path) == set()


def test_a_forked_child_does_not_take_the_parents_file_away(store: LocalStore) -> None:
    writer = store.open_writer("d/x")
    writer.write(b"parent's")
    child = os.fork()
    if child == 0:
        del writer
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    writer.commit()
    assert store.get("d/x") == b"parent's"


def test_refused_and_aborted_writes_leave_no_file(store: LocalStore, tmp_path: Path) -> None:
    store.put("d/x", b"1")
    with pytest.raises(PathExistsError):
        store.put("d/x", b"2")
    with store.open_writer("d/y") as writer:
        writer.write(b"3")
    with store.open_writer("d/x") as writer, pytest.raises(PathExistsError):
        writer.commit()
    assert files(tmp_path / "lake") == {"d/x"}


COUNTER = """
import sys
from lode.store import LocalStore
store = LocalStore(sys.argv[1], durable=False)
for _ in range(25):
    while True:
        current = store.get("counter")
        if store.compare_and_swap("counter", current, b"%d" % (int(current) + 1)):
            break
"""


def test_no_increment_is_lost_between_processes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("counter", b"0")
    racers = [subprocess.Popen([sys.executable, "-c", COUNTER, str(tmp_path)]) for _ in range(8)]
    assert [racer.wait() for racer in racers] == [0] * 8
    assert store.get("counter") == b"200"


def test_a_swap_waits_for_who_holds_the_lock_file(store: LocalStore, tmp_path: Path) -> None:
    import fcntl

    store.put("latest", b"1")
    with (tmp_path / "lake" / "latest.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        def run(number: int) -> Any:
            if number == 0:
                return store.compare_and_swap("latest", b"1", b"2")
            time.sleep(0.2)
            before = store.get("latest")
            fcntl.flock(held, fcntl.LOCK_UN)
            return before

        assert race(2, run) == [True, b"1"]
    assert store.get("latest") == b"2"


def test_a_swap_that_cannot_be_makes_no_directory(store: LocalStore, tmp_path: Path) -> None:
    assert not store.compare_and_swap("d/latest", b"1", b"2")
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(
    "path", ["latest.lock", "a/b.lock", ".lode-0123.tmp", "a/.lode-0.tmp", ".lode-cas-1", "a/.lode-cas-2871"]
)
def test_names_the_store_keeps_for_itself_are_refused(store: LocalStore, path: str) -> None:
    with pytest.raises(InvalidPathError, match="that the local store reserves"):
        store.put(path, b"1")
    with pytest.raises(InvalidPathError):
        store.get(path)
    with pytest.raises(InvalidPathError):
        store.compare_and_swap(path, None, b"1")


def test_lock_files_and_temporary_files_are_not_listed(store: LocalStore, tmp_path: Path) -> None:
    store.compare_and_swap("d/latest", None, b"1")
    writer = store.open_writer("d/x")
    assert {name for name in files(tmp_path / "lake") if name.endswith(".lock")} == {"d/latest.lock"}
    assert [info.path for info in store.list()] == ["d/latest"]
    writer.abort()


def test_a_path_through_an_object_is_an_error_that_names_it(store: LocalStore) -> None:
    store.put("a/b", b"1")
    for call in (
        lambda: store.put("a/b/c/d", b"2"),
        lambda: store.open_writer("a/b/c"),
        lambda: store.compare_and_swap("a/b/c", None, b"2"),
    ):
        with pytest.raises(StoreError, match="'a/b' is an object"):
            call()
    assert store.get("a/b") == b"1"


def test_an_object_in_the_place_of_a_directory_is_an_error_that_says_so(store: LocalStore) -> None:
    store.put("a/b", b"1")
    with pytest.raises(StoreError, match="objects below it") as caught:
        store.put("a", b"2")
    assert not isinstance(caught.value, PathExistsError)


def test_a_file_system_without_links_is_named(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StoreError, match="no hard links"):
        store.put("x", b"1")
    assert files(tmp_path) == set()


def test_a_directory_without_permission_is_named(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("lode.store.local_tree.openat2", lambda: refuse)
    for call in (lambda: store.put("d/y", b"1"), lambda: store.get("d/y")):
        with pytest.raises(PermissionDeniedError, match="d/y"):
            call()


@pytest.mark.usefixtures("without_unnamed_files")
def test_where_every_file_has_a_name_a_put_is_hidden_until_it_is_whole(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []
    write = os.write

    def noted(descriptor: int, data: memoryview) -> int:
        seen.append(files(tmp_path))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", noted)
    store.put("d/x", b"1")
    store.put("d/y", b"2")
    [first], second = seen
    assert first.startswith("lake/d/.lode-")
    assert len(second) == 2
    assert files(tmp_path) == {"lake/d/x", "lake/d/y"}


def test_there_is_no_file_to_see_while_a_put_writes(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that has no name yet needs nobody to remove it."""
    seen: list[set[str]] = []

    def noted(*_: object) -> int:
        seen.append(files(tmp_path))
        return 1

    monkeypatch.setattr(os, "write", noted)
    store.put("d/x", b"1")
    assert seen == [set()]


def test_a_directory_removed_under_a_put_is_made_again(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("other", b"")
    link = os.link
    removed: list[Path] = []

    def late(*arguments: Any, **options: Any) -> None:
        if not removed:
            removed.append(tmp_path / "lake/d")
            removed[0].rmdir()
        link(*arguments, **options)

    monkeypatch.setattr(os, "link", late)
    store.put("d/x", b"1")
    assert removed
    assert store.get("d/x") == b"1"


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "volatile"])
def test_no_operation_leaves_a_descriptor_open(tmp_path: Path, durable: bool) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    store = LocalStore(tmp_path, durable=durable)
    store.put("d/file/x", b"1")
    (tmp_path / "d/link").symlink_to(tmp_path)
    before = descriptors()
    store.put("d/new/deep/x", b"1")
    store.link("d/new/deep/x", "d/new/y")
    store.compare_and_swap("d/latest", None, b"1")
    store.compare_and_swap("d/latest", b"other", b"2")
    store.compare_and_swap("nowhere/latest", b"1", b"2")
    for path in ("d/new/deep/x", "d/file", "d/link/x", "d/file/x/y", f"d/{'x' * 300}/x"):
        for call in (
            lambda path=path: store.put(path, b"2"),
            lambda path=path: store.link("d/file/x", path),
            lambda path=path: store.compare_and_swap(path, None, b"2"),
        ):
            with suppress(LodeError):
                call()
    assert descriptors() == before


def test_a_name_too_long_is_a_store_error(store: LocalStore) -> None:
    with pytest.raises(StoreError, match="too long"):
        store.put("x" * 300, b"1")


def test_a_full_disk_leaves_no_file(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(StoreError, match="No space left"):
        store.put("x", b"1")
    assert files(tmp_path) == set()


@pytest.fixture
def warm(tmp_path: Path, synced: list[str]) -> LocalStore:
    """A durable store that has written before, at the root and in a directory."""
    store = LocalStore(tmp_path)
    store.put("first", b"")
    store.put("a/b/first", b"")
    store.put("latest", b"1")
    synced.clear()
    return store


def test_a_durable_put_syncs_content_then_directory(
    warm: LocalStore, tmp_path: Path, synced: list[str]
) -> None:
    warm.put("x", b"1")
    content, directory = synced
    assert content.startswith(f"{tmp_path}/")
    assert directory == str(tmp_path)


def test_new_directories_are_synced_into_their_parents(tmp_path: Path, synced: list[str]) -> None:
    LocalStore(tmp_path / "lake").put("a/b/x", b"1")
    assert {str(tmp_path / name) for name in ("", "lake", "lake/a", "lake/a/b")} <= set(synced)


def test_directories_that_another_process_made_are_synced_once(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "lake/a/b").mkdir(parents=True)
    store = LocalStore(tmp_path / "lake")
    store.put("a/b/x", b"1")
    assert {str(tmp_path / name) for name in ("", "lake", "lake/a", "lake/a/b")} <= set(synced)
    synced.clear()
    store.put("a/b/y", b"1")
    assert synced[1:] == [str(tmp_path / "lake/a/b")]


def test_a_directory_that_was_removed_and_made_again_is_synced_again(
    warm: LocalStore, tmp_path: Path, synced: list[str]
) -> None:
    shutil.rmtree(tmp_path / "a")
    warm.put("a/b/x", b"1")
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a/b")} <= set(synced)


def test_more_directories_than_a_store_remembers_are_synced_all_the_same(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lode.store.local_tree.MAX_REMEMBERED_DIRECTORIES", 3)
    store = LocalStore(tmp_path)
    for number in range(10):
        synced.clear()
        store.put(f"d{number}/x", b"1")
        assert {str(tmp_path), str(tmp_path / f"d{number}")} <= set(synced)


def test_a_durable_swap_syncs_content_then_directory(
    warm: LocalStore, tmp_path: Path, synced: list[str]
) -> None:
    assert warm.compare_and_swap("latest", b"1", b"2")
    assert len(synced) == 2
    assert synced[0].startswith(f"{tmp_path}/.lode-")
    assert synced[1] == str(tmp_path)


def test_a_durable_writer_syncs_at_commit(warm: LocalStore, synced: list[str]) -> None:
    with warm.open_writer("x") as writer:
        writer.write(bytes(3_000_000))
        assert synced == []
        writer.commit()
    assert len(synced) == 2


def test_durability_does_not_depend_on_the_name(warm: LocalStore, synced: list[str]) -> None:
    warm.put("intent.json", b"{}")
    assert len(synced) == 2
    assert warm.compare_and_swap("intent.json", b"{}", b"[]")
    assert len(synced) == 4


def test_a_volatile_put_syncs_nothing(warm: LocalStore, synced: list[str]) -> None:
    warm.put_volatile("new/x", b"1")
    assert synced == []
    with pytest.raises(PathExistsError):
        warm.put_volatile("new/x", b"2")
    assert synced == []


def test_a_put_that_finds_the_name_taken_syncs_what_is_there(
    warm: LocalStore, tmp_path: Path, synced: list[str]
) -> None:
    LocalStore(tmp_path, durable=False).put("a/b/x", b"1")
    with pytest.raises(PathExistsError):
        warm.put("a/b/x", b"2")
    assert {str(tmp_path / "a/b/x"), str(tmp_path / "a/b")} <= set(synced)


def test_a_link_syncs_its_source_and_what_it_finds_taken(
    warm: LocalStore, tmp_path: Path, synced: list[str]
) -> None:
    warm.put_volatile("a/source", b"1")
    warm.link("a/source", "a/b/x")
    assert synced == [str(tmp_path / "a/source"), str(tmp_path / "a/b")]
    LocalStore(tmp_path, durable=False).put("a/b/y", b"1")
    synced.clear()
    with pytest.raises(PathExistsError):
        warm.link("a/source", "a/b/y")
    assert {str(tmp_path / "a/b/y"), str(tmp_path / "a/b")} <= set(synced)


def test_a_directory_that_cannot_be_synced_is_an_outcome_unknown(
    warm: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    for call in (
        lambda: warm.put("x", b"1"),
        lambda: warm.put("x", b"1"),
        lambda: warm.link("first", "y"),
        lambda: warm.compare_and_swap("latest", b"1", b"2"),
    ):
        with pytest.raises(OutcomeUnknownError, match="could not be synced"):
            call()


def test_a_parent_directory_that_fails_to_sync_once_is_an_outcome_unknown(
    warm: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports a failed write-back only to the first sync after it."""
    fsync, parent = os.fsync, (tmp_path / "a").stat().st_ino
    failures = [OSError(errno.EIO, "Input/output error")]

    def fail_once(descriptor: int) -> None:
        if failures and os.fstat(descriptor).st_ino == parent:
            raise failures.pop()
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)
    with pytest.raises(OutcomeUnknownError, match="could not be synced"):
        warm.put("a/new/x", b"1")


def test_a_warm_write_of_a_dataset_makes_eight_syncs(tmp_path: Path, synced: list[str]) -> None:
    """Four objects, one of them volatile; two new directories; and the directories of the other three."""
    dataset = lode.Dataset("events", LocalStore(tmp_path))
    dataset.write(b"1")
    synced.clear()
    dataset.write(b"2")
    assert len(synced) == 8


def test_a_store_that_is_not_durable_syncs_nothing(store: LocalStore, synced: list[str]) -> None:
    store.put("a/x", b"1")
    store.compare_and_swap("a/latest", None, b"1")
    with store.open_writer("a/y") as writer:
        writer.commit()
    assert synced == []


segments = st.text(alphabet="ab-./0é", min_size=1, max_size=4)


def usable(paths: set[str]) -> list[str]:
    """Return paths a file system can hold together."""
    kept: list[str] = []
    for path in sorted(paths):
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts):
            continue
        if not any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in kept):
            kept.append(path)
    return kept


@settings(max_examples=60, deadline=None)
@given(
    paths=st.sets(st.lists(segments, min_size=1, max_size=4).map("/".join), max_size=12),
    prefix=st.text(alphabet="ab-/", max_size=3),
    after=st.text(alphabet="ab-./0é", max_size=6),
)
def test_a_listing_is_what_sorting_all_paths_gives(paths: set[str], prefix: str, after: str) -> None:
    if prefix.startswith("/") or "//" in prefix:
        prefix = ""
    kept = usable(paths)
    with tempfile.TemporaryDirectory() as root:
        store = LocalStore(root, durable=False)
        for path in kept:
            store.put(path, b"")
        everything = [info.path for info in store.list()]
        found = [info.path for info in store.list(prefix, after=after)]
    assert everything == sorted(kept)
    assert found == sorted(path for path in kept if path.startswith(prefix) and path > after)


def test_a_listing_reads_only_directories_that_can_match(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a/1/x", "a/2/x", "a/3/x", "b/1/x", "c"):
        store.put(path, b"")
    read: list[str] = []
    scandir = os.scandir

    def noted(directory: str) -> Any:
        read.append(directory.removeprefix(f"{store.root}/"))
        return scandir(directory)

    monkeypatch.setattr(os, "scandir", noted)
    assert [info.path for info in store.list("a/", after="a/2/x")] == ["a/3/x"]
    assert read == ["a/", "a/2/", "a/3/"]
    read.clear()
    next(store.list("a/"))
    assert read == ["a/", "a/1/"]


def test_links_out_of_the_store_are_not_listed(store: LocalStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"1")
    store.put("a/x", b"1")
    (tmp_path / "lake" / "link").symlink_to(outside)
    (tmp_path / "lake" / "loop").symlink_to(tmp_path / "lake")
    assert [info.path for info in store.list()] == ["a/x"]


def test_a_local_path_is_the_file_itself(store: LocalStore) -> None:
    store.put("a/x", b"1")
    assert store.local_path("a/x").read_bytes() == b"1"
    with pytest.raises(InvalidPathError):
        store.local_path("../x")


def test_a_store_at_the_root_of_the_file_system_has_the_right_paths() -> None:
    store = LocalStore("/")
    assert str(store.local_path("tmp/x")) == "/tmp/x"
    assert str(store.root) == "/"


def test_a_pickled_store_opens_the_same_directory(tmp_path: Path) -> None:
    for durable in (True, False):
        store = LocalStore(tmp_path, durable=durable)
        again = pickle.loads(pickle.dumps(store))
        assert (again.root, again.durable) == (store.root, durable)
