"""Which values of a column a range of history touches: those of rows that came or went.

A pipeline that computes its output by the values of a column reads these values whole, and replaces their
output. So a value must never be missed. One too many costs time, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lode.change.base import Workers, slim
from lode.codec.stats import from_json_value
from lode.errors import InvalidOptionError
from lode.lazy import pa
from lode.lineage.position import plan_between
from lode.near import column_hint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lode.change.base import Part
    from lode.dataset import Dataset
    from lode.format.manifest import ColumnStats, FileRef
    from lode.lineage.position import Position
    from lode.read.scan import Scan

Value: TypeAlias = str | int | bool | date | None
"""A value by which output is computed again."""

# The driver holds the values of a batch, and every file is compared with them.
MAX_VALUES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Touched:
    """The values that a range of history touches, and how much came and went in it."""

    values: frozenset[Value]
    rows: int
    size_bytes: int


def touched(
    dataset: Dataset,
    column: str | None,
    start: Position,
    end: Position,
    workers: Workers | None = None,
    *,
    remedy: str = "",
) -> Touched:
    """Find the values of a column in the rows that came or went after ``start`` up to ``end``.

    The statistics of a file decide where they can. Only the column is read of other files.

    Args:
        dataset: The dataset.
        column: The column; None only counts.
        start: The position before the range.
        end: The position of its last snapshot.
        workers: Read the files; threads of this process by default.
        remedy: What to do if the range cannot be read any more.
    """
    scan = plan_between(dataset, start, end, "report", remedy=remedy)
    found: set[Value] = set()
    if column is not None and scan.files:
        kind = column_kind(scan, column)
        known, unknown = _decided(scan, column, kind)
        found |= known
        if unknown:
            read = _Read(scan.of(()), column)
            for values in (workers or Workers()).each(read, _parts(scan, unknown), None):
                found |= values
    if len(found) > MAX_VALUES:
        raise too_many(column, dataset.id)
    return Touched(frozenset(found), scan.row_count, scan.size_bytes)


def known_values(
    scan: Scan, column: str
) -> tuple[frozenset[Value], None] | tuple[None, tuple[Value, Value, bool] | None]:
    """The values of a column in some files, as far as statistics say them; reads no file.

    Returns:
        The values, if they are all known. Otherwise the least and the greatest one and whether some are null,
        or None if nothing is known.
    """
    kind = column_kind(scan, column)
    known, unknown = _decided(scan, column, kind)
    if not unknown and len(known) <= MAX_VALUES:
        return frozenset(known), None
    bounds: list[Any] = [value for value in known if value is not None]
    nulls = None in known
    for file in unknown.values():
        stats = _stats(file, column)
        ends = [] if stats is None else [_value(each, kind) for each in (stats.min, stats.max)]
        if stats is None or None in ends:
            return None, None
        bounds += ends
        nulls = nulls or bool(stats.null_count)
    return None, (min(bounds), max(bounds), nulls)


def too_many(column: str | None, dataset_id: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"more than {MAX_VALUES:,} values of {column!r} change at once in dataset {dataset_id!r}: recompute "
        "by a column with fewer values, such as a day, or take in fewer snapshots with maxSnapshotsPerBatch"
    )


def column_kind(scan: Scan, column: str) -> pa.DataType:
    """The type of a column by which output is computed again."""
    schema = scan.of(scan.manifests).schema()
    if column not in schema.names:
        raise InvalidOptionError(
            f"recompute_by is {column!r}, which is no column of dataset {scan.dataset_id!r}: "
            f"{column_hint(column, schema.names)}; a dataset that is only looked up is a table, not an input"
        )
    return check_kind(schema.field(column).type, column, f"dataset {scan.dataset_id!r}")


def check_kind(kind: pa.DataType, column: str, where: str) -> pa.DataType:
    """Return the type of a column, or refuse one whose values have no exact text."""
    plain = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    if kind_name(plain) is None:
        raise InvalidOptionError(
            f"recompute_by is {column!r}, which is {kind} in {where}: use a column of text, whole numbers, "
            "dates or booleans, such as the day of a time"
        )
    return plain


def kind_name(kind: pa.DataType) -> str | None:
    """What values of a type are, whatever their width."""
    types = pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_integer(kind):
        return "integer"
    if types.is_date32(kind):
        return "date"
    return "boolean" if types.is_boolean(kind) else None


def _decided(scan: Scan, column: str, kind: pa.DataType) -> tuple[set[Value], dict[str, FileRef]]:
    """The values in files whose statistics say them, and the other files."""
    known: set[Value] = set()
    unknown: dict[str, FileRef] = {}
    for file, _ in scan.files_with_names():
        values = _values(file, column, kind)
        if values is None:
            unknown[file.path] = file
        else:
            known |= values
    return known, unknown


def _values(file: FileRef, column: str, kind: pa.DataType) -> set[Value] | None:
    """The values of a column in a file, by its statistics; None if they leave it open."""
    stats = _stats(file, column)
    if stats is None or file.stats is None:
        return None
    if stats.null_count == file.stats.row_count:
        return {None} if file.stats.row_count else set()
    value = _value(stats.min, kind) if stats.min == stats.max else None
    if value is None:
        return None
    return {value, None} if stats.null_count else {value}


def _stats(file: FileRef, column: str) -> ColumnStats | None:
    columns = () if file.stats is None else file.stats.columns
    return next((each for each in columns if each.name == column), None)


def _value(stored: Any, kind: pa.DataType) -> Value:
    """A value of statistics; None if there is none that can be read."""
    try:
        found = None if stored is None else from_json_value(stored, kind)
    except (pa.ArrowException, ValueError, TypeError):
        return None
    return None if found is None else found.as_py()


def _parts(scan: Scan, wanted: Iterable[str]) -> list[Part]:
    """Files of a scan, each alone and each once."""
    left = dict.fromkeys(wanted)
    parts: list[Part] = []
    for manifest in scan.manifests:
        for file in manifest.files:
            if file.path in left:
                del left[file.path]
                parts.append((slim(manifest, (file,)),))
    return parts


@dataclass(frozen=True, slots=True)
class _Read:
    """Reads the values of a column in some files. Pickles."""

    reader: Scan
    column: str

    def __call__(self, part: Part) -> set[Value]:
        found: set[Value] = set()
        for batch in self.reader.of(part).read(columns=[self.column]):
            values: Any = batch.column(0).unique().to_pylist()
            found.update(values)
            if len(found) > MAX_VALUES:
                raise too_many(self.column, self.reader.dataset_id)
        return found
