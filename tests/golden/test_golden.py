"""Lakes in the format of Go are read and continued, and Python writes the same format."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lode
from lode.format.manifest import decode_manifest, encode_manifest
from lode.format.volume import decode_volume_manifest
from lode.store import LocalStore

LAKES = Path(__file__).parent / "lakes"
FIRST, SECOND = "1709283600123456789", "1709283661000000001"
ADDITIVE = {"sequence", "x"}


def reading(city: str, day: str, id: int, temp: float | None) -> dict[str, Any]:
    return {"city": city, "day": day, "id": id, "temp": temp}


ROWS: list[Any] = [
    [reading("Bern/Ost 2", "2024-03-01", 10, -3.5), reading("Oslo", "2024-03-02", 11, None)],
    [reading("Bern/Ost 2", "2024-03-01", 12, 0.25), reading("Oslo", "2024-03-02", 13, 7)],
]


@dataclass(frozen=True)
class Lake:
    """How to open one of the lakes, and its content."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    layout: Any = field(default_factory=lode.DefaultLayout)
    contents: tuple[Any, Any] = (ROWS[0], ROWS[1])

    def open(self, root: Path = LAKES) -> lode.Dataset:
        return lode.Dataset("weather", root / self.name, layout=self.layout, **self.options)

    def reader(self) -> lode.DatasetReader:
        return lode.DatasetReader(LAKES / self.name, layout=self.layout)

    def copy_to(self, root: Path) -> lode.Dataset:
        shutil.copytree(LAKES / self.name, root / self.name)
        return self.open(root)


DATASETS = [
    Lake("default", {"codec": "jsonl"}),
    Lake("raw", contents=(b"reading 0\n", b"reading 1\n")),
    Lake("hive", {"codec": "jsonl"}, lode.HiveLayout("day", "city")),
    Lake("flat", {"codec": "jsonl"}, lode.FlatLayout()),
    Lake("gzip-md5", {"codec": "jsonl", "compressor": "gzip", "checksum": "md5"}),
]
EVERY_LAKE = pytest.mark.parametrize("lake", DATASETS, ids=lambda lake: lake.name)
MANIFESTS = [path.relative_to(LAKES) for path in sorted(LAKES.rglob("manifest.json"))]


@EVERY_LAKE
def test_a_golden_lake_has_its_history(lake: Lake) -> None:
    dataset = lake.open()
    assert [(s.id, s.parent_id, s.sequence) for s in dataset.snapshots()] == [
        (FIRST, None, None),
        (SECOND, FIRST, None),
    ]
    assert [snapshot.metadata for snapshot in dataset.history()] == [{}, {"batch": 1, "from": "station"}]
    assert dataset.latest().id == SECOND
    assert dataset.snapshot(FIRST).created_at.isoformat() == "2024-03-01T09:00:00.123999+00:00"


@EVERY_LAKE
def test_a_golden_lake_has_its_rows(lake: Lake) -> None:
    dataset = lake.open()
    assert dataset.read(FIRST) == lake.contents[0]
    assert dataset.read(dataset.latest()) == lake.contents[1]
    if lake.options.get("codec"):
        assert dataset.scan().read_all().to_pylist() == [*ROWS[0], *ROWS[1]]
        assert dataset.scan(since=FIRST, columns=["id"]).read_all().to_pylist() == [{"id": 12}, {"id": 13}]


@EVERY_LAKE
def test_a_golden_lake_verifies(lake: Lake) -> None:
    report = lode.verify(lake.open())
    assert report.problems == ()
    assert report.snapshots == 2


def test_the_golden_checksums_verify() -> None:
    lake = next(lake for lake in DATASETS if lake.name == "gzip-md5")
    assert lake.open().read(FIRST, verify=True) == ROWS[0]


@EVERY_LAKE
def test_the_reader_finds_a_golden_lakes_manifests(lake: Lake) -> None:
    refs = lake.reader().list_manifests("weather")
    assert [ref.snapshot_id for ref in refs] == [FIRST, SECOND]
    assert [lake.reader().get_manifest(ref).snapshot_id for ref in refs] == [FIRST, SECOND]


def test_the_reader_finds_a_golden_lakes_partitions() -> None:
    reader = next(lake for lake in DATASETS if lake.name == "hive").reader()
    partitions = ["day=2024-03-01/city=Bern%2FOst%202", "day=2024-03-02/city=Oslo"]
    assert reader.list_datasets() == ["weather"]
    assert reader.list_partitions("weather") == partitions
    for partition in partitions:
        refs = reader.list_manifests("weather", partition=partition)
        assert [(ref.snapshot_id, ref.partition) for ref in refs] == [(FIRST, partition), (SECOND, partition)]


@pytest.mark.parametrize("path", [path for path in MANIFESTS if path.parts[0] != "volume"], ids=str)
def test_a_golden_manifest_round_trips_byte_for_byte(path: Path) -> None:
    data = (LAKES / path).read_bytes()
    assert encode_manifest(decode_manifest(data, origin=str(path))) == data


@EVERY_LAKE
def test_a_commit_continues_a_golden_history(lake: Lake, tmp_path: Path) -> None:
    dataset = lake.copy_to(tmp_path)
    third = dataset.write(lake.contents[0], {"ours": True})
    fourth = lake.open(tmp_path).write(lake.contents[1])
    assert (third.parent_id, third.sequence) == (SECOND, 3)
    assert (fourth.parent_id, fourth.sequence) == (third.id, 4)
    again = lake.open(tmp_path)
    assert [snapshot.id for snapshot in again.snapshots()] == [FIRST, SECOND, third.id, fourth.id]
    assert again.read(third) == lake.contents[0]
    assert (tmp_path / lake.name / again.chain.paths.pointer).read_text() == fourth.id
    assert lode.verify(again).ok


@EVERY_LAKE
def test_a_golden_history_is_continued_without_its_pointer(lake: Lake, tmp_path: Path) -> None:
    dataset = lake.copy_to(tmp_path)
    (tmp_path / lake.name / dataset.chain.paths.pointer).unlink()
    assert dataset.latest().id == SECOND
    assert dataset.write(lake.contents[0]).parent_id == SECOND


@EVERY_LAKE
def test_a_commit_on_a_golden_lake_changes_none_of_its_files(lake: Lake, tmp_path: Path) -> None:
    lake.copy_to(tmp_path).write(lake.contents[0])
    for path in (LAKES / lake.name).rglob("*"):
        if path.is_file() and path.name != "latest":
            assert (tmp_path / path.relative_to(LAKES)).read_bytes() == path.read_bytes()


def shape(path: Path) -> Any:
    """The keys of a manifest in their order, nested, without Python's additions."""
    manifest = {key: value for key, value in json.loads(path.read_bytes()).items() if key not in ADDITIVE}
    for file in manifest.get("files", ()):
        # After all fields of Go, which ignores it.
        assert list(file)[-1] == "partition" or "partition" not in file
        file.pop("partition", None)
    return _keys(manifest)


def _keys(value: Any) -> Any:
    match value:
        case dict():
            return [(key, _keys(item) if key != "metadata" else "…") for key, item in value.items()]
        case list():
            return [_keys(item) for item in value]
    return type(value).__name__


@EVERY_LAKE
@pytest.mark.parametrize("index", [0, 1], ids=["root", "child"])
def test_written_manifests_have_the_golden_keys_in_order(lake: Lake, index: int, tmp_path: Path) -> None:
    dataset = lake.open(tmp_path)
    ours = [dataset.write(rows, {"batch": 1, "from": "station"}) for rows in lake.contents][index]
    golden = LAKES / lake.name / dataset.chain.paths.manifest((FIRST, SECOND)[index])
    written = tmp_path / lake.name / dataset.chain.paths.manifest(ours.id)
    assert shape(written) == shape(golden)
    added = json.loads(written.read_bytes()).keys() - json.loads(golden.read_bytes()).keys()
    assert added == {"sequence", "x"}


@EVERY_LAKE
def test_written_paths_match_the_golden_lake(lake: Lake, tmp_path: Path) -> None:
    """The same objects at the same paths, apart from ids, extensions and Python's additions."""
    dataset = lake.open(tmp_path)
    ids = [dataset.write(rows).id for rows in lake.contents]

    def objects(root: Path, first: str, second: str) -> set[str]:
        found = {entry.path for entry in LocalStore(root).list()}
        return {path.replace(first, "<1>").replace(second, "<2>") for path in found}

    ours = objects(tmp_path / lake.name, *ids)
    golden = objects(LAKES / lake.name, FIRST, SECOND)
    added = ("/intent.json", f"/definition/{dataset.definition.digest}.json")
    files = {path.replace("/data/data.jsonl", "/data/data") for path in ours if not path.endswith(added)}
    assert files == golden


@pytest.mark.parametrize("lake", DATASETS[:-1], ids=lambda lake: lake.name)
def test_written_data_files_have_the_golden_bytes(lake: Lake, tmp_path: Path) -> None:
    ours = lake.open(tmp_path).write(lake.contents[0])
    theirs = lake.open().snapshot(FIRST)
    for written, golden in zip(ours.files, theirs.files, strict=True):
        golden_bytes = (LAKES / lake.name / golden.path).read_bytes()
        assert (tmp_path / lake.name / written.path).read_bytes() == golden_bytes


def tape(root: Path = LAKES) -> lode.Volume:
    return lode.Volume("tape", root / "volume", 4096, checksum="md5")


def volume_manifest(root: Path, snapshot_id: str) -> Path:
    return root / "volume" / "volumes" / "tape" / "snapshots" / snapshot_id / "manifest.json"


def test_a_golden_volume_has_its_bytes_and_its_gaps() -> None:
    volume = tape()
    snapshot = volume.latest()
    assert (snapshot.id, snapshot.parent_id, snapshot.metadata) == (FIRST, None, {"reel": "A"})
    assert volume.read_at(snapshot, 0, 240, verify=True) == b"north " * 40
    assert volume.read_at(snapshot, 518, 6) == b"south "
    assert volume.missing(snapshot) == [(240, 272), (632, 3464)]
    with pytest.raises(lode.RangeMissingError):
        volume.read_at(snapshot, 200, 100)


def test_a_golden_volume_manifest_round_trips_byte_for_byte() -> None:
    data = volume_manifest(LAKES, FIRST).read_bytes()
    assert encode_manifest(decode_volume_manifest(data, origin="golden")) == data


def test_a_commit_continues_a_golden_volume(tmp_path: Path) -> None:
    shutil.copytree(LAKES / "volume", tmp_path / "volume")
    volume = tape(tmp_path)
    second = volume.commit([volume.stage_write_at(240, b"x" * 272)])
    assert (second.parent_id, second.sequence) == (FIRST, 2)
    assert tape(tmp_path).read_at(second, 234, 290) == b"north " + b"x" * 272 + b"south south "
    assert [block.offset for block in second.blocks] == [0, 240, 512]


def test_written_volume_manifests_have_the_golden_keys_in_order(tmp_path: Path) -> None:
    volume = tape(tmp_path)
    blocks = [volume.stage_write_at(0, b"north " * 40), volume.stage_write_at(512, b"south " * 20)]
    ours = volume.commit(blocks, {"reel": "A"})
    assert shape(volume_manifest(tmp_path, ours.id)) == shape(volume_manifest(LAKES, FIRST))
    assert (tmp_path / "volume" / "volumes" / "tape" / "latest").read_text() == ours.id


def test_a_volume_is_not_listed_as_a_dataset() -> None:
    with pytest.raises(lode.NoManifestsError):
        lode.DatasetReader(LAKES / "volume").list_datasets()
