"""The format page suffices: a reader written from it finds in every lake what lode finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lode
from golden.reference_reader import DamagedError, History, Lake, rows_as_json

HERE = Path(__file__).parent
CONFORMANCE = HERE / "conformance"
EXPECTED = {
    path.parent.name: json.loads(path.read_text()) for path in sorted(CONFORMANCE.glob("*/expected.json"))
}
DATASETS = [(lake, id) for lake, told in EXPECTED.items() for id in told.get("datasets", {})]
VOLUMES = [(lake, id) for lake, told in EXPECTED.items() for id in told.get("volumes", {})]
GOLDEN = [
    (folder.name, path.name)
    for folder in sorted((HERE / "lakes").iterdir())
    for path in sorted([*folder.glob("datasets/*"), *folder.glob("weather")])
]


def found_by_lode(dataset: lode.Dataset, snapshot: Any = "latest") -> list[Any]:
    """The rows at a snapshot as lode reads them, as JSON."""
    plan = dataset.plan(as_of=snapshot)
    if plan.components.codec is None:
        return rows_as_json([dataset.read(each.snapshot_id) for each in plan.manifests])
    if dataset.schema_at(snapshot) is None:
        return [row for each in plan.manifests for row in dataset.read(each.snapshot_id)]
    return rows_as_json(pa.table(plan))


def assert_same_rows(found: list[Any], expected: list[Any]) -> None:
    # 1 and 1.0 and True are equal for Python, and different in JSON.
    assert [json.dumps(row, sort_keys=True) for row in found] == [
        json.dumps(row, sort_keys=True) for row in expected
    ]


@pytest.mark.parametrize(("lake", "id"), DATASETS)
def test_the_reference_reader_finds_the_expected_rows(lake: str, id: str) -> None:
    told = EXPECTED[lake]["datasets"][id]
    if told.get("error"):
        with pytest.raises(DamagedError):
            Lake(CONFORMANCE / lake).dataset(id)
        return
    history = Lake(CONFORMANCE / lake).dataset(id)
    assert (history.head and history.head["snapshot_id"]) == told["head"]
    for snapshot_id, content in told.get("snapshots", {}).items():
        if not content.get("expired"):
            assert_same_rows(rows_as_json(history.read(snapshot_id)), content["rows"])
        else:
            line = {each["snapshot_id"]: each["sequence"] for each in history.up_to(history.head)}
            assert line[snapshot_id] < history.floor()


@pytest.mark.parametrize(("lake", "id"), DATASETS)
def test_lode_finds_the_expected_rows(lake: str, id: str) -> None:
    told = EXPECTED[lake]["datasets"][id]
    dataset = lode.Dataset(id, CONFORMANCE / lake)
    if told.get("error"):
        with pytest.raises((lode.ManifestInvalidError, lode.HistoryForkedError)):
            dataset.latest()
        return
    if told["head"] is None:
        with pytest.raises(lode.NoSnapshotsError):
            dataset.latest()
        return
    assert dataset.latest().id == told["head"]
    for snapshot_id, content in told["snapshots"].items():
        if content.get("expired"):
            with pytest.raises(lode.SnapshotExpiredError):
                dataset.plan(as_of=snapshot_id)
        else:
            assert_same_rows(found_by_lode(dataset, snapshot_id), content["rows"])


@pytest.mark.parametrize(("lake", "id"), VOLUMES)
def test_volumes_have_the_expected_blocks(lake: str, id: str) -> None:
    told = EXPECTED[lake]["volumes"][id]
    history = Lake(CONFORMANCE / lake).volume(id)
    assert history.head is not None
    assert history.head["snapshot_id"] == told["head"]
    volume = lode.Volume(id, CONFORMANCE / lake, history.head["total_length"])
    assert volume.latest().id == told["head"]
    for snapshot_id, content in told["snapshots"].items():
        expected = {int(offset): text.encode() for offset, text in content["blocks"].items()}
        assert dict(history.blocks(snapshot_id)) == expected
        for offset, data in expected.items():
            assert volume.read_at(snapshot_id, offset, len(data)) == data


@pytest.mark.parametrize(("lake", "id"), GOLDEN)
def test_the_reference_reader_finds_in_golden_lakes_what_lode_finds(lake: str, id: str) -> None:
    assert_same_everywhere(HERE / "lakes" / lake, id)


def assert_same_everywhere(root: Path, id: str) -> int:
    """Compare each snapshot that can be read, and return how many there are."""
    dataset = lode.Dataset(id, root)
    history = Lake(root).dataset(id)
    line = history.up_to(history.head)
    assert [each["snapshot_id"] for each in line] == [each.id for each in dataset.snapshots()]
    readable = [each for each in line if each["sequence"] >= history.floor()]
    for each in readable:
        found = history.read(each["snapshot_id"])
        assert_same_rows(rows_as_json(found), found_by_lode(dataset, each["snapshot_id"]))
        schema = dataset.schema_at(each["snapshot_id"])
        if schema is not None and isinstance(found, pa.Table):
            assert dict(zip(found.schema.names, found.schema.types, strict=True)) == dict(
                zip(schema.names, schema.types, strict=True)
            )
    return len(readable)


def test_the_lakes_are_small() -> None:
    assert sum(path.stat().st_size for path in CONFORMANCE.rglob("*") if path.is_file()) < 400_000


def test_the_reference_reader_knows_nothing_of_lode() -> None:
    text = (HERE / "reference_reader.py").read_text()
    assert not [line for line in text.splitlines() if line.startswith(("import lode", "from lode"))]


def test_a_lake_of_another_history_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        Lake(tmp_path).dataset("nothing")
    assert isinstance(Lake(CONFORMANCE / "layouts").dataset("flat"), History)
