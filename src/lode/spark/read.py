"""Read a dataset as a DataFrame: planned from manifests, Parquet scanned by Spark's own vectorised reader."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import AnalysisException
from pyspark.sql.pandas.types import is_variant

from lode.codec.parquet import Parquet
from lode.errors import InvalidOptionError
from lode.read import which
from lode.read.change_scan import ChangeScan
from lode.read.small import is_small
from lode.read.which import as_text
from lode.spark.filters import together
from lode.spark.frames import native_frame, python_frame, without_hadoop
from lode.spark.options import Options, dataset_of, removal_option
from lode.spark.schema import arrow_schema, check_names, is_special, projected, scan_schema, spark_schema
from lode.spark.splits import BATCH_ROWS, OPEN_BYTES, SPLIT_BYTES, PieceReader, plan_splits, whole
from lode.spark.spread import slices_of, work_frame
from lode.spark.where import conditions_in
from lode.spark.write import quoted
from lode.store.protocol import SupportsLocalPath

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lode.dataset import Dataset
    from lode.format.manifest import FileRef
    from lode.read.incremental import OnRemoval
    from lode.read.scan import Scan
    from lode.reads import SnapshotRef

Reader = Literal["auto", "spark", "python"]

# Up to so many rows, and as many bytes as Spark allows when they are decoded, a side of a join is small.
_SMALL_ROWS: Final = 100_000
_EXPANSION: Final = 8
# From so many files on, with at most so many columns and, on average, rows, files are read in Python. Spark's
# reader opens a file more slowly, and then reads only the columns that a query uses.
_MIN_SMALL_FILES: Final = 64
_SMALL_FILE_ROWS: Final = 2_000
_SMALL_FILE_COLUMNS: Final = 24


def read(
    spark: SparkSession,
    url: str | os.PathLike[str],
    dataset: str,
    *,
    as_of: SnapshotRef | None = None,
    since: SnapshotRef | None = None,
    snapshot: SnapshotRef | None = None,
    on_removal: OnRemoval = "fail",
    columns: Sequence[str] | None = None,
    where: str | Column | None = None,
    schema: StructType | str | None = None,
    reader: Reader = "auto",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Everything up to a snapshot as a DataFrame; what is committed later is not in it.

    Args:
        spark: The session.
        url: The store.
        dataset: The dataset's id.
        as_of: Up to this snapshot, named as in ``Dataset.snapshot``; None is the newest.
        since: Leave out this snapshot and everything before it; of a time, everything made up to it.
        snapshot: Only what this one snapshot holds.
        on_removal: With ``since``, what to do about rows that were removed after it, as for ``Dataset.scan``:
            ``"fail"``, ``"ignore"`` or ``"report"``.
        columns: Only these columns.
        where: Only rows for which this is true, as SQL or a column; files that cannot have any are not
            opened. Spark prunes row groups by later filters too, but has to open the files for it.
        schema: Columns of the dataset and their types; without it those that the dataset has at that point.
        reader: ``"spark"`` is Spark's own Parquet reader, ``"python"`` goes through ``format("lode")``,
            ``"auto"`` takes Spark's wherever it can read the files, unless they are many and small: those are
            read by tasks in Python, in which opening a file takes less time.
        options: More of ``format("lode")``, such as ``{"store.endpoint": …}``.
    """
    given = dict(options or {})
    given |= {"path": str(url), "dataset": dataset}
    given |= {
        name: as_text(value)
        for name, value in (("asOf", as_of), ("since", since), ("snapshot", snapshot))
        if value is not None
    }
    if on_removal != "fail":
        given["onRemoval"] = on_removal
    opened = dataset_of(Options(given))
    given |= pinned(opened, Options(given))
    parsed = Options(given)
    scan = planned(opened, parsed)
    types = _struct(spark, schema)
    if types is None:
        found = scan_schema(scan, merge=parsed.flag("mergeSchema"))
    else:
        check_names(scan, types.names)
        found = arrow_schema(types)
    chosen = found if columns is None else projected(found, columns, opened.id)
    if where is None or _refers_only_to(chosen, where, spark):
        found = chosen
    struct = spark_schema(found)
    obstacle = _obstacle(spark, scan, found)
    if reader == "spark" and obstacle:
        raise InvalidOptionError(f"reader='spark' cannot read dataset {dataset!r}: {obstacle}; use 'python'")
    if reader == "python" or obstacle:
        if isinstance(opened.store, SupportsLocalPath):
            given["path"] = opened.store.url  # whole, for processes in another folder
        df = python_frame(spark, given, struct)
        if _is_small(spark, scan):
            df = df.hint("broadcast")
    else:
        conditions = conditions_in(where, struct, spark) if where is not None else []
        files = scan.pruned(together(conditions, found.names), arrow_schema(struct))
        if reader == "auto" and _are_small(files, found):
            df = _in_tasks(spark, scan, files, struct)
        else:
            trust = not may_hold_nan(files, found)
            paths = [file.path for file in files]
            df = native_frame(spark, opened.store, paths, struct, trust_statistics=trust)
    if where is not None:
        df = df.where(where)
    return df if found is chosen else df.select(*(quoted(name) for name in chosen.names))


def frame_of(spark: SparkSession, scan: Scan, struct: StructType, options: Options) -> DataFrame:
    """The rows of a plan. Unlike ``read``, nothing is planned again, neither here nor in another process.

    Args:
        spark: The session.
        scan: The plan.
        struct: The columns.
        options: Of ``format("lode")``.
    """
    schema = arrow_schema(struct)
    if not scan.paths or _obstacle(spark, scan, schema) is None:
        if _are_small(scan.files, schema):
            return _in_tasks(spark, scan, scan.files, struct)
        return native_frame(spark, scan.store, scan.paths, struct, trust_statistics=False)
    reader = PieceReader(
        scan.store, scan.components, schema, batch_rows=options.number("batchRows") or BATCH_ROWS
    )
    size = options.size("splitBytes", SPLIT_BYTES)
    splits = plan_splits(scan, split_bytes=size, splittable=reader.splittable)
    return work_frame(spark, [split.pieces for split in splits]).mapInArrow(_ReadPieces(reader), struct)


def _are_small(files: Sequence[FileRef], schema: pa.Schema) -> bool:
    """Whether files are read faster in Python: Spark takes about a millisecond to open one."""
    if len(files) < _MIN_SMALL_FILES or len(schema) > _SMALL_FILE_COLUMNS or not all(map(is_small, files)):
        return False
    rows = sum(file.stats.row_count for file in files if file.stats is not None)
    return rows <= len(files) * _SMALL_FILE_ROWS


def _in_tasks(spark: SparkSession, scan: Scan, files: Sequence[FileRef], struct: StructType) -> DataFrame:
    """The rows of small files, which tasks in Python read, many files each."""
    reader = PieceReader(scan.store, scan.components, arrow_schema(struct))
    pieces = [whole(file) for file in files]
    slices = slices_of(spark, [OPEN_BYTES + file.size_bytes for file in files])
    work = [[pieces[index] for index in indexes] for indexes in slices]
    frame = work_frame(spark, work).mapInArrow(_ReadPieces(reader), struct)
    return frame.hint("broadcast") if _is_small(spark, scan) else frame


@dataclass(frozen=True, slots=True)
class _ReadPieces:
    """Reads the pieces that it is given as rows."""

    reader: PieceReader

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for work in batch.column(0):
                yield from self.reader.read(pickle.loads(work.as_py()))


def _is_small(spark: SparkSession, scan: Scan) -> bool:
    """Whether a join should send these rows to every task. Spark knows no size of a Python source."""
    text = spark.conf.get("spark.sql.autoBroadcastJoinThreshold") or ""
    digits = text.lower().rstrip("b")
    limit = int(digits) if digits.isdecimal() else 0  # -1 is never; a size with a unit is left to Spark
    return scan.row_count <= _SMALL_ROWS and scan.size_bytes * _EXPANSION <= limit


def _refers_only_to(schema: pa.Schema, where: str | Column, spark: SparkSession) -> bool:
    """Whether a condition needs no column besides these."""
    try:
        _ = spark.createDataFrame([], spark_schema(schema)).where(where).schema
    except AnalysisException:
        return False
    return True


def planned(dataset: Dataset, options: Options) -> Scan:
    """The files that ``snapshot``, ``asOf`` and ``since`` mean; without any, those up to the newest."""
    one = _one_snapshot(options)
    if one is None:
        on_removal = removal_option(options)
        return dataset.plan(as_of=options.text("asOf"), since=options.text("since"), on_removal=on_removal)
    return dataset.plan_snapshot(one)


def _one_snapshot(options: Options) -> str | None:
    one = options.text("snapshot")
    if one is not None and ("asOf" in options or "since" in options):
        raise InvalidOptionError("option 'snapshot' means that one alone: drop it, or 'asOf' and 'since'")
    return one


def pinned(dataset: Dataset, options: Options) -> dict[str, str]:
    """The options that name snapshots, resolved: ``latest`` is another snapshot later, an id is not."""
    one, since, as_of = _one_snapshot(options), options.text("since"), options.text("asOf")
    if one is not None:
        return {"snapshot": _lasting(dataset, one)}
    found = {}
    # A time before the first snapshot names none, and means the same for ever.
    if since is not None and not isinstance(which.parsed(since), which.Moment):
        found["since"] = _lasting(dataset, since)
    found["asOf"] = _lasting(dataset, "latest" if as_of is None else as_of)
    return found


def _lasting(dataset: Dataset, ref: str) -> str:
    """A reference that names the same snapshot for ever: its id, or its number if the id looks like one."""
    found = dataset.snapshot(ref)
    return found.id if which.is_id(found.id) else str(dataset.chain.sequence_of(found.manifest))


def _struct(spark: SparkSession, schema: StructType | str | None) -> StructType | None:
    if not isinstance(schema, str):
        return schema
    return spark.createDataFrame([], schema).schema


def may_hold_nan(files: Sequence[FileRef], schema: pa.Schema) -> bool:
    """Whether a column may hold NaN, by the manifests: they give a range only where there is none."""
    if any(_has_floats(field.type) for field in schema if pt.is_nested(field.type)):
        return True
    names = {field.name for field in schema if pt.is_floating(field.type)}
    return bool(names) and any(not names <= _without_nan(file) for file in files)


def _without_nan(file: FileRef) -> set[str]:
    stats = file.stats
    if stats is None:
        return set()
    return {c.name for c in stats.columns if c.min is not None or c.null_count == stats.row_count}


def _has_floats(kind: Any) -> bool:
    if pt.is_nested(kind):
        return any(_has_floats(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pt.is_floating(kind))


def _obstacle(spark: SparkSession, scan: Scan, schema: pa.Schema) -> str | None:
    """Why Spark's own reader cannot read these files; None if it can."""
    codec = scan.components.codec
    if isinstance(scan, ChangeScan):
        return "the read adds a column to its files"
    if not isinstance(codec, Parquet):
        return f"its codec is {codec.name if codec else None}"
    if not scan.components.is_plain_parquet:
        return f"its files are wrapped in {scan.components.compressor.name}"
    for field in schema:
        if not _is_native(field.type):
            return f"column {field.name!r} is {field.type}"
    if changed := _changed(scan, schema):
        return changed
    return without_hadoop(spark, scan)


def _changed(scan: Scan, schema: pa.Schema) -> str | None:
    """Which of these columns changed since a file was written so that Spark's reader cannot read it."""
    now = scan.definition
    if now is None or now.columns is None or scan.definitions is None:
        return None
    seen: set[str] = set()
    written = scan.definitions.by_manifest(scan.manifests)
    for manifest, then in zip(scan.manifests, written, strict=True):
        then = then or now
        if then.schema is None or then.digest in seen or not manifest.files:
            continue
        seen.add(then.digest)
        # Spark's reader finds columns by their names in any case.
        lower = Counter(name.lower() for name in then.ids)
        for field in schema:
            id = now.ids.get(field.name)
            was = None if id is None else then.names.get(id)
            if was is None and field.name in then.ids:
                return f"column {field.name!r} was dropped and added again"
            if lower[field.name.lower()] > (was is not None):
                return f"some files have a column whose name differs from {field.name!r} only in case"
            if was is None:
                continue
            if was != field.name:
                return f"column {field.name!r} was {was!r} when some files were written"
            if not _can_widen(then.schema.field(was).type, field.type):
                return f"column {field.name!r} is {field.type} and was {then.schema.field(was).type} before"
    return None


def _can_widen(narrow: Any, wide: Any) -> bool:
    """Whether Spark's reader gives right values for a column that was widened.

    Into doubles and decimals it takes the sign bit of an unsigned number for a sign, or fails.
    """
    if narrow == wide:
        return True
    if pt.is_dictionary(narrow) or pt.is_dictionary(wide):
        return True  # text either way: there is nothing wider
    if pt.is_null(narrow):
        return False
    if pt.is_nested(narrow):
        if not pt.is_struct(narrow):
            parts = range(min(narrow.num_fields, wide.num_fields))
            return all(_can_widen(narrow.field(part).type, wide.field(part).type) for part in parts)
        members = {member.name: member.type for member in wide}
        return all(_can_widen(member.type, members.get(member.name, member.type)) for member in narrow)
    if pt.is_unsigned_integer(narrow):
        return bool(pt.is_integer(wide) and not pt.is_uint64(wide))
    return not (pt.is_integer(narrow) and pt.is_floating(wide) and wide.bit_width < 64)


def _is_native(kind: Any) -> bool:
    if is_special(kind):
        return bool(is_variant(kind))
    if pt.is_nested(kind) and not pt.is_dictionary(kind):
        return all(_is_native(kind.field(index).type) for index in range(kind.num_fields))
    return not (
        (pt.is_timestamp(kind) and kind.unit not in ("us", "ms"))
        or pt.is_time(kind)
        or pt.is_duration(kind)
        or pt.is_float16(kind)
        or pt.is_null(kind)
        or pt.is_decimal256(kind)
    )
