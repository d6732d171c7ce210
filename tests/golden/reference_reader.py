"""A reader of lakes, written from docs/reference/format.md alone. It imports nothing of lode.

It is short, not fast: it reads every manifest, and no segment, checkpoint or partition copy.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from base64 import b64decode, b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
NULLS = ("", "__HIVE_DEFAULT_PARTITION__", "<nil>")


class DamagedError(Exception):
    """The objects do not tell what the dataset is."""


class Lake:
    """A lake in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, path: str) -> bytes | None:
        file = self.root / path
        return file.read_bytes() if file.is_file() else None

    def paths(self, folder: str) -> list[str]:
        found = (self.root / folder).rglob("*") if (self.root / folder).is_dir() else ()
        return sorted(file.relative_to(self.root).as_posix() for file in found if file.is_file())

    def dataset(self, id: str) -> History:
        """As in "The layout": the histories that may have the name, then the first that has a snapshot."""
        root, default, hive = f"datasets/{id}", f"datasets/{id}/snapshots", f"datasets/{id}/segments"
        dropped: History | None = None
        for at, places in ((root, (default, hive)), (id, (id,))):
            for manifests in self._by_pointer(at, places) or self._by_listing(at, places):
                found = History(self, at, manifests, "dataset_id", id)
                if found.head is not None or found.pending is not None:
                    return found
                dropped = dropped or found
        if dropped is None:
            raise KeyError(id)
        return dropped

    def _by_pointer(self, root: str, places: tuple[str, ...]) -> list[str]:
        pointer = (self.get(f"{root}/latest") or b"").strip().decode(errors="replace").removesuffix("~closed")
        for name in ("manifest.json", "intent.json"):
            for place in places if is_id(pointer) else ():
                if self.get(f"{place}/{pointer}/{name}") is not None:
                    return [place]
        return []

    def _by_listing(self, root: str, places: tuple[str, ...]) -> list[str]:
        listed = [path.rsplit("/", 2) for path in self.paths(root) if path.endswith("/manifest.json")]
        found = [(folder, id) for folder, id, _ in listed if folder in places]
        alive = [folder for folder, id in found if not id.endswith("-drop")]
        if not found and self.get(f"{root}/latest") is not None:
            return [places[0]]
        return alive[:1] or [folder for folder, _ in found][:1]

    def volume(self, id: str) -> History:
        return History(self, f"volumes/{id}", f"volumes/{id}/snapshots", "volume_id", id)


def is_id(text: str) -> bool:
    return (
        0 < len(text) <= 1024
        and ".." not in text
        and text != "."
        and not re.search(r"[/\\\x00-\x1f\x7f]", text)
    )


class History:
    """One line of snapshots: "The head", "History", "Removals", "Definition"."""

    def __init__(self, lake: Lake, root: str, manifests: str, owner: str, id: str) -> None:
        self.lake, self.root, self.manifests, self.owner, self.id = lake, root, manifests, owner, id
        self.pending: Json | None = None
        self.head = self._visible(self._head())

    def _visible(self, found: Json | None) -> Json | None:
        return None if found is None or x_of(found).get("operation") == "drop" else found

    def _head(self) -> Json | None:
        data = self.lake.get(f"{self.root}/latest")
        if data is None:  # step 1
            return self._head_by_links()
        try:
            pointer = data.strip().decode().removesuffix("~closed")
        except UnicodeDecodeError:
            pointer = ""
        if len(data) > 4096 or not is_id(pointer):  # step 2
            raise DamagedError("the pointer is damaged")
        published = self.manifest(pointer)  # step 3
        if published is not None:
            return published
        intent = self._intent(pointer)  # step 4
        if intent is None:  # steps 6 and 7: nobody writes to a lake that is read here
            return self._head_by_links()
        self.pending = intent
        parent = (intent.get("group") or [intent])[0].get("parent_snapshot_id")  # step 5
        return None if not parent else self._require(parent)

    def _intent(self, id: str) -> Json | None:
        data = self.lake.get(f"{self.manifests}/{id}/intent.json")
        try:
            found = json.loads(data or b"")
            members = [*found.get("group", ()), found]
            if any(
                member["schema_name"] not in ("lode-manifest", "lode-volume-manifest") for member in members
            ):
                return None
        except (ValueError, KeyError, AttributeError, TypeError):
            return None
        if found["snapshot_id"] != id or any(member[self.owner] != self.id for member in members):
            raise DamagedError("the intent is of another snapshot or dataset")
        for member, child in pairwise(members):
            if child.get("parent_snapshot_id") != member["snapshot_id"]:
                return None
        return dict(found)

    def _head_by_links(self) -> Json | None:  # step 8
        listed = [path.rsplit("/", 2) for path in self.lake.paths(self.manifests)]
        ids = [id for folder, id, name in (each for each in listed if len(each) == 3)
               if folder == self.manifests and name == "manifest.json"]  # fmt: skip
        found = {id: self._require(id) for id in ids}
        parents = {each.get("parent_snapshot_id") for each in found.values()}
        drops = [each.get("sequence", 0) for each in found.values() if x_of(each).get("operation") == "drop"]
        after = max(drops, default=0)
        heads = [id for id in found if id not in parents and found[id].get("sequence", after) >= after]
        if len(heads) > 1 or (found and not heads):
            raise DamagedError(f"history has {len(heads)} heads")
        return found[heads[0]] if heads else None

    def manifest(self, id: str) -> Json | None:
        data = self.lake.get(f"{self.manifests}/{id}/manifest.json")
        if data is None:
            return None
        try:
            found = json.loads(data)
            valid = found["snapshot_id"] == id and found[self.owner] == self.id
        except (ValueError, KeyError, TypeError):
            valid = False
        if not valid or not found["format_version"].startswith("1."):
            raise DamagedError(f"the manifest of {id} is damaged")
        return dict(found)

    def _require(self, id: str) -> Json:
        found = self.manifest(id)
        if found is None:
            raise DamagedError(f"the manifest of {id} is missing")
        return found

    def up_to(self, manifest: Json | None) -> list[Json]:
        """The history up to a snapshot, oldest first, each with its sequence."""
        found: list[Json] = []
        sequence: int | None = None
        while manifest is not None and x_of(manifest).get("operation") != "drop":
            if any(each["snapshot_id"] == manifest["snapshot_id"] for each in found):
                raise DamagedError("a snapshot is its own ancestor")
            own = manifest.get("sequence")
            if own is not None and sequence not in (None, own + 1):
                raise DamagedError("a sequence does not follow")
            sequence = own if own is not None else None if sequence is None else sequence - 1
            found.append(manifest)
            begins = x_of(manifest).get("begins", 1)
            parent = manifest.get("parent_snapshot_id")
            if not parent or (begins > 1 and own == begins):
                break
            manifest = self._require(parent)
        last = found[-1].get("sequence", 1) if found else 1
        return [{**each, "sequence": last + place} for place, each in enumerate(reversed(found))]

    def floor(self) -> int:
        line = reversed(self.up_to(self.head))
        return next((x_of(each).get("floor", 1) for each in line if "definition" in x_of(each)), 1)

    def state(self, history: list[Json]) -> list[tuple[Json, Json]]:
        """The visible files at the end of a history, each with its manifest."""
        states: dict[str, list[tuple[Json, Json]]] = {}
        files: list[tuple[Json, Json]] = []
        for manifest in history:
            x = x_of(manifest)
            if x.get("restores"):
                files = states[x["restores"]]
            else:
                removes = x.get("removes") or {}
                gone = set(removes.get("files", ()))
                partitions = [canonical(each) for each in removes.get("partitions", ())]
                files = [
                    each
                    for each in files
                    if each[0]["path"] not in gone
                    and not any(self._is_in(each[0], name) for name in partitions)
                ]
                files += [(file, manifest) for file in manifest["files"] or ()]
            states[manifest["snapshot_id"]] = files
        return files

    def _is_in(self, file: Json, partition: tuple[str, ...]) -> bool:
        return canonical(partition_of(file["path"], self.root))[: len(partition)] == partition

    def _definition(self, digest: str) -> Json:
        data = self.lake.get(f"{self.root}/definition/{digest}.json")
        if data is None or sha256(data).hexdigest() != digest:
            raise DamagedError(f"the definition {digest} is missing or damaged")
        found = json.loads(data)
        if set(found.get("features", ())) - {"removals"} or not found["format_version"].startswith("1."):
            raise DamagedError("the dataset needs a newer reader")
        return dict(found)

    def read(self, id: str | None = None) -> Any:
        """The rows at a snapshot: a table, a list of JSON values if there are no columns, or of blobs."""
        target = self.head if id is None else self._require(id)
        history = self.up_to(target)
        files = self.state(history)
        digests = [x_of(each).get("definition") for each in history]
        first = next(filter(None, digests), None)
        by_snapshot, current = {}, None
        for manifest, digest in zip(history, digests, strict=True):
            current = digest or current
            by_snapshot[manifest["snapshot_id"]] = current or first
        now = None if current is None else self._definition(current)
        codec = history[-1].get("codec") if now is None else now.get("codec")
        if codec is None:
            return [self._bytes(file, manifest) for file, manifest in files]
        columns = None if now is None else now.get("columns")
        if columns is None and codec == "jsonl":
            return [row for file, manifest in files for row in json_lines(self._bytes(file, manifest))]
        if columns is None:
            tables = [self._columnar(file, manifest) for file, manifest in reversed(files)][::-1]
            if not tables:
                return pa.table({})
            whole = pa.unify_schemas([each.schema for each in tables[::-1]], promote_options="permissive")
            columns = [{"id": field.name, "name": field.name, "type": field.type} for field in whole]
        kinds = {column["name"]: type_of(column["type"]) for column in columns}
        parts: dict[str, list[Any]] = {name: [] for name in kinds}
        for file, manifest in files:
            digest = by_snapshot[manifest["snapshot_id"]]
            then = None if digest is None else self._definition(digest).get("columns")
            names = {each["id"]: each["name"] for each in (columns if then is None else then)}
            table = self._rows(file, manifest, {each["name"]: each["type"] for each in then or columns})
            for column in columns:
                name = names.get(column["id"], "")
                values: Any = table.column(name) if name in table.column_names else pa.nulls(len(table))
                parts[column["name"]] += widened(values, kinds[column["name"]])
        return pa.table({name: pa.chunked_array(parts[name], kind) for name, kind in kinds.items()})

    def _rows(self, file: Json, manifest: Json, types: Json) -> pa.Table:
        if manifest.get("codec") != "jsonl":
            return self._columnar(file, manifest)
        rows = json_lines(self._bytes(file, manifest))
        kinds = {name: type_of(kind) for name, kind in types.items()}
        return pa.table(
            {
                name: pa.array([parsed(row.get(name), kind) for row in rows], kind)
                for name, kind in kinds.items()
            }
        )

    def _columnar(self, file: Json, manifest: Json) -> pa.Table:
        data = pa.BufferReader(self._bytes(file, manifest))
        return pq.read_table(data) if manifest["codec"] == "parquet" else pa.ipc.open_stream(data).read_all()

    def _bytes(self, file: Json, manifest: Json) -> bytes:
        data = self.lake.get(file["path"])
        if data is None or len(data) != file["size_bytes"]:
            raise DamagedError(f"{file['path']} is missing or has another size")
        match manifest["compressor"]:
            case "gzip":
                return gzip.decompress(data)
            case "zstd":
                with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
                    return reader.read()
        return data

    def blocks(self, id: str | None = None) -> list[tuple[int, bytes]]:
        """The blocks of a volume at a snapshot."""
        target = self.head if id is None else self._require(id)
        found = [] if target is None else target["blocks"] or []
        return [(block["offset"], self.lake.get(block["path"]) or b"") for block in found]


def x_of(manifest: Json) -> Json:
    return manifest.get("x") or {}


def partition_of(path: str, root: str) -> str:
    head = f"{root}/partitions/"
    return path.removeprefix(head).partition("/segments/")[0] if path.startswith(head) else ""


def canonical(partition: str) -> tuple[str, ...]:
    """As in "Equality": equal partitions have the same result."""
    pairs = (part.partition("=") for part in partition.split("/") if part)
    return tuple(f"{key}={_canonical(unquote(value))}" for key, _, value in pairs)


NUMBER = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?|[1-9](?:\.[0-9]*[1-9])?e[+-][0-9]{2,3})"


def _canonical(text: str) -> str:
    if text in NULLS:
        return NULLS[1]
    if text.lower() in ("nan", "inf", "+inf", "-inf"):
        return text.lower().lstrip("+")
    if not re.fullmatch(NUMBER, text):
        return text
    if "." in text or "e" in text:
        if math.isinf(float(text)) or Decimal(text) != Decimal(repr(float(text))):
            return text
        return str(Decimal(text).normalize())
    return str(Decimal(text).normalize()) if text != "-0" else "0"


def type_of(stored: Any) -> Any:
    """As in "Types"."""
    if isinstance(stored, pa.DataType):
        return stored
    if isinstance(stored, str):
        return _plain_type(stored)
    ((name, inner),) = stored.items()
    match name:
        case "struct":
            return pa.struct([_field(each) for each in inner])
        case "map":
            make_map: Any = pa.map_
            return make_map(_field(inner["key"]), _field(inner["value"]), keys_sorted=inner["sorted"])
        case "fixed_size_list":
            return pa.list_(_field(inner["item"]), inner["size"])
        case "dictionary":
            return pa.dictionary(type_of(inner["index"]), type_of(inner["value"]), inner["ordered"])
        case "arrow":
            return pa.ipc.read_schema(pa.py_buffer(b64decode(inner))).field(0).type
    make: Any = {"list": pa.list_, "large_list": pa.large_list}[name]
    return make(_field(inner))


def _field(stored: Json) -> Any:
    return pa.field(stored["name"], type_of(stored["type"]), stored.get("nullable", True))


def _plain_type(text: str) -> Any:
    name, parameters = re.fullmatch(r"(\w+)[\[(]?(.*?)[\])]?", text).groups()  # type: ignore[union-attr]
    arguments: list[Any] = [each.removeprefix("tz=") for each in re.split(r", ?", parameters) if each]
    if name.startswith(("decimal", "fixed")):
        arguments = list(map(int, arguments))
    made = {"bool": "bool_", "fixed_size_binary": "binary"}.get(name, name)
    return getattr(pa, made)(*arguments)


def widened(column: Any, kind: Any) -> list[Any]:
    """As in "Widening": the chunks of a column as another type."""
    if column.type == kind:
        return list(column.chunks if isinstance(column, pa.ChunkedArray) else [column])
    if pa.types.is_null(column.type):
        return [pa.nulls(len(column), kind)]
    if pa.types.is_dictionary(kind):
        found = column.dictionary_encode().cast(kind)
    elif pa.types.is_nested(kind):
        found = pa.array(column.to_pylist(), kind)
    else:
        found = column.cast(kind)
    return list(found.chunks) if isinstance(found, pa.ChunkedArray) else [found]


def json_lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.split(b"\n") if line.strip()]


def parsed(value: Any, kind: Any) -> Any:
    """As in "JSON lines": a value of JSON as one that pyarrow takes for the type."""
    t: Any = pa.types
    if value is None:
        return None
    if t.is_dictionary(kind):
        return parsed(value, kind.value_type)
    if t.is_struct(kind):
        return {member.name: parsed(value.get(member.name), member.type) for member in kind}
    if t.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(parsed(key, kind.key_type), parsed(item, kind.item_type)) for key, item in pairs]
    if t.is_nested(kind):
        return [parsed(each, kind.value_type) for each in value]
    if t.is_decimal(kind):
        return Decimal(value)
    if t.is_integer(kind):
        return int(value)
    if t.is_floating(kind):
        return float(value)
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind):
        return b64decode(value)
    if t.is_date(kind):
        return date.fromisoformat(value)
    if t.is_timestamp(kind):
        return _ticks(value) * UNITS[kind.unit] // UNITS["ns"]
    if t.is_time(kind):
        return _ticks(f"1970-01-01T{value}") * UNITS[kind.unit] // UNITS["ns"]
    return _duration(value) * UNITS[kind.unit] // UNITS["ns"] if t.is_duration(kind) else value


def _ticks(text: str) -> int:
    """Nanoseconds since 1970."""
    whole, fraction, zone = re.fullmatch(r"(.{19})(?:\.(\d+))?([Zz]|[+-].*)?", text).groups()  # type: ignore[union-attr]
    moment = datetime.fromisoformat(whole.upper() + ("+00:00" if zone in (None, "Z", "z") else zone))
    seconds = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (seconds.days * 86_400 + seconds.seconds) * 10**9 + int((fraction or "").ljust(9, "0"))


def _duration(text: str) -> int:
    found = re.fullmatch(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d+))?S)?)?", text)
    sign, *parts, fraction = found.groups()  # type: ignore[union-attr]
    days, hours, minutes, seconds = (int(part or 0) for part in parts)
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return (whole * 10**9 + int((fraction or "").ljust(9, "0"))) * (-1 if sign else 1)


def as_json(scalar: Any) -> Any:
    """A value of a table in the form of JSON lines, with NaN and infinities as text."""
    kind: Any = scalar.type
    t: Any = pa.types
    if not scalar.is_valid:
        return None
    if t.is_dictionary(kind):
        return as_json(scalar.value)
    if t.is_struct(kind):
        return {member.name: as_json(scalar[place]) for place, member in enumerate(kind)}
    if t.is_map(kind):
        return [[as_json(pair["key"]), as_json(pair["value"])] for pair in scalar.values]
    if t.is_nested(kind):
        return [as_json(each) for each in scalar.values]
    if t.is_timestamp(kind) or t.is_time(kind) or t.is_duration(kind):
        return _time_text(scalar.value * (UNITS["ns"] // UNITS[kind.unit]), kind)
    value = scalar.as_py()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def _time_text(ns: int, kind: Any) -> str:
    if pa.types.is_duration(kind):
        seconds, fraction = divmod(abs(ns), 10**9)
        return f"{'-' * (ns < 0)}PT{seconds}{_decimals(fraction)}S"
    days, rest = divmod(ns, 86_400 * 10**9)
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_decimals(fraction)}"
    if pa.types.is_time(kind):
        return clock
    return f"{date.fromordinal(719_163 + days)}T{clock}{'Z' * (kind.tz is not None)}"


def _decimals(fraction: int) -> str:
    return f".{fraction:09}".rstrip("0") if fraction else ""


def rows_as_json(found: Any) -> list[Any]:
    """What ``read`` returns, as JSON."""
    if isinstance(found, pa.Table):
        columns = {name: [as_json(each) for each in found.column(name)] for name in found.column_names}
        return [{name: columns[name][row] for name in columns} for row in range(len(found))]
    return [b64encode(each).decode() if isinstance(each, bytes) else each for each in found]
