"""Where definitions lie, which names they may have, and what is said when there is none."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.catalog.table import LONGEST_ID, dataset_id_of, escaped
from lode.ingest.names import TableName, parse_table
from lode.ingest.status import Code, Refused, StorageCode, invalid

ROOT: Final = "catalog/"
# Letters, marks, numbers, connectors, dashes and spaces: what a table's name may be made of.
_NAME_CATEGORIES: Final = ("L", "M", "N", "Pc", "Pd", "Zs")


def check_table_name(name: TableName) -> None:
    """Refuse a name that no table may have, or that is too long for a path."""
    if parse_table(str(name)) != name:
        raise invalid(f"Invalid table name {said(name)!r}.")
    for char in name.table:
        if not unicodedata.category(char).startswith(_NAME_CATEGORIES):
            raise invalid(
                f"Invalid table name {name.table!r}: it has {char!r}, and may have letters, numbers, spaces, "
                "dashes and underscores."
            )
    size = id_size(name)
    if size > LONGEST_ID:
        raise invalid(
            f"Invalid table name {said(name)!r}: project, dataset and table together have {size} bytes, and "
            f"may have {LONGEST_ID}."
        )


@lru_cache(8192)
def id_size(name: TableName) -> int:
    """How many bytes the id of the table's dataset has; no table has more than ``LONGEST_ID``."""
    return len(dataset_id_of(name, 1).encode())


def said(name: TableName) -> str:
    return f"{name.project}:{name.dataset}.{name.table}"


def dataset_of(name: TableName) -> DatasetName:
    return DatasetName(name.project, name.dataset)


def dataset_path(name: DatasetName) -> str:
    return f"{ROOT}{escaped(name.project)}/{escaped(name.dataset)}/dataset.json"


def tables_prefix(name: DatasetName) -> str:
    return f"{ROOT}{escaped(name.project)}/{escaped(name.dataset)}/tables/"


def table_path(name: TableName) -> str:
    return f"{tables_prefix(dataset_of(name))}{escaped(name.table)}.json"


def no_table(name: TableName) -> Refused:
    return Refused(
        Code.NOT_FOUND,
        f"Not found: Table {said(name)}",
        storage=StorageCode.TABLE_NOT_FOUND,
        entity=str(name),
        ends_call=True,
    )


def no_dataset(name: DatasetName) -> Refused:
    return Refused(Code.NOT_FOUND, f"Not found: Dataset {name.project}:{name.dataset}", ends_call=True)
