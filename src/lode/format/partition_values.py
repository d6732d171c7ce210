"""The partition values of a file, typed, as its entry in a manifest has them.

A path has them as text, which tells neither a number from a text nor a null from an empty text. So a manifest
also has the values themselves. A value that is not the same in all rows of a file is left out.
"""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote
from uuid import UUID

import msgspec

from lode.format.paths import canonical_text, partition_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lode.format.manifest import FileRef

PartitionValue: TypeAlias = "str | int | float | bool | None"

# In place of a value that differs between rows.
_SEVERAL: Final = object()


def partition_value(key: str, value: Any) -> PartitionValue:
    """A partition value as JSON.

    A date is ``YYYY-MM-DD``, a time is its day, a decimal its digits as text. A float that JSON does not have
    is the text ``nan``, ``inf`` or ``-inf``. Zero has no sign, as in a path.
    """
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)
        case float():
            if not math.isfinite(value):
                return partition_text(key, value)
            return float(value) or 0.0
        case int():
            return int(value)
        case date() | Decimal() | UUID():
            return partition_text(key, value)
        case _:
            # It has no partition, which the path has said before.
            raise AssertionError(f"partition column {key!r} holds a {type(value).__name__}")


class PartitionValues:
    """The values of each partition that one write has rows of.

    Args:
        keys: The partition keys.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self._values: dict[str, list[Any]] = {}

    def observe(self, partition: str, values: Sequence[Any]) -> None:
        """Note the values of rows in a partition."""
        coming = [partition_value(key, value) for key, value in zip(self._keys, values, strict=True)]
        known = self._values.setdefault(partition, coming)
        if known is not coming:
            self._values[partition] = [
                old if _is_same(old, new) else _SEVERAL for old, new in zip(known, coming, strict=True)
            ]

    def label(self, files: Iterable[FileRef], partition_of: Callable[[str], str]) -> list[FileRef]:
        """The files with the values of their partitions."""
        return [with_partition(file, self._of(partition_of(file.path))) for file in files]

    def _of(self, partition: str) -> dict[str, PartitionValue]:
        values = self._values.get(partition, ())
        return {key: value for key, value in zip(self._keys, values, strict=False) if value is not _SEVERAL}


def with_partition(file: FileRef, values: Mapping[str, PartitionValue] | None) -> FileRef:
    """The file with these partition values."""
    return msgspec.structs.replace(file, partition=dict(values)) if values else file


def common_values(files: Iterable[FileRef]) -> dict[str, PartitionValue]:
    """The values that all of these files have."""
    common: dict[str, PartitionValue] | None = None
    for file in files:
        own = file.partition or {}
        if common is None:
            common = dict(own)
        else:
            common = {key: old for key, old in common.items() if key in own and _is_same(old, own[key])}
    return common or {}


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def contradicts(partition: str, values: Mapping[str, PartitionValue]) -> str | None:
    """The first key whose value is not that of the path; None if there is none."""
    texts = {key: unquote(text) for key, _, text in (part.partition("=") for part in partition.split("/"))}
    for key, value in values.items():
        if key not in texts or canonical_text(partition_text(key, value)) != canonical_text(texts[key]):
            return key
    return None
