"""Clocks, memory and processes of their own to measure in."""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_STATUS = Path("/proc/self/status")


def progress(line: str) -> None:
    """Tell whoever waits how far it is."""
    print(f"  {line}", file=sys.stderr, flush=True)


def median_ms(durations: Iterable[float]) -> float | None:
    ready = list(durations)
    return median(ready) * 1000 if ready else None


def forget_peak() -> float:
    """Start a new peak at what is resident now, and return that in MB."""
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


def peak_mb() -> float:
    """The largest resident size of this process in MB.

    Linux hands ``ru_maxrss`` down from the process that started this one, so its own mark is read there.
    """
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def in_child(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a function of a module in a fresh interpreter; arguments and result pass as JSON."""
    order = {"module": function.__module__, "function": function.__name__, "arguments": arguments}
    done = subprocess.run(
        [sys.executable, "-m", "bench.child"],
        input=json.dumps(order),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{order['module']}.{order['function']} failed with status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])
