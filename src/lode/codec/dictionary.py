"""Which columns of a Parquet file get a dictionary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SAMPLE_ROWS: Final = 10_000
# So many small files share what was found about the first of them. A look takes a quarter of the time of
# encoding as many rows, so it costs little beside files of more rows than these.
_FILES_PER_LOOK: Final = 64
_MAX_SMALL_ROWS: Final = 10 * _SAMPLE_ROWS


class Samples:
    """What samples say about columns worth a dictionary.

    Small files come in long runs of the same kind, and looking closely at each costs as much as a good part
    of writing it: so a look at one of them serves those that follow. What was seen does not travel with a
    pickled codec.
    """

    def __init__(self) -> None:
        self._seen: tuple[pa.Schema, int, list[str]] | None = None
        self._uses = 0

    def repeating(self, sample: pa.Table) -> list[str]:
        """The columns whose values repeat."""
        if not sample.num_rows:
            # It says nothing about the next file, and pyarrow imports pandas to join no chunks.
            return []
        if self._seen is not None and self._uses < _FILES_PER_LOOK:
            schema, rows, found = self._seen
            # What few rows show says little about many. A whole sample shows as much as the next one would.
            limit = 4 * rows if rows < _SAMPLE_ROWS else _MAX_SMALL_ROWS
            if sample.num_rows <= limit and schema.equals(sample.schema):
                self._uses += 1
                return found
        found = _repeating_columns(sample)
        self._seen, self._uses = (sample.schema, sample.num_rows, found), 0
        return found

    def __reduce__(self) -> tuple[type[Samples], tuple[()]]:
        return Samples, ()


def named_columns(sample: pa.Table, choice: bool | Iterable[str]) -> bool | list[str]:
    if isinstance(choice, bool):
        return choice
    unknown = [name for name in choice if name not in sample.schema.names]
    if unknown:
        raise InvalidOptionError(f"no column {unknown[0]!r} to make a dictionary of")
    return [path for name in choice for path, _ in _leaves(name, sample.column(name).type, None)]


def _repeating_columns(sample: pa.Table) -> list[str]:
    head = sample.slice(0, _SAMPLE_ROWS).combine_chunks()
    return [
        path
        for name in sample.schema.names
        for path, values in _leaves(name, head.column(name).type, head.column(name))
        if _repeats(values)
    ]


def _repeats(values: Any) -> bool:
    """Return whether a sample repeats itself enough for a dictionary to pay."""
    if pt.is_boolean(values.type) or not len(values):
        return False
    try:
        return bool(len(values.unique()) * 2 <= len(values))
    except pa.ArrowNotImplementedError:
        return False


def _leaves(path: str, kind: Any, values: Any) -> Iterator[tuple[str, Any]]:
    """Yield the paths under which Parquet stores a column, each with its values if they are given."""
    known = values is not None
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pt.is_struct(kind):
        children = values.flatten() if known else [None] * kind.num_fields
        for member, child in zip(kind, children, strict=True):
            yield from _leaves(f"{path}.{member.name}", member.type, child)
    elif pt.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type, values.keys if known else None)
        yield from _leaves(f"{path}.key_value.value", kind.item_type, values.items if known else None)
    elif hasattr(kind, "value_field"):
        yield from _leaves(f"{path}.list.element", kind.value_type, values.flatten() if known else None)
    else:
        yield path, values
