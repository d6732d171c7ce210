"""The rows that a range of history adds, for readers of what is new.

A compaction adds no rows: its files hold rows that other snapshots added. A file that was added in the range
and compacted later is still read from its own path. Files that a delete or a merge has rewritten
(``x.carried``) hold no new rows either. A removal of rows that the reader has seen before cannot be shown as
new rows, so the reader chooses what to do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from lode.errors import InvalidOptionError, RowsRemovedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lode.format.manifest import Manifest
    from lode.read.state import Entry, Fold, States

OnRemoval: TypeAlias = Literal["fail", "ignore", "report"]
"""What a read with ``since`` does about rows that were removed in its range."""
CHANGE: Final = "_change"
"""The column that says what happened to a row."""
INSERT: Final = "insert"
DELETE: Final = "delete"


class Increment(NamedTuple):
    """What a range of history is read as.

    ``kinds`` says of each manifest whether its rows came or went; None if all came.
    """

    manifests: Sequence[Manifest]
    kinds: tuple[str, ...] | None = None


class _Compacted(NamedTuple):
    """The files that a compaction replaced in one partition, and those it put there."""

    inputs: set[str]
    outputs: set[str]


def check_on_removal(on_removal: Any) -> OnRemoval:
    """Return the option, or refuse it."""
    if on_removal not in get_args(OnRemoval):
        raise InvalidOptionError(f'on_removal is {on_removal!r}: it must be "fail", "ignore" or "report"')
    return on_removal  # type: ignore[no-any-return]


def removes_rows(manifest: Manifest) -> bool:
    """Whether rows may have gone with this snapshot."""
    return not manifest.is_append and not manifest.is_compaction


def changes_rows(manifest: Manifest) -> bool:
    """Whether rows may have come or gone with this snapshot. Compactions and expiries change none."""
    return removes_rows(manifest) or (bool(manifest.files) and not manifest.is_compaction)


def increment(
    manifests: Sequence[Manifest], start: Callable[[], Manifest | None], states: States, on_removal: OnRemoval
) -> Increment:
    """Return what a range of history adds.

    Args:
        manifests: The snapshots of the range, oldest first.
        start: Returns the snapshot before the range; only called if the range removes rows.
        states: The states of the dataset.
        on_removal: ``"fail"`` returns the rows that the dataset has more at the end of the range, and raises
            if it has lost others. ``"ignore"`` returns the rows that were added. ``"report"`` returns the
            rows that came and that went with each snapshot, in their order.
    """
    if not any(map(removes_rows, manifests)):
        added = [manifest for manifest in manifests if not manifest.is_compaction]
        return Increment(added, (INSERT,) * len(added) if on_removal == "report" else None)
    if on_removal == "ignore":
        return Increment(states.reduced(_added(manifests)))
    if on_removal == "report":
        return _reported(manifests, states.fold(start()), states)
    return Increment(states.reduced(_net(manifests, states.fold(start()), states)))


def _added(manifests: Sequence[Manifest]) -> list[Entry]:
    """The files with new rows."""
    found: list[Entry] = []
    for manifest in manifests:
        if not manifest.is_compaction:
            carried = set(manifest.carried)
            found += [(file, manifest) for file in manifest.files if file.path not in carried]
    return found


def _reported(manifests: Sequence[Manifest], state: Fold, states: States) -> Increment:
    """The files that each snapshot took out and put in. A compaction changes only how rows are stored."""
    found: list[Manifest] = []
    kinds: list[str] = []

    def report(kind: str, entries: list[Entry]) -> None:
        changed = states.reduced(entries)
        found.extend(changed)
        kinds.extend([kind] * len(changed))

    for manifest in manifests:
        if manifest.restores is not None:
            before, state = state, states.fold(manifest)
            gone, come = before.less(state), state.less(before)
        else:
            gone, come = state.apply(manifest), [(file, manifest) for file in manifest.files]
        if not manifest.is_compaction:
            report(DELETE, gone)
            report(INSERT, come)
    return Increment(found, tuple(kinds))


def _net(manifests: Sequence[Manifest], state: Fold, states: States) -> list[Entry]:
    """The files that the dataset has more at the end of the range.

    Compactions are taken back where all of their files are still there, so files are compared by the paths
    under which they were added. Which file of a compaction holds which rows is not recorded, only partitions
    are: once it has mixed old and new rows of a partition, a later removal there counts as one of old rows.
    """
    old = frozenset(state.paths)
    # Files that hold rows of old ones, by which the snapshot that removed some is found.
    held = set(old)
    culprit: Manifest | None = None
    come: dict[str, Entry] = {}
    compactions: list[_Compacted] = []
    for manifest in manifests:
        if manifest.restores is not None:
            before, state = state, states.fold(manifest)
            gone = before.less(state)
            come |= {entry[0].path: entry for entry in state.less(before)}
        else:
            gone = state.apply(manifest)
            come |= {file.path: (file, manifest) for file in manifest.files}
        if manifest.is_compaction:
            for group in _by_partition(manifest, gone, state):
                compactions.append(group)
                if group.inputs & held:
                    held |= group.outputs
        elif culprit is None and any(file.path in held for file, _ in gone):
            culprit = manifest
    visible = state.paths
    for group in reversed(compactions):
        if group.outputs <= visible:
            visible = (visible - group.outputs) | group.inputs
    if not old <= visible:
        assert culprit is not None
        raise _removed(culprit)
    return [entry for path, entry in come.items() if path in visible and path not in old]


def _by_partition(manifest: Manifest, gone: list[Entry], state: Fold) -> list[_Compacted]:
    """A compaction keeps every row in its partition."""
    found: dict[str, _Compacted] = {}
    for file, _ in gone:
        found.setdefault(state.partition(file.path), _Compacted(set(), set())).inputs.add(file.path)
    for file in manifest.files:
        found.setdefault(state.partition(file.path), _Compacted(set(), set())).outputs.add(file.path)
    return list(found.values())


def _removed(manifest: Manifest) -> RowsRemovedError:
    return RowsRemovedError(
        f"snapshot {manifest.snapshot_id} of dataset {manifest.dataset_id!r} ({manifest.operation}) removed "
        'or rewrote rows from before the range, which on_removal="fail" refuses: with on_removal="ignore" '
        'only the rows that were added are read, with on_removal="report" the removed rows too, marked in a '
        f"column {CHANGE}; or read the whole dataset again",
        snapshot_id=manifest.snapshot_id,
    )
