"""``create``, ``evolve`` and ``show``: what a dataset is."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli.running import Run

SCHEMA = '{"day": "string!", "n": "int32", "v": "float64!"}'


def created(run: Run) -> lode.Dataset:
    options = ("--partition-by", "day", "--description", "Visits by day", "--primary-key", "day,n")
    more = ("--sort-by", "n", "--property", "owner=ann", "--compressor", "gzip", "--checksum", "md5")
    ended = run("create", "visits", "--schema", SCHEMA, *options, *more)
    assert (ended.code, ended.err) == (0, "")
    return lode.open_dataset("visits", "lake")


def test_create_stores_what_the_options_say(run: Run) -> None:
    definition = created(run).definition
    assert (definition.layout, definition.keys, definition.codec) == ("hive", ("day",), "parquet")
    assert (definition.compressor, definition.checksum) == ("gzip", "md5")
    assert (definition.primary_key, definition.sort_by) == (("day", "n"), ("n",))
    assert (definition.description, definition.properties) == ("Visits by day", {"owner": "ann"})
    assert definition.schema is not None
    assert [field.nullable for field in definition.schema] == [False, True, False]


def test_create_as_json_has_the_snapshot_and_the_definition(run: Run) -> None:
    (told,) = run("create", "events", "--codec", "jsonl", "--timestamp-column", "at", "--json").json
    assert told["id"] == lode.open_dataset("events", "lake").latest().id
    assert told["definition"]["codec"] == "jsonl"
    assert told["definition"]["timestamp_column"] == "at"


def test_a_dataset_created_without_columns_takes_those_of_the_first_write(run: Run) -> None:
    assert run("create", "events").code == 0
    assert run("write", "events", stdin=b'{"id": 1}').code == 0
    assert run("write", "events", stdin=b'{"other": 1}').code == 1


def test_blobs_can_be_created(run: Run) -> None:
    assert run("create", "blobs", "--codec", "blob").code == 0
    assert run("write", "blobs", stdin=b"bytes").code == 0
    assert run("cat", "blobs").raw == b"bytes"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--schema", "day"), "--schema is not a JSON object of columns"),
        (("--schema", SCHEMA, "--partition-by", "month"), "partition_by names 'month'"),
        (("--schema", SCHEMA, "--sort-by", "n,"), "--sort-by is a list of columns such as a,b, got 'n,'"),
        (("--schema", SCHEMA, "--codec", "blob"), "--codec blob stores bytes"),
        (("--codec", "blob", "--partition-by", "day"), "needs a codec"),
        (("--property", "owner"), "--property is key=value, got 'owner'"),
        (("--codec", "csv"), "--codec"),
    ],
)
def test_what_cannot_be_created_is_refused(run: Run, options: tuple[str, ...], complaint: str) -> None:
    ended = run("create", "visits", *options)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err
    assert run("ls", "--names").out == ""


def test_a_dataset_is_created_once(run: Run) -> None:
    created(run)
    ended = run("create", "visits")
    assert ended.code == 2
    assert "dataset 'visits' exists in " in ended.err


def test_evolve_prints_what_changes(run: Run) -> None:
    dataset = created(run)
    options = ("--add", "country=string", "--widen", "n=int64", "--rename", "v=value", "--relax", "value")
    head, *table = run("evolve", "visits", *options, "-m", "why=growth").lines
    newest = dataset.latest()
    assert head == f"visits: changed by snapshot {newest.id}"
    assert [line.split() for line in table] == [
        ["column", "was", "is"],
        ["n", "int32", "int64"],
        ["value", "v", "float64!", "float64"],
        ["country", "not", "there", "string"],
    ]
    assert newest.metadata == {"why": "growth"}


def test_evolve_as_json_has_both_definitions(run: Run) -> None:
    dataset = created(run)
    (told,) = run("evolve", "visits", "--rename", "v=value", "--json").json
    assert (told["id"], told["renamed"]) == (dataset.latest().id, {"v": "value"})
    assert [column["name"] for column in told["before"]["columns"]] == ["day", "n", "v"]
    assert [column["name"] for column in told["after"]["columns"]] == ["day", "n", "value"]


def test_a_dry_run_shows_before_and_after_and_changes_nothing(run: Run) -> None:
    dataset = created(run)
    ended = run("evolve", "visits", "--drop", "v", "--dry-run")
    assert ended.code == 0
    before, after = ended.out.split("after\n")
    assert "v       float64!" in before
    assert "v       float64!" in after.split("visits: would change")[1]
    assert "v " not in after.split("visits: would change")[0]
    (told,) = run("evolve", "visits", "--drop", "v", "--dry-run", "--json").json
    assert (told["id"], told["columns"]) == (None, {"v": ["float64!", None]})
    assert len(dataset.snapshots()) == 1


def test_columns_that_are_as_asked_already_are_no_change(run: Run) -> None:
    dataset = created(run)
    ended = run("evolve", "visits", "--widen", "n=int32")
    assert (ended.code, ended.out) == (
        0,
        "visits: the columns are as asked already, nothing was changed\n",
    )
    assert len(dataset.snapshots()) == 1


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        ((), 2, "there is nothing to change: use --add, --widen, --relax, --rename or --drop"),
        (("--add", "country"), 2, "--add is key=value, got 'country'"),
        (("--add", "country=text"), 2, "'text'"),
        (("--drop", "nothing"), 2, "there is no column 'nothing' to change: it has day, n, v"),
        (("--drop", "day"), 2, "column 'day' is a partition key"),
        (("--widen", "v=int64"), 1, "column 'v' is double, which cannot be widened to int64"),
    ],
)
def test_what_cannot_be_evolved_is_refused(
    run: Run, options: tuple[str, ...], code: int, complaint: str
) -> None:
    dataset = created(run)
    for dry in ((), ("--dry-run",)):
        ended = run("evolve", "visits", *options, *dry)
        assert (ended.code, ended.out) == (code, "")
        assert complaint in ended.err
    assert len(dataset.snapshots()) == 1


def test_a_dataset_that_does_not_exist_cannot_be_evolved(run: Run) -> None:
    assert run("evolve", "visits", "--add", "a=string").code == 3


def test_log_marks_the_snapshots_that_create_and_evolve(run: Run) -> None:
    dataset = created(run)
    dataset.write([{"day": "mon", "n": 1, "v": 1.0}])
    dataset.evolve(drop=["v"])
    lines = run("log", "visits", "--json").json
    assert [line["operation"] for line in lines] == ["evolve", "append", "create"]
    heading, newest, written, first = run("log", "visits").lines
    assert "operation" in heading.split()
    assert ("evolve" in newest, "append" in written, "create" in first) == (True, False, True)
    drawn = run("log", "visits", "--graph").out
    assert re.search(r"^● 3 .*  evolve$", drawn, re.MULTILINE)
    assert re.search(r"^● 1 .*  create$", drawn, re.MULTILINE)


def test_show_has_the_definition_at_the_snapshot(run: Run) -> None:
    created(run).evolve(rename={"v": "value"})
    shown = run("show", "visits").out
    for line in ("layout +hive", "partitions +day", "primary key +day, n", "sorted by +n"):
        assert re.search(f"^{line}$", shown, re.MULTILINE)
    for line in ("description +Visits by day", "properties +owner=ann", "operation +evolve"):
        assert re.search(f"^{line}$", shown, re.MULTILINE)
    assert re.search(r"^value +float64!$", shown, re.MULTILINE)
    assert re.search(r"^v +float64!$", run("show", "visits", "1").out, re.MULTILINE)
    columns = json.loads(run("show", "visits", "1", "--json").out)["definition"]["columns"]
    assert [column["name"] for column in columns] == ["day", "n", "v"]


def test_a_snapshot_is_shown_also_if_its_definition_is_lost(run: Run, lake: Path) -> None:
    run("create", "events", "--schema", SCHEMA)
    dataset = lode.open_dataset("events", "lake")
    digest = dataset.latest().manifest.definition
    assert digest is not None
    (lake / dataset.chain.paths.definition(digest)).unlink()
    ended = run("show", "events")
    assert ended.code == 1
    assert "operation" in ended.out
    assert "restore it from a backup" in ended.err
