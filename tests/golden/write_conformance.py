"""Write the conformance lakes and the rows to expect.

./run python tests/golden/write_conformance.py

Each lake is about one part of docs/reference/format.md. Its rows are written down here, not read back. The
clock and chance are fixed, so that a second run writes the same objects, with the same version of pyarrow.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

import lode
from lode.runtime import Runtime, one_by_one
from lode.store import Fault, FaultStore, LocalStore, SimulatedCrash
from support import golang

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parent / "conformance"
LAKES: dict[str, Callable[[Writer], None]] = {}


class Writer:
    """Writes one lake, and notes what a reader must find in it."""

    def __init__(self, name: str) -> None:
        self.root = FOLDER / name
        self.store = LocalStore(self.root)
        self.expected: dict[str, Any] = {"about": (LAKES[name].__doc__ or "").strip()}
        chance = random.Random(name)
        self._now = 1_780_000_000_000_000_000
        self.runtime = Runtime(
            now_ns=self.clock,
            random_bits=chance.getrandbits,
            each=one_by_one,
            each_small=one_by_one,
            background=lambda chore: chore(),
        )

    def clock(self) -> int:
        self._now += 1_000_000_000
        return self._now

    def open(self, id: str, **options: Any) -> lode.Dataset:
        return lode.Dataset(id, self.store, runtime=self.runtime, **options)

    def create(self, id: str, **options: Any) -> lode.Dataset:
        return lode.Dataset.create(id, self.store, runtime=self.runtime, **options)

    def expect(self, id: str, snapshot: lode.Snapshot | str, rows: list[Any] | None) -> None:
        """Note the rows of a snapshot; None if it is expired."""
        key = snapshot if isinstance(snapshot, str) else snapshot.id
        told = {"expired": True} if rows is None else {"rows": rows}
        self._of("datasets", id).setdefault("snapshots", {})[key] = told

    def expect_head(
        self, id: str, snapshot: lode.Snapshot | str | None, rows: list[Any] | None = None
    ) -> None:
        """Note which snapshot is the head; None if there is none."""
        key = snapshot if isinstance(snapshot, str) or snapshot is None else snapshot.id
        self._of("datasets", id)["head"] = key
        if key is not None and rows is not None:
            self.expect(id, key, rows)

    def expect_error(self, id: str) -> None:
        self._of("datasets", id)["error"] = True

    def expect_volume(self, id: str, snapshot: str, blocks: dict[int, bytes]) -> None:
        found = {str(offset): data.decode() for offset, data in blocks.items()}
        self._of("volumes", id).setdefault("snapshots", {})[snapshot] = {"blocks": found}
        self._of("volumes", id)["head"] = snapshot

    def _of(self, kind: str, id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.expected.setdefault(kind, {}).setdefault(id, {})
        return found

    def write(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        LAKES[self.root.name](self)
        for path in [*self.root.rglob("*.lock"), *self.root.rglob("intent.json")]:
            # Intents of published snapshots have no meaning. One lake keeps them.
            if path.name != "intent.json" or (
                (path.parent / "manifest.json").exists() and self.root.name != "unpublished"
            ):
                path.unlink()
        text = json.dumps(self.expected, indent=1, ensure_ascii=False) + "\n"
        (self.root / "expected.json").write_text(text)


def lake(write: Callable[[Writer], None]) -> Callable[[Writer], None]:
    LAKES[write.__name__.replace("_", "-")] = write
    return write


@lake
def layouts(to: Writer) -> None:
    """One dataset in each layout, with and without keys."""
    rows = [{"day": "mon", "n": 1}, {"day": "tue", "n": 2}]
    for id, options in (
        ("plain", {}),
        ("flat", {"layout": lode.FlatLayout()}),
        ("by-day", {"partition_by": ["day"]}),
        ("by-both", {"partition_by": ["day", "n"]}),
    ):
        dataset = to.create(id, schema={"day": "string", "n": "int64"}, **options)
        dataset.write(rows)
        to.expect_head(id, dataset.latest(), rows)


@lake
def codecs(to: Writer) -> None:
    """Each codec with each compressor and checksum; blobs; records of any shape."""
    rows = [{"n": 1}, {"n": None}]
    for codec in ("parquet", "jsonl", "arrow"):
        for compressor, checksum in (("noop", None), ("gzip", "md5"), ("zstd", "sha256")):
            id = f"{codec}-{compressor}"
            dataset = to.create(
                id, schema={"n": "int64"}, codec=codec, compressor=compressor, checksum=checksum
            )
            to.expect_head(id, dataset.write(rows), rows)
    blobs = to.open("blobs", compressor="gzip", checksum="xxh3-128")
    first, second = blobs.write(b"one"), blobs.write(b"two")
    to.expect("blobs", first, ["b25l"])
    to.expect_head("blobs", second, ["b25l", "dHdv"])
    shapes: list[Any] = [{"a": 1}, {"b": {"c": [None, "x"]}}, [1, 2.5], "text", None, 7]
    to.expect_head("shapes", to.open("shapes", codec="jsonl").write(shapes), shapes)


MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
# A column of each type: its name, its type, two values as Python has them, and as they are expected.
TYPES: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("bool", pa.bool_(), [True, False], [True, False]),
    ("int8", pa.int8(), [-128, 127], [-128, 127]),
    ("uint8", pa.uint8(), [0, 255], [0, 255]),
    ("int64", pa.int64(), [-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
    ("uint64", pa.uint64(), [0, 2**64 - 1], [0, 2**64 - 1]),
    ("float32", pa.float32(), [0.5, -1.25], [0.5, -1.25]),
    ("float64", pa.float64(), [1e300, -0.5], [1e300, -0.5]),
    ("decimal", pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-0.01")], ["1.50", "-0.01"]),
    ("wide", pa.decimal256(50, 3), [Decimal("1.500"), None], ["1.500", None]),
    ("text", pa.string(), ['ü\n"', ""], ['ü\n"', ""]),
    ("large_text", pa.large_string(), ["a", "b"], ["a", "b"]),
    ("bytes", pa.binary(), [b"\x00\xff", b""], ["AP8=", ""]),
    ("fixed", pa.binary(2), [b"ab", None], ["YWI=", None]),
    ("date", pa.date32(), [date(2026, 1, 2), date(1, 1, 1)], ["2026-01-02", "0001-01-01"]),
    ("time", pa.time64("us"), [time(3, 4, 5, 600000), time(0)], ["03:04:05.6", "00:00:00"]),
    ("time_ms", pa.time32("ms"), [time(3, 4, 5), None], ["03:04:05", None]),
    ("moment", pa.timestamp("us", "UTC"), [MOMENT, None], ["2026-01-02T03:04:05.6789Z", None]),
    (
        "elsewhere",
        pa.timestamp("us", "Europe/Berlin"),
        [MOMENT, None],
        ["2026-01-02T03:04:05.6789Z", None],
    ),
    ("naive", pa.timestamp("ms"), [datetime(2026, 1, 2, 3), None], ["2026-01-02T03:00:00", None]),
    ("exact", pa.timestamp("ns"), [datetime(2026, 1, 2, 3), None], ["2026-01-02T03:00:00", None]),
    ("list", pa.list_(pa.int32()), [[1, None], []], [[1, None], []]),
    ("pair", pa.list_(pa.int32(), 2), [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    (
        "struct",
        pa.struct([("a", pa.int32()), ("b", pa.date32())]),
        [{"a": 1, "b": date(2026, 1, 2)}, None],
        [{"a": 1, "b": "2026-01-02"}, None],
    ),
    (
        "map",
        pa.map_(pa.string(), pa.decimal128(5, 1)),
        [{"k": Decimal("1.5"), "l": None}, {}],
        [[["k", "1.5"], ["l", None]], []],
    ),
    (
        "deep",
        pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.binary())))])),
        [[{"m": {"k": [b"x"]}}], [None]],
        [[{"m": [["k", ["eA=="]]]}], [None]],
    ),
    ("word", pa.dictionary(pa.int32(), pa.string()), ["a", None], ["a", None]),
]


@lake
def types(to: Writer) -> None:
    """Each type in each codec: as Arrow data, and in JSON lines as Python records too."""
    schema = pa.schema([(name, kind) for name, kind, _, _ in TYPES])
    records = [{name: values[row] for name, _, values, _ in TYPES} for row in range(2)]
    rows = [{name: values[row] for name, _, _, values in TYPES} for row in range(2)]
    arrays = [
        pa.array([list(each.items()) if isinstance(each, dict) and pa.types.is_map(kind) else each
                  for each in values], kind)
        if name != "deep" else pa.array([[{"m": [("k", [b"x"])]}], [None]], kind)
        for name, kind, values, _ in TYPES
    ]  # fmt: skip
    table = pa.Table.from_arrays(arrays, schema=schema)
    for codec in ("parquet", "jsonl", "arrow"):
        dataset = to.create(codec, schema=schema, codec=codec)
        to.expect(codec, dataset.write(table), rows)
        to.expect_head(codec, dataset.write(records), rows + rows)
    lines: dict[str, Any] = {
        "d": "decimal(6,2)",
        "i": "int64",
        "f": "float64",
        "t": "timestamp",
        "m": "map<int64,string>",
    }
    dataset = to.create("lines", schema={**lines, "p": pa.duration("us")}, codec="jsonl")
    dataset.write(
        [
            {"d": 5, "i": 2.0, "f": 3, "t": "2026-01-02 05:04:05+02:00", "m": [(1, "a")], "p": "PT1H"},
            {"d": "1.5e1", "p": timedelta(days=-1, microseconds=1)},
        ]
    )
    expected = [
        {"d": "5.00", "i": 2, "f": 3.0, "t": "2026-01-02T03:04:05Z", "m": [[1, "a"]], "p": "PT3600S"},
        {"d": "15.00", "i": None, "f": None, "t": None, "m": None, "p": "-PT86399.999999S"},
    ]
    to.expect_head("lines", dataset.latest(), expected)
    floats = to.create("floats", schema={"f": "float64"}, codec="parquet")
    floats.write([{"f": float("nan")}, {"f": float("-inf")}])
    to.expect_head("floats", floats.latest(), [{"f": "nan"}, {"f": "-inf"}])


@lake
def evolution(to: Writer) -> None:
    """Renames, swapped names, widening, a dropped name that is used again, members of structs."""
    for codec in ("parquet", "jsonl", "arrow"):
        dataset = to.create(
            codec,
            codec=codec,
            schema={"a": "int32", "b": "int32", "s": "struct<x:int32>", "l": "list<int32>"},
        )
        first = dataset.write([{"a": 1, "b": 2, "s": {"x": 3}, "l": [4]}])
        to.expect(codec, first, [{"a": 1, "b": 2, "s": {"x": 3}, "l": [4]}])
        dataset.evolve(rename={"a": "t"})
        dataset.evolve(rename={"b": "a"})
        dataset.evolve(rename={"t": "b"})
        second = dataset.write([{"a": 20, "b": 10, "s": None, "l": None}])
        swapped = [{"b": 1, "a": 2, "s": {"x": 3}, "l": [4]}, {"b": 10, "a": 20, "s": None, "l": None}]
        to.expect(codec, second, swapped)
        dataset.evolve(
            widen={"a": "int64", "b": "float64", "s": "struct<x:int64,y:string>", "l": "list<int64>"}
        )
        third = dataset.write([{"a": 2**40, "b": 0.5, "s": {"x": 2**40, "y": "new"}, "l": [2**40]}])
        widened: list[dict[str, Any]] = [
            {"b": 1.0, "a": 2, "s": {"x": 3, "y": None}, "l": [4]},
            {"b": 10.0, "a": 20, "s": None, "l": None},
            {"b": 0.5, "a": 2**40, "s": {"x": 2**40, "y": "new"}, "l": [2**40]},
        ]
        to.expect(codec, third, widened)
        dataset.evolve(drop=["a"])
        fourth = dataset.evolve(add={"a": "string"})
        again = [{**row, "a": None} for row in widened]
        to.expect(codec, fourth, again)
        last = dataset.write([{"a": "text", "b": None, "s": None, "l": None}])
        to.expect_head(codec, last, [*again, {"a": "text", "b": None, "s": None, "l": None}])


@lake
def partitions(to: Writer) -> None:
    """Odd partition values, and removals of partitions by value."""
    cases: dict[str, tuple[Any, list[Any], list[Any]]] = {
        "texts": (pa.string(), [None, "", "a/b=c", "ü %", "__HIVE_DEFAULT_PARTITION__", "<nil>", "1"], []),
        "dates": (pa.date32(), [None, date(2026, 1, 2)], [None, "2026-01-02"]),
        "floats": (
            pa.float64(),
            [None, 0.5, 1234567.0, 1e21, float("nan"), float("inf")],
            [None, 0.5, 1234567.0, 1e21, "nan", "inf"],
        ),
        "times": (pa.timestamp("us", "UTC"), [None, MOMENT], [None, "2026-01-02T03:04:05.6789Z"]),
        "bools": (pa.bool_(), [None, True, False], []),
        "decimals": (pa.decimal128(6, 2), [Decimal("1.50")], ["1.50"]),
    }
    for id, (kind, values, told) in cases.items():
        schema = pa.schema([("k", kind), ("n", pa.int64())])
        dataset = to.create(id, schema=schema, partition_by=["k"])
        for number, value in enumerate(values):
            dataset.write([{"k": value, "n": number}])
        rows = [{"k": value, "n": number} for number, value in enumerate(told or values)]
        to.expect(id, dataset.latest(), rows)
        dataset.overwrite([{"k": values[-1], "n": 99}])
        to.expect_head(id, dataset.latest(), [*rows[:-1], {**rows[-1], "n": 99}])
    both = to.create("both", schema={"k": "string", "m": "int64"}, partition_by=["k", "m"])
    both.write([{"k": None, "m": 1}, {"k": "", "m": 1}, {"k": "a", "m": None}, {"k": "a", "m": 2}])
    found = [{"k": None, "m": 1}, {"k": "", "m": 1}, {"k": "a", "m": 2}, {"k": "a", "m": None}]
    to.expect_head("both", both.latest(), found)


@lake
def removals(to: Writer) -> None:
    """Delete, merge, overwrite, compact, restore, expire and tags."""
    dataset = to.create("visits", schema={"k": "string", "n": "int64"}, primary_key=["n"], partition_by=["k"])
    rows = [{"k": "a", "n": 1}, {"k": "a", "n": 2}, {"k": "b", "n": 3}]
    written = dataset.write(rows)
    dataset.tag("written", written)
    dataset.delete("n = 1")
    deleted = dataset.latest()
    dataset.merge([{"k": "b", "n": 3}, {"k": "c", "n": 4}], on=["n"])
    merged = dataset.latest()
    dataset.write([{"k": "a", "n": 5}])
    dataset.compact()
    compacted = dataset.latest()
    after = [{"k": "b", "n": 3}, {"k": "c", "n": 4}, {"k": "a", "n": 2}, {"k": "a", "n": 5}]
    dataset.overwrite([{"k": "c", "n": 6}], where="k = 'c'")
    overwritten = dataset.latest()
    dataset.restore(deleted)
    restored = dataset.latest()
    left = [{"k": "b", "n": 3}, {"k": "a", "n": 2}]
    to.expect("visits", compacted, after)
    to.expect("visits", overwritten, [after[0], after[2], after[3], {"k": "c", "n": 6}])
    to.expect("visits", restored, left)
    lode.expire(dataset, keep=2, dry_run=False)
    to.expect("visits", written, rows)  # a tag keeps it
    to.expect("visits", merged, None)
    to.expect("visits", compacted, None)
    dataset.write([{"k": "a", "n": 7}])
    to.expect_head("visits", dataset.latest(), [*left, {"k": "a", "n": 7}])


@lake
def drops(to: Writer) -> None:
    """A dropped dataset; one that was created again, in another layout too."""
    gone = to.create("gone", schema={"n": "int64"})
    gone.write([{"n": 1}])
    gone.drop()
    to.expect_head("gone", None)
    for id, options in (("again", {}), ("elsewhere", {"partition_by": ["n"]})):
        first = to.create(id, schema={"n": "int64"})
        first.write([{"n": 1}])
        first.drop()
        second = to.create(id, schema={"n": "int64"}, **options)
        to.expect_head(id, second.write([{"n": 2}]), [{"n": 2}])


def crashed(to: Writer, id: str, act: Callable[[lode.Dataset], Any], **options: Any) -> None:
    """Let a writer die after its swap, before it puts the manifest."""

    def is_manifest(path: str) -> bool:
        return path.endswith("/manifest.json")

    store = FaultStore(to.store, *(Fault(method, is_manifest) for method in ("put", "link", "put_volatile")))
    try:
        act(lode.Dataset(id, store, runtime=to.runtime, **options))
    except SimulatedCrash:
        return
    raise AssertionError("the writer did not die")


@lake
def unpublished(to: Writer) -> None:
    """Snapshots that are committed and not published: alone, the first, a group; and a published group."""
    dataset = to.create("alone", schema={"k": "int64"})
    before = dataset.write([{"k": 1}])
    crashed(to, "alone", lambda other: other.write([{"k": 2}]))
    to.expect_head("alone", before, [{"k": 1}])
    crashed(to, "first", lambda other: other.write(pa.table({"k": [1]})), codec="parquet")
    to.expect_head("first", None)
    for id, published in (("group", False), ("published", True)):
        dataset = to.create(id, schema={"k": "int64"})
        before = dataset.write([{"k": 0}])
        last = group(to, id, before, published=published)
        rows = [{"k": 0}, {"k": 1}, {"k": 2}]
        to.expect_head(id, last if published else before, rows if published else rows[:1])


def group(to: Writer, id: str, head: lode.Snapshot, *, published: bool) -> str:
    """Commit two snapshots with one swap, as a leader does, and publish them or not."""
    paths = to.open(id).chain.paths
    made: list[dict[str, Any]] = []
    for number in (1, 2):
        scratch = lode.Dataset(id, LocalStore(to.root / "scratch"), codec="parquet", runtime=to.runtime)
        scratch.write(pa.table({"k": [number]}))
        manifest = json.loads(scratch.store.get(paths.manifest(scratch.latest().id)))
        for file in manifest["files"]:
            to.store.put(file["path"], scratch.store.get(file["path"]))
        parent = made[-1] if made else json.loads(to.store.get(paths.manifest(head.id)))
        manifest["parent_snapshot_id"] = parent["snapshot_id"]
        manifest["sequence"] = parent["sequence"] + 1
        manifest["x"] = {"definition": head.manifest.definition}
        made.append(manifest)
        shutil.rmtree(to.root / "scratch")
    leader = made[-1]["snapshot_id"]
    for place, manifest in enumerate(made, 1):
        manifest["x"]["group"] = {"place": place, "size": 2, "leader": leader}
    to.store.put(paths.intent(leader), json.dumps({**made[-1], "group": made[:-1]}).encode())
    own = {**made[0], "parent_snapshot_id": head.id}
    to.store.put(paths.intent(made[0]["snapshot_id"]), json.dumps(own).encode())
    (to.root / paths.pointer).write_text(leader)
    for manifest in made if published else ():
        to.store.put(paths.manifest(manifest["snapshot_id"]), json.dumps(manifest).encode())
    return str(leader)


@lake
def damage(to: Writer) -> None:
    """Pointers and manifests in every damaged state."""

    def written(id: str) -> tuple[lode.Dataset, list[lode.Snapshot]]:
        dataset = to.open(id, codec="jsonl")
        return dataset, [dataset.write([{"n": number}]) for number in (1, 2)]

    for id, pointer, snapshots in (
        ("lost", None, 2),
        ("dangling", b"1790000000000000000-00000000000000ff", 2),
        ("spaced", b" {last} \n", 2),
        ("closed", b"{last}~closed\n", 2),
        ("behind", b"{first}", 1),
        ("empty", b"", 0),
        ("garbage", b"../../etc\xff", 0),
        ("long", b"1" * 5000, 0),
    ):
        dataset, made = written(id)
        path = to.root / dataset.chain.paths.pointer
        path.unlink()
        if pointer is not None:
            text = pointer.replace(b"{last}", made[1].id.encode()).replace(b"{first}", made[0].id.encode())
            path.write_bytes(text)
        if snapshots:
            to.expect_head(id, made[snapshots - 1], [{"n": 1}, {"n": 2}][:snapshots])
        else:
            to.expect_error(id)
    for id, intent in (("torn-intent", b'{"schema_name": "lode-man'), ("tombstone", b'{"swept": true}')):
        dataset, made = written(id)
        path = to.root / dataset.chain.paths.pointer
        path.write_text("abandoned")
        to.store.put(dataset.chain.paths.intent("abandoned"), intent)
        to.expect_head(id, made[1], [{"n": 1}, {"n": 2}])
    dataset, made = written("torn-manifest")
    path = to.root / dataset.chain.paths.manifest(made[1].id)
    path.write_bytes(path.read_bytes()[:100])
    to.expect_error("torn-manifest")
    dataset, made = written("fork")
    fork = json.loads(to.store.get(dataset.chain.paths.manifest(made[1].id)))
    fork |= {"snapshot_id": "other", "files": [], "row_count": 0}
    to.store.put(dataset.chain.paths.manifest("other"), json.dumps(fork).encode())
    to.expect_head("fork", made[1], [{"n": 1}, {"n": 2}])
    shutil.copytree(to.root / "datasets/fork", to.root / "datasets/lost-fork")
    for path in (to.root / "datasets/lost-fork").rglob("*.json"):
        path.write_text(path.read_text().replace('"fork"', '"lost-fork"').replace("/fork/", "/lost-fork/"))
    (to.root / "datasets/lost-fork/latest").unlink()
    to.expect_error("lost-fork")


@lake
def go(to: Writer) -> None:
    """Datasets of Go: no definitions, null lists, Go's partitions; then commits of Python."""
    for id, keys in (("default", ()), ("hive", ("k",))):
        values: list[Any] = ["x", 1234567.0, None]
        snapshots: list[str] = []
        for number, records in enumerate([*([{"k": value, "n": at}] for at, value in enumerate(values)), []]):
            parent = snapshots[-1] if snapshots else None
            snapshots.append(f"170000000000000000{number}")
            golang.write(to.root, snapshots[-1], records, parent=parent, keys=keys, dataset=id)
        rows = [{"k": value, "n": number} for number, value in enumerate(values)]
        for count, snapshot in enumerate(snapshots[:3], 1):
            to.expect(id, snapshot, rows[:count])
        dataset = to.open(id)
        dataset.write([{"k": "y", "n": 9}])
        after = [*rows, {"k": "y", "n": 9}]
        to.expect_head(id, dataset.latest(), after)
        if keys:
            dataset.overwrite([{"k": 1234567, "n": 10}])
            to.expect_head(
                id, dataset.latest(), [rows[0], rows[2], {"k": "y", "n": 9}, {"k": 1234567, "n": 10}]
            )
    old = to.create("old", schema={"n": "int32"})
    snapshots = [old.write([{"n": 1}]).id, old.write([{"n": 2}]).id]
    without_definitions(to, old)
    to.expect("old", snapshots[0], [{"n": 1}])
    again = to.open("old")
    again.evolve(rename={"n": "m"}, widen={"m": "int64"})
    to.expect_head("old", again.write([{"m": 2**40}]), [{"m": 1}, {"m": 2}, {"m": 2**40}])


def without_definitions(to: Writer, dataset: lode.Dataset) -> None:
    """Leave a dataset as version 0.1 has written it."""
    shutil.rmtree(to.root / dataset.chain.paths.root / "definition")
    for path in (to.root / dataset.chain.paths.root).rglob("*.json"):
        manifest = json.loads(path.read_bytes())
        manifest["x"] = {}
        path.write_text(json.dumps(manifest))


@lake
def volumes(to: Writer) -> None:
    """Volumes with gaps, with blocks of several snapshots, and a dropped one."""
    volume = lode.Volume("tape", to.store, 100, checksum="sha256", runtime=to.runtime)
    volume.commit([volume.stage_write_at(0, b"abc")])
    to.expect_volume("tape", volume.latest().id, {0: b"abc"})
    volume.commit([volume.stage_write_at(50, b"xyz")])
    to.expect_volume("tape", volume.latest().id, {0: b"abc", 50: b"xyz"})


def main() -> None:
    for name in sys.argv[1:] or LAKES:
        Writer(name).write()


if __name__ == "__main__":
    main()
