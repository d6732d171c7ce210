"""Long lists in the order that is asked for, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lode
from lode.describe import Partition, merge_partitions
from lode.errors import InvalidOptionError
from lode.ui.paging import PageRequest, page_of

if TYPE_CHECKING:
    from support.ui.served import Served

ROWS = [("b", 2), ("a", None), ("d", 10), ("c", 2)]
COLUMNS = {"name": lambda row: row[0], "size": lambda row: row[1]}


def names(sort: str, order: str, skip: int = 0, limit: int = 10) -> str:
    return "".join(row[0] for row in page_of(ROWS, PageRequest(sort, order, skip, limit), COLUMNS)[0])


def test_numbers_are_sorted_as_numbers_and_equal_ones_stay_in_order() -> None:
    assert names("size", "asc") == "bcda"
    assert names("size", "desc") == "dbca"


def test_rows_without_a_value_come_last_in_both_directions() -> None:
    assert names("size", "asc")[-1] == names("size", "desc")[-1] == "a"


def test_pages_are_cut_from_the_sorted_whole() -> None:
    assert [names("name", "asc", skip, 2) for skip in (0, 2, 4)] == ["ab", "cd", ""]


@pytest.mark.parametrize(("sort", "order"), [("color", "asc"), ("name", "up"), ("__class__", "asc")])
def test_an_unknown_column_or_order_is_refused(sort: str, order: str) -> None:
    with pytest.raises(InvalidOptionError, match="must be"):
        names(sort, order)


def test_history_is_sorted_by_the_server(lake: Served) -> None:
    found = lake.ask("datasets", "visits", "history", sort="rows", order="desc", limit=500)
    rows = [line["rows"] for line in found["snapshots"]]
    assert rows == sorted(rows, reverse=True)
    assert found["total"] == len(rows) == 64
    rest = lake.ask("datasets", "visits", "history", sort="rows", order="desc", skip=10, limit=5)
    assert [line["id"] for line in rest["snapshots"]] == [line["id"] for line in found["snapshots"][10:15]]
    assert lake.try_to_ask("datasets", "visits", "history", sort="id")[0] == 400


def test_the_partitions_of_a_dataset_are_those_of_all_its_snapshots(lake: Served) -> None:
    found = lake.ask("datasets", "visits", "partitions", limit=500)
    dataset = lode.open_dataset("visits", lake.store)
    files = [file for snapshot in dataset.snapshots() for file in snapshot.files]
    assert sum(row["files"] for row in found["partitions"]) == len(files)
    assert sum(row["bytes"] for row in found["partitions"]) == sum(file.size_bytes for file in files)
    assert sum(row["rows"] for row in found["partitions"]) == lake.ask("datasets", "visits")["rows"]
    listed = [row["partition"] for row in found["partitions"]]
    assert listed == sorted(listed)
    assert (found["keys"], found["more"]) == (["day"], False)


def test_partitions_grow_with_what_is_written(fresh: Served) -> None:
    dataset = lode.Dataset("d", fresh.store, codec="jsonl", layout=lode.HiveLayout("k"))
    dataset.write([{"k": "a"}])
    assert fresh.ask("datasets", "d", "partitions")["total"] == 1
    dataset.write([{"k": "a"}, {"k": "b"}])
    rows = fresh.ask("datasets", "d", "partitions")["partitions"]
    assert [(row["partition"], row["files"]) for row in rows] == [("k=a", 2), ("k=b", 1)]


def test_a_dataset_that_is_not_partitioned_has_no_partitions(lake: Served) -> None:
    assert lake.ask("datasets", "clicks.raw", "partitions")["partitions"] == []


def test_the_number_of_cached_partitions_is_bounded() -> None:
    found: dict[str, Partition] = {}
    for name in ("a", "b", "c", "a"):
        merge_partitions(found, {name: Partition(name, 1, 1, 1, 1, 1)}, limit=2)
    assert {name: part.files for name, part in found.items()} == {"a": 2, "b": 1}
