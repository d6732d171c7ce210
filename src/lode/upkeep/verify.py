"""Verify a dataset or a volume against its manifests: a linear history, and every file and block intact.

``take_inventory`` reads the history and lists the objects that must exist. ``check_copy`` and
``check_object`` check one object each. ``verify`` does all of it in this process, ``lode.spark.jobs.verify``
on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.checksum import checksum as checksum_of
from lode.dataset import Dataset
from lode.definition import decode_definition
from lode.errors import (
    ChecksumMismatchError,
    DataError,
    LodeError,
    MissingError,
    NoSnapshotsError,
    NotFoundError,
    UsageError,
)
from lode.format.manifest import DROP, MAX_MANIFEST_BYTES, FileRef, Manifest, decode_manifest, json_text
from lode.format.partition_values import contradicts
from lode.read.manifests import read_manifests
from lode.read.resolve import ANY_KEYS, EncodedManifest
from lode.read.source import get_bounded, verify_file
from lode.read.tags import load_tag, tag_names
from lode.runtime import REAL, Runtime
from lode.upkeep.beside import Beside, Published, check_intent
from lode.upkeep.derived import Bound, check_checkpoints, check_digests, check_segments
from lode.upkeep.line import Link, Problem, check_links, check_pointer
from lode.upkeep.retained import retained
from lode.upkeep.share import ALL, Share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.format.volume import VolumeManifest
    from lode.read.resolve import Chain
    from lode.store.protocol import Store
    from lode.volume import Volume

__all__ = [
    "ExpectedCopy",
    "ExpectedObject",
    "Inventory",
    "Problem",
    "Verification",
    "check_copy",
    "check_object",
    "take_inventory",
    "verify",
]

# Objects between two calls of ``progress``.
_BATCH: Final = 256


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, and the problems that were found. Blocks of a volume count as files."""

    snapshots: int
    files: int
    bytes: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


class ExpectedObject(msgspec.Struct, frozen=True, gc=False):
    """A file or block that a manifest names. Pickles."""

    snapshot_id: str
    file: FileRef
    checksum_algorithm: str | None = None


class ExpectedCopy(msgspec.Struct, frozen=True, gc=False):
    """A partition's copy of a manifest, and the digests of what it may hold. Pickles."""

    path: str
    digests: tuple[bytes, ...]


@dataclass(slots=True)
class Inventory:
    """The objects that must exist by the manifests, and the problems of the manifests themselves."""

    snapshots: int = 0
    copies: list[ExpectedCopy] = field(default_factory=list)
    objects: list[ExpectedObject] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def verification(self) -> Verification:
        size = sum(expected.file.size_bytes for expected in self.objects)
        return Verification(self.snapshots, len(self.objects), size, tuple(self.problems))


def verify(
    target: Dataset | Volume,
    *,
    checksums: bool = True,
    progress: Callable[[int, int | None], None] | None = None,
    runtime: Runtime = REAL,
) -> Verification:
    """Check that the history is linear and that every file or block exists and is intact.

    Args:
        target: The dataset or the volume.
        checksums: Also read every object that has a checksum and compare it, and manifests with their
            intents; else only sizes are compared.
        progress: Called with (objects done, objects in all) now and then.
        runtime: Provides the threads and the clock.

    Raises:
        NoSnapshotsError: There is no such dataset or volume. Damage is never raised, but reported.
    """
    store = target.store
    found = take_inventory(target, runtime, intents=checksums)
    for copy in runtime.each(lambda expected: check_copy(store, expected), found.copies):
        found.problems += copy
    total = len(found.objects)
    for start in range(0, total, _BATCH):
        batch = found.objects[start : start + _BATCH]
        for problems in runtime.each(
            lambda expected: check_object(store, expected, checksums=checksums), batch
        ):
            found.problems += problems
        if progress is not None:
            progress(min(start + _BATCH, total), total)
    return found.verification()


def take_inventory(
    target: Dataset | Volume, runtime: Runtime = REAL, share: Share = ALL, *, intents: bool = True
) -> Inventory:
    """Read every manifest, several at once, and check that they form one line that ends at the pointer.

    Manifests are read from their own objects. History segments repeat them and would hide damage.

    Args:
        target: The dataset or the volume.
        runtime: Provides the threads.
        share: Only the files and copies in this share, without the checkpoints. The problems of manifests
            are in every share, those of segments in the first one.
        intents: Also compare each manifest with its intent, if that is still there.
    """
    chain: Chain[Any] = target.chain
    listed: list[str] = []
    intended: set[str] = set()
    for entry in chain.store.list(f"{chain.paths.manifests}/"):
        if chain.paths.snapshot_of(entry.path) is not None:
            listed.append(entry.path)
        elif intents and share.has(entry.path) and (id := chain.paths.intended_at(entry.path)) is not None:
            intended.add(id)
    found = Inventory()
    beside = Beside(chain, runtime)
    declared: list[Published] = []
    links: dict[str, Link] = {}
    unreadable: set[str] = set()
    known: set[tuple[str, int, str | None]] = set()
    definitions: set[str] = set()
    bound: dict[str, Bound] = {}
    copies: dict[str, list[ExpectedCopy]] = {}
    expired = _expired(target, share)
    # The sequence of the drop that history follows.
    first = 1

    def decode(data: bytes, origin: str) -> EncodedManifest[Any]:
        return EncodedManifest(chain.decode(data, origin), data)

    for path, encoded in read_manifests(chain.store, listed, decode, runtime):
        snapshot_id = chain.paths.snapshot_of(path) or ""
        if isinstance(encoded, DataError):
            found.problems.append(Problem("manifest-invalid", path, str(encoded)))
            unreadable.add(snapshot_id)
            continue
        manifest = encoded.manifest
        misplaced = list(_check_place(path, snapshot_id, target.id, manifest))
        found.problems += misplaced
        found.problems += _check_partitions(path, target, manifest)
        if not misplaced:
            copies[snapshot_id] = [each for each in _expected_copies(chain, encoded) if share.has(each.path)]
        if manifest.operation == DROP:
            first = max(first, manifest.sequence or 1)
        parent = None if manifest.operation == DROP else manifest.parent_snapshot_id
        links[snapshot_id] = Link(parent, manifest.sequence)
        beside.take(snapshot_id, encoded)
        if isinstance(manifest, Manifest) and not share.number:
            bound[snapshot_id] = Bound.of(encoded)
        if snapshot_id in intended and "group" not in (manifest.x or {}):
            declared.append(Published.of(encoded))
        try:
            if isinstance(manifest, Manifest) and manifest.definition is not None:
                definitions.add(manifest.definition)
        except DataError as error:
            found.problems.append(Problem("manifest-invalid", path, str(error)))
        for expected in _expected_by(manifest):
            key = (expected.file.path, expected.file.size_bytes, expected.file.checksum)
            if share.has(key[0]) and key not in known and key[0] not in expired:
                known.add(key)
                found.objects.append(expected)
    if first > 1:
        links = {id: link for id, link in links.items() if (link.sequence or first) >= first}
        found.objects = [expected for expected in found.objects if expected.snapshot_id in links]
    found.copies = [copy for id in links for copy in copies.get(id, ())]
    found.snapshots = len(links) - sum(link.parent is None for link in links.values() if first > 1)
    found.problems += check_links(chain, links, unreadable, first)
    found.problems += check_pointer(chain, links, unreadable, runtime)
    found.problems += beside.check(set(links), first, contents=intents)
    known_damage = {problem.path for problem in found.problems}
    for problems in runtime.each(lambda published: check_intent(chain, published), declared):
        found.problems += [problem for problem in problems if problem.path not in known_damage]
    for problems in runtime.each(lambda digest: list(_check_definition(chain, digest)), sorted(definitions)):
        found.problems += problems
    found.problems += _check_tags(chain, first)
    bound = {id: each for id, each in bound.items() if id in links}
    reported = {problem.path for problem in found.problems}
    found.problems += [each for each in check_digests(chain, bound) if each.path not in reported]
    found.problems += check_segments(chain, bound, first)
    if not listed and not found.problems:
        raise NoSnapshotsError(f"{chain.name} in {chain.store.url} does not exist: check its name")
    if isinstance(target, Dataset) and share == ALL:
        found.problems += check_checkpoints(target)
    return found


def _expired(target: Dataset | Volume, share: Share) -> frozenset[str]:
    """The files that an expiry has removed, or will. Empty if history is damaged."""
    if not isinstance(target, Dataset):
        return frozenset()
    try:
        found, head = target._changes.handle.look()
        if head.manifest is None:
            return frozenset()
        return retained(found, head.manifest, found.definitions.floor_at(head.manifest), share=share).expired
    except (DataError, MissingError, UsageError):
        return frozenset()


def _check_tags(chain: Chain[Any], first: int) -> Iterator[Problem]:
    """Check that every tag can be read and names a snapshot."""
    for name in tag_names(chain):
        path = chain.paths.tag(name)
        try:
            tag = load_tag(chain, name)
            if tag is None or tag.sequence < first:
                continue  # what an interrupted drop has left
            if chain.manifest(tag.snapshot_id) is None:
                yield Problem("tag", path, f"{path} names snapshot {tag.snapshot_id}, which is missing")
        except DataError as error:
            yield Problem("tag", path, str(error))


def _check_definition(chain: Chain[Any], digest: str) -> Iterator[Problem]:
    """Check that a definition that snapshots refer to exists and has their digest."""
    path = chain.paths.definition(digest)
    try:
        decode_definition(get_bounded(chain.store, path, MAX_MANIFEST_BYTES), digest, path)
    except NotFoundError:
        yield Problem("definition", path, f"{path} is missing, and snapshots refer to it")
    except DataError as error:
        yield Problem("definition", path, str(error))


def _expected_copies(chain: Chain[Any], encoded: EncodedManifest[Any]) -> Iterator[ExpectedCopy]:
    """The copies of a manifest. Each is the whole manifest or the part of its partition.

    The whole one is what version 0.1, the Go implementation and stores with links put everywhere.
    """
    copies = chain.copies(encoded)
    whole = _digests(encoded.data) if copies else ()
    for path, data in copies.items():
        yield ExpectedCopy(path, whole if data is encoded.data else (*whole, *_digests(data)))


def _digests(data: bytes) -> tuple[bytes, bytes]:
    """The digest of these bytes, and that of their content in whatever form it is written."""
    content = json_text(decode_manifest(data, "")).encode()
    return sha256(data.strip()).digest(), sha256(content).digest()


def check_copy(store: Store, expected: ExpectedCopy) -> list[Problem]:
    """Check that a partition has its copy of a manifest, and that it is one."""
    path = expected.path
    try:
        data = get_bounded(store, path, MAX_MANIFEST_BYTES)
        # Decoding takes longer, and on a disk every copy may be the whole manifest.
        if sha256(data.strip()).digest() in expected.digests or _digests(data)[1] in expected.digests:
            return []
        reason = "it differs from the manifest of its snapshot: restore the one that is damaged"
    except NotFoundError:
        message = f"{path} is missing: its partition's readers do not see the snapshot"
        return [Problem("missing-copy", path, message)]
    except DataError as error:
        reason = f"{str(error).removeprefix(': ')}: remove it, and copy the manifest of its snapshot there"
    except LodeError as error:
        return [Problem("unreadable", path, f"{path}: {error}")]
    return [Problem("copy-invalid", path, f"{path} is not the copy of a manifest: {reason}")]


def check_object(store: Store, expected: ExpectedObject, *, checksums: bool) -> list[Problem]:
    """Check that a file or block exists and has its size and, with ``checksums``, its checksum."""
    file = expected.file
    try:
        size = store.head(file.path).size
        if size != file.size_bytes:
            message = f"{file.path} has {size} bytes, snapshot {expected.snapshot_id} says {file.size_bytes}"
            return [Problem("size", file.path, message)]
        checksum = checksum_of(expected.checksum_algorithm)
        if checksums and file.checksum is not None and checksum is not None:
            verify_file(store, file, checksum)
    except NotFoundError:
        message = f"{file.path} is missing, snapshot {expected.snapshot_id} needs it"
        return [Problem("missing-file", file.path, message)]
    except ChecksumMismatchError as error:
        return [Problem("checksum", file.path, str(error))]
    except LodeError as error:
        return [Problem("unreadable", file.path, f"{file.path}: {error}")]
    return []


def _expected_by(manifest: Manifest | VolumeManifest) -> Iterator[ExpectedObject]:
    algorithm = manifest.checksum_algorithm
    if isinstance(manifest, Manifest):
        for file in manifest.files:
            slim = FileRef(file.path, file.size_bytes, file.checksum)
            yield ExpectedObject(manifest.snapshot_id, slim, algorithm)
    else:
        for block in manifest.blocks:
            slim = FileRef(block.path, block.length, block.checksum)
            yield ExpectedObject(manifest.snapshot_id, slim, algorithm)


def _check_partitions(path: str, target: Dataset | Volume, manifest: Any) -> Iterator[Problem]:
    """Check that the partition values of files are those of their paths."""
    if not isinstance(target, Dataset) or not isinstance(manifest, Manifest):
        return
    for file in manifest.files:
        # Not the layout of the dataset: a damaged pointer does not tell it.
        partition = ANY_KEYS.partition_of(target.id, file.path)
        if file.partition is not None and partition:
            key = contradicts(partition, file.partition)
            if key is not None:
                message = f"{path} says of {file.path} that {key!r} is {file.partition[key]!r}"
                yield Problem("partition-value", path, f"{message}: restore the manifest")


def _check_place(
    path: str, snapshot_id: str, id: str, manifest: Manifest | VolumeManifest
) -> Iterator[Problem]:
    """Check that a manifest is of the snapshot and the dataset or volume that its path names."""
    if manifest.snapshot_id != snapshot_id:
        yield Problem("manifest-invalid", path, f"{path} names another snapshot, {manifest.snapshot_id}")
    owner = manifest.dataset_id if isinstance(manifest, Manifest) else manifest.volume_id
    if owner != id:
        yield Problem("manifest-invalid", path, f"{path} is of {owner!r}, not of {id!r}")
