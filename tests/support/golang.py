"""A model of Lode for Go, for moments at which the real one cannot be stopped.

``with_go/test_model.py`` compares it with the real one.
"""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lode.errors import NotFoundError, SnapshotConflictError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from lode.testing.actor import Actor
    from lode.testing.sim import SwapStore


def sprint(value: Any) -> str:
    """A value as Go's ``fmt.Sprintf("%v")`` has it; a time as the Hive layout formats it."""
    match value:
        case None:
            return "<nil>"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case date() | datetime():
            return f"{value:%Y-%m-%d}"
        case float():
            return sprint_float(value)
        case _:
            return str(value)


def sprint_float(value: float) -> str:
    """``%v`` of a float64: the shortest digits, with an exponent below 1e-4 and from 1e+06 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if not value:
        return f"{sign}0"
    shortest = repr(abs(value))
    digits = shortest.partition("e")[0].replace(".", "").strip("0")
    power = _power(shortest)
    if power < -4 or power >= 6:
        mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    whole, fraction = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
    return f"{sign}{whole}{f'.{fraction}' if fraction else ''}"


def _power(shortest: str) -> int:
    """The decimal exponent of a positive number's shortest text."""
    mantissa, _, exponent = shortest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    shift = int(exponent or 0)
    if whole.strip("0"):
        return len(whole.lstrip("0")) - 1 + shift
    return -(len(fraction) - len(fraction.lstrip("0"))) - 1 + shift


def partition(keys: Sequence[str], record: dict[str, Any]) -> str:
    return "/".join(f"{key}={quote(sprint(record[key]), safe='$&+=:@')}" for key in keys)


def write(
    root: Path,
    snapshot_id: str,
    records: Iterable[dict[str, Any]],
    *,
    parent: str | None = None,
    keys: Sequence[str] = (),
    dataset: str = "events",
    upto: str = "manifest",
) -> None:
    """A JSONL snapshot as Go writes it: files, then the pointer, then the manifest, then its copies.

    Args:
        root: The lake.
        snapshot_id: Its id.
        records: Its rows.
        parent: The snapshot before.
        keys: Of a Hive layout; none for the default layout.
        dataset: The dataset's id.
        upto: The last step to take, "files" or "pointer" for a writer that has not finished.
    """
    home = root / "datasets" / dataset
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(partition(keys, record), []).append(record)
    files = []
    for name, rows in sorted(groups.items()):
        folder = home / ("partitions" if keys else "snapshots") / name
        path = (folder / "segments" if keys else folder) / snapshot_id / "data" / "data"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows))
        files.append({"path": str(path.relative_to(root)), "size_bytes": path.stat().st_size})
    if upto == "files":
        return
    home.mkdir(parents=True, exist_ok=True)
    (home / "latest.lock").touch()
    (home / "latest").write_text(snapshot_id)
    if upto == "pointer":
        return
    count = sum(map(len, groups.values()))
    data = _manifest(dataset, snapshot_id, parent, files, count, "hive" if keys else "noop")
    copies = [home / "partitions" / name / "segments" for name in groups] if keys else []
    for folder in [home / ("segments" if keys else "snapshots"), *copies]:
        (folder / snapshot_id).mkdir(parents=True, exist_ok=True)
        (folder / snapshot_id / "manifest.json").write_bytes(data)


def _manifest(
    dataset: str,
    snapshot_id: str,
    parent: str | None,
    files: list[dict[str, Any]],
    rows: int,
    partitioner: str = "noop",
    codec: str = "jsonl",
) -> bytes:
    manifest: dict[str, Any] = {
        "schema_name": "lode-manifest",
        "format_version": "1.0.0",
        "dataset_id": dataset,
        "snapshot_id": snapshot_id,
        "created_at": "2026-11-15T19:02:10.324492799Z",
        "metadata": {},
        # A slice that nothing was appended to is nil, which Go encodes as null.
        "files": files or None,
        **({"parent_snapshot_id": parent} if parent else {}),
        "row_count": rows,
        **({"codec": codec} if codec else {}),
        "compressor": "noop",
        "partitioner": partitioner,
    }
    return json.dumps(manifest, indent=2).encode()


def latest(store: SwapStore, dataset: str = "events") -> str | None:
    """``Latest()`` on a dataset with the default layout. It repairs the pointer; None if there is nothing."""
    pointer = _pointer(store, dataset)
    named = (pointer or b"").strip().decode()
    if named and store.exists(_path(dataset, named)):
        return named
    largest = _largest(store, dataset)
    if largest is not None:
        _swap(store, dataset, pointer, largest)
    return largest


def writer(snapshot_id: str, dataset: str = "events", *, codec: str = "jsonl") -> Actor:
    """An actor: ``Write`` of no rows, by a new process, on a dataset with the default layout."""

    def write(store: SwapStore) -> str:
        pointer = _pointer(store, dataset)
        named = (pointer or b"").strip().decode()
        known = named and store.exists(_path(dataset, named))
        parent = named if known else _largest(store, dataset)
        if not _swap(store, dataset, pointer, snapshot_id):
            raise SnapshotConflictError(f"the pointer is no longer {pointer!r}")
        store.put(_path(dataset, snapshot_id), _manifest(dataset, snapshot_id, parent, [], 0, codec=codec))
        return snapshot_id

    return write


def _path(dataset: str, snapshot_id: str) -> str:
    return f"datasets/{dataset}/snapshots/{snapshot_id}/manifest.json"


def _pointer(store: SwapStore, dataset: str) -> bytes | None:
    try:
        return store.get(f"datasets/{dataset}/latest")
    except NotFoundError:
        return None


def _largest(store: SwapStore, dataset: str) -> str | None:
    """The largest id of all manifests that a listing shows."""
    paths = [entry.path for entry in store.list(f"datasets/{dataset}/snapshots/")]
    return max((path.split("/")[3] for path in paths if path.endswith("/manifest.json")), default=None)


def _swap(store: SwapStore, dataset: str, pointer: bytes | None, snapshot_id: str) -> bool:
    """Go expects what it has read without the white space around it, and compares that with all bytes."""
    if pointer is not None and pointer != pointer.strip():
        return False
    return store.compare_and_swap(f"datasets/{dataset}/latest", pointer, snapshot_id.encode())
