"""The arguments and options that several commands share: their help, their completion and their values.

They are default values, not annotations: typer takes both, and only default values are ordinary objects.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec
import typer

from lode.errors import InvalidMetadataError, InvalidOptionError, NotFoundError
from lode.units import age, count, moment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.store.protocol import Store

InputFormat: TypeAlias = Literal["jsonl", "csv", "parquet", "arrow"]

ROOT_VARIABLE: Final = "LODE_ROOT"
_MAX_COMPLETED_SNAPSHOTS: Final = 20


# -- values --------------------------------------------------------------------------------------


def open_root(root: str, options: Iterable[str] = (), *, create: bool = False) -> Store:
    """Open the store of ``--root`` and ``--store-option``. A directory must exist unless ``create``."""
    from lode.store.open import open_store
    from lode.store.protocol import SupportsLocalPath

    store = open_store(root, **store_options(options))
    if isinstance(store, SupportsLocalPath) and not create and not store.root.is_dir():
        raise NotFoundError(f"there is no directory {store.root}: check --root")
    return store


def store_options(given: Iterable[str]) -> dict[str, Any]:
    """Parse options of a store. ``true`` and ``false`` become booleans, ``a.b=c`` sets b inside a."""
    options: dict[str, Any] = {}
    for text in given:
        name, value = _key_value(text, "--store-option")
        inner, _, leaf = name.rpartition(".")
        place = options.setdefault(inner, {}) if inner else options
        if not isinstance(place, dict):
            raise InvalidOptionError(f"--store-option {inner} has a value: leave out {inner} or {name}")
        place[leaf] = {"true": True, "false": False}.get(value.lower(), value)
    return options


def key_values(given: Iterable[str], option: str) -> dict[str, str]:
    """Parse ``KEY=VALUE`` options."""
    return dict(_key_value(text, option) for text in given)


def parse_metadata(given: Iterable[str]) -> dict[str, Any]:
    """Merge the values of ``--metadata``: ``KEY=VALUE`` or JSON objects."""
    merged: dict[str, Any] = {}
    for text in given:
        if not text.startswith("{"):
            name, value = _key_value(text, "--metadata")
            merged[name] = value
            continue
        try:
            merged |= msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise InvalidMetadataError(f"--metadata {text} is not a JSON object: {error}") from None
    return merged


def age_or_time(text: str) -> timedelta:
    """The age in ``36h``, or the age of what was made at the time ``2026-11-15`` or ``2026-11-15T12:00Z``."""
    if not re.match(r"\d{4}-", text):
        return age(text)
    from lode.read.which import Moment, parsed

    found = parsed(text)
    if not isinstance(found, Moment):
        raise InvalidOptionError(
            f"{text!r} is no time: write 2026-11-15, 2026-11-15T12:00Z, or an age such as 36h"
        )
    nanoseconds = time.time_ns() - found.nanoseconds
    if nanoseconds < 0:
        raise InvalidOptionError(f"{text} is in the future: give a time that has passed")
    return timedelta(microseconds=nanoseconds // 1000)


def _key_value(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidOptionError(f"{option} is key=value, got {text!r}")
    return name, value


def _known_codec(value: str | None) -> str | None:
    """Accept ``blob`` and the name of every installed codec."""
    if value not in (None, "blob"):
        from lode.codec.components import CODECS

        try:
            CODECS.get(value)
        except InvalidOptionError as error:
            raise typer.BadParameter(str(error)) from None
    return value


def codec_option(text: str) -> Any:
    """The option ``--codec``. Entry points may add names to those in the help."""
    return typer.Option(
        None, "--codec", metavar="[parquet|jsonl|arrow|blob|…]", help=text, callback=_known_codec
    )


# -- completion ----------------------------------------------------------------------------------


def complete_dataset(ctx: Any, incomplete: str) -> list[str]:
    """Complete the name of a dataset."""
    with suppress(Exception):  # an error must not be written into the line that is being typed
        from lode.discover import dataset_names

        return [name for name in dataset_names(_completed_root(ctx)) if name.startswith(incomplete)]
    return []


def complete_snapshot(ctx: Any, incomplete: str) -> list[tuple[str, str]]:
    """Complete the id of one of the newest snapshots, with its time and row count as a hint."""
    with suppress(Exception):
        from lode.discover import open_dataset

        dataset = open_dataset(ctx.params["dataset"], _completed_root(ctx))
        return [
            (found.id, f"{moment(found.created_at)}, {count(found.row_count, 'row')}")
            for found in islice(dataset.history(), _MAX_COMPLETED_SNAPSHOTS)
            if found.id.startswith(incomplete)
        ]
    return []


def complete_tag(ctx: Any, incomplete: str) -> list[str]:
    """Complete the name of a tag."""
    with suppress(Exception):
        from lode.discover import open_dataset

        dataset = open_dataset(ctx.params["dataset"], _completed_root(ctx))
        return [tag.name for tag in dataset.tags() if tag.name.startswith(incomplete)]
    return []


def _completed_root(ctx: Any) -> Store:
    root = ctx.params.get("root") or os.environ[ROOT_VARIABLE]
    return open_root(root, ctx.params.get("store_option") or ())


# -- options before and after the command ----------------------------------------------------------
# The application declares --root, --store-option and --json once. The same options of a command fall back on
# those values through the context.


def _nearest_root(ctx: typer.Context, value: str | None) -> str:
    found = _nearest_root_or_none(ctx, value)
    if found is None:
        raise InvalidOptionError(
            f"no root is given: add --root URL, or set the environment variable {ROOT_VARIABLE}"
        )
    return found


def _nearest_root_or_none(ctx: typer.Context, value: str | None) -> str | None:
    return value or ctx.find_root().params.get("root")


def _all_store_options(ctx: typer.Context, value: list[str]) -> list[str]:
    """Those before the command, then those after it: the last value of a key counts."""
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
        help="An option of the store, such as region=eu-central-1. May be repeated.",
        callback=callback,
    )


def _json(text: str, callback: Any = None) -> Any:
    return typer.Option(False, "--json", help=text, callback=callback)


_WHERE: Final = "Where the datasets are: a directory, s3://bucket/prefix, gs://…, az://…"

# Of the application, before the command.
COMMON_ROOT: Final[Any] = _root(f"{_WHERE}.", envvar=ROOT_VARIABLE)
COMMON_STORE_OPTION: Final[Any] = _store_option()
COMMON_JSON: Final[Any] = _json("Print JSON, for scripts.")

# Of a command.
ROOT: Final[Any] = _root(f"{_WHERE} (or LODE_ROOT).", _nearest_root)
PROBED_ROOT: Final[Any] = _root(
    "The store to probe with a few small objects, which are removed again. Without it, only this machine "
    "is examined.",
    _nearest_root_or_none,
)
ROOT_ARGUMENT: Final[Any] = typer.Argument(
    None,
    metavar="URL",
    help="The store to measure, in a new directory below it (or --root, or LODE_ROOT).",
    callback=_nearest_root,
)
STORE_OPTION: Final[Any] = _store_option(_all_store_options)
DATASET: Final[Any] = typer.Argument(
    ..., metavar="DATASET", help="The name of the dataset.", autocompletion=complete_dataset
)
SNAPSHOT: Final[Any] = typer.Argument(
    "latest",
    metavar="SNAPSHOT",
    help="An id or its beginning, a number from 1, latest, latest~2 for two before it, a tag, a date or a "
    "time.",
    autocompletion=complete_snapshot,
    show_default="latest",
)
AS_OF: Final[Any] = typer.Option(
    None,
    "--as-of",
    metavar="SNAPSHOT|TIME",
    help="Up to this snapshot, date or time, such as latest~2, 2026-11-15 or 2026-11-15T12:00Z.",
    autocompletion=complete_snapshot,
)
SINCE: Final[Any] = typer.Option(
    None,
    "--since",
    metavar="SNAPSHOT|TIME",
    help="Only after this snapshot, date or time.",
    autocompletion=complete_snapshot,
)
JSON: Final[Any] = _json("Print JSON, for scripts.", _either_json)
JSON_LINES: Final[Any] = _json("Print a line of JSON for each, for scripts.", _either_json)
FORMAT: Final[Any] = typer.Option(
    None, "--format", "-f", help="The format of the rows. Default: a table on a terminal, otherwise jsonl."
)
LIMIT: Final[Any] = typer.Option(
    None, "--limit", "-n", min=0, metavar="ROWS", help="The maximum number of rows. Default of a table: 100."
)
VOLUME: Final[Any] = typer.Option(False, "--volume", help="The name is that of a volume, not of a dataset.")
METADATA: Final[Any] = typer.Option(
    [],
    "--metadata",
    "-m",
    metavar="KEY=VALUE|JSON",
    help="Metadata of the snapshot: key=text, or a JSON object. May be repeated; all are merged.",
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
FILES: Final[Any] = typer.Argument(None, metavar="FILE", help="Files to read; - or none is stdin.")
FROM: Final[Any] = typer.Option(
    None, "--from", help="The format of files without a known suffix. Default of stdin: jsonl."
)
KEY: Final[Any] = typer.Option(
    None, "--idempotency-key", "-k", metavar="KEY", help="A second call with this key changes nothing."
)
EVOLVE: Final[Any] = typer.Option(
    False, "--evolve", help="Add new columns and wider types of the files to the dataset."
)
ALLOW_EMPTY: Final[Any] = typer.Option(
    False, "--allow-empty", help="Commit a snapshot even if the files have no rows."
)
DRY_RUN: Final[Any] = typer.Option(False, "--dry-run", help="Only report what would change.")
ON_CONFLICT: Final[Any] = typer.Option(
    "raise",
    "--on-conflict",
    help="If another writer changes the same rows first: raise fails with exit code 4, redo starts again.",
)
