"""``KEY=VALUE`` from the command line: options of a store, and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from lode.errors import InvalidMetadataError, InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterable


def store_options(given: Iterable[str]) -> dict[str, Any]:
    """The options of a store; true and false are what they say, ``a.b=c`` is b inside a."""
    options: dict[str, Any] = {}
    for text in given:
        name, value = _pair(text, "--store-option")
        inner, _, leaf = name.rpartition(".")
        place = options.setdefault(inner, {}) if inner else options
        if not isinstance(place, dict):
            raise InvalidOptionError(f"--store-option {inner} has a value: leave out {inner} or {name}")
        place[leaf] = {"true": True, "false": False}.get(value.lower(), value)
    return options


def texts(given: Iterable[str], option: str) -> dict[str, str]:
    """Values by their keys, as they were given."""
    return dict(_pair(text, option) for text in given)


def metadata(given: Iterable[str]) -> dict[str, Any]:
    """What a snapshot says of itself: texts by their keys, or whole JSON objects."""
    merged: dict[str, Any] = {}
    for text in given:
        if not text.startswith("{"):
            name, value = _pair(text, "--metadata")
            merged[name] = value
            continue
        try:
            merged |= msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise InvalidMetadataError(f"--metadata {text} is not a JSON object: {error}") from None
    return merged


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidOptionError(f"{option} is key=value, got {text!r}")
    return name, value
