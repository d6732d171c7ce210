"""``overwrite``, ``delete``, ``merge``, ``compact`` and ``restore``; and how the other commands show them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli.running import Run

pytestmark = pytest.mark.usefixtures("visits")

MONDAY = b'{"day": "mon", "page": "/new", "visits": 1}\n'


def pages(run: Run) -> list[tuple[str, str | None, int]]:
    return sorted(
        (row["day"], row["page"], row["visits"]) for row in run("cat", "visits", "-f", "jsonl").json
    )


def test_overwrite_replaces_the_partitions_that_the_rows_are_in(run: Run) -> None:
    (done,) = run("overwrite", "visits", "--json", stdin=MONDAY).json
    assert (done["operation"], done["sequence"], done["rows"]) == ("overwrite", 3, 0)
    assert (done["removed"]["rows"], done["added"]["rows"]) == (1, 1)
    assert pages(run) == [("mon", "/new", 1), ("tue", "/docs", 5), ("wed", None, 7)]


def test_overwrite_of_a_named_partition_refuses_rows_of_another(run: Run) -> None:
    failed = run("overwrite", "visits", "--partition", "day=tue", stdin=MONDAY)
    assert (failed.code, failed.out) == (2, "")
    assert "day=mon" in failed.err
    assert len(pages(run)) == 3


def test_overwrite_of_a_partition_without_rows_empties_it_only_if_allowed(run: Run) -> None:
    refused = run("overwrite", "visits", "--partition", "day=tue")
    assert (refused.code, len(pages(run))) == (2, 3)
    assert "--allow-empty" in refused.err
    assert run("overwrite", "visits", "--partition", "day=tue", "--allow-empty").code == 0
    assert [day for day, _, _ in pages(run)] == ["mon", "wed"]


@pytest.mark.parametrize("on_conflict", ["raise", "redo"])
def test_overwrite_where_replaces_the_rows_that_match(run: Run, on_conflict: str) -> None:
    rows = b'{"day": "thu", "page": "/x", "visits": 9}\n'
    done = run("overwrite", "visits", "--where", "visits > 4", "--on-conflict", on_conflict, stdin=rows)
    assert done.code == 0
    assert pages(run) == [("mon", "/", 3), ("thu", "/x", 9)]


def test_overwrite_of_everything_reads_several_files_of_several_kinds(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(MONDAY)
    (tmp_path / "b.csv").write_text("visits,day\n4,fri\n")
    assert run("overwrite", "visits", "a.jsonl", "b.csv", "--everything").code == 0
    assert pages(run) == [("fri", None, 4), ("mon", "/new", 1)]


def test_overwrite_adds_columns_only_if_asked(run: Run) -> None:
    rows = b'{"day": "mon", "visits": 1, "country": "at"}\n'
    refused = run("overwrite", "visits", stdin=rows)
    assert (refused.code, "country" in refused.err, "--evolve" in refused.err) == (1, True, True)
    assert run("overwrite", "visits", "--evolve", stdin=rows).code == 0
    assert {row["country"] for row in run("cat", "visits", "-f", "jsonl").json} == {"at", None}


def test_overwrite_of_an_unpartitioned_dataset_needs_a_scope(run: Run) -> None:
    run("write", "flat", stdin=b'{"n": 1}\n')
    refused = run("overwrite", "flat", stdin=b'{"n": 2}\n')
    assert (refused.code, "--everything" in refused.err) == (2, True)
    assert run("overwrite", "flat", "--everything", stdin=b'{"n": 2}\n').code == 0
    assert run("cat", "flat", "-f", "jsonl").json == [{"n": 2}]


def test_scopes_of_overwrite_exclude_each_other(run: Run) -> None:
    refused = run("overwrite", "visits", "--everything", "--where", "visits = 1", stdin=MONDAY)
    assert (refused.code, "exclude" in refused.err) == (2, True)


def test_overwrite_refuses_a_dataset_that_does_not_exist_and_one_of_blobs(run: Run, lake: Path) -> None:
    assert run("overwrite", "visitz", stdin=MONDAY).code == 3
    lode.Dataset("blobs", str(lake)).write(b"x")
    refused = run("overwrite", "blobs", "--everything", stdin=b"y")
    assert (refused.code, "blobs" in refused.err) == (2, True)


def test_delete_removes_matching_rows_and_says_how_many(run: Run) -> None:
    done = run("delete", "visits", "--where", "visits >= 5", "-m", "why=wrong")
    assert "number 3, delete: -2 rows" in done.out
    assert pages(run) == [("mon", "/", 3)]
    assert run("show", "visits", "--json").code == 0
    assert "why=wrong" in run("log", "visits").out


def test_delete_without_a_match_changes_nothing(run: Run) -> None:
    assert run("delete", "visits", "--where", "visits = 99").out == "visits: nothing to delete\n"
    assert len(run("log", "visits", "--json").json) == 2


@pytest.mark.parametrize("where", ["visits >", "nothing = 1", "visits = 'x'"])
def test_a_bad_condition_is_one_sentence_and_changes_nothing(run: Run, where: str) -> None:
    failed = run("delete", "visits", "--where", where)
    assert (failed.code, failed.out, failed.err.count("\n")) == (2, "", 1)
    assert len(run("log", "visits", "--json").json) == 2


def test_merge_updates_and_inserts_and_keeps_columns_that_the_file_lacks(run: Run) -> None:
    rows = b'{"day": "tue", "visits": 50}\n{"day": "thu", "visits": 8}\n'
    assert run("merge", "visits", "--on", "day", stdin=rows).code == 0
    assert pages(run) == [("mon", "/", 3), ("thu", None, 8), ("tue", "/docs", 50), ("wed", None, 7)]


def test_merge_can_delete_and_ignore(run: Run) -> None:
    rows = b'{"day": "tue", "visits": 5}\n{"day": "thu", "visits": 8}\n'
    options = ("--when-matched", "delete", "--when-not-matched", "ignore")
    assert run("merge", "visits", "--on", "day,visits", *options, stdin=rows).code == 0
    assert [day for day, _, _ in pages(run)] == ["mon", "wed"]


def test_merge_refuses_two_rows_of_one_key_and_columns_that_are_unknown(run: Run) -> None:
    twice = run("merge", "visits", "--on", "day", stdin=MONDAY * 2)
    assert (twice.code, "same key" in twice.err) == (1, True)
    unknown = run("merge", "visits", "--on", "day", stdin=b'{"day": "mon", "x": 1}\n')
    assert (unknown.code, "lode evolve" in unknown.err) == (1, True)
    assert run("merge", "visits", stdin=MONDAY).code == 2


def test_compact_puts_small_files_together(run: Run) -> None:
    run("write", "visits", stdin=MONDAY)
    (preview,) = run("compact", "visits", "--dry-run", "--json").json
    assert (preview["id"], preview["removed"]["files"], preview["added"]["files"]) == (None, 2, 1)
    (done,) = run("compact", "visits", "--json", "--sort-by", "visits").json
    assert (done["rows"], done["removed"]["files"], done["added"]["files"]) == (0, 2, 1)
    assert run("compact", "visits").out == "visits: nothing to compact\n"
    assert len(pages(run)) == 4


def test_compact_refuses_a_size_that_is_none(run: Run) -> None:
    refused = run("compact", "visits", "--target-file-size", "large")
    assert (refused.code, "--target-file-size" in refused.err) == (2, True)


def test_restore_returns_to_an_earlier_snapshot(run: Run) -> None:
    run("delete", "visits", "--where", "visits >= 5")
    done = run("restore", "visits", "latest~1")
    assert "number 4, restore: +2 rows" in done.out
    assert len(pages(run)) == 3
    assert run("restore", "visits", "77").code == 3


@pytest.mark.parametrize(
    "command",
    [
        ("overwrite", "visits"),
        ("delete", "visits", "--where", "visits > 4"),
        ("merge", "visits", "--on", "day"),
        ("restore", "visits", "1"),
    ],
)
def test_a_dry_run_changes_nothing(run: Run, lake: Path, command: tuple[str, ...]) -> None:
    before = sorted(path for path in lake.rglob("*") if path.is_file())
    shown = run(*command, "--dry-run", stdin=MONDAY)
    assert (shown.code, shown.err) == (0, "")
    assert "dry run" in shown.out
    assert sorted(path for path in lake.rglob("*") if path.is_file()) == before


def test_a_second_call_with_the_same_key_changes_nothing(run: Run) -> None:
    first = run("delete", "visits", "--where", "day = 'mon'", "-k", "once", "--json").json[0]
    again = run("delete", "visits", "--where", "day = 'mon'", "-k", "once", "--json").json[0]
    assert (again["id"], again["replayed"]) == (first["id"], True)


@pytest.fixture
def changed(run: Run, visits: lode.Dataset) -> None:  # noqa: ARG001, written before
    """Overwritten, deleted from and compacted: 4 rows of mon and wed in 2 files, after 6 snapshots."""
    run("overwrite", "visits", stdin=MONDAY * 2)
    run("delete", "visits", "--where", "day = 'tue'")
    run("write", "visits", stdin=MONDAY)
    run("compact", "visits")


@pytest.mark.usefixtures("changed")
def test_ls_counts_what_is_visible(run: Run) -> None:
    (line,) = run("ls", "--json").json
    assert (line["snapshots"], line["rows"], line["files"]) == (6, 4, 2)
    parts = {part["partition"]: (part["files"], part["rows"]) for part in run("ls", "visits", "--json").json}
    assert parts == {"day=mon": (1, 3), "day=wed": (1, 1)}


@pytest.mark.usefixtures("changed")
def test_log_tells_what_each_snapshot_added_and_removed(run: Run) -> None:
    lines = run("log", "visits", "--json").json
    assert [(line["operation"], line["rows_added"], line["rows_removed"]) for line in lines] == [
        ("compact", 0, 0),
        ("append", 1, 0),
        ("delete", 0, 1),
        ("overwrite", 2, 1),
        ("append", 1, 0),
        ("append", 2, 0),
    ]
    assert lines[0]["removed"]["rows"] == 3
    assert "removed" in run("log", "visits").lines[0]
    assert "-1 row" in run("log", "visits", "--graph").out


@pytest.mark.usefixtures("changed")
def test_show_tells_what_a_snapshot_removed(run: Run) -> None:
    shown = run("show", "visits", "3").out
    assert re.search(r"^removes +1 row, 1 file, ", shown, re.MULTILINE)
    assert re.search(r"^replaces +day=mon$", shown, re.MULTILINE)


@pytest.mark.usefixtures("changed")
def test_diff_compares_what_is_visible(run: Run) -> None:
    (found,) = run("diff", "visits", "2", "--json").json
    assert (found["rows"], found["files"]) == (1, -1)
    assert (found["added"]["rows"], found["removed"]["rows"]) == (3, 2)
    assert {name: part["rows"] for name, part in found["partitions"].items()} == {"day=mon": 2, "day=tue": -1}
    assert run("diff", "visits", "2").lines[0].startswith("+1 row, 2 files out, 1 in")
    assert run("diff", "visits", "3", "4").lines[0].startswith("-1 row")


@pytest.mark.usefixtures("changed")
def test_cat_and_sql_read_what_is_visible(run: Run) -> None:
    assert len(pages(run)) == 4
    assert run("sql", "SELECT count(*) AS n FROM visits", "-f", "jsonl").json == [{"n": 4}]
    assert len(run("cat", "visits", "--as-of", "2", "-f", "jsonl").json) == 3


def test_cat_prints_the_blob_that_was_restored(run: Run, lake: Path) -> None:
    blobs = lode.Dataset("blobs", str(lake))
    blobs.write(b"first")
    blobs.write(b"second")
    run("restore", "blobs", "1")
    assert run("cat", "blobs").raw == b"first"
    run("expire", "blobs", "--keep", "1", "--delete")
    assert run("cat", "blobs").raw == b"first"
