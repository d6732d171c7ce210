"""From a condition in SQL to conditions on columns: asks Spark's optimiser what it would push down."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource

from lode.spark.filters import Condition, conditions
from lode.spark.schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

# The object in whose hands Spark's own sources get their filters.
_STRATEGY: Final = "org.apache.spark.sql.execution.datasources.DataSourceStrategy$"


def conditions_in(where: str | Column, schema: StructType, spark: SparkSession) -> list[Condition]:
    """What a condition says of single columns; parts that cannot be told are left out.

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
    found = [strategy.translateFilter(part, True) for part in _conjuncts(plan.condition())]
    return conditions(
        [each for option in found if option.isDefined() for each in _filters(option.get())],
        arrow_schema(schema),
    )


def _conjuncts(expression: Any) -> Iterator[Any]:
    if expression.getClass().getSimpleName() == "And":
        yield from _conjuncts(expression.left())
        yield from _conjuncts(expression.right())
    else:
        yield expression


def _filters(found: Any) -> Iterator[datasource.Filter]:
    name = found.getClass().getSimpleName()
    if name == "And":
        yield from _filters(found.left())
        yield from _filters(found.right())
    elif name == "Not":
        yield from (datasource.Not(child) for child in _filters(found.child()))
    elif name in ("IsNull", "IsNotNull"):
        yield getattr(datasource, name)(_path(found))
    elif name == "In":
        yield datasource.In(_path(found), tuple(_value(value) for value in found.values()))
    elif hasattr(datasource, name):
        yield getattr(datasource, name)(_path(found), _value(found.value()))


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
