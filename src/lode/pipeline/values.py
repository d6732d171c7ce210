"""Values of a project as YAML and Python have them, and how they are read and shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from lode.errors import InvalidOptionError
from lode.near import did_you_mean

# A value that is shorter is none that must be kept secret, and hiding it would spoil every message.
_MIN_SECRET_CHARACTERS: Final = 6


def hidden(text: str, secrets: Iterable[str]) -> str:
    """A text without secrets. The longest go first, because one may be part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET_CHARACTERS:
            text = text.replace(secret, "…")
    return text


def mapping(content: object, what: str, known: Iterable[str] | None = None) -> dict[str, Any]:
    """A mapping with text as keys, all of them known."""
    if not isinstance(content, Mapping):
        raise InvalidOptionError(f"{what} is a mapping, got {type(content).__name__}")
    found = {str(key): value for key, value in content.items()}
    if known is not None:
        names = list(known)
        for key in found:
            if key not in names:
                hint = did_you_mean(key, names) or f"there are {', '.join(names)}"
                raise InvalidOptionError(f"{key!r} is unknown in {what}: {hint}")
    return found


def dataset_of(given: Any, what: str) -> str:
    dataset = (
        given if isinstance(given, str) else given.get("dataset") if isinstance(given, Mapping) else None
    )
    if not isinstance(dataset, str) or not dataset:
        raise InvalidOptionError(f"{what} names a dataset, got {given!r}")
    return dataset


def flat(options: Mapping[str, Any], prefix: str = "store.") -> dict[str, str]:
    """Options of the store as text with dots in their names, as ``format("lode")`` takes them."""
    found: dict[str, str] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]
