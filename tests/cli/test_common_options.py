"""The options of every command: before it, after it, from the environment."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

import lode
from cli.test_process import on_a_terminal
from lode.cli.terminal import counted

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli.running import Run


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three lakes, each with a dataset that has its name; one is in the environment."""
    for name in ("one", "two", "three"):
        lode.Dataset(name, tmp_path / name, codec="jsonl").write([{"n": 1}])
    monkeypatch.setenv("LODE_ROOT", "three")


@pytest.mark.usefixtures("roots")
def test_the_root_nearest_to_the_command_wins(run: Run) -> None:
    assert run("ls", "-q").lines == ["three"]
    assert run("-r", "one", "ls", "-q").lines == ["one"]
    assert run("ls", "-q", "-r", "two").lines == ["two"]
    assert run("--root", "one", "ls", "-q", "--root", "two").lines == ["two"]


@pytest.mark.usefixtures("roots")
def test_every_command_takes_the_root_before_it(run: Run) -> None:
    for arguments in (
        ["log", "one"],
        ["show", "one"],
        ["cat", "one"],
        ["verify", "one"],
        ["sweep", "one"],
        ["write", "one", "-"],
        ["copy", "one", "--to", "copied"],
        ["diff", "one", "1"],
        ["create", "other"],
        ["doctor"],
    ):
        ended = run("-r", "one", *arguments, stdin=b'{"n": 2}')
        assert (ended.code, ended.err) == (0, ""), arguments


def test_no_root_at_all_names_the_option_and_the_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LODE_ROOT")
    ended = run("ls")
    assert ended.code == 2
    assert ended.err == "lode: no root is given: add --root URL, or set the environment variable LODE_ROOT\n"
    assert run("bench").err == ended.err


def test_store_options_before_and_after_the_command_count_together(run: Run) -> None:
    for arguments in (["-o", "durable=false", "ls"], ["ls", "-o", "durable=false"]):
        assert run("-r", "lake", *arguments).code == 0
    ended = run("-r", "lake", "-o", "one=1", "ls", "-o", "two=2")
    assert ended.code == 2
    assert "one" in ended.err
    assert "two" in ended.err
    # Of one key given twice the last counts, also if it is after the command.
    assert run("-r", "lake", "-o", "durable=nonsense", "ls", "-o", "durable=true").code == 0


def test_json_may_come_first(run: Run, visits: lode.Dataset) -> None:
    assert run("--json", "show").code == 2
    assert run("--json", "log", "visits").json == run("log", "visits", "--json").json
    assert run("--json", "verify", "visits").json[0]["dataset"] == visits.id


@pytest.mark.usefixtures("visits")
def test_rows_as_json_are_lines_and_nothing_else(run: Run) -> None:
    assert run("--json", "cat", "visits").json == run("cat", "visits", "--json").json != []
    ended = run("cat", "visits", "--json", "--format", "csv")
    said = "lode: --json and --format csv contradict each other: give one of them\n"
    assert (ended.code, ended.err) == (2, said)


def test_json_before_a_command_that_has_none_is_refused(run: Run) -> None:
    assert run("--json", "ui").err == "lode: lode ui has no --json: leave it out\n"


@pytest.mark.usefixtures("visits")
def test_debug_and_quiet_may_be_anywhere_but_not_behind_a_double_dash(run: Run) -> None:
    assert "Traceback" in run("log", "nothing", "--debug", "--quiet").err
    assert "Traceback" in run("--debug", "log", "nothing").err
    ended = run("log", "--", "--debug")
    assert ended.code == 3
    assert "Traceback" not in ended.err


@pytest.mark.usefixtures("visits")
def test_progress_is_for_terminals_and_quiet_turns_it_off() -> None:
    shown = on_a_terminal("verify", "visits")
    assert b"verifying visits" in shown
    assert b"verifying visits" not in on_a_terminal("verify", "visits", "--quiet")
    assert b"verifying visits" not in on_a_terminal("--quiet", "verify", "visits")


def test_progress_counts_rows_and_sizes() -> None:
    assert counted(3000, None, "rows") == "3,000 rows"
    assert counted(3, 12, "files") == "3 of 12 files"
    assert counted(1_200_000, 3_400_000, "bytes") == "1.2 MB of 3.4 MB"


def test_help_lists_the_commands_in_groups(run: Run) -> None:
    lines = run("--help").lines
    titles = [line.rstrip(":") for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options", "Look", "Read", "Write", "Change", "Name", "Check", "Run"]
    assert lines[lines.index("Look:") + 1].startswith("  ls ")


def test_help_imports_nothing_heavy() -> None:
    heavy = ("grpc", "starlette", "uvicorn", "pyspark", "duckdb", "pyarrow")
    commands = ("serve", "ui", "demo", "copy")
    script = (
        f"import sys; from lode.cli import main; [main([each, '--help']) for each in {commands!r}]; "
        f"sys.stderr.write(','.join(name for name in {heavy!r} if name in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert re.findall("^Usage: lode ([a-z]+) ", ended.stdout, re.MULTILINE) == list(commands)
    assert ended.stderr == ""


def test_the_modules_of_the_parts_run_their_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for module, command in (("ingest", "serve"), ("ui", "ui"), ("demo", "demo"), ("spark", "spark")):
        assert import_module(f"lode.{module}.__main__").main(["--help"]) == 0
        assert capsys.readouterr().out.startswith(f"Usage: lode {command} ")
