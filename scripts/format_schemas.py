"""Write the JSON Schemas of all stored objects, and the tables of their fields in docs/reference/format.md.

./run python scripts/format_schemas.py

A test compares both with what this script makes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from scripts.format_objects import OBJECTS, Field, Json, Object, ref

from lode.ingest.catalog.dataset import DatasetDefinition, DeletedDataset
from lode.ingest.catalog.table import DeletedTable, TableDefinition

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "reference" / "schema"
PAGE: Final = ROOT / "docs" / "reference" / "format.md"

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_MAX_64: Final = 2**63 - 1

# Types of columns: see the section "Types" of the page.
TYPE: Final[Json] = {
    "title": "The type of a column",
    "anyOf": [
        {"type": "string", "minLength": 1},
        *(
            {"type": "object", "properties": {name: inner}, "required": [name], "additionalProperties": False}
            for name, inner in {
                "struct": {"type": "array", "items": ref("field")},
                "list": ref("field"),
                "large_list": ref("field"),
                "list_view": ref("field"),
                "large_list_view": ref("field"),
                "fixed_size_list": {
                    "type": "object",
                    "properties": {"item": ref("field"), "size": {"type": "integer", "minimum": 0}},
                    "required": ["item", "size"],
                },
                "map": {
                    "type": "object",
                    "properties": {"key": ref("field"), "value": ref("field"), "sorted": {"type": "boolean"}},
                    "required": ["key", "value", "sorted"],
                },
                "dictionary": {
                    "type": "object",
                    "properties": {
                        "index": ref("type"),
                        "value": ref("type"),
                        "ordered": {"type": "boolean"},
                    },
                    "required": ["index", "value", "ordered"],
                },
                "arrow": {"type": "string", "contentEncoding": "base64"},
            }.items()
        ),
    ],
}


# Objects of the server, which only it reads.
CATALOG: Final = (
    ("catalog-dataset", "A dataset in the catalog of the server", DatasetDefinition | DeletedDataset),
    ("catalog-table", "A table in the catalog of the server", TableDefinition | DeletedTable),
)


def schemas() -> dict[str, Json]:
    """Every schema by the name of its file, without ``.json``."""
    found = {name: _schema(name, each) for name, each in OBJECTS.items()}
    intent = found["intent"]
    found["intent"] = {
        **{key: intent[key] for key in ("$schema", "title")},
        "anyOf": [
            {"allOf": [ref(kind), {"properties": intent["properties"]}]}
            for kind in ("manifest", "volume-manifest")
        ]
        + [ref("tombstone")],
    }
    found["type"] = {"$schema": _DRAFT, **TYPE}
    # A field inside a type is a column whose id may be absent.
    column = found["column"]
    required = [name for name in column["required"] if name != "id"]
    found["field"] = {**column, "title": "A field inside a type", "required": required}
    for name, title, kind in CATALOG:
        whole = msgspec.json.schema(kind)
        found[name] = {"$schema": _DRAFT, "title": title, **_without_prose(whole)}
    return found


def _without_prose(schema: Any) -> Any:
    """A schema without docstrings, and without ``discriminator``, which is not part of JSON Schema."""
    if isinstance(schema, list):
        return [_without_prose(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    # A column of a table has a property of this name.
    prose = {"discriminator"} | ({"description"} if isinstance(schema.get("description"), str) else set())
    return {name: _without_prose(value) for name, value in schema.items() if name not in prose}


def _schema(name: str, described: Object) -> Json:
    made: Json = {}
    if described.struct is not None:
        (top,), parts = msgspec.json.schema_components([described.struct], ref_template="{name}")
        made = parts[top["$ref"]]
        unknown = {field for field in described.fields if field not in made["properties"]}
        missing = set(made["properties"]) - set(described.fields)
        beyond = {field for field in unknown if described.fields[field].schema is None}
        if missing or beyond:
            raise SystemExit(f"{name}: describe {sorted(missing)}, and remove or type {sorted(beyond)}")
    properties = {
        field: _property(about, made.get("properties", {}).get(field, {}))
        for field, about in described.fields.items()
    }
    required = [
        field
        for field, about in described.fields.items()
        if (field in made.get("required", ()) if about.required is None else about.required)
    ]
    # Definitions always have the fields that identify the format.
    if name == "definition":
        required = ["schema_name", "format_version", "layout", "compressor"]
    return {
        "$schema": _DRAFT,
        "title": described.title.replace("`", ""),
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _property(field: Field, made: Json) -> Json:
    found = dict(field.schema if field.schema is not None else _without_defaults(made))
    return {**found, "description": re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", field.meaning)}


def _without_defaults(made: Json) -> Json:
    """The schema of a field. A value of null is not written, and read like an absent one."""
    return {name: value for name, value in made.items() if name != "default"}


def table(name: str) -> str:
    """The table of an object's fields."""
    made, described = schemas_by_name[name], OBJECTS[name]
    required = made.get("required", ())
    lines = ["| field | type | required | meaning | since |", "| --- | --- | --- | --- | --- |"]
    for field, about in described.fields.items():
        kind = _type_text(made["properties"][field] if name != "intent" else _group())
        needed = "yes" if field in required else ""
        lines.append(f"| `{field}` | {kind} | {needed} | {about.meaning} | {about.since} |")
    return "\n".join(lines)


def _group() -> Json:
    return OBJECTS["intent"].fields["group"].schema or {}


def _type_text(found: Json) -> str:
    if "const" in found:
        return f"`{json.dumps(found['const'])}`"
    if "$ref" in found:
        target = found["$ref"].removesuffix(".json")
        return f"[{target.replace('-', ' ')}](schema/{target}.json)"
    if "anyOf" in found:
        kinds = [_type_text(each) for each in found["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in found:
        return " or ".join(f"`{value}`" for value in found["enum"])
    kind = found.get("type", "any JSON")
    if isinstance(kind, list):
        kind = next(each for each in kind if each != "null")
    if kind == "array":
        return f"list of {_type_text(found.get('items', {}))}"
    if kind == "object":
        inner = found.get("additionalProperties")
        if not isinstance(inner, dict) or not inner:
            return "object"
        return f"object of {_type_text(inner)}" + " or null" * ({"type": "null"} in inner.get("anyOf", ()))
    if found.get("format") == "date-time":
        return "RFC 3339 time"
    if "pattern" in found:
        return "64 hexadecimal digits"
    return _bounded(str({"string": "text", "number": "number"}.get(kind, kind)), found)


def _bounded(kind: str, found: Json) -> str:
    if kind == "integer" and found.get("minimum", 0) >= 1:
        return f"integer from {found['minimum']}"
    if kind == "integer" and found.get("exclusiveMinimum") == 0:
        return "integer from 1"
    return kind


def files() -> dict[Path, str]:
    """Everything that this script writes, by path."""
    texts = {
        FOLDER / f"{name}.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in sorted(schemas_by_name.items())
    }
    return {**texts, PAGE: page(PAGE.read_text())}


def page(text: str) -> str:
    """The page with all tables of fields as they are now."""

    def replaced(match: re.Match[str]) -> str:
        return f"<!-- fields: {match[1]} -->\n\n{table(match[1])}\n\n<!-- end -->"

    return re.sub(r"<!-- fields: ([\w-]+) -->.*?<!-- end -->", replaced, text, flags=re.DOTALL)


def described_on(text: str) -> set[str]:
    """The objects whose fields a page has a table of."""
    return set(re.findall(r"<!-- fields: ([\w-]+) -->", text))


schemas_by_name: Final[dict[str, Any]] = schemas()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
