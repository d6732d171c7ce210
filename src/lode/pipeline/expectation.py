"""Expectations: checks on the rows that a pipeline writes, and what to do with rows that fail them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from lode.errors import InvalidOptionError
from lode.lineage.flow import EXPECTATIONS, expectations_of
from lode.spark.session import functions_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from lode.snapshot import Snapshot

OnFail: TypeAlias = Literal["warn", "drop", "fail", "quarantine"]
"""What to do with a row that fails a check."""

# A row's failed checks are the bits of a 64-bit number; the highest is for rows outside of a recomputation.
MAX_EXPECTATIONS: Final = 62
OUTSIDE: Final = 1 << MAX_EXPECTATIONS
# The column with these bits, and the metadata with the counts.
FAILED: Final = "__lode_failed"
KEY: Final = EXPECTATIONS


@dataclass(frozen=True, slots=True)
class Expectation:
    """A check on every row that a pipeline writes.

    Args:
        check: SQL of Spark over the columns of the output. A row passes if it is true. False and NULL fail.
        on_fail: ``"warn"`` writes the row and counts it, ``"drop"`` leaves it out, ``"quarantine"`` writes it
            to the quarantine dataset instead, ``"fail"`` stops the batch, and nothing is committed.
    """

    check: str
    on_fail: OnFail = "warn"

    def __post_init__(self) -> None:
        if not isinstance(self.check, str) or not self.check.strip():
            raise InvalidOptionError(f"check is {self.check!r}: it is SQL such as 'id IS NOT NULL'")
        if self.on_fail not in get_args(OnFail):
            raise InvalidOptionError(
                f"on_fail is {self.on_fail!r}: it is one of {', '.join(get_args(OnFail))}"
            )


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows of a batch passed a check and how many failed it, and what became of the latter."""

    passed: int
    failed: int
    on_fail: OnFail

    def as_dict(self) -> dict[str, Any]:
        return {"passed": self.passed, "failed": self.failed, "on_fail": self.on_fail}


def counts_of(snapshot: Snapshot) -> dict[str, Counts]:
    """The counts in the metadata of a snapshot; none if it was made without expectations."""
    return {each.name: Counts(each.passed, each.failed, each.on_fail) for each in expectations_of(snapshot)}


def bits_of(expect: Mapping[str, Expectation], *on_fail: OnFail) -> int:
    """The bits of the checks with one of these consequences."""
    return sum(1 << number for number, each in enumerate(expect.values()) if each.on_fail in on_fail)


def with_failed(frame: DataFrame, expect: Mapping[str, Expectation], inside: Column | None) -> DataFrame:
    """The frame with a column whose bits say which checks a row fails.

    Args:
        frame: The output of a pipeline.
        expect: The checks.
        inside: What rows of a recomputation fulfil.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import BooleanType

    if FAILED in frame.columns:
        raise InvalidOptionError(f"the output has a column {FAILED!r}, which Lode uses itself: rename it")
    f = functions_of(frame.sparkSession)
    failed = f.lit(0).cast("long")
    for number, (name, expectation) in enumerate(expect.items()):
        check = f.expr(expectation.check)
        try:
            kind = frame.select(check).schema[0].dataType
        except AnalysisException as error:
            reason = str(error).strip().splitlines()[0]
            raise InvalidOptionError(f"expectation {name!r} cannot be checked: {reason}") from None
        if not isinstance(kind, BooleanType):
            raise InvalidOptionError(
                f"expectation {name!r} is {kind.simpleString()}: it must be a condition, such as n > 0"
            )
        passes = f.coalesce(check, f.lit(False))
        failed = failed + f.when(passes, f.lit(0)).otherwise(f.lit(1 << number)).cast("long")
    if inside is not None:
        failed = failed + f.when(inside, f.lit(0)).otherwise(f.lit(OUTSIDE)).cast("long")
    return frame.withColumn(FAILED, failed)
