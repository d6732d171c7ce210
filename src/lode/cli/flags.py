"""The flags of a command from a dataclass, whose fields are the only place for names, types and defaults.

A field ``stream_ttl`` of the settings of ``serve`` is the flag ``--stream-ttl`` and the environment variable
``LODE_SERVE_STREAM_TTL``. Its help is its line in the docstring of the dataclass.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

import typer

from lode.units import Bytes, Seconds, byte_count, seconds, spelled_bytes, spelled_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ENTRY: Final = re.compile(r"^(\w+): (.*)$")


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """One field as a flag, with the texts that ``--help`` and the documentation show."""

    field: str
    option: str
    environment: str
    default: str
    help: str
    kind: Any
    value: Any


def flags_of(settings: type, command: str, *, skip: frozenset[str] = frozenset()) -> Iterator[Flag]:
    """The flags of a command, in the order of the fields. Fields in ``skip`` have no flag."""
    kinds = get_type_hints(settings, include_extras=True)
    helps = described(settings)
    for field in dataclasses.fields(settings):
        if field.name in skip:
            continue
        kind = kinds[field.name]
        # A flag that may be repeated has a singular name.
        name = field.name.removesuffix("s") if kind == tuple[str, ...] else field.name
        yield Flag(
            field.name,
            f"--{name.replace('_', '-')}",
            f"LODE_{command}_{name}".upper(),
            _spelled(kind, field.default),
            helps.get(field.name, ""),
            kind,
            field.default,
        )


def with_flags(
    function: Callable[..., None], settings: type, command: str, *, skip: frozenset[str] = frozenset()
) -> Callable[..., None]:
    """Return a command with a flag for every field; the function receives them as ``**given``."""
    signature = inspect.signature(function, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    found = list(flags_of(settings, command, skip=skip))
    made = [
        inspect.Parameter(
            flag.field, inspect.Parameter.KEYWORD_ONLY, default=_option(flag), annotation=_plain(flag.kind)
        )
        for flag in found
    ]
    several = [flag.field for flag in found if flag.kind == tuple[str, ...]]

    @wraps(function)
    def called(**given: Any) -> None:
        given |= {name: tuple(given[name]) for name in several}
        function(**given)

    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own] + made
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # any function may have one
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def described(settings: type) -> dict[str, str]:
    """The text on each field in the section ``Args`` of the docstring, on one line."""
    _, _, section = inspect.cleandoc(settings.__doc__ or "").partition("\nArgs:\n")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in inspect.cleandoc(section).splitlines():
        if not line:
            break
        entry = _ENTRY.match(line)
        if entry is not None:
            lines = found[entry[1]] = [entry[2]]
        else:
            lines.append(line.strip())
    return {name: " ".join(lines).replace("``", "").rstrip(".") + "." for name, lines in found.items()}


def _option(flag: Flag) -> Any:
    shared: dict[str, Any] = {"envvar": flag.environment, "help": flag.help}
    if flag.kind == Bytes:
        shared |= {"parser": _read(byte_count), "metavar": "SIZE", "show_default": flag.default}
    elif flag.kind == Seconds:
        shared |= {"parser": _read(seconds), "metavar": "TIME", "show_default": flag.default}
    elif flag.kind is int:
        shared |= {"parser": _read(_whole), "metavar": "N"}
    elif flag.kind == tuple[str, ...]:
        return typer.Option(list(flag.value), flag.option, metavar="NAME", **shared)
    elif Path in get_args(flag.kind):
        shared["metavar"] = "PATH"
    return typer.Option(flag.value, flag.option, **shared)


def _read(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    """A parser that returns a default unchanged, since typer parses defaults too."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return read


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _plain(kind: Any) -> Any:
    """The type that typer accepts for a field."""
    if kind == Bytes:
        return int
    if kind == Seconds:
        return float
    return list[str] if kind == tuple[str, ...] else kind


def _spelled(kind: Any, default: Any) -> str:
    """A default as it can be written on the command line."""
    if default is None or default == () or default is dataclasses.MISSING:
        return ""
    if kind == Bytes:
        return spelled_bytes(default)
    if kind == Seconds:
        return spelled_seconds(default)
    return "" if default is False else str(default)
