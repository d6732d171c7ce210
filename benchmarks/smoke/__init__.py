"""Counts of every operation, compared with recorded ones: a regression is seen without a clock.

Store calls, bytes, files, requests and allocations are the same on a busy machine and on an idle one. Each
operation is run once; ``bounds.toml`` has what it needed when it was last recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.markdown import grid
from benchmarks.progress import progress
from benchmarks.smoke.bounds import BOUNDS, Verdict, check, load, save, written
from benchmarks.smoke.changes import CHANGES
from benchmarks.smoke.memory import MEMORY
from benchmarks.smoke.reads import READS
from benchmarks.smoke.server import SERVER
from benchmarks.smoke.writes import WRITES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from benchmarks.smoke.bounds import Counts

__all__ = ["OPERATIONS", "run"]

OPERATIONS: Final[dict[str, Callable[[], Counts]]] = {**WRITES, **READS, **CHANGES, **SERVER, **MEMORY}


def run(only: Sequence[str] = (), *, record: bool = False, path: Path = BOUNDS) -> list[str]:
    """Count, print the counts, and return a sentence for each that is over its bound.

    Args:
        only: Parts of the names of the operations to count; all if empty.
        record: Keep what was counted as the new bounds.
        path: The file with the bounds.
    """
    chosen = [name for name in OPERATIONS if not only or any(part in name for part in only)]
    recorded = load(path)
    counts = {}
    for name in chosen:
        counts[name] = OPERATIONS[name]()
        progress(f"{name}: {', '.join(f'{written(value)} {unit}' for unit, value in counts[name].items())}")
    verdicts = check(counts, recorded if not only else {name: recorded.get(name, {}) for name in chosen})
    print("\n".join(grid(["", "", "counted", "recorded", ""], [each.cells for each in verdicts])), flush=True)
    if record:
        kept = {name: recorded[name] for name in OPERATIONS if name in recorded and name not in counts}
        save({**kept, **counts}, verdicts, path, order=tuple(OPERATIONS))
        progress(f"wrote {path}")
        return []
    for each in verdicts:
        if each.kind == Verdict.BETTER:
            progress(each.sentence)
    return [each.sentence for each in verdicts if each.kind in Verdict.FAILURES]
