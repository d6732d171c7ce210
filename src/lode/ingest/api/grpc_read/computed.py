"""The conditions of a row restriction that filters do not have, computed by the SQL engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lode.errors import InvalidOptionError
from lode.filter import Filter
from lode.format.ids import shortened
from lode.ingest.jobs.sql.filters import filter_of, is_plain
from lode.ingest.jobs.sql.turns import short_turns
from lode.ingest.status import Refused, invalid
from lode.lazy import pc
from lode.sql.condition import Condition, parse_condition, without_place
from lode.sql.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lode.ingest.types.columns import TableSchema
    from lode.lazy import pa


class Computed:
    """Conditions that the SQL engine computes for one batch after the other."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self.columns = condition.columns
        self.now_micros = condition.now_micros
        self.close = condition.close

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that pass, or refuse what cannot be computed."""
        try:
            with short_turns():
                return self._condition.apply(batch)
        except QueryError as error:
            raise invalid(f"row_restriction: {without_place(error)}.") from None


def computed_restriction(
    text: str,
    schema: TableSchema,
    now_micros: int | None,
    as_filter: Callable[[str], Filter],
    refusal: Refused,
) -> tuple[Filter, Computed]:
    """The filter of a restriction, and what is computed for the rows that it leaves.

    Args:
        text: The restriction.
        schema: The table's columns.
        now_micros: The value of CURRENT_TIMESTAMP(), in microseconds since 1970. Default: now.
        as_filter: Parses conditions that are a filter.
        refusal: Why the whole restriction is no filter.
    """
    try:
        tree = parse_condition(text)
        if is_plain(tree):
            raise refusal
        return _split(tree, schema, now_micros, as_filter)
    except QueryError as error:
        if str(error).startswith("Syntax error"):
            raise refusal from None  # which has the position
        raise invalid(f"row_restriction {shortened(text, 117)}: {without_place(error)}.") from None


def _split(
    tree: exp.Expression, schema: TableSchema, now_micros: int | None, as_filter: Callable[[str], Filter]
) -> tuple[Filter, Computed]:
    """The plain conditions as a filter, and the others."""
    plain: list[str] = []
    rest: list[exp.Expression] = []
    for part in _conditions(tree):
        found = filter_of(part, "", schema)
        try:
            if found is not None:
                as_filter(found)
                plain.append(f"({found})")
                continue
        except InvalidOptionError:
            pass  # the query says what is wrong with it
        rest.append(part)
    pushed = as_filter(" AND ".join(plain)) if plain else Filter(pc.scalar(True))
    joined: Any = exp.and_(*rest)
    return pushed, Computed(Condition(joined, schema.arrow, now_micros))


def _conditions(tree: exp.Expression) -> Iterator[exp.Expression]:
    """The conditions that are joined by AND."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        inner = node.unnest()
        if isinstance(inner, exp.And):
            waiting += [inner.expression, inner.this]
        else:
            yield node
