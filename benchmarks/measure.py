"""Clocks, memory and processes of their own to measure in."""

from __future__ import annotations

import gc
import json
import multiprocessing
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import ChildError, MissingError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import ForkServerContext

_STATUS = Path("/proc/self/status")
# Nothing that a child measures takes as long: it hangs.
_CHILD_SECONDS = 900
_KINDS = (ChildError, MissingError, VerificationError)
_ROOT = Path(__file__).parent.parent
# What takes long to import and may be forked; Lance may not.
_IMPORTED = (
    "numpy",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "lode",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
)


def measured(work: Callable[[], Any]) -> tuple[float, float, float]:
    """Seconds, CPU seconds, and the peak over idle in MB of one call."""
    idle = forget_peak()
    began, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - busy, peak_mb() - idle


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


def preloaded_processes() -> ForkServerContext:
    """Starts processes that have their imports done: 16 that import take longer than what they are to do.

    They are forked from a process that has only imported, so nothing of this one is in them.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_IMPORTED])
    return context


def in_child(function: Callable[..., Any], /, *, limit: float = _CHILD_SECONDS, **arguments: Any) -> Any:
    """Call a function of a module in a fresh interpreter; arguments and result pass as JSON."""
    order = {"module": function.__module__, "function": function.__name__, "arguments": arguments}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.child"],
            input=json.dumps(order),
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ChildError(f"it did not end within {limit:.0f} s") from None
    if done.returncode:
        raise ChildError(f"{order['module']}.{order['function']} ended with status {done.returncode}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "kind" in answer:
        raise next(kind for kind in _KINDS if kind.__name__ == answer["kind"])(answer["text"])
    return answer["result"]
