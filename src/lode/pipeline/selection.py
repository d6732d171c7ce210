"""Which rows of the inputs and of the sink a batch computes again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from lode.errors import InvalidOptionError
from lode.lineage.touched import kind_name
from lode.spark.session import functions_of
from lode.spark.write import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import SparkSession

    from lode.lineage.touched import Value


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows with some values of a column, or with values in a range; without a column all rows.

    ``since`` and ``until`` are both inside the range. With ``nulls`` so are rows without a value.
    """

    column: str | None = None
    values: tuple[Value, ...] | None = None
    since: Value = None
    until: Value = None
    nulls: bool = False

    @staticmethod
    def of(column: str, values: Iterable[Value]) -> Selection:
        """The rows with these values."""
        return Selection(column, tuple(sorted(values, key=lambda value: (value is None, value))))

    @property
    def is_empty(self) -> bool:
        return self.values is not None and not self.values

    def expression(self, schema: pa.Schema) -> pc.Expression | None:
        """As a filter of Lode on a dataset with these columns; None for all rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.column is None:
            return None
        kind: Any = schema.field(self.column).type
        kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
        field: Any = pc.field(self.column)
        if self.values is not None:
            return field.isin(pa.array(self.values, kind))  # type: ignore[no-any-return]
        parts = [
            *([] if self.since is None else [field >= pa.scalar(self.since, kind)]),
            *([] if self.until is None else [field <= pa.scalar(self.until, kind)]),
        ]
        return parts[0] if len(parts) == 1 else parts[0] & parts[1]  # type: ignore[no-any-return]

    def condition(self, spark: SparkSession) -> Any:
        """As a ``Column`` of Spark; None for all rows. It is never NULL."""
        if self.column is None:
            return None
        f = functions_of(spark)
        column = f.col(quoted(self.column))
        if self.values is None:
            inside = f.lit(True)
            inside = inside if self.since is None else inside & (column >= f.lit(self.since))
            inside = inside if self.until is None else inside & (column <= f.lit(self.until))
            return column.isNull() | inside if self.nulls else column.isNotNull() & inside
        given = [value for value in self.values if value is not None]
        if len(given) == len(self.values):
            return column.isNotNull() & column.isin(given)
        return column.isNull() | column.isin(given) if given else column.isNull()

    def shown(self) -> list[str] | None:
        """The values as text; None for all rows or a range."""
        return None if self.values is None else [str(value) for value in self.values]


def parse_value(given: Any, kind: pa.DataType, name: str) -> Value:
    """A bound of a range as a value of a column."""
    wanted = kind_name(kind)
    try:
        match wanted:
            case "text":
                return str(given)
            case "integer" if not isinstance(given, bool):
                return int(given)
            case "date":
                return given if type(given) is date else date.fromisoformat(str(given))
    except ValueError:
        pass
    raise InvalidOptionError(f"{name} is {given!r}: the column of recompute_by has values of type {kind}")
