"""Manifests of partitioned datasets have the partition values of each file, typed."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import lode
from lode.format.manifest import Manifest, decode_manifest, encode_manifest
from lode.format.partition_values import contradicts
from lode.store import MemoryStore


def values_of(snapshot: Any) -> list[Any]:
    return [file.partition for file in snapshot.manifest.files]


def partitioned(kind: Any) -> lode.Dataset:
    schema = pa.schema([pa.field("k", kind), pa.field("n", pa.int64())])
    return lode.Dataset.create("visits", MemoryStore(), schema=schema, partition_by=["k"])


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        (pa.string(), "a/ü", "a/ü"),
        (pa.string(), "", ""),
        (pa.string(), None, None),
        (pa.string(), "<nil>", "<nil>"),
        (pa.string(), "1", "1"),
        (pa.int64(), 2**62, 2**62),
        (pa.uint64(), 2**64 - 1, 2**64 - 1),
        (pa.bool_(), True, True),
        (pa.float64(), 1.0, 1.0),
        (pa.float64(), -0.0, 0.0),
        (pa.float64(), 1e300, 1e300),
        (pa.float64(), float("nan"), "nan"),
        (pa.float64(), float("-inf"), "-inf"),
        (pa.date32(), date(2026, 1, 2), "2026-01-02"),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02"),
        (pa.decimal128(6, 2), Decimal("1.50"), "1.50"),
        (pa.dictionary(pa.int32(), pa.string()), "a", "a"),
    ],
    ids=str,
)
def test_a_file_has_its_typed_partition_value(kind: Any, value: Any, stored: Any) -> None:
    dataset = partitioned(kind)
    found = values_of(dataset.write([{"k": value, "n": 1}]))
    assert found == [{"k": stored}]
    assert type(found[0]["k"]) is type(stored)
    again = json.loads(dataset.store.get(dataset.chain.paths.manifest(dataset.latest().id)))
    assert again["files"][0]["partition"] == {"k": stored}
    assert lode.verify(dataset).problems == ()


def test_a_file_with_null_and_empty_text_has_no_value() -> None:
    dataset = partitioned(pa.string())
    snapshot = dataset.write([{"k": None, "n": 1}, {"k": "", "n": 2}, {"k": "a", "n": 3}])
    assert values_of(snapshot) == [None, {"k": "a"}]


def test_only_the_key_with_several_values_is_left_out() -> None:
    dataset = lode.Dataset.create(
        "visits", MemoryStore(), schema={"k": "string", "n": "int64"}, partition_by=["n", "k"]
    )
    assert values_of(dataset.write([{"k": None, "n": 1}, {"k": "", "n": 1}])) == [{"n": 1}]


def test_records_that_share_a_path_with_different_types_have_no_value() -> None:
    dataset = lode.Dataset("visits", MemoryStore(), codec="jsonl", layout=lode.HiveLayout("k"))
    assert values_of(dataset.write([{"k": 1}, {"k": 1}])) == [{"k": 1}]
    assert values_of(dataset.write([{"k": 1}, {"k": 1.0}])) == [None]
    assert values_of(dataset.write([{"k": True}, {"k": "true"}])) == [None]


def test_an_unpartitioned_file_has_no_field_for_it() -> None:
    dataset = lode.Dataset.create("visits", MemoryStore(), schema={"n": "int64"})
    data = dataset.store.get(dataset.chain.paths.manifest(dataset.write([{"n": 1}]).id))
    assert "partition" not in json.loads(data)["files"][0]


def test_streams_and_rewrites_have_values() -> None:
    dataset = partitioned(pa.string())
    with dataset.transaction() as transaction:
        transaction.write_records({"k": each, "n": number} for number, each in enumerate("aabb"))
        assert values_of(transaction.commit()) == [{"k": "a"}, {"k": "b"}]
    dataset.delete("n = 0")
    assert values_of(dataset.latest()) == [{"k": "a"}]
    dataset.write([{"k": "a", "n": 9}])
    dataset.compact()
    assert values_of(dataset.latest()) == [{"k": "a"}]


def test_a_file_of_copied_row_groups_has_the_values_of_its_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lode.change.row_groups.MIN_FILE_BYTES", 1)
    monkeypatch.setattr("lode.change.row_groups.MIN_COPIED_ROWS", 1)
    dataset = partitioned(pa.string())
    for value in (None, None, ""):
        dataset.write([{"k": value, "n": 1}])
    dataset.write([{"k": "a", "n": 1}])
    dataset.write([{"k": "a", "n": 2}])
    dataset.compact()
    assert values_of(dataset.latest()) == [None, {"k": "a"}]


def test_the_copy_of_a_partition_has_the_values_of_its_files() -> None:
    dataset = partitioned(pa.string())
    snapshot = dataset.write([{"k": each, "n": 1} for each in "abc"])
    path = f"datasets/visits/partitions/k=b/segments/{snapshot.id}/manifest.json"
    copy = decode_manifest(dataset.store.get(path), path)
    assert copy.partition == "k=b"
    assert [file.partition for file in copy.files] == [{"k": "b"}]


@pytest.mark.parametrize("values", [{"k": "b"}, {"other": "a"}, {"k": None}], ids=str)
def test_verify_reports_values_that_contradict_the_path(values: dict[str, Any]) -> None:
    dataset = partitioned(pa.string())
    snapshot = dataset.write([{"k": "a", "n": 1}])
    manifest = snapshot.manifest
    forged = tuple(msgspec.structs.replace(file, partition=values) for file in manifest.files)
    data = encode_manifest(msgspec.structs.replace(manifest, files=forged))
    path = dataset.chain.paths.manifest(snapshot.id)
    for each in [path, *dataset.layout.copies("visits", snapshot.id, ["k=a"])]:
        dataset.store.delete(each)
        dataset.store.put(each, data)
    problems = lode.verify(lode.Dataset("visits", dataset.store)).problems
    assert [(problem.kind, problem.path) for problem in problems] == [("partition-value", path)]


def test_values_in_the_form_of_go_do_not_contradict_their_paths() -> None:
    assert contradicts("k=1.234567e+06", {"k": 1234567.0}) is None
    assert contradicts("k=%3Cnil%3E", {"k": None}) is None
    assert contradicts("k=+Inf", {"k": "inf"}) is None
    assert contradicts("k=1/m=a", {"k": 1, "m": "b"}) == "m"


def test_nested_partition_values_in_a_manifest_are_refused() -> None:
    dataset = partitioned(pa.string())
    manifest = dataset.write([{"k": "a", "n": 1}]).manifest
    document = json.loads(encode_manifest(manifest))
    document["files"][0]["partition"] = {"k": {"deep": 1}}
    with pytest.raises(lode.ManifestInvalidError, match="partition"):
        decode_manifest(json.dumps(document).encode(), "a manifest")


def test_files_with_partition_values_can_be_members_of_a_set() -> None:
    dataset = partitioned(pa.string())
    manifest: Manifest = dataset.write([{"k": "a", "n": 1}]).manifest
    assert len({*manifest.files, *manifest.files}) == 1
