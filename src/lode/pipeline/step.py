"""The steps of a pipeline: SQL over the frames it has, or a Python function over a DataFrame."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from string import Formatter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType

    from pyspark.sql import DataFrame

Step: TypeAlias = str | Callable[..., Any]

INPUT: Final = "input"
_REFERENCE: Final = re.compile(r"\s*([\w.]+):(\w+)\s*")
_NAME: Final = re.compile(r"\{([^\W\d]\w*)\}")
# What of SQL is no structure: texts, quoted names and comments.
_OPAQUE: Final = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_UNION: Final = re.compile(r"\bUNION\b(?:\s+(?:ALL|DISTINCT)\b)?", re.IGNORECASE)
_PLAIN: Final = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """A step that is ready to run.

    Args:
        name: For errors.
        digest: Changes with its text or source.
        names: The frames that it asks for by name.
        run: Makes a frame of the one before, and of all that have names. The first of several inputs has
            none before it.
    """

    name: str
    digest: str
    names: frozenset[str]
    run: Callable[[DataFrame | None, Mapping[str, DataFrame]], DataFrame]


def compiled_steps(
    steps: Sequence[Step], inputs: Sequence[str], tables: Sequence[str], *, linear: bool
) -> list[CompiledStep]:
    """The functions that steps stand for; checks all that can be checked without Spark.

    Args:
        steps: The steps.
        inputs: The names of the inputs.
        tables: The names of the tables.
        linear: Whether steps get only the new rows of each input. Then a step that joins several of them
            would miss pairs of new and old rows, and is refused.
    """
    several = len(inputs) > 1
    if several and not steps:
        raise InvalidOptionError(
            f"inputs {', '.join(inputs)} need a step that makes one frame of them, such as SQL with UNION ALL"
        )
    made = []
    for number, step in enumerate(steps):
        first = several and number == 0
        names = tuple(dict.fromkeys((*(() if first else (INPUT,)), *inputs, *tables)))
        made.append(_compiled(step, names, alone=first))
        if several and linear:
            _check_linear(step, made[-1], inputs, first=first)
    return made


def digest_of(steps: Sequence[CompiledStep], *more: object) -> str:
    """What changes when a step, or what else decides about the output, does."""
    text = json.dumps([[step.digest for step in steps], more], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:16]


def _compiled(step: Step, names: Sequence[str], *, alone: bool) -> CompiledStep:
    if callable(step):
        return _function(step, names, alone=alone)
    named = reference(step)
    if named is not None:
        return _function(_load(*named), names, alone=alone)
    return _sql(step, names)


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
    wanted = frozenset(field for field in fields if field)

    def run(frame: DataFrame | None, frames: Mapping[str, DataFrame]) -> DataFrame:
        found = frames if frame is None else {**frames, INPUT: frame}
        spark = next(iter(found.values())).sparkSession
        given: dict[str, Any] = {name: found[name] for name in wanted}
        return spark.sql(pattern, **given)

    return CompiledStep(" ".join(text.split())[:80], _hash(text), wanted, run)


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


def _function(function: Callable[..., Any], names: Sequence[str], *, alone: bool) -> CompiledStep:
    name = getattr(function, "__name__", repr(function))
    parameters = list(inspect.signature(function).parameters.values())
    by_name = parameters if alone else parameters[1:]
    wanted = frozenset(each.name for each in by_name if each.name in names)
    missing = [
        each.name
        for each in by_name
        if each.name not in names and each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    if missing:
        raise InvalidOptionError(f"step {name} takes {missing[0]!r}: there are {', '.join(names)}")

    def run(frame: DataFrame | None, frames: Mapping[str, DataFrame]) -> DataFrame:
        given = {each: frames[each] for each in wanted}
        made = function(**given) if frame is None else function(frame, **given)
        if not hasattr(made, "sparkSession"):
            raise InvalidOptionError(
                f"step {name} returned {type(made).__name__}: it must return a DataFrame"
            )
        return made  # type: ignore[no-any-return]

    return CompiledStep(name, _hash(_source(function)), wanted, run)


def _load(module: str, name: str) -> Callable[..., Any]:
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # a module may do anything when it is imported
        raise InvalidOptionError(f"step {module}:{name} cannot be loaded: {error!r}") from error
    if not callable(found):
        raise InvalidOptionError(f"step {module}:{name} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def _source(function: Callable[..., Any]) -> str:
    """The source of a function, and the plain values that it has from outside of it."""
    inner = inspect.unwrap(function)
    code: CodeType | None = getattr(inner, "__code__", None)
    try:
        text = inspect.getsource(inner)
        if code is not None and code.co_name == "<lambda>":
            text += f"{code.co_names} {_constants(code)}"  # its source is the whole line, with others
    except (OSError, TypeError):
        # Such as one that was typed into a shell.
        text = type(inner).__qualname__ if code is None else _code_text(code)
    cells = [] if code is None else _cells(inner)
    return f"{text}{cells}"


def _code_text(code: CodeType) -> str:
    return f"{code.co_code.hex()} {code.co_names} {_constants(code)}"


def _constants(code: CodeType) -> list[Any]:
    return [each if isinstance(each, _PLAIN) else type(each).__name__ for each in code.co_consts]


def _cells(function: Any) -> list[Any]:
    found = [cell.cell_contents for cell in function.__closure__ or ()]
    found += function.__defaults__ or ()
    return [each for each in found if isinstance(each, _PLAIN)]


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _check_linear(step: Step, compiled: CompiledStep, inputs: Sequence[str], *, first: bool) -> None:
    """Refuse a step whose output is not the sum of what each input alone gives."""
    mixed = compiled.names.intersection(inputs) if first else compiled.names.intersection((INPUT, *inputs))
    is_sql = isinstance(step, str) and _REFERENCE.fullmatch(step) is None
    if len(mixed) < 2 or (is_sql and _is_union(_OPAQUE.sub(" ", str(step)), mixed)):
        return
    raise InvalidOptionError(
        f"step {compiled.name!r} gets only the new rows of {', '.join(sorted(mixed))}, so new rows of one "
        "would not meet old rows of another: set recompute_by to read both whole for each of its values, "
        "name all but one of them as tables, or put them together with UNION ALL"
    )


def _is_union(text: str, names: frozenset[str]) -> bool:
    """Whether SQL is a union of parts that each read one of these inputs."""
    return all(_reads_one(branch, names) for branch in _branches(text))


def _reads_one(branch: str, names: frozenset[str]) -> bool:
    if len(_named(branch, names)) < 2:
        return True
    for start, end in _groups(branch):
        if not _named(branch[:start] + branch[end:], names):
            # A union in parentheses is fine alone, or as what is selected from.
            before = branch[:start].rstrip().upper()
            return (not before or before.endswith("FROM")) and _is_union(branch[start + 1 : end - 1], names)
    return False


def _named(text: str, names: frozenset[str]) -> set[str]:
    return {name for name in _NAME.findall(text) if name in names}


def _groups(text: str) -> list[tuple[int, int]]:
    """The places of parentheses that are in no others."""
    found, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter == "(":
            start = start if depth else place
            depth += 1
        elif letter == ")" and depth:
            depth -= 1
            if not depth:
                found.append((start, place + 1))
    return found


def _branches(text: str) -> list[str]:
    """The parts of SQL between the words UNION that are in no parentheses."""
    flat = text
    for start, end in _groups(text):
        flat = f"{flat[:start]}{' ' * (end - start)}{flat[end:]}"
    found, last = [], 0
    for match in _UNION.finditer(flat):
        found.append(text[last : match.start()])
        last = match.end()
    return [*found, text[last:]]
