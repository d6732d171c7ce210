"""Leave out files that cannot hold a wanted row, by what their partition and statistics guarantee."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lode.codec.stats import from_json_value
from lode.format.paths import partition_values
from lode.lazy import pa, pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyarrow.compute import Expression

    from lode.format.manifest import ColumnStats, FileRef

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_WORD: Final = re.compile(r"\w+")


def can_match(file: FileRef, partition: str, schema: pa.Schema, where: Expression) -> bool:
    """Return whether the file may hold a row for which ``where`` is true."""
    return bool(matching([file], lambda _: partition, schema, where))


def matching(
    files: Sequence[FileRef], partition_of: Callable[[FileRef], str], schema: pa.Schema, where: Expression
) -> list[FileRef]:
    """The files that may hold a row for which ``where`` is true.

    Partitions are decided first: there are fewer of them than files.
    """
    named = mentioned(schema, where)
    partitions = [partition_of(file) for file in files]
    facts = {partition: _conjunction(_from_partition(partition, named)) for partition in set(partitions)}
    possible = {each for each, fact in facts.items() if fact is None}
    others = [each for each in facts if each not in possible]
    possible.update(others[number] for number in _possible([facts[each] for each in others], schema, where))
    left = [number for number, partition in enumerate(partitions) if partition in possible]
    known = [
        _conjunction([facts[partitions[number]], *_from_statistics(files[number], named)]) for number in left
    ]
    return [files[left[number]] for number in _possible(known, schema, where)]


def _possible(known: Sequence[Expression | None], schema: pa.Schema, where: Expression) -> list[int]:
    """The places of those facts that do not contradict ``where``."""
    import pyarrow.dataset as pads
    import pyarrow.fs as pafs

    # pyarrow simplifies a filter by a fragment's guarantee; the fragments themselves are never opened.
    form = pads.ParquetFileFormat()
    nowhere = pafs.LocalFileSystem()
    fragments: list[pads.Fragment] = [
        form.make_fragment(str(number), nowhere, fact) for number, fact in enumerate(known)
    ]
    whole = pads.FileSystemDataset(fragments, schema, form, nowhere)
    return [int(fragment.path) for fragment in whole.get_fragments(filter=where)]


def mentioned(schema: pa.Schema, where: Expression) -> pa.Schema:
    """The columns whose name is somewhere in the expression: what is known of others cannot decide it."""
    text = str(where)
    words = set(_WORD.findall(text))
    # Searching the whole text for each of thousands of columns takes seconds; most names are one word.
    return pa.schema(
        [
            column
            for column in schema
            if (column.name in words if _WORD.fullmatch(column.name) else column.name in text)
        ]
    )


def guarantee(file: FileRef, partition: str, schema: pa.Schema) -> Expression | None:
    """What is true of every row of the file, as an expression; None if nothing is known."""
    return _conjunction([*_from_partition(partition, schema), *_from_statistics(file, schema)])


def _conjunction(facts: Iterable[Expression | None]) -> Expression | None:
    whole: Expression | None = None
    for fact in facts:
        if fact is not None:
            whole = fact if whole is None else whole & fact
    return whole


def _from_partition(partition: str, schema: pa.Schema) -> Iterable[Expression]:
    names = schema.names
    for key, text in partition_values(partition).items():
        if text is None or key not in names:
            continue
        kind = schema.field(key).type
        value = _typed(text, kind)
        if value is None:
            continue
        if _is_text(kind) and _DAY.fullmatch(text):
            # A time has its day's partition. In JSON it is a text that begins with the day.
            yield (pc.field(key) >= value) & (pc.field(key) < pa.scalar(f"{text}~", kind))
        else:
            yield pc.field(key) == value


def _typed(text: str, kind: pa.DataType) -> pa.Scalar[Any] | None:
    """A partition's text as a value of its column, where that is one exact value.

    A timestamp's partition is its day and a float's text may be shortened: they promise nothing. Neither does
    text that was not UTF-8, because Go's JSON replaces its bytes differently.
    """
    exact = (
        _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date32(kind)
    )
    if not exact or "\ufffd" in text:
        return None
    try:
        return pa.scalar(text, pa.string()).cast(kind)
    except pa.ArrowException:
        return None


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _from_statistics(file: FileRef, schema: pa.Schema) -> Iterable[Expression]:
    if file.stats is None:
        return
    names = schema.names
    for column in file.stats.columns:
        if column.name in names:
            fact = _range(column, file.stats.row_count, schema.field(column.name).type)
            if fact is not None:
                yield fact


def _range(column: ColumnStats, rows: int, kind: pa.DataType) -> Expression | None:
    field: Expression = pc.field(column.name)
    if rows and column.null_count == rows:
        return field.is_null()
    # NaN is outside of every range and statistics do not count it, so a float's range promises nothing.
    if column.min is None or column.max is None or pa.types.is_floating(kind):
        return None
    low, high = _value(column.min, kind), _value(column.max, kind)
    if low is None or high is None:
        return None
    # Of one value, so that a filter on it can be decided and not only bounded.
    within = field == low if column.min == column.max else (field >= low) & (field <= high)
    return within | field.is_null() if column.null_count else within


def _value(stored: Any, kind: pa.DataType) -> pa.Scalar[Any] | None:
    try:
        return from_json_value(stored, kind)
    except (pa.ArrowException, ValueError, TypeError):
        return None
