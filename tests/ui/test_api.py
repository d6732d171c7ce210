"""The JSON the page asks for, from a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lode
from lode.ui import is_public
from lode.ui.routes import POLICY
from support.groups import always_wait, write_group
from support.ui.lake import COMMITS

if TYPE_CHECKING:
    from support.ui.served import Served


def test_the_overview_lists_datasets_and_volumes(lake: Served) -> None:
    found = lake.ask("overview")
    assert [row["name"] for row in found["datasets"]] == ["backups", "clicks.raw", "visits"]
    assert [row["name"] for row in found["volumes"]] == ["disk-image", "firmware"]
    visits = found["datasets"][2]
    rows = lode.open_dataset("visits", lake.store).scan().read_all().num_rows
    assert (visits["snapshots"], visits["rows"], visits["partitioned_by"]) == (COMMITS, rows, ["day"])
    assert visits["whole"] is True


def test_pages_of_the_overview_hold_everything_once(fresh: Served) -> None:
    for name in ("a", "c", "e", "g"):
        lode.Dataset(name, fresh.store).write(b"x")
    for name in ("b", "d", "f"):
        volume = lode.Volume(name, fresh.store, 4)
        volume.commit([volume.stage_write_at(0, b"x")])
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = fresh.ask("overview", after=after, limit=2)
        seen += [row["name"] for row in page["datasets"] + page["volumes"]]
        assert len(page["datasets"]) <= 2
        after = page["next"]
    assert sorted(seen) == list("abcdefg")


def test_a_damaged_dataset_does_not_hide_the_others(fresh: Served) -> None:
    lode.Dataset("good", fresh.store).write(b"x")
    fresh.store.put("datasets/bad/snapshots/1/manifest.json", b"[]")
    good, bad = sorted(fresh.ask("overview")["datasets"], key=lambda row: "error" in row)
    assert good["name"] == "good"
    assert "manifest.json" in bad["error"]


def test_an_empty_lake_is_an_empty_overview(fresh: Served) -> None:
    found = fresh.ask("overview")
    assert (found["datasets"], found["volumes"], found["next"]) == ([], [], None)


def test_a_dataset_tells_its_whole_history_in_few_points(lake: Served) -> None:
    found = lake.ask("datasets", "visits", points=10)
    assert len(found["buckets"]) == 10
    assert found["buckets"][0]["first"] == 1
    assert found["buckets"][-1]["last"] == COMMITS
    assert found["buckets"][-1]["total_rows"] == found["rows"]
    assert sum(bucket["rows"] for bucket in found["buckets"]) == found["rows"]


def test_a_dataset_has_its_definition(fresh: Served) -> None:
    created = lode.Dataset.create(
        "visits",
        fresh.store,
        schema={"day": "string!", "tags": "list<string>"},
        partition_by=["day"],
        primary_key=["day"],
        description="Visits by day",
        properties={"owner": "ann"},
    )
    created.evolve(rename={"tags": "labels"})
    found = fresh.ask("datasets", "visits")["definition"]
    assert found["columns"] == [
        {"name": "day", "type": "string", "nullable": False, "roles": ["partition key", "primary key"]},
        {"name": "labels", "type": "list<element: string>", "nullable": True, "roles": []},
    ]
    assert (found["description"], found["primary_key"]) == ("Visits by day", ["day"])
    assert found["properties"] == [["owner", "ann"]]


def test_a_definition_that_is_lost_hides_nothing_else(fresh: Served) -> None:
    dataset = lode.Dataset.create("events", fresh.store, schema={"n": "int64"})
    digest = dataset.latest().manifest.definition
    assert digest is not None
    fresh.store.delete(dataset.chain.paths.definition(digest))
    found = fresh.ask("datasets", "events")
    assert found["snapshots"] == 1
    assert "restore it from a backup" in found["definition"]["problem"]


def test_the_sample_of_a_dataset_has_the_columns_it_has_now(fresh: Served) -> None:
    dataset = lode.Dataset.create("d", fresh.store, schema={"old": "int64", "gone": "string"})
    with_rows = dataset.write([{"old": 1, "gone": "x"}])
    dataset.evolve(rename={"old": "new"}, drop=["gone"], add={"later": "string"})
    found = fresh.ask("datasets", "d", "rows")
    assert [column["name"] for column in found["columns"]] == ["new", "later"]
    assert found["rows"] == [["1", None]]
    assert (found["snapshot"], found["sequence"]) == (with_rows.id, 2)


def test_a_sample_does_not_show_columns_that_were_dropped(fresh: Served) -> None:
    dataset = lode.Dataset.create("d", fresh.store, schema={"a": "int64", "b": "string"}, codec="jsonl")
    dataset.write([{"a": 1, "b": "x"}])
    dataset.evolve(drop=["b"])
    found = fresh.ask("datasets", "d", "rows")
    assert [column["name"] for column in found["columns"]] == ["a"]
    assert found["rows"] == [["1"]]


def test_the_sample_of_a_dataset_without_rows_is_empty(fresh: Served) -> None:
    lode.Dataset.create("d", fresh.store, schema={"a": "int64"})
    assert fresh.ask("datasets", "d", "rows")["rows"] == []


def test_snapshots_say_what_their_commit_did(fresh: Served) -> None:
    dataset = lode.Dataset.create("events", fresh.store, schema={"n": "int64"})
    dataset.write([{"n": 1}])
    dataset.evolve(add={"m": "string"})
    lines = fresh.ask("datasets", "events", "history")["snapshots"]
    assert [line["operation"] for line in lines] == ["create", "append", "evolve"]
    assert fresh.ask("datasets", "events", "snapshots", dataset.latest().id)["operation"] == "evolve"


def test_pages_of_history_are_the_history(lake: Served) -> None:
    expected = [snapshot.id for snapshot in lode.open_dataset("visits", lake.store).snapshots()]
    found = []
    for start in range(1, COMMITS + 1, 25):
        page = lake.ask("datasets", "visits", "history", **{"from": start, "limit": 25})
        found += [line["id"] for line in page["snapshots"]]
    assert found == expected
    newest = lake.ask("datasets", "visits", "history", limit=3)["snapshots"]
    assert [line["id"] for line in newest] == expected[-3:]


def test_answers_are_bounded_whatever_is_asked_for(lake: Served) -> None:
    assert len(lake.ask("datasets", "visits", points=10**9)["buckets"]) <= 240
    assert len(lake.ask("volumes", "disk-image", cells=10**9)["coverage"]) <= 480
    latest = lake.ask("datasets", "visits")["latest"]
    assert len(lake.ask("datasets", "visits", "snapshots", latest, "rows", limit=10**9)["rows"]) <= 200


def test_a_snapshot_tells_its_files_partitions_columns_and_metadata(lake: Served) -> None:
    latest = lode.open_dataset("visits", lake.store).latest()
    found = lake.ask("datasets", "visits", "snapshots", latest.id)
    assert (found["sequence"], found["parent"], found["child"]) == (COMMITS, latest.parent_id, None)
    assert found["files_total"] == len(latest.files) == len(found["files"])
    parts = lake.ask("datasets", "visits", "partitions", snapshot=latest.id)["partitions"]
    assert sum(part["rows"] for part in parts) == latest.row_count
    assert parts[0]["partition"].startswith("day=")
    assert [column["name"] for column in found["columns"]] == ["day", "page", "visits", "share"]
    assert ["source", "crawler"] in found["metadata"]
    parent = lake.ask("datasets", "visits", "snapshots", found["parent"])
    assert parent["child"] == latest.id


def test_a_snapshot_tells_who_wrote_it_and_whether_it_was_rebased(fresh: Served) -> None:
    by = lode.HiveLayout("k")
    one, other = (
        lode.Dataset("d", fresh.store, codec="jsonl", layout=by, writer=name) for name in ("one", "other")
    )
    one.write([{"k": 1}])
    other.write([{"k": 2}])
    late = one.write([{"k": 3}])
    shown = fresh.ask(f"datasets/d/snapshots/{late.id}")
    assert (shown["writer"], shown["rebased"]) == ("one", 1)


def test_a_dataset_and_its_snapshots_tell_of_groups(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    lode.Dataset("d", fresh.store, codec="jsonl").write([{"k": 0}])
    always_wait(monkeypatch)
    members = write_group(fresh.store, "d", 3)
    shown = fresh.ask(f"datasets/d/snapshots/{members[1].id}")
    assert (shown["group"], shown["place"], shown["rebased"]) == (3, 2, 0)
    found = fresh.ask("datasets", "d")["contention"]
    assert (found["recent"], found["grouped"], found["groups"], found["largest"]) == (4, 3, 1, 3)
    lines = fresh.ask("datasets", "d", "history")["snapshots"]
    assert [(line["place"], line["group"]) for line in lines] == [(1, 1), (1, 3), (2, 3), (3, 3)]


def test_rows_are_texts_that_no_browser_rounds(lake: Served) -> None:
    latest = lake.ask("datasets", "clicks.raw")["latest"]
    found = lake.ask("datasets", "clicks.raw", "snapshots", latest, "rows", limit=4)
    assert [column["name"] for column in found["columns"]] == ["id", "tags", "big"]
    assert found["rows"][3] == ["113", '["a",3]', str(2**60 + 3)]
    assert found["more"] is True


def test_a_null_stays_a_null(lake: Served) -> None:
    latest = lake.ask("datasets", "visits")["latest"]
    rows = lake.ask("datasets", "visits", "snapshots", latest, "rows")["rows"]
    assert rows[5][3] is None


def test_a_blob_shows_its_beginning_as_text_or_as_bytes(lake: Served) -> None:
    text, binary = lode.open_dataset("backups", lake.store).snapshots()
    shown = lake.ask("datasets", "backups", "snapshots", text.id, "rows")["blob"]
    assert shown["text"].startswith("-- a dump\nCREATE TABLE")
    shown = lake.ask("datasets", "backups", "snapshots", binary.id, "rows")["blob"]
    assert shown["hex"].startswith("00 01 02 03")
    assert shown["more"] is True


def test_a_dataset_whose_codec_is_somebodys_own_can_be_looked_at_but_not_read(fresh: Served) -> None:
    class Upper:
        name = "upper"

        def encode(self, chunks: object, sink: object) -> None: ...

        def decode(self, source: object) -> object: ...

    snapshot = lode.Dataset("theirs", fresh.store, codec=Upper()).write([{"a": 1}])  # type: ignore[arg-type]
    assert fresh.ask("datasets", "theirs", "snapshots", snapshot.id)["codec"] == "upper"
    status, found = fresh.try_to_ask("datasets", "theirs", "snapshots", snapshot.id, "rows")
    assert status == 500
    assert "'upper'" in found["error"]["message"]


def test_a_volume_tells_what_is_there_and_what_is_missing(lake: Served) -> None:
    found = lake.ask("volumes", "disk-image", cells=40)
    volume = lode.open_volume("disk-image", lake.store)
    assert [tuple(gap) for gap in found["gaps"]] == volume.missing()
    assert found["coverage"][:11] == [1] * 11
    assert found["coverage"][11:14] == [0] * 3
    assert 0 < found["coverage"][15] < 1
    held = sum(found["coverage"]) / 40
    assert held == pytest.approx(volume.latest().size_bytes / volume.total_length, abs=0.001)


def test_a_volume_can_be_looked_at_as_it_was(lake: Served) -> None:
    first = lode.open_volume("disk-image", lake.store).snapshots()[0]
    found = lake.ask("volumes", "disk-image", at=first.id)
    assert (found["bytes"], found["snapshots"], found["gaps_total"]) == (11_000_000, 1, 1)
    assert len(found["snapshots_shown"]) == 3


def test_snapshots_of_a_volume_are_counted_from_its_last_drop(fresh: Served) -> None:
    for _ in range(2):
        volume = lode.Volume("disk", fresh.store, 4)
        volume.commit([volume.stage_write_at(0, b"x")])
        volume.drop()
    volume = lode.Volume("disk", fresh.store, 4)
    volume.commit([volume.stage_write_at(0, b"x")])
    assert fresh.ask("volumes", "disk")["snapshots"] == 1


def test_a_volume_of_one_byte_has_one_cell(fresh: Served) -> None:
    volume = lode.Volume("tiny", fresh.store, 1)
    volume.commit([volume.stage_write_at(0, b"x")])
    assert fresh.ask("volumes", "tiny")["coverage"] == [1]


@pytest.mark.parametrize(
    ("segments", "status"),
    [
        (("datasets", "nothing"), 404),
        (("datasets", "visits", "snapshots", "nothing"), 404),
        (("volumes", "nothing"), 404),
        (("datasets", ".."), 400),
        (("volumes", "a\x01b"), 400),
    ],
)
def test_what_is_not_there_is_told_in_a_sentence(
    lake: Served, segments: tuple[str, ...], status: int
) -> None:
    code, found = lake.try_to_ask(*segments)
    assert code == status
    assert found["error"]["message"]


def test_a_number_that_is_none_is_refused(lake: Served) -> None:
    for wrong in ("-1", "x", "1e9", "9" * 30):
        assert lake.try_to_ask("datasets", "visits", points=wrong)[0] == 400


def test_nothing_can_be_written(lake: Served) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert lake.fetch(f"{lake.url}api/overview", method)[0] == 405


def test_every_answer_carries_the_headers_that_keep_the_page_to_itself(lake: Served) -> None:
    for path in (
        "",
        "static/app.js",
        "static/style.css",
        "api/status",
        "api/datasets/nothing",
        "static/none",
    ):
        _, headers, _ = lake.fetch(lake.url + path)
        assert headers["content-security-policy"] == POLICY, path
        assert headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in POLICY
    assert lake.fetch(f"{lake.url}api/status")[1]["cache-control"] == "no-store"


def test_static_files_do_not_lead_out_of_their_folder(lake: Served) -> None:
    for path in ("static/../routes.py", "static/%2e%2e/routes.py", "static/..%2froutes.py"):
        assert lake.fetch(lake.url + path)[0] == 404


def test_only_the_page_itself_is_public() -> None:
    assert all(is_public(path) for path in ("/", "/ui", "/ui/", "/ui/static/app.js"))
    assert not any(is_public(path) for path in ("/ui/api/overview", "/streams", "/metrics", "/ui/x"))
