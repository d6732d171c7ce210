"""What a batch of a pipeline did, and what the next one would do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lode.lineage.record import Input
    from lode.pipeline.expectation import Counts
    from lode.snapshot import Snapshot

Action: TypeAlias = Literal["nothing", "wait", "position", "append", "merge", "recompute", "stop"]
"""What the next batch does. ``position`` only stores the position, such as after an expiry."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch of a pipeline did.

    ``replayed`` means that another runner had committed this batch before; then nothing was written here.
    ``rows_in`` counts the rows that came, and with a recomputation those that went. ``recomputed`` are the
    values of ``recompute_by`` whose output was replaced; None if the output was added, or if all of it, or a
    range, was replaced. ``steps_changed_after`` is the newest snapshot that other steps made.
    """

    number: int
    snapshot: Snapshot
    inputs: tuple[Input, ...]
    rows_in: int
    bytes_in: int
    rows_out: int
    seconds: float
    replayed: bool
    action: Action = "append"
    recomputed: tuple[str, ...] | None = None
    expectations: Mapping[str, Counts] = field(default_factory=dict)
    steps_changed_after: str | None = None

    @property
    def source(self) -> Input:
        """The first input."""
        return self.inputs[0]

    @property
    def snapshots_in(self) -> int:
        return sum(each.snapshots for each in self.inputs)

    def as_dict(self) -> dict[str, Any]:
        """As a line of a log has it."""
        more = {
            "inputs": {each.name: each.up_to.snapshot for each in self.inputs if each.name} or None,
            "recomputed": None if self.recomputed is None else list(self.recomputed),
            "expectations": {name: each.as_dict() for name, each in self.expectations.items()} or None,
            "steps_changed_after": self.steps_changed_after,
        }
        return {
            "batch": self.number,
            "snapshot": self.snapshot.id,
            "action": self.action,
            "after": self.source.after.snapshot,
            "up_to": self.source.up_to.snapshot,
            "snapshots_in": self.snapshots_in,
            "rows_in": self.rows_in,
            "bytes_in": self.bytes_in,
            "rows_out": self.rows_out,
            "seconds": round(self.seconds, 3),
            "replayed": self.replayed,
            **{name: value for name, value in more.items() if value is not None},
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What the next run of a pipeline would do with all that is waiting now.

    ``recompute`` are the values of ``recompute_by`` whose output would be replaced; None if none, or all.
    ``reason`` says why it waits or stops. ``last`` is the newest snapshot that this pipeline made.
    """

    action: Action
    inputs: tuple[Input, ...] = ()
    rows: int = 0
    bytes: int = 0
    recompute: tuple[str, ...] | None = None
    reason: str | None = None
    steps_changed_after: str | None = None
    last: Snapshot | None = None

    @property
    def snapshots(self) -> int:
        """How many snapshots are waiting."""
        return sum(each.snapshots for each in self.inputs)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "action": self.action,
            "inputs": [
                {
                    "name": each.name or "input",
                    "dataset": each.dataset,
                    "after": each.after.snapshot,
                    "up_to": each.up_to.snapshot,
                    "snapshots": each.snapshots,
                }
                for each in self.inputs
            ],
            "snapshots": self.snapshots,
            "rows": self.rows,
            "bytes": self.bytes,
            "recompute": None if self.recompute is None else list(self.recompute),
            "reason": self.reason,
            "steps_changed_after": self.steps_changed_after,
            "last": None if self.last is None else self.last.id,
        }
