"""Check what stands beside the manifests of a history: intents, keys, lists of swept blocks, times.

Each of them is named by a manifest, or repeats one. So what is missing, damaged or of nobody can be told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.errors import LodeError, NotFoundError
from lode.format.ids import shortened
from lode.format.manifest import MAX_MANIFEST_BYTES
from lode.format.volume import swept_path
from lode.read.source import get_bounded
from lode.times import rfc3339_to_ns
from lode.upkeep.line import Problem
from lode.write.publish import MAX_KEY_BYTES, snapshot_of_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.read.resolve import Chain, EncodedManifest
    from lode.runtime import Runtime

# Clocks of machines differ by less, and a live writer publishes faster.
_MINUTE_NS: Final = 60 * 10**9
_KEY: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(slots=True)
class Beside:
    """What the manifests of a history say of other objects. Filled while they are read, then checked."""

    chain: Chain[Any]
    runtime: Runtime
    # The snapshot and the key of each path of a key, and the digests of lists of swept blocks.
    keys: dict[str, tuple[str, tuple[str, str]]] = field(default_factory=dict)
    swept: set[str] = field(default_factory=set)
    # The snapshots that were created after now, with their times.
    ahead: list[tuple[int, str]] = field(default_factory=list)

    def take(self, snapshot_id: str, encoded: EncodedManifest[Any]) -> None:
        """Note what a manifest names."""
        manifest = encoded.manifest
        if manifest.idempotency is not None:
            writer, key = manifest.idempotency
            path = self.chain.paths.key(writer, key, manifest.begins)
            self.keys[path] = snapshot_id, manifest.idempotency
        self.swept.update(getattr(manifest, "swept", ()))
        created = rfc3339_to_ns(manifest.created_at)
        if created - self.runtime.now_ns() > _MINUTE_NS:
            self.ahead.append((created, snapshot_id))

    def check(self, published: set[str], begins: int, *, contents: bool) -> Iterator[Problem]:
        """Compare it with the store.

        Args:
            published: The snapshots of the history that have a manifest.
            begins: The sequence at which the history begins, after the last drop.
            contents: Also read every key; else only what is missing or unknown is looked at.
        """
        yield from self._check_times()
        yield from self._check_keys(published, begins, contents=contents)
        for digest in sorted(self.swept):
            yield from self._check_swept(digest)

    def _check_times(self) -> Iterator[Problem]:
        if self.ahead:
            _, first = min(self.ahead)
            path = self.chain.paths.manifest(first)
            yield Problem(
                "time",
                path,
                f"{path} was created after now, as {len(self.ahead)} in all: a clock was ahead, and as_of "
                "with a time misses their rows until then; name snapshots by id or number instead",
            )

    def _check_keys(self, published: set[str], begins: int, *, contents: bool) -> Iterator[Problem]:
        root = self.chain.paths.keys(begins)
        there = {entry.path for entry in self.chain.store.list(root) if "/" not in entry.path[len(root) :]}
        wanted = {
            path: id for path, (id, _) in self.keys.items() if path.startswith(root) and id in published
        }
        for path in sorted(wanted.keys() - there):
            # A listing is not atomic: it may be older than the manifest.
            if not self.chain.store.exists(path):
                yield Problem(
                    "key",
                    path,
                    f"{path} is missing: a job with the key of snapshot {wanted[path]} would write again; "
                    f'put {{"writer": …, "key": …, "snapshot_id": …}} there, as x.idempotency says',
                )
        for path in sorted(there - wanted.keys()):
            yield from self._check_unknown_key(path)
        paths = sorted(there & wanted.keys()) if contents else []
        for path, named in zip(paths, self.runtime.each(self._named_by, paths), strict=True):
            if named != wanted[path]:
                message = f"{path} does not name snapshot {wanted[path]}: a write with the key repairs it"
                yield Problem("key", path, message)

    def _named_by(self, path: str) -> str | None:
        """The snapshot that a key names, as a write with the key reads it."""
        try:
            record = get_bounded(self.chain.store, path, MAX_KEY_BYTES)
        except LodeError:
            return None
        return snapshot_of_key(record, self.keys[path][1])

    def _check_unknown_key(self, path: str) -> Iterator[Problem]:
        """Check a key that no manifest has: its snapshot is being published, or there is none."""
        try:
            named = _KEY.decode(get_bounded(self.chain.store, path, MAX_MANIFEST_BYTES)).get("snapshot_id")
            if isinstance(named, str) and (self.chain.intent(named) or self.chain.manifest(named)):
                return
            reason = f"it names snapshot {shortened(named)}, which is not there"
        except NotFoundError:
            return  # it was removed since
        except (LodeError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            reason = f"it cannot be read: {error}"
        yield Problem("key", path, f"{path} is not the key of a snapshot: {reason}; remove it")

    def _check_swept(self, digest: str) -> Iterator[Problem]:
        """Check that a list of swept blocks is there, with the digest that manifests name."""
        path = swept_path(self.chain.owner, digest)
        try:
            found = sha256(get_bounded(self.chain.store, path, MAX_MANIFEST_BYTES)).hexdigest()
            if found == digest:
                return
            reason = f"it has the digest {found}"
        except NotFoundError:
            reason = "it is missing"
        except LodeError as error:
            reason = f"it cannot be read: {error}"
        yield Problem(
            "swept", path, f"{path} is not the list of swept blocks that manifests name: {reason}; restore it"
        )


@dataclass(frozen=True, slots=True)
class Published:
    """A manifest to be compared with its intent: its parent, and the digest of its bytes."""

    snapshot_id: str
    parent: str | None
    digest: bytes

    @classmethod
    def of(cls, encoded: EncodedManifest[Any]) -> Published:
        manifest = encoded.manifest
        return cls(manifest.snapshot_id, manifest.parent_snapshot_id, sha256(encoded.data.strip()).digest())


def check_intent(chain: Chain[Any], published: Published) -> list[Problem]:
    """Check that a manifest is what its intent says. The intent for another parent was given up.

    A power cut may leave a torn intent, which nobody needs once its manifest is there. A member of a group
    may have one of its own from before it joined; then its place is in the intent of another snapshot.
    """
    try:
        intent = chain.intent(published.snapshot_id)
    except LodeError:
        return []
    if intent is None or intent.manifest.parent_snapshot_id != published.parent:
        return []
    # Version 0.1 publishes the intent of a leader as it is, with its group.
    if published.digest in {sha256(data.strip()).digest() for data in (intent.data, intent.intent)}:
        return []
    at, path = chain.paths.manifest(published.snapshot_id), chain.paths.intent(published.snapshot_id)
    return [Problem("manifest-invalid", at, f"{at} differs from its intent {path}: one of them is damaged")]
