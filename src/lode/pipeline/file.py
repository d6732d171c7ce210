"""A project in a YAML file, ``lake.yaml``.

lake: s3://bucket/lake
store: {endpoint: "${LAKE_ENDPOINT}"}
spark: {master: "local[*]"}
pipelines:
  silver:
    from: bronze
    tables: {pages: pages}
    steps: [cleaning:without_robots, "SELECT … FROM {bronze} JOIN {pages} USING (page)"]
    expect: {has_id: {check: "id IS NOT NULL", on_fail: quarantine}}
    into: {dataset: silver, partition_by: day}
  gold: {from: silver, steps: sql/gold.sql, recompute_by: day, into: {dataset: gold, write: overwrite}}
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lode.errors import InvalidOptionError
from lode.extras import needs
from lode.pipeline.project import PIPELINE_KEYS, Project
from lode.pipeline.values import hidden, mapping
from lode.pipeline.yaml_text import load_yaml

_KEYS: Final = ("lake", "store", "spark", "parallel", "every", "pipelines")
_VARIABLE: Final = re.compile(r"\$(\$?)\{([A-Za-z_]\w*)\}")
# SQL and conditions of a pipeline have braces of their own, and stand in errors.
_VERBATIM: Final = (("steps",), ("expect",))
# Values from the environment are secrets below these keys.
_SECRET: Final = ("store", "spark")


def load(path: str | os.PathLike[str]) -> Project:
    """Read a project from a YAML file. An error names the file.

    Raises:
        InvalidOptionError: The file cannot be read, or something in it is wrong.
    """
    with needs("a project in YAML", "spark"):
        import yaml  # type: ignore[import-untyped, unused-ignore]

    class Loader(yaml.SafeLoader):  # type: ignore[misc, unused-ignore]
        """Takes every key as text, also ``on``, which YAML takes for true, and refuses a second one."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            names: set[str] = set()
            for key, _ in node.value:
                if str(key.value) in names:
                    raise InvalidOptionError(f"line {key.start_mark.line + 1}: {key.value!r} is there twice")
                names.add(str(key.value))
            self.flatten_mapping(node)  # "<<" takes the keys of another mapping; own keys come after them
            return {str(key.value): self.construct_object(value, deep=True) for key, value in node.value}

    file = Path(path)
    try:
        with file.open(encoding="utf-8") as stream:
            content = load_yaml(stream, "a project in YAML", Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError(f"{path} cannot be read: {error}") from None
    except InvalidOptionError as error:
        raise InvalidOptionError(f"{path}: {error}") from None
    try:
        return parse(content, file.resolve().parent)
    except InvalidOptionError as error:
        raise InvalidOptionError(f"{path}: {error}") from None


def parse(content: object, folder: str | os.PathLike[str] = ".") -> Project:
    """The project that a mapping describes. An error has no value of the environment that may be a secret.

    Args:
        content: As the YAML file has it.
        folder: Where its steps are, and where a relative path of the lake begins.
    """
    values = mapping(content, "a project", _KEYS)
    secrets: set[str] = set()
    values = {key: _substituted(value, (key,), secrets) for key, value in values.items()}
    try:
        return _parsed(values, folder, secrets)
    except InvalidOptionError as error:
        raise InvalidOptionError(hidden(str(error), secrets)) from None


def _parsed(values: dict[str, Any], folder: str | os.PathLike[str], secrets: set[str]) -> Project:
    if not values.get("lake"):
        raise InvalidOptionError("'lake' is missing: say where the datasets are, such as s3://bucket/lake")
    if not isinstance(values["lake"], str):
        raise InvalidOptionError(f"'lake' is {values['lake']!r}: it is a URL or a directory")
    spark = {
        key: _setting(key, value) for key, value in mapping(values.get("spark") or {}, "'spark'").items()
    }
    master = spark.pop("master", "local[*]")
    project = Project(
        values["lake"],
        store_options=mapping(values.get("store") or {}, "'store'"),
        master=master,
        settings=spark,
        folder=folder,
        parallel=_whole(values.get("parallel", 4), "'parallel'"),
        every=_number(values.get("every", 5), "'every'"),
        secrets=secrets,
    )
    pipelines = mapping(values.get("pipelines") or {}, "'pipelines'")
    if not pipelines:
        raise InvalidOptionError("'pipelines' is missing: give at least one, by its name")
    for name, described in pipelines.items():
        try:
            given = mapping(described, "a pipeline", PIPELINE_KEYS)
            for key in ("from", "into"):
                if not given.get(key):
                    raise InvalidOptionError(f"{key!r} is missing")
            arguments = {key: value for key, value in given.items() if value is not None}
            project.add(name, from_=arguments.pop("from"), **arguments)
        except InvalidOptionError as error:
            raise InvalidOptionError(f"pipeline {name!r}: {error}") from None
    project.graph  # noqa: B018 - refuses rings and shared sinks
    return project


def _substituted(value: Any, path: tuple[str, ...], secrets: set[str]) -> Any:
    """The value with ``${NAME}`` replaced by variables of the environment; ``$${NAME}`` is text."""
    if path[0] == "pipelines" and path[2:] in _VERBATIM:
        return value
    if isinstance(value, Mapping):
        return {key: _substituted(inner, (*path, str(key)), secrets) for key, inner in value.items()}
    if isinstance(value, list):
        return [
            _substituted(inner, (*path[:-1], f"{path[-1]}[{number}]"), secrets)
            for number, inner in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        escaped, name = found.groups()
        if escaped:
            return found[0][1:]
        if name not in os.environ:
            raise InvalidOptionError(
                f"{'.'.join(path)} needs the variable {name}, which the environment does not have"
            )
        if any(part in _SECRET for part in path):
            secrets.add(os.environ[name])
        return os.environ[name]

    return _VARIABLE.sub(variable, value)


def _setting(name: str, value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise InvalidOptionError(f"{name!r} in 'spark' is {value!r}: it is a text or a number")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidOptionError(f"{what} is {value!r}: it is a number of seconds, more than 0")
    return float(value)


def _whole(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidOptionError(f"{what} is {value!r}: it is a whole number from 1")
    return value
