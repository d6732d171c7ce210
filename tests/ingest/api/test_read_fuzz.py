"""Hostile requests to the read service: the answer is a status for a client's error."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any
from zlib import compress

import grpc
import msgspec
import pytest
from google.cloud.bigquery_storage_v1 import types
from hypothesis import given, settings
from hypothesis import strategies as st

from lode.ingest.names import parse_table
from lode.ingest.types.columns import Column
from support.ingest.reading import PARENT, Lake, Served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODES = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNIMPLEMENTED,
}
TABLE = "projects/p/datasets/d/tables/t"


@pytest.fixture(scope="module")
def lake() -> Lake:
    lake = Lake()
    fields = (Column("x", "INT64"), Column("y", "STRING"))
    table = lake.table(
        "t", [Column("id", "INT64"), Column("s", "STRING"), Column("a", "STRUCT", fields=fields)]
    )
    for start in range(0, 30, 10):
        lake.write(table, [{"id": start + n, "s": "x", "a": {"x": n, "y": None}} for n in range(10)])
    return lake


@pytest.fixture(scope="module")
def served(lake: Lake) -> Iterator[Served]:
    with Served(lake.service()) as server:
        yield server


def answered(call: Callable[[bytes], Any], request: bytes) -> None:
    """Make a call that succeeds or ends with a status for a client's error."""
    try:
        call(request)
    except grpc.RpcError as error:
        status: Any = error
        assert status.code() in CODES, (status.code(), status.details())
        assert status.details()


def every_call(served: Served) -> list[Callable[[bytes], Any]]:
    return [
        lambda request: served.raw("CreateReadSession", request),
        lambda request: served.raw("SplitReadStream", request),
        served.raw_rows,
    ]


@settings(deadline=None, max_examples=100)
@given(data=st.binary(max_size=60), which=st.integers(0, 2))
def test_bytes_that_are_not_a_request(served: Served, data: bytes, which: int) -> None:
    answered(every_call(served)[which], data)


TEXT = st.text(max_size=30)
NAMES = st.sampled_from(
    [TABLE, TABLE + "/", "projects/p/datasets/d/tables/nope", "projects//datasets/d/tables/t"]
)
SIGN = st.sampled_from([*".()=<,`\\';@?", ">=", "!=", "<>", "--", "/*", "ü"])
COLUMN = st.sampled_from(["id", "s", "a", "a.x", "a.y", "`id`"])
KEYWORD = st.sampled_from(
    ["AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "DATE", "TIMESTAMP", "CAST", "AS"]
)
VALUE = st.sampled_from(["TRUE", "1", "-1", "2.5", "1e9", "'x'", "b'y'", '"z"', "'2024-01-01'"])
WORDS = SIGN | COLUMN | KEYWORD | VALUE
RESTRICTIONS = st.one_of(st.just(""), TEXT, st.lists(WORDS, max_size=9).map(" ".join))


@settings(deadline=None, max_examples=200)
@given(
    parent=st.just(PARENT) | TEXT,
    table=NAMES | TEXT,
    kind=st.sampled_from([0, 1, 2, 2, 2, 2, 77]),
    fields=st.lists(st.sampled_from(["id", "a.x", "A", "nope", "a.", ".", ""]) | TEXT, max_size=3),
    restriction=RESTRICTIONS,
    codec=st.sampled_from([0, 1, 2, 99, -1]),
    most=st.integers(-2, 2**31 - 1),
    least=st.integers(-2, 5),
    seconds=st.none() | st.integers(-(2**63), 2**63 - 1),
    nanos=st.integers(-(2**31), 2**31 - 1),
)
def test_requests_for_sessions(
    served: Served,
    parent: str,
    table: str,
    kind: int,
    fields: list[str],
    restriction: str,
    codec: int,
    most: int,
    least: int,
    seconds: int | None,
    nanos: int,
) -> None:
    request: Any = types.CreateReadSessionRequest.pb()(
        parent=parent, max_stream_count=most, preferred_min_stream_count=least
    )
    wanted = request.read_session
    wanted.table, wanted.data_format = table, kind
    wanted.read_options.selected_fields.extend(fields)
    wanted.read_options.row_restriction = restriction
    wanted.read_options.arrow_serialization_options.buffer_compression = codec
    if seconds is not None:
        wanted.table_modifiers.snapshot_time.seconds = seconds
        wanted.table_modifiers.snapshot_time.nanos = nanos
    answered(lambda data: served.raw("CreateReadSession", data), request.SerializeToString())


@settings(deadline=None, max_examples=200)
@given(words=st.lists(WORDS, max_size=8))
def test_restrictions_of_random_words(served: Served, words: list[str]) -> None:
    request: Any = types.CreateReadSessionRequest.pb()(parent=PARENT)
    request.read_session.table, request.read_session.data_format = TABLE, 2
    request.read_session.read_options.row_restriction = " ".join(words)
    answered(lambda data: served.raw("CreateReadSession", data), request.SerializeToString())


def token(value: Any, form: str) -> str:
    """Tokens of sessions with random content."""
    plain = msgspec.json.encode(value)
    octets = compress(plain) if form == "z" else plain
    return form + urlsafe_b64encode(octets).decode().rstrip("=")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=8,
)
SESSIONS = st.tuples(
    st.sampled_from([["p", "d", "t"], ["p", "d", "../t"], ["", "", ""], ["p", "d"]]),
    st.integers(-1, 3),
    st.sampled_from(["", "x", "../../x", "a/b", "\0"]) | TEXT,
    st.sampled_from(
        [[], [["id"]], [["id"], ["id"]], [["a", [["x"]]]], [["a"]], [["nope"]], [["id", [["x"]]]]]
    ),
    RESTRICTIONS,
    st.integers(-1, 4),
)


@settings(deadline=None, max_examples=200)
@given(
    value=JSON | SESSIONS,
    form=st.sampled_from("jz"),
    offset=st.integers(-(2**63), 2**63 - 1),
    fraction=st.floats(),
    ends=st.sampled_from(["0-30", "0-0", "5-3", "0-31", "0-999999999999999999", "-1-2", "a-b", ""]),
)
def test_streams_with_a_made_up_name(
    served: Served, lake: Lake, value: Any, form: str, offset: int, fraction: float, ends: str
) -> None:
    if isinstance(value, tuple) and value[2] == "x":
        there = lake.catalog.table(parse_table(TABLE)).open(lake.store).latest().id
        value = (*value[:2], there, *value[3:])
    name = f"projects/p/locations/us/sessions/{token(value, form)}/streams/{ends}"
    rows: Any = types.ReadRowsRequest.pb()(read_stream=name, offset=offset)
    answered(served.raw_rows, rows.SerializeToString())
    split: Any = types.SplitReadStreamRequest.pb()(name=name, fraction=fraction)
    answered(lambda data: served.raw("SplitReadStream", data), split.SerializeToString())


def stream(session: str) -> str:
    return f"projects/p/locations/us/sessions/{session}/streams/0-1"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "INVALID_ARGUMENT"),
        ("x", "INVALID_ARGUMENT"),
        (stream("j"), "INVALID_ARGUMENT"),
        (stream("jAAAA"), "INVALID_ARGUMENT"),
        (stream("jA"), "INVALID_ARGUMENT"),
        (stream("zAAAA"), "INVALID_ARGUMENT"),
        (stream("sAAAA"), "INVALID_ARGUMENT"),
        (stream(token(["x"] * 9, "j")), "INVALID_ARGUMENT"),
        (stream(token(["x" * 9_000_000], "z")), "INVALID_ARGUMENT"),
        (stream("s" + "0" * 64), "NOT_FOUND"),
        (stream(token([["p", "d", "t"], 1, "1-ab", [["id"]]], "j")), "NOT_FOUND"),
        (stream(token([["p", "d", "no"], 1, "1-ab", [["id"]]], "j")), "NOT_FOUND"),
    ],
    ids=range(12),
)
def test_a_forged_stream_name(served: Served, name: str, code: str) -> None:
    request: Any = types.ReadRowsRequest.pb()(read_stream=name)
    with pytest.raises(grpc.RpcError) as error:
        served.raw_rows(request.SerializeToString())
    status: Any = error.value
    assert status.code() == grpc.StatusCode[code]
