"""Calls of the Storage Write and Read APIs, sent as bytes: no client would make them."""

from __future__ import annotations

import threading
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.cloud.bigquery_storage_v1 import types

from support.bombs import rows, sql
from support.bombs.bomb import Bomb, at_once
from support.bombs.served import End

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.bombs.served import Served

_WRITE: Final = "/google.cloud.bigquery.storage.v1.BigQueryWrite/"
_READ: Final = "/google.cloud.bigquery.storage.v1.BigQueryRead/"
# As REST would answer.
_STATUS: Final = {"INVALID_ARGUMENT": 400, "UNKNOWN": 500, "INTERNAL": 500, "DEADLINE_EXCEEDED": 0}


def _failed(error: grpc.RpcError) -> End:
    found: Any = error
    name = found.code().name
    return End(_STATUS.get(name, 400), f"{name} {found.details()}"[:160])


def append(served: Served, requests: list[bytes], seconds: float) -> End:
    """Send requests on one call of AppendRows; returns its last answer."""
    if any(b"/tables/lists/" in each[:200] for each in requests):
        served.create_table("lists", rows.LIST_FIELDS)
    with grpc.insecure_channel(served.grpc_address) as channel:
        call: Any = channel.stream_stream(f"{_WRITE}AppendRows", None, None)
        end = End(200, "no answer was due")
        try:
            for answer in call(iter(requests), timeout=seconds):
                found = types.AppendRowsResponse.deserialize(answer)
                end = End(400 if found.error.code else 200, found.error.message[:160])
        except grpc.RpcError as error:
            return _failed(error)
        return end


def unary(method: str, messages: Callable[[], Iterator[bytes]], served: Served, seconds: float) -> End:
    """Send many requests of one method, one after the other; returns the last answer."""
    end = End(200, "")
    with grpc.insecure_channel(served.grpc_address) as channel:
        call: Any = channel.unary_unary(method, None, None)
        for number, message in enumerate(messages(), 1):
            try:
                answer = call(message, timeout=seconds)
                end = End(200, f"{number} calls, the last answer has {len(answer):,} bytes")
            except grpc.RpcError as error:
                end = _failed(error)
                if not end.status:
                    return end
    return end


def _unary(method: str, messages: Callable[[], Iterator[bytes]]) -> Any:
    return lambda served, _, seconds: unary(method, messages, served, seconds)


def _created_streams() -> Iterator[bytes]:
    kind = types.WriteStream.Type.PENDING
    request = types.CreateWriteStreamRequest(parent=rows.TABLE, write_stream=types.WriteStream(type_=kind))
    yield from [types.CreateWriteStreamRequest.serialize(request)] * 1_000


def _commits() -> Iterator[bytes]:
    names = [f"{rows.TABLE}/streams/s{number}" for number in range(80_000)]
    request = types.BatchCommitWriteStreamsRequest(parent=rows.TABLE, write_streams=names)
    yield types.BatchCommitWriteStreamsRequest.serialize(request)


def _flushes() -> Iterator[bytes]:
    made = types.FlushRowsRequest.pb()(write_stream=f"{rows.TABLE}/streams/_default")
    made.offset.value = (1 << 63) - 1
    yield made.SerializeToString()


def _small_calls() -> Iterator[bytes]:
    request = types.GetWriteStreamRequest(name=f"{rows.TABLE}/streams/_default")
    yield from [types.GetWriteStreamRequest.serialize(request)] * 3_000


_RESPONSES: Final = 3


def _session(restriction: str = "", fields: list[str] | None = None, streams: int = 1) -> bytes:
    options = types.ReadSession.TableReadOptions(row_restriction=restriction, selected_fields=fields or [])
    wanted = types.ReadSession(table=rows.TABLE, data_format=types.DataFormat.ARROW, read_options=options)
    request = types.CreateReadSessionRequest(
        parent="projects/p", read_session=wanted, max_stream_count=streams
    )
    return bytes(types.CreateReadSessionRequest.serialize(request))


def _read(served: Served, request: bytes, seconds: float) -> End:
    """Create a session, and read its first stream."""
    with grpc.insecure_channel(served.grpc_address) as channel:
        try:
            create: Any = channel.unary_unary(f"{_READ}CreateReadSession", None, None)
            answer = create(request, timeout=seconds)
            session = types.ReadSession.deserialize(answer)
            if not session.streams:
                return End(200, "a session without streams")
            wanted = types.ReadRowsRequest(read_stream=session.streams[0].name)
            read: Any = channel.unary_stream(f"{_READ}ReadRows", None, None)
            answers = read(types.ReadRowsRequest.serialize(wanted), timeout=seconds)
            # Each response has its own limit. A stream has none: it goes on as long as its client reads.
            size = sum(map(len, islice(answers, _RESPONSES)))
            answers.cancel()
        except grpc.RpcError as error:
            return _failed(error)
    return End(200, f"{size:,} bytes of rows")


def _idle_calls(served: Served, _: Any, seconds: float) -> End:
    """Open 500 calls of AppendRows that send nothing for four seconds."""
    ending = threading.Event()

    def nothing() -> Iterator[bytes]:
        ending.wait(seconds)
        yield from ()

    with grpc.insecure_channel(served.grpc_address) as channel:
        call: Any = channel.stream_stream(f"{_WRITE}AppendRows", None, None)
        calls = [call(nothing(), timeout=seconds) for _ in range(500)]
        ending.wait(4)
        ending.set()
        for each in calls:
            each.cancel()
    return End(200, f"{len(calls)} calls")


def _many_requests(served: Served, made: list[bytes], seconds: float) -> End:
    return append(served, made, seconds)


_PROTO: Final = (
    rows.doubling_messages,
    rows.recursive_message,
    rows.many_fields,
    rows.many_messages,
    rows.many_enum_values,
    rows.deep_messages,
    rows.empty_rows,
    rows.short_rows,
    rows.packed_values,
    rows.repeated_texts,
    rows.repeated_records,
    rows.set_again,
    rows.unknown_fields,
    rows.deep_groups,
    rows.many_deep_rows,
    rows.claimed_text,
    rows.bad_rows,
)
_ARROW: Final = (
    rows.claimed_buffer,
    rows.rows_without_columns,
    rows.null_columns,
    rows.one_run,
    rows.dictionary,
    rows.views_of_one_text,
    rows.empty_lists,
    rows.null_lists,
    rows.many_arrow_columns,
    rows.deep_arrow_column,
    rows.overlapping_buffers,
    rows.large_metadata,
)


def _once(make: Callable[[], bytes]) -> list[bytes]:
    return [make()]


def rpc_bombs() -> list[Bomb]:
    """Calls of both gRPC services."""
    found = [
        Bomb(f"append {kind}", make.__name__.replace("_", " "), partial(_once, make), append)
        for kind, makes in (("Protobuf", _PROTO), ("Arrow", _ARROW))
        for make in makes
    ]
    found += [
        Bomb(
            "append Arrow", f"800 MB of zeros in {codec}", partial(_once, partial(rows.zeros, codec)), append
        )
        for codec in ("zstd", "lz4")
    ]
    unanswered = partial(_once, rows.packed_values)
    found += [
        Bomb("append at once", "20 calls of packed values", unanswered, at_once(append, 20)),
        Bomb(
            "append at once",
            "12 views of one text",
            partial(_once, rows.views_of_one_text),
            at_once(append, 12),
        ),
        Bomb(
            "append at once", "12 calls of empty rows", partial(_once, rows.empty_rows), at_once(append, 12)
        ),
        Bomb("append at once", "20 requests of short rows", lambda: [rows.short_rows()] * 20, append),
        Bomb("append at once", "500 idle calls", lambda: None, _idle_calls),
        Bomb(
            "write streams",
            "1,000 of them",
            lambda: None,
            _unary(f"{_WRITE}CreateWriteStream", _created_streams),
        ),
        Bomb(
            "write streams",
            "a commit of 80,000",
            lambda: None,
            _unary(f"{_WRITE}BatchCommitWriteStreams", _commits),
        ),
        Bomb("write streams", "a flush of 2^63 rows", lambda: None, _unary(f"{_WRITE}FlushRows", _flushes)),
        Bomb(
            "write streams",
            "3,000 small calls",
            lambda: None,
            _unary(f"{_WRITE}GetWriteStream", _small_calls),
        ),
    ]
    found += [
        Bomb("read", f"a restriction: {name}", partial(_session, text), _read)
        for name, text in sql.EXPRESSIONS.items()
    ]
    fields = [f"c{number}" for number in range(100_000)]
    found += [
        Bomb("read", "100,000 selected fields", partial(_session, "", fields), _read),
        Bomb("read", "2^31 streams", partial(_session, streams=(1 << 31) - 1), _read),
        Bomb(
            "read",
            "40 sessions of a large text at once",
            partial(_session, sql.EXPRESSIONS["a large text"]),
            at_once(_read, 40),
        ),
        Bomb("read", "a message that is not one", partial(bytes, 4_000_000), _read),
    ]
    return found
