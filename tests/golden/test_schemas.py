"""Every stored object fulfils its JSON Schema, and schemas and tables of the page are those of the code."""

from __future__ import annotations

import json
import random
import re
import runpy
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

import lode
from golden.test_conformance import assert_same_everywhere
from lode.codec.arrow_json import field_to_json
from lode.runtime import Runtime, one_by_one
from lode.store import LocalStore
from support import ROOT, groups
from support.stored_objects import SCHEMAS, complaints, kind_of, objects_in, validator

HERE = Path(__file__).parent
LAKES = [path for folder in ("lakes", "conformance") for path in sorted((HERE / folder).iterdir())]
# Objects that are damaged on purpose.
DAMAGED = ("damage/datasets/torn-",)
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "format_schemas.py"))
REMAKE = "remake it: ./run python scripts/format_schemas.py"


def test_the_schemas_and_the_tables_of_the_page_are_those_of_the_code() -> None:
    for path, text in SCRIPT["files"]().items():
        assert path.read_text() == text, f"{path.name}: {REMAKE}"
    assert {path.stem for path in SCHEMAS.glob("*.json")} == set(SCRIPT["schemas_by_name"])


def test_the_page_has_a_table_of_every_object() -> None:
    page = (ROOT / "docs" / "reference" / "format.md").read_text()
    assert SCRIPT["described_on"](page) == set(SCRIPT["OBJECTS"])


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_a_schema_is_valid(path: Path) -> None:
    Draft202012Validator.check_schema(json.loads(path.read_text()))


@pytest.mark.parametrize("lake", LAKES, ids=lambda path: path.name)
def test_every_object_of_a_stored_lake_fulfils_its_schema(lake: Path) -> None:
    found = objects_in(lake)
    wrong = [
        complaint
        for path, data in found.items()
        if not f"{lake.name}/{path}".startswith(DAMAGED)
        for complaint in complaints(path, data)
    ]
    assert wrong == []


def test_a_schema_refuses_what_is_not_such_an_object() -> None:
    manifest = json.loads(next((HERE / "lakes" / "default").rglob("manifest.json")).read_bytes())
    assert validator("manifest").is_valid(manifest)
    changes: list[dict[str, Any]] = [
        {"schema_name": "lode-tag"},
        {"files": {}},
        {"files": [{"path": ""}]},
        {"row_count": -1},
        {"sequence": 0},
        {"x": {"definition": "abc"}},
        {"x": {"removes": {"files": "a"}}},
        {"x": {"checkpoint": {"snapshot": "a"}}},
    ]
    for change in changes:
        assert not validator("manifest").is_valid({**manifest, **change}), change
    for name in ("snapshot_id", "dataset_id", "created_at", "metadata", "row_count", "compressor"):
        assert not validator("manifest").is_valid({k: v for k, v in manifest.items() if k != name}), name
    assert not validator("intent").is_valid({"swept": False})
    assert validator("intent").is_valid({"swept": True})


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int64()),
        pa.large_list(pa.int64()),
        pa.list_(pa.int64(), 3),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.struct([("a", pa.list_(pa.int64()))])),
        pa.dictionary(pa.int8(), pa.string()),
        pa.timestamp("us", "UTC"),
        pa.dense_union([pa.field("a", pa.int64())]),
    ],
    ids=str,
)
def test_every_type_fulfils_the_schema_of_types(kind: Any) -> None:
    stored = field_to_json(pa.field("c", kind))
    assert validator("field").is_valid(stored)
    assert not validator("column").is_valid(stored)
    assert not validator("type").is_valid({"list": 1})


def test_an_object_of_no_kind_is_noticed() -> None:
    with pytest.raises(AssertionError, match="of no kind"):
        kind_of("datasets/visits/other.json")


COLUMNS = ("a", "b", "c", "d")
WIDER = {"int32": "int64", "list<int32>": "list<int64>", "struct<x:int32>": "struct<x:int64,y:string>"}


class Steps:
    """Random operations on one dataset."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.store = LocalStore(root)
        self.runtime = Runtime(
            each=one_by_one, each_small=one_by_one, background=lambda chore: chore(), sleep=lambda _: None
        )
        self.number = 0
        self.flat = self.chance.random() < 0.2
        self.create()

    def create(self) -> None:
        pick = self.chance.choice
        keys: list[str] = [] if self.flat else pick([[], ["k"], ["k", "id"]])
        self.dataset = lode.Dataset.create(
            "visits",
            self.store,
            schema={"id": "int64", "k": "string", "a": "int32", "b": pick([*WIDER, "float64"])},
            codec=pick(["parquet", "parquet", "jsonl", "arrow"]),
            compressor=pick(["noop", "noop", "gzip", "zstd"]),
            primary_key=["id"],
            runtime=self.runtime,
            **({"layout": lode.FlatLayout()} if self.flat else {"partition_by": keys}),
        )

    def step(self) -> None:
        names = ("write",) * 4 + ("rename", "drop_column", "add", "widen", "overwrite", "delete")
        name = self.chance.choice((*names, "merge", "compact", "restore", "tag", "expire", "drop"))
        # A column is not there, or has another type.
        with suppress(lode.UsageError, lode.SchemaViolationError):
            getattr(self, name)()

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for _ in range(self.chance.randint(1, 3)):
            self.number += 1
            row = {"id": self.number % 9, "k": self.chance.choice([None, "", "x", "y/z", "1e+06"])}
            schema = self.dataset.schema
            assert schema is not None
            row |= {field.name: self.value(field.type) for field in schema if field.name not in row}
            found.append(row)
        return list({row["id"]: row for row in found}.values())

    def value(self, kind: Any) -> Any:
        if self.chance.random() < 0.2:
            return None
        if pa.types.is_struct(kind):
            return {member.name: self.value(member.type) for member in kind}
        if pa.types.is_list(kind):
            return [self.value(kind.value_type) for _ in range(self.chance.randint(0, 2))]
        if pa.types.is_string(kind):
            return self.chance.choice(["", "text"])
        return self.chance.randint(0, 100) if pa.types.is_integer(kind) else self.chance.random()

    def write(self) -> None:
        self.dataset.write(self.rows(), idempotency_key=f"key-{self.number}")

    def rename(self) -> None:
        self.dataset.evolve(rename={self.chance.choice(COLUMNS): self.chance.choice(COLUMNS)})

    def drop_column(self) -> None:
        self.dataset.evolve(drop=[self.chance.choice(COLUMNS)])

    def add(self) -> None:
        self.dataset.evolve(add={self.chance.choice(COLUMNS): self.chance.choice([*WIDER, "string"])})

    def widen(self) -> None:
        name = self.chance.choice(COLUMNS)
        for wide in WIDER.values():
            with suppress(lode.UsageError, lode.SchemaViolationError):
                self.dataset.evolve(widen={name: wide})

    def overwrite(self) -> None:
        if self.dataset.layout.keys:
            self.dataset.overwrite(self.rows())
        else:
            self.dataset.overwrite(self.rows(), where="true")

    def delete(self) -> None:
        self.dataset.delete(f"id = {self.chance.randint(0, 8)}")

    def merge(self) -> None:
        self.dataset.merge(self.rows(), on=["id"])

    def compact(self) -> None:
        self.dataset.compact()

    def restore(self) -> None:
        line = self.dataset.snapshots()
        self.dataset.restore(self.chance.choice(line[-4:]))

    def tag(self) -> None:
        self.dataset.tag(f"tag-{self.number}")

    def expire(self) -> None:
        lode.expire(self.dataset, keep=self.chance.randint(2, 6), dry_run=False)

    def drop(self) -> None:
        if self.chance.random() < 0.2:
            self.dataset.drop(force=True)
            self.create()


@pytest.mark.parametrize("seed", range(16))
def test_random_histories_are_read_alike_and_fulfil_the_schemas(tmp_path: Path, seed: int) -> None:
    steps = Steps(tmp_path, seed)
    for _ in range(25):
        steps.step()
    assert assert_same_everywhere(tmp_path, "visits") > 0
    assert [wrong for path, data in objects_in(tmp_path).items() for wrong in complaints(path, data)] == []


def test_a_long_history_has_segments_and_checkpoints_that_fulfil_the_schemas(tmp_path: Path) -> None:
    steps = Steps(tmp_path, 1)
    for _ in range(20):
        steps.write()
    steps.delete()
    steps.compact()
    kinds = {kind_of(path) for path in objects_in(tmp_path)}
    assert {"history-segment", "key", "definition"} <= kinds
    assert [wrong for path, data in objects_in(tmp_path).items() for wrong in complaints(path, data)] == []


def test_a_group_is_read_alike_and_its_slots_fulfil_the_schemas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups.always_wait(monkeypatch)
    store = LocalStore(tmp_path)
    lode.Dataset("visits", store, codec="jsonl").write([{"k": 0}])
    written = groups.write_group(store, "visits", 3)
    assert [snapshot.manifest.group.size for snapshot in written] == [3, 3, 3]
    assert assert_same_everywhere(tmp_path, "visits") == 4
    found = objects_in(tmp_path)
    assert re.search("/waiting/", " ".join(found))
    assert [wrong for path, data in found.items() for wrong in complaints(path, data)] == []
