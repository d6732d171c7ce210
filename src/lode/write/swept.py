"""Blocks of a volume that a sweep has removed, so that no later commit names one of them.

A sweep lists what it is about to remove in an object, then commits a snapshot that names this list in
``x.swept``, and only then removes it. Every later manifest names the list too, so a commit knows from its
parent, which it has at hand, whether there is a list to look into. See ``docs/design/commit.md``.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from lode.errors import NotFoundError, PathExistsError, TransactionClosedError
from lode.format.manifest import MAX_MANIFEST_BYTES, decode_struct, require
from lode.format.volume import blocks_root, swept_path, swept_root
from lode.read.source import get_bounded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lode.format.volume import BlockRef, VolumeManifest
    from lode.store.protocol import Store

SCHEMA_NAME: Final = "lode-swept-blocks"


class SweptList(msgspec.Struct, frozen=True):
    """The content of a list: the names of blocks below ``data/``, sorted."""

    schema_name: str
    blocks: tuple[str, ...]


class SweptBlocks:
    """The lists of one volume. Each is read once, as long as the head names it."""

    def __init__(self, store: Store, volume_id: str) -> None:
        self._store = store
        self._volume_id = volume_id
        self._known: dict[str, frozenset[str]] = {}

    def lists_of(self, parent: VolumeManifest | None) -> tuple[str, ...]:
        """The lists that a commit onto ``parent`` must respect and name again."""
        if parent is None:
            return ()
        if parent.sequence is not None:
            return parent.swept
        # The Go implementation wrote this manifest, and does not repeat what it does not know.
        root = swept_root(self._volume_id)
        names = (entry.path.removeprefix(root) for entry in self._store.list(root))
        return tuple(name.removesuffix(".json") for name in names if name.endswith(".json"))

    def paths(self, lists: Iterable[str]) -> frozenset[str]:
        """The paths of all blocks on these lists; raises ``NotFoundError`` if a list is missing."""
        wanted = list(lists)
        known = self._known  # threads share this object: replaced as a whole, never changed
        read = {digest: known[digest] if digest in known else self._read(digest) for digest in wanted}
        self._known = read
        return frozenset().union(*read.values())

    def refuse(self, blocks: Sequence[BlockRef], lists: Sequence[str]) -> None:
        """Raise ``TransactionClosedError`` if one of the blocks has been swept."""
        if not blocks or not lists:
            return
        try:
            gone = self.paths(lists)
        except NotFoundError:  # somebody removed a list by hand; its blocks are long gone
            gone = frozenset(block.path for block in blocks if not self._store.exists(block.path))
        for block in blocks:
            if block.path in gone:
                raise TransactionClosedError(
                    f"volume {self._volume_id!r}: block {block} was swept as abandoned, so this commit did "
                    "not land; stage the block anew"
                )

    def store(self, paths: Iterable[str]) -> str:
        """Put a list of blocks and return its digest. Equal lists are one object."""
        root = blocks_root(self._volume_id)
        names = tuple(sorted({path.removeprefix(root) for path in paths}))
        data = msgspec.json.encode(SweptList(SCHEMA_NAME, names))
        digest = sha256(data).hexdigest()
        with suppress(PathExistsError):  # another sweep found the same
            self._store.put(swept_path(self._volume_id, digest), data)
        return digest

    def _read(self, digest: str) -> frozenset[str]:
        path = swept_path(self._volume_id, digest)
        found = decode_struct(get_bounded(self._store, path, MAX_MANIFEST_BYTES), SweptList, origin=path)
        require(found.schema_name == SCHEMA_NAME, "schema_name", f"is not {SCHEMA_NAME!r}", path)
        root = blocks_root(self._volume_id)
        return frozenset(root + name for name in found.blocks)
