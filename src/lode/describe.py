"""Facts for the command line and the console: partitions, column statistics, installed versions."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.times import ns_to_datetime, rfc3339_to_ns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from lode.dataset import Dataset
    from lode.format.manifest import ColumnStats, FileRef, Manifest, Removed
    from lode.snapshot import Snapshot

_PACKAGES: Final = ("pyarrow", "obstore", "duckdb", "pyspark", "grpcio")


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether all values that are not null are numbers, and there is one."""
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in known
    )


class Partition(NamedTuple):
    """The files of one partition. ``rows`` is None if a codec did not count them."""

    name: str
    snapshots: int
    files: int
    rows: int | None
    bytes: int
    written_ns: int

    @property
    def last_write(self) -> datetime:
        return ns_to_datetime(self.written_ns)

    def plus(self, other: Partition) -> Partition:
        return Partition(
            self.name,
            self.snapshots + other.snapshots,
            self.files + other.files,
            None if self.rows is None or other.rows is None else self.rows + other.rows,
            self.bytes + other.bytes,
            max(self.written_ns, other.written_ns),
        )


def partitions_of(dataset: Dataset, manifest: Manifest) -> dict[str, Partition]:
    """Return the partitions of one snapshot by name. Data that is not partitioned has the name ``""``."""
    found: dict[str, Partition] = {}
    written_ns = rfc3339_to_ns(manifest.created_at)
    # A snapshot of one file counts the rows of that file, even if its codec does not.
    only_rows = manifest.row_count if len(manifest.files) == 1 else None
    for file in manifest.files:
        name = dataset.layout.partition_of(dataset.id, file.path)
        rows = file.stats.row_count if file.stats is not None else only_rows
        first = int(name not in found)
        merge_partitions(found, {name: Partition(name, first, 1, rows, file.size_bytes, written_ns)})
    return found


def partitions_of_all(dataset: Dataset, manifests: Iterable[Manifest]) -> dict[str, Partition]:
    """Return the partitions of several snapshots together, in the order of their names."""
    found: dict[str, Partition] = {}
    for manifest in manifests:
        merge_partitions(found, partitions_of(dataset, manifest))
    return dict(sorted(found.items()))


def merge_partitions(
    into: dict[str, Partition], more: Mapping[str, Partition], *, limit: int | None = None
) -> None:
    """Add ``more`` to ``into``, which gets no further names once it holds ``limit``."""
    for name, partition in more.items():
        known = into.get(name)
        if known is not None:
            into[name] = known.plus(partition)
        elif limit is None or len(into) < limit:
            into[name] = partition


def amount(removed: Removed) -> dict[str, int]:
    """Return files, rows and bytes for JSON, also those that are zero."""
    return {"files": removed.files, "rows": removed.rows, "bytes": removed.bytes}


def history_length(dataset: Dataset, newest: Snapshot) -> int:
    """Return the number of snapshots up to ``newest``. It is not its number, which counts on after a drop."""
    return len(dataset._reads.between(None, newest)[0])


class RowChange(NamedTuple):
    """How many rows a snapshot added and removed. Rows that it only rewrote are in neither."""

    added: int
    removed: int


def row_change(manifest: Manifest) -> RowChange:
    """Return how many rows a snapshot added and removed.

    If a codec keeps no statistics, rows of rewritten files may be in both numbers. Rows that a restore brings
    back are not recorded.
    """
    added, removed = manifest.row_count, manifest.removed.rows
    carried = set(manifest.carried)
    if not carried:
        return RowChange(added, removed)
    if len(carried) == len(manifest.files):
        rewritten = added
    else:
        rewritten = sum(
            file.stats.row_count for file in manifest.files if file.path in carried and file.stats
        )
    return RowChange(added - rewritten, max(0, removed - rewritten))


class ColumnSummary(NamedTuple):
    """The statistics of one column over several files."""

    min: Any
    max: Any
    null_count: int


def column_summaries(files: Iterable[FileRef]) -> dict[str, ColumnSummary]:
    """Return the statistics of each column that the files recorded."""
    columns: dict[str, list[ColumnStats]] = {}
    for file in files:
        for column in file.stats.columns if file.stats else ():
            columns.setdefault(column.name, []).append(column)
    return {
        name: ColumnSummary(
            _extreme(min, [column.min for column in found]),
            _extreme(max, [column.max for column in found]),
            sum(column.null_count for column in found),
        )
        for name, found in columns.items()
    }


def _extreme(choose: Any, values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    try:
        return choose(known) if known else None
    except TypeError:
        return None  # files with different types of a column have no common order


def versions() -> dict[str, str | None]:
    """Return the versions of Lode, of Python, and of the packages that some features need."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from lode import __version__

    def installed(package: str) -> str | None:
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    packages = {name: installed(name) for name in _PACKAGES}
    return {"lode": __version__, "python": platform.python_version(), **packages}
