"""The core model: metadata is explicit, is JSON, and is present on every snapshot."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import lode
from support.stores import contents, manifests

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store import CountingStore

WAYS: dict[str, Callable[[CountingStore, Any], object]] = {
    "write": lambda store, metadata: lode.Dataset("events", store).write(b"x", metadata),
    "stream_write": lambda store, metadata: lode.Dataset("events", store).stream_write(metadata).commit(),
    "stream_write_records": lambda store, metadata: lode.Dataset(
        "events", store, codec="jsonl"
    ).stream_write_records([{"id": 1}], metadata),
    "transaction": lambda store, metadata: (
        lode.Dataset("events", store, codec="jsonl").transaction(metadata).commit()
    ),
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


def itself() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    return loop


NOT_JSON: dict[str, Any] = {
    "a datetime": {"at": datetime(2026, 1, 1, tzinfo=UTC)},
    "bytes": {"raw": b"x"},
    "a set": {"tags": {"a"}},
    "an object": {"thing": object()},
    "nan": {"x": float("nan")},
    "infinity": {"deep": [{"x": float("inf")}]},
    "a key that is a number": {1: "one"},
    "an integer of 65 bits": {"n": 2**64},
    "a lone surrogate": {"text": "\ud800"},
    "no object": [1, 2],
    "text": "k=v",
    "an object that holds itself": itself(),
}


@EVERY_WAY
def test_none_metadata_becomes_an_empty_object(store: CountingStore, way: str) -> None:
    WAYS[way](store, None)
    (path,) = manifests(store)
    assert json.loads(contents(store)[path])["metadata"] == {}


@EVERY_WAY
@pytest.mark.parametrize("metadata", [{}, {"a": 1, "b": [True, None, "ü", {"c": 1.5}]}])
def test_metadata_is_persisted_as_an_explicit_object(
    store: CountingStore, way: str, metadata: dict[str, Any]
) -> None:
    WAYS[way](store, metadata)
    (path,) = manifests(store)
    assert json.loads(contents(store)[path])["metadata"] == metadata


@EVERY_WAY
@pytest.mark.parametrize("what", NOT_JSON)
def test_metadata_that_is_not_json_is_refused_before_any_call(
    memory: CountingStore, way: str, what: str
) -> None:
    with pytest.raises(lode.InvalidMetadataError, match="metadata"):
        WAYS[way](memory, NOT_JSON[what])
    assert memory.total == 0


def test_the_refusal_names_the_place_in_the_metadata(memory: CountingStore) -> None:
    with pytest.raises(lode.InvalidMetadataError, match=r"metadata\['a'\]\[1\]\['b'\] is a bytes"):
        lode.Dataset("events", memory).write(b"x", {"a": [0, {"b": b""}]})


def test_changing_the_metadata_after_the_call_changes_nothing(memory: CountingStore) -> None:
    dataset = lode.Dataset("events", memory)
    metadata = {"tags": ["a"]}
    transaction = dataset.transaction(metadata)
    metadata["tags"].append("b")
    transaction.stage(b"x")
    assert transaction.commit().metadata == {"tags": ["a"]}


def test_a_manifest_without_metadata_is_invalid(memory: CountingStore) -> None:
    snapshot = lode.Dataset("events", memory).write(b"x")
    path = f"datasets/events/snapshots/{snapshot.id}/manifest.json"
    whole = memory.get(path)
    for damage in (b'"metadata": null,', b""):
        memory.delete(path)
        memory.put(path, whole.replace(b'"metadata": {},', damage))
        with pytest.raises(lode.ManifestInvalidError, match="'metadata'") as caught:
            lode.Dataset("events", memory).latest()
        assert caught.value.field == "metadata"
