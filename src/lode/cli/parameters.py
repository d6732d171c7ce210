"""The arguments and options that several commands share, so that they read the same everywhere.

They are default values, not annotations: typer takes either, and only the former are ordinary values.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import typer

from lode.cli.complete import offer_datasets, offer_snapshots
from lode.errors import InvalidOptionError

CodecName: TypeAlias = Literal["jsonl", "parquet", "arrow", "blob"]

ROOT_VARIABLE: Final = "LODE_ROOT"
_NO_ROOT: Final = "no root is given: add --root URL, or set the environment variable LODE_ROOT"


# These options are accepted before the command and after it. The application declares them once with their
# names in the context's parameters; those of a command fall back on them.


def _nearest_root(ctx: typer.Context, value: str | None) -> str:
    found = _nearest_root_or_none(ctx, value)
    if found is None:
        raise InvalidOptionError(_NO_ROOT)
    return found


def _nearest_root_or_none(ctx: typer.Context, value: str | None) -> str | None:
    return value or ctx.find_root().params.get("root")


def _all_store_options(ctx: typer.Context, value: list[str]) -> list[str]:
    """Those before the command and those after it; of one key given twice, the last counts."""
    return [*(ctx.find_root().params.get("store_option") or ()), *value]


def _either_json(ctx: typer.Context, value: bool) -> bool:
    return value or bool(ctx.find_root().params.get("json"))


def _root(text: str, callback: Any = None, envvar: str | None = None) -> Any:
    return typer.Option(None, "--root", "-r", metavar="URL", envvar=envvar, help=text, callback=callback)


def _store_option(callback: Any = None) -> Any:
    return typer.Option(
        [],
        "--store-option",
        "-o",
        metavar="KEY=VALUE",
        help="An option of the store, such as region=eu-central-1. Several are fine.",
        callback=callback,
    )


def _json(text: str, callback: Any = None) -> Any:
    return typer.Option(False, "--json", help=text, callback=callback)


_WHERE: Final = "Where the datasets are: a directory, s3://bucket/prefix, gs://…, az://…"

# Of the application itself, before the command.
COMMON_ROOT: Final[Any] = _root(f"{_WHERE}.", envvar=ROOT_VARIABLE)
COMMON_STORE_OPTION: Final[Any] = _store_option()
COMMON_JSON: Final[Any] = _json("For scripts: JSON.")

# Of a command.
ROOT: Final[Any] = _root(f"{_WHERE} (or LODE_ROOT).", _nearest_root)
PROBED_ROOT: Final[Any] = _root(
    "The store to probe with a few small objects, which are removed again; without one, only this machine "
    "is looked at.",
    _nearest_root_or_none,
)
ROOT_ARGUMENT: Final[Any] = typer.Argument(
    None,
    metavar="URL",
    help="The store to measure, in a fresh place below it (or --root, or LODE_ROOT).",
    callback=_nearest_root,
)
STORE_OPTION: Final[Any] = _store_option(_all_store_options)
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
JSON: Final[Any] = _json("For scripts: JSON.", _either_json)
JSON_LINES: Final[Any] = _json("For scripts: a line of JSON for each.", _either_json)
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
