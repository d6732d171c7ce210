"""Groups of snapshots that one swap commits: drafts that wait for a leader, and the leader's intent.

The intent of a leader is its manifest with one more field, ``group``: the manifests of the other members in
order. Each member's bytes there are the bytes that are published, and so are the leader's without the field.
"""

from hashlib import sha256
from typing import Final, Literal

import msgspec

from lode.errors import ManifestInvalidError
from lode.format.manifest import decode_struct

# What a draft may follow: any member of its group, one that touches other partitions, or only the head.
Follows = Literal["any", "disjoint", "head"]

_OPENING: Final = b',\n  "group": [\n'
_BETWEEN: Final = b",\n"
_CLOSING: Final = b"\n  ]\n}"
# How every manifest ends.
_END: Final = b"\n}"


class Waiting(msgspec.Struct, frozen=True):
    """A draft that waits to be committed by a leader, as stored in a slot."""

    follows: Follows
    manifest: msgspec.Raw
    # How long a small write takes its writer, in seconds.
    write: float = 0.0
    # The digest of the other fields. A leader commits what it reads here, so damage must be seen.
    sha256: str = ""


class _Intent(msgspec.Struct, frozen=True):
    group: tuple[msgspec.Raw, ...] = ()


def encode_group(leader: bytes, members: list[bytes]) -> bytes:
    """The intent of a leader with this manifest, that commits these manifests before it."""
    return leader.removesuffix(_END) + _OPENING + _BETWEEN.join(members) + _CLOSING


def decode_group(intent: bytes, origin: str) -> tuple[bytes, list[bytes]]:
    """Return the leader's manifest and those of the other members. An intent without a group has none."""
    if b'"group"' not in intent:
        return intent, []
    members = [bytes(raw) for raw in decode_struct(intent, _Intent, origin=origin).group]
    if not members:
        return intent, []
    tail = _OPENING + _BETWEEN.join(members) + _CLOSING
    data = intent.strip()
    if not data.endswith(tail):
        raise ManifestInvalidError(f"{origin}: field 'group' is not the last one as written", field="group")
    return data.removesuffix(tail) + _END, members


def encode_waiting(follows: Follows, manifest: bytes, write: float = 0.0) -> bytes:
    """The content of a slot."""
    return msgspec.json.encode(
        Waiting(follows, msgspec.Raw(manifest), write, _waiting_digest(follows, manifest, write))
    )


def decode_waiting(data: bytes, origin: str) -> Waiting:
    """Read the content of a slot, or raise ``ManifestInvalidError``."""
    waiting = decode_struct(data, Waiting, origin=origin)
    if waiting.sha256 != _waiting_digest(waiting.follows, waiting.manifest, waiting.write):
        raise ManifestInvalidError(
            f"{origin}: field 'sha256' is not the digest of the others", field="sha256"
        )
    return waiting


def _waiting_digest(follows: Follows, manifest: bytes | msgspec.Raw, write: float) -> str:
    digest = sha256(f"{follows} {write!r} ".encode())
    digest.update(manifest)
    return digest.hexdigest()
