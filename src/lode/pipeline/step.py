"""The steps of a pipeline: SQL over the frames it has, or a Python function over a DataFrame."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from string import Formatter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

CompiledStep: TypeAlias = "Callable[[DataFrame, Mapping[str, DataFrame]], DataFrame]"
Step: TypeAlias = str | Callable[..., Any]

INPUT: Final = "input"
_REFERENCE: Final = re.compile(r"\s*([\w.]+):(\w+)\s*")
_NAME: Final = re.compile(r"\{([^\W\d]\w*)\}")


def compiled_step(step: Step, tables: Mapping[str, Any]) -> CompiledStep:
    """The function that a step stands for; checks all that can be checked without Spark."""
    if callable(step):
        return _function(step)
    named = reference(step)
    return _sql(step, (INPUT, *tables)) if named is None else _function(_load(*named))


def reference(step: str) -> tuple[str, str] | None:
    """The module and the function that a step names; None if it is SQL."""
    found = _REFERENCE.fullmatch(step)
    return None if found is None else (found[1], found[2])


def plain_sql(text: str, names: Sequence[str]) -> str:
    """SQL in which frames are tables of their names, for those who read it without Spark."""
    return _escaped(text, names).format(**{name: name for name in names})


def _sql(text: str, names: Sequence[str]) -> CompiledStep:
    pattern = _escaped(text, names)
    try:
        fields = {field for _, field, _, _ in Formatter().parse(pattern)}
    except ValueError:
        fields = {""}
    if not fields <= {None, *names}:
        raise InvalidOptionError(f"a step has double and single braces: double all of them, or none: {text}")

    def step(frame: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
        frames: dict[str, Any] = {INPUT: frame, **tables}
        return frame.sparkSession.sql(pattern, **frames)

    return step


def _escaped(text: str, names: Sequence[str]) -> str:
    """SQL as Spark's formatter takes it: ``{name}`` is a frame, every other brace is doubled."""
    whole: list[str] = []
    end = 0
    for found in _NAME.finditer(text):
        start, name = found.start(), found[1]
        literal = text[start - 1 : start] == "{" and text[found.end() : found.end() + 1] == "}"
        if not literal and name not in names:
            known = ", ".join(f"{{{name}}}" for name in names)
            raise InvalidOptionError(
                f"a step asks for {{{name}}}: there are {known}; the text {{{name}}} is {{{{{name}}}}}"
            )
        if not literal:
            whole += [_doubled(text[end:start]), found[0]]
            end = found.end()
    return "".join([*whole, _doubled(text[end:])])


def _doubled(text: str) -> str:
    # Who doubled them already meant one each.
    if "{{" not in text:
        return text.replace("{", "{{").replace("}", "}}")
    return text


def _function(function: Callable[..., Any]) -> CompiledStep:
    name = getattr(function, "__name__", repr(function))
    wanted = list(inspect.signature(function).parameters)[1:]

    def step(frame: DataFrame, tables: Mapping[str, DataFrame]) -> DataFrame:
        made = function(frame, **{table: tables[table] for table in wanted if table in tables})
        if not hasattr(made, "sparkSession"):
            raise InvalidOptionError(
                f"step {name} returned {type(made).__name__}: it must return a DataFrame"
            )
        return made  # type: ignore[no-any-return]

    return step


def _load(module: str, name: str) -> Callable[..., Any]:
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidOptionError(f"step {module}:{name} cannot be loaded: {error}") from error
    if not callable(found):
        raise InvalidOptionError(f"step {module}:{name} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]
