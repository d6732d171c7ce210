"""Rows with ``_CHANGE_TYPE``: what is accepted, what is a bad row, and how sequence numbers compare."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lode.ingest.core.decoders import Decoders
from lode.ingest.status import Code, Refused
from lode.ingest.types.changes import CHANGE_SEQUENCE, CHANGE_TYPE, comparable_sequences, is_changes
from lode.ingest.types.row_errors import Origin, Problems
from lode.store.memory import MemoryStore
from support.ingest.appending import Field, message_class, row_descriptor
from support.ingest.changes import KEYED, create_keyed, decoded_batch

DEFINITION = create_keyed(MemoryStore())
KEYLESS = create_keyed(MemoryStore(), KEYED._replace(table="keyless"), keys=())


def row(kind: str | None = "UPSERT", **more: Any) -> dict[str, Any]:
    return {"id": 1, "name": "a", "_CHANGE_TYPE": kind, **more}


def bad(*rows: dict[str, Any], definition: Any = DEFINITION) -> dict[int, str]:
    with pytest.raises(Refused) as refused:
        decoded_batch(definition, pa.RecordBatch.from_pylist(list(rows)))
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert not refused.value.ends_call
    return {problem.index: problem.message for problem in refused.value.rows}


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("77", "7B"),
        ("FFF/B", "FFF/ABC"),
        ("BA/FFFFFFFF", "ABC"),
        ("ABC", "FFF/ABC"),
        ("0", "0/0/0/1"),
        ("9", "a"),
        ("ffff/1", "00000000000FFFFF"),
    ],
)
def test_sequence_numbers_compare_by_sections_as_numbers(smaller: str, larger: str) -> None:
    low, high = comparable_sequences(pa.array([smaller, larger]), Origin(Problems(), "x")).to_pylist()
    assert low < high


@pytest.mark.parametrize(("one", "other"), [("ff", "00FF"), ("1", "1/0/0/0"), ("0", "0/0")])
def test_the_same_sequence_number_has_many_spellings(one: str, other: str) -> None:
    found = comparable_sequences(pa.array([one, other, None]), Origin(Problems(), "x")).to_pylist()
    assert found[0] == found[1]
    assert found[2] is None


@pytest.mark.parametrize(
    "text", ["", "/", "1/", "/1", "G", "0x1", " 1", "-1", "1/2/3/4/5", "11111111111111111", "1//2", "\uff11"]
)
def test_a_sequence_number_that_is_none_is_a_bad_row(text: str) -> None:
    found = bad(row(_CHANGE_SEQUENCE_NUMBER="1"), row(_CHANGE_SEQUENCE_NUMBER=text))
    assert found.keys() == {1}
    assert CHANGE_SEQUENCE in found[1]


@pytest.mark.parametrize("kind", ["upsert", "UPDATE", "", "INSERT", None])
def test_another_type_among_changes_is_a_bad_row(kind: str | None) -> None:
    found = bad(row(), row(kind))
    assert found.keys() == {1}
    assert "The given value is not a valid CHANGE_TYPE" in found[1]


def test_an_unknown_type_alone_is_a_bad_row() -> None:
    assert bad(row("MERGE")).keys() == {0}


def test_rows_of_the_type_insert_are_plain_rows() -> None:
    batch = decoded_batch(KEYLESS, pa.RecordBatch.from_pylist([row("INSERT"), row(None)]))
    assert not is_changes(batch)
    assert batch.schema == KEYLESS.schema.arrow


def test_a_deletion_needs_its_key_and_an_upsert_every_required_column() -> None:
    rows = [
        row("DELETE", name=None),
        row("DELETE", id=None),
        row("UPSERT", name=None),
        row("UPSERT", id=None),
    ]
    found = bad(*rows)
    assert found.keys() == {1, 2, 3}
    assert "primary key" in found[1]
    assert "REQUIRED" in found[2]


def test_changes_need_a_primary_key() -> None:
    with pytest.raises(Refused, match="primary keys of the table are required"):
        decoded_batch(KEYLESS, pa.RecordBatch.from_pylist([row()]))


def test_a_sequence_number_without_a_type_is_refused() -> None:
    batch = pa.RecordBatch.from_pylist([{"id": 1, "name": "a", "_CHANGE_SEQUENCE_NUMBER": "1"}])
    with pytest.raises(Refused, match="without _CHANGE_TYPE"):
        decoded_batch(DEFINITION, batch)


def test_a_column_whose_name_only_looks_like_one_of_changes_is_refused_as_any_other() -> None:
    batch = pa.RecordBatch.from_pylist([{"id": 1, "_CHANGE_TYPE_2": "UPSERT"}])
    with pytest.raises(Refused, match="extra fields: '_CHANGE_TYPE_2'"):
        decoded_batch(DEFINITION, batch)


def test_protobuf_changes_are_decoded_as_arrow_changes_are() -> None:
    described = row_descriptor()
    for number, name in enumerate((CHANGE_TYPE.lower(), CHANGE_SEQUENCE), 3):
        described.field.add(name=name, number=number, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    make = message_class(described)
    sent = [make(id=1, name="a", _change_type="UPSERT", _CHANGE_SEQUENCE_NUMBER="1/A"), make(id=2)]
    setattr(sent[1], CHANGE_TYPE.lower(), "DELETE")
    rows: Any = Decoders().make("proto_rows", DEFINITION, described.SerializeToString())
    found = rows.decode([each.SerializeToString() for each in sent])
    arrow: list[dict[str, Any]] = [
        {"id": 1, "name": "a", "_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": "1/A"},
        {"id": 2, "name": None, "_CHANGE_TYPE": "DELETE", "_CHANGE_SEQUENCE_NUMBER": None},
    ]
    assert found.equals(decoded_batch(DEFINITION, pa.RecordBatch.from_pylist(arrow)))


def test_the_memory_of_sequence_numbers_counts_before_they_are_decoded() -> None:
    batch = pa.RecordBatch.from_pylist([row(_CHANGE_SEQUENCE_NUMBER="1")] * 1_000)
    rows: Any = Decoders(max_unpacked_bytes=200_000).make(
        "arrow_rows", DEFINITION, batch.schema.serialize().to_pybytes()
    )
    small = rows.open(batch.slice(0, 100).serialize().to_pybytes())
    assert small.unpacked_bytes > small.decode().get_total_buffer_size()
    with pytest.raises(Refused, match="when unpacked"):
        rows.open(batch.serialize().to_pybytes())
