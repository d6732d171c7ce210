"""Volumes in the format of Go are read and continued, and Python writes the same format."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import lode
from lode.format.manifest import encode_manifest
from lode.format.volume import decode_volume_manifest

LAKE = Path(__file__).parents[1] / "golden" / "lakes" / "volume"
FIRST = "1709283600123456789"
MANIFEST = f"volumes/tape/snapshots/{FIRST}/manifest.json"
LENGTH = 4096
# What is ours to add; readers that do not know it skip it.
ADDITIVE = {"sequence", "x"}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return Path(shutil.copytree(LAKE, tmp_path / "lake"))


def stored(path: str) -> bytes:
    return (LAKE / "volumes" / "tape" / "data" / path).read_bytes()


def test_a_golden_volume_is_read() -> None:
    volume = lode.Volume("tape", LAKE, LENGTH)
    head = volume.latest()
    assert (head.id, head.parent_id, head.sequence, head.metadata) == (FIRST, None, None, {"reel": "A"})
    assert volume.snapshots() == [head]
    assert volume.missing(head) == [(240, 272), (632, LENGTH - 632)]
    assert volume.read_at(head, 0, 240, verify=True) == stored("0-240.bin")
    assert volume.read_at(FIRST, 520, 10) == stored("512-120.bin")[8:18]
    with volume.open(head, offset=512, length=120) as file:
        assert file.read() == stored("512-120.bin")
    with pytest.raises(lode.RangeMissingError):
        volume.read_at(head, 0, 241)


def test_a_golden_manifest_round_trips_byte_for_byte() -> None:
    data = (LAKE / MANIFEST).read_bytes()
    assert encode_manifest(decode_volume_manifest(data, MANIFEST)) == data.rstrip()


def test_a_golden_volume_is_continued_to_its_end(lake: Path) -> None:
    volume = lode.Volume("tape", lake, LENGTH, checksum="md5")
    blocks = [volume.stage_write_at(at, b"\x07" * size) for at, size in volume.missing()]
    second = volume.commit(blocks, {"reel": "B"})
    assert (second.parent_id, second.sequence) == (FIRST, 2)
    assert [block.path for block in second.blocks][::2] == [
        f"volumes/tape/data/{name}" for name in ("0-240.bin", "512-120.bin")
    ]
    whole = lode.Volume("tape", lake, LENGTH).read_at(second.id, 0, LENGTH, verify=True)
    assert whole[:240] == stored("0-240.bin")
    assert whole[512:632] == stored("512-120.bin")
    assert (lake / "volumes/tape/latest").read_text() == second.id
    assert (lake / MANIFEST).read_bytes() == (LAKE / MANIFEST).read_bytes()


def test_a_golden_volume_is_continued_without_its_pointer(lake: Path) -> None:
    (lake / "volumes/tape/latest").unlink()
    volume = lode.Volume("tape", lake, LENGTH)
    assert volume.commit([volume.stage_write_at(1000, b"x")]).parent_id == FIRST


def test_the_bytes_of_a_golden_volume_cannot_be_replaced(lake: Path) -> None:
    volume = lode.Volume("tape", lake, LENGTH)
    with pytest.raises(lode.OverlappingBlocksError, match=r"volumes/tape/data/0-240\.bin"):
        volume.commit([volume.stage_write_at(239, b"x")])


def test_a_golden_volume_has_its_length_and_its_checksum(lake: Path) -> None:
    with pytest.raises(lode.ComponentMismatchError, match="total_length=4096"):
        lode.Volume("tape", lake, LENGTH + 1).latest()
    other = lode.Volume("tape", lake, LENGTH, checksum="sha256")
    with pytest.raises(lode.ComponentMismatchError, match="checksum='md5'"):
        other.commit([other.stage_write_at(1000, b"x")])


def shape(manifest: dict[str, Any]) -> Any:
    """The keys in their order, and those of every block."""
    keys = [key for key in manifest if key not in ADDITIVE]
    return keys, [list(block) for block in manifest["blocks"]]


def test_written_manifests_have_the_golden_keys_in_their_order(tmp_path: Path) -> None:
    golden = json.loads((LAKE / MANIFEST).read_bytes())
    volume = lode.Volume("tape", tmp_path, LENGTH, checksum="md5")
    blocks = [
        volume.stage_write_at(0, stored("0-240.bin")),
        volume.stage_write_at(512, stored("512-120.bin")),
    ]
    ours = volume.commit(blocks, {"reel": "A"})
    child = volume.commit([volume.stage_write_at(300, b"x")])
    written = json.loads((tmp_path / f"volumes/tape/snapshots/{ours.id}/manifest.json").read_bytes())
    assert shape(written) == shape(golden)
    assert written.keys() - golden.keys() == {"sequence"}
    for block, known in zip(written["blocks"], golden["blocks"], strict=True):
        assert block | {"path": ""} == known | {"path": ""}
        assert (tmp_path / block["path"]).read_bytes() == (LAKE / known["path"]).read_bytes()
    assert list(json.loads((tmp_path / f"volumes/tape/snapshots/{child.id}/manifest.json").read_bytes())) == [
        "schema_name", "format_version", "volume_id", "snapshot_id", "created_at", "metadata", "total_length",
        "blocks", "parent_snapshot_id", "checksum_algorithm", "sequence",
    ]  # fmt: skip


def test_fields_that_do_not_apply_are_omitted(tmp_path: Path) -> None:
    volume = lode.Volume("tape", tmp_path, LENGTH)
    root = volume.commit([volume.stage_write_at(0, b"x")])
    written = json.loads((tmp_path / f"volumes/tape/snapshots/{root.id}/manifest.json").read_bytes())
    assert not {"parent_snapshot_id", "checksum_algorithm", "x"} & written.keys()
    assert list(written["blocks"][0]) == ["offset", "length", "path"]
