"""Pipelines written down as YAML.

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
from lode.spark.pipeline import Pipeline
from lode.spark.place import Place, place_of

if TYPE_CHECKING:
    import os

_KEYS: Final = ("name", "source", "tables", "steps", "sink", "mode", "every", "spark")


@dataclass(frozen=True, slots=True)
class Definition:
    """A pipeline, and the Spark it asks for."""

    pipeline: Pipeline
    master: str = "local[*]"
    settings: Mapping[str, str] = field(default_factory=dict)


def load(path: str | os.PathLike[str]) -> Definition:
    """Read a pipeline from a YAML file; what is wrong with it is said with the file's name."""
    with needs("a pipeline in YAML", "spark"):
        import yaml  # type: ignore[import-untyped, unused-ignore]
    try:
        told = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise InvalidOptionError(f"{path} cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise InvalidOptionError(f"{path} is not YAML: {error}") from None
    try:
        return parse(told)
    except InvalidOptionError as error:
        raise InvalidOptionError(f"{path}: {error}") from None


def parse(told: object) -> Definition:
    """The pipeline that a mapping describes."""
    values = _mapping(told, "a pipeline")
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
    return Definition(
        Pipeline(
            str(values["name"]),
            _place(values["source"], "'source'"),
            _place(values["sink"], "'sink'"),
            [_step(step) for step in _list(values.get("steps") or [])],
            {name: _place(place, f"table {name!r}") for name, place in tables.items()},
            mode=values.get("mode", "batch"),
            every=float(every),
        ),
        spark.pop("master", "local[*]"),
        spark,
    )


def _mapping(told: object, what: str) -> dict[str, Any]:
    if not isinstance(told, Mapping):
        raise InvalidOptionError(f"{what} is a mapping, got {type(told).__name__}")
    return {str(key): value for key, value in told.items()}


def _list(told: object) -> list[Any]:
    return told if isinstance(told, list) else [told]


def _place(told: object, what: str) -> Place:
    try:
        return place_of(_mapping(told, what))
    except InvalidOptionError as error:
        raise InvalidOptionError(f"{what}: {error}") from None


def _step(told: object) -> str:
    if not isinstance(told, str):
        raise InvalidOptionError(f"a step is SQL or 'module:function', got {told!r}")
    return told
