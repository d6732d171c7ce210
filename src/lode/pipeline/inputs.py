"""The inputs of a pipeline, its positions in them, and what its next batch has to do. Needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lode.errors import InvalidOptionError, NotFoundError, RowsRemovedError
from lode.lineage.position import Frontier, Limit, Position, between, plan_between, starting_position
from lode.lineage.record import Input, Lineage, history_of, input_of, lineage_of
from lode.lineage.touched import column_kind, kind_name, known_values, touched
from lode.pipeline.definition import SOURCE_OPTIONS, limit_of
from lode.pipeline.selection import Selection
from lode.read.incremental import changes_rows
from lode.read.which import ExactId
from lode.spark.options import Options, removal_option

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lode.change.base import Workers
    from lode.dataset import Dataset
    from lode.pipeline.definition import PipelineDefinition
    from lode.read.scan import Scan
    from lode.snapshot import Snapshot
    from lode.spark.dataset_ref import DatasetRef

Positions: TypeAlias = "dict[str, Position]"

_RESTART: Final = (
    "compute all of it again with --full-refresh (Pipeline.refresh), or start it under another name, with a "
    "snapshot or tag as startingPosition"
)


@dataclass(frozen=True, slots=True)
class Work:
    """What a batch does: add the output of new rows, or replace the output of a selection of rows."""

    kind: Literal["position", "append", "merge", "recompute"]
    after: Positions
    up_to: Positions
    rows: int = 0
    size_bytes: int = 0
    selection: Selection | None = None
    # What of recompute_by the output may have, if not what is selected.
    allowed: Selection | None = None


@dataclass(frozen=True, slots=True)
class Last:
    """The newest snapshot that a pipeline has made.

    ``anchor`` names it in the key of the next batch. After a restore of the sink the snapshot that restored
    it does: the batches after the restored one are done a second time.
    """

    anchor: str = ""
    snapshot: Snapshot | None = None
    lineage: Lineage | None = None


class OpenInput:
    """One input."""

    def __init__(self, name: str, given: DatasetRef) -> None:
        options = Options(given.given, also=SOURCE_OPTIONS)
        self.name = name
        self.ref = given.without(SOURCE_OPTIONS)
        self.limit = limit_of(options)
        self.on_removal = removal_option(options)
        self.start = (options.text("startingPosition") or "earliest").strip()
        # Without snapshots it is not known what a dataset is.
        self.exists = self.ref.exists
        self.open()

    def open(self) -> None:
        self.dataset: Dataset = self.ref.open()
        self.frontier = Frontier(self.dataset, remedy=_RESTART)

    def check_stored(self, stored: Input, pipeline: str, sink: str) -> None:
        """Refuse a position in another dataset. A lake may have moved: its history is the same."""
        here = (self.dataset.store.url, self.dataset.id)
        if (stored.store, stored.dataset) == here or not stored.up_to.snapshot:
            return
        try:
            self.dataset.snapshot(ExactId(stored.up_to.snapshot))
        except NotFoundError:
            raise InvalidOptionError(
                f"pipeline {pipeline!r} has written dataset {sink!r} from dataset "
                f"{stored.dataset!r} in {stored.store}, and is to read {self.dataset.id!r} in "
                f"{self.dataset.store.url} now: give it another name, or the source that it had"
            ) from None


class Inputs:
    """The inputs of a pipeline and its positions in them."""

    def __init__(self, pipeline: PipelineDefinition) -> None:
        self._pipeline = pipeline
        self.sink = pipeline.sink_ref.open()
        self.each = {name: OpenInput(name, ref) for name, ref in pipeline.inputs.items()}
        self.last = Last()
        # Positions in datasets that were inputs before. They are kept, so that none is read a second time.
        self.retired: tuple[Input, ...] = ()
        self.after: Positions = {}
        # Later positions that are not stored, because no rows came or went before them.
        self.seen: Positions = {}
        self.column = self._column()
        self.find_last()

    def _column(self) -> str | None:
        """The column by which output is replaced: what was said, or by what the sink is partitioned."""
        if self._pipeline.recompute_by is not None or self._pipeline.write != "overwrite":
            return self._pipeline.recompute_by
        return self.sink.layout.keys[0] if self.sink.layout.keys else None

    @property
    def waiting_for(self) -> OpenInput | None:
        """An input that has no snapshots yet."""
        return next((each for each in self.each.values() if not each.exists), None)

    def find_last(self) -> None:
        """Read the positions from the newest snapshot of this pipeline in the sink."""
        self.take(self._find_last())

    def take(self, last: Last) -> None:
        """Go on after a snapshot of this pipeline."""
        self.last = last
        self.seen = {}
        lineage = last.lineage
        stored = {} if lineage is None else {each.name: each for each in lineage.inputs}
        if len(stored) == 1 and len(self.each) == 1:
            # One input is the same whatever it is called.
            stored = dict(zip(self.each, stored.values(), strict=True))
        self.retired = tuple(
            Input(each.store, each.dataset, each.up_to, each.up_to, each.name)
            for name, each in stored.items()
            if name not in self.each
        )
        self.after = {}
        for name, found in stored.items():
            if name in self.each:
                self.each[name].check_stored(found, self._pipeline.name, self.sink.id)
                self.after[name] = found.up_to

    def _find_last(self) -> Last:
        anchor = ""
        for snapshot in history_of(self.sink):
            if snapshot.manifest.restores is not None:
                anchor = anchor or snapshot.id
                continue
            lineage = lineage_of(snapshot)
            if lineage is None:
                continue
            if lineage.made_by == self._pipeline.name:
                return Last(anchor or snapshot.id, snapshot, lineage)
            if self._pipeline.replaces and lineage.steps:
                raise self._shared(lineage.made_by)
        return Last(anchor)

    def refuse_shared(self) -> None:
        """Refuse to replace rows of a sink that other pipelines write to."""
        for snapshot in self.sink.history():
            lineage = lineage_of(snapshot)
            if lineage is not None and lineage.steps and lineage.made_by != self._pipeline.name:
                raise self._shared(lineage.made_by)

    def _shared(self, other: str) -> InvalidOptionError:
        return InvalidOptionError(
            f"pipeline {self._pipeline.name!r} replaces rows of dataset {self.sink.id!r}, which pipeline "
            f"{other!r} writes too: give each a sink of its own"
        )

    def starting_positions(self) -> tuple[Positions, bool]:
        """The positions at which a batch begins, and whether some of them have to be stored."""
        stored = True
        found: Positions = {}
        for name, each in self.each.items():
            if name in self.after:
                found[name] = self.after[name]
            else:
                found[name] = starting_position(each.dataset, each.start)
                stored = stored and each.start == "earliest"
        return found, not stored

    def advance(self, *, limited: bool = True) -> Positions:
        """The positions at which the next batch ends."""
        start = self.seen or self.after
        return {
            name: each.frontier.advance(start[name], each.limit if limited else Limit())
            for name, each in self.each.items()
        }

    def may_skip(self, work: Work) -> bool:
        """Whether a batch need not be committed: no rows came or went, and the stored positions still serve.

        A position is stored again once an expiry has passed it, so that the rows there can be read.
        """
        if work.kind != "position" or self.last.lineage is None:
            return False
        for name, each in self.each.items():
            after = work.after[name]
            if after.sequence < each.frontier.floor:
                return False
            if any(changes_rows(found.manifest) for found in between(each.dataset, after, work.up_to[name])):
                return False
        return True

    def heads(self) -> Positions:
        """The positions of the newest snapshots."""
        return {name: each.frontier.head() for name, each in self.each.items()}

    def work(self, up_to: Positions, workers: Workers | None = None) -> Work:
        """Decide what a batch up to these positions does.

        Args:
            up_to: Where it ends.
            workers: Read files to find the values that changed.
        """
        if self._pipeline.write != "overwrite" and not (len(self.each) > 1 and self.column):
            try:
                return self._added(up_to)
            except RowsRemovedError as error:
                if self.column is None:
                    raise self._removed(error) from None
        return self._recomputed(up_to, workers)

    def _added(self, up_to: Positions) -> Work:
        rows = size = 0
        allowed = None
        for name, each in self.each.items():
            taken = self.new_rows(each, up_to[name])
            rows, size = rows + taken.row_count, size + taken.size_bytes
            if self.column is not None and taken.row_count:  # then there is one input
                allowed = values_in(taken, self.column)
        kind: Literal["append", "merge"] = "merge" if self._pipeline.write == "merge" else "append"
        return Work(kind if rows else "position", self.after, up_to, rows, size, allowed=allowed)

    def new_rows(self, each: OpenInput, up_to: Position) -> Scan:
        after = self.after[each.name]
        if after == up_to:
            return each.dataset.plan(since=ExactId(up_to.snapshot), as_of=ExactId(up_to.snapshot))
        return plan_between(each.dataset, after, up_to, each.on_removal, remedy=_RESTART)

    def _recomputed(self, up_to: Positions, workers: Workers | None) -> Work:
        found = [
            touched(each.dataset, self.column, self.after[name], up_to[name], workers, remedy=_RESTART)
            for name, each in self.each.items()
            if self.after[name] != up_to[name]
        ]
        rows, size = sum(each.rows for each in found), sum(each.size_bytes for each in found)
        if self.column is None:
            selection = Selection()
        else:
            self._check_kinds(up_to)
            selection = Selection.of(self.column, frozenset().union(*(each.values for each in found)))
        kind: Literal["position", "recompute"] = (
            "recompute" if rows and not selection.is_empty else "position"
        )
        return Work(kind, self.after, up_to, rows, size, selection)

    def _check_kinds(self, up_to: Mapping[str, Position]) -> None:
        """Refuse inputs in which the column has values of several kinds."""
        assert self.column is not None
        kinds = {}
        for name, each in self.each.items():
            scan = each.dataset.plan(as_of=ExactId(up_to[name].snapshot))
            if scan.files:
                kinds[each.dataset.id] = kind_name(column_kind(scan, self.column))
        if len(set(kinds.values())) > 1:
            shown = ", ".join(f"{kind} in {id!r}" for id, kind in kinds.items())
            raise InvalidOptionError(
                f"recompute_by is {self.column!r}, which is {shown}: cast it in one of them"
            )

    def _removed(self, error: RowsRemovedError) -> RowsRemovedError:
        if self._pipeline.write == "merge":
            remedy = "write='overwrite' with recompute_by follows corrections, which a merge cannot"
            ignoring = ""
        else:
            remedy = (
                "set recompute_by to a column of input and output, so that the output of its changed values "
                "is replaced"
            )
            ignoring = "; or say onRemoval for this input"
        return RowsRemovedError(
            f"pipeline {self._pipeline.name!r} has read rows that snapshot {error.snapshot_id} of an input "
            f"removed or rewrote: {remedy}; or compute all of it again with --full-refresh "
            f"(Pipeline.refresh){ignoring}",
            snapshot_id=error.snapshot_id,
        )

    def lineage_inputs(self, after: Positions, up_to: Positions) -> tuple[Input, ...]:
        """What the lineage of a batch says of its inputs."""
        named = bool(self._pipeline.sources)
        own = (
            input_of(each.dataset, after[name], up_to[name], name if named else "")
            for name, each in self.each.items()
        )
        return (*own, *self.retired)


def values_in(scan: Scan, column: str) -> Selection:
    """The rows with values that these files have, as far as statistics say them."""
    values, bounds = known_values(scan, column)
    if values is not None:
        return Selection.of(column, values)
    return Selection(column, None, *bounds) if bounds is not None else Selection(column, nulls=True)


def refuse_renamed(pipeline: PipelineDefinition, known: Collection[str]) -> None:
    """Refuse a pipeline that would add rows a second time, because it had another name before.

    Args:
        pipeline: The pipeline.
        known: The names of pipelines that may have written its sink, too.
    """
    if pipeline.write != "append" or pipeline.replaces:
        return
    read = {
        (ref.without(SOURCE_OPTIONS).open().store.url, ref.dataset)
        for ref in pipeline.inputs.values()
        if Options(ref.given, also=SOURCE_OPTIONS).text("startingPosition") is None
    }
    sink = pipeline.sink_ref.open()
    others: list[tuple[str, str]] = []
    for snapshot in history_of(sink):
        lineage = lineage_of(snapshot)
        if lineage is not None and lineage.made_by == pipeline.name:
            return  # it goes on at its own position
        if lineage is not None and lineage.steps and lineage.made_by not in known:
            same = (each.dataset for each in lineage.inputs if (each.store, each.dataset) in read)
            others += [(lineage.made_by, dataset) for dataset in same]
    if others:
        other, dataset = others[0]
        raise InvalidOptionError(
            f"pipeline {pipeline.name!r} would add rows of dataset {dataset!r} that pipeline {other!r}, "
            f"which is not in the project, has added to {sink.id!r}: name it {other!r} again, or give this "
            "input a starting_position"
        )
