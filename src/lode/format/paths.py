"""Where objects are stored: the paths of one history, and the layouts of datasets."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable
from urllib.parse import quote, unquote
from uuid import UUID

from lode.errors import InvalidOptionError, InvalidPathError, SchemaViolationError
from lode.format.ids import LAKE_FOLDERS, is_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MANIFEST: Final = "manifest.json"
INTENT: Final = "intent.json"
# What Spark and Hive write for a null or empty key, so that their readers understand ours.
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
# What Go writes for a null key. A text of these five characters has the same path, in Go's lakes and in ours.
GO_NULL: Final = "<nil>"


@dataclass(frozen=True, slots=True)
class ChainPaths:
    """The objects of one linear history, of a dataset or of a volume."""

    root: str
    manifests: str

    @property
    def pointer(self) -> str:
        return f"{self.root}/latest"

    def manifest(self, snapshot_id: str) -> str:
        return f"{self.manifests}/{snapshot_id}/{MANIFEST}"

    def intent(self, snapshot_id: str) -> str:
        return f"{self.manifests}/{snapshot_id}/{INTENT}"

    def keys(self, begins: int = 1) -> str:
        """The prefix of the idempotency keys of a history. One that follows a drop has keys of its own."""
        return f"{self.root}/keys/" if begins == 1 else f"{self.root}/keys/{begins}/"

    def key(self, writer: str, key: str, begins: int = 1) -> str:
        """The object that names the snapshot committed under an idempotency key."""
        digest = sha256(f"{len(writer)}:{writer}{key}".encode()).hexdigest()
        return f"{self.keys(begins)}{digest}.json"

    def segment(self, level: int, last: int) -> str:
        """The object that holds the manifests of sequences ``last - level + 1`` to ``last``."""
        return f"{self.root}/history/{level}/{last:012d}.json.zst"

    @property
    def states(self) -> str:
        """The prefix of the checkpoints."""
        return f"{self.root}/state/"

    def state(self, digest: str) -> str:
        """The checkpoint with this digest: the visible files of a dataset at a snapshot."""
        return f"{self.states}{digest}.json.zst"

    @property
    def tags(self) -> str:
        """The prefix of the tags."""
        return f"{self.root}/tags/"

    def tag(self, name: str) -> str:
        """The object that names a snapshot."""
        return f"{self.tags}{name}.json"

    @property
    def waiting(self) -> str:
        """The prefix of the drafts that wait for a leader."""
        return f"{self.root}/waiting/"

    def slot(self, head: str, number: int) -> str:
        """The object of a draft that waits to be committed onto the snapshot ``head``."""
        return f"{self.waiting}{head}/{number}.json"

    def turn(self, number: int) -> str:
        """The object by which a writer that loses again and again asks for a turn."""
        return f"{self.waiting}turn/{number}.json"

    @property
    def definitions(self) -> str:
        """The prefix of the definitions."""
        return f"{self.root}/definition/"

    def definition(self, digest: str) -> str:
        """The object that says what the dataset is."""
        return f"{self.definitions}{digest}.json"

    def snapshot_of(self, path: str) -> str | None:
        """The snapshot whose canonical manifest is at ``path``, if that is what it is."""
        return self._snapshot_at(path, MANIFEST)

    def intended_at(self, path: str) -> str | None:
        """The snapshot whose intent is at ``path``, if that is what it is."""
        return self._snapshot_at(path, INTENT)

    def _snapshot_at(self, path: str, name: str) -> str | None:
        head, _, last = path.rpartition("/")
        folder, _, snapshot_id = head.rpartition("/")
        return snapshot_id if last == name and folder == self.manifests and snapshot_id else None


class ManifestPlace(NamedTuple):
    """What a manifest's path says: its dataset, its snapshot, and the partition if it is a copy."""

    dataset_id: str
    snapshot_id: str
    partition: str


@runtime_checkable
class Layout(Protocol):
    """Decides where the objects of a dataset are stored."""

    @property
    def partitioner(self) -> str:
        """The name of the partitioner in manifests, such as ``"hive"``."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that partition the data; none for an unpartitioned layout."""
        ...

    @property
    def datasets_root(self) -> str | None:
        """The prefix under which datasets can be enumerated, or None."""
        ...

    def chain(self, dataset_id: str) -> ChainPaths:
        """Where the pointer and the manifests of a dataset are."""
        ...

    def data_path(self, dataset_id: str, snapshot_id: str, partition: str, name: str) -> str:
        """The path of a new data file."""
        ...

    def partition_of(self, dataset_id: str, path: str) -> str:
        """The partition of a data file; empty for unpartitioned data."""
        ...

    def copies(self, dataset_id: str, snapshot_id: str, partitions: Iterable[str]) -> list[str]:
        """The paths of the copies of the manifest."""
        ...

    def place(self, path: str) -> ManifestPlace | None:
        """Recognise a manifest, at exactly the shapes this layout writes."""
        ...

    def staged(self, dataset_id: str, path: str) -> str | None:
        """The snapshot for which a data file at exactly this path was staged; None for any other object."""
        ...


class _Unpartitioned:
    """What the layouts without partitions have in common."""

    __slots__ = ()

    partitioner = "noop"
    keys = ()

    def partition_of(self, dataset_id: str, path: str) -> str:
        return ""

    def copies(self, dataset_id: str, snapshot_id: str, partitions: Iterable[str]) -> list[str]:
        return []


@dataclass(frozen=True, slots=True)
class DefaultLayout(_Unpartitioned):
    """``datasets/<dataset>/snapshots/<snapshot>/…``: unpartitioned."""

    datasets_root = "datasets/"

    def chain(self, dataset_id: str) -> ChainPaths:
        return ChainPaths(f"datasets/{dataset_id}", f"datasets/{dataset_id}/snapshots")

    def data_path(self, dataset_id: str, snapshot_id: str, partition: str, name: str) -> str:
        return f"datasets/{dataset_id}/snapshots/{snapshot_id}/data/{name}"

    def place(self, path: str) -> ManifestPlace | None:
        match path.split("/"):
            case ["datasets", dataset_id, "snapshots", snapshot_id, "manifest.json"]:
                return ManifestPlace(dataset_id, snapshot_id, "")
        return None

    def staged(self, dataset_id: str, path: str) -> str | None:
        match path.split("/"):
            case ["datasets", id, "snapshots", snapshot_id, "data", _] if id == dataset_id:
                return snapshot_id
        return None


@dataclass(frozen=True, slots=True)
class FlatLayout(_Unpartitioned):
    """``<dataset>/<snapshot>/…``: unpartitioned, and nothing says which top-level names are datasets."""

    datasets_root = None

    def chain(self, dataset_id: str) -> ChainPaths:
        if dataset_id.casefold() in LAKE_FOLDERS:
            raise InvalidPathError(
                f"dataset id {dataset_id!r} is, in a flat layout, the folder of other data of the lake: "
                "choose another, or another layout"
            )
        return ChainPaths(dataset_id, dataset_id)

    def data_path(self, dataset_id: str, snapshot_id: str, partition: str, name: str) -> str:
        return f"{dataset_id}/{snapshot_id}/data/{name}"

    def place(self, path: str) -> ManifestPlace | None:
        match path.split("/"):
            case [dataset_id, snapshot_id, "manifest.json"] if dataset_id.casefold() not in LAKE_FOLDERS:
                return ManifestPlace(dataset_id, snapshot_id, "")
        return None

    def staged(self, dataset_id: str, path: str) -> str | None:
        match path.split("/"):
            case [id, snapshot_id, "data", _] if id == dataset_id:
                return snapshot_id
        return None


@dataclass(frozen=True, slots=True, init=False)
class HiveLayout:
    """``datasets/<dataset>/partitions/<key=value>/…/segments/<snapshot>/…``: one file or more a partition."""

    keys: tuple[str, ...]
    partitioner = "hive"
    datasets_root = "datasets/"

    def __init__(self, *keys: str) -> None:
        if not keys:
            raise InvalidOptionError("HiveLayout needs at least one partition key, as in HiveLayout('day')")
        for key in keys:
            if not isinstance(key, str) or not key or set(key) & set("/=\\\0") or not is_utf8(key):
                raise InvalidOptionError(
                    f"partition key {key!r} must be a column name in UTF-8 without '/', '=' or '\\'"
                )
        if len(set(keys)) != len(keys):
            raise InvalidOptionError(f"partition keys repeat: {', '.join(keys)}")
        object.__setattr__(self, "keys", keys)

    def chain(self, dataset_id: str) -> ChainPaths:
        return ChainPaths(f"datasets/{dataset_id}", f"datasets/{dataset_id}/segments")

    def data_path(self, dataset_id: str, snapshot_id: str, partition: str, name: str) -> str:
        return f"datasets/{dataset_id}/partitions/{partition}/segments/{snapshot_id}/data/{name}"

    def partition_of(self, dataset_id: str, path: str) -> str:
        root = f"datasets/{dataset_id}/partitions/"
        # Every part of a partition has a "=", so the first "segments" ends it, whatever the snapshot's id is.
        return path.removeprefix(root).partition("/segments/")[0] if path.startswith(root) else ""

    def copies(self, dataset_id: str, snapshot_id: str, partitions: Iterable[str]) -> list[str]:
        root = f"datasets/{dataset_id}/partitions"
        return [f"{root}/{partition}/segments/{snapshot_id}/{MANIFEST}" for partition in partitions]

    def place(self, path: str) -> ManifestPlace | None:
        match path.split("/"):
            case ["datasets", dataset_id, "segments", snapshot_id, "manifest.json"]:
                return ManifestPlace(dataset_id, snapshot_id, "")
            case ["datasets", dataset_id, "partitions", *parts, "segments", snapshot_id, "manifest.json"]:
                if parts and all("=" in part for part in parts):
                    return ManifestPlace(dataset_id, snapshot_id, "/".join(parts))
        return None

    def staged(self, dataset_id: str, path: str) -> str | None:
        match path.split("/"):
            case ["datasets", id, "partitions", *parts, "segments", snapshot_id, "data", _]:
                if id == dataset_id and parts and all("=" in part for part in parts):
                    return snapshot_id
        return None


def partition_path(keys: Sequence[str], values: Sequence[Any]) -> str:
    """Return ``key=value/…`` for one row's values, escaped as Go's ``url.PathEscape`` does."""
    return "/".join(f"{key}={_escaped(key, value)}" for key, value in zip(keys, values, strict=True))


def _escaped(key: str, value: Any) -> str:
    try:
        return quote(partition_text(key, value), safe="$&+=:@")
    except UnicodeEncodeError:
        raise SchemaViolationError(
            f"partition column {key!r} holds text that UTF-8 cannot carry: {value!r}", column=key
        ) from None


def partition_values(partition: str) -> dict[str, str | None]:
    """Read a partition path back into texts; None where the value was null, or may have been.

    Our null and empty text share a path, and so do Go's null and the text ``<nil>``. Only the row has
    the difference.
    """
    pairs = (part.partition("=") for part in partition.split("/") if part)
    texts = ((key, unquote(value)) for key, _, value in pairs)
    return {key: None if text in (NULL_PARTITION, GO_NULL) else text for key, text in texts}


@lru_cache(maxsize=4096)
def canonical_partition(partition: str) -> str:
    """Return one name for all paths that Go and Python give the same values.

    It differs from the path where Go and Python render a value differently: nulls, and floats, of which Go
    writes 1234567.0 as ``1.234567e+06``. A path does not say whether a value was text, so the texts ``1e+06``
    and ``1000000`` have one name too.
    """
    return "/".join(map(_canonical_part, partition.split("/")))


def enclosing(partition: str) -> Iterator[str]:
    """The partition, then those of fewer keys that it is inside of."""
    while partition:
        yield partition
        partition = partition.rpartition("/")[0]


def _canonical_part(part: str) -> str:
    key, _, value = part.partition("=")
    return f"{key}={quote(canonical_text(unquote(value)), safe='$&+=:@')}"


def canonical_text(text: str) -> str:
    """One text for all texts that Go and Python give the same partition value."""
    if text in ("", NULL_PARTITION, GO_NULL):
        return NULL_PARTITION
    if text.lower() in ("nan", "inf", "+inf", "-inf"):
        return text.lower().lstrip("+")
    if not _NUMBER.fullmatch(text):
        return text
    if "." not in text and "e" not in text:
        return "0" if text == "-0" else text
    number = float(text)
    if math.isinf(number) or Decimal(text) != Decimal(repr(number)):
        return text
    return repr(number) if number != int(number) else str(int(number))


# A number as Go or Python renders a float or an integer: without needless zeros, so that version 1.10 is not
# 1.1, and with an exponent of at least two digits.
_NUMBER: Final = re.compile(
    r"-?(?:(?:0|[1-9]\d*)(?:\.\d*[1-9])?|[1-9](?:\.\d*[1-9])?e[+-](?:0[1-9]|[1-9]\d{1,2}))", re.ASCII
)


def partition_text(key: str, value: Any) -> str:
    """The text of one partition value, as the Go implementation renders it."""
    match value:
        case None | "":
            return NULL_PARTITION
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case date():  # a datetime is one too, and means its day
            return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
        case float() if math.isfinite(value) and value == int(value) and abs(value) < 1e21:
            return str(int(value))
        case int() | float() | Decimal() | UUID():
            return str(value)
        case _:
            raise SchemaViolationError(
                f"partition column {key!r} holds a {type(value).__name__}: "
                "partition by text, numbers, booleans or dates",
                column=key,
            )
