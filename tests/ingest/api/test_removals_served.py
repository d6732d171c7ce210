"""Tables after rows were overwritten, deleted, compacted and restored, through the Read API and REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.ingest.types.columns import Column
from support.ingest.reading import Lake, Served, read, session
from support.ingest.rest_served import RestServed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.names import TableName

pytestmark = pytest.mark.usefixtures("served")


@pytest.fixture
def rest(lake: Lake) -> Iterator[RestServed]:
    with RestServed(lake.store) as served:
        yield served


@pytest.fixture
def table(lake: Lake) -> TableName:
    found = lake.table("t", [Column("id", "INT64")])
    for first in (0, 3, 6):
        lake.write(found, [{"id": first + number} for number in range(3)])
    return found


def dataset_of(lake: Lake, table: TableName) -> lode.Dataset:
    return lode.Dataset(".".join(table), lake.store)


def numbers(rows: Any) -> list[int]:
    return sorted(row["id"] for row in rows)


def test_both_apis_serve_what_is_visible_after_every_change(
    lake: Lake, served: Served, rest: RestServed, table: TableName
) -> None:
    dataset, client = dataset_of(lake, table), rest.client()
    for change, expected in (
        (lambda: dataset.delete("id IN (1, 5)"), [0, 2, 3, 4, 6, 7, 8]),
        (lambda: dataset.compact(), [0, 2, 3, 4, 6, 7, 8]),
        (lambda: dataset.write([{"id": 9}]), [0, 2, 3, 4, 6, 7, 8, 9]),
        (lambda: dataset.overwrite([{"id": 10}], everything=True), [10]),
        (lambda: dataset.restore(2), [0, 1, 2, 3, 4, 5]),
    ):
        change()
        assert numbers(read(served.client, session(served.client, table))) == expected
        found = client.get_table(".".join(table))
        assert (found.num_rows, found.num_bytes) == (len(expected), dataset.plan().size_bytes)
        assert numbers(dict(row.items()) for row in client.list_rows(found)) == expected
        assert numbers(dict(row.items()) for row in client.list_rows(found, page_size=2)) == expected


def test_pages_of_rest_keep_the_snapshot_of_the_first_one(
    lake: Lake, rest: RestServed, table: TableName
) -> None:
    dataset, client = dataset_of(lake, table), rest.client()
    dataset.delete("id = 0")
    pages = client.list_rows(client.get_table(".".join(table)), page_size=3).pages
    listed = [row["id"] for row in next(pages)]
    dataset.overwrite([{"id": 99}], everything=True)
    dataset.write([{"id": 100}])
    listed += [row["id"] for page in pages for row in page]
    assert sorted(listed) == list(range(1, 9))


def test_a_server_that_never_saw_the_first_page_goes_on_with_it(
    lake: Lake, rest: RestServed, table: TableName
) -> None:
    client = rest.client()
    first = client.list_rows(client.get_table(".".join(table)), page_size=4)
    listed = [row["id"] for row in next(first.pages)]
    dataset_of(lake, table).delete("id > 2")
    with RestServed(lake.store) as other:
        again = other.client()
        rest_of = again.list_rows(again.get_table(".".join(table)), page_token=first.next_page_token)
        listed += [row["id"] for row in rest_of]
    assert listed == list(range(9))
