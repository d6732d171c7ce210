"""A dataset's snapshot before it has its place in history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lode.format.manifest import FORMAT_VERSION, SCHEMA_NAME, Manifest, format_time_ns, parse_time_ns
from lode.write.commit import Draft
from lode.write.rebase import common_partition, partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable

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
        writer_and_key = self.idempotency
        return Manifest(
            schema_name=SCHEMA_NAME,
            format_version=FORMAT_VERSION,
            dataset_id=self.stager.dataset_id,
            snapshot_id=self.snapshot_id,
            created_at=moment_after(parent.created_at if parent else None, self.now_ns),
            metadata=self.metadata,
            files=tuple(
                sorted((file for part in self.staged for file in part.files), key=lambda file: file.path)
            ),
            parent_snapshot_id=parent.snapshot_id if parent else None,
            row_count=sum(part.row_count for part in self.staged),
            min_timestamp=_pick(min, [part.min_timestamp for part in self.staged]),
            max_timestamp=_pick(max, [part.max_timestamp for part in self.staged]),
            codec=components.codec.name if components.codec else None,
            compressor=components.compressor.name,
            partitioner=self.stager.layout.partitioner,
            checksum_algorithm=components.checksum.name if components.checksum else None,
            sequence=sequence,
            x={"idempotency": {"writer": writer_and_key[0], "key": writer_and_key[1]}}
            if writer_and_key
            else None,
        )

    def overlap_with(self, other: Manifest) -> str | None:
        layout = self.stager.layout
        assert self.declared is not None, "a draft is compared only after it was declared"
        return common_partition(partitions_of(self.declared.manifest, layout), partitions_of(other, layout))


def moment_after(parent: str | None, now_ns: Callable[[], int]) -> str:
    """Now, but later than the parent: time along the chain never runs back, so as_of can rely on it."""
    now = now_ns()
    return format_time_ns(max(now, parse_time_ns(parent) + 1) if parent else now)


def _pick(choose: Callable[..., str], moments: list[str | None]) -> str | None:
    present = [moment for moment in moments if moment is not None]
    return choose(present, key=parse_time_ns) if present else None
