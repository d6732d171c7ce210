"""A condition on the rows of one table in GoogleSQL, computed by DuckDB for one batch after the other."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlglot import exp

from lode.lazy import pa
from lode.sql.database import Database, Limits
from lode.sql.engine import Engine, Source
from lode.sql.errors import QueryError
from lode.sql.parser import parse

_ROWS: Final = "rows$"
# The name that the engine gives to its first table.
_VIEW: Final = "table$0"
_LIMITS: Final = Limits(memory_bytes=512 << 20, seconds=30)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Each read of a row must have the same result: a reader may continue at an offset.
_CHANGING: Final = ("RAND", "GENERATE_UUID", "SESSION_USER")
_CURRENT: Final = {
    exp.CurrentTimestamp: "TIMESTAMP",
    exp.CurrentDate: "DATE",
    exp.CurrentDatetime: "DATETIME",
    exp.CurrentTime: "TIME",
}
_REFUSED: Final = {
    exp.Query: "a subquery",
    exp.Table: "a subquery",
    exp.AggFunc: "an aggregate",
    exp.Window: "a window function",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.Alias: "an alias",
    exp.Star: "*",
}


def parse_condition(text: str) -> exp.Expression:
    """The tree of a condition.

    Raises:
        QueryError: It is none. The reason is ``notImplemented`` if it has a subquery, aggregate or parameter.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise QueryError("The condition has characters that are not in Unicode.") from None
    trees = parse(f"SELECT {text}\n")
    given = [name for tree in trees for name, value in tree.args.items() if value]
    if not isinstance(trees[0], exp.Select) or given != ["expressions"] or len(trees[0].expressions) != 1:
        raise QueryError("A condition must be one expression.")
    condition: exp.Expression = trees[0].expressions[0]
    for node in condition.walk():
        for kind, name in _REFUSED.items():
            if isinstance(node, kind):
                raise QueryError(f"A condition on rows cannot have {name}.", reason="notImplemented")
        if isinstance(node, exp.Anonymous) and node.name.upper() in _CHANGING:
            complaint = f"A condition on rows cannot have {node.name.upper()}: it changes with each read."
            raise QueryError(complaint, reason="notImplemented")
    condition.pop()
    return condition


class Condition:
    """A condition on rows, as ``WHERE`` has it. It has a database of its own until it is closed.

    Args:
        tree: The condition.
        schema: The columns that it can use, with their SQL types in the metadata.
        now_micros: The value of ``CURRENT_TIMESTAMP()``, in microseconds since 1970. Default: now.

    Raises:
        QueryError: It cannot be computed, or is no BOOL.
    """

    def __init__(self, tree: exp.Expression, schema: pa.Schema, now_micros: int | None = None) -> None:
        tree = exp.Paren(this=tree.copy())
        self.now_micros: int | None = None
        for node in list(tree.find_all(*_CURRENT)):
            if self.now_micros is None:
                self.now_micros = time.time_ns() // 1000 if now_micros is None else now_micros
            node.replace(_moment(node, self.now_micros))
        names = {each.name.lower(): each.name for each in schema}
        used = (names.get(each.parts[0].name.lower()) for each in tree.find_all(exp.Column))
        self.columns = tuple(dict.fromkeys(name for name in used if name is not None))
        for name in self.columns:
            if pa.types.is_decimal256(schema.field(name).type):
                # The engine has fewer digits, and its arithmetic would round.
                raise QueryError(
                    f"{name} is a BIGNUMERIC, which can only be compared with literals and columns."
                )
        # A query needs a column.
        self._schema = pa.schema([schema.field(name) for name in self.columns or schema.names[:1]])
        self._query = exp.select(exp.alias_(tree, "passes")).from_(
            exp.Table(this=exp.to_identifier(_ROWS, quoted=True))
        )
        database = self._database = Database(_LIMITS)
        source = Source(self._schema.empty_table(), self._schema)
        self._engine = Engine(_Rows(source), _LIMITS, open_database=lambda _limits: database)
        try:
            self._engine.__enter__()
            self._written = self._engine.write(self._query)
            if len(self._passes()):
                raise QueryError("A condition on rows cannot have an aggregate.")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the database. Idempotent."""
        self._engine.__exit__()

    def passes(self, batch: pa.RecordBatch) -> pa.Array[Any]:
        """Whether it is true for each row."""
        self._database.replace(_VIEW, pa.Table.from_batches([batch.select(self._schema.names)]))
        self._engine.start_clock()
        return self._passes()

    def _passes(self) -> pa.Array[Any]:
        try:
            result = self._engine.run_written(self._written, self._query)
            if not pa.types.is_boolean(result.schema.field(0).type):
                raise QueryError("A condition must be a BOOL.")
            masks = [batch.column(0) for batch in result.batches]
        finally:
            self._engine.stop_clock()
        return pa.concat_arrays(masks) if masks else pa.array([], pa.bool_())


class _Rows:
    """Has one table. Implements ``Resolver``."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def table(self, parts: tuple[str, ...], as_of: datetime | None) -> Source:
        return self._source


def _moment(node: Any, now_micros: int) -> exp.Expression:
    """The current date or time as a literal, in the time zone of the call."""
    shown = (_EPOCH + timedelta(microseconds=now_micros)).isoformat(sep=" ")
    now = exp.cast(exp.Literal.string(shown), "TIMESTAMPTZ", dialect="bigquery")
    kind = _CURRENT[type(node)]
    if kind == "TIMESTAMP":
        return now
    zone = [node.this] if node.this is not None else []
    return exp.Anonymous(this=kind, expressions=[now, *zone])
