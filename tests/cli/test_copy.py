"""``lode copy`` from the shell; ``tests/upkeep`` has what a copy promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli.running import Run


def test_a_copy_says_what_it_did_and_does_nothing_twice(
    run: Run, visits: lode.Dataset, tmp_path: Path
) -> None:
    url = (tmp_path / "mirror").as_uri()
    ended = run("copy", "visits", "--to", "mirror")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("visits: 2 snapshots, 3 files, ")
    assert ended.out.endswith(f" copied to {url}\n")
    again = run("copy", "visits", "--to", "mirror")
    assert again.out == f"visits: nothing to copy, {url} has snapshot {visits.latest().id}\n"
    copied = lode.open_dataset("visits", tmp_path / "mirror")
    assert [snapshot.id for snapshot in copied.snapshots()] == [
        snapshot.id for snapshot in visits.snapshots()
    ]


def test_json_has_the_numbers(run: Run, visits: lode.Dataset) -> None:
    (found,) = run("copy", "visits", "--to", "mirror", "--dry-run", "--json").json
    assert found.pop("to").endswith("/mirror")
    assert found == {
        "dataset": "visits",
        "name": "visits",
        "head": visits.latest().id,
        "snapshots": 2,
        "files": 3,
        "bytes": sum(snapshot.size_bytes for snapshot in visits.history()),
        "present": 0,
        "dry_run": True,
    }
    assert run("ls", "-q", "-r", "mirror").code == 3


@pytest.mark.usefixtures("visits")
def test_a_copy_can_have_another_name_in_the_same_store_and_end_earlier(run: Run) -> None:
    assert run("copy", "visits", "--as", "before", "--as-of", "1").code == 0
    assert run("ls", "-q").lines == ["before", "visits"]
    assert len(run("log", "before", "--json").json) == 1
    assert run("verify", "before").code == 0


@pytest.mark.usefixtures("visits")
def test_everything_is_copied_and_one_that_fails_stops_no_other(run: Run, lake: Path, tmp_path: Path) -> None:
    volume = lode.Volume("disk", lake, 10)
    volume.commit([volume.stage_write_at(0, b"abc")])
    lode.Dataset("visits", tmp_path / "mirror", codec="jsonl").write([{"n": 1}])
    ended = run("copy", "--all", "--to", "mirror")
    assert ended.code == 2
    assert ended.out.startswith("disk: 1 snapshot, 1 file, 3 B copied to ")
    assert ended.err.startswith("lode: ")
    assert "visits" in ended.err
    assert run("copy", "disk", "--volume", "--to", "mirror").out.startswith("disk: nothing to copy")


@pytest.mark.usefixtures("visits")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["visits"], 2, "there is no destination: add --to URL, or --as NAME"),
        (["--to", "x"], 2, "name one dataset to copy, or give --all"),
        (["visits", "--all", "--to", "x"], 2, "name one dataset to copy, or give --all"),
        (["--all", "--to", "x", "--as", "y"], 2, "leave --as, --as-of and --volume out"),
        (["visits", "--as", "y", "--to-option", "a=b"], 2, "--to-option is for the store of --to"),
        (["visits", "--to", "lake"], 2, "copied onto itself"),
        (["visits", "--as", "a/b"], 2, "a/b"),
        (["nothing", "--to", "x"], 3, "no dataset 'nothing'"),
        (["visits", "--to", "x", "--as-of", "9"], 3, "9"),
    ],
)
def test_a_careless_call_is_refused(run: Run, arguments: list[str], code: int, sentence: str) -> None:
    ended = run("-r", "lake", "copy", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert sentence in ended.err
