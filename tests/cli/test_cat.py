"""``cat``: records in every format, by snapshot and by stretch of history."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli.running import Run

MONDAY = {"day": "mon", "page": "/", "visits": 3}
TUESDAY = {"day": "tue", "page": "/docs", "visits": 5}
WEDNESDAY = {"day": "wed", "page": None, "visits": 7}


@pytest.mark.usefixtures("visits")
def test_cat_prints_all_rows_of_the_dataset(run: Run) -> None:
    assert run("cat", "visits").json == [MONDAY, TUESDAY, WEDNESDAY]


@pytest.mark.usefixtures("visits")
def test_cat_prints_the_rows_that_one_snapshot_added(run: Run) -> None:
    assert run("cat", "visits", "--snapshot", "1").json == [MONDAY, TUESDAY]
    assert run("cat", "visits", "-s", "latest").json == [WEDNESDAY]
    for other in ("--as-of", "--since"):
        ended = run("cat", "visits", "--snapshot", "1", other, "1")
        assert (ended.code, "selects one snapshot" in ended.err) == (2, True)


def test_cat_prints_the_dataset_at_a_snapshot_or_a_time(run: Run, visits: lode.Dataset) -> None:
    first, _ = visits.snapshots()
    for name in ("1", "latest~1", first.id, first.id[:19], first.created_at.isoformat()):
        assert run("cat", "visits", "--as-of", name).json == [MONDAY, TUESDAY]
    without_zone = first.created_at.isoformat().removesuffix("+00:00")
    assert run("cat", "visits", "--as-of", without_zone).json == [MONDAY, TUESDAY]
    for name in ("2001-01-01", "2001-01-01T00:00", "2001-01-01 00:00Z"):
        ended = run("cat", "visits", "--as-of", name)
        assert (ended.code, "had no snapshots at 2001-01-01" in ended.err) == (3, True)


def test_cat_prints_what_came_after_a_snapshot_or_a_time(run: Run, visits: lode.Dataset) -> None:
    first, _ = visits.snapshots()
    for name in ("1", "latest~1", first.id, first.id[:19], first.created_at.isoformat()):
        assert run("cat", "visits", "--since", name).json == [WEDNESDAY]
    assert run("cat", "visits", "--since", "latest").json == []
    assert run("cat", "visits", "--since", "2001-01-01").json == [MONDAY, TUESDAY, WEDNESDAY]


def test_cat_refuses_ignores_or_prints_what_was_removed(run: Run, visits: lode.Dataset) -> None:
    visits.delete("page = '/'")
    ended = run("cat", "visits", "--since", "1")
    assert (ended.code, '"report"' in ended.err) == (2, True)
    assert run("cat", "visits", "--since", "1", "--on-removal", "ignore").json == [WEDNESDAY]
    printed = run("cat", "visits", "--since", "1", "--on-removal", "report").json
    assert printed == [{**WEDNESDAY, "_change": "insert"}, {**MONDAY, "_change": "delete"}]
    ended = run("cat", "visits", "--on-removal", "ignore")
    assert (ended.code, "--since" in ended.err) == (2, True)


def test_cat_of_blobs_is_the_newest_blob_then(run: Run, lake: Path) -> None:
    dataset = lode.Dataset("backups", str(lake))
    for blob in (b"one", b"two"):
        dataset.write(blob)
    assert run("cat", "backups").raw == b"two"
    assert run("cat", "backups", "--as-of", "1").raw == b"one"
    assert run("cat", "backups", "--since", "2001-01-01").raw == b"onetwo"


def test_cat_of_json_has_the_present_names_of_columns(run: Run, lake: Path) -> None:
    dataset = lode.Dataset.create("logs", str(lake), codec="jsonl", schema={"a": "int64"})
    dataset.write([{"a": 1}])
    dataset.evolve(rename={"a": "b"})
    assert run("cat", "logs").json == [{"b": 1}]


@pytest.mark.usefixtures("visits")
def test_columns_and_limits_leave_the_rest_out(run: Run) -> None:
    assert run("cat", "visits", "-c", "visits,day", "-n", "1").json == [{"visits": 3, "day": "mon"}]
    assert run("cat", "visits", "-n", "0").out == ""
    assert run("cat", "visits", "-c", "nothing").code == 2


def test_json_keeps_records_that_are_not_alike(run: Run, lake: Path) -> None:
    records: list[Any] = [{"a": 1}, {"b": [1, "x"]}, [1, 2], "text"]
    lode.Dataset("mixed", str(lake), codec="jsonl").write(records)
    assert run("cat", "mixed").json == records
    assert run("cat", "mixed", "-c", "a", "-n", "2").json == [{"a": 1}, {"a": None}]
    assert run("cat", "mixed", "-f", "table").lines[0].split() == ["a", "b", "value"]


def test_every_format_holds_the_same_rows(run: Run, visits: lode.Dataset) -> None:
    table = visits.scan().read_all()
    arrow = run("cat", "visits", "--format", "arrow").raw
    assert pa.ipc.open_stream(arrow).read_all().equals(table)
    assert pq.read_table(io.BytesIO(run("cat", "visits", "-f", "parquet").raw)).equals(table)
    assert run("cat", "visits", "-f", "csv").lines == [
        '"day","page","visits"',
        '"mon","/",3',
        '"tue","/docs",5',
        '"wed",,7',
    ]
    assert run("cat", "visits", "-f", "table").lines == [
        "day  page   visits",
        "mon  /           3",
        "tue  /docs       5",
        "wed  null        7",
    ]


def test_csv_and_json_have_words_for_every_type(run: Run, lake: Path) -> None:
    table = pa.table(
        {
            "list": [[1, 2]],
            "bytes": [b"\x00\x01"],
            "at": pa.array([datetime(2026, 11, 15, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "price": pa.array(["1.50"], pa.string()).cast(pa.decimal128(9, 2)),
            "not": [float("nan")],
        }
    )
    lode.Dataset("types", str(lake), codec="parquet").write(table)
    (record,) = run("cat", "types").json
    assert record == {
        "list": [1, 2],
        "bytes": "AAE=",
        "at": "2026-11-15T00:00:00Z",
        "price": 1.5,
        "not": None,
    }
    assert run("cat", "types", "-f", "csv").lines[1] == '"[1,2]","AAE=",2026-11-15 00:00:00.000000Z,1.50,nan'


def test_blobs_come_back_byte_for_byte(run: Run, lake: Path) -> None:
    lode.Dataset("blobs", str(lake), compressor="zstd").write(b"\x00\xff" * 1000)
    assert run("cat", "blobs").raw == b"\x00\xff" * 1000
    assert run("cat", "blobs", "--limit", "1").code == 2


def test_cat_can_check_before_it_prints(run: Run, visits: lode.Dataset, lake: Path) -> None:
    assert run("cat", "visits", "--verify").code == 0
    file = lake / visits.latest().files[0].path
    file.write_bytes(file.read_bytes()[::-1])
    ended = run("cat", "visits", "--verify")
    assert (ended.code, ended.out) == (1, "")
    assert "sha256" in ended.err


def test_records_of_a_foreign_codec_are_refused_but_not_the_rest(run: Run, lake: Path) -> None:
    class Lines:
        name = "lines"

        def encode(self, chunks: Any, sink: Any) -> None:
            for chunk in chunks:
                sink.write("".join(f"{row}\n" for row in chunk).encode())

        def decode(self, source: Any) -> Any:
            yield source.read().decode().splitlines()

    lode.Dataset("notes", str(lake), codec=Lines()).write(["one"])
    assert run("log", "notes").code == run("verify", "notes").code == run("show", "notes").code == 0
    ended = run("cat", "notes")
    assert (ended.code, "codec 'lines'" in ended.err) == (1, True)


CONDITIONS = {
    "visits > 3": ["tue", "wed"],
    "visits >= 3 AND visits < 7": ["mon", "tue"],
    "visits = 3 OR day = 'wed'": ["mon", "wed"],
    "NOT visits <> 3": ["mon"],
    "day in ('mon', 'wed') and not (visits = 3)": ["wed"],
    "day NOT IN ('mon')": ["tue", "wed"],
    "page LIKE '/%'": ["mon", "tue"],
    "page IS NULL": ["wed"],
    'page IS NOT NULL AND "visits" != 5': ["mon"],
    "visits > 4.5": ["tue", "wed"],
    "day = 'it''s'": [],
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.usefixtures("visits")
def test_a_condition_chooses_rows(run: Run, condition: str) -> None:
    ended = run("cat", "visits", "--where", condition)
    assert ended.err == ""
    assert [record["day"] for record in ended.json] == CONDITIONS[condition]


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        ("nothing = 1", "there is no column 'nothing': there are day, page, visits"),
        ("visits", "at 0: 'visits' is an INT64, where a condition must be"),
        ("visits = ", "at 9: a value is missing at the end"),
        ("visits = 'many'", "at 0: an INT64 cannot be compared with 'many', a STRING"),
        ("visits = 1 day = 'x'", "at 11: 'day' is not expected here"),
        ("(visits = 1", "at 11: ( at 0 is not closed"),
        ("visits ~ 1", "at 7: '~ 1' is not understood"),
        ("", "at 0: a value is missing"),
    ],
)
@pytest.mark.usefixtures("visits")
def test_a_condition_that_is_wrong_is_told_where(run: Run, condition: str, complaint: str) -> None:
    ended = run("cat", "visits", "--where", condition)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err
    assert ended.err.count("\n") == 1


def test_moments_and_truth_are_compared_as_what_they_are(run: Run, lake: Path) -> None:
    schema = {"at": "timestamp", "day": "date", "ok": "bool"}
    moment = datetime(2026, 11, 15, 12, tzinfo=UTC)
    dataset = lode.Dataset("moments", str(lake), codec=lode.Parquet(schema))
    dataset.write([{"at": moment, "day": moment.date(), "ok": True}])
    for condition in (
        "at > '2026-11-15'",
        "at = '2026-11-15T13:00+01:00'",
        "day = '2026-11-15'",
        "ok = true",
    ):
        assert len(run("cat", "moments", "-w", condition).lines) == 1
    assert run("cat", "moments", "-w", "at < '2026-11-15'").lines == []
