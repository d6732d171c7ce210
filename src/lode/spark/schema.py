"""Which columns a scan has, as Arrow and as Spark; any of them may be null, as in Spark's own files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import (
    from_arrow_schema,
    is_geography,
    is_geometry,
    is_variant,
    to_arrow_schema,
)
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructField, StructType

from lode.codec.arrow_cast import is_lossless
from lode.codec.protocol import has_file_schema
from lode.errors import InvalidOptionError
from lode.near import column_hint
from lode.read.change_scan import ChangeScan, with_change
from lode.read.define import schema_of_files
from lode.read.files import check_components

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lode.read.scan import Scan

# Of a decimal in Spark.
MAX_DIGITS: Final = 38
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
    """The columns of a scan: those that the dataset has at its end, or else what its files say.

    Files are opened only if the columns are not stored. Of files whose statistics name the same columns two
    are opened then; with ``merge`` all are. JSON lines without a schema are read whole.

    Raises:
        InvalidOptionError: It has no columns, or they are not known.
        InvalidFormatError: Two files give a column types that do not go together.
    """
    found = known_schema(scan, merge=merge)
    if found is None:
        raise InvalidOptionError(
            f"dataset {scan.dataset_id!r} has no columns here yet: write rows first, or give .schema(…)"
        )
    return found


def known_schema(scan: Scan, *, merge: bool = False) -> pa.Schema | None:
    """The columns of a scan, as ``scan_schema`` finds them; None if they are not known."""
    if isinstance(scan, ChangeScan):
        found = known_schema(scan.of(scan.manifests), merge=merge)
        return None if found is None else with_change(found, scan.dataset_id)
    for manifest in scan.manifests:
        check_components(manifest, scan.components)
    codec = scan.components.codec
    assert codec is not None, "the options refuse blobs"
    known = getattr(codec, "schema", None) is not None and not (merge and scan.files and not _is_stored(scan))
    if known or not has_file_schema(codec):
        found = scan.schema()
    else:
        files = scan.files
        found = (
            schema_of_files(scan.store, files, scan.components, scan.dataset_id, scan.runtime, every=merge)
            if files
            else pa.schema([])
        )
    return found if found.names else None


def check_names(scan: Scan, names: Iterable[str]) -> None:
    """Refuse a schema of the caller's own with a column that the dataset does not have.

    A file may still hold one of that name that was dropped.
    """
    if scan.definition is not None and scan.definition.columns is not None and _is_stored(scan):
        schema = scan.definition.schema or pa.schema([])
        if isinstance(scan, ChangeScan):
            schema = with_change(schema, scan.dataset_id)
        projected(schema, list(names), scan.dataset_id)


def projected(schema: pa.Schema, columns: Sequence[str], dataset_id: str) -> pa.Schema:
    """Only these columns, in this order; all of them if none is named."""
    for name in columns:
        if name not in schema.names:
            raise InvalidOptionError(
                f"dataset {dataset_id!r} has no column {name!r}: {column_hint(name, schema.names)}"
            )
    return pa.schema([schema.field(name) for name in columns]) if columns else schema


def _is_stored(scan: Scan) -> bool:
    """Whether a snapshot of the range refers to a definition, so that the columns are not derived."""
    return any(manifest.definition is not None for manifest in scan.manifests)


def spark_schema(schema: pa.Schema) -> StructType:
    """An Arrow schema as Spark has it; what Spark has no type for is widened to the next it has."""
    for field in schema:
        if _is_too_precise(field.type):
            raise InvalidOptionError(
                f"column {field.name!r} is {field.type}, and Spark's decimals have at most "
                f"{MAX_DIGITS} digits: give .schema(…) without it, or with a decimal that its values fit"
            )
    plain = pa.schema([pa.field(field.name, _plain(field.type)) for field in schema])
    try:
        return from_arrow_schema(plain)
    except PySparkTypeError as error:
        raise InvalidOptionError(
            f"Spark has no type for a column ({error}): leave it out with .schema(…)"
        ) from None


def arrow_schema(schema: StructType) -> pa.Schema:
    """A Spark schema as Arrow batches on their way to or from Spark have it.

    Raises:
        InvalidOptionError: Arrow has no type for a column, or one that means something else.
    """
    typed = _typed_fields(schema)
    try:
        return to_arrow_schema(typed, timezone="UTC")
    except PySparkTypeError:
        for field in typed:
            try:
                to_arrow_schema(StructType([field]), timezone="UTC")
            except PySparkTypeError:
                raise InvalidOptionError(
                    f"column {field.name!r} is {field.dataType.simpleString()}, which cannot be stored: "
                    "cast it first, such as an interval to a number of months"
                ) from None
        raise


def _typed_fields(struct: StructType, column: str | None = None) -> StructType:
    """The fields of a struct, or of a schema if they are in no column, with types that Arrow has."""
    fields = []
    for field in struct:
        kind = _typed(field.dataType, field.name if column is None else column)
        fields.append(StructField(field.name, kind, field.nullable or _is_void(kind), field.metadata))
    return StructType(fields)


def _typed(kind: DataType, column: str) -> DataType:
    """A type that Arrow has. Spark says of ``array()`` that its elements have no type and are never null."""
    if isinstance(kind, StringType) and not kind.isUTF8BinaryCollation():
        raise InvalidOptionError(
            f"column {column!r} has a {kind.simpleString()}, and datasets have no collations: cast it to "
            "STRING COLLATE UTF8_BINARY, and name the collation in queries"
        )
    if isinstance(kind, StructType):
        return _typed_fields(kind, column)
    if isinstance(kind, ArrayType):
        element = _typed(kind.elementType, column)
        return ArrayType(element, kind.containsNull or _is_void(element))
    if isinstance(kind, MapType):
        if _is_void(kind.keyType):
            raise InvalidOptionError(
                f"column {column!r} has a {kind.simpleString()}, whose keys have no type: cast it first, "
                "such as map() to MAP<STRING, STRING>"
            )
        key, value = _typed(kind.keyType, column), _typed(kind.valueType, column)
        return MapType(key, value, kind.valueContainsNull or _is_void(value))
    return kind


def _is_void(kind: DataType) -> bool:
    return isinstance(kind, NullType)


def written_schema(schema: StructType) -> pa.Schema:
    """A Spark schema as a dataset stores it: any column may be null, as in Spark's own files.

    Whether Spark calls a column nullable depends on how a query was optimised.
    """
    return pa.schema([pa.field(field.name, _nullable(field.type)) for field in arrow_schema(schema)])


def converts(source: Any, target: Any) -> bool:
    """Whether some value of one type can be stored as the other; each value is looked at when it is."""
    if isinstance(target, pa.DictionaryType):
        return converts(source, target.value_type)
    if is_lossless(source, target):
        return True
    if pt.is_string(source):
        return bool(pt.is_decimal(target) or (pt.is_temporal(target) and not pt.is_duration(target)))
    if pt.is_struct(source):
        if not pt.is_struct(target):
            return bool(pt.is_map(target))
        members = {member.name: member for member in target}
        return all(
            member.name in members and converts(member.type, members[member.name].type) for member in source
        )
    if pt.is_map(source):
        return (
            bool(pt.is_map(target))
            and converts(source.key_type, target.key_type)
            and converts(source.item_type, target.item_type)
        )
    return pt.is_list(source) and _is_list(target) and converts(source.value_type, target.value_type)


def _is_list(kind: Any) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


def is_special(kind: Any) -> bool:
    """Whether a struct is how Arrow has a VARIANT, a GEOMETRY or a GEOGRAPHY of Spark."""
    return pt.is_struct(kind) and bool(is_variant(kind) or is_geometry(kind) or is_geography(kind))


def _nullable(kind: Any) -> Any:
    if is_special(kind):
        return kind
    if pt.is_struct(kind):
        return pa.struct([pa.field(member.name, _nullable(member.type)) for member in kind])
    if pt.is_map(kind):
        return pa.map_(_nullable(kind.key_type), _nullable(kind.item_type))
    if _is_list(kind):
        return pa.list_(_nullable(kind.value_type))
    if pt.is_timestamp(kind) and kind.tz:
        return pa.timestamp(kind.unit, "UTC")
    return kind.value_type if pt.is_dictionary(kind) else kind


def _is_too_precise(kind: Any) -> bool:
    """Whether a decimal, at any depth, has more digits than Spark's."""
    if pt.is_nested(kind) and not pt.is_dictionary(kind):
        return any(_is_too_precise(kind.field(index).type) for index in range(kind.num_fields))
    return pt.is_decimal(kind) and kind.precision > MAX_DIGITS


def _plain(kind: Any) -> Any:
    """The type nearest to this one that Spark has."""
    kind = _nullable(kind)
    if is_special(kind):
        return kind
    if pt.is_struct(kind):
        return pa.struct([pa.field(member.name, _plain(member.type)) for member in kind])
    if pt.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pt.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return _WIDER.get(kind, kind)
