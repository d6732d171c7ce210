"""Rows as REST v2 sends them in ``insertAll``: JSON objects, made into a batch of the table's schema.

Clients write most values as text, but numbers, booleans and objects come as they are, too. Each value is
read by its column's type; what does not fit is reported row by row. The way back is ``json_cells.py``.
"""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from lode.ingest.decode.fill import Filler
from lode.ingest.decode.json_values import reader_for
from lode.ingest.status import invalid
from lode.ingest.types.row_errors import Problems
from lode.lazy import pa, pt
from lode.runtime import REAL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lode.ingest.decode.json_values import Reader
    from lode.ingest.types.columns import Column, TableSchema

_MISSING: Final = object()


class JsonRows:
    """Reads rows of one table.

    Args:
        schema: The table's.
        ignore_unknown: Whether values that no column takes are passed over, rather than bad.
        now_ns: The clock, for CURRENT_TIMESTAMP() and its kin.
    """

    def __init__(
        self,
        schema: TableSchema,
        *,
        ignore_unknown: bool = False,
        now_ns: Callable[[], int] = REAL.now_ns,
    ) -> None:
        self._schema = schema
        self._ignore_unknown = ignore_unknown
        self._readers: list[tuple[Column, Reader]] = [
            (column, reader_for(column, ignore_unknown=ignore_unknown)) for column in schema
        ]
        self._names = frozenset(schema.arrow.names)
        self._types = [_sent_type(kind) for kind in schema.arrow.types]
        self._filler = Filler(schema, schema.arrow.names, self._types, now_ns=now_ns)

    def decode(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """The rows as a batch in the table's schema, or a refusal that names every bad one.

        A column that a row leaves out gets its default; one that is null stays null.
        """
        problems = Problems()
        objects = [self._checked(row, index, problems) for index, row in enumerate(rows)]
        columns: list[Any] = []
        unsent: dict[str, Any] = {}
        for (column, reader), kind in zip(self._readers, self._types, strict=True):
            found = [row.get(column.name, _MISSING) for row in objects]
            columns.append(_column(column, reader, kind, found, problems))
            if column.default and _MISSING in found:
                unsent[column.name] = pa.array([value is _MISSING for value in found])
        return self._filler.batch(columns, len(rows), unsent, problems, unsent)

    def _checked(self, row: Any, index: int, problems: Problems) -> dict[str, Any]:
        """A row by its columns' names as the table spells them."""
        if not isinstance(row, dict):
            problems.add(index, "A row must be a JSON object with a value for each column.")
            return {}
        if row.keys() <= self._names:
            return row
        spelt: dict[str, Any] = {}
        for name, value in row.items():
            position = self._schema.positions.get(name.lower())
            if position is None:
                if not self._ignore_unknown:
                    problems.add(index, f"Column {name!r}: no such field.")
                continue
            own = self._schema.columns[position].name
            if own in spelt:
                problems.add(index, "A row names a column twice: names differ in more than their case.")
            spelt[own] = value
        return spelt


def _column(column: Column, reader: Reader, kind: Any, found: list[Any], problems: Problems) -> Any:
    array = _parsed_at_once(found, kind)
    if array is not None:
        return array
    values = [
        None if value is _MISSING else _read(reader, value, column, index, problems)
        for index, value in enumerate(found)
    ]
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError) as error:
        raise invalid(
            f"The values of column {column.name!r} are too many for one request: {error}."
        ) from None


def _sent_type(kind: Any) -> Any:
    """The Arrow type of the values that readers give: numbers are text, as other writers send them."""
    if pt.is_decimal(kind):
        return pa.string()
    if pt.is_list(kind):
        return pa.list_(_sent_type(kind.value_type))
    if pt.is_struct(kind):
        return pa.struct([field.with_type(_sent_type(field.type)) for field in kind])
    return kind


def _parsed_at_once(values: list[Any], kind: Any) -> Any:
    """A column of times all written as Arrow reads them, which is much faster; else None."""
    if not (pt.is_timestamp(kind) or pt.is_date(kind)) or not set(map(type, values)) <= {str, NoneType}:
        return None
    try:
        return pa.array(values, pa.string()).cast(kind)
    except (pa.ArrowException, UnicodeError):
        return None


def _read(reader: Reader, value: Any, column: Column, index: int, problems: Problems) -> Any:
    if value is None:
        return None
    try:
        return reader(value)
    except ValueError as error:
        inner = getattr(error, "path", "")
        problems.add(index, f"Column {column.name + inner!r}: {error}")
        return None
