"""The lines that open a dataset elsewhere work when they are pasted, whatever the dataset is called."""

from __future__ import annotations

import ast
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.cli import main
from lode.store import open_store
from lode.ui.snippets import SnippetTarget, shell_text, snippets
from support.ui.served import Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Names that a store takes, and that a careless quoting would let out.
HOSTILE = (
    "it's; touch owned",
    '"; touch owned; "',
    "$(touch owned)",
    "`touch owned`",
    "-rf --scan",
    "'''); open('owned', 'w'); ('''",
    "a@3",
    "{dataset} %s \N{RIGHT-TO-LEFT OVERRIDE}gnp",
    "!history & | > owned",
    "naïve 名前 \N{ZERO WIDTH SPACE}",
)
ROWS = [{"n": 1, "s": "x"}, {"n": 2, "s": "y"}]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A lake in a directory whose own name needs quotes."""
    store = open_store(tmp_path_factory.mktemp("it's a lake") / "$HOME lake")
    for name in HOSTILE:
        lode.Dataset(name, store, codec=lode.Parquet({"n": "int64", "s": "string"})).write(ROWS)
    lode.Dataset("plain", store, codec=lode.Parquet({"n": "int64", "s": "string"})).write(ROWS)
    lode.Dataset("records", store, codec="jsonl").write([{"n": 1}, {"n": [2]}])
    lode.Dataset("blobs", store).write(b"some bytes")
    with Served(store) as served:
        yield served


def lines(found: dict[str, Any]) -> dict[str, str]:
    return {each["label"]: each["text"] for each in found["open"]["snippets"]}


def of_dataset(stage: Served, name: str) -> dict[str, str]:
    return lines(stage.ask("datasets", name))


def of_snapshot(stage: Served, name: str) -> dict[str, str]:
    return lines(stage.ask("datasets", name, "snapshots", lode.open_dataset(name, stage.store).latest().id))


def words(text: str) -> list[str]:
    """What a shell makes of a line: bash itself says so."""
    ended = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {text}"], capture_output=True, check=True, timeout=120
    )
    return ended.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("name", ["plain", "records", "blobs", *HOSTILE])
@pytest.mark.parametrize("find", [of_dataset, of_snapshot])
def test_the_python_lines_run(
    stage: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, find: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(compile(find(stage, name)["Python"], "pasted", "exec"), found)
    assert found["dataset"].id == name
    if "table" in found:
        assert found["table"].to_pylist() == ROWS
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["plain", "records", "blobs", *HOSTILE])
@pytest.mark.parametrize("find", [of_dataset, of_snapshot])
def test_the_lines_of_the_command_line_run(
    stage: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    find: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in find(stage, name)["CLI"].splitlines():
        command = words(line.removesuffix(" | wc -c"))
        assert command[0] == "lode"
        assert name in command
        assert main(command[1:]) == 0, line
    assert capfd.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_pasted_block_runs_in_a_shell(stage: Served, tmp_path: Path) -> None:
    """As people paste it: by a shell, through the installed command, for the worst of the names."""
    command = f"{sys.executable} -m lode.cli"
    text = of_dataset(stage, HOSTILE[0])["CLI"].replace("lode ", f"{command} ", 1)
    last = text.splitlines()[-1].replace("lode ", f"{command} ", 1)
    ended = subprocess.run(["bash", "-c", last], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert '"s":"x"' in ended.stdout.replace(" ", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["plain", *HOSTILE])
def test_the_query_runs_or_is_not_offered(
    stage: Served, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for found in (of_dataset(stage, name), of_snapshot(stage, name)):
        if "SQL" not in found:
            assert "@" in name or '"' in name
            continue
        assert main(words(found["SQL"])[1:]) == 0, found["SQL"]
        assert '"n"' in capfd.readouterr().out


@pytest.mark.parametrize("name", ["plain", *HOSTILE])
def test_the_lines_for_spark_name_the_dataset_and_the_store(stage: Served, name: str) -> None:
    calls = [
        node for node in ast.walk(ast.parse(of_snapshot(stage, name)["Spark"])) if isinstance(node, ast.Call)
    ]
    (read,) = [call for call in calls if ast.unparse(call.func) == "lode.spark.read"]
    assert [ast.literal_eval(argument) for argument in read.args[1:]] == [stage.store.url, name]
    (snapshot,) = read.keywords
    assert ast.literal_eval(snapshot.value) == lode.open_dataset(name, stage.store).latest().id


def test_blobs_are_not_offered_to_spark_or_sql(stage: Served) -> None:
    assert set(of_dataset(stage, "blobs")) == {"Python", "CLI"}


def test_characters_that_cannot_be_seen_are_escaped(stage: Served) -> None:
    for name in HOSTILE:
        for text in of_dataset(stage, name).values():
            assert all(line.isprintable() for line in text.splitlines()), name


@pytest.mark.parametrize("text", [*HOSTILE, "a\\b", "a'\u202eb", "x\u20284", "it's!! \u202e!x", "\u00adf"])
def test_a_shell_reads_a_quoted_text_as_one_word(text: str) -> None:
    assert words(shell_text(text)) == [text]


def test_plain_words_are_not_quoted() -> None:
    assert shell_text("visits") == "visits"
    assert shlex.split(shell_text("two words")) == ["two words"]


@pytest.mark.parametrize("id", ["42", "latest", "latest~1"])
def test_a_snapshot_whose_id_means_something_else_is_named_by_its_number(id: str) -> None:
    found = snippets(SnippetTarget("memory://", "d", "rows", id, 7))
    (command,) = [each["text"] for each in found["snippets"] if each["label"] == "CLI"]
    assert command.splitlines()[0].endswith("d 7")


def test_a_store_in_memory_says_that_nobody_else_can_open_it(lake: Served) -> None:
    assert "no other process" in lake.ask("datasets", "visits")["open"]["note"]


def test_the_console_never_gives_out_how_a_store_was_opened(stage: Served) -> None:
    assert stage.ask("datasets", "plain")["open"]["note"] is None
    found = snippets(SnippetTarget("s3://bucket/lake", "d", "rows"))
    assert "are not part of it" in found["note"]
