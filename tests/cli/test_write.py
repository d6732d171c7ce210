"""``write``: files and pipes into datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lode

if TYPE_CHECKING:
    from support.cli.running import Run

ROWS: list[dict[str, Any]] = [{"id": 1, "name": "ann"}, {"id": 2, "name": None}]
LINES = "".join(f"{json.dumps(row)}\n" for row in ROWS).encode()


@pytest.fixture
def files() -> dict[str, str]:
    table = pa.Table.from_pylist(ROWS)
    Path("rows.jsonl").write_bytes(LINES)
    Path("rows.csv").write_text("id,name\n1,ann\n2,bob\n")
    pq.write_table(table, "rows.parquet")
    with pa.ipc.new_file("rows.arrow", table.schema) as file:
        file.write_table(table)
    with pa.ipc.new_stream("rows.stream", table.schema) as stream:
        stream.write_table(table)
    return {kind: f"rows.{kind}" for kind in ("jsonl", "csv", "parquet", "arrow")}


def test_a_name_like_that_of_another_dataset_is_asked_about_when_it_creates_one(
    run: Run, files: dict[str, str]
) -> None:
    first = run("write", "visits", files["csv"])
    assert (first.err, first.out.startswith("visits: new dataset, snapshot ")) == ("", True)
    second = run("write", "visist", files["csv"])
    assert second.err == "lode: dataset 'visist' is new: did you mean 'visits'?\n"
    again = run("write", "visist", files["csv"])
    assert (again.err, "new dataset" in again.out) == ("", False)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "arrow"])
@pytest.mark.parametrize("codec", ["jsonl", "parquet", "arrow"])
def test_any_file_goes_into_any_codec(run: Run, files: dict[str, str], kind: str, codec: str) -> None:
    ended = run("write", "rows", files[kind], "--codec", codec, "--json")
    assert ended.err == ""
    (told,) = ended.json
    assert (told["dataset"], told["sequence"], told["rows"]) == ("rows", 1, 2)
    assert [record["id"] for record in run("cat", "rows").json] == [1, 2]
    (line,) = run("ls", "--json").json
    assert line["kind"] == codec


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "arrow"])
def test_stdin_is_any_of_them_too(run: Run, files: dict[str, str], kind: str) -> None:
    assert run("write", "rows", "--from", kind, stdin=Path(files[kind]).read_bytes()).code == 0
    assert len(run("cat", "rows").lines) == 2


@pytest.mark.usefixtures("files")
def test_an_arrow_stream_is_told_from_an_arrow_file(run: Run) -> None:
    assert run("write", "rows", "rows.stream", "--from", "arrow").code == 0
    assert run("cat", "rows").json == ROWS


def test_all_files_of_a_call_are_one_snapshot(run: Run, files: dict[str, str]) -> None:
    (told,) = run("write", "rows", files["jsonl"], files["csv"], files["parquet"], "--json").json
    assert (told["sequence"], told["rows"], told["files"]) == (1, 6, 3)


def test_a_new_dataset_is_as_the_options_say(run: Run) -> None:
    options = ("-p", "name,id", "--compressor", "gzip", "--checksum", "md5", "--codec", "jsonl")
    run("write", "rows", *options, "-m", "source=cli", "-m", '{"n": 1}', "-k", "first", stdin=LINES)
    manifest = json.loads(run("show", "rows", "--json").out)
    assert (manifest["codec"], manifest["compressor"], manifest["checksum_algorithm"]) == (
        "jsonl",
        "gzip",
        "md5",
    )
    assert manifest["metadata"] == {"source": "cli", "n": 1}
    assert run("ls", "rows", "-q").lines == ["name=__HIVE_DEFAULT_PARTITION__/id=2", "name=ann/id=1"]


def test_a_dataset_that_is_there_says_how_it_is_written(run: Run, visits: lode.Dataset) -> None:
    assert run("write", "visits", stdin=b'{"day": "thu", "visits": 1}').code == 0
    assert visits.latest().manifest.checksum_algorithm == "sha256"
    assert run("cat", "visits", "-s", "latest").json == [{"day": "thu", "page": None, "visits": 1}]
    for option, value in (("--codec", "jsonl"), ("-p", "page"), ("--compressor", "gzip")):
        ended = run("write", "visits", option, value, stdin=LINES)
        assert (ended.code, "leave the option out" in ended.err) == (2, True)


def test_columns_keep_their_types(run: Run, visits: lode.Dataset) -> None:
    ended = run("write", "visits", stdin=b'{"day": "fri", "visits": "many"}')
    assert (ended.code, ended.err) == (1, "lode: row 0, column 'visits': str 'many' does not fit int64\n")
    assert len(visits.snapshots()) == 2


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "arrow"])
def test_new_columns_are_refused_and_the_message_says_how_to_add_them(
    run: Run, files: dict[str, str], visits: lode.Dataset, kind: str
) -> None:
    ended = run("write", "visits", files[kind])
    assert (ended.code, ended.err) == (
        1,
        "lode: column 'id' (int64) is not one of dataset 'visits', which has day, page, visits: write with "
        "--evolve, or add it with lode evolve --add\n",
    )
    assert len(visits.snapshots()) == 2


def test_new_columns_become_columns_of_the_dataset_with_evolve(run: Run, visits: lode.Dataset) -> None:
    line = b'{"new": 1.5, "day": "thu", "visits": 1}'
    assert run("write", "visits", "--evolve", stdin=line).code == 0
    assert run("cat", "visits", "--since", "2").json == [
        {"day": "thu", "page": None, "visits": 1, "new": 1.5}
    ]
    schema = lode.Dataset("visits", visits.store).schema
    assert schema is not None
    assert schema.names == ["day", "page", "visits", "new"]


def test_a_required_column_that_a_file_lacks_is_refused(run: Run, visits: lode.Dataset) -> None:
    ended = run("write", "visits", stdin=b'{"visits": 1}')
    assert ended.code == 1
    assert "column 'day' (string) is required in dataset 'visits' and missing in the data" in ended.err
    assert len(visits.snapshots()) == 2


@pytest.mark.parametrize("codec", ["parquet", "jsonl", "arrow", "blob"])
def test_a_write_of_nothing_commits_nothing(run: Run, codec: str) -> None:
    ended = run("write", "rows", "--codec", codec)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith("so nothing was committed: commit an empty snapshot with --allow-empty\n")
    assert run("ls", "--json").out == ""


def test_a_file_with_columns_and_no_rows_is_nothing_too(run: Run, visits: lode.Dataset) -> None:
    pq.write_table(pa.table({"day": pa.array([], pa.string())}), "none.parquet")
    Path("none.csv").write_text("day,visits\n")
    for name in ("none.parquet", "none.csv"):
        assert run("write", "visits", name).code == 2
    assert len(visits.snapshots()) == 2


@pytest.mark.parametrize("codec", ["parquet", "jsonl", "arrow", "blob"])
def test_an_empty_snapshot_is_written_where_that_is_asked_for(run: Run, codec: str) -> None:
    assert run("write", "rows", "--codec", codec, "--allow-empty").code == 0
    assert len(run("log", "rows", "--json").json) == 1
    assert run("write", "rows", stdin=LINES).code == 0


def test_an_empty_csv_file_gives_its_columns_no_type_that_nothing_fits(run: Run) -> None:
    Path("rows.csv").write_text("id,name\n1,\n")
    assert run("write", "rows", "rows.csv").code == 0
    assert run("write", "rows", stdin=LINES).code == 0


def test_a_schema_is_kept_to(run: Run) -> None:
    assert run("write", "rows", "--schema", '{"id": "int32!", "name": "string"}', stdin=LINES).code == 0
    assert lode.Dataset("rows", "lake", codec="parquet").scan().schema.field("id").type == pa.int32()
    assert run("write", "more", "--schema", "id int32", stdin=LINES).code == 2
    assert run("write", "more", "--schema", '{"id": "int9"}', stdin=LINES).code == 2


def test_a_second_write_under_a_key_writes_nothing(run: Run) -> None:
    assert run("write", "rows", "-k", "monday", stdin=LINES).out.startswith("rows: new dataset, snapshot ")
    assert run("write", "rows", "-k", "monday", stdin=LINES).out.startswith(
        "rows: this key was written before"
    )
    (told,) = run("write", "rows", "-k", "monday", "--json", stdin=LINES).json
    assert told["replayed"] is True
    assert len(run("log", "rows", "--json").lines) == 1


def test_bytes_are_one_blob(run: Run) -> None:
    assert (
        run("write", "blobs", "--codec", "blob", "--compressor", "zstd", stdin=b"\x00" * 3_000_000).code == 0
    )
    assert run("cat", "blobs").raw == b"\x00" * 3_000_000
    assert run("write", "blobs", stdin=b"more").code == 0
    Path("a").write_bytes(b"a")
    assert run("write", "blobs", "a", "a").code == 2


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "complaint"),
    [
        (["rows", "nothing.csv"], b"", 3, "nothing.csv: No such file or directory"),
        (
            ["rows", "rows.txt"],
            b"",
            2,
            "rows.txt has no known suffix: add --from jsonl, csv, parquet or arrow",
        ),
        (["rows"], b'{"id": 1}\n{"id"', 1, "stdin is not good jsonl: line 2 is not one JSON value"),
        (["rows"], b"[1]", 1, "row 0 is not an object"),
        (["rows"], b'{"a": 1}\n{"a": "x"}', 1, "column 'a' has values of several types"),
        (["rows", "--from", "parquet"], b"no", 1, "stdin is not good parquet"),
        (["rows", "--metadata", "source"], b"", 2, "--metadata is key=value, got 'source'"),
        (["rows", "--metadata", "{"], b"", 2, "--metadata { is not a JSON object"),
        (["rows", "--codec", "nothing"], b"", 2, "--codec"),
        (["../rows"], LINES, 2, "may not contain a path separator"),
    ],
)
def test_what_cannot_be_written_is_told_and_nothing_is(
    run: Run, arguments: list[str], stdin: bytes, code: int, complaint: str
) -> None:
    Path("rows.txt").write_text("")
    ended = run("write", *arguments, stdin=stdin)
    assert ended.code == code
    assert complaint in ended.err
    assert run("ls", "--json").out == ""
