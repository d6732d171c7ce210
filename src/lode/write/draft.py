"""A dataset's snapshot before it has its place in history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lode.format.manifest import FORMAT_VERSION, SCHEMA_NAME, Manifest, format_time_ns, parse_time_ns
from lode.write.commit import Draft, Rival
from lode.write.rebase import partitions_of, recall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.format.manifest import FileRef
    from lode.write.stage import Staged, Stager


@dataclass(slots=True)
class DatasetDraft(Draft[Manifest]):
    """The files and metadata of one commit to a dataset."""

    stager: Stager = field(kw_only=True)
    metadata: dict[str, Any] = field(kw_only=True)
    now_ns: Callable[[], int] = field(kw_only=True)
    staged: tuple[Staged, ...] = field(kw_only=True, default=())

    def place_on(self, parent: Manifest | None, sequence: int) -> Manifest:
        components = self.stager.components
        return Manifest(
            schema_name=SCHEMA_NAME,
            format_version=FORMAT_VERSION,
            dataset_id=self.stager.dataset_id,
            snapshot_id=self.snapshot_id,
            created_at=moment_after(parent.created_at if parent else None, self.now_ns),
            metadata=self.metadata,
            files=tuple(sorted(self._files(), key=lambda file: file.path)),
            parent_snapshot_id=parent.snapshot_id if parent else None,
            row_count=sum(part.row_count for part in self.staged),
            min_timestamp=_pick(min, [part.min_timestamp for part in self.staged]),
            max_timestamp=_pick(max, [part.max_timestamp for part in self.staged]),
            codec=components.codec.name if components.codec else None,
            compressor=components.compressor.name,
            partitioner=self.stager.layout.partitioner,
            checksum_algorithm=components.checksum.name if components.checksum else None,
            sequence=sequence,
            x=self._extension(parent) or None,
        )

    def _extension(self, parent: Manifest | None) -> dict[str, Any]:
        found = self.origin()
        recalled = recall(parent, self.stager.layout, crowded=self.rebases > 0)
        if recalled:
            found["recent"] = recalled
        return found

    def rivals_in(self, manifest: Manifest) -> Iterator[Rival]:
        layout = self.stager.layout
        yield Rival(manifest.snapshot_id, partitions_of(manifest.dataset_id, manifest.files, layout))
        for snapshot_id, partitions in manifest.recent.items():
            yield Rival(snapshot_id, frozenset(partitions))

    def touched(self) -> frozenset[str]:
        return partitions_of(self.stager.dataset_id, self._files(), self.stager.layout)

    def _files(self) -> Iterator[FileRef]:
        return (file for part in self.staged for file in part.files)


def moment_after(parent: str | None, now_ns: Callable[[], int]) -> str:
    """Now, but later than the parent: time along the chain never runs back, so as_of can rely on it."""
    now = now_ns()
    return format_time_ns(max(now, parse_time_ns(parent) + 1) if parent else now)


def _pick(choose: Callable[..., str], moments: list[str | None]) -> str | None:
    present = [moment for moment in moments if moment is not None]
    return choose(present, key=parse_time_ns) if present else None
