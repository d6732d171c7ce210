"""``lode`` as the shell meets it: exit codes, pipes, terminals, other writers."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lode

COMMAND = str(Path(sys.executable).with_name("lode"))
COLOUR = re.compile(rb"\x1b\[[0-9;]*[39]\d[0-9;]*m")


def lode_process(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([COMMAND, *arguments], input=stdin, capture_output=True, timeout=120, check=False)


def on_a_terminal(*arguments: str, columns: int = 80, **environment: str) -> bytes:
    """What a terminal of this width is sent."""
    ours, theirs = pty.openpty()
    given = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    given |= {"TERM": "xterm-256color", "COLUMNS": str(columns), **environment}
    process = subprocess.Popen([COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=given)
    os.close(theirs)
    written = b""
    try:
        while piece := os.read(ours, 65536):
            written += piece
    except OSError:  # how Linux says that the other end of a terminal is closed
        pass
    os.close(ours)
    process.wait(60)
    return written


def test_a_pipe_goes_in_and_comes_out() -> None:
    written = lode_process("write", "events", stdin=b'{"n": 1}\n{"n": 2}\n')
    assert (written.returncode, written.stderr) == (0, b"")
    ended = lode_process("cat", "events")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b'{"n":1}\n{"n":2}\n', b"")


def test_errors_are_one_sentence_and_a_code() -> None:
    for arguments, code in (
        (["log", "nothing"], 3),
        (["log"], 2),
    ):
        ended = lode_process(*arguments)
        assert (ended.returncode, ended.stdout) == (code, b"")
        assert re.fullmatch(rb"lode: [^\n]+\n", ended.stderr)
    shown = lode_process("log", "nothing", "--debug")
    assert shown.returncode == 3
    assert b"Traceback" in shown.stderr
    assert shown.stderr.endswith(b"write it first\n")


def test_no_command_at_all_is_told_what_there_is() -> None:
    ended = lode_process()
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"Usage: lode ")


def test_a_reader_that_has_seen_enough_is_no_error(lake: Path) -> None:
    dataset = lode.Dataset("events", str(lake), codec="jsonl")
    dataset.write([{"n": n, "text": "x" * 100} for n in range(20_000)])
    process = subprocess.Popen([COMMAND, "cat", "events"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b'{"n":0,')
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(60) == 128 + signal.SIGPIPE


@pytest.mark.usefixtures("visits")
def test_colours_are_for_terminals_without_no_color() -> None:
    assert COLOUR.search(on_a_terminal("log", "visits", "--graph"))
    assert not COLOUR.search(on_a_terminal("log", "visits", "--graph", NO_COLOR="1"))
    assert b"\x1b" not in lode_process("log", "visits", "--graph").stdout


def test_a_table_fits_its_terminal_and_a_pipe_gets_all_of_it(lake: Path) -> None:
    dataset = lode.Dataset("events", str(lake), codec="jsonl")
    dataset.write([{f"column{n}": "some text" for n in range(30)}], {"note": "word " * 50})
    for command, columns in (("log", 80), ("cat", 120)):
        plain = re.sub(rb"\x1b\[[0-9;]*m", b"", on_a_terminal(command, "events", columns=columns))
        assert max(len(line) for line in plain.decode().splitlines()) <= columns
    assert b"word " * 49 in lode_process("log", "events").stdout


def test_data_cannot_move_the_cursor(lake: Path) -> None:
    dataset = lode.Dataset("events", str(lake), codec="jsonl")
    dataset.write([{"text": "\x1b[2J[red]"}], {"note": "\x1b[2J"})
    for command, shown in (("log", b"note=\\x1b[2J"), ("cat", b"\\x1b[2J[red]")):
        written = on_a_terminal(command, "events")
        assert b"\x1b[2J" not in written
        assert shown in written


@pytest.mark.usefixtures("visits")
def test_binary_formats_are_not_for_terminals() -> None:
    written = on_a_terminal("cat", "visits", "--format", "parquet")
    assert written == b"lode: parquet is not for a terminal: send it to a file or a pipe\r\n"


def test_another_writer_who_was_faster_is_exit_code_4_or_is_followed(lake: Path) -> None:
    dataset = lode.Dataset("events", str(lake), codec="jsonl")
    dataset.write([{"n": 0}])
    os.mkfifo("slow.jsonl")
    for retries, code in (("0", 4), ("5", 0)):
        command = [COMMAND, "write", "events", "slow.jsonl", "--retries", retries]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with Path("slow.jsonl").open("wb") as slow:  # the command has begun its snapshot when it opens this
            assert process.stdout is not None
            slow.write(b'{"n": 1}\n' * 100_000)
            slow.flush()
            dataset.write([{"n": 2}])
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, err
    assert b"behind 1 other writer" in out
    assert [snapshot.row_count for snapshot in dataset.snapshots()] == [1, 1, 1, 100_000]


def test_help_needs_nothing_heavy() -> None:
    script = (
        "import sys, lode\n"
        "assert not {'typer', 'rich', 'lode.cli'} & set(sys.modules)\n"
        "from lode.cli import main\n"
        "assert main(['--help']) == 0\n"
        "heavy = {'pyarrow', 'duckdb', 'pyspark', 'rich', 'pydantic', 'numpy', 'obstore', 'grpc'}\n"
        "heavy.add('sqlglot')\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Exit codes:" in ended.stdout
