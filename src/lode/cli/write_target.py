"""The dataset that a command writes to: as it is stored, or as the options describe a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.schema import to_schema
from lode.dataset import Dataset
from lode.errors import ComponentMismatchError, InvalidOptionError
from lode.format.paths import HiveLayout
from lode.options import codec_with_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from lode.codec.protocol import Codec
    from lode.definition import Definition
    from lode.store.protocol import Store
    from lode.write.retry import Retry

BLOB: Final = "blob"
DEFAULT_CODEC: Final = "parquet"


def open_target(
    store: Store,
    name: str,
    *,
    codec: str | None,
    schema: pa.Schema | None,
    partition_by: str | None,
    retry: Retry,
    **options: Any,
) -> tuple[Dataset, Definition]:
    """Open a dataset to write to it, and say what it is; options are checked against one that exists."""
    keys = names_in("--partition-by", partition_by)
    if keys:
        options["layout"] = HiveLayout(*keys)
    found = Dataset(name, store, retry=retry, **options)
    stored = found.definition if found.exists else None
    if stored is not None and codec not in (None, stored.codec or BLOB):
        raise ComponentMismatchError(
            f"dataset {name!r} has the codec {stored.codec or BLOB!r} and --codec is {codec!r}: "
            "leave the option out"
        )
    chosen: Codec | str | None = None if codec == BLOB else codec or DEFAULT_CODEC
    if stored is not None:
        chosen = stored.codec
    if schema is not None:
        if chosen is None:
            raise InvalidOptionError(
                f"dataset {name!r} holds blobs, which have no columns: leave --schema out"
            )
        chosen = codec_with_schema(chosen, schema)
    elif stored is not None:
        return found, stored
    made = Dataset(name, store, codec=chosen, retry=retry, **options)
    return made, made.definition


def declared_schema(text: str | None) -> pa.Schema | None:
    """The columns that ``--schema`` declares."""
    if text is None:
        return None
    try:
        return to_schema(msgspec.json.decode(text, type=dict[str, Any]))
    except msgspec.MsgspecError as error:
        raise InvalidOptionError(f"--schema is not a JSON object of columns: {error}") from None


def names_in(option: str, text: str | None) -> tuple[str, ...]:
    """The column names in an option's comma-separated list."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InvalidOptionError(f"{option} is a list of columns such as a,b, got {text!r}")
    return names
