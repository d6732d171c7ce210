"""Short turns of the interpreter while queries run, so that they do not delay ingest."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# Python's own interval is 5 ms. An append takes the interpreter lock some twenty times, and waits as often
# for the turn of a query that computes in Python.
_SECONDS: Final = 0.0005

_lock = threading.Lock()
_running = 0
_usual = 0.0


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads that wait for the interpreter wait less, as long as any query is inside."""
    global _running, _usual
    with _lock:
        if not _running:
            _usual = sys.getswitchinterval()
            sys.setswitchinterval(min(_usual, _SECONDS))
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                sys.setswitchinterval(_usual)
