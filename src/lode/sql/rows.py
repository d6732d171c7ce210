"""The rows of a snapshot for a query. They pickle, and are opened by the process that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.errors import LodeError
from lode.lazy import pa, pt
from lode.read.filesystem import local_path
from lode.sql.numbered import narrow, numbered_rows
from lode.store.protocol import check_path

if TYPE_CHECKING:
    from lode.read.scan import Scan

# DuckDB opens all files that it reads itself to plan a query. A dataset of Arrow leaves out those that
# cannot match, by their manifests.
MAX_FILES: Final = 32
_WILD: Final = frozenset("*?[]{}\\")
_NAMES: Final = (
    ("is_int64", "BIGINT"),
    ("is_float64", "DOUBLE"),
    ("is_string", "VARCHAR"),
    ("is_boolean", "BOOLEAN"),
    ("is_binary", "BLOB"),
    ("is_date32", "DATE"),
)


class ScanRows:
    """The rows of a scan.

    Args:
        scan: The files.
    """

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self.schema: pa.Schema = narrow(scan.schema())

    def open(self) -> Any:
        """What DuckDB reads through Arrow."""
        scan = self._scan
        wide = any(pt.is_decimal256(each.type) for each in scan.schema())
        # DuckDB reads no decimals of 256 bits, and pyarrow no columns under several names.
        return numbered_rows(scan) if wide or not scan.is_plain_parquet else scan.dataset()

    def local_files(self) -> list[str]:
        """The paths of the files, if DuckDB can read them itself; otherwise nothing."""
        scan = self._scan
        if len(scan.files) > MAX_FILES or not scan.is_plain_parquet:
            return []
        try:
            found = [local_path(scan.store, check_path(file.path), file) for file in scan.files]
        except LodeError:
            return []  # the reader of Arrow says what is wrong with the file
        paths = [path for path in found if path is not None and not _WILD & set(path)]
        return paths if len(paths) == len(scan.files) else []


def duckdb_type(kind: Any) -> str:
    """DuckDB's name of the type of a column in Parquet; empty if Arrow may give it another."""
    for question, name in _NAMES:
        if getattr(pt, question)(kind):
            return name
    if pt.is_timestamp(kind) and kind.unit == "us":
        return "TIMESTAMP WITH TIME ZONE" if kind.tz else "TIMESTAMP"
    if pt.is_time64(kind) and kind.unit == "us":
        return "TIME"
    if pt.is_decimal128(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return ""
