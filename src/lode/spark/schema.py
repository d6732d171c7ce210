"""Which columns a scan has, as Arrow and as Spark; any of them may be null, as in Spark's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from lode.errors import InvalidFormatError, InvalidOptionError
from lode.read.scan import check_components
from lode.read.source import open_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.types import StructType

    from lode.format.manifest import FileRef
    from lode.read.scan import Scan

_WIDER: Any = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
}


def scan_schema(scan: Scan, *, merge: bool = False) -> pa.Schema:
    """The columns of a scan: the codec's own, or else what its files say.

    Files whose statistics name the same columns are taken to be alike, and the newest speaks for them;
    with ``merge`` every file is asked. JSON says nothing but in its rows, so those are all read.

    Raises:
        InvalidOptionError: It has no columns, or nobody can say which.
        InvalidFormatError: Two files give a column types that do not go together.
    """
    for manifest in scan.manifests:
        check_components(manifest, scan.components)
    codec = scan.components.codec
    assert codec is not None, "the options refuse blobs"
    if getattr(codec, "schema", None) is not None or codec.name not in ("parquet", "arrow"):
        found = scan.schema()
    else:
        asked = scan.files if merge else _one_of_each(scan.files)
        found = _united(scan, scan.runtime.each(lambda file: _schema_of(scan, file), asked))
    if not found.names:
        raise InvalidOptionError(
            f"dataset {scan.dataset_id!r} has no file in this range that tells its columns: give .schema(…)"
        )
    return found


def spark_schema(schema: pa.Schema) -> StructType:
    """An Arrow schema as Spark has it; what Spark has no type for is widened to the next it has."""
    plain = pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])
    try:
        return from_arrow_schema(plain)
    except PySparkTypeError as error:
        raise InvalidOptionError(
            f"Spark has no type for a column ({error}): leave it out with .schema(…)"
        ) from None


def arrow_schema(schema: StructType) -> pa.Schema:
    """A Spark schema as Arrow batches on their way to or from Spark have it."""
    return to_arrow_schema(schema, timezone="UTC")


def _one_of_each(files: list[FileRef]) -> list[FileRef]:
    newest: dict[Any, FileRef] = {}
    for file in files:
        columns = tuple(sorted(column.name for column in file.stats.columns)) if file.stats else None
        newest.pop(columns, None)
        newest[columns] = file
    return list(newest.values())


def _schema_of(scan: Scan, file: FileRef) -> pa.Schema:
    import pyarrow.parquet as pq

    parquet = scan.components.codec is not None and scan.components.codec.name == "parquet"
    with open_file(scan.store, file) as stored, scan.components.compressor.decompress(stored) as plain:
        source: Any = plain
        try:
            if parquet:
                return pq.read_schema(source if plain.seekable() else pa.BufferReader(plain.read()))
            return pa.ipc.open_stream(source).schema
        except pa.ArrowException as error:
            raise InvalidFormatError(f"{file.path}: not a file of its codec: {error}") from error


def _united(scan: Scan, schemas: Iterable[pa.Schema]) -> pa.Schema:
    plain = [pa.schema([pa.field(f.name, _nullable(f.type)) for f in schema]) for schema in schemas]
    try:
        # The newest comes first: its order of columns is the one people expect.
        return pa.unify_schemas(plain[::-1], promote_options="permissive") if plain else pa.schema([])
    except pa.ArrowException as error:
        raise InvalidFormatError(
            f"the files of dataset {scan.dataset_id!r} disagree about a column ({error}): "
            "give .schema(…) to say which type is meant"
        ) from None


def _nullable(kind: Any) -> Any:
    if pt.is_struct(kind):
        return pa.struct([pa.field(member.name, _nullable(member.type)) for member in kind])
    if pt.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return pa.list_(_nullable(kind.value_type))
    if pt.is_timestamp(kind) and kind.tz:
        return pa.timestamp(kind.unit, "UTC")
    return kind.value_type if pt.is_dictionary(kind) else kind


def _plain(kind: Any) -> Any:
    """The type nearest to this one that Spark has."""
    kind = _nullable(kind)
    if pt.is_struct(kind):
        return pa.struct([pa.field(member.name, _plain(member.type)) for member in kind])
    if pt.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pt.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return _WIDER.get(kind, kind)
