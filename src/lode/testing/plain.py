"""The plain way to commit: swap the pointer, then put the manifest. It forks, and the explorer shows how.

Between the two steps the pointer names a snapshot that does not exist. Another writer then lists manifests
and takes the largest id for the head, which is at best the head before; and once a writer has lost a swap and
tried again on a new parent, the largest id need not be the head at all.

Data files have paths of their own and cause no conflict, so they are left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lode.errors import NotFoundError, SnapshotConflictError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.store.protocol import Store
    from lode.testing.actor import Actor
    from lode.testing.scenario import View
    from lode.testing.sim import SwapStore

POINTER = "latest"
SNAPSHOTS = "snapshots/"
MANIFEST = "/manifest.json"


def manifest_path(id: str) -> str:
    return f"{SNAPSHOTS}{id}{MANIFEST}"


def manifest(id: str, parent: str | None) -> bytes:
    return json.dumps({"id": id, "parent": parent}).encode()


def history(*ids: str, pointer: str | None = None) -> dict[str, bytes]:
    """Return a store that holds these snapshots, each the child of the one before it."""
    parents = (None, *ids)
    objects = {manifest_path(id): manifest(id, parent) for parent, id in zip(parents, ids, strict=False)}
    return {**objects, POINTER: (pointer or ids[-1]).encode()}


def writer(id: str, *, retries: int = 0) -> Actor:
    """Return an actor that commits an empty snapshot; it may try again on a new parent after a lost swap."""

    def write(store: SwapStore) -> str:
        for _ in range(retries + 1):
            pointer, parent = _head(store)
            if store.compare_and_swap(POINTER, pointer, id.encode()):
                store.put(manifest_path(id), manifest(id, parent))
                return id
        raise SnapshotConflictError(f"{id} lost the swap")

    return write


def reader(store: Store) -> str | None:
    """Return the head as the plain way sees it."""
    return _head(store)[1]


def _head(store: Store) -> tuple[bytes | None, str | None]:
    try:
        pointer = store.get(POINTER)
    except NotFoundError:
        return None, _largest(store)
    named = pointer.decode()
    return pointer, named if store.exists(manifest_path(named)) else _largest(store)


def _largest(store: Store) -> str | None:
    paths = [info.path for info in store.list(SNAPSHOTS) if info.path.endswith(MANIFEST)]
    ids = [path.removeprefix(SNAPSHOTS).removesuffix(MANIFEST) for path in paths]
    return max(ids, default=None)


def forks(store: Mapping[str, bytes]) -> dict[str | None, list[str]]:
    """Return the snapshots that have more than one child, with their children."""
    children: dict[str | None, list[str]] = {}
    for path, data in store.items():
        if path.endswith(MANIFEST):
            snapshot = json.loads(data)
            children.setdefault(snapshot["parent"], []).append(snapshot["id"])
    return {parent: ids for parent, ids in children.items() if len(ids) > 1}


def one_line(view: View) -> None:
    """Check that no snapshot has two children."""
    for parent, children in forks(view.store).items():
        raise AssertionError(f"{' and '.join(children)} are both children of {parent}")


def show(data: bytes) -> str:
    """Show a manifest as ``child ← parent`` in a timeline, anything else as it is."""
    if not data.startswith(b"{"):
        return data.decode()
    snapshot = json.loads(data)
    return f"({snapshot['id']} ← {snapshot['parent']})"
