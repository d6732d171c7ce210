"""The options that a caller opens a dataset with, and their check against what is stored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from lode.codec.columnar import to_batch
from lode.codec.components import DEFAULT_CODEC, Components, components_of
from lode.codec.protocol import has_field_ids, has_schema, streams
from lode.codec.schema import to_schema
from lode.definition import Definition, layout_name, with_fields
from lode.errors import ComponentMismatchError, InvalidOptionError
from lode.evolution import adopt, check_type, is_wider
from lode.format.paths import DefaultLayout
from lode.lazy import pa
from lode.read.define import components_named
from lode.write.dataset_draft import check_definition

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from lode.codec.checksum import Checksum
    from lode.codec.compress import Compressor
    from lode.codec.protocol import Codec
    from lode.codec.schema import SchemaSpec
    from lode.format.paths import Layout


@dataclass(frozen=True, slots=True)
class DatasetOptions:
    """The options that a caller has given; None where none was given."""

    codec: Codec | None
    layout: Layout | None
    compressor: Compressor | None
    checksum: Checksum | None
    timestamp_column: str | None

    @property
    def is_empty(self) -> bool:
        """Whether no option was given that could contradict what is stored."""
        given = (self.codec, self.layout, self.compressor, self.timestamp_column)
        return all(each is None for each in given)

    def definition(self) -> Definition:
        """The definition of a new dataset."""
        layout = self.layout if self.layout is not None else DefaultLayout()
        if layout.keys and self.codec is None:
            raise InvalidOptionError(
                f"a dataset partitioned by {', '.join(layout.keys)} needs a codec, because blobs have no "
                "columns: give codec 'parquet', 'jsonl' or 'arrow'"
            )
        return Definition(
            layout=layout_name(layout),
            keys=layout.keys,
            codec=self.codec.name if self.codec else None,
            compressor=self.compressor.name if self.compressor else "noop",
            checksum=self.checksum.name if self.checksum else None,
            timestamp_column=self.timestamp_column,
        )

    def expected(self) -> Definition | None:
        """The definition of a dataset that was created by a write with these options; None if none can be."""
        try:
            definition, schema = self.definition(), self.schema
            return definition if schema is None else adopt(definition, schema)
        except (InvalidOptionError, TypeError, ValueError):
            return None

    def check(self, stored: Definition, dataset_id: str) -> None:
        """Refuse what contradicts the dataset as it is stored."""
        given = {
            "layout": layout_name(self.layout) if self.layout is not None else stored.layout,
            "keys": self.layout.keys if self.layout is not None else stored.keys,
            "codec": self.codec.name if self.codec is not None else stored.codec,
            "compressor": self.compressor.name if self.compressor is not None else stored.compressor,
        }
        # A Hive dataset of 0.1 or Go without a file does not record its keys.
        if not stored.keys and self.layout is not None and stored.layout == "hive" == given["layout"]:
            given["keys"] = stored.keys
        check_definition(stored, msgspec.structs.replace(stored, **given), dataset_id)
        if self.timestamp_column and stored.timestamp_column not in (None, self.timestamp_column):
            raise ComponentMismatchError(
                f"dataset {dataset_id!r} has the timestamp column {stored.timestamp_column!r} and is opened "
                f"with {self.timestamp_column!r}: leave the option out, or give the one it has"
            )
        if self.schema is not None and stored.schema is not None:
            for field in self.schema:
                index = stored.schema.get_field_index(field.name)
                if index >= 0 and not is_wider(stored.schema.field(index).type, field.type):
                    check_type(field, stored.schema.field(index), dataset_id)

    def without_schema(self) -> DatasetOptions:
        """The same without a schema, for one that the dataset has outgrown."""
        if not has_schema(self.codec):
            return self
        return replace(self, codec=self.codec.with_schema(None))

    @property
    def schema(self) -> pa.Schema | None:
        found: pa.Schema | None = getattr(self.codec, "schema", None)
        return found

    def components(self, definition: Definition) -> Components:
        """What the files of the dataset pass through, with the stored schema where there is one."""
        named = components_named(
            definition.codec if self.codec is None else None, definition.compressor, definition.checksum
        )
        codec = self.codec if self.codec is not None else named.codec
        stored = definition.schema
        if stored is not None and has_schema(codec):
            codec = with_ids(codec.with_schema(stored), definition)
        return Components(codec, self.compressor or named.compressor, self.checksum or named.checksum)


def with_ids(codec: Codec, definition: Definition) -> Codec:
    """The codec for files with the ids that columns have in a definition, if it writes any."""
    return codec.with_field_ids(definition.field_ids) if has_field_ids(codec) else codec


def codec_with_schema(codec: Codec | str | None, schema: SchemaSpec | None) -> Codec | str | None:
    """The codec of a dataset that is created with a schema."""
    if schema is None:
        return codec
    chosen = components_of(codec or DEFAULT_CODEC, "noop", None).codec
    if not has_schema(chosen):
        raise InvalidOptionError(
            f"codec {codec!r} takes no schema: leave schema out, or choose another codec"
        )
    if chosen.schema is not None:
        raise InvalidOptionError("schema is given twice: as schema=… and in the codec")
    return chosen.with_schema(to_schema(schema))


def check_codec(codec: Codec | None, schema: pa.Schema | None) -> None:
    """Refuse columns that the codec cannot write, by writing a file without rows.

    Raises:
        InvalidOptionError: It cannot hold one of them.
    """
    if schema is None or not has_schema(codec):
        return
    fitted = codec.with_schema(schema)
    if not streams(fitted):
        return
    try:
        encoder = fitted.stream_encoder(_Nowhere())
        encoder.write(to_batch([], schema, first_row=0))
        encoder.close()
    except pa.ArrowException as error:
        raise InvalidOptionError(f"codec {codec.name!r} cannot hold these columns: {error}") from None


class _Nowhere:
    """Takes bytes and keeps none."""

    def write(self, data: Buffer, /) -> int:
        return memoryview(data).nbytes


def stricter(stored: pa.Schema, given: pa.Schema) -> pa.Schema:
    """The stored schema, with those columns required that the caller's schema requires."""
    required = {field.name for field in given if not field.nullable}
    if all(not field.nullable or field.name not in required for field in stored):
        return stored
    fields = [field.with_nullable(False) if field.name in required else field for field in stored]
    return with_fields(stored, fields)
