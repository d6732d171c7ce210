"""Starts Spark's Java process without a fork of this one.

pyspark starts Java with a function to run between fork and exec, so that Ctrl-C does not reach Java. Python
then really forks, and the fork handlers of libraries run in the child. Those of gRPC start its threads again
there; they may abort the child before it becomes Java (``epoll_wait error: Bad file descriptor``), and they
disturb the calls under way in the parent. A shell that ignores SIGINT and becomes Java does the same job, and
Python starts it with vfork, which runs no handlers.
"""

from __future__ import annotations

import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark import java_gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_IGNORING_SIGINT: Final = ("/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh")
_lock = threading.RLock()


@contextmanager
def without_fork() -> Iterator[None]:
    """While this is entered, pyspark starts Java through a shell."""
    names = vars(java_gateway)  # pyspark has no parameter for it
    with _lock:
        original = names["Popen"]
        names["Popen"] = _popen
        try:
            yield
        finally:
            names["Popen"] = original


def _popen(
    command: Sequence[str], *, preexec_fn: Callable[[], None] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    if preexec_fn is not None:  # pyspark's only ignores SIGINT; on Windows there is none
        command = (*_IGNORING_SIGINT, *command)
    return subprocess.Popen(command, **options)
