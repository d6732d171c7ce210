"""Check a dataset against its own manifests: one line of history, every file whole. Reports all it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lode.codec.checksum import checksum as checksum_of
from lode.errors import ChecksumMismatchError, LodeError, ManifestInvalidError, NotFoundError
from lode.read.source import verify_file
from lode.runtime import REAL, Runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.dataset import Dataset
    from lode.format.manifest import FileRef, Manifest
    from lode.read.resolve import Chain


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as the manifests say."""

    kind: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at and what was wrong with it."""

    snapshots: int
    files: int
    bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(
    dataset: Dataset,
    *,
    checksums: bool = True,
    progress: Callable[[int, int], None] | None = None,
    runtime: Runtime = REAL,
) -> Verification:
    """Check that history is one line and that every file is there, whole.

    Args:
        dataset: The dataset.
        checksums: Also read every file that has a checksum and compare it; else only sizes are compared.
        progress: Called with (files done, files in all) now and then.
        runtime: Where to take threads from.
    """
    manifests, problems = read_all(dataset)
    problems += check_line(dataset.chain, manifests)
    copies = [path for manifest in manifests.values() for path in dataset.chain.copies(manifest)]
    problems += [
        Problem("missing-copy", path, f"{path} is missing: its partition's readers do not see the snapshot")
        for path, there in zip(copies, runtime.each(dataset.store.exists, copies), strict=True)
        if not there
    ]
    work = [(manifest, file) for manifest in manifests.values() for file in manifest.files]
    for start in range(0, len(work), 256):
        batch = work[start : start + 256]
        for found in runtime.each(lambda item: list(check_file(dataset, *item, checksums=checksums)), batch):
            problems += found
        if progress is not None:
            progress(min(start + 256, len(work)), len(work))
    total = sum(file.size_bytes for _, file in work)
    return Verification(len(manifests), len(work), total, tuple(problems))


def read_all(dataset: Dataset) -> tuple[dict[str, Manifest], list[Problem]]:
    """Every manifest that can be read, by snapshot id, and a problem for every one that cannot."""
    chain = dataset.chain
    manifests: dict[str, Manifest] = {}
    problems = []
    for entry in chain.store.list(f"{chain.paths.manifests}/"):
        snapshot_id = chain.paths.snapshot_of(entry.path)
        if snapshot_id is None:
            continue
        try:
            manifests[snapshot_id] = chain.require(snapshot_id)
        except ManifestInvalidError as error:
            problems.append(Problem("manifest-invalid", entry.path, str(error)))
            continue
        if manifests[snapshot_id].snapshot_id != snapshot_id:
            problems.append(Problem("manifest-invalid", entry.path, f"{entry.path} names another snapshot"))
    return manifests, problems


def check_line(chain: Chain[Manifest], manifests: dict[str, Manifest]) -> Iterator[Problem]:
    """Nobody shares a parent, every parent is there, and the pointer names the one head."""
    children: dict[str | None, list[str]] = {}
    for manifest in manifests.values():
        children.setdefault(manifest.parent_snapshot_id, []).append(manifest.snapshot_id)
    for parent, siblings in children.items():
        if len(siblings) > 1:
            of = f"snapshot {parent}" if parent else "the beginning"
            yield Problem(
                "fork",
                chain.paths.manifests,
                f"{of} has {len(siblings)} children: {', '.join(sorted(siblings))}",
            )
        if parent is not None and parent not in manifests:
            yield Problem(
                "missing-parent",
                chain.paths.manifest(siblings[0]),
                f"parent {parent} of {siblings[0]} is missing",
            )
    for manifest in manifests.values():
        parent_of = manifests.get(manifest.parent_snapshot_id or "")
        if (
            parent_of
            and parent_of.sequence
            and manifest.sequence
            and manifest.sequence != parent_of.sequence + 1
        ):
            path = chain.paths.manifest(manifest.snapshot_id)
            yield Problem(
                "sequence", path, f"{path} has sequence {manifest.sequence} behind {parent_of.sequence}"
            )
    yield from _check_pointer(chain, manifests, children)


def _check_pointer(
    chain: Chain[Manifest], manifests: dict[str, Manifest], children: dict[str | None, list[str]]
) -> Iterator[Problem]:
    try:
        head = chain.resolve()
    except LodeError as error:
        yield Problem("pointer", chain.paths.pointer, f"the head cannot be found: {error}")
        return
    if head.pointer is None and manifests:
        yield Problem("pointer", chain.paths.pointer, "the pointer is missing: the next commit restores it")
    elif head.pointer is not None and head.pending is None and head.pointer.decode() != head.id:
        yield Problem("pointer", chain.paths.pointer, f"it names {head.pointer.decode()}, which is not there")
    if head.id is not None and head.id in children:
        yield Problem("pointer", chain.paths.pointer, f"it names {head.id}, which already has a child")


def check_file(dataset: Dataset, manifest: Manifest, file: FileRef, *, checksums: bool) -> Iterator[Problem]:
    try:
        size = dataset.store.head(file.path).size
        if size != file.size_bytes:
            message = f"{file.path} has {size} bytes, snapshot {manifest.snapshot_id} says {file.size_bytes}"
            yield Problem("size", file.path, message)
        elif checksums and file.checksum is not None and manifest.checksum_algorithm is not None:
            checksum = checksum_of(manifest.checksum_algorithm)
            assert checksum is not None
            verify_file(dataset.store, file, checksum)
    except NotFoundError:
        message = f"{file.path} is missing, snapshot {manifest.snapshot_id} needs it"
        yield Problem("missing-file", file.path, message)
    except ChecksumMismatchError as error:
        yield Problem("checksum", file.path, str(error))
    except LodeError as error:
        yield Problem("unreadable", file.path, f"{file.path}: {error}")
