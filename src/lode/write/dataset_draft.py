"""A snapshot of a dataset before it has its place in history."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins
from msgspec.structs import replace

from lode.codec.arrow_json import schema_from_bytes
from lode.codec.components import codec_named
from lode.codec.field_ids import disagreement
from lode.codec.go_profile import check_go_change, check_go_schema
from lode.codec.protocol import has_field_ids, takes_any_record
from lode.errors import (
    ComponentMismatchError,
    InvalidOptionError,
    ManifestInvalidError,
    SchemaViolationError,
    SnapshotConflictError,
    SnapshotExpiredError,
)
from lode.evolution import adopt, check_schema
from lode.format.manifest import COMPACT, DROP, FORMAT_VERSION, SCHEMA_NAME, Manifest, Removed
from lode.format.pointer import SHARED
from lode.lazy import pa
from lode.times import rfc3339_to_ns
from lode.write.draft import CommitSummary, Draft, behind, dropped, moment_after
from lode.write.rebase import Touched, find_overlap, partitions_of, recent_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lode.codec.field_ids import FieldIds
    from lode.definition import Definition
    from lode.evolution import Evolution
    from lode.format.group import Follows
    from lode.format.manifest import CheckpointRef, FileRef
    from lode.format.paths import Layout
    from lode.read.define import Definitions
    from lode.read.state import States
    from lode.write.removal import Removal
    from lode.write.stage import Staged, Stager

# How often a compaction writes a checkpoint before it commits: again after a lost swap, but not after each.
MAX_CHECKPOINTS: Final = 2


@dataclass(slots=True)
class DatasetDraft(Draft[Manifest]):
    """The files and metadata of one commit to a dataset."""

    stager: Stager = field(kw_only=True)
    metadata: dict[str, Any] = field(kw_only=True)
    now_ns: Callable[[], int] = field(kw_only=True)
    definitions: Definitions = field(kw_only=True)
    states: States = field(kw_only=True)
    # What the dataset was when the files were staged, and how this commit changes that, if it does.
    definition: Definition = field(kw_only=True)
    evolution: Evolution | None = field(kw_only=True, default=None)
    # What the commit does, if it does not append.
    operation: str | None = field(kw_only=True, default=None)
    removal: Removal | None = field(kw_only=True, default=None)
    # Whether it may be the first snapshot of the dataset. A write to one that existed may not follow a drop.
    creates: bool = field(kw_only=True, default=False)
    # The oldest snapshot that can be read after this commit, if it expires others.
    floor: int | None = field(kw_only=True, default=None)
    staged: tuple[Staged, ...] = field(kw_only=True, default=())
    # Columns of the files that were dropped before the commit.
    surplus: list[str] = field(kw_only=True, default_factory=list)

    def __post_init__(self) -> None:
        if self.removal is not None:
            can_redo = self.removal.operation in ("overwrite", "delete", "merge")
            self.remedy = "run it again" + (', or with on_conflict="redo"' if can_redo else "")

    def place_on(self, parent: Manifest | None, sequence: int) -> Manifest:
        components, parts = self.stager.components, self._parts()
        before = parent
        if parent is not None and parent.operation == DROP:
            if not self.creates:
                raise dropped(f"dataset {self.stager.dataset_id!r}", parent.snapshot_id)
            before = None
        definition = self._definition_on(before)
        self.definitions.save(definition)
        placed = Manifest(
            schema_name=SCHEMA_NAME,
            format_version=FORMAT_VERSION,
            dataset_id=self.stager.dataset_id,
            snapshot_id=self.snapshot_id,
            created_at=moment_after(parent.created_at if parent else None, self.now_ns),
            metadata=self.metadata,
            files=tuple(sorted((file for part in parts for file in part.files), key=attrgetter("path"))),
            parent_snapshot_id=parent.snapshot_id if parent else None,
            row_count=sum([part.row_count for part in parts]),
            min_timestamp=_pick(min, [part.min_timestamp for part in parts]),
            max_timestamp=_pick(max, [part.max_timestamp for part in parts]),
            codec=components.codec.name if components.codec else None,
            compressor=components.compressor.name,
            partitioner=self.stager.layout.partitioner,
            checksum_algorithm=components.checksum.name if components.checksum else None,
            sequence=sequence,
            x=self._extension(before, definition),
        )
        return placed if before is None else self._with_checkpoint(placed, before)

    def _with_checkpoint(self, placed: Manifest, parent: Manifest) -> Manifest:
        """Name the newest checkpoint. Later commits repeat it, so that readers find it from any of them."""
        ref: CheckpointRef | None = None
        # A compaction leaves a small state behind a long history. After two lost swaps a checkpoint would
        # only make the next one be lost too.
        if self.removal is not None and self.removal.has_checkpoint and self.rebases < MAX_CHECKPOINTS:
            ref = self.states.checkpoint_with(placed, parent)
        ref = ref or self.states.checkpoint_after(parent)
        if ref is None:
            return placed
        return replace(placed, x={**(placed.x or {}), "checkpoint": to_builtins(ref)})

    def _definition_on(self, parent: Manifest | None) -> Definition:
        """What the dataset is after this commit, with ``parent`` as the snapshot before it.

        The parent may have another definition than the one that the files were staged for: somebody evolved
        the dataset, or created it at the same time.
        """
        before = self.definition if parent is None else self.definitions.at(parent)
        if before.digest != self.definition.digest:
            check_definition(before, self.definition, self.stager.dataset_id)
        self.surplus = []
        columns = self._columns()
        if columns is not None:
            if before.digest != self.definition.digest:
                columns = self._still_there(columns, self.definition, before)
            # Records that were written without a schema need not fit the first one that is given later.
            if before.columns is None and (parent is None or not takes_any_record(codec_named(before.codec))):
                before = adopt(before, columns)
        after = self._evolved(before)
        if after.shared_with_go:
            _check_for_go(before, after)
        if columns is not None:
            check_schema(after, columns, self.stager.dataset_id)
        for part in self.staged:
            self._check_part(part, before, after)
        codec = self.stager.components.codec
        if has_field_ids(codec):
            self._check_ids(codec.field_ids, after)
        return after

    def _check_ids(self, staged: FieldIds | None, after: Definition) -> None:
        """Refuse Parquet files with other ids of columns than the dataset has.

        A write that adds columns stages files with the ids that these will get. Another writer may add
        columns first.
        """
        ids = after.field_ids
        if staged is None or staged is ids or after.columns is None or not any(True for _ in self._files()):
            return
        name = disagreement(staged, ids or {})
        if name is not None or ids is None:
            raise SchemaViolationError(
                f"the columns of dataset {self.stager.dataset_id!r} have other ids than the files, because "
                "another writer changed the columns while this was written: write it again",
                column=name,
            )

    def _check_part(self, part: Staged, before: Definition, after: Definition) -> None:
        """Refuse files that a stager elsewhere staged for columns that the dataset no longer has so."""
        if part.definition in (None, self.definition.digest) or after.columns is None:
            return
        if part.schema is not None:
            columns = schema_from_bytes(part.schema)
        else:
            try:
                then = self.definitions.load(part.definition or "")
            except ManifestInvalidError:
                return  # of a dataset that did not exist then: its columns were compared by name
            if then.schema is None:
                return
            columns = self._still_there(then.schema, then, before)
        check_schema(after, columns, self.stager.dataset_id)

    def _evolved(self, before: Definition) -> Definition:
        if self.evolution is None:
            return before
        try:
            return self.evolution(before)
        except (InvalidOptionError, SchemaViolationError) as error:
            if before.digest == self.definition.digest:
                raise
            raise SnapshotConflictError(
                f"dataset {self.stager.dataset_id!r}: another writer changed the columns first, and this "
                f"change does not fit any more ({error}); it did not land"
            ) from error

    def _columns(self) -> pa.Schema | None:
        """The columns of the staged files; None if nothing says which they have."""
        declared: pa.Schema | None = getattr(self.stager.components.codec, "schema", None)
        if declared is not None:
            return declared
        found = {part.schema: part for part in self.staged if part.schema is not None}
        if not found:
            return None
        try:
            schemas = [schema_from_bytes(data) for data in found]
            return pa.unify_schemas(schemas)
        except pa.ArrowException as error:
            raise SchemaViolationError(
                f"the parts staged for {self.snapshot_id} have different types for one column: {error}"
            ) from None

    def _still_there(self, columns: pa.Schema, then: Definition, now: Definition) -> pa.Schema:
        """The columns of the staged files that the dataset still has under the same name.

        A file may keep a column that was dropped meanwhile: readers leave it out. One that was renamed would
        be lost to them.
        """
        kept = []
        for column in columns:
            id = then.ids.get(column.name)
            name = now.names.get(id) if id is not None else column.name
            if name is None:
                if column.name in now.ids:
                    name = f"{column.name} (dropped and added again)"
                else:
                    self.surplus.append(column.name)
                    continue
            if name != column.name:
                raise SchemaViolationError(
                    f"column {column.name!r} of dataset {self.stager.dataset_id!r} became {name!r} while "
                    "this was written: write it again",
                    column=column.name,
                )
            kept.append(column)
        return pa.schema(kept)

    def _extension(self, parent: Manifest | None, definition: Definition) -> dict[str, Any]:
        found: dict[str, Any] = {"definition": definition.digest, **self.origin()}
        if definition.shared_with_go:
            found[SHARED] = True
        if self.operation is not None:
            found["operation"] = self.operation
        if self.removal is not None:
            if self.removal.count_on is not None and parent is not None:
                self.removal.removed = self.removal.count_on(parent)
            found |= _removal_fields(self.removal)
        before = 1 if parent is None else self.definitions.floor_at(parent)
        if self.removal is not None and self.removal.restores is not None:
            _check_above(before, self.removal)
        floor = max(self.floor or 1, before, self.begins)
        if floor > 1:
            found["floor"] = floor
        if self.surplus:
            found["surplus"] = sorted(set(self.surplus))
        recalled = recent_commits(parent, self.stager.layout, crowded=self.rebases > 0)
        if recalled:
            found["recent"] = recalled
        return found

    def commits_in(self, manifest: Manifest) -> Iterator[CommitSummary]:
        yield summary_of(manifest, self.stager.layout)
        for snapshot_id, partitions in manifest.recent.items():
            yield CommitSummary(snapshot_id, frozenset(partitions))

    def overlap(self, later: Sequence[CommitSummary]) -> str | None:
        # A compaction changes no rows, so every write can follow it.
        changes = [commit for commit in later if commit.operation != COMPACT]
        if changes and not self.rebase:
            return f"snapshot {changes[0].snapshot_id} was committed"
        if self.removal is not None:
            return self.removal.overlap(reversed(later))
        if self.append:
            return None
        ours = partitions_of(self.stager.dataset_id, self._files(), self.stager.layout)
        return find_overlap(ours, changes)

    @property
    def follows(self) -> Follows:
        # What any other commit may follow was decided with files, definitions and floors that only its own
        # writer has at hand. So another writer places it directly on the head.
        is_plain = self.removal is None and self.operation is None and not self._evolves
        if not (is_plain and self.rebase and self.floor is None):
            return "head"
        return "any" if self.append else "disjoint"

    @property
    def _evolves(self) -> bool:
        """Whether it changes the definition of its base.

        If not, it changes that of no member either: members that follow each other have the same one.
        """
        if self.evolution is None:
            return False
        base = self.base.manifest if self.base is not None else None
        if base is None or self.declared is None:
            return True
        return self.declared.manifest.definition != base.definition

    @property
    def is_drop(self) -> bool:
        return self.operation == DROP

    def line(self) -> DatasetLine:
        return DatasetLine(self)

    @property
    def may_retry(self) -> bool:
        # What a commit removes was chosen by what it has read: it must be prepared again.
        return self.rebase and self.removal is None

    def _files(self) -> Iterator[FileRef]:
        return (file for part in self._parts() for file in part.files)

    def _parts(self) -> tuple[Staged, ...]:
        return self.staged if self.removal is None else self.removal.staged(self.staged)


class DatasetLine:
    """The drafts of other writers that a draft of a dataset can follow, in one group."""

    def __init__(self, leader: DatasetDraft) -> None:
        self._layout = leader.stager.layout
        self._parent: Manifest | None = None
        self._touched = Touched()
        # What the leader must not find changed before its own commit.
        self._reserved = Touched()
        if leader.follows == "disjoint":
            self._reserved.add(partitions_of(leader.stager.dataset_id, leader._files(), self._layout))

    def place(self, other: Manifest, follows: Follows) -> Manifest | None:
        commit = summary_of(other, self._layout)
        changes = commit.partitions if commit.operation != COMPACT else frozenset[str]()
        parent = self._parent
        if parent is not None and (follows == "head" or other.definition != parent.definition):
            return None
        if follows == "disjoint" and self._touched.overlaps(commit.partitions):
            return None
        if self._reserved.overlaps(changes):
            return None
        self._touched.add(changes)
        self._parent = other if parent is None else _append_behind(parent, other)
        return self._parent


def _append_behind(parent: Manifest, draft: Manifest) -> Manifest:
    """The plain append of another writer as the child of ``parent`` instead of the head before it."""
    extension = {name: value for name, value in (draft.x or {}).items() if name != "recent"}
    floor = max(draft.floor, parent.floor)
    if floor > 1:
        extension["floor"] = floor
    named = [found for found in (parent.checkpoint, draft.checkpoint) if found is not None]
    if named:
        extension["checkpoint"] = to_builtins(max(named, key=attrgetter("sequence")))
    return replace(draft, x=extension, **behind(parent, draft))


def summary_of(manifest: Manifest, layout: Layout) -> CommitSummary:
    """What another writer must know of a commit to follow it."""
    removes, restores = manifest.removes, manifest.restores
    touched = partitions_of(manifest.dataset_id, manifest.files, layout)
    if removes is not None:
        touched |= frozenset(removes.partitions)
        touched |= {layout.partition_of(manifest.dataset_id, path) for path in removes.files}
    if restores is not None:
        touched |= {""}
    return CommitSummary(manifest.snapshot_id, touched, manifest.operation, removes, restores)


def _check_above(floor: int, removal: Removal) -> None:
    """Refuse to restore a snapshot that another writer has expired: its files may be gone."""
    if removal.restored_sequence < floor:
        raise SnapshotExpiredError(
            f"snapshot {removal.restores} is expired: history can be read from number {floor} on"
        )


def _check_for_go(before: Definition, after: Definition) -> None:
    """Refuse columns of Parquet files that Go, which finds them by position, would misread."""
    if after.codec != "parquet" or after.schema is None or after.columns == before.columns:
        return
    if before.schema is None:
        check_go_schema(after.schema)
    else:
        check_go_change(before.schema, after.schema)


def _removal_fields(removal: Removal) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if removal.removes is not None:
        found["removes"] = to_builtins(removal.removes)
    if removal.restores is not None:
        found["restores"] = removal.restores
    if removal.removed != Removed():
        found["removed"] = to_builtins(removal.removed)
    if removal.carried:
        found["carried"] = sorted(removal.carried)
    return found


def check_definition(stored: Definition, opened: Definition, dataset_id: str) -> None:
    """Refuse to write with another layout, codec or compressor than the dataset has."""
    for what, ours, theirs in (
        ("layout", opened.layout, stored.layout),
        ("partition keys", ", ".join(opened.keys), ", ".join(stored.keys)),
        ("codec", opened.codec, stored.codec),
        ("compressor", opened.compressor, stored.compressor),
    ):
        if ours != theirs:
            raise ComponentMismatchError(
                f"dataset {dataset_id!r} has the {what} {theirs!r} and is opened with {ours!r}: leave the "
                "option out, or give the one it has"
            )


def _pick(choose: Callable[..., str], moments: list[str | None]) -> str | None:
    present = list(filter(None, moments))
    return choose(present, key=rfc3339_to_ns) if present else None
