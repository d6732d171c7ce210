"""A small lake with every kind of object, copied by hard links for every damage."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import lode
from lode.format.paths import DefaultLayout, HiveLayout
from lode.runtime import REAL
from lode.store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from pathlib import Path

AT_ONCE: Final = replace(REAL, background=lambda chore: chore())
SCHEMA: Final = {"n": "int64", "day": "string"}
# In every file outside of the lake and in none inside: a result that contains it has left the lake.
CANARY: Final = "OUTSIDE-THE-LAKE"
KEY: Final = ("loader", "k1")
GOOD_ROWS: Final = 3


@dataclass(frozen=True, slots=True)
class Target:
    """One object to be damaged, and its owner."""

    kind: str
    owner: str
    path: str
    volume: bool = False


def rows(start: int, count: int = 2) -> list[dict[str, object]]:
    return [{"n": start + number, "day": "mon" if number % 2 else "tue"} for number in range(count)]


def opened(name: str, store: lode.Store | Path) -> lode.Dataset:
    """The dataset as its writer opens it, without a store call."""
    options: dict[str, dict[str, Any]] = {
        "jsonl": {"codec": lode.JSONL()},
        "zipped": {"codec": lode.JSONL(SCHEMA), "compressor": "zstd", "checksum": "md5"},
        "parquet": {"codec": lode.Parquet(SCHEMA)},
        "arrow": {"codec": lode.ArrowIPC(SCHEMA), "compressor": "gzip"},
        "blobs": {},
        "hive": {"codec": lode.Parquet(SCHEMA), "layout": lode.HiveLayout("day")},
        "pending": {"codec": lode.JSONL()},
        "changed": {"codec": lode.Parquet(SCHEMA), "layout": lode.HiveLayout("day")},
        "good": {"codec": lode.Parquet(SCHEMA)},
    }
    return lode.Dataset(name, store, runtime=AT_ONCE, **options[name])


def build(root: Path) -> None:
    """Write the lake, and a directory beside it that must not be read."""
    store = lode.open_store(root / "lake", durable=False)
    for name in ("jsonl", "zipped", "parquet", "arrow", "hive", "good", "pending"):
        dataset = opened(name, store)
        for number in range(18 if name == "zipped" else GOOD_ROWS):
            dataset.write(
                rows(number, 1 if name == "good" else 2), idempotency_key=KEY if number == 1 else None
            )
    for number in range(2):
        opened("blobs", store).write(f"blob {number}".encode())
    with suppress(SimulatedCrash):
        opened("pending", FaultStore(store, Fault("put", "*/manifest.json"))).write(rows(9))
    change(opened("changed", store))
    volume = lode.Volume("vol", store, 100, checksum="md5")
    for offset in (0, 10, 50):
        volume.commit([volume.stage_write_at(offset, b"0123456789")])
    outside = root / "outside"
    outside.mkdir()
    lode.Dataset("secret", outside, codec=lode.Parquet(SCHEMA)).write([{"n": 1, "day": CANARY}])
    for entry in lode.open_store(outside).list("datasets/secret/snapshots/"):
        if "/data/" in entry.path:
            shutil.copy(outside / entry.path, outside / "secret.parquet")
    (outside / "secret.jsonl").write_text(f'{{"n": 1, "day": "{CANARY}"}}\n')


def change(dataset: lode.Dataset) -> None:
    """Make one snapshot of each operation that removes files."""
    for number in range(4):
        dataset.write(rows(number))
    dataset.tag("before")
    dataset.delete("n = 1")
    dataset.restore(3)
    dataset.merge([{"n": 2, "day": "tue"}], on=["n"])
    dataset.compact(where="n < 2")  # not all files, so that there is a checkpoint
    lode.expire(dataset, keep=6, dry_run=False)
    dataset.overwrite(rows(7, 1))


def copied(template: Path, into: Path) -> Path:
    """A copy of the lake by hard links: damage replaces files and never writes into one."""
    shutil.copytree(template, into, copy_function=os.link)
    return into / "lake"


def restored(template: Path, lake: Path, target: Target) -> None:
    """Restore the objects of the target's owner."""
    folder = f"{'volumes' if target.volume else 'datasets'}/{target.owner}"
    shutil.rmtree(lake / folder)
    shutil.copytree(template / "lake" / folder, lake / folder, copy_function=os.link)


def targets(template: Path) -> list[Target]:
    """One object of each kind."""
    store = lode.open_store(template / "lake")
    found = [Target("pointer", "jsonl", "datasets/jsonl/latest")]
    newest, middle, root = opened("jsonl", store).history()
    paths = DefaultLayout().chain("jsonl")
    found += [
        Target("newest manifest", "jsonl", paths.manifest(newest.id)),
        Target("older manifest", "jsonl", paths.manifest(middle.id)),
        Target("first manifest", "jsonl", paths.manifest(root.id)),
        Target("key", "jsonl", paths.key(*KEY)),
        Target("pointer of a pending commit", "pending", "datasets/pending/latest"),
        Target(
            "manifest in a segment",
            "zipped",
            DefaultLayout().chain("zipped").manifest(opened("zipped", store).snapshots()[7].id),
        ),
        Target("pointer of a volume", "vol", "volumes/vol/latest", volume=True),
    ]
    history = {each.manifest.operation: each.id for each in opened("changed", store).snapshots()}
    changed = HiveLayout("day").chain("changed")
    found += [
        Target("removing manifest", "changed", changed.manifest(history["overwrite"])),
        Target("restoring manifest", "changed", changed.manifest(history["restore"])),
        Target("checkpoint", "changed", next(entry.path for entry in store.list(changed.states))),
        Target("tag", "changed", changed.tag("before")),
    ]
    for entry in store.list():
        match entry.path.split("/"):
            case ["datasets", "pending", "snapshots", _, "intent.json"]:
                if not store.exists(entry.path.replace("intent", "manifest")):
                    found.append(Target("intent", "pending", entry.path))
            case ["datasets", "zipped", "history", "16", _]:
                found.append(Target("segment", "zipped", entry.path))
            case ["datasets", "hive", "partitions", "day=mon", "segments", _, "manifest.json"]:
                found.append(Target("partition copy", "hive", entry.path))
            case ["datasets", "hive", "definition", _]:
                found.append(Target("definition", "hive", entry.path))
            case ["datasets", "hive", "segments", _, "manifest.json"]:
                found.append(Target("hive manifest", "hive", entry.path))
            case ["datasets", name, *_, "data", _] if name not in ("good", "pending", "hive", "changed"):
                found.append(Target(f"{name} file", name, entry.path))
            case ["volumes", "vol", "snapshots", _, "manifest.json"]:
                found.append(Target("volume manifest", "vol", entry.path, volume=True))
            case ["volumes", "vol", "data", _]:
                found.append(Target("block", "vol", entry.path, volume=True))
    # The last of each kind is the newest.
    return list({target.kind: target for target in found}.values())
