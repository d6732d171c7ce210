"""Read streams: how a session is cut into streams, resuming at an offset, splitting."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.api_core import exceptions
from hypothesis import given, settings
from hypothesis import strategies as st

import lode
from lode.ingest.api.grpc_read.parquet import matching_groups
from lode.ingest.api.grpc_read.restriction import parse_restriction
from lode.ingest.types.columns import Column
from lode.store import CountingStore, MemoryStore
from support.ingest.reading import Lake, Served, read, rows_of, session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.cloud.bigquery_storage_v1 import types

    from lode.ingest.names import TableName

COLUMNS = (Column("id", "INT64"), Column("even", "BOOL"))
NUMBER = count()


@pytest.fixture(scope="module")
def lake() -> Lake:
    return Lake(CountingStore(MemoryStore()))


@pytest.fixture(scope="module")
def served(lake: Lake) -> Iterator[Served]:
    with Served(lake.service()) as server:
        yield server


def table_of(lake: Lake, *sizes: int, group: int | None = None) -> TableName:
    """A table with files of these numbers of rows; ``group`` is the number of rows of a row group."""
    table = lake.table(f"t{next(NUMBER)}", COLUMNS)
    definition = lake.catalog.table(table)
    dataset = definition.open(lake.store)
    if group is not None:
        codec = lode.Parquet(definition.arrow, row_group_rows=group)
        dataset = lode.Dataset(dataset.id, lake.store, codec=codec, checksum="xxh3-128")
    at = 0
    for size in sizes:
        rows = [{"id": number, "even": number % 2 == 0} for number in range(at, at + size)]
        dataset.write(pa.RecordBatch.from_pylist(rows, schema=definition.arrow))
        at += size
    return table


def ids(served: Served, stream: str, offset: int = 0) -> list[int]:
    return [row["id"] for row in rows_of(served.client, stream, offset)]


def counts(served: Served, made: types.ReadSession) -> list[int]:
    return [len(ids(served, stream.name)) for stream in made.streams]


# -- cutting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "most", "expected"),
    [
        ([10] * 8, 4, [20, 20, 20, 20]),
        ([10] * 8, 1, [80]),
        ([10, 10], 5, [10, 10]),
        ([70, 10, 10, 10], 2, [70, 30]),
        ([1, 1, 98], 2, [2, 98]),
        ([5], 3, [5]),
    ],
)
def test_streams_have_about_the_same_number_of_rows(
    lake: Lake, served: Served, sizes: list[int], most: int, expected: list[int]
) -> None:
    made = session(served.client, table_of(lake, *sizes), max_stream_count=most)
    assert counts(served, made) == expected
    assert [row["id"] for row in read(served.client, made)] == list(range(sum(sizes)))


def test_a_large_file_is_cut_at_its_row_groups(lake: Lake, served: Served) -> None:
    made = session(served.client, table_of(lake, 100, group=10), max_stream_count=4)
    assert sorted(counts(served, made)) == [20, 20, 30, 30]
    assert [row["id"] for row in read(served.client, made)] == list(range(100))


def test_row_groups_that_statistics_exclude_are_not_read(lake: Lake) -> None:
    table = lake.catalog.table(table_of(lake, 100, group=10))
    [file] = table.open(lake.store).plan().files
    restriction = parse_restriction("id BETWEEN 35 AND 41", table.schema)
    assert restriction is not None
    assert restriction.fits_row_groups
    found = matching_groups(lake.store, file, None, restriction.where, table.schema.arrow)
    assert found == {3, 4}
    assert found == matching_groups(
        lake.store, file, lake.store.get(file.path), restriction.where, table.schema.arrow
    )


def test_small_tables_get_one_stream_unless_more_are_preferred(lake: Lake, served: Served) -> None:
    table = table_of(lake, 10, 10, 10)
    assert counts(served, session(served.client, table)) == [30]
    assert counts(served, session(served.client, table, preferred_min_stream_count=3)) == [10, 10, 10]


@pytest.mark.parametrize(
    "numbers",
    [
        {"max_stream_count": -1},
        {"preferred_min_stream_count": -1},
        {"max_stream_count": 1, "preferred_min_stream_count": 2},
    ],
)
def test_impossible_numbers_of_streams_are_refused(
    lake: Lake, served: Served, numbers: dict[str, int]
) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="stream_count"):
        session(served.client, table_of(lake, 1), **numbers)


def test_streams_are_balanced_over_the_files_that_a_restriction_leaves(lake: Lake, served: Served) -> None:
    table = table_of(lake, *[10] * 10)
    made = session(served.client, table, max_stream_count=2, row_restriction="id >= 60")
    assert counts(served, made) == [20, 20]
    assert made.estimated_row_count == 40


def test_more_concurrent_streams_than_threads_are_all_read(lake: Lake, served: Served) -> None:
    made = session(served.client, table_of(lake, *[5] * 60), max_stream_count=60)
    assert len(made.streams) == 60
    readers = [iter(served.client.read_rows(stream.name)) for stream in made.streams]
    assert [next(reader).row_count for reader in readers] == [5] * 60
    assert [list(reader) for reader in readers] == [[]] * 60


# -- offsets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("restriction", ["", "even", "NOT even OR id > 20"])
def test_a_stream_resumes_at_any_offset(lake: Lake, served: Served, restriction: str) -> None:
    table = table_of(lake, 7, 12, 5, group=4)
    [stream] = session(served.client, table, max_stream_count=1, row_restriction=restriction).streams
    whole = ids(served, stream.name)
    for offset in range(len(whole) + 1):
        assert ids(served, stream.name, offset) == whole[offset:]
    with pytest.raises(exceptions.OutOfRange):
        ids(served, stream.name, len(whole) + 1)


def test_files_before_an_offset_are_not_opened(lake: Lake, served: Served) -> None:
    store = lake.store
    assert isinstance(store, CountingStore)
    [stream] = session(served.client, table_of(lake, *[10] * 5), max_stream_count=1).streams
    store.reset()
    assert ids(served, stream.name, 41) == list(range(41, 50))
    assert len({path for _, path in store.events if "/data/" in path}) == 1


def test_a_negative_offset_is_refused(lake: Lake, served: Served) -> None:
    [stream] = session(served.client, table_of(lake, 3)).streams
    with pytest.raises(exceptions.InvalidArgument, match="offset"):
        ids(served, stream.name, -1)


# -- splitting -------------------------------------------------------------------------------------


def split(served: Served, stream: str, fraction: float) -> tuple[str, str]:
    answer = served.client.split_read_stream({"name": stream, "fraction": fraction})
    return answer.primary_stream.name, answer.remainder_stream.name


@pytest.mark.parametrize(("fraction", "expected"), [(0.01, 10), (0.5, 20), (0.76, 30), (0.99, 30)])
def test_a_split_is_at_the_file_nearest_to_the_fraction(
    lake: Lake, served: Served, fraction: float, expected: int
) -> None:
    [stream] = session(served.client, table_of(lake, 10, 10, 10, 10), max_stream_count=1).streams
    primary, remainder = split(served, stream.name, fraction)
    assert ids(served, primary) == list(range(expected))
    assert ids(served, remainder) == list(range(expected, 40))
    assert ids(served, stream.name) == list(range(40))


def test_one_file_is_split_at_its_row_groups(lake: Lake, served: Served) -> None:
    [stream] = session(served.client, table_of(lake, 30, group=10), max_stream_count=1).streams
    primary, remainder = split(served, stream.name, 0.3)
    assert (ids(served, primary), ids(served, remainder)) == (list(range(10)), list(range(10, 30)))


@pytest.mark.parametrize(("rows", "fraction", "first"), [(30, 0.5, 15), (2, 0.01, 1), (3, 0.99, 2)])
def test_a_stream_of_one_row_group_is_split_between_rows(
    lake: Lake, served: Served, rows: int, fraction: float, first: int
) -> None:
    [stream] = session(served.client, table_of(lake, rows)).streams
    primary, remainder = split(served, stream.name, fraction)
    assert ids(served, primary) == list(range(first))
    assert ids(served, remainder) == list(range(first, rows))


def test_a_stream_of_one_row_cannot_be_split(lake: Lake, served: Served) -> None:
    [stream] = session(served.client, table_of(lake, 1)).streams
    assert split(served, stream.name, 0.5) == ("", "")


def test_a_stream_without_a_row_for_its_restriction_may_be_split(lake: Lake, served: Served) -> None:
    [stream] = session(served.client, table_of(lake, 9), row_restriction="even AND id IN (1, 3)").streams
    assert [ids(served, name) for name in split(served, stream.name, 0.5)] == [[], []]


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0, 2.0, float("nan"), float("inf")])
def test_a_fraction_outside_of_0_to_1_is_refused(lake: Lake, served: Served, fraction: float) -> None:
    [stream] = session(served.client, table_of(lake, 3)).streams
    with pytest.raises(exceptions.InvalidArgument, match="fraction"):
        split(served, stream.name, fraction)


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    group=st.sampled_from([None, 2, 3]),
    restriction=st.sampled_from(["", "even", "id > 7", "id BETWEEN 3 AND 11 AND NOT even"]),
    most=st.integers(1, 5),
    data=st.data(),
)
def test_cutting_and_splitting_does_not_change_the_rows_of_a_session(
    lake: Lake, served: Served, sizes: list[int], group: int | None, restriction: str, most: int, data: Any
) -> None:
    table = table_of(lake, *sizes, group=group)
    [whole] = session(served.client, table, max_stream_count=1).streams
    made = session(served.client, table, max_stream_count=most, row_restriction=restriction)
    streams = [stream.name for stream in made.streams]
    assert len(streams) <= most
    for _ in range(data.draw(st.integers(0, 3)) if streams else 0):
        index = data.draw(st.integers(0, len(streams) - 1))
        primary, remainder = split(served, streams[index], data.draw(st.floats(0.1, 0.9)))
        if primary:
            offset = len(ids(served, primary))
            assert ids(served, streams[index], offset) == ids(served, remainder)
            streams[index : index + 1] = [primary, remainder]
    tests: dict[str, Callable[[int], object]] = {
        "": lambda _: True,
        "even": lambda n: n % 2 == 0,
        "id > 7": lambda n: n > 7,
        "id BETWEEN 3 AND 11 AND NOT even": lambda n: 3 <= n <= 11 and n % 2,
    }
    expected = [number for number in ids(served, whole.name) if tests[restriction](number)]
    assert [number for stream in streams for number in ids(served, stream)] == expected
