"""What a dataset is: its layout, codec, compressor and columns, stored beside it, referenced by snapshots.

A definition is one immutable object named by the digest of its bytes. Two writers with the same definition
write the same object. Columns have ids that are never reused, so that a rename or a drop changes no file: a
reader finds a column of a file by the id it had when the file was written.
"""

# No annotations as text here: msgspec would compile each of them when a process opens its first dataset.

from functools import cached_property
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.arrow_json import field_to_json, metadata_from_json, metadata_to_json, type_from_json
from lode.codec.field_ids import FieldIds, ids_inside, ids_of, unidentified_field, with_ids
from lode.errors import InvalidOptionError, ManifestInvalidError
from lode.format.manifest import check_version, decode_struct, require
from lode.format.paths import DefaultLayout, FlatLayout, HiveLayout, Layout
from lode.lazy import pa
from lode.near import column_hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SCHEMA_NAME: Final = "lode-definition"
FORMAT_VERSION: Final = "1.0.0"
# What a reader must understand to read a dataset correctly. A reader refuses a name that it does not know.
# Commits remove files that earlier ones added: a reader that only adds up files would count rows twice.
REMOVALS: Final = "removals"
KNOWN_FEATURES: Final[frozenset[str]] = frozenset({REMOVALS})


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column: an id that never changes, its present name, and its Arrow type as readable JSON."""

    id: int
    name: str
    type: Any
    nullable: bool = True
    metadata: dict[str, str] | None = None

    @property
    def type_text(self) -> str:
        """The type in one line for people: ``int64``, ``list<element: string>``."""
        if isinstance(self.type, str):
            return self.type
        return str(type_from_json(self.type))


class Definition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """What a dataset is. ``columns`` is None until its columns are known."""

    schema_name: str = SCHEMA_NAME
    format_version: str = FORMAT_VERSION
    layout: str = "default"
    keys: tuple[str, ...] = ()
    codec: str | None = None
    compressor: str = "noop"
    checksum: str | None = None
    columns: tuple[Column, ...] | None = None
    last_column_id: int = 0
    schema_metadata: dict[str, str] | None = None
    timestamp_column: str | None = None
    sort_by: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    description: str | None = None
    properties: dict[str, Any] = {}
    features: tuple[str, ...] = ()
    shared_with_go: bool = False

    @cached_property
    def data(self) -> bytes:
        """The definition as it is stored."""
        # Every field that identifies the format is written, also where it has its default.
        fields = {"schema_name": self.schema_name, "format_version": self.format_version}
        fields |= {"layout": self.layout, "compressor": self.compressor}
        fields |= msgspec.to_builtins(self)
        return msgspec.json.format(msgspec.json.encode(fields), indent=2)

    @cached_property
    def digest(self) -> str:
        """The name under which it is stored."""
        return sha256(self.data).hexdigest()

    @cached_property
    def schema(self) -> "pa.Schema | None":
        """Its columns as an Arrow schema; None if it has none declared."""
        if self.columns is None:
            return None
        fields = [
            pa.field(
                column.name,
                type_from_json(column.type),
                nullable=column.nullable,
                metadata=metadata_from_json(column.metadata),
            )
            for column in self.columns
        ]
        return pa.schema(fields, metadata=metadata_from_json(self.schema_metadata))

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each column by its name."""
        return {column.name: column.id for column in self.columns or ()}

    @cached_property
    def names(self) -> dict[int, str]:
        """The name of each column by its id."""
        return {column.id: column.name for column in self.columns or ()}

    @cached_property
    def field_ids(self) -> "FieldIds | None":
        """The ids of all columns and of the fields inside them; None if some field has none.

        Definitions of earlier versions have ids of columns only. The next change of columns gives the others.
        """
        if self.columns is None:
            return None
        return ids_of((column.name, column.id, column.type) for column in self.columns)

    def with_schema(self, schema: "pa.Schema") -> "Definition":
        """Return this definition with other columns: a name that it has keeps its id, others get new ones.

        The same holds for fields inside columns. Parquet field ids of the schema are those of other data.
        """
        before = {column.name: column for column in self.columns or ()}
        ids = count(self.last_column_id + 1)
        plain = [field_to_json(unidentified_field(field)) for field in schema]
        numbers = [before[field["name"]].id if field["name"] in before else next(ids) for field in plain]
        columns = []
        for id, field in zip(numbers, plain, strict=True):
            old = before[field["name"]].type if field["name"] in before else None
            columns.append(Column(id, **{**field, "type": with_ids(field["type"], old, ids.__next__)}))
        return msgspec.structs.replace(
            self,
            columns=tuple(columns),
            last_column_id=next(ids) - 1,
            schema_metadata=metadata_to_json(schema.metadata) if schema.metadata else None,
        )

    def open_layout(self) -> Layout:
        """The layout it names.

        Raises:
            InvalidOptionError: The layout is a custom one, which only its own program can open.
        """
        match self.layout:
            case "default":
                return DefaultLayout()
            case "flat":
                return FlatLayout()
            case "hive":
                return HiveLayout(*self.keys)
        raise InvalidOptionError(
            f"the dataset has the layout {self.layout!r}, which is not one of lode's: open it with layout=…"
        )


def layout_name(layout: Layout) -> str:
    """The name of a layout in definitions."""
    match layout:
        case DefaultLayout():
            return "default"
        case FlatLayout():
            return "flat"
        case HiveLayout():
            return "hive"
    return type(layout).__name__


def decode_definition(data: bytes, digest: str, origin: str) -> Definition:
    """Read a definition, or raise ``ManifestInvalidError`` naming ``origin`` and what is wrong with it."""
    require(sha256(data).hexdigest() == digest, "digest", "does not match its content: it is damaged", origin)
    found = decode_struct(data, Definition, origin=origin)
    require(found.schema_name == SCHEMA_NAME, "schema_name", f"is not {SCHEMA_NAME!r}", origin)
    check_version(found.format_version, origin)
    unknown = sorted(set(found.features) - KNOWN_FEATURES)
    require(
        not unknown,
        "features",
        f"requires {', '.join(map(repr, unknown))}, which this version of lode does not know: upgrade lode",
        origin,
    )
    try:
        _ = found.schema
    except ManifestInvalidError as error:
        raise ManifestInvalidError(f"{origin}: field 'columns': {error}", field="columns") from None
    columns = found.columns or ()
    inside = [id for column in columns for id in ids_inside(column.type) if id is not None]
    require(all(type(id) is int for id in inside), "columns", "have an id that is not an integer", origin)
    ids = [*(column.id for column in columns), *inside]
    require(
        len(set(ids)) == len(ids) and len(found.ids) == len(columns),
        "columns",
        "repeat an id or a name",
        origin,
    )
    # The digest names these very bytes, which another version may have formatted in another way.
    found.__dict__.update(data=data, digest=digest)
    return found


def with_fields(schema: "pa.Schema", fields: "Sequence[pa.Field[Any]]") -> "pa.Schema":
    """Return a schema of other fields with the same metadata."""
    metadata: Any = schema.metadata
    return pa.schema(fields, metadata=metadata)


def check_storable(definition: Definition) -> None:
    """Refuse a definition that readers would refuse, before it is stored.

    Raises:
        InvalidOptionError: A field has a value of another kind than it may have.
    """
    try:
        decode_definition(definition.data, definition.digest, "the definition")
    except ManifestInvalidError as error:
        raise InvalidOptionError(f"the dataset cannot be defined so: {error}") from None
    except (UnicodeEncodeError, TypeError) as error:
        raise InvalidOptionError(
            f"the dataset cannot be defined so: a name or text is no text: {error}"
        ) from None


def check_names(definition: Definition, what: str, names: "Iterable[str]") -> None:
    """Refuse an option that names a column which the dataset does not have."""
    if definition.columns is None:
        return
    for name in names:
        if name not in definition.ids:
            raise InvalidOptionError(
                f"{what} names {name!r}, which is no column: {column_hint(name, list(definition.ids))}"
            )
