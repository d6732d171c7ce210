"""From a condition in SQL to conditions on columns.

Spark's optimiser says what it would push down. A client of Spark Connect cannot ask it: there, comparisons of
a column with a literal are taken out of the text or the ``Column``, where Spark and Lode mean the same.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import datasource
from pyspark.sql.types import DateType, IntegralType, StringType

from lode.errors import InvalidOptionError
from lode.filter.syntax import parse
from lode.filter.tree import FilterText, Items, LiteralNode, Name, Operation
from lode.spark.filters import Condition, conditions
from lode.spark.schema import arrow_schema
from lode.spark.session import is_connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

# The object in whose hands Spark's own sources get their filters.
_STRATEGY: Final = "org.apache.spark.sql.execution.datasources.DataSourceStrategy$"
# What a setting of Spark, or its dialect, may read in another way.
_AMBIGUOUS: Final = ('"', "\\", "''")
_COMPARISONS: Final[dict[str, Any]] = {
    "=": datasource.EqualTo,
    "==": datasource.EqualTo,
    "<": datasource.LessThan,
    "<=": datasource.LessThanOrEqual,
    ">": datasource.GreaterThan,
    ">=": datasource.GreaterThanOrEqual,
}
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def conditions_in(where: str | Column, schema: StructType, spark: SparkSession) -> list[Condition]:
    """Return what a condition says about single columns; parts that cannot be expressed are left out.

    Raises:
        AnalysisException: Spark does not understand the condition.
    """
    columns = arrow_schema(schema)
    if is_connect(spark):
        return _in_text(where, columns) if isinstance(where, str) else _in_column(where, columns)
    context: Any = spark.sparkContext
    empty: Any = spark.createDataFrame(context.emptyRDD(), schema).where(where)
    plan = empty._jdf.queryExecution().optimizedPlan()
    if plan.nodeName() != "Filter":
        return []
    strategy = getattr(getattr(context._jvm, _STRATEGY), "MODULE$")
    translated = [strategy.translateFilter(part, True) for part in _conjuncts(plan.condition())]
    return [each for found in translated if found.isDefined() for each in _conditions(found.get(), columns)]


def _in_text(text: str, columns: pa.Schema) -> list[Condition]:
    """The comparisons in a text; none if Lode cannot parse it."""
    if any(mark in text for mark in _AMBIGUOUS):
        return []
    try:
        tree = parse(FilterText(text))
    except (InvalidOptionError, RecursionError):
        return []
    return _in_tree(_node(tree), columns)


def _in_column(column: Any, columns: pa.Schema) -> list[Condition]:
    """The comparisons in a ``Column`` of Spark Connect."""
    try:
        return _in_tree(_expression(column._expr), columns)
    except (AttributeError, RecursionError):
        return []


class _Unknown:
    """What is no column, literal or comparison."""


# A call is (operator, operands), a column (None, name), a literal [value].
_Tree: TypeAlias = "tuple[Any, Any] | list[Any] | _Unknown"


def _node(node: Any) -> _Tree:
    """A tree of Lode's parser."""
    match node:
        case Name(path=(name,)):
            return (None, name)
        case LiteralNode(kind="INT64", value=value):
            return [int(value)] if value.lstrip("+-").isdecimal() else _Unknown()
        case LiteralNode(kind="STRING", value=value):
            return [value]
        case LiteralNode(kind="DATE", value=value):
            try:
                return [date.fromisoformat(value)]
            except ValueError:
                return _Unknown()
        case Operation(sign="NEG", operands=(LiteralNode(kind="INT64", value=value),)) if value.isdecimal():
            return [-int(value)]
        case Operation(sign="IS", operands=(column, LiteralNode(kind="NULL"))):
            return ("isNull", [_node(column)])
        case Operation(
            sign="NOT", operands=(Operation(sign="IS", operands=(column, LiteralNode(kind="NULL"))),)
        ):
            return ("isNotNull", [_node(column)])
        case Operation(sign="IN", operands=(column, Items(values=values))):
            return ("in", [_node(column), *map(_node, values)])
        case Operation(sign="BETWEEN", operands=(column, low, high)):
            return ("and", [(">=", [_node(column), _node(low)]), ("<=", [_node(column), _node(high)])])
        case Operation(sign=sign, operands=operands):
            return (sign.lower(), list(map(_node, operands)))
    return _Unknown()


def _expression(found: Any) -> _Tree:
    """An expression of Spark Connect."""
    match type(found).__name__:
        case "ColumnReference":
            return (None, found._unparsed_identifier)
        case "UnresolvedFunction":
            return (found._name, list(map(_expression, found._args)))
        case "LiteralExpression" if isinstance(found._dataType, IntegralType | StringType):
            return [found._value]
        case "LiteralExpression" if isinstance(found._dataType, DateType) and found._value is not None:
            return [date(1970, 1, 1) + timedelta(days=found._value)]
    return _Unknown()


def _in_tree(tree: _Tree, columns: pa.Schema) -> list[Condition]:
    match tree:
        case ("and", operands):
            return [each for operand in operands for each in _in_tree(operand, columns)]
        case ("or", operands):
            sides = [_in_tree(operand, columns) for operand in operands]
            return reduce(lambda one, other: [_either(one, other)], sides) if all(sides) else []
        case (("isNull" | "isNotNull") as sign, [(None, name)]):
            kind = datasource.IsNull if sign == "isNull" else datasource.IsNotNull
            return conditions([kind((name,))], columns)
        case ("in", [(None, name), *values]) if all(isinstance(value, list) for value in values):
            return conditions([datasource.In((name,), tuple(value[0] for value in values))], columns)
        case (str(sign), [[value], (None, name)]) if sign in _COMPARISONS:
            return conditions([_COMPARISONS[_MIRRORED.get(sign, sign)]((name,), value)], columns)
        case (str(sign), [(None, name), [value]]) if sign in _COMPARISONS:
            return conditions([_COMPARISONS[sign]((name,), value)], columns)
    return []


def _conjuncts(expression: Any) -> Iterator[Any]:
    if expression.getClass().getSimpleName() == "And":
        yield from _conjuncts(expression.left())
        yield from _conjuncts(expression.right())
    else:
        yield expression


def _conditions(found: Any, columns: pa.Schema) -> list[Condition]:
    name = found.getClass().getSimpleName()
    if name == "And":
        return [*_conditions(found.left(), columns), *_conditions(found.right(), columns)]
    if name == "Or":
        left, right = _conditions(found.left(), columns), _conditions(found.right(), columns)
        return [_either(left, right)] if left and right else []
    leaf = _leaf(found)
    return conditions([leaf], columns) if leaf is not None else []


def _either(left: list[Condition], right: list[Condition]) -> Condition:
    one, other = (reduce(and_, [each.expression for each in side]) for side in (left, right))
    return Condition(frozenset().union(*(each.columns for each in (*left, *right))), one | other)


def _leaf(found: Any) -> datasource.Filter | None:
    """A filter on one column, or the opposite of one."""
    name = found.getClass().getSimpleName()
    if name == "Not":
        child = _leaf(found.child())
        return None if child is None or isinstance(child, datasource.Not) else datasource.Not(child)
    kind: Any = getattr(datasource, name, None)
    if name in ("IsNull", "IsNotNull"):
        return kind(_path(found))  # type: ignore[no-any-return]
    if name == "In":
        return datasource.In(_path(found), tuple(_value(value) for value in found.values()))
    return None if kind is None else kind(_path(found), _value(found.value()))


def _path(found: Any) -> tuple[str, ...]:
    # Nested columns are written with dots, as are names with dots in them, those in backquotes.
    return (found.attribute().strip("`"),)


def _value(value: Any) -> Any:
    """A value of Java as one of Python; what is not known stays what it is, and fits no column."""
    if not hasattr(value, "getClass"):
        return value
    match value.getClass().getSimpleName():
        case "Date" | "LocalDate":
            return date.fromisoformat(value.toString())
        case "Timestamp":
            return datetime.fromtimestamp(value.getTime() // 1000, UTC).replace(
                microsecond=value.getNanos() // 1000
            )
        case "Instant":
            epoch = datetime(1970, 1, 1, tzinfo=UTC)
            return epoch + timedelta(seconds=value.getEpochSecond(), microseconds=value.getNano() // 1000)
        case "LocalDateTime":
            return datetime.fromisoformat(value.toString())
    return value
