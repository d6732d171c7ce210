"""Lakes as the Go implementation writes them, for cases that the golden lakes do not have."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


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
    """A JSONL snapshot as Go writes it: files, then the pointer, then the manifest copies, then the manifest.

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
        "row_count": sum(map(len, groups.values())),
        "codec": "jsonl",
        "compressor": "noop",
        "partitioner": "hive" if keys else "noop",
    }
    data = json.dumps(manifest, indent=2).encode()
    copies = [home / "partitions" / name / "segments" for name in groups] if keys else []
    for folder in [*copies, home / ("segments" if keys else "snapshots")]:
        (folder / snapshot_id).mkdir(parents=True, exist_ok=True)
        (folder / snapshot_id / "manifest.json").write_bytes(data)


def snapshots(root: Path, *, hive: bool = False, dataset: str = "events") -> list[str]:
    """The snapshots that Go finds, by its rule of what a manifest is, in the order of their times."""
    home = root / "datasets" / dataset
    found: dict[str, str] = {}
    for path in sorted((home if hive else home / "snapshots").rglob("manifest.json")):
        parts = path.relative_to(root).parts
        if hive:
            place = next((at for at in range(2, len(parts) - 2) if parts[at] == "segments"), None)
            matches = place is not None and parts[place + 2] == "manifest.json"
            snapshot_id = parts[place + 1] if place is not None else ""
        else:
            matches, snapshot_id = len(parts) == 5, parts[3]
        if matches:
            found.setdefault(snapshot_id, json.loads(path.read_bytes())["created_at"])
    return sorted(found, key=lambda snapshot_id: (found[snapshot_id], snapshot_id))


def read(root: Path, snapshot_id: str, *, hive: bool = False, dataset: str = "events") -> list[Any]:
    """The rows of one snapshot, file by file as its manifest has them."""
    home = root / "datasets" / dataset / ("segments" if hive else "snapshots")
    manifest = json.loads((home / snapshot_id / "manifest.json").read_bytes())
    lines = [line for file in manifest["files"] for line in (root / file["path"]).read_text().splitlines()]
    return list(map(json.loads, lines))
