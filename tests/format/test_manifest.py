"""The manifest's exact JSON, its validation, and its times."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lode.errors import ManifestInvalidError
from lode.format.manifest import (
    ColumnStats,
    FileRef,
    FileStats,
    Manifest,
    decode_manifest,
    encode_manifest,
)
from lode.format.volume import decode_volume_manifest
from lode.times import datetime_to_rfc3339, is_rfc3339, ns_to_rfc3339, rfc3339_to_datetime, rfc3339_to_ns

COUNTS = st.integers(0, 2**62)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
TIMES = st.integers(0, 4_000_000_000_000_000_000).map(ns_to_rfc3339)
BOUNDS = st.none() | st.integers(-(2**53), 2**53) | TEXTS
COLUMNS = st.builds(ColumnStats, name=TEXTS, min=BOUNDS, max=BOUNDS, null_count=COUNTS, distinct_count=COUNTS)
FILES = st.builds(
    FileRef,
    TEXTS,
    COUNTS,
    st.none() | TEXTS,
    st.none() | st.builds(FileStats, COUNTS, st.lists(COLUMNS, max_size=2).map(tuple)),
)
MANIFESTS = st.builds(
    Manifest,
    schema_name=st.just("lode-manifest"),
    format_version=st.just("1.0.0"),
    dataset_id=TEXTS,
    snapshot_id=TEXTS,
    created_at=TIMES,
    metadata=st.dictionaries(TEXTS, JSON, max_size=3),
    files=st.lists(FILES, max_size=3).map(tuple),
    parent_snapshot_id=st.none() | TEXTS,
    row_count=COUNTS,
    min_timestamp=st.none() | TIMES,
    max_timestamp=st.none() | TIMES,
    codec=st.none() | TEXTS,
    compressor=TEXTS,
    partitioner=TEXTS,
    checksum_algorithm=st.none() | TEXTS,
    sequence=st.none() | st.integers(1, 2**53 - 1),
    x=st.none() | st.dictionaries(TEXTS, JSON, max_size=2),
)
ORDER = [
    "schema_name", "format_version", "dataset_id", "snapshot_id", "created_at", "metadata", "files",
    "parent_snapshot_id", "row_count", "min_timestamp", "max_timestamp", "codec", "compressor", "partitioner",
    "checksum_algorithm", "sequence", "x",
]  # fmt: skip


def document(**changes: Any) -> dict[str, Any]:
    """A valid manifest as a plain object, with changes."""
    plain: dict[str, Any] = {
        "schema_name": "lode-manifest",
        "format_version": "1.0.0",
        "dataset_id": "events",
        "snapshot_id": "1700000000000000001",
        "created_at": "2026-01-02T03:04:05.000000006Z",
        "metadata": {},
        "files": [{"path": "a", "size_bytes": 1}],
        "row_count": 1,
        "compressor": "noop",
        "partitioner": "noop",
    }
    return {**plain, **changes}


def decode(plain: Any) -> Manifest:
    return decode_manifest(json.dumps(plain).encode(), origin="here/manifest.json")


@given(MANIFESTS)
def test_what_is_encoded_is_decoded_the_same(manifest: Manifest) -> None:
    assert decode_manifest(encode_manifest(manifest), origin="x") == manifest


@given(MANIFESTS)
def test_keys_come_in_their_order_and_none_is_null(manifest: Manifest) -> None:
    plain = json.loads(encode_manifest(manifest))
    assert list(plain) == [key for key in ORDER if key in plain]
    assert all(value is not None for value in plain.values())
    for file in plain["files"]:
        order = ["path", "size_bytes", "checksum", "stats"]
        assert list(file) == [key for key in order if key in file]


@given(MANIFESTS)
def test_encoding_is_json_with_an_indent_of_two(manifest: Manifest) -> None:
    data = encode_manifest(manifest)
    assert data.startswith(b'{\n  "schema_name": "lode-manifest",\n  "format_version"')
    assert json.loads(data) == json.loads(msgspec.json.encode(manifest))


def test_unknown_fields_are_passed_over() -> None:
    assert decode(document(written_by="a later version")).dataset_id == "events"


@pytest.mark.parametrize("field", sorted(document()))
def test_a_missing_field_is_named(field: str) -> None:
    plain = document()
    del plain[field]
    with pytest.raises(ManifestInvalidError, match=rf"here/manifest\.json: .*{field}") as caught:
        decode(plain)
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["path", "size_bytes"])
def test_a_missing_field_of_a_file_is_named(field: str) -> None:
    file = {"path": "a", "size_bytes": 1}
    del file[field]
    with pytest.raises(ManifestInvalidError) as caught:
        decode(document(files=[{"path": "ok", "size_bytes": 1}, file]))
    assert caught.value.field is not None
    assert caught.value.field.startswith("files[")
    assert caught.value.field.endswith(f".{field}")


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("row_count", {"row_count": -1}),
        ("sequence", {"sequence": -1}),
        ("size_bytes", {"files": [{"path": "a", "size_bytes": -1}]}),
        ("row_count", {"files": [{"path": "a", "size_bytes": 1, "stats": {"row_count": -1}}]}),
        (
            "null_count",
            {"files": [{"path": "a", "size_bytes": 1,
                        "stats": {"row_count": 1, "columns": [{"name": "c", "null_count": -1}]}}]},
        ),
        (
            "distinct_count",
            {"files": [{"path": "a", "size_bytes": 1, "stats": {
                "row_count": 1, "columns": [{"name": "c", "null_count": 0, "distinct_count": -1}]}}]},
        ),
    ],
)  # fmt: skip
def test_a_negative_count_or_size_is_named(field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ManifestInvalidError) as caught:
        decode(document(**changes))
    assert caught.value.field is not None
    assert caught.value.field.rpartition(".")[2] == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schema_name", "lode-volume-manifest"),
        ("schema_name", ""),
        ("format_version", "2.0.0"),
        ("format_version", "10.0.0"),
        ("dataset_id", ""),
        ("snapshot_id", 17),
        ("created_at", "yesterday"),
        ("created_at", "2026-01-02"),
        ("created_at", "2026-13-01T00:00:00Z"),
        ("created_at", "2026-02-30T00:00:00Z"),
        ("created_at", "2026-01-01T25:00:00Z"),
        ("min_timestamp", "2026-01-02 00:00:00"),
        ("max_timestamp", "2026-01-32T00:00:00Z"),
        ("metadata", []),
        ("files", {}),
        ("row_count", "1"),
        ("row_count", 1.5),
        ("compressor", ""),
        ("partitioner", None),
        ("parent_snapshot_id", 3),
    ],
)
def test_an_impossible_value_is_named(field: str, value: Any) -> None:
    with pytest.raises(ManifestInvalidError, match=r"here/manifest\.json") as caught:
        decode(document(**{field: value}))
    assert caught.value.field == field


def test_a_later_minor_version_is_read() -> None:
    assert decode(document(format_version="1.7.0")).format_version == "1.7.0"


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"not json", b"{}trailing", b'"\xff"'])
def test_bytes_that_are_no_json_say_where_they_are(data: bytes) -> None:
    with pytest.raises(ManifestInvalidError, match="here"):
        decode_manifest(data, origin="here")


@pytest.mark.parametrize("data", [b"[]", b"1", b"null"])
def test_json_that_is_no_object_is_not_said_to_be_a_field(data: bytes) -> None:
    with pytest.raises(ManifestInvalidError, match="here") as caught:
        decode_manifest(data, origin="here")
    assert caught.value.field is None
    assert "field None" not in str(caught.value)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456789Z"),
        (1_700_000_000_100_000_000, "2023-11-14T22:13:20.1Z"),
        (253_402_300_799_999_999_999, "9999-12-31T23:59:59.999999999Z"),
    ],
)
def test_times_are_written_to_the_nanosecond_without_trailing_zeros(nanoseconds: int, text: str) -> None:
    assert ns_to_rfc3339(nanoseconds) == text
    assert rfc3339_to_ns(text) == nanoseconds


@given(st.integers(0, 253_402_300_799_999_999_999))
def test_times_keep_every_nanosecond(nanoseconds: int) -> None:
    text = ns_to_rfc3339(nanoseconds)
    assert is_rfc3339(text)
    assert rfc3339_to_ns(text) == nanoseconds
    since_1970 = rfc3339_to_datetime(text) - datetime(1970, 1, 1, tzinfo=UTC)
    assert since_1970 // timedelta(microseconds=1) == nanoseconds // 1000


def test_an_offset_is_taken_into_account() -> None:
    assert rfc3339_to_ns("2026-01-01T02:00:00.5+02:00") == rfc3339_to_ns("2026-01-01T00:00:00.5Z")
    assert rfc3339_to_datetime("2025-12-31T22:30:00-01:30") == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_datetime_is_written_in_utc() -> None:
    in_paris = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert datetime_to_rfc3339(in_paris) == "2026-01-01T00:00:00Z"
    assert datetime_to_rfc3339(datetime(2026, 1, 1)) == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("text", ["", "now", "2026-01-01T00:00:00", "2026-01-01T00:00:00.1234567890Z"])
def test_what_is_no_time_is_refused(text: str) -> None:
    assert not is_rfc3339(text)
    with pytest.raises(ValueError, match="RFC 3339"):
        rfc3339_to_ns(text)


def test_files_that_go_left_null_are_empty() -> None:
    manifest = decode(document(files=None))
    assert manifest.files == ()
    assert b"null" not in encode_manifest(manifest)


def test_columns_that_go_left_null_are_empty() -> None:
    file = {"path": "p", "size_bytes": 1, "stats": {"row_count": 3, "columns": None}}
    manifest = decode(document(files=[file]))
    assert manifest.files[0].stats == FileStats(3)


@pytest.mark.parametrize("field", ["metadata", "row_count", "compressor", "snapshot_id", "created_at"])
def test_a_null_where_go_has_none_is_still_refused(field: str) -> None:
    with pytest.raises(ManifestInvalidError) as caught:
        decode(document(**{field: None, "files": None}))
    assert caught.value.field == field


def test_the_blocks_of_a_volume_that_are_null_are_none() -> None:
    plain = {
        "schema_name": "lode-volume-manifest",
        "format_version": "1.0.0",
        "volume_id": "disk",
        "snapshot_id": "1",
        "created_at": "2026-01-01T00:00:00Z",
        "metadata": {},
        "total_length": 8,
        "blocks": None,
    }
    manifest = decode_volume_manifest(json.dumps(plain).encode(), "here")
    assert manifest.blocks == ()
