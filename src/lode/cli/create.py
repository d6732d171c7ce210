"""``lode create``: a dataset with its columns, before its first row."""

from __future__ import annotations

from typing import Any, Final

import typer

from lode.cli.parameters import (
    CHECKSUM,
    COMPRESSOR,
    DATASET,
    JSON,
    PARTITION_BY,
    ROOT,
    SCHEMA,
    STORE_OPTION,
    TIMESTAMP_COLUMN,
    codec_option,
    key_values,
    open_root,
)
from lode.cli.terminal import print_json, print_lines
from lode.errors import InvalidOptionError

_CODEC: Final[Any] = codec_option("The format of records (parquet by default), or blob for bytes.")
_SORT_BY: Final[Any] = typer.Option(
    None, "--sort-by", metavar="A,B", help="The columns by which rows should be sorted."
)
_PRIMARY_KEY: Final[Any] = typer.Option(
    None, "--primary-key", metavar="A,B", help="The columns that identify a row."
)
_DESCRIPTION: Final[Any] = typer.Option(None, "--description", metavar="TEXT", help="A description.")
_PROPERTY: Final[Any] = typer.Option(
    [], "--property", metavar="KEY=VALUE", help="A property of the dataset. May be repeated."
)


def create(
    dataset: str = DATASET,
    root: str = ROOT,
    schema: str | None = SCHEMA,
    partition_by: str | None = PARTITION_BY,
    codec: str | None = _CODEC,
    compressor: str | None = COMPRESSOR,
    checksum: str | None = CHECKSUM,
    timestamp_column: str | None = TIMESTAMP_COLUMN,
    sort_by: str | None = _SORT_BY,
    primary_key: str | None = _PRIMARY_KEY,
    description: str | None = _DESCRIPTION,
    properties: list[str] = _PROPERTY,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Create a dataset.

    Without --schema the first write decides its columns.
    """
    from lode.cli.columns import columns_table, definition_as_json
    from lode.cli.write_target import BLOB, DEFAULT_CODEC, declared_schema, names_in
    from lode.dataset import Dataset

    if codec == BLOB and schema is not None:
        raise InvalidOptionError("--codec blob stores bytes, which have no columns: leave --schema out")
    made = Dataset.create(
        dataset,
        open_root(root, store_option, create=True),
        schema=declared_schema(schema),
        partition_by=names_in("--partition-by", partition_by),
        codec=None if codec == BLOB else codec or DEFAULT_CODEC,
        compressor=compressor,
        checksum=checksum,
        timestamp_column=timestamp_column,
        sort_by=names_in("--sort-by", sort_by),
        primary_key=names_in("--primary-key", primary_key),
        description=description,
        properties=dict(key_values(properties, "--property")),
    )
    snapshot, definition = made.latest(), made.definition
    if json:
        print_json({"dataset": dataset, "id": snapshot.id, "definition": definition_as_json(definition)})
        return
    print_lines(f"{dataset}: created with snapshot {snapshot.id}")
    if definition.columns:
        print_lines(columns_table(definition))
