"""A pipeline of a project, and what to do if it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from lode.pipeline.pipeline import Pipeline

OnFailure: TypeAlias = Callable[[str, Exception], object]


@dataclass(frozen=True, slots=True)
class Task:
    """A pipeline of a project, and what to do if it fails.

    Attributes:
        pipeline: The pipeline.
        retries: How often a run is tried again after an error that may pass.
        on_failure: Called with the pipeline's name and the error when a run has failed.
        input_name: What a single input is called in SQL; several have names of their own.
    """

    pipeline: Pipeline
    retries: int = 0
    on_failure: OnFailure | None = None
    input_name: str | None = None

    @property
    def input_names(self) -> list[str]:
        """The inputs by name."""
        return list(self.pipeline.inputs) if self.input_name is None else [self.input_name]

    def output(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """What the steps make of frames, which are given by the names of inputs and tables."""
        names = self.input_names
        frame = frames[names[0]] if len(names) == 1 else None
        given = {**frames, **dict(zip(self.pipeline.inputs, (frames[name] for name in names), strict=True))}
        for step in self.pipeline.compiled():
            frame = step.run(frame, given)
        assert frame is not None  # several inputs need a step
        return frame
