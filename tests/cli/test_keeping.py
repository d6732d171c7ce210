"""``tag``, ``untag``, ``tags`` and ``expire``: which snapshots stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lode
from support.stores import contents

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli.running import Run


@pytest.fixture(autouse=True)
def overwritten(visits: lode.Dataset) -> lode.Dataset:
    """Three snapshots; the last one replaces monday."""
    visits.overwrite([{"day": "mon", "page": "/new", "visits": 1}])
    return visits


def test_a_tag_names_a_snapshot_everywhere(run: Run) -> None:
    assert "release is snapshot" in run("tag", "visits", "release", "1").out
    assert len(run("cat", "visits", "--as-of", "release", "-f", "jsonl").json) == 2
    assert run("show", "visits", "release").code == 0
    assert run("tags", "visits", "--json").json[0]["sequence"] == 1
    assert run("tags", "visits").lines[1].split()[:2] == ["release", "1"]


def test_a_tag_is_of_the_newest_snapshot_unless_another_is_named(run: Run) -> None:
    assert run("tag", "visits", "now", "--json").json[0]["sequence"] == 3


def test_a_name_is_given_once(run: Run) -> None:
    run("tag", "visits", "release", "1")
    taken = run("tag", "visits", "release", "2")
    assert (taken.code, "release" in taken.err) == (2, True)
    assert run("tag", "visits", "2026-11-17").code == 2


def test_a_tag_can_be_removed(run: Run) -> None:
    run("tag", "visits", "release")
    assert run("untag", "visits", "release").out == "visits: tag release removed\n"
    assert run("tags", "visits").out == "visits: no tags\n"
    assert run("untag", "visits", "release").code == 3


def test_volumes_have_tags_too(run: Run, lake: Path) -> None:
    volume = lode.Volume("disk", str(lake), total_length=100)
    volume.commit([volume.stage_write_at(0, b"x")])
    assert run("tag", "disk", "full", "--volume").code == 0
    assert [tag["name"] for tag in run("tags", "disk", "--volume", "--json").json] == ["full"]
    assert run("untag", "disk", "full", "--volume").code == 0


def test_expire_only_counts_without_delete(run: Run) -> None:
    shown = run("expire", "visits", "--keep", "1")
    assert "2 snapshots, 1 file" in shown.out
    assert "--delete" in shown.out
    assert run("cat", "visits", "--as-of", "1").code == 0
    assert len(run("log", "visits", "--json").json) == 3


def test_expire_removes_the_files_that_only_old_snapshots_need(run: Run, lake: Path) -> None:
    before = len(list(lake.rglob("data/*")))
    (done,) = run("expire", "visits", "--keep", "1", "--delete", "--json").json
    assert (done["snapshots"], done["files"], done["removed"], done["floor"]) == (2, 1, True, 3)
    assert len(list(lake.rglob("data/*"))) == before - 1
    expired = run("cat", "visits", "--as-of", "1")
    assert (expired.code, "expired" in expired.err) == (3, True)
    assert len(run("cat", "visits", "-f", "jsonl").json) == 3
    assert run("log", "visits", "--json").json[0]["operation"] == "expire"
    assert run("expire", "visits", "--keep", "1", "--delete").out == "visits: nothing to expire\n"


def test_expire_keeps_a_tagged_snapshot(run: Run) -> None:
    run("tag", "visits", "release", "1")
    (done,) = run("expire", "visits", "--keep", "1", "--delete", "--json").json
    assert done["files"] == 0
    assert len(run("cat", "visits", "--as-of", "release", "-f", "jsonl").json) == 2


def test_expire_keeps_what_is_younger(run: Run) -> None:
    assert run("expire", "visits", "--older-than", "30d").out == "visits: nothing to expire\n"


@pytest.mark.parametrize(
    "options", [(), ("--keep", "1", "--older-than", "1d"), ("--keep", "0"), ("--older-than", "30")]
)
def test_expire_needs_one_limit_that_makes_sense(run: Run, options: tuple[str, ...]) -> None:
    refused = run("expire", "visits", *options)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)


def test_the_console_and_the_commands_agree_after_an_expiry(run: Run) -> None:
    run("expire", "visits", "--keep", "1", "--delete")
    (line,) = run("ls", "--json").json
    assert (line["snapshots"], line["rows"], line["files"]) == (4, 3, 3)
    assert run("sql", "SELECT count(*) AS n FROM visits", "-f", "jsonl").json == [{"n": 3}]
    assert run("diff", "visits", "3").code == 0
    assert run("show", "visits", "1").code == 0


def test_drop_asks_and_without_a_terminal_needs_yes(run: Run) -> None:
    shown = run("drop", "visits", "--dry-run")
    assert shown.out.startswith("visits: 3 snapshots, 4 files, ")
    refused = run("drop", "visits")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert len(run("cat", "visits", "-f", "jsonl").json) == 3


def test_drop_removes_all_and_the_name_can_be_used_again(run: Run, lake: Path) -> None:
    (done,) = run("drop", "visits", "--yes", "--json").json
    assert (done["snapshots"], done["files"], done["removed"]) == (3, 4, True)
    assert list(lake.rglob("data/*")) == []
    assert run("cat", "visits").code == 3
    assert run("ls", "--names").out == ""
    run("write", "visits", stdin=b'{"n": 1}\n')
    (line,) = run("ls", "--json").json
    assert (line["snapshots"], line["rows"]) == (1, 1)


def test_drop_refuses_a_dataset_with_tags_and_one_that_does_not_exist(run: Run) -> None:
    run("tag", "visits", "release")
    assert run("drop", "visits", "--yes").code == 2
    assert run("drop", "visits", "--yes", "--force").code == 0
    assert run("drop", "nothing", "--yes").code == 3


def test_rename_keeps_history_and_tags(run: Run) -> None:
    run("tag", "visits", "release", "1")
    assert run("rename", "visits", "pages").out == "visits: renamed to pages\n"
    assert run("ls", "--names").lines == ["pages"]
    assert len(run("log", "pages", "--json").json) == 3
    assert len(run("cat", "pages", "--as-of", "release", "-f", "jsonl").json) == 2
    assert run("rename", "visits", "other").code == 3


def test_volumes_are_renamed_and_dropped_too(run: Run, lake: Path) -> None:
    volume = lode.Volume("disk", str(lake), total_length=100)
    volume.commit([volume.stage_write_at(0, b"x")])
    assert run("rename", "disk", "image", "--volume").code == 0
    assert run("drop", "image", "--volume", "--yes").code == 0
    assert run("ls", "--names").lines == ["visits"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("tag", "visits", "release", "1"), "would be snapshot"),
        (("untag", "visits", "kept"), "would be removed"),
        (("rename", "visits", "pages"), "would be renamed to pages"),
    ],
)
def test_a_dry_run_only_says_what_would_change(
    run: Run, visits: lode.Dataset, command: tuple[str, ...], said: str
) -> None:
    visits.tag("kept")
    before = contents(visits.store)
    assert said in run(*command, "--dry-run").out
    assert [value for value in run(*command, "--dry-run", "--json").json[0].values() if value is False] == [
        False
    ]
    assert contents(visits.store) == before


def test_a_dry_run_fails_where_the_command_would(run: Run, visits: lode.Dataset) -> None:
    visits.tag("kept")
    lode.Dataset("taken", visits.store, codec="jsonl").write([{"n": 1}])
    assert run("tag", "visits", "kept", "1", "--dry-run").code == 2
    assert run("untag", "visits", "nothing", "--dry-run").code == 3
    assert run("rename", "visits", "taken", "--dry-run").code == run("rename", "visits", "taken").code != 0
