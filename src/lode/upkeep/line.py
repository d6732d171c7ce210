"""Check that the manifests of a history form one line that ends at the pointer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.errors import DataError, LodeError
from lode.format.ids import is_id, shortened
from lode.read.manifests import read_pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.read.resolve import Chain
    from lode.runtime import Runtime

# A live writer publishes its snapshot in less time than this.
MAX_PUBLISHING_NS: Final = 60 * 10**9


@dataclass(frozen=True, slots=True)
class Problem:
    """One difference between the store and the manifests, or between two manifests."""

    kind: str
    path: str
    message: str


class Link(NamedTuple):
    """The parent and the sequence of a snapshot, from its manifest."""

    parent: str | None
    sequence: int | None


def check_links(
    chain: Chain[Any], links: dict[str, Link], unreadable: set[str], first: int
) -> Iterator[Problem]:
    """Check that no two snapshots share a parent, every parent exists, and sequences have no gap."""
    children: dict[str | None, list[str]] = {}
    for snapshot_id, link in links.items():
        children.setdefault(link.parent, []).append(snapshot_id)
    for parent, siblings in children.items():
        shown = shortened(parent)  # that of a damaged manifest may be of any length
        if len(siblings) > 1:
            of = f"snapshot {shown}" if parent else "the beginning"
            message = f"{of} has {len(siblings)} children: {', '.join(sorted(siblings))}"
            yield Problem("fork", chain.paths.manifests, message)
        if parent is not None and parent not in links:
            path = chain.paths.manifest(siblings[0])
            if parent in unreadable:
                yield Problem("missing-parent", path, f"parent {shown} of {siblings[0]} cannot be read")
            # A listing is not atomic: the parent may have been added to a part that was listed before.
            elif not is_id(parent) or not chain.store.exists(chain.paths.manifest(parent)):
                yield Problem("missing-parent", path, f"parent {shown} of {siblings[0]} is missing")
    yield from _check_sequences(chain, links, children, first)


def _check_sequences(
    chain: Chain[Any], links: dict[str, Link], children: dict[str | None, list[str]], first: int
) -> Iterator[Problem]:
    """Walk from every snapshot without a known parent. Snapshots that no walk reaches form a cycle."""
    starts = [id for id, link in links.items() if link.parent not in links]
    # The number that a snapshot should have; None if unknown.
    ready: list[tuple[str, int | None]] = [
        (id, first if links[id].parent is None else links[id].sequence) for id in starts
    ]
    reached: set[str] = set()
    while ready:
        snapshot_id, number = ready.pop()
        reached.add(snapshot_id)
        recorded = links[snapshot_id].sequence
        if recorded is not None and number is not None and recorded != number:
            path = chain.paths.manifest(snapshot_id)
            yield Problem(
                "sequence", path, f"{path} has sequence {recorded}, its place in history is {number}"
            )
        number = recorded if number is None else number
        following = None if number is None else number + 1
        ready += [(child, following) for child in children.get(snapshot_id, ()) if child not in reached]
    for snapshot_id in sorted(links.keys() - reached):
        path = chain.paths.manifest(snapshot_id)
        yield Problem("cycle", path, f"the parents of {snapshot_id} lead back to it")


def check_pointer(
    chain: Chain[Any], links: dict[str, Link], unreadable: set[str], runtime: Runtime
) -> Iterator[Problem]:
    """Check that the pointer names the newest snapshot, or one that is being published."""
    at = chain.paths.pointer
    pointer = read_pointer(chain.store, chain.paths)
    if pointer is None:
        if links or unreadable:
            yield Problem("pointer", at, "the pointer is missing: the next commit restores it")
        return
    try:
        id = pointer.decode()
    except UnicodeDecodeError:
        yield Problem("pointer", at, f"it is not text: {pointer[:40]!r}")
        return
    if id in unreadable:
        yield Problem("pointer", at, f"the head cannot be found: the manifest of {id} cannot be read")
    elif id in links:
        if any(link.parent == id for link in links.values()):
            yield Problem("pointer", at, f"it names {id}, which already has a child")
    elif (reason := _unpublished(chain, id, runtime)) is not None:
        yield Problem("pointer", at, f"it names {shortened(id)}, {reason}")


def _unpublished(chain: Chain[Any], snapshot_id: str, runtime: Runtime) -> str | None:
    """Why a snapshot that was not listed is a problem, although the pointer names it; None if it is not.

    For a moment of every commit the pointer names a snapshot without a manifest. A writer that died then
    leaves it so until the next commit. If the manifest was deleted, it looks the same, and what was
    acknowledged is not visible.
    """
    store = chain.store
    try:
        if store.exists(chain.paths.manifest(snapshot_id)):
            return None  # published since
        if chain.intent(snapshot_id) is None:
            return "which is not there"
        declared = store.head(chain.paths.intent(snapshot_id)).modified
    except DataError as error:
        return f"whose intent cannot be read: {error}"
    except LodeError:  # such as an id that no store may hold
        return "which is not there"
    if runtime.now_ns() - declared.timestamp() * 1e9 < MAX_PUBLISHING_NS:
        return None
    return (
        "which has an intent and no manifest: its writer died, or the manifest was deleted, and readers see "
        "the state before it; the next commit or settle() publishes it"
    )
