"""Lists object storage by string prefix. obstore itself lists by whole segments only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.errors import StoreError
from lode.store.object_errors import status_of, translated
from lode.store.protocol import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = 1000


def list_objects(client: Any, root: str, prefix: str, after: str) -> Iterator[ObjectInfo]:
    """Yield the objects that start with ``prefix`` and sort after ``after``, by path, page by page.

    ``root`` precedes both, and is removed from the paths.
    """
    import obstore

    start = root + prefix
    directory = start.rpartition("/")[0]
    offset = _offset(start, root + after if after else "")
    try:
        for page in obstore.list(client, directory or None, offset=offset, chunk_size=_PAGE):
            for meta in page:
                key = meta["path"]
                path = key[len(root) :]
                if not key.startswith(start):
                    if key > start:
                        return
                    continue
                if path > after:
                    yield ObjectInfo(path, meta["size"], meta["last_modified"])
    except Exception as error:
        if status_of(error) == 404:
            raise StoreError(
                f"cannot list {prefix!r}: the bucket or container is not there: check its name, or create it"
            ) from error
        raise translated(error, prefix) from error


def _offset(start: str, after: str) -> str | None:
    """Return a key that sorts shortly before all wanted keys; None if there is none.

    It only saves requests: the listing is compared again. So if no exact key exists, an earlier one suffices.
    """
    if after >= start and after:
        return _longest_key(after)
    last = start[-1:]
    if last in ("", "/") or not "!" < last < "\x7f":
        return None
    # Sorts before all keys with this start, except for keys with many tildes.
    return _longest_key(f"{start[:-1]}{chr(ord(last) - 1)}~~~~~~~~")


def _longest_key(text: str) -> str | None:
    """Return the longest start of ``text`` that obstore accepts as a path."""
    kept: list[str] = []
    for part in text.split("/"):
        if part in ("", ".", "..") or any(ord(letter) < 32 or ord(letter) == 127 for letter in part):
            break
        kept.append(part)
    return "/".join(kept) or None
