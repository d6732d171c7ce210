"""Pipelines in YAML files.

name: daily
source: {path: s3://lake, dataset: visits, startingPosition: earliest}
tables:
  pages: {path: s3://lake, dataset: pages}
steps:
  - SELECT day, page, count(*) AS visits FROM {input} GROUP BY day, page
  - cleaning:without_robots
sink: {path: s3://lake, dataset: daily, partitionBy: day}
mode: continuous
every: 10
spark: {master: "local[4]", spark.sql.shuffle.partitions: 8}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError
from lode.extras import needs
from lode.near import did_you_mean
from lode.pipeline.pipeline import Pipeline
from lode.spark.dataset_ref import DatasetRef, dataset_ref

if TYPE_CHECKING:
    import os

_KEYS: Final = ("name", "source", "tables", "steps", "sink", "mode", "every", "spark")


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """A pipeline, and the Spark session it needs."""

    pipeline: Pipeline
    master: str = "local[*]"
    settings: Mapping[str, str] = field(default_factory=dict)


def load(path: str | os.PathLike[str]) -> PipelineFile:
    """Read a pipeline from a YAML file. An error names the file."""
    with needs("a pipeline in YAML", "spark"):
        import yaml  # type: ignore[import-untyped, unused-ignore]
    try:
        content = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise InvalidOptionError(f"{path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise InvalidOptionError(f"{path} is not YAML: {error}") from None
    try:
        return parse(content)
    except InvalidOptionError as error:
        raise InvalidOptionError(f"{path}: {error}") from None


def parse(content: object) -> PipelineFile:
    """The pipeline that a mapping describes."""
    values = _mapping(content, "a pipeline")
    for key in values:
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS) or f"there are {', '.join(_KEYS)}"
            raise InvalidOptionError(f"{key!r} is unknown: {hint}")
    for key in ("name", "source", "sink"):
        if not values.get(key):
            raise InvalidOptionError(f"{key!r} is missing")
    every = values.get("every", 5)
    if isinstance(every, bool) or not isinstance(every, int | float):
        raise InvalidOptionError(f"'every' is {every!r}: it is a number of seconds")
    spark = {str(key): str(value) for key, value in _mapping(values.get("spark") or {}, "'spark'").items()}
    tables = _mapping(values.get("tables") or {}, "'tables'")
    return PipelineFile(
        Pipeline(
            str(values["name"]),
            _ref(values["source"], "'source'"),
            _ref(values["sink"], "'sink'"),
            [_step(step) for step in _list(values.get("steps") or [])],
            {name: _ref(table, f"table {name!r}") for name, table in tables.items()},
            mode=values.get("mode", "batch"),
            every=float(every),
        ),
        spark.pop("master", "local[*]"),
        spark,
    )


def _mapping(content: object, what: str) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        raise InvalidOptionError(f"{what} is a mapping, got {type(content).__name__}")
    return {str(key): value for key, value in content.items()}


def _list(content: object) -> list[Any]:
    return content if isinstance(content, list) else [content]


def _ref(content: object, what: str) -> DatasetRef:
    try:
        return dataset_ref(_mapping(content, what))
    except InvalidOptionError as error:
        raise InvalidOptionError(f"{what}: {error}") from None


def _step(content: object) -> str:
    if not isinstance(content, str):
        raise InvalidOptionError(f"a step is SQL or 'module:function', got {content!r}")
    return content
