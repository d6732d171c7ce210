"""The paths of definitions on the store, the check of new names, and the errors for missing definitions."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

from lode.errors import InvalidPathError
from lode.format.ids import check_new_id
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.catalog.table import dataset_id_of
from lode.ingest.names import TableName, escaped, parse_table
from lode.ingest.status import Code, Refused, StorageCode, invalid

ROOT: Final = "catalog/"
# Allowed in a table's name: letters, marks, numbers, connectors, dashes and spaces.
_NAME_CATEGORIES: Final = ("L", "M", "N", "Pc", "Pd", "Zs")


def check_table_name(name: TableName) -> None:
    """Refuse a name that is not allowed for a table."""
    if parse_table(str(name)) != name:
        raise invalid(f"Invalid table name {display_name(name)!r}.")
    for char in name.table:
        if not unicodedata.category(char).startswith(_NAME_CATEGORIES):
            raise invalid(
                f"Invalid table name {name.table!r}: it has {char!r}, and may have letters, numbers, spaces, "
                "dashes and underscores."
            )
    try:
        check_new_id(dataset_id_of(name, 1), kind="dataset")
    except InvalidPathError as error:
        raise invalid(f"Invalid table name {name.table!r}: {error}.") from None


def display_name(name: TableName) -> str:
    """The name as BigQuery's REST API shows it."""
    return f"{name.project}:{name.dataset}.{name.table}"


def dataset_of(name: TableName) -> DatasetName:
    return DatasetName(name.project, name.dataset)


@lru_cache(8192)
def dataset_path(name: DatasetName) -> str:
    return f"{ROOT}{escaped(name.project)}/{escaped(name.dataset)}/dataset.json"


def tables_prefix(name: DatasetName) -> str:
    return f"{ROOT}{escaped(name.project)}/{escaped(name.dataset)}/tables/"


@lru_cache(8192)
def table_path(name: TableName) -> str:
    return f"{tables_prefix(dataset_of(name))}{escaped(name.table)}.json"


def no_table(name: TableName) -> Refused:
    return Refused(
        Code.NOT_FOUND,
        f"Not found: Table {display_name(name)}",
        storage=StorageCode.TABLE_NOT_FOUND,
        entity=str(name),
        ends_call=True,
    )


def no_dataset(name: DatasetName) -> Refused:
    return Refused(Code.NOT_FOUND, f"Not found: Dataset {name.project}:{name.dataset}", ends_call=True)
