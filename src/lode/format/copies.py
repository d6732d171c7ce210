"""The copies of a manifest in the partitions of its snapshot.

A copy lists the files of its own partition only, so all copies together are about as large as the manifest.
The copy that a listing shows first is the whole manifest: a reader that lists manifests without a partition
takes the first one it finds of each snapshot.

A copy is a function of the manifest's bytes. So every publisher of a snapshot puts the same copies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.format.manifest import PARTITION, Removes
from lode.format.paths import canonical_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Fields of ``x`` that a copy does not repeat: what they count or list is of the whole snapshot.
_OF_SNAPSHOT: Final = ("recent", "removed")

_NOTHING: Final = b"null"
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_PATHS: Final = msgspec.json.Decoder(list[str] | None)
_REMOVES: Final = msgspec.json.Decoder(Removes | None)


class _Rows(msgspec.Struct, gc=False):
    row_count: int = 0


class _File(msgspec.Struct, gc=False):
    path: str
    stats: _Rows | None = None


_FILES: Final = msgspec.json.Decoder(list[_File])


class PartitionCopies(Mapping[str, bytes]):
    """The bytes of the copies, by their paths. Nothing is decoded before a copy of a part is asked for.

    Args:
        data: The manifest, which was decoded and checked before.
        partitions: The partition of each copy, by the path of the copy.
        partition_of: Says in which partition a data file is.
    """

    def __init__(
        self, data: bytes, partitions: Mapping[str, str], partition_of: Callable[[str], str]
    ) -> None:
        self._data = data
        self._partitions = partitions
        self._partition_of = partition_of
        # Object stores list in the order of whole paths, file systems folder by folder.
        self._whole = (
            {min(partitions), min(partitions, key=lambda path: path.split("/"))} if partitions else {}
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, path: str) -> bytes:
        partition = self._partitions[path]
        return self._data if path in self._whole else self._parts.of(partition)

    @cached_property
    def _parts(self) -> _Parts:
        return _Parts(self._data, self._partition_of)


class _Parts:
    """A manifest whose files are sorted by partition. What is not decoded stays byte for byte."""

    def __init__(self, data: bytes, partition_of: Callable[[str], str]) -> None:
        self._fields = _FIELDS.decode(data) or {}
        self._extension = _FIELDS.decode(self._fields.get("x", _NOTHING)) or {}
        for name in _OF_SNAPSHOT:
            self._extension.pop(name, None)
        self._files: dict[str, list[msgspec.Raw]] = defaultdict(list)
        self._rows: dict[str, list[int | None]] = defaultdict(list)
        raw = self._fields["files"]
        for item, file in zip(_ITEMS.decode(raw), _FILES.decode(raw), strict=True):
            partition = partition_of(file.path)
            self._files[partition].append(item)
            self._rows[partition].append(None if file.stats is None else file.stats.row_count)
        self._carried: dict[str, list[str]] = defaultdict(list)
        for path in _PATHS.decode(self._extension.pop("carried", _NOTHING)) or ():
            self._carried[partition_of(path)].append(path)
        # Go and Python may write one partition under two paths.
        removes = _REMOVES.decode(self._extension.pop("removes", _NOTHING)) or Removes()
        self._removed_partitions: dict[str, list[str]] = defaultdict(list)
        for name in removes.partitions:
            self._removed_partitions[canonical_partition(name) if name else ""].append(name)
        self._removed_files: dict[str, list[str]] = defaultdict(list)
        for path in removes.files:
            self._removed_files[canonical_partition(partition_of(path))].append(path)

    def of(self, partition: str) -> bytes:
        """The manifest with the files of one partition."""
        extension: dict[str, Any] = dict(self._extension)
        removes = self._removes(partition)
        if removes != Removes():
            extension["removes"] = removes
        if partition in self._carried:
            extension["carried"] = self._carried[partition]
        extension[PARTITION] = partition
        fields: dict[str, Any] = {**self._fields, "files": self._files[partition], "x": extension}
        rows = self._rows[partition]
        # Without statistics only the rows of the whole snapshot are known, which are at least as many.
        if None not in rows:
            fields["row_count"] = sum(row or 0 for row in rows)
        return msgspec.json.format(msgspec.json.encode(fields), indent=2)

    def _removes(self, partition: str) -> Removes:
        """What the commit removes from one partition, also as part of those around it."""
        own = canonical_partition(partition)
        parts = own.split("/")
        around = ["", *("/".join(parts[: count + 1]) for count in range(len(parts)))]
        names = [name for each in around for name in self._removed_partitions.get(each, ())]
        return Removes(tuple(names), tuple(self._removed_files.get(own, ())))
