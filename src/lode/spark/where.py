"""From a condition in SQL to conditions on columns: asks Spark's optimiser what it would push down."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource

from lode.spark.filters import Condition, conditions
from lode.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

# The object in whose hands Spark's own sources get their filters.
_STRATEGY: Final = "org.apache.spark.sql.execution.datasources.DataSourceStrategy$"


def conditions_in(where: str | Column, schema: StructType, spark: SparkSession) -> list[Condition]:
    """Return what a condition says about single columns; parts that cannot be expressed are left out.

    Raises:
        AnalysisException: Spark does not understand the condition.
    """
    if not hasattr(spark, "_jsparkSession"):
        return []  # Spark Connect keeps its plans to itself
    context: Any = spark.sparkContext
    empty: Any = spark.createDataFrame(context.emptyRDD(), schema).where(where)
    plan = empty._jdf.queryExecution().optimizedPlan()
    if plan.nodeName() != "Filter":
        return []
    strategy = getattr(getattr(context._jvm, _STRATEGY), "MODULE$")
    translated = [strategy.translateFilter(part, True) for part in _conjuncts(plan.condition())]
    columns = arrow_schema(schema)
    return [each for found in translated if found.isDefined() for each in _conditions(found.get(), columns)]


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
