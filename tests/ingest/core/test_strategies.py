"""The rules of each stream type, without gRPC or a store."""

from __future__ import annotations

import pytest

from lode.ingest.core.strategies import State, StreamPosition, StreamType, select_strategy
from lode.ingest.status import Code, Refused, StorageCode

WITH_OFFSETS = [StreamType.COMMITTED, StreamType.PENDING, StreamType.BUFFERED]


def position(kind: StreamType, *, rows: int = 0, state: State = State.OPEN) -> StreamPosition:
    return StreamPosition("a-stream", kind, state, accepted=rows, durable=rows)


def accept(at: StreamPosition, offset: int | None, rows: int) -> int | None:
    strategy = select_strategy(at.type)
    strategy.check(at, offset)
    return strategy.accept(at, rows)


@pytest.mark.parametrize("kind", WITH_OFFSETS)
def test_an_omitted_offset_takes_the_next(kind: StreamType) -> None:
    at = position(kind)
    assert accept(at, None, 3) == 0
    assert accept(at, None, 2) == 3
    assert at.accepted == 5


@pytest.mark.parametrize("kind", WITH_OFFSETS)
def test_the_next_offset_is_accepted_and_advances(kind: StreamType) -> None:
    at = position(kind, rows=7)
    assert accept(at, 7, 3) == 7
    assert at.accepted == 10


@pytest.mark.parametrize("kind", WITH_OFFSETS)
def test_an_offset_below_the_next_already_exists(kind: StreamType) -> None:
    at = position(kind, rows=1)
    with pytest.raises(Refused) as refused:
        accept(at, 0, 3)
    assert refused.value.code is Code.ALREADY_EXISTS
    assert refused.value.storage is StorageCode.OFFSET_ALREADY_EXISTS
    assert refused.value.message == "The offset is within stream, expected offset 1, received 0"
    assert at.accepted == 1


@pytest.mark.parametrize("kind", WITH_OFFSETS)
def test_an_offset_above_the_next_is_out_of_range(kind: StreamType) -> None:
    at = position(kind, rows=1)
    with pytest.raises(Refused) as refused:
        accept(at, 5, 3)
    assert refused.value.code is Code.OUT_OF_RANGE
    assert refused.value.storage is StorageCode.OFFSET_OUT_OF_RANGE
    assert refused.value.message == "The offset is beyond stream, expected offset 1, received 5"


@pytest.mark.parametrize("kind", WITH_OFFSETS)
def test_a_negative_offset_is_an_invalid_argument(kind: StreamType) -> None:
    with pytest.raises(Refused) as refused:
        select_strategy(kind).check(position(kind), -1)
    assert refused.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("kind", WITH_OFFSETS)
def test_a_finalized_stream_accepts_no_rows_at_any_offset(kind: StreamType) -> None:
    for offset in (None, 0, 5):
        with pytest.raises(Refused) as refused:
            select_strategy(kind).check(position(kind, state=State.FINALIZED), offset)
        assert refused.value.code is Code.INVALID_ARGUMENT
        assert refused.value.storage is StorageCode.STREAM_FINALIZED
        assert not refused.value.ends_call


@pytest.mark.parametrize("offset", [0, 5, -1])
def test_the_default_stream_takes_no_offset_at_all(offset: int) -> None:
    with pytest.raises(Refused) as refused:
        accept(position(StreamType.DEFAULT), offset, 1)
    assert refused.value.code is Code.INVALID_ARGUMENT


def test_the_default_stream_counts_nothing() -> None:
    at = position(StreamType.DEFAULT)
    assert accept(at, None, 3) is None
    assert at.accepted == 0


def test_the_default_stream_cannot_be_finalized() -> None:
    with pytest.raises(Refused) as refused:
        select_strategy(StreamType.DEFAULT).check_finalize(position(StreamType.DEFAULT))
    assert refused.value.code is Code.NOT_FOUND
    assert refused.value.storage is StorageCode.STREAM_NOT_FOUND


@pytest.mark.parametrize("kind", [StreamType.DEFAULT, StreamType.COMMITTED, StreamType.PENDING])
def test_only_a_buffered_stream_can_be_flushed(kind: StreamType) -> None:
    with pytest.raises(Refused) as refused:
        select_strategy(kind).flush_end(position(kind, rows=5), 0)
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert refused.value.storage is StorageCode.INVALID_STREAM_TYPE


def test_a_flush_includes_the_row_at_its_offset() -> None:
    assert select_strategy(StreamType.BUFFERED).flush_end(position(StreamType.BUFFERED, rows=5), 4) == 5


@pytest.mark.parametrize(("rows", "offset"), [(5, 5), (0, 0), (5, 99)])
def test_a_flush_beyond_the_rows_is_out_of_range(rows: int, offset: int) -> None:
    with pytest.raises(Refused) as refused:
        select_strategy(StreamType.BUFFERED).flush_end(position(StreamType.BUFFERED, rows=rows), offset)
    assert refused.value.code is Code.OUT_OF_RANGE


@pytest.mark.parametrize("offset", [0, 4, 99])
def test_a_finalized_stream_cannot_be_flushed_at_any_offset(offset: int) -> None:
    at = position(StreamType.BUFFERED, rows=5, state=State.FINALIZED)
    with pytest.raises(Refused) as refused:
        select_strategy(StreamType.BUFFERED).flush_end(at, offset)
    assert refused.value.code is Code.INVALID_ARGUMENT
    assert refused.value.storage is StorageCode.STREAM_FINALIZED


def test_flushing_visible_rows_hides_none() -> None:
    at = position(StreamType.BUFFERED, rows=5)
    at.visible = 4
    assert select_strategy(StreamType.BUFFERED).flush_end(at, 1) == 4


@pytest.mark.parametrize("kind", [StreamType.DEFAULT, StreamType.COMMITTED, StreamType.BUFFERED])
def test_only_a_pending_stream_can_be_committed(kind: StreamType) -> None:
    with pytest.raises(Refused) as refused:
        select_strategy(kind).check_commit(position(kind, state=State.FINALIZED))
    assert refused.value.storage is StorageCode.INVALID_STREAM_TYPE


def test_an_open_pending_stream_cannot_be_committed() -> None:
    with pytest.raises(Refused) as refused:
        select_strategy(StreamType.PENDING).check_commit(position(StreamType.PENDING))
    assert refused.value.storage is StorageCode.INVALID_STREAM_STATE


def test_a_pending_stream_is_committed_once() -> None:
    committed = position(StreamType.PENDING, state=State.COMMITTED)
    with pytest.raises(Refused) as refused:
        select_strategy(StreamType.PENDING).check_commit(committed)
    assert refused.value.storage is StorageCode.STREAM_ALREADY_COMMITTED


def test_a_finalized_pending_stream_can_be_committed() -> None:
    select_strategy(StreamType.PENDING).check_commit(position(StreamType.PENDING, state=State.FINALIZED))
