"""The definition of a pipeline, and everything about it that can be checked without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from lode.errors import InvalidOptionError
from lode.lineage.position import Limit
from lode.pipeline.expectation import MAX_EXPECTATIONS, Expectation
from lode.pipeline.step import INPUT, CompiledStep, Step, compiled_steps, digest_of
from lode.spark.dataset_ref import DatasetRef, Where, dataset_ref, is_same
from lode.spark.options import STORE_PREFIX, Options, file_options, removal_option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Mode: TypeAlias = Literal["batch", "continuous"]
Write: TypeAlias = Literal["append", "overwrite", "merge"]

SOURCE_OPTIONS: Final = ("startingPosition", "maxSnapshotsPerBatch", "maxBytesPerBatch", "onRemoval")


def limit_of(options: Options) -> Limit:
    """How large a batch may be."""
    return Limit(options.number("maxSnapshotsPerBatch"), options.size("maxBytesPerBatch", 0) or None)


@dataclass(frozen=True, slots=True)
class PipelineDefinition:
    """What a pipeline is; ``Pipeline`` says what its fields mean, and runs it."""

    name: str
    source: Where | None = None
    sink: Where = None  # type: ignore[assignment]  # checked below: positional arguments keep their order
    steps: Sequence[Step] = ()
    tables: Mapping[str, Where] = field(default_factory=dict)
    mode: Mode = "batch"
    every: float = 5.0
    sources: Mapping[str, Where] = field(default_factory=dict, kw_only=True)
    expect: Mapping[str, Expectation] = field(default_factory=dict, kw_only=True)
    quarantine: Where | None = field(default=None, kw_only=True)
    write: Write = field(default="append", kw_only=True)
    on: Sequence[str] = field(default=(), kw_only=True)
    recompute_by: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InvalidOptionError("a pipeline needs a name: it is how its work is recognised")
        if self.mode not in ("batch", "continuous"):
            raise InvalidOptionError(f"mode is {self.mode!r}: it is batch or continuous")
        if self.every <= 0:
            raise InvalidOptionError(f"every is {self.every} seconds: it must be more than 0")
        self._check_names()
        self._check_write()
        for name in ("source", "sink", "quarantine"):
            where = getattr(self, name)
            object.__setattr__(self, name, None if where is None else dataset_ref(where))
        for name in ("sources", "tables"):
            refs = {each: dataset_ref(where) for each, where in getattr(self, name).items()}
            object.__setattr__(self, name, refs)

    def _check_names(self) -> None:
        if self.sink is None:
            raise InvalidOptionError(f"pipeline {self.name!r} has no sink: name the dataset it writes")
        if (self.source is None) == (not self.sources):
            raise InvalidOptionError(
                f"pipeline {self.name!r} needs a source, or several by name as sources, but not both"
            )
        for kind, names in (("table", self.tables), ("source", self.sources)):
            for name in names:
                if not name.isidentifier() or name == INPUT:
                    raise InvalidOptionError(
                        f"{kind} {name!r} cannot be named so: a plain name other than 'input'"
                    )
        for name in self.sources:
            if name in self.tables:
                raise InvalidOptionError(f"{name!r} is a source and a table: name one of them differently")

    def _check_write(self) -> None:
        if self.write not in get_args(Write):
            raise InvalidOptionError(f"write is {self.write!r}: it is one of {', '.join(get_args(Write))}")
        if isinstance(self.on, str):
            object.__setattr__(self, "on", (self.on,))
        for option, names in (
            ("on", self.on),
            ("recompute_by", () if self.recompute_by is None else (self.recompute_by,)),
        ):
            for name in names:
                if not isinstance(name, str) or not name:
                    raise InvalidOptionError(f"{option} is {name!r}: it is the name of a column")
        if (self.write == "merge") != bool(self.on):
            raise InvalidOptionError(
                f"pipeline {self.name!r} has write={self.write!r} and on={list(self.on)}: on names the key "
                "columns of a merge, and a merge needs them"
            )
        if self.write == "merge" and self.recompute_by is not None:
            raise InvalidOptionError(
                f"pipeline {self.name!r} merges and has recompute_by: a merge keeps rows that the input has "
                "no more; use write='overwrite', which replaces the rows of a value"
            )
        if len(self.expect) > MAX_EXPECTATIONS:
            raise InvalidOptionError(
                f"{len(self.expect)} expectations are too many: {MAX_EXPECTATIONS} at most"
            )
        for name, expectation in self.expect.items():
            if not isinstance(expectation, Expectation):
                raise InvalidOptionError(f"expectation {name!r} is {expectation!r}: give an Expectation")

    def check(self) -> None:
        """Check everything that needs no Spark: options, steps, and that inputs and sink differ.

        Raises:
            InvalidOptionError: Something is wrong.
        """
        self.compiled()
        for name, ref in self.inputs.items():
            options = Options(ref.given, also=SOURCE_OPTIONS)
            limit_of(options)
            if removal_option(options) != "fail" and (self.replaces or self.write == "merge"):
                raise InvalidOptionError(
                    f"source {name!r} has onRemoval, which is for write='append' without recompute_by: leave "
                    "it out, because removed rows are followed"
                )
        quarantine = self.quarantine_ref
        written = [self.sink_ref, *([] if quarantine is None else [quarantine])]
        for ref in (*written, *self.table_refs.values()):
            options = Options(ref.given)
            options.flag("mergeSchema")
            file_options(options)
        for ref in self.inputs.values():
            source = ref.without(SOURCE_OPTIONS).open()
            for other in written:
                if is_same(source, other.open()):
                    raise InvalidOptionError(
                        f"pipeline {self.name!r} reads dataset {source.id!r} and writes to it: it would read "
                        "its own output endlessly; write to another dataset"
                    )
        if quarantine is not None and is_same(quarantine.open(), self.sink_ref.open()):
            raise InvalidOptionError(
                f"pipeline {self.name!r} has its sink {quarantine.dataset!r} as quarantine too: name another"
            )

    def compiled(self) -> list[CompiledStep]:
        """The steps, ready to run; what can be checked without Spark is."""
        return compiled_steps(self.steps, list(self.inputs), list(self.tables), linear=not self.replaces)

    @property
    def replaces(self) -> bool:
        """Whether batches replace rows of the sink, which then is the pipeline's own."""
        return self.write == "overwrite" or self.recompute_by is not None

    @property
    def digest(self) -> str:
        """What changes when the steps, the expectations or the kind of write do."""
        expect = {name: [each.check, each.on_fail] for name, each in self.expect.items()}
        return digest_of(self.compiled(), expect, self.write, list(self.on), self.recompute_by)

    @property
    def inputs(self) -> dict[str, DatasetRef]:
        """The inputs as references, by name; a single ``source`` is named ``input``."""
        if self.source is not None:
            return {INPUT: dataset_ref(self.source)}
        return {name: dataset_ref(where) for name, where in self.sources.items()}

    @property
    def quarantine_ref(self) -> DatasetRef | None:
        """The quarantine dataset; None if no expectation uses it."""
        if not any(each.on_fail == "quarantine" for each in self.expect.values()):
            return None
        if self.quarantine is not None:
            return dataset_ref(self.quarantine)
        sink = self.sink_ref
        store = {name: value for name, value in sink.options.items() if name.lower().startswith(STORE_PREFIX)}
        return DatasetRef(sink.path, f"{sink.dataset}_quarantine", **store)

    @property
    def source_ref(self) -> DatasetRef:
        """The first input as a reference."""
        return next(iter(self.inputs.values()))

    @property
    def sink_ref(self) -> DatasetRef:
        """The sink as a reference."""
        return dataset_ref(self.sink)

    @property
    def table_refs(self) -> dict[str, DatasetRef]:
        """The tables as references."""
        return {name: dataset_ref(where) for name, where in self.tables.items()}
