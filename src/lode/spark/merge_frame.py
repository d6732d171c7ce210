"""The rows of a merge as a DataFrame: Spark joins them with the keys of the files, tasks rewrite the files.

Keys are compared as values of Spark. So a key column must be of a type that Spark has without loss.
"""

from __future__ import annotations

import pickle
import re
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lode.change.keys import Source
from lode.change.merge import Changed, Found, Rewrite
from lode.codec.arrow_cast import cast_batch, is_lossless
from lode.codec.columnar import to_batch
from lode.errors import ChecksumMismatchError, InvalidOptionError, SchemaViolationError
from lode.evolution import check_columns
from lode.spark.schema import arrow_schema, spark_schema, written_schema
from lode.spark.session import functions_of
from lode.spark.spread import slices_of, work_frame
from lode.spark.staging import in_utc
from lode.spark.workers import attempt_number, cost_of
from lode.spark.write import answer, check_types, quoted, results
from lode.write.removal import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from lode.change.base import Base, Part, Progress
    from lode.change.merge import WhenMatched
    from lode.read.scan import Scan
    from lode.spark.workers import TaskWorkers
    from lode.write.stage import Staged, Stager

# Up to so many keys the driver takes all of them to choose files; of more, only their range.
MAX_DRIVER_KEYS: Final = 100_000
_PATH: Final = "__lode_path"
_COUNT: Final = "__lode_count"


class MergedFrame:
    """The rows of a DataFrame to merge into a dataset."""

    def __init__(self, df: DataFrame, workers: TaskWorkers) -> None:
        self._df = df
        self._workers = workers
        self._functions = functions_of(workers.spark)
        self._keys: list[str] = []
        # The columns of the rows, as the dataset has them; and its key columns, as Spark has them.
        self._columns = pa.schema([])
        self._key_types = StructType()
        self._count = 0
        self._few: pa.Table | None = None
        self._rows: DataFrame | None = None
        self._matched: DataFrame | None = None

    @property
    def rows(self) -> DataFrame:
        assert self._rows is not None, "open() comes first"
        return self._rows

    @property
    def matched(self) -> DataFrame:
        """The rows whose keys a file has, with its path."""
        assert self._matched is not None, "find() comes first"
        return self._matched

    def open(self, base: Base, keys: Sequence[str], *, whole_rows: bool) -> None:
        given = written_schema(self._df.schema)
        for key in keys:
            if key not in given.names:
                raise SchemaViolationError(
                    f"the rows have no column {key!r}, by which to merge them", column=key
                )
        self._keys = list(keys)
        self._fit(base)
        self._rows = self._df.select(
            *(
                self._column(name).cast(self._key_types[name].dataType).alias(name)
                if name in keys
                else self._column(name)
                for name in self._columns.names
            )
        ).persist()
        self._check_keys()
        self._count = self.rows.count()
        if self._count <= MAX_DRIVER_KEYS:
            self._few = self.rows.select(*map(self._column, keys)).toArrow()

    def _column(self, name: str) -> Column:
        return self._functions.col(quoted(name))  # type: ignore[no-any-return]

    def _fit(self, base: Base) -> None:
        """Fit the rows to the columns that the dataset has at a snapshot."""
        schema = base.definition.schema
        assert schema is not None
        given = written_schema(self._df.schema)
        check_columns(base.definition, given, base.scan.dataset_id)
        self._columns = pa.schema([field for field in schema if field.name in given.names])
        check_types(given, self._columns, base.scan.dataset_id)
        self._key_types = spark_schema(pa.schema([schema.field(key) for key in self._keys]))
        as_spark = written_schema(self._key_types)
        for key in self._keys:
            _check_key(key, given.field(key).type, schema.field(key).type, as_spark.field(key).type)

    def _check_keys(self) -> None:
        """Refuse rows without a key, and two rows with the same key."""
        missing = reduce(or_, (self._column(key).isNull() for key in self._keys))
        groups = self.rows.groupBy(*map(self._column, self._keys)).agg(
            self._functions.count(self._functions.lit(1)).alias(_COUNT)
        )
        wrong = groups.where(missing | (self._functions.col(_COUNT) > 1)).first()
        if wrong is None:
            return
        for key in self._keys:
            if wrong[key] is None:
                raise SchemaViolationError(
                    f"column {key!r}, by which rows are merged, has a null", column=key
                )
        values = ", ".join(f"{key} = {wrong[key]!r}" for key in self._keys)
        raise SchemaViolationError(
            f"two rows have the same key ({values}): keep one of them", column=self._keys[0]
        )

    def find(self, base: Base, progress: Progress | None) -> Found:
        self._forget_matched()
        # Another writer may have widened a column since.
        self._fit(base)
        candidates = self._candidates(base)
        if not candidates:
            return Found(missing=self._count)
        there = self._keys_of(base, candidates)
        self._matched = self.rows.join(there, self._keys).persist()
        with _damage_as_such():
            counts = self.matched.groupBy(_PATH).agg(self._functions.sum(_COUNT).alias(_COUNT)).collect()
            found = self.matched.select(*map(self._column, self._keys)).distinct().count()
        return Found({row[_PATH]: row[_COUNT] for row in counts}, missing=self._count - found)

    def _candidates(self, base: Base) -> list[str]:
        """The files that may have one of the keys."""
        if not self._count:
            return []
        few = self._few_keys(base)
        if few is not None:
            return few.candidates(base)
        ends = self.rows.agg(
            *(
                end(self._column(key)).alias(f"{end.__name__} {key}")
                for key in self._keys
                for end in (self._functions.min, self._functions.max)
            )
        ).toArrow()
        assert base.definition.schema is not None
        within: list[pc.Expression] = []
        for key in self._keys:
            kind = base.definition.schema.field(key).type
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            low, high = (ends.column(f"{end} {key}").cast(kind)[0] for end in ("min", "max"))
            within.append((pc.field(key) >= low) & (pc.field(key) <= high))
        return [file.path for file in base.scan.pruned(reduce(and_, within))]

    def _few_keys(self, base: Base) -> Source | None:
        """The keys, if the driver has them."""
        if self._few is None:
            return None
        schema = base.definition.schema
        assert schema is not None
        wanted = pa.schema([schema.field(key) for key in self._keys])
        batches = [to_batch(in_utc(batch), wanted, first_row=0) for batch in self._few.to_batches()]
        return Source(pa.Table.from_batches(batches, wanted), self._keys, schema)

    def _keys_of(self, base: Base, paths: list[str]) -> DataFrame:
        """The keys that files have, each once for each file."""
        spark = self._workers.spark
        parts = base.parts(paths)
        slices = slices_of(spark, [cost_of(part) for part in parts])
        frame = work_frame(spark, [[parts[index] for index in indexes] for indexes in slices])
        types = StructType(
            [*self._key_types.fields, StructField(_PATH, StringType()), StructField(_COUNT, LongType())]
        )
        return frame.mapInArrow(_KeysOf(base.reader, arrow_schema(self._key_types)), types)

    def depends_on(self, base: Base) -> Callable[[str], bool]:
        few = self._few_keys(base)
        return everywhere if few is None else few.depends_on(base)

    def rewrite(
        self,
        base: Base,
        found: Found,
        stager: Stager,
        when_matched: WhenMatched,
        progress: Progress | None,
    ) -> list[Changed]:
        parts = {part[0].files[0].path: part for part in base.parts(found.rows)}
        tasks = len(slices_of(self._workers.spark, [1] * len(parts)))
        by_file = self.matched.drop(_COUNT).repartition(tasks, _PATH).sortWithinPartitions(_PATH)
        rewrite = _RewriteFiles(
            Rewrite(base.reader, stager, when_matched), parts, self._columns, tuple(self._keys)
        )
        with self._workers.staging() as note:
            done = [each for share in results(by_file, rewrite) for each in share]
            note(attempt for _, attempt in done)
        return [changed for changed, _ in done]

    def insert(self, found: Found, stager: Stager) -> list[Staged]:
        if self._matched is None:
            return self._workers.stage(self.rows, stager)
        known = self.matched.select(*map(self._column, self._keys)).distinct()
        return self._workers.stage(self.rows.join(known, self._keys, "left_anti"), stager)

    def close(self) -> None:
        """Let Spark forget the rows."""
        self._forget_matched()
        if self._rows is not None:
            self._rows.unpersist()

    def _forget_matched(self) -> None:
        if self._matched is not None:
            self._matched.unpersist()
            self._matched = None


def _check_key(name: str, given: Any, stored: Any, as_spark: Any) -> None:
    """Refuse a key whose values could become equal, or different, on their way into Spark."""
    if not is_lossless(stored, as_spark):
        raise InvalidOptionError(
            f"column {name!r} is {stored}, which Spark cannot compare exactly: merge with Dataset.merge and "
            "rows in Arrow"
        )
    if given != as_spark and not is_lossless(given, as_spark):
        raise SchemaViolationError(
            f"column {name!r}, by which rows are merged, is {given} in the DataFrame and {stored} in the "
            "dataset: cast it first",
            column=name,
        )


@contextmanager
def _damage_as_such() -> Iterator[None]:
    """Raise the error of a damaged file that a task of a join has met: Spark passes on its text only."""
    try:
        yield
    except PySparkException as error:
        named = re.search(rf"{ChecksumMismatchError.__name__}: (.+)", str(error))
        if named is None:
            raise
        raise ChecksumMismatchError(named[1]) from error


@dataclass(frozen=True, slots=True)
class _KeysOf:
    """Reads the keys of files: those of one file at a time. Pickles."""

    reader: Scan
    types: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            shares: list[Any] = batch.column(0).to_pylist()
            for share in shares:
                for part in pickle.loads(share):
                    yield from self._keys(part)

    def _keys(self, part: Part) -> Iterator[pa.RecordBatch]:
        names = self.types.names
        found = self.reader.of(part).read(columns=names)
        table = pa.Table.from_batches([cast_batch(batch, self.types, first_row=0) for batch in found])
        groups = table.group_by(names).aggregate([([], "count_all")]).select([*names, "count_all"])
        path = pa.array([part[0].files[0].path] * groups.num_rows, pa.string())
        groups = groups.rename_columns([*names, _COUNT]).append_column(_PATH, path)
        yield from groups.select([*names, _PATH, _COUNT]).to_batches()


@dataclass(frozen=True, slots=True)
class _RewriteFiles:
    """Rewrites the files that a task has rows for, which come file by file. Pickles."""

    rewrite: Rewrite
    parts: Mapping[str, Part]
    columns: pa.Schema
    keys: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield answer(lambda: [self._one(*each) for each in self._by_file(batches)])

    def _one(self, path: str, rows: list[pa.RecordBatch]) -> tuple[Changed, int]:
        schema = self.rewrite.reader.schema()
        table = pa.Table.from_batches(rows, self.columns)
        return self.rewrite(self.parts[path], Source(table, self.keys, schema)), attempt_number()

    def _by_file(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
        """The rows of one file after the other, with the columns of the dataset."""
        current: str | None = None
        rows: list[pa.RecordBatch] = []
        for batch in map(in_utc, batches):
            start = 0
            compute: Any = pc  # the stubs do not know run_end_encode
            runs = compute.run_end_encode(batch.column(_PATH))
            for path, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
                if current is not None and path != current:
                    yield current, rows
                    rows = []
                current = path
                part = batch.slice(start, end - start).select(self.columns.names)
                rows.append(to_batch(part, self.columns, first_row=0))
                start = end
        if current is not None:
            yield current, rows
