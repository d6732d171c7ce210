"""The options of ``format("lode")``: their names, their values, and the dataset they name.

Spark passes options as text, with names in any case. What is not given is read from the dataset, so a reader
needs only ``path`` and ``dataset``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from lode.codec.components import CODECS, DEFAULT_CODEC, components_of
from lode.codec.parquet import Parquet
from lode.dataset import Dataset
from lode.errors import ComponentMismatchError, InvalidOptionError
from lode.format.paths import DefaultLayout, FlatLayout, HiveLayout
from lode.near import did_you_mean
from lode.options import codec_with_schema
from lode.read.incremental import OnRemoval
from lode.store.open import open_store
from lode.store.protocol import is_in_memory
from lode.write.open_files import TARGET_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from lode.codec.protocol import Codec
    from lode.format.paths import Layout
    from lode.store.protocol import Store

# What a dataset is: checked against one that exists, and what a new one becomes.
DESCRIPTIONS: Final = ("layout", "partitionBy", "codec", "compressor", "checksum", "schema")
FILE_OPTIONS: Final = (
    "timestampColumn",
    "compression",
    "compressionLevel",
    "rowGroupRows",
    "rowGroupBytes",
    "dictionary",
    "distinctCount",
)
# Which dataset; all of these for reading, writing and streaming.
DATASET_OPTIONS: Final = ("path", "dataset", *DESCRIPTIONS)
# Of mode("overwrite") only.
OVERWRITE_OPTIONS: Final = ("partitionOverwriteMode", "replaceWhere", "onConflict")
WRITE_OPTIONS: Final = (
    "metadata",
    "idempotencyKey",
    "targetFileBytes",
    "sortBy",
    *OVERWRITE_OPTIONS,
    *FILE_OPTIONS,
)
# mergeSchema is also for writing.
READ_OPTIONS: Final = (
    "snapshot",
    "asOf",
    "since",
    "onRemoval",
    "columns",
    "splitBytes",
    "batchRows",
    "mergeSchema",
)
# Which rows and columns a read has: a write through a view with one of these would mean others.
CHOOSING_OPTIONS: Final = ("snapshot", "asOf", "since", "onRemoval", "columns")
STORE_PREFIX: Final = "store."

# What Lode has in place of options of Delta and Iceberg, whose names are alike without meaning the same.
_AS_OF: Final = "say asOf, which takes an id, a number, a tag or a time"
_CHANGES: Final = "say since and onRemoval = report, or startingPosition for a stream"
_REMOVED: Final = "say onRemoval = ignore"
_REMEDIES: Final = {
    "overwriteSchema": "an overwrite keeps the columns; mergeSchema adds columns and wider types, and "
    "Dataset.evolve(…) renames, drops and relaxes them",
    "versionAsOf": _AS_OF,
    "timestampAsOf": _AS_OF,
    "snapshot-id": _AS_OF,
    "as-of-timestamp": _AS_OF,
    "start-snapshot-id": "say since",
    "end-snapshot-id": _AS_OF,
    "readChangeFeed": _CHANGES,
    "startingVersion": _CHANGES,
    "startingTimestamp": _CHANGES,
    "ignoreDeletes": _REMOVED,
    "ignoreChanges": _REMOVED,
    "skipChangeCommits": _REMOVED,
    "txnAppId": "say idempotencyKey",
    "txnVersion": "say idempotencyKey",
    "maxRecordsPerFile": "say targetFileBytes",
}

_LAYOUTS: Final[dict[str, Callable[..., Layout]]] = {
    "default": DefaultLayout,
    "hive": HiveLayout,
    "flat": FlatLayout,
}
_SIZE: Final = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 10, "m": 20, "g": 30}


@dataclass(frozen=True, init=False, repr=False)  # options of the store may be secrets
class Options:
    """Options by name, in any case. Every error names the option and an accepted value."""

    values: dict[str, str]

    def __init__(self, given: Mapping[str, str], *, also: Iterable[str] = ()) -> None:
        values = {name.lower(): value for name, value in given.items() if value is not None}
        if "partitions" in values:
            values.setdefault("partitionby", values.pop("partitions"))
        known = {name.lower(): name for name in (*DATASET_OPTIONS, *WRITE_OPTIONS, *READ_OPTIONS, *also)}
        for name in values:
            if name not in known and not name.startswith(STORE_PREFIX):
                raise InvalidOptionError(_unknown(name, known.values()))
        object.__setattr__(self, "values", values)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.values

    def text(self, name: str) -> str | None:
        """The option as it was given; None if it was not."""
        value = self.values.get(name.lower())
        if value is not None and not value.strip():
            raise InvalidOptionError(f"option {name!r} is empty: give it a value or leave it out")
        return value

    def required(self, name: str, example: str) -> str:
        value = self.text(name)
        if value is None:
            raise InvalidOptionError(f"option {name!r} is missing: say .option({name!r}, {example!r})")
        return value

    def names(self, name: str) -> list[str]:
        """A list of column names, separated by commas."""
        text = self.text(name)
        return [] if text is None else [part.strip() for part in text.split(",") if part.strip()]

    def number(self, name: str, default: int | None = None, *, least: int = 1) -> int | None:
        text = self.text(name)
        if text is None:
            return default
        if not text.strip().lstrip("-").isdecimal() or int(text) < least:
            raise InvalidOptionError(f"option {name!r} is a whole number from {least}, got {text!r}")
        return int(text)

    def size(self, name: str, default: int) -> int:
        """A number of bytes, such as ``134217728`` or ``128m``."""
        text = self.text(name)
        if text is None:
            return default
        match = _SIZE.fullmatch(text.strip())
        if match is None or not int(match[1]):
            raise InvalidOptionError(f"option {name!r} is a size such as 128m or 134217728, got {text!r}")
        return int(match[1]) << _POWERS[match[2].lower()]

    def flag(self, name: str, default: bool = False) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise InvalidOptionError(f"option {name!r} is true or false, got {text!r}")
        return text.lower() == "true"

    def json_object(self, name: str) -> dict[str, Any] | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            value = json.loads(text)
        except ValueError as error:
            raise InvalidOptionError(f"option {name!r} is a JSON object: {error}") from None
        if not isinstance(value, dict):
            raise InvalidOptionError(f"option {name!r} is a JSON object, got {text!r}")
        return value

    def key(self, name: str) -> tuple[str, str] | None:
        """An idempotency key as (writer, key): ``key``, or ``["writer", "key"]``."""
        text = self.text(name)
        if text is None or not text.startswith("["):
            return None if text is None else ("", text)
        try:
            writer, key = json.loads(text)
        except ValueError:
            raise InvalidOptionError(f'option {name!r} is a key or ["writer", "key"], got {text!r}') from None
        return (str(writer), str(key))


def _unknown(name: str, known: Collection[str]) -> str:
    for other, remedy in _REMEDIES.items():
        if other.lower() == name:
            return f"option {other!r} is unknown: {remedy}"
    return f"option {name!r} is unknown: {did_you_mean(name, known) or 'there are ' + ', '.join(known)}"


def open_dataset(options: Mapping[str, str], *, also: Iterable[str] = ()) -> Dataset:
    """Open the dataset that options name, as it is stored.

    Args:
        options: As Spark gives them.
        also: Names of further options that the caller reads itself.

    Raises:
        InvalidOptionError: An option is unknown, missing or out of its range; or contradicts the dataset.
    """
    return dataset_of(Options(options, also=also))


def exists(options: Options) -> bool:
    """Whether the dataset that these options name has a snapshot now."""
    return Dataset(options.required("dataset", "visits"), _store(options)).exists


def dataset_of(options: Options) -> Dataset:
    """Open the dataset that these options name."""
    store = _store(options)
    dataset_id = options.required("dataset", "visits")
    stored = Dataset(dataset_id, store)
    exists = stored.exists
    codec = stored.definition.codec if exists else DEFAULT_CODEC
    if codec is None:
        raise InvalidOptionError(
            f"dataset {dataset_id!r} in {store.url} holds blobs: it has no rows for Spark"
        )
    if exists and not any(name in options for name in (*DESCRIPTIONS, *FILE_OPTIONS)):
        return stored
    opened = Dataset(
        dataset_id,
        store,
        codec=_codec(options.text("codec") or codec, options),
        layout=_layout(options),
        compressor=options.text("compressor"),
        checksum=options.text("checksum"),
        timestamp_column=options.text("timestampColumn"),
    )
    try:
        opened.exists  # noqa: B018 - looks it up, and refuses options that contradict what is stored
    except ComponentMismatchError as error:
        raise InvalidOptionError(f"an option does not fit: {error}") from None
    return opened


def removal_option(options: Options) -> OnRemoval:
    """Return what a read of new rows does about removed ones."""
    said = (options.text("onRemoval") or "fail").lower()
    if said not in get_args(OnRemoval):
        raise InvalidOptionError(
            f"option 'onRemoval' is one of {', '.join(get_args(OnRemoval))}, got {said!r}"
        )
    return cast("OnRemoval", said)


def refuse_choosing(options: Options) -> None:
    """Refuse a write with an option that chooses what is read, as an INSERT into a view of a read has."""
    for name in CHOOSING_OPTIONS:
        if name in options:
            raise InvalidOptionError(
                f"option {name!r} chooses what is read, so a view with it cannot be written: leave it out"
            )


def file_options(options: Options) -> dict[str, Any]:
    """Return the arguments of a write that say how its rows are cut into files and sorted."""
    return {
        "target_file_bytes": options.size("targetFileBytes", TARGET_FILE_BYTES),
        "sort_by": options.names("sortBy") if "sortBy" in options else None,
    }


def _store(options: Options) -> Store:
    path = options.required("path", "s3://bucket/lake")
    store = open_store(path, **store_options(options))
    if is_in_memory(store):
        raise InvalidOptionError(
            f"option 'path' is {path!r}, which lives in one process: Spark's executors are others and "
            "cannot reach it; give a directory they share or a bucket"
        )
    return store


def store_options(options: Options) -> dict[str, Any]:
    """The options of the store, as ``open_store`` takes them."""
    config: dict[str, Any] = {}
    for name, value in options.values.items():
        if name.startswith(STORE_PREFIX):
            inner, _, leaf = name.removeprefix(STORE_PREFIX).rpartition(".")
            place = config.setdefault(inner, {}) if inner else config
            place[leaf] = {"true": True, "false": False}.get(value.lower(), value)
    return config


def _layout(options: Options) -> Layout | None:
    """Return the layout of the options; None if they have none."""
    keys = options.names("partitionBy")
    said = options.text("layout") or ("hive" if keys else None)
    if said not in (None, *_LAYOUTS):
        raise InvalidOptionError(f"option 'layout' is one of {', '.join(_LAYOUTS)}, got {said!r}")
    if keys and said != "hive":
        raise InvalidOptionError(
            f"option 'partitionBy' partitions, layout {said!r} does not: say layout hive"
        )
    if said == "hive" and not keys:
        raise InvalidOptionError(
            "option 'layout' is hive: say by which columns, .option('partitionBy', 'day')"
        )
    return HiveLayout(*keys) if keys else _LAYOUTS[said]() if said else None


def _codec(name: str, options: Options) -> Codec:
    schema = options.json_object("schema")
    try:
        if name == Parquet.name:
            return _parquet(options, schema)
        if name in CODECS.names:
            codec = components_of(codec_with_schema(name, schema), "noop", None).codec
            assert codec is not None
            return codec
    except InvalidOptionError as error:
        raise InvalidOptionError(f"the options of codec {name!r}: {error}") from None
    raise InvalidOptionError(f"option 'codec' is one of {', '.join(CODECS.names)}, got {name!r}")


def _parquet(options: Options, schema: dict[str, Any] | None) -> Parquet:
    return Parquet(
        schema,
        compression=options.text("compression") or "auto",
        level=options.number("compressionLevel", least=-50),
        row_group_rows=options.number("rowGroupRows") or 1 << 20,
        row_group_bytes=options.size("rowGroupBytes", 32 << 20),
        distinct_count=options.flag("distinctCount"),
        dictionary=_dictionary(options),
    )


def _dictionary(options: Options) -> Any:
    text = (options.text("dictionary") or "auto").lower()
    return {"auto": "auto", "true": True, "false": False}.get(text, options.names("dictionary"))
