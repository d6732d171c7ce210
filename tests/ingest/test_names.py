"""Names in requests: each is one that a path can have, or is refused with INVALID_ARGUMENT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lode.ingest.catalog.paths import table_path
from lode.ingest.names import MAX_ID_BYTES, check_project, parse_stream, parse_table
from lode.ingest.status import Code, Refused
from support.ingest.refusals import ends_with

if TYPE_CHECKING:
    from support.ingest.tables import Table

HOSTILE = st.text(st.characters() | st.sampled_from("/.\\%$@\x00\ud800 "), max_size=300)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_whatever_is_between_the_slashes_ends_in_a_path_or_a_refusal(
    project: str, dataset: str, table: str
) -> None:
    refusal: Refused | None = None
    try:
        name = parse_table(f"projects/{project}/datasets/{dataset}/tables/{table}")
    except Refused as refused:
        refusal = refused
    if refusal is not None:
        assert refusal.code is Code.INVALID_ARGUMENT
        assert len(refusal.message) < 500
        return
    segments = table_path(name).split("/")
    assert len(segments) == 5
    assert all(0 < len(segment.encode()) <= 255 and segment not in (".", "..") for segment in segments)


@pytest.mark.parametrize(
    "parent",
    [
        f"projects/{'x' * 5000}/datasets/d/tables/t",
        f"projects/p/datasets/{'x' * 1000}/tables/t",
        f"projects/p/datasets/d/tables/{'é' * 200}",
        "projects/p/datasets/d/tables/t$20240101",
        "projects/p/datasets/d/tables/t@-3600000",
        "projects/p/datasets/../tables/t",
        "projects/p/datasets/d/tables/a\x00b",
        "projects//datasets/d/tables/t",
    ],
)
def test_a_name_that_cannot_be_is_an_invalid_argument_of_every_method(table: Table, parent: str) -> None:
    client: Any = table.client
    stream = f"{parent}/streams/_default"
    calls: list[Any] = [
        lambda: client.create_write_stream(parent=parent, retry=None),
        lambda: client.get_write_stream(name=stream, retry=None),
        lambda: client.finalize_write_stream(name=stream, retry=None),
        lambda: client.flush_rows(write_stream=stream, retry=None),
        lambda: client.batch_commit_write_streams(parent=parent, retry=None),
    ]
    for call in calls:
        with ends_with(grpc.StatusCode.INVALID_ARGUMENT):
            call()


def test_the_longest_name_is_taken_and_one_byte_more_is_not() -> None:
    longest = "x" * (MAX_ID_BYTES - len("p.d."))
    assert parse_table(f"projects/p/datasets/d/tables/{longest}").table == longest
    with pytest.raises(Refused, match="have 241 bytes, and may have 240"):
        parse_stream(f"projects/p/datasets/d/tables/{longest}x/_default")


@pytest.mark.parametrize("project", ["", "a/b", "a b", "x" * 256])
def test_a_project_that_cannot_be_is_refused(project: str) -> None:
    with pytest.raises(Refused):
        check_project(project)
