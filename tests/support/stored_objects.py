"""The objects of a lake, each with the schema that it must fulfil."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import zstandard
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from support import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = ROOT / "docs" / "reference" / "schema"

# By the end of a path, the first that fits.
KINDS: list[tuple[str, str | None]] = [
    (r".*\.lock", None),
    (r"catalog/[^/]+/[^/]+/dataset\.json", "catalog-dataset"),
    (r"catalog/[^/]+/[^/]+/tables/[^/]+\.json", "catalog-table"),
    (r"volumes/[^/]+/snapshots/[^/]+/manifest\.json", "volume-manifest"),
    (r".*/manifest\.json", "manifest"),
    (r".*/intent\.json", "intent"),
    (r".*/definition/[0-9a-f]{64}\.json", "definition"),
    (r".*/tags/[^/]+\.json", "tag"),
    (r".*/keys/(?:\d+/)?[0-9a-f]{64}\.json", "key"),
    (r".*/waiting/turn/\d+\.json", "turn"),
    (r".*/waiting/[^/]+/\d+\.json", "slot"),
    (r".*/history/\d+/\d{12}\.json\.zst", "history-segment"),
    (r".*/state/[^/]+\.json\.zst", "state-checkpoint"),
    (r"volumes/[^/]+/swept/[0-9a-f]{64}\.json", "swept-blocks"),
    (r".*/latest", None),
    (r".*/data/[^/]+", None),
    (r"expected\.json", None),
]


def kind_of(path: str) -> str | None:
    """The schema of an object; None if it is not JSON. An object of no kind is an error."""
    for pattern, kind in KINDS:
        if re.fullmatch(pattern, path):
            return kind
    raise AssertionError(f"{path} is an object of no kind that the format describes")


@cache
def validator(kind: str) -> Draft202012Validator:
    stored = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}
    registry: Registry[Any] = Registry().with_resources(
        (name, Resource.from_contents(schema)) for name, schema in stored.items()
    )
    return Draft202012Validator(stored[f"{kind}.json"], registry=registry)


def complaints(path: str, data: bytes) -> list[str]:
    """What is wrong with an object by its schema."""
    kind = kind_of(path)
    if kind is None:
        return []
    if path.endswith(".zst"):
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return [
        f"{path}: {error.json_path}: {error.message}"
        for error in validator(kind).iter_errors(json.loads(data))
    ]


def objects_in(root: Path) -> dict[str, bytes]:
    """Every object of a lake in a folder."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}
