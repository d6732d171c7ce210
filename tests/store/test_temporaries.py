"""What killed writers leave in a directory, and how it is told from what living ones write."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from lode.errors import InvalidPathError
from lode.store import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

WRITER = """
import sys, time
from lode.store import LocalStore
writer = LocalStore(sys.argv[1], durable=False).open_writer("d/deep/x")
writer.write(bytes(100_000))
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path, durable=False)


def found(store: LocalStore, prefix: str = "") -> list[str]:
    return [info.path for info in store.temporaries(prefix)]


def test_a_writer_leaves_a_temporary_file_when_it_is_killed_and_not_before(
    store: LocalStore, tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        [file] = (tmp_path / "d/deep").iterdir()
        path = f"d/deep/{file.name}"
        assert found(store) == []
        with pytest.raises(InvalidPathError, match="in use by a writer"):
            store.delete_temporary(path)
        process.send_signal(signal.SIGKILL)
    [leftover] = store.temporaries()
    assert leftover.path == path
    assert leftover.size == 100_000
    assert abs(datetime.now(UTC) - leftover.modified) < timedelta(hours=1)
    assert list(store.list()) == []
    store.delete_temporary(path)
    assert found(store) == []
    store.delete_temporary(path)


@pytest.mark.parametrize("name", [".lode-0123456789abcdef.tmp", ".lode-cas-2871034"])
def test_temporary_files_are_found_by_prefix_and_are_no_objects(
    store: LocalStore, tmp_path: Path, name: str
) -> None:
    store.put("a/x", b"1")
    store.put("b/x", b"1")
    (tmp_path / "a" / name).write_bytes(b"12")
    (tmp_path / name).write_bytes(b"3")
    assert found(store) == sorted([name, f"a/{name}"])
    assert found(store, "a/") == [f"a/{name}"]
    assert found(store, "b/") == []
    assert [info.path for info in store.list()] == ["a/x", "b/x"]
    for call in (store.get, store.head, store.exists, store.delete, store.open_reader):
        with pytest.raises(InvalidPathError):
            call(f"a/{name}")
    store.delete_temporary(f"a/{name}")
    assert found(store) == [name]


def test_a_pointer_that_the_go_implementation_is_swapping_is_left_alone(
    store: LocalStore, tmp_path: Path
) -> None:
    """It locks the pointer's lock file, makes its temporary file, and does not lock that."""
    store.put("d/latest", b"1")
    (tmp_path / "d/.lode-cas-1").write_bytes(b"2")
    with (tmp_path / "d/latest.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert found(store) == []
        with pytest.raises(InvalidPathError, match="in use by a writer"):
            store.delete_temporary("d/.lode-cas-1")
    assert found(store) == ["d/.lode-cas-1"]
    # A queue is no swap.
    with store.queue("d/latest", 1.0, 0.1):
        assert found(store) == ["d/.lode-cas-1"]


def test_looking_for_leftovers_does_not_keep_a_lock(store: LocalStore, tmp_path: Path) -> None:
    store.put("latest", b"1")
    (tmp_path / ".lode-cas-1").write_bytes(b"2")
    leftovers = store.temporaries()
    next(leftovers)
    assert store.compare_and_swap("latest", b"1", b"2")


def test_a_leftover_with_two_names_loses_only_the_hidden_one(store: LocalStore, tmp_path: Path) -> None:
    """Its writer died between giving the file its name and removing the hidden one."""
    store.put("d/x", b"1")
    os.link(tmp_path / "d/x", tmp_path / "d/.lode-0.tmp")
    store.delete_temporary("d/.lode-0.tmp")
    assert store.get("d/x") == b"1"


def test_a_file_removed_before_its_writer_has_locked_it_is_made_again(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    removed: list[str] = []

    def late(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX and not removed:
            # Whoever looks for leftovers comes between the two steps of the writer.
            for info in store.temporaries():
                removed.append(info.path)
                store.delete_temporary(info.path)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with store.open_writer("d/x") as writer:
        writer.write(b"1")
        writer.commit()
    assert len(removed) == 1
    assert store.get("d/x") == b"1"


def test_where_there_are_no_locks_nothing_is_taken_for_a_leftover(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    store.put("d/x", b"1")
    (tmp_path / "d/.lode-0.tmp").write_bytes(b"")
    assert found(store) == []


def test_what_is_no_file_is_no_leftover(store: LocalStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lode-fifo.tmp")
    (tmp_path / ".lode-link.tmp").symlink_to(tmp_path / "nowhere")
    (tmp_path / ".lode-directory.tmp").mkdir()
    assert found(store) == []
