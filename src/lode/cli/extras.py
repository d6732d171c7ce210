"""What a command says when a part of Lode that it needs is not installed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lode.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def needs(extra: str, command: str) -> Iterator[None]:
    """Import inside: what is missing is named with the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"lode {command} needs {error.name}, which is not installed: pip install 'lode-store[{extra}]'"
        ) from error
