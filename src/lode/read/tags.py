"""Tags: names that people give to snapshots. A tag is one small object next to the history.

A tag always names the same snapshot: it is created once and can only be removed. ``lode.expire`` keeps the
files of a tagged snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.errors import ManifestInvalidError, NotFoundError
from lode.format.ids import is_id, shortened
from lode.format.manifest import check_version, decode_struct, require
from lode.read.source import get_bounded
from lode.times import is_rfc3339, rfc3339_to_datetime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lode.read.resolve import Chain

SCHEMA_NAME: Final = "lode-tag"
FORMAT_VERSION: Final = "1.0.0"
MAX_TAG_BYTES: Final = 16 << 10
SUFFIX: Final = ".json"


class TagRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a tag's object."""

    schema_name: str
    format_version: str
    name: str
    snapshot_id: str
    sequence: int
    created_at: str


@dataclass(frozen=True, slots=True)
class Tag:
    """A name of a snapshot.

    Args:
        name: The name.
        snapshot_id: The snapshot.
        sequence: The position of the snapshot in history.
        created_at: When the tag was made.
    """

    name: str
    snapshot_id: str
    sequence: int
    created_at: datetime


def load_tag(chain: Chain[Any], name: str) -> Tag | None:
    """The tag of this name; None if there is none.

    Raises:
        ManifestInvalidError: The object cannot be read as a tag.
    """
    path = chain.paths.tag(name)
    try:
        data = get_bounded(chain.store, path, MAX_TAG_BYTES)
    except NotFoundError:
        return None
    except ManifestInvalidError as error:
        raise damaged_tag(chain, name, str(error)) from None
    return decode_tag(chain, name, data)


def decode_tag(chain: Chain[Any], name: str, data: bytes) -> Tag:
    """Read the content of a tag's object."""
    path = chain.paths.tag(name)
    try:
        found = decode_struct(data, TagRecord, origin=path)
        require(found.schema_name == SCHEMA_NAME, "schema_name", f"is not {SCHEMA_NAME!r}", path)
        check_version(found.format_version, path)
        require(found.name == name, "name", f"is {shortened(found.name)}, not {name!r}", path)
        require(is_id(found.snapshot_id), "snapshot_id", "cannot be an id", path)
        require(found.sequence > 0, "sequence", "is not a position in history", path)
        require(is_rfc3339(found.created_at), "created_at", "is not an RFC 3339 time", path)
    except ManifestInvalidError as error:
        raise damaged_tag(chain, name, str(error)) from None
    return Tag(name, found.snapshot_id, found.sequence, rfc3339_to_datetime(found.created_at))


def damaged_tag(chain: Chain[Any], name: str, complaint: str) -> ManifestInvalidError:
    """The error for a tag that cannot be used."""
    return ManifestInvalidError(
        f"{chain.name}: the tag {shortened(name)} is damaged ({complaint}): remove it with untag, and tag "
        "the snapshot again"
    )


def missing_target(chain: Chain[Any], tag: Tag) -> ManifestInvalidError:
    """The error for a tag that names a snapshot without a manifest."""
    return damaged_tag(chain, tag.name, f"it names snapshot {tag.snapshot_id!r}, which is not there")


def tag_names(chain: Chain[Any]) -> Iterator[str]:
    """The names of all tags, in order. Other objects there are skipped."""
    prefix = chain.paths.tags
    for entry in chain.store.list(prefix):
        name = entry.path.removeprefix(prefix)
        if name.endswith(SUFFIX) and "/" not in name and is_id(name.removesuffix(SUFFIX)):
            yield name.removesuffix(SUFFIX)


def load_tags(chain: Chain[Any]) -> list[Tag]:
    """All tags by name. One that is removed meanwhile is left out.

    Raises:
        ManifestInvalidError: One of them cannot be read. It may be the one that matters.
    """
    found = (load_tag(chain, name) for name in tag_names(chain))
    return [tag for tag in found if tag is not None]


def is_tagged(chain: Chain[Any], snapshot_id: str) -> bool:
    """Whether a tag names this snapshot. Damaged tags name none."""
    for name in tag_names(chain):
        try:
            tag = load_tag(chain, name)
        except ManifestInvalidError:
            continue
        if tag is not None and tag.snapshot_id == snapshot_id:
            return True
    return False
