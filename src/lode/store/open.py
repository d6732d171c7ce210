"""Open a store from a URL, a path or a store."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from lode.errors import InvalidOptionError
from lode.near import did_you_mean
from lode.store.local import LocalStore
from lode.store.memory import MemoryStore
from lode.store.object import open_object_store
from lode.store.protocol import Store
from lode.store.urls import OBJECT_SCHEMES, shown, web_address

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_FILE = re.compile(r"file:/(?!/)", re.IGNORECASE)
_SLASHES_MISSING = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/?(?!/)")
_KNOWN = ("memory", "file", "s3", "gs", "az")


def open_store(target: str | os.PathLike[str] | Store, **options: Any) -> Store:
    """Return the store that ``target`` names.

    Args:
        target: A store (returned as it is), a directory, or a URL: ``memory://`` (a new one) or
            ``memory://name`` (one per process), ``file:///path``, optionally with ``?durable=false``,
            ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix``, and the schemes of
            other tools: ``s3a://``, ``gcs://``, ``abfss://container@account.dfs.core.windows.net/prefix``.
        options: ``durable`` for a directory; for object stores all options of obstore.
    """
    if isinstance(target, os.PathLike):
        return _open_directory(os.fspath(target), options)
    if not isinstance(target, str):
        # LocalStore first: isinstance with the protocol looks up every method, which takes longer.
        if not isinstance(target, (LocalStore, Store)):
            raise InvalidOptionError(f"not a store, a path or a URL: {target!r}")
        _refuse(options, "a store that is open already")
        return target
    if _FILE.match(target):  # the spelling of Hadoop
        target = f"file://{target[len('file:') :]}"
    match = _SCHEME.match(target)
    if match is None:
        _refuse_missing_slashes(target)
        return _open_directory(target, options)
    scheme = match[1].lower()
    if scheme in ("http", "https"):
        raise web_address(target)
    if scheme == "adl":
        raise InvalidOptionError(
            f"{shown(target)} is of Data Lake Storage Gen1, which was retired: use abfss://container@account…"
        )
    if scheme == "memory":
        _refuse(options, "memory://")
        name = target[match.end() :]
        return MemoryStore.shared(name) if name else MemoryStore()
    if scheme == "file":
        return _open_file_url(target, options)
    if scheme in OBJECT_SCHEMES:
        return open_object_store(target, **options)
    known = ", ".join(f"{name}://" for name in _KNOWN)
    hint = did_you_mean(scheme, (*_KNOWN, *OBJECT_SCHEMES)) or f"known are {known} and plain paths"
    raise InvalidOptionError(f"unknown scheme {match[0]!r} in {shown(target)}: {hint}")


def _refuse_missing_slashes(target: str) -> None:
    """``s3:/bucket`` is a mistake, although a directory could have that name."""
    match = _SLASHES_MISSING.match(target)
    if match is not None and match[1].lower() in {*_KNOWN, *OBJECT_SCHEMES, "http", "https"}:
        rest = "/absolute/path" if match[1].lower() == "file" else target[match.end() :]
        raise InvalidOptionError(
            f"a URL does not begin with {match[0]!r}: write {shown(f'{match[1]}://{rest}')}, "
            "or put ./ in front for a directory"
        )


def _open_file_url(url: str, options: Mapping[str, Any]) -> LocalStore:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise InvalidOptionError(f"{shown(url)} is no URL: write file:///absolute/path") from None
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise InvalidOptionError(f"{shown(url)} names no local directory: write file:///absolute/path")
    from_query: dict[str, Any] = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "durable" in from_query:
        from_query["durable"] = _boolean("durable", from_query["durable"])
    return _open_directory(unquote(parts.path), {**from_query, **options})


def _open_directory(root: str, options: Mapping[str, Any]) -> LocalStore:
    if not root:
        raise InvalidOptionError("a store's directory may not be empty: '.' is the current one")
    if "\0" in root:
        raise InvalidOptionError(f"{root!r} has a null character, which no directory has: leave it out")
    _refuse({name: value for name, value in options.items() if name != "durable"}, f"directory {root!r}")
    durable = options.get("durable", True)
    if not isinstance(durable, bool):
        raise InvalidOptionError(f"durable must be True or False, got {durable!r}")
    return LocalStore(root, durable=durable)


def _boolean(name: str, text: str) -> bool:
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in values:
        raise InvalidOptionError(f"{name} must be true or false, got {text!r}")
    return values[text.lower()]


def _refuse(options: Mapping[str, Any], target: str) -> None:
    if options:
        raise InvalidOptionError(f"{target} takes no option {', '.join(sorted(options))}")
