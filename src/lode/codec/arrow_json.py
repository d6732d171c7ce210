"""Arrow schemas as readable JSON that restores them exactly.

A plain type is its name (``"int64"``, ``"timestamp[us, tz=UTC]"``, ``"decimal128(12, 2)"``). A nested type is
an object with one entry (``{"list": …}``, ``{"struct": […]}``). A type without a form here is stored as the
bytes of Arrow's own serialisation, so that every schema survives.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final

from lode.errors import ManifestInvalidError
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Json = dict[str, Any]

# Deeper nesting is refused instead of recursed into.
MAX_NESTING: Final = 64

_PLAIN_TYPES: Final = (
    *("null", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "date32", "date64", "string", "binary", "large_string"),
    *("large_binary", "string_view", "binary_view", "month_day_nano_interval"),
)
# The functions of pyarrow that have other names than their types.
_MADE_BY: Final = {"bool": "bool_"}
_UNITS: Final = ("s", "ms", "us", "ns")
_UNITED: Final = {"time32": _UNITS[:2], "time64": _UNITS[2:], "timestamp": _UNITS, "duration": _UNITS}
_DECIMALS: Final = ("decimal32", "decimal64", "decimal128", "decimal256")
# Arrow prints these under names that its own functions do not have.
_COMMON_NAMES: Final = {
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "date32[day]": "date32",
    "date64[ms]": "date64",
}
_LISTS: Final = ("list", "large_list", "list_view", "large_list_view")


def field_to_json(field: pa.Field[Any]) -> Json:
    """Return one field as JSON: name, type, ``nullable`` if it is not, and its metadata."""
    found: Json = {"name": field.name, "type": type_to_json(field.type)}
    if not field.nullable:
        found["nullable"] = False
    if field.metadata:
        found["metadata"] = metadata_to_json(field.metadata)
    return found


def field_from_json(stored: Any, depth: int = 0) -> pa.Field[Any]:
    """Return the field that ``field_to_json`` described.

    Raises:
        ManifestInvalidError: It is not such a description.
    """
    match stored:
        case {"name": str() as name, "type": kind}:
            return pa.field(
                name,
                type_from_json(kind, depth + 1),
                nullable=stored.get("nullable", True) is not False,
                metadata=metadata_from_json(stored.get("metadata")),
            )
    raise ManifestInvalidError(f"{str(stored)[:200]} does not describe a column: it needs a name and a type")


def metadata_to_json(metadata: Mapping[bytes, bytes]) -> Json:
    """Return Arrow metadata as JSON; keys and values that are not text are stored as base64."""
    return {_text(key): _text(value) for key, value in metadata.items()}


def metadata_from_json(stored: Any) -> Any:
    if stored is None:
        return None
    if not isinstance(stored, dict):
        raise ManifestInvalidError(f"metadata is a {type(stored).__name__}: it must be an object of texts")
    return {_bytes(key): _bytes(value) for key, value in stored.items()}


def type_to_json(kind: Any) -> Any:
    """Return an Arrow type as JSON."""
    # Most types are plain, and the questions below take longer than all else that opens a dataset.
    if type(kind) is pa.DataType and (name := _name(kind)) in _PLAIN_TYPES:
        return name
    if isinstance(kind, pa.BaseExtensionType) or not _is_readable(kind):
        return {"arrow": b64encode(schema_to_bytes(pa.schema([pa.field("", kind)]))).decode()}
    if isinstance(kind, pa.DictionaryType):
        index, value = type_to_json(kind.index_type), type_to_json(kind.value_type)
        return {"dictionary": {"index": index, "value": value, "ordered": kind.ordered}}
    if pt.is_struct(kind):
        return {"struct": [field_to_json(member) for member in kind]}
    if pt.is_map(kind):
        item = {"key": field_to_json(kind.key_field), "value": field_to_json(kind.item_field)}
        return {"map": {**item, "sorted": kind.keys_sorted}}
    if pt.is_fixed_size_list(kind):
        return {"fixed_size_list": {"item": field_to_json(kind.value_field), "size": kind.list_size}}
    for name in _LISTS:
        if getattr(pt, f"is_{name}")(kind):
            return {name: field_to_json(kind.value_field)}
    return _name(kind)


def type_from_json(stored: Any, depth: int = 0) -> Any:
    """Return the Arrow type that ``type_to_json`` described.

    Raises:
        ManifestInvalidError: It is not such a description.
    """
    if depth > MAX_NESTING:
        raise ManifestInvalidError(f"a type is nested more than {MAX_NESTING} levels deep")
    if isinstance(stored, str):
        kind = _plain_type(stored) or _with_parameters(stored)
        if kind is not None:
            return kind
    elif isinstance(stored, dict) and len(stored) == 1:
        try:
            found = _nested(*next(iter(stored.items())), depth)
        except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
            raise ManifestInvalidError(f"{str(stored)[:200]} is not an Arrow type: {error}") from None
        if found is not None:
            return found
    raise ManifestInvalidError(f"{str(stored)[:200]} is not an Arrow type this version of lode knows")


def _nested(name: str, inner: Any, depth: int) -> Any:
    make_map: Any = pa.map_  # the stubs do not know fields as keys and values
    factories: dict[str, Callable[[], Any]] = {
        "arrow": lambda: schema_from_bytes(b64decode(inner, validate=True)).field(0).type,
        "struct": lambda: pa.struct([field_from_json(member, depth) for member in inner]),
        "fixed_size_list": lambda: pa.list_(field_from_json(inner["item"], depth), inner["size"]),
        "map": lambda: make_map(
            field_from_json(inner["key"], depth),
            field_from_json(inner["value"], depth),
            keys_sorted=inner["sorted"],
        ),
        "dictionary": lambda: pa.dictionary(
            type_from_json(inner["index"], depth + 1),
            type_from_json(inner["value"], depth + 1),
            ordered=inner["ordered"],
        ),
        "list": lambda: pa.list_(field_from_json(inner, depth)),
        "large_list": lambda: pa.large_list(field_from_json(inner, depth)),
        "list_view": lambda: pa.list_view(field_from_json(inner, depth)),
        "large_list_view": lambda: pa.large_list_view(field_from_json(inner, depth)),
    }
    factory = factories.get(name)
    return factory() if factory is not None else None


def _plain_type(text: str) -> Any:
    """The type of this name if it has no parameters but a unit. Made when asked for: there are dozens."""
    found = _known.get(text)
    if found is None:
        name, _, unit = text.partition("[")
        if text in _PLAIN_TYPES:
            make = getattr(pa, _MADE_BY.get(text, text), None)
            found = None if make is None else make()
        elif unit.removesuffix("]") in _UNITED.get(name, ()) and text.endswith("]"):
            found = getattr(pa, name)(unit.removesuffix("]"))
        if found is not None:
            _known[text] = found
    return found


_known: dict[str, Any] = {}


def _name(kind: Any) -> str:
    text = str(kind)
    return _COMMON_NAMES.get(text, text)


def _with_parameters(text: str) -> Any:
    """Read back the types whose text has parameters: zoned timestamps, decimals, fixed-size binary."""
    head, _, rest = text.partition("[" if text.endswith("]") else "(")
    try:
        if head == "timestamp" and rest.endswith("]"):
            unit, _, zone = rest[:-1].partition(", tz=")
            return pa.timestamp(unit, zone)
        if head in _DECIMALS and rest.endswith(")"):
            precision, scale = rest[:-1].split(",")
            return getattr(pa, head)(int(precision), int(scale))
        if head == "fixed_size_binary" and rest.endswith("]"):
            return pa.binary(int(rest[:-1]))
    except (pa.ArrowException, AttributeError, ValueError):
        return None
    return None


def _is_readable(kind: Any) -> bool:
    """Return whether the readable form restores this type; asked of the type itself, not of its children."""
    if isinstance(kind, pa.DictionaryType) or pt.is_struct(kind) or pt.is_map(kind):
        return True
    if pt.is_fixed_size_list(kind) or any(getattr(pt, f"is_{name}")(kind) for name in _LISTS):
        return True
    name = _name(kind)
    return bool((_plain_type(name) or _with_parameters(name)) == kind)


def _text(value: bytes) -> str:
    """Return bytes as text; what is not UTF-8, or looks like the form for that, is stored as base64."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if (value and not text) or text.startswith("base64:"):
        return f"base64:{b64encode(value).decode()}"
    return text


def _bytes(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ManifestInvalidError(f"metadata holds a {type(text).__name__}: it must be text")
    try:
        if text.startswith("base64:"):
            return b64decode(text.removeprefix("base64:"), validate=True)
        return text.encode()
    except ValueError as error:
        raise ManifestInvalidError(f"metadata holds {text[:100]!r}, which cannot be read: {error}") from None


def schema_to_bytes(schema: pa.Schema) -> bytes:
    """Return a schema as Arrow serialises it."""
    return schema.serialize().to_pybytes()


def schema_from_bytes(data: bytes) -> pa.Schema:
    """Return the schema that ``schema_to_bytes`` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(data))
