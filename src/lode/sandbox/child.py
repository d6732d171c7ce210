"""The program of a process: ``python -P -m lode.sandbox.child``.

It answers the calls of its server on its standard input and output, one after the other, and ends with its
server. It has a lower priority than the server, so that work waits for ingest and not the other way round.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import signal
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.sandbox.frames import CALL, FAILED, read_frame, write_frame
from lode.sandbox.peer import Peer
from lode.sandbox.restrict import limit_processor_time, restrict

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

NUMBER: Final = struct.Struct("<Q")
# Steps of priority below the server's: at the start, and more when it computes.
_NICE: Final = (5, 5)
# The kernel ends this process before the server if the machine has no memory left.
_OOM_SCORE: Final = "500"


class _NoPandas:
    """Hides pandas, which pyarrow would import: more than half of the time of a start."""

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("a process of a server does without pandas", name=name)
        return None


class Child(Peer):
    """The side of the process."""

    def __init__(self, requests: Any, answers: int, interrupts: int) -> None:
        super().__init__({})
        self._requests = requests
        self._answers = answers
        self._task = self._interrupted = 0
        # The error that was described last. The server may name it as the reason why it failed itself.
        self._own: Exception | None = None
        self._describe: Any = None
        self._restore: Any = None
        threading.Thread(target=self._watch, args=(interrupts,), daemon=True).start()

    def _watch(self, interrupts: int) -> None:
        """Notice an interrupt and the end of the server at once, also while a task runs."""
        while len(number := os.read(interrupts, NUMBER.size)) == NUMBER.size:
            self._interrupted = max(self._interrupted, NUMBER.unpack(number)[0])
        os._exit(0)

    @property
    def is_interrupted(self) -> bool:
        """Whether the task that runs was asked to stop."""
        return self._interrupted >= self._task

    def load(self, module: str) -> None:
        """Import what this process does.

        The module has ``handlers(child)``, the functions that the server calls, ``describe(error)``, an error
        as JSON, and ``restore(description)``, the error of a function of the server.
        """
        found = importlib.import_module(module)
        self._describe, self._restore = found.describe, found.restore
        self.handlers = {**found.handlers(self), "begin": self._begin}

    def _begin(self, number: int, seconds: float) -> None:
        self._task = number
        self._own = None
        limit_processor_time(seconds)

    def end_rows(self) -> None:
        self._task += 1

    def serve(self) -> None:
        """Answer calls until there are no more."""
        while (frame := read_frame(self._requests)) is not None:
            if frame[0] == CALL:
                self.answer(frame[1])

    def send(self, kind: bytes, content: bytes | memoryview) -> None:
        write_frame(self._answers, kind, content)

    def receive(self) -> tuple[bytes, bytearray]:
        frame = read_frame(self._requests)
        if frame is None:
            os._exit(0)
        return frame

    def encode(self, value: Any) -> bytes:
        return msgspec.json.encode(value)

    def decode(self, content: bytearray) -> Any:
        return pickle.loads(content)

    def describe(self, error: Exception) -> dict[str, Any]:
        self._own = error
        found: dict[str, Any] = self._describe(error)
        return found

    def raised(self, description: dict[str, Any]) -> Exception:
        if "own" in description and self._own is not None:
            return self._own
        found: Exception = self._restore(description)
        return found


def main() -> None:
    """Answer calls until there are no more."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # A terminal or a service manager sends them to all processes. The server ends this one.
        signal.signal(number, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICE[0])
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE, "ascii")
    sys.meta_path.insert(0, _NoPandas())
    module, memory_bytes, network, interrupts = sys.argv[1:]
    answers = os.dup(1)
    os.dup2(2, 1)  # output of libraries must not mix with answers
    restrict(int(memory_bytes), network=network == "network")
    with open(0, "rb", buffering=0, closefd=False) as requests:
        child = Child(requests, answers, int(interrupts))
        try:
            child.load(module)
        except BaseException as error:
            write_frame(answers, FAILED, json.dumps({"type": "other", "text": repr(error)}).encode())
            os._exit(1)
        if hasattr(os, "nice"):
            os.nice(_NICE[1])
        child.serve()
    os._exit(0)  # threads of libraries may still run


if __name__ == "__main__":
    main()
