"""Statistics out of the footer that a Parquet writer has just written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.codec.stats import bound_converter, has_bounds, is_flat
from lode.format.manifest import ColumnStats, FileStats
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Footers:
    """The footer reader of the schema last asked for: most codecs only ever have one.

    It does not travel with a pickled codec.
    """

    def __init__(self) -> None:
        self._last: FooterReader | None = None

    def reader(self, schema: pa.Schema) -> FooterReader:
        last = self._last
        if last is None or (last.schema is not schema and not last.schema.equals(schema)):
            last = self._last = FooterReader(schema)
        return last

    def __reduce__(self) -> tuple[type[Footers], tuple[()]]:
        return Footers, ()


class FooterReader:
    """Knows where in a footer the columns of one schema are."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.floating = [field.name for field in schema if pt.is_floating(field.type)]
        self.flat = [field.name for field in schema if is_flat(field.type)]
        self._columns: list[_Column] = []
        # Counted rather than looked up by path: a name with a dot in it looks like a nested column.
        leaf = 0
        for field in schema:
            if is_flat(field.type):
                self._columns.append(_Column(field.name, field.type, leaf))
            leaf += _leaf_count(field.type)

    def stats(
        self,
        metadata: Any,
        *,
        unbounded: Collection[str],
        distinct: Mapping[str, int],
        row_group: int | None = None,
    ) -> FileStats:
        """Return what a footer says.

        Args:
            metadata: The footer, as pyarrow gives it.
            unbounded: Columns whose bounds in the footer are wrong, because they have a NaN.
            distinct: Distinct counts by column.
            row_group: Only this row group.
        """
        indexes = range(metadata.num_row_groups) if row_group is None else (row_group,)
        groups = [metadata.row_group(index) for index in indexes]
        columns = [
            column.stats(groups, bounded=column.name not in unbounded, distinct=distinct.get(column.name, 0))
            for column in self._columns
        ]
        return FileStats(sum(group.num_rows for group in groups), tuple(columns))


class _Column:
    def __init__(self, name: str, kind: Any, place: int) -> None:
        kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
        self.name = name
        self._place = place
        self._to_json = bound_converter(_stored_kind(kind))
        self._bounded = has_bounds(kind)
        self._raw = pt.is_timestamp(kind) or pt.is_time(kind)

    def stats(self, groups: list[Any], *, bounded: bool, distinct: int) -> ColumnStats:
        bounded = bounded and self._bounded
        nulls, lows, highs = 0, [], []
        for group in groups:
            chunk = group.column(self._place)
            statistics = chunk.statistics
            # A column of the null type has no statistics at all: every value of it is null.
            missing = chunk.num_values if statistics is None else statistics.null_count
            nulls += missing
            if not bounded or (statistics is not None and missing == chunk.num_values):
                continue
            if statistics is None or not statistics.has_min_max:
                bounded = False
                continue
            try:
                lows.append(statistics.min_raw if self._raw else statistics.min)
                highs.append(statistics.max_raw if self._raw else statistics.max)
            except OverflowError:
                bounded = False  # a date past the year 9999
        known = bounded and lows
        return ColumnStats(
            name=self.name,
            min=self._to_json(min(lows)) if known else None,
            max=self._to_json(max(highs)) if known else None,
            null_count=nulls,
            distinct_count=distinct,
        )


def _leaf_count(kind: Any) -> int:
    """Return how many columns Parquet makes of one."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf_count(kind.storage_type)
    if pt.is_map(kind):
        return _leaf_count(kind.key_type) + _leaf_count(kind.item_type)
    if pt.is_struct(kind):
        return sum(_leaf_count(member.type) for member in kind)
    return _leaf_count(kind.value_type) if hasattr(kind, "value_field") else 1


def _stored_kind(kind: Any) -> Any:
    """Parquet has no seconds: it stores milliseconds instead."""
    if pt.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)
    return pa.time32("ms") if pt.is_time32(kind) else kind
