"""A pipeline of a project, and what to do if it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lode.pipeline.pipeline import Pipeline

OnFailure: TypeAlias = Callable[[str, Exception], object]


@dataclass(frozen=True, slots=True)
class Task:
    """A pipeline of a project, and what to do if it fails.

    Attributes:
        pipeline: The pipeline.
        retries: How often a run is tried again after an error that may pass.
        on_failure: Called with the pipeline's name and the error when a run has failed.
    """

    pipeline: Pipeline
    retries: int = 0
    on_failure: OnFailure | None = None
