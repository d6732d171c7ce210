"""Every entry point: the library, the command line and the console."""

from __future__ import annotations

import contextlib
import io
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc
import typer

import lode
from lode.cli.app import app
from lode.discover import dataset_names, open_damaged, open_volume, volume_names
from lode.ui import snapshots as ui_snapshots
from lode.ui import volumes as ui_volumes
from lode.ui.datasets import Datasets
from lode.ui.overview import overview
from lode.ui.sample import sample
from support.hostile.lake import KEY, opened, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Entry = Callable[[Path, str], object]

EXIT_CODES: Final = range(7)
# Built once: that takes longer than most commands.
_LODE: Final = typer.main.get_command(app)


def _dataset(ask: Callable[[lode.Dataset], object]) -> dict[str, Entry]:
    """The same call on a dataset opened with options and as it is stored."""
    return {
        "Dataset": lambda lake, name: ask(_found(lake, name)),
        "open_dataset": lambda lake, name: ask(lode.open_dataset(name, lake)),
    }


def _scanned(dataset: lode.Dataset) -> object:
    if dataset.components.codec is None:
        return [dataset.read(snapshot) for snapshot in dataset.snapshots()]
    return dataset.scan().read_all().to_pylist()


def _console(lake: Path, name: str) -> object:
    datasets = Datasets(lode.open_store(lake))
    view = datasets.look(name)
    found = [datasets.describe(name, points=10), datasets.history(name, start=None, limit=10)]
    for line in view.lines[-3:]:
        snapshot = view.dataset.snapshot(line.id)
        found += [ui_snapshots.describe(view, snapshot), sample(view.dataset, snapshot, limit=5)]
    return found


def _reader(lake: Path, name: str) -> object:
    reader = lode.DatasetReader(lake)
    found: list[object] = [reader.list_datasets()]
    for ref in [*reader.list_manifests(name), *_copies(reader, name)]:
        manifest = reader.get_manifest(ref)
        for file in manifest.files:
            with reader.open_object(file) as stored:
                found.append(stored.read())
    return found


def _copies(reader: lode.DatasetReader, name: str) -> list[Any]:
    partitions = reader.list_partitions(name)
    return [ref for part in partitions for ref in reader.list_manifests(name, partition=part)]


_QUESTIONS: Final[dict[str, Callable[[lode.Dataset], object]]] = {
    "latest": lambda ds: ds.latest(),
    "snapshots": lambda ds: [snapshot.created_at for snapshot in ds.snapshots()],
    "history": lambda ds: [(each.writer, each.rebases, each.max_timestamp) for each in ds.history()],
    "changes": lambda ds: ds.changes(since=next(islice(ds.history(), 1, None), None)),
    "read": lambda ds: [ds.read(snapshot) for snapshot in ds.history()],
    "scan": _scanned,
    "scan where": lambda ds: ds.scan(where=pc.field("n") > 0, columns=["n"]).read_all().to_pylist(),
    "plan": lambda ds: (ds.plan().paths, ds.plan().row_count, ds.plan().size_bytes, ds.plan().files),
}
DATASET: Final[dict[str, Entry]] = {
    f"{how}: {what}": entry for what, ask in _QUESTIONS.items() for how, entry in _dataset(ask).items()
} | {
    "reader": _reader,
    "console": _console,
    "verify": lambda lake, name: lode.verify(open_damaged(name, lode.open_store(lake))),
    "sweep": lambda lake, name: lode.sweep(lode.Dataset(name, lake), timedelta(0)),
    # These change the copy of the lake, so they come last.
    "write by key": lambda lake, name: _write(lake, name, key=KEY),
    "settle": lambda lake, name: _found(lake, name).settle(),
    "write": lambda lake, name: _write(lake, name),
}


# These change what is visible. They come last, and only where that is damaged.
CHANGES: Final[dict[str, Entry]] = {
    "tags": lambda lake, name: [(tag.name, tag.created_at) for tag in _found(lake, name).tags()],
    "scan as of a tag": lambda lake, name: _found(lake, name).scan(as_of="before").read_all(),
    "scan as of": lambda lake, name: [
        _found(lake, name).count(as_of=each, where="n > 0") for each in _found(lake, name).history()
    ],
    "expire": lambda lake, name: lode.expire(_found(lake, name), keep=2),
    "delete, dry": lambda lake, name: _found(lake, name).delete("n = 3", dry_run=True),
    "delete": lambda lake, name: _found(lake, name).delete("n = 3 OR n IS NULL"),
    "merge": lambda lake, name: _found(lake, name).merge([{"n": 4, "day": "mon"}], on=["n"]),
    "overwrite": lambda lake, name: _found(lake, name).overwrite(rows(60)),
    "compact": lambda lake, name: _found(lake, name).compact(),
    "restore": lambda lake, name: _found(lake, name).restore("latest~1"),
    "expire at last": lambda lake, name: lode.expire(_found(lake, name), keep=1, dry_run=False),
}
CHANGE_COMMANDS: Final[dict[str, list[str]]] = {
    "tags": ["tags", "{name}"],
    "delete": ["delete", "{name}", "--where", "n = 3", "--dry-run"],
    "compact": ["compact", "{name}", "--dry-run"],
    "restore": ["restore", "{name}", "latest~1", "--dry-run"],
    "expire": ["expire", "{name}", "--keep", "2"],
}


def _found(lake: Path, name: str) -> lode.Dataset:
    return opened(name, lode.open_store(lake, durable=False))


def _write(lake: Path, name: str, key: tuple[str, str] | None = None) -> object:
    dataset = _found(lake, name)
    return dataset.write(b"more" if dataset.components.codec is None else rows(50), idempotency_key=key)


VOLUME: Final[dict[str, Entry]] = {
    "latest": lambda lake, name: lode.Volume(name, lake, 100).latest(),
    "snapshots": lambda lake, name: open_volume(name, lode.open_store(lake)).snapshots(),
    "read_at": lambda lake, name: [
        lode.Volume(name, lake, 100).read_at(snapshot, 0, 10, verify=True)
        for snapshot in lode.Volume(name, lake, 100).snapshots()
    ],
    "open": lambda lake, name: open_volume(name, lake).open(open_volume(name, lake).latest()).read(15),
    "console": lambda lake, name: ui_volumes.describe(lode.open_store(lake), name, at=None, cells=10),
    "missing": lambda lake, name: lode.Volume(name, lake, 100).missing(),
    "commit": lambda lake, name: _commit(lode.Volume(name, lake, 100, checksum="md5")),
}


def _commit(volume: lode.Volume) -> object:
    return volume.commit([volume.stage_write_at(80, b"01234")])


COMMANDS: Final[dict[str, list[str]]] = {
    "log": ["log", "{name}"],
    "log --json": ["log", "{name}", "--json"],
    "log --graph": ["log", "{name}", "--graph"],
    "show": ["show", "{name}"],
    "show --json": ["show", "{name}", "2", "--json"],
    "diff": ["diff", "{name}", "latest~1", "latest"],
    "cat": ["cat", "{name}", "--format", "jsonl"],
    "verify": ["verify", "{name}"],
    "sweep": ["sweep", "{name}", "--older-than", "0s", "--json"],
    "ls of one": ["ls", "{name}"],
    "sql of one": ["sql", "select * from {name}"],
}
VOLUME_COMMANDS: Final[dict[str, list[str]]] = {
    "log": ["log", "{name}", "--volume"],
    "show": ["show", "{name}", "--volume"],
    "show --json": ["show", "{name}", "--volume", "--json"],
}
# Calls that must work while another dataset is damaged.
AROUND: Final[dict[str, list[str]]] = {
    "ls": ["ls", "--json"],
    "ls --streams": ["ls", "--streams", "--json"],
    "sql of another": ["sql", "select count(*) as c from good where day <> '{name}'", "--format", "jsonl"],
}


def command(lake: Path, words: list[str]) -> str:
    """Run a command in this process and return its output; exceptions pass through."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            words = [words[0], "--root", str(lake), *words[1:]]
            code = _LODE.main(words, prog_name="lode", standalone_mode=False)
        except typer.Exit as ended:
            code = ended.exit_code
    assert code is None or code in EXIT_CODES, code
    printed = out.buffer.getvalue()
    return str(printed.decode()) + err.getvalue()


def listed(lake: Path) -> object:
    """Calls that show all datasets and volumes."""
    store = lode.open_store(lake)
    return dataset_names(store), volume_names(store), overview(store, Datasets(store), after="", limit=50)
