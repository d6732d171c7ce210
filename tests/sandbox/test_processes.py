"""Processes with limits: what they cannot do, how they are stopped, and what their server sees."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lode.sandbox.peer import PeerError
from lode.sandbox.processes import Process, Processes, ProcessLostError, Profile
from lode.sandbox.restrict import can_refuse_changes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROFILE = Profile("tests.sandbox.work", 128 << 20)
needs_landlock = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")


@pytest.fixture
def processes() -> Iterator[Processes]:
    found = Processes()
    yield found
    found.close()


def opened(processes: Processes, **options: Any) -> Process:
    return processes.open(PROFILE, options.pop("handlers", {}), seconds=options.pop("seconds", 60), **options)


def test_a_process_answers_calls(processes: Processes) -> None:
    with opened(processes) as process:
        assert process.call("upper", "a") == "A"


def test_a_process_is_used_again(processes: Processes) -> None:
    with opened(processes) as first:
        number = first.pid
    with opened(processes) as second:
        assert second.pid == number


def test_a_process_that_has_ended_meanwhile_is_replaced(processes: Processes) -> None:
    with opened(processes) as first:
        number = first.pid
    os.kill(number, signal.SIGKILL)
    with opened(processes) as second:
        assert second.call("upper", "b") == "B"


def test_processes_of_different_profiles_are_not_mixed(processes: Processes) -> None:
    with opened(processes) as first:
        number = first.pid
    with processes.open(Profile("tests.sandbox.work", 64 << 20), {}, seconds=60) as other:
        assert other.pid != number


@needs_landlock
@pytest.mark.parametrize("mode", ["w", "a", "r+"])
def test_a_process_cannot_write_a_file(processes: Processes, tmp_path: Path, mode: str) -> None:
    file = tmp_path / "file"
    file.write_text("as it was", "utf-8")
    with opened(processes) as process, pytest.raises(PeerError, match="Permission denied"):
        process.call("write", str(file), mode)
    assert file.read_text("utf-8") == "as it was"


@needs_landlock
def test_a_process_cannot_create_a_file(processes: Processes, tmp_path: Path) -> None:
    with opened(processes) as process, pytest.raises(PeerError, match="Permission denied"):
        process.call("write", str(tmp_path / "new"), "w")
    assert list(tmp_path.iterdir()) == []


@needs_landlock
@pytest.mark.parametrize(
    "call",
    [
        ("truncate", "{file}", 0),
        ("unlink", "{file}"),
        ("rename", "{file}", "{other}"),
        ("link", "{file}", "{other}"),
        ("symlink", "{file}", "{other}"),
        ("mkdir", "{other}"),
        ("mkfifo", "{other}"),
        ("rmdir", "{folder}"),
        ("execv", sys.executable, [sys.executable, "-c", "0"]),
        ("kill", os.getpid(), 0),
    ],
    ids=lambda call: call[0],
)
def test_a_process_cannot_change_the_machine(
    processes: Processes, tmp_path: Path, call: tuple[Any, ...]
) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("as it was", "utf-8")
    folder.mkdir()
    places = {"file": file, "folder": folder, "other": tmp_path / "other"}
    own = [each.format(**places) if isinstance(each, str) else each for each in call]
    with opened(processes) as process:
        assert process.call("attempt", *own) == "PermissionError"
    assert file.read_text("utf-8") == "as it was"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


def test_files_may_have_no_bytes_also_without_landlock(processes: Processes) -> None:
    with opened(processes) as process:
        assert process.call("file_size_limit") == [0, 0]


@needs_landlock
@pytest.mark.parametrize(
    "statement", ["COPY (SELECT 666 AS x) TO '{file}' (USE_TMP_FILE false)", "ATTACH '{other}' AS a"]
)
def test_a_database_in_a_process_cannot_write_whatever_it_is_asked(
    processes: Processes, tmp_path: Path, statement: str
) -> None:
    file = tmp_path / "file"
    file.write_text("as it was", "utf-8")
    with opened(processes) as process:
        found = process.call("database", statement.format(file=file, other=tmp_path / "other"))
    assert "Permission denied" in found
    assert [(each.name, each.read_text("utf-8")) for each in tmp_path.iterdir()] == [("file", "as it was")]


@needs_landlock
@pytest.mark.parametrize(("network", "found"), [(False, "PermissionError"), (True, "done")])
def test_a_process_connects_only_if_its_profile_allows_it(
    processes: Processes, *, network: bool, found: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        profile = Profile(PROFILE.module, PROFILE.memory_bytes, network=network)
        with processes.open(profile, {}, seconds=60) as process:
            assert process.call("connect", server.getsockname()[1]) == found


def test_a_process_reads_files(processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content", "utf-8")
    with opened(processes) as process:
        assert process.call("read", str(tmp_path / "file")) == "content"


def test_memory_beyond_the_limit_is_an_error_of_the_task(processes: Processes) -> None:
    with opened(processes) as process:
        with pytest.raises(PeerError) as caught:
            process.call("fill", 2 << 30)
        assert caught.value.description["type"] == "MemoryError"
        assert process.call("upper", "still here") == "STILL HERE"


def test_a_task_that_is_late_is_ended(processes: Processes) -> None:
    with pytest.raises(ProcessLostError) as caught, opened(processes, seconds=0.1) as process:
        process.call("spin")
    assert caught.value.reason == "time"


def test_a_task_that_holds_the_interpreter_lock_is_ended(processes: Processes) -> None:
    with pytest.raises(ProcessLostError) as caught, opened(processes, seconds=0.1) as process:
        process.call("hold_lock")
    assert caught.value.reason == "time"


def test_a_cancelled_task_may_end_by_itself(processes: Processes) -> None:
    with opened(processes, is_cancelled=lambda: True) as process:
        assert process.call("until_interrupted") == "interrupted"


def test_a_cancelled_task_that_does_not_react_is_ended(processes: Processes) -> None:
    with pytest.raises(ProcessLostError) as caught, opened(processes, is_cancelled=lambda: True) as process:
        process.call("spin")
    assert caught.value.reason == "stopped"


def test_an_interrupt_does_not_reach_the_next_task(processes: Processes) -> None:
    with opened(processes, is_cancelled=lambda: True) as first:
        first.call("until_interrupted")
        first.interrupt()
        number = first.pid
    with opened(processes) as second:
        assert second.pid == number
        assert second.call("is_asked_to_stop") is False


def test_closing_ends_what_runs(processes: Processes) -> None:
    handlers = {"close": processes.close}
    with pytest.raises(ProcessLostError) as caught, opened(processes, handlers=handlers) as process:
        process.call("ask", "close")
    assert caught.value.reason == "closing"


def test_no_process_is_opened_after_closing(processes: Processes) -> None:
    processes.close()
    with pytest.raises(ProcessLostError, match="stops"):
        opened(processes)


def test_rows_are_read_as_they_are_made(processes: Processes) -> None:
    with opened(processes) as process:
        schema, batches = process.rows("numbers", 3)
        assert schema.names == ["n"]
        assert [batch.column(0)[0].as_py() for batch in batches] == [0, 1, 2]
        assert process.call("upper", "after") == "AFTER"


def test_rows_that_are_not_wanted_are_left_out(processes: Processes) -> None:
    with opened(processes) as process:
        _, batches = process.rows("numbers", 1000)
        next(batches)
        batches.close()  # type: ignore[attr-defined]  # a generator
        assert process.call("upper", "after") == "AFTER"


def test_a_process_calls_its_server_while_it_answers(processes: Processes) -> None:
    with opened(processes, handlers={"double": lambda number: 2 * number}) as process:
        assert process.call("ask", "double", 21) == 42


def test_a_process_can_only_call_what_it_was_given(processes: Processes) -> None:
    with opened(processes) as process:
        assert process.call("ask_caught", "double", 21).startswith("RuntimeError: KeyError")


def test_an_error_of_the_server_reaches_the_process(processes: Processes) -> None:
    def refuse() -> None:
        raise ValueError("not allowed")

    with opened(processes, handlers={"refuse": refuse}) as process:
        assert process.call("ask_caught", "refuse") == "RuntimeError: ValueError: not allowed"


def test_an_error_of_the_process_comes_back_to_it_as_it_was(processes: Processes) -> None:
    handlers: dict[str, Any] = {}
    with opened(processes, handlers=handlers) as process:
        handlers["again"] = lambda: process.call("fail")
        assert process.call("ask_caught", "again") == "own: it failed"


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGABRT, "memory"), (signal.SIGKILL, "")])
def test_the_end_of_a_process_has_a_reason(processes: Processes, number: signal.Signals, reason: str) -> None:
    with pytest.raises(ProcessLostError) as caught, opened(processes) as process:
        process.call("die", int(number))
    assert caught.value.reason == reason


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_of_a_terminal_are_left_to_the_server(processes: Processes, number: signal.Signals) -> None:
    with opened(processes) as process:
        assert process.call("ignores", int(number)) is True


def test_a_process_whose_module_is_missing_cannot_begin(processes: Processes) -> None:
    with pytest.raises(ProcessLostError, match="no_such_module"):
        processes.open(Profile("no_such_module", 1 << 27), {}, seconds=60)


def test_an_interrupt_of_rows_that_are_not_wanted_ends_with_them(processes: Processes) -> None:
    with opened(processes) as process:
        _, batches = process.rows("numbers", 1000)
        next(batches)
        batches.close()  # type: ignore[attr-defined]  # a generator
        assert process.call("is_asked_to_stop") is False


def test_a_real_interrupt_outlives_rows_that_have_ended(processes: Processes) -> None:
    cancelled: list[bool] = []
    with opened(processes, is_cancelled=lambda: bool(cancelled)) as process:
        list(process.rows("numbers", 3)[1])
        cancelled.append(True)
        list(process.rows("numbers", 3)[1])
        assert process.call("until_interrupted") == "interrupted"


@needs_landlock
def test_this_machine_can_refuse_changes_of_files() -> None:
    """Without it, the other tests here would prove less: a kernel since 6.2 has it."""
    assert can_refuse_changes()


def test_a_process_that_has_kept_much_memory_is_not_used_again() -> None:
    processes = Processes()
    large = Profile(PROFILE.module, 1 << 30)
    with processes.open(large, {}, seconds=60) as first:
        first.call("keep", 700 << 20)
        number = first.pid
    with processes.open(large, {}, seconds=60) as second:
        assert second.pid != number
    processes.close()
