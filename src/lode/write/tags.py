"""Make and remove tags.

A tag is put first, and the floor is read afterwards. An expiry commits its floor first, and reads the tags
afterwards. So either the expiry finds the tag and keeps the files, or the tag finds the floor and is refused.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from lode.errors import (
    InvalidPathError,
    NotFoundError,
    OutcomeUnknownError,
    PathExistsError,
    SnapshotExpiredError,
    TagExistsError,
)
from lode.format.ids import check_id, shortened
from lode.near import MAX_NAMES, did_you_mean
from lode.read.tags import (
    FORMAT_VERSION,
    SCHEMA_NAME,
    Tag,
    TagRecord,
    decode_tag,
    load_tag,
    load_tags,
    tag_names,
)
from lode.read.which import check_new_tag
from lode.times import ns_to_rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.read.resolve import AnyManifest, Chain


def put_tag(
    chain: Chain[Any],
    name: str,
    manifest: AnyManifest,
    floor: Callable[[], int],
    now_ns: Callable[[], int],
    *,
    dry_run: bool,
) -> Tag:
    """Name a snapshot.

    Args:
        chain: The history.
        name: The name.
        manifest: The snapshot.
        floor: Reads the sequence of the oldest snapshot that can be read now.
        now_ns: The clock.
        dry_run: Only check that it can be made.

    Raises:
        TagExistsError: The name is that of another snapshot.
        SnapshotExpiredError: The files of the snapshot may be gone.
    """
    check_new_tag(name)
    snapshot_id = manifest.snapshot_id
    if chain.manifest(name) is not None:
        raise InvalidPathError(f"tag {name!r} is the id of a snapshot of {chain.name}: choose another name")
    sequence = chain.sequence_of(manifest)
    known = load_tag(chain, name)
    if known is None:
        _check_floor(chain, name, snapshot_id, sequence, floor())
        record = TagRecord(
            schema_name=SCHEMA_NAME,
            format_version=FORMAT_VERSION,
            name=name,
            snapshot_id=snapshot_id,
            sequence=sequence,
            created_at=ns_to_rfc3339(now_ns()),
        )
        data = msgspec.json.format(msgspec.json.encode(record), indent=2)
        if dry_run:
            return decode_tag(chain, name, data)
        try:
            chain.store.put(chain.paths.tag(name), data)
            known = decode_tag(chain, name, data)
        except (PathExistsError, OutcomeUnknownError):
            known = load_tag(chain, name)  # another process was faster, or it is ours
            if known is None:
                raise
        if known.snapshot_id == snapshot_id:
            try:
                _check_floor(chain, name, snapshot_id, sequence, floor())
            except SnapshotExpiredError:
                chain.store.delete(chain.paths.tag(name))
                raise
    if known.snapshot_id != snapshot_id:
        raise TagExistsError(
            f"tag {name!r} of {chain.name} names snapshot {known.snapshot_id}, not {snapshot_id}: remove it "
            "first with untag, or choose another name"
        )
    return known


def _check_floor(chain: Chain[Any], name: str, snapshot_id: str, sequence: int, floor: int) -> None:
    """Refuse a snapshot that is expired, unless another tag has kept its files all the time."""
    if sequence >= floor:
        return
    if any(tag.snapshot_id == snapshot_id and tag.name != name for tag in load_tags(chain)):
        return
    raise SnapshotExpiredError(
        f"snapshot {snapshot_id} of {chain.name} is expired and cannot be tagged: history can be read from "
        f"number {floor} on"
    )


def remove_tag(chain: Chain[Any], name: str, *, dry_run: bool) -> None:
    """Remove a tag, also a damaged one; in a dry run only check that there is one.

    Raises:
        NotFoundError: There is none of this name.
    """
    path = chain.paths.tag(check_id(name, kind="tag"))
    if not chain.store.exists(path):
        hint = did_you_mean(name, islice(tag_names(chain), MAX_NAMES)) or "tags() lists those it has"
        raise NotFoundError(f"{chain.name} in {chain.store.url} has no tag {shortened(name)}: {hint}")
    if not dry_run:
        chain.store.delete(path)
