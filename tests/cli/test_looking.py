"""``ls``, ``log``, ``show`` and ``diff``: looking at what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lode
from lode.store.local import LocalStore
from support.groups import always_wait, write_group

if TYPE_CHECKING:
    from support.cli.running import Run

GOLDEN = Path(__file__).parents[1] / "golden" / "lakes"
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ")


@pytest.mark.usefixtures("visits")
def test_ls_tells_how_much_each_dataset_holds(run: Run) -> None:
    heading, line = run("ls").lines
    assert heading.split() == ["name", "kind", "snapshots", "rows", "size", "last", "write"]
    assert line.startswith("visits  parquet by day          2     3  ")
    assert TIME.search(line)


def test_ls_lists_volumes_blobs_and_codecs_of_others(run: Run, lake: Path) -> None:
    lode.Dataset("blobs", str(lake)).write(b"some bytes")
    lode.Dataset("events", str(lake), codec="jsonl", compressor="gzip").write([{"n": 1}])
    volume = lode.Volume("disk", str(lake), total_length=100)
    volume.commit([volume.stage_write_at(10, b"0123456789")])
    found = {line["name"]: (line["kind"], line["rows"], line["bytes"]) for line in run("ls", "--json").json}
    assert found["blobs"] == ("blobs", 1, 10)
    assert found["events"][:2] == ("jsonl", 1)
    assert found["disk"] == ("volume", None, 10)
    assert run("ls", "--names").lines == ["blobs", "events", "disk"]
    assert run("ls", "--names", "--json").json[-1] == {"name": "disk"}


@pytest.mark.usefixtures("visits")
def test_ls_of_a_dataset_lists_its_partitions(run: Run) -> None:
    assert [
        (line["partition"], line["rows"], line["files"]) for line in run("ls", "visits", "--json").json
    ] == [
        ("day=mon", 1, 1),
        ("day=tue", 1, 1),
        ("day=wed", 1, 1),
    ]
    assert run("ls", "visits", "-q").lines == ["day=mon", "day=tue", "day=wed"]
    assert run("ls", "visits").lines[1].split()[:4] == ["day=mon", "1", "1", "1"]


def test_a_dataset_that_is_not_partitioned_is_one_line(run: Run, lake: Path) -> None:
    lode.Dataset("events", str(lake), codec="jsonl").write([{"n": 1}, {"n": 2}])
    (line,) = run("ls", "events", "--json").json
    assert (line["partition"], line["rows"]) == ("", 2)
    assert "(not partitioned)" in run("ls", "events").out


def test_an_empty_lake_is_no_error(run: Run) -> None:
    ended = run("ls")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("no datasets to list in ")
    assert run("ls", "--json").out == ""


def test_a_directory_that_is_not_there_is_not_found(run: Run) -> None:
    ended = run("ls", "--root", "nowhere")
    assert ended.code == 3
    assert ended.err.startswith("lode: there is no directory ")


def test_a_dataset_of_any_layout_is_found_by_its_name(run: Run, lake: Path) -> None:
    lode.Dataset("flat", str(lake), codec="jsonl", layout=lode.FlatLayout()).write([{"n": 1}])
    assert run("cat", "flat").json == [{"n": 1}]


@pytest.mark.usefixtures("visits")
def test_log_is_newest_first_and_says_who_wrote(run: Run) -> None:
    newest, oldest = run("log", "visits", "--json").json
    assert (newest["sequence"], newest["idempotency_key"], newest["partitions"]) == (
        2,
        ["nightly", "1"],
        ["day=wed"],
    )
    assert (oldest["sequence"], oldest["metadata"], oldest["rows"]) == (1, {"source": "crawler"}, 2)
    assert newest["parent"] == oldest["id"]
    _, first, second = run("log", "visits").lines
    assert first.split()[:2] == ["2", newest["id"]]
    assert first.endswith("key=nightly/1")
    assert second.endswith("source=crawler")
    assert len(run("log", "visits", "-n", "1").lines) == 2


def test_the_graph_is_one_line_from_the_newest_to_the_first(run: Run, visits: lode.Dataset) -> None:
    second, first = (snapshot.id for snapshot in visits.history())
    sizes = [size_of(snapshot) for snapshot in visits.history()]
    assert TIME.sub("TIME", run("log", "visits", "--graph").out) == (
        f"● 2 {second}  TIME\n"
        f"│   +1 row, 1 file, {sizes[0]}\n"
        "│   day=wed\n"
        "│   key=nightly/1\n"
        "│\n"
        f"● 1 {first}  TIME\n"
        f"    +2 rows, 2 files, {sizes[1]}\n"
        "    day=mon, day=tue\n"
        "    source=crawler\n"
    )
    assert run("log", "visits", "--graph", "-n", "1").lines[-1] == "┊"


def test_a_snapshot_that_is_not_shown_yet_is_a_ring(run: Run, visits: lode.Dataset, lake: Path) -> None:
    """Its writer died between the swap and the manifest."""
    newest = visits.latest().id
    (lake / visits.chain.paths.manifest(newest)).unlink()
    drawn = run("log", "visits", "--graph").lines
    assert drawn[0] == f"◌ {newest} committed, not yet published"
    assert drawn[1].startswith("● 1 ")


@pytest.mark.parametrize("name", ["default", "flat", "gzip-md5", "hive", "raw"])
def test_what_the_go_implementation_wrote_is_read_alike(run: Run, name: str) -> None:
    root = str(GOLDEN / name)
    assert [line["sequence"] for line in run("log", "weather", "-r", root, "--json").json] == [2, 1]
    assert run("verify", "weather", "-r", root).code == 0
    assert run("show", "weather", "1", "-r", root).code == 0
    assert run("cat", "weather", "-s", "1", "-r", root).raw.count(b"\n") == (1 if name == "raw" else 2)


def size_of(snapshot: lode.Snapshot) -> str:
    size = snapshot.size_bytes
    return f"{size} B" if size < 1000 else f"{size / 1000:.1f} kB"


def test_a_volume_has_a_log_and_a_face_too(run: Run, lake: Path) -> None:
    volume = lode.Volume("disk", str(lake), total_length=100)
    volume.commit([volume.stage_write_at(10, b"0123456789")], {"host": "db1"})
    volume.commit([volume.stage_write_at(50, b"0123456789")])
    assert [line["bytes"] for line in run("log", "disk", "--volume", "--json").json] == [20, 10]
    assert "● 2 " in run("log", "disk", "--volume", "--graph").out
    shown = run("show", "disk", "--volume").out
    assert "20 B of 100 B in 2 blocks" in shown
    assert "80 B in 3 gaps" in shown
    assert json.loads(run("show", "disk", "1", "--volume", "--json").out)["metadata"] == {"host": "db1"}
    assert run("show", "disk", "3", "--volume").code == 3
    assert run("show", "no-disk", "--volume").code == 3


def test_numbers_of_a_log_name_snapshots_after_a_drop(run: Run, lake: Path) -> None:
    def commit(block: int) -> None:
        volume = lode.Volume("disk", lake, total_length=100)
        volume.commit([volume.stage_write_at(block, b"x")])
        lode.Dataset("backups", lake).write(b"x", on_conflict="append")

    commit(0)
    lode.Dataset("backups", lake).drop()
    lode.Volume("disk", lake, total_length=100).drop()
    for block in range(3):
        commit(block)
    for name in (["backups"], ["disk", "--volume"]):
        lines = run("log", *name, "--since", "latest~2", "--json").json
        assert [line["sequence"] for line in lines] == [5, 4]
        found = json.loads(run("show", name[0], "5", *name[1:], "--json").out)
        assert found["snapshot_id"] == lines[0]["id"]
    assert {line["name"]: line["snapshots"] for line in run("ls", "--json").json} == {"backups": 3, "disk": 3}


@pytest.mark.usefixtures("visits")
def test_show_tells_files_and_statistics(run: Run) -> None:
    shown = run("show", "visits", "1").out
    assert "parent      none, it is the first" in shown
    assert "partitions/day=tue/segments/" in shown
    assert re.search(r"^visits +int64 +3 +5 +0$", shown, re.MULTILINE)
    assert re.search(r"^metadata +source=crawler$", shown, re.MULTILINE)


def test_show_as_json_is_the_manifest_with_the_definition(run: Run, visits: lode.Dataset) -> None:
    newest = visits.latest()
    stored = json.loads(visits.store.get(visits.chain.paths.manifest(newest.id)))
    shown = json.loads(run("show", "visits", "--json").out)
    assert shown == {**stored, "definition": json.loads(visits.definition.data)}


def test_a_snapshot_has_many_names(run: Run, visits: lode.Dataset) -> None:
    first = visits.snapshots()[0]
    for name in ("1", "latest~1", first.id, first.id.partition("-")[0]):
        assert json.loads(run("show", "visits", name, "--json").out)["snapshot_id"] == first.id
    for name in ("0", "3", "latest~2", "1111111111111111111"):
        assert run("show", "visits", name).code == 3


def test_a_beginning_that_two_ids_share_is_no_name(run: Run, lake: Path) -> None:
    dataset = lode.Dataset("events", str(lake), codec="jsonl")
    for name in ("night-1", "night-2"):
        with dataset.transaction(snapshot_id=name) as transaction:
            transaction.stage([{"n": 1}])
            transaction.commit()
    ended = run("show", "events", "night")
    assert (ended.code, "begin with 'night' (night-1, night-2): give more of the id" in ended.err) == (
        2,
        True,
    )


def test_diff_adds_up_what_came_between_by_partition(run: Run, visits: lode.Dataset) -> None:
    visits.write([{"day": "wed", "page": "/", "visits": 1}, {"day": "thu", "page": "/", "visits": 1}])
    (shown,) = run("diff", "visits", "1", "--json").json
    assert (shown["snapshots"], shown["rows"], shown["files"]) == (2, 3, 3)
    assert {name: part["rows"] for name, part in shown["partitions"].items()} == {"day=thu": 1, "day=wed": 2}
    assert shown["columns"] == {}
    heading, _, _, thursday, wednesday = run("diff", "visits", "1", "3").lines
    assert heading.startswith("+3 rows, 3 files, ")
    assert thursday.split()[:3] == ["day=thu", "+1", "1"]
    assert wednesday.split()[:3] == ["day=wed", "+2", "2"]


def test_diff_shows_how_the_columns_changed(run: Run, visits: lode.Dataset) -> None:
    visits.evolve(add={"country": "string"}, relax=["day"], drop=["page"], rename={"visits": "views"})
    (shown,) = run("diff", "visits", "1", "--json").json
    assert shown["renamed"] == {"visits": "views"}
    assert shown["columns"] == {
        "page": ["string", None],
        "day": ["string!", "string"],
        "views": ["int64", "int64"],
        "country": [None, "string"],
    }
    shown = run("diff", "visits", "1").out
    assert re.search(r"^views +visits int64 +int64$", shown, re.MULTILINE)
    assert re.search(r"^country +not there +string$", shown, re.MULTILINE)


def test_diff_shows_a_column_dropped_and_added_again_as_one_with_two_types(
    run: Run, visits: lode.Dataset
) -> None:
    visits.evolve(drop=["page"])
    visits.evolve(add={"page": "int64"})
    (shown,) = run("diff", "visits", "1", "--json").json
    assert (shown["columns"], shown["renamed"]) == ({"page": ["string", "int64"]}, {})


def test_diff_compares_the_dataset_and_not_the_files_of_two_snapshots(run: Run, visits: lode.Dataset) -> None:
    visits.write([{"day": "thu"}])
    (shown,) = run("diff", "visits", "1", "--json").json
    assert shown["columns"] == {}


@pytest.mark.usefixtures("visits")
def test_diff_wants_the_older_one_first(run: Run) -> None:
    ended = run("diff", "visits", "2", "1")
    assert ended.code == 2
    assert ended.err.endswith("name the older one first\n")


def test_log_marks_the_commits_that_were_rebased(run: Run, lake: Path) -> None:
    one, other = (
        lode.Dataset("visits", str(lake), codec="jsonl", layout=lode.HiveLayout("day")) for _ in range(2)
    )
    one.write([{"day": "mon"}])
    other.write([{"day": "tue"}])
    one.write([{"day": "wed"}])
    assert [line["rebases"] for line in run("log", "visits", "--json").json] == [1, 0, 0]
    heading, newest, *_ = run("log", "visits").lines
    assert heading.split() == ["#", "snapshot", "time", "rows", "size", "files", "rebases", "metadata"]
    assert newest.split()[-1] == "1"
    heads = [line for line in run("log", "visits", "--graph").lines if line[:1] in "●◆"]
    assert [line[0] for line in heads] == ["◆", "●", "●"]
    assert heads[0].endswith("rebased 1 time")


@pytest.mark.usefixtures("visits")
def test_log_has_no_column_of_rebases_where_there_were_none(run: Run) -> None:
    assert "rebases" not in run("log", "visits").lines[0]


def test_log_shows_the_groups_that_one_swap_committed(
    run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(lake)
    lode.Dataset("visits", store, codec="jsonl").write([{"k": 0}])
    always_wait(monkeypatch)
    write_group(store, "visits", 3)
    assert [line["group"] for line in run("log", "visits", "--json").json] == [3, 3, 3, 1]
    heading, newest, *_, oldest = run("log", "visits").lines
    assert heading.split() == ["#", "snapshot", "time", "rows", "size", "files", "group", "metadata"]
    assert newest.split()[-1] == "3"
    assert oldest.split()[-1] == "1"  # its files: a snapshot that was committed alone has no group
    heads = [line for line in run("log", "visits", "--graph").lines if line[:1] in "●◆"]
    assert [line.endswith("  in a group of 3") for line in heads] == [True, True, True, False]


@pytest.mark.usefixtures("visits")
def test_log_has_no_column_of_groups_where_there_were_none(run: Run) -> None:
    assert "group" not in run("log", "visits").lines[0]


def test_log_tells_who_wrote_each_snapshot_if_somebody_said(run: Run, lake: Path) -> None:
    lode.Dataset("events", str(lake), writer="crawler").write(b"1")
    lode.Dataset("events", str(lake)).write(b"2")
    assert [line["writer"] for line in run("log", "events", "--json").json] == [None, "crawler"]
    heading, *_, first = run("log", "events").lines
    assert heading.split()[-2:] == ["writer", "metadata"]
    assert first.split()[-1] == "crawler"
    assert run("log", "events", "--graph").lines[-1].strip() == "by crawler"


def test_log_is_bounded_by_snapshots_and_times(run: Run, lake: Path) -> None:
    dataset = lode.Dataset("events", str(lake))
    volume = lode.Volume("disk", str(lake), total_length=100)
    for number in range(4):
        dataset.write(b"1")
        volume.commit([volume.stage_write_at(number, b"x")], {})
    for name in (["events"], ["disk", "--volume"]):
        for bounds, numbers in {
            (): [4, 3, 2, 1],
            ("--since", "2"): [4, 3],
            ("--as-of", "latest~1"): [3, 2, 1],
            ("--since", "1", "--as-of", "3"): [3, 2],
            ("--since", "2026-01-01"): [4, 3, 2, 1],
            ("--as-of", "9999-01-01", "--number", "1"): [4],
        }.items():
            assert [line["sequence"] for line in run("log", *name, *bounds, "--json").json] == numbers, bounds
    assert run("log", "events", "--as-of", "2026-01-01").code == 3
