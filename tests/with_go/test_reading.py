"""Lode for Go reads what Python writes, and the other way round: layouts, codecs, blobs and volumes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lode
from support.real_go import GoError

if TYPE_CHECKING:
    from pathlib import Path

    from support.real_go import GoProcess

LAYOUTS: dict[str, Any] = {
    "default": lode.DefaultLayout(),
    "flat": lode.FlatLayout(),
    "hive": lode.HiveLayout("k"),
}


@pytest.mark.parametrize("compressor", ["", "gzip", "zstd"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_records_are_equal_both_ways(go: GoProcess, tmp_path: Path, layout: str, compressor: str) -> None:
    rows = [{"k": "a", "n": 1, "x": {"y": [None, 1.5, "é"]}}, {"k": "b", "n": 2, "x": None}]
    theirs = go.dataset(
        tmp_path,
        layout=layout,
        keys=LAYOUTS[layout].keys,
        compressor=compressor,
        checksum="md5",
    )
    written = theirs.write(rows)
    dataset = lode.Dataset(
        "events",
        tmp_path,
        codec="jsonl",
        layout=LAYOUTS[layout],
        compressor=compressor or None,
        checksum="md5",
    )
    assert list(dataset.read(written, verify=True)) == rows
    ours = dataset.write(rows)
    assert theirs.read(ours.id) == rows


def test_blobs_are_equal_both_ways(go: GoProcess, tmp_path: Path) -> None:
    theirs = go.dataset(tmp_path, codec="")
    written = theirs.write_bytes(b"\x00of go")
    dataset = lode.Dataset("events", tmp_path)
    assert dataset.read(written) == b"\x00of go"
    assert theirs.read_bytes(dataset.write(b"\xffof python").id) == b"\xffof python"


def test_go_lists_the_partitions_and_manifests_of_python(go: GoProcess, tmp_path: Path) -> None:
    dataset = lode.Dataset("events", tmp_path, codec="jsonl", layout=lode.HiveLayout("k"))
    first = dataset.write([{"k": "a", "n": 1}, {"k": None, "n": 2}])
    second = dataset.write([{"k": "a", "n": 3}])
    theirs = go.dataset(tmp_path, keys=["k"])
    assert sorted(theirs.partitions()) == ["k=__HIVE_DEFAULT_PARTITION__", "k=a"]
    listed = {each["id"]: each for each in theirs.manifests()}
    assert listed[first.id]["files"] == [file.path for file in first.files]
    assert [each["id"] for each in theirs.manifests("k=a")] == [first.id, second.id]
    assert {row["k"] for row in theirs.read(first.id)} == {"a", None}


def test_go_reads_several_files_of_a_partition_in_the_order_of_the_manifest(
    go: GoProcess, tmp_path: Path
) -> None:
    dataset = lode.Dataset("events", tmp_path, codec="jsonl")
    with dataset.transaction() as transaction:
        for number in range(3):
            transaction.stage([{"n": number}])
        written = transaction.commit()
    assert len(written.files) == 3
    files = [dataset.store.get(file.path) for file in written.files]
    expected = [json.loads(line) for data in files for line in data.splitlines()]
    assert go.dataset(tmp_path).read(written.id) == expected


def test_go_takes_the_columns_of_a_snapshot_as_they_were_named_then(go: GoProcess, tmp_path: Path) -> None:
    dataset = lode.Dataset.create("events", tmp_path, schema={"a": "int64"})
    written = dataset.write([{"a": 1}])
    dataset.evolve(rename={"a": "b"})
    assert go.dataset(tmp_path, codec="parquet", fields={"a": "int64"}).read(written.id) == [{"a": 1}]


def test_go_puts_the_manifest_before_its_copies_and_python_needs_no_copy(
    go: GoProcess, tmp_path: Path
) -> None:
    theirs = go.dataset(tmp_path, keys=["k"])
    written = theirs.write([{"k": "a", "n": 1}])
    copy = tmp_path / f"datasets/events/partitions/k=a/segments/{written}/manifest.json"
    whole = tmp_path / f"datasets/events/segments/{written}/manifest.json"
    assert copy.read_bytes() == whole.read_bytes()
    assert whole.stat().st_mtime_ns <= copy.stat().st_mtime_ns
    copy.unlink()
    assert lode.open_dataset("events", tmp_path).scan().read_all().num_rows == 1


def test_volumes_are_equal_both_ways(go: GoProcess, tmp_path: Path) -> None:
    theirs = go.volume(tmp_path, length=100, checksum="md5")
    first = theirs.commit(10, b"of go")
    volume = lode.Volume("disk", tmp_path, 100, checksum="md5")
    assert volume.read_at(first, 10, 5, verify=True) == b"of go"
    second = volume.commit([volume.stage_write_at(50, b"of python")])
    assert theirs.latest() == second.id
    assert theirs.read_at(second.id, 50, 9) == b"of python"
    assert theirs.read_at(second.id, 10, 5) == b"of go"
    third = theirs.commit(90, b"again")
    assert [snapshot.id for snapshot in volume.snapshots()] == [first, second.id, third]
    assert theirs.snapshots() == [first, second.id, third]


def test_a_column_without_a_name_is_refused_by_go_and_for_go(go: GoProcess, tmp_path: Path) -> None:
    with pytest.raises(GoError, match="field name cannot be empty"):
        go.dataset(tmp_path, codec="parquet", fields={"": "int64"})
    with pytest.raises(lode.InvalidOptionError, match="shared with Go needs a name"):
        lode.Dataset.create("events", tmp_path, schema={"": "int64"}, shared_with_go=True)


FIELDS = {"flag": "bool", "n": "int64", "raw": "bytes"}


def test_go_takes_parquet_records_that_python_refuses(go: GoProcess, tmp_path: Path) -> None:
    """Columns that are not in the schema are ignored by Go."""
    theirs = go.dataset(tmp_path / "go", codec="parquet", fields=FIELDS)
    written = theirs.write([{"flag": True, "n": 1, "raw": "eA==", "more": 2}])
    assert theirs.read(written) == [{"flag": True, "n": 1, "raw": "eA=="}]
    dataset = lode.Dataset.create("events", tmp_path / "python", schema=FIELDS)
    with pytest.raises(lode.SchemaViolationError, match="column 'more': not in the schema"):
        dataset.write([{"flag": True, "n": 1, "raw": b"x", "more": 2}])
    with pytest.raises(lode.SchemaViolationError, match="does not fit bytes"):
        dataset.write([{"flag": True, "n": 1, "raw": "x"}])


def test_python_takes_whole_floats_beyond_those_that_go_takes(go: GoProcess, tmp_path: Path) -> None:
    theirs = go.dataset(tmp_path / "go", codec="parquet", fields={"n": "int64"})
    with pytest.raises(GoError, match="exceeds safe integer range"):
        theirs.write([{"n": 1e18}])
    dataset = lode.Dataset.create("events", tmp_path / "python", schema={"n": "int64"})
    assert dataset.read(dataset.write([{"n": 1e18}])).to_pylist() == [{"n": 10**18}]


def test_only_python_records_the_range_of_booleans_and_bytes(go: GoProcess, tmp_path: Path) -> None:
    theirs = go.dataset(tmp_path, codec="parquet", fields=FIELDS)
    of_go = theirs.manifest(theirs.write([{"flag": True, "n": 1, "raw": "eA=="}]))
    dataset = lode.open_dataset("events", tmp_path)
    of_python = theirs.manifest(dataset.write([{"flag": True, "n": 1, "raw": b"x"}]).id)
    assert with_range(of_go) == {"n"}
    assert with_range(of_python) == {"flag", "n", "raw"}


def with_range(manifest: dict[str, Any]) -> set[str]:
    return {column["name"] for column in manifest["files"][0]["stats"]["columns"] if "min" in column}
