"""The arguments and options that several commands share, so that they read the same everywhere.

They are default values, not annotations: typer takes either, and only the former are ordinary values.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import typer

from lode.cli.complete import offer_datasets, offer_snapshots

CodecName: TypeAlias = Literal["jsonl", "parquet", "arrow", "blob"]

ROOT: Final[Any] = typer.Option(
    ...,
    "--root",
    "-r",
    metavar="URL",
    envvar="LODE_ROOT",
    help="Where the datasets lie: a directory, s3://bucket/prefix, gs://…, az://….",
)
STORE_OPTION: Final[Any] = typer.Option(
    [],
    "--store-option",
    "-o",
    metavar="KEY=VALUE",
    help="An option of the store, such as endpoint=http://127.0.0.1:9000. Several are fine.",
)
DATASET: Final[Any] = typer.Argument(
    ..., metavar="DATASET", help="The dataset's name.", autocompletion=offer_datasets
)
SNAPSHOT: Final[Any] = typer.Argument(
    "latest",
    metavar="SNAPSHOT",
    help="An id or its beginning, a number from 1, latest, latest~2 for two before it, a date or a time.",
    autocompletion=offer_snapshots,
    show_default="latest",
)
AS_OF: Final[Any] = typer.Option(
    None,
    "--as-of",
    metavar="SNAPSHOT|TIME",
    help="Up to this snapshot, date or time, such as latest~2, 2026-11-15 or 2026-11-15T12:00Z.",
    autocompletion=offer_snapshots,
)
SINCE: Final[Any] = typer.Option(
    None,
    "--since",
    metavar="SNAPSHOT|TIME",
    help="Leave out this snapshot, date or time and all before it.",
    autocompletion=offer_snapshots,
)
JSON: Final[Any] = typer.Option(False, "--json", help="For scripts: JSON.")
JSON_LINES: Final[Any] = typer.Option(False, "--json", help="For scripts: a line of JSON for each.")
FORMAT: Final[Any] = typer.Option(
    None, "--format", "-f", help="How rows are written; a table on a terminal, else jsonl."
)
LIMIT: Final[Any] = typer.Option(
    None, "--limit", "-n", min=0, metavar="ROWS", help="At most so many rows; a table has 100 unless told."
)
VOLUME: Final[Any] = typer.Option(False, "--volume", help="The name is a volume's, not a dataset's.")
METADATA: Final[Any] = typer.Option(
    [],
    "--metadata",
    "-m",
    metavar="KEY=VALUE|JSON",
    help="What the snapshot says of itself: key=text, or a JSON object. Several are merged.",
)
SCHEMA: Final[Any] = typer.Option(
    None, "--schema", metavar="JSON", help='The columns: {"id": "int64!", "name": "string"}.'
)
PARTITION_BY: Final[Any] = typer.Option(
    None, "--partition-by", "-p", metavar="A,B", help="The columns that partition a new dataset."
)
COMPRESSOR: Final[Any] = typer.Option(None, "--compressor", help="noop, gzip or zstd, over whole files.")
CHECKSUM: Final[Any] = typer.Option(None, "--checksum", help="md5, sha256 or xxh3-128.")
TIMESTAMP_COLUMN: Final[Any] = typer.Option(
    None, "--timestamp-column", metavar="COLUMN", help="The column whose range each snapshot records."
)
