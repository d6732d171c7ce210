"""What the processes of these tests do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lode.sandbox.peer import Rows

if TYPE_CHECKING:
    from lode.sandbox.child import Child


class OwnError(Exception):
    """An error of the work."""


def handlers(child: Child) -> dict[str, Any]:
    def upper(text: str) -> str:
        return text.upper()

    def write(path: str, mode: str) -> str:
        with Path(path).open(mode) as file:
            file.write("changed")
        return "written"

    def attempt(name: str, *arguments: Any) -> str:
        try:
            getattr(os, name)(*arguments)
        except OSError as error:
            return type(error).__name__
        return "done"

    def connect(port: int) -> str:
        import socket

        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError as error:
            return type(error).__name__
        return "done"

    def read(path: str) -> str:
        return Path(path).read_text("utf-8")

    def fill(size: int) -> int:
        return len(bytearray(size))

    kept: list[bytes] = []

    def keep(size: int) -> None:
        kept.append(b"x" * size)

    def spin() -> None:
        while True:
            pass

    def until_interrupted() -> str:
        while not child.is_interrupted:
            time.sleep(0.01)
        return "interrupted"

    def hold_lock() -> None:
        # Holds the interpreter's lock: no thread of this process runs.
        pow(7, 10**9)

    def numbers(count: int) -> Rows:
        import pyarrow as pa

        batches = (pa.record_batch({"n": [number]}) for number in range(count))
        return Rows(pa.schema([("n", pa.int64())]), batches)

    def fail() -> None:
        raise OwnError("it failed")

    def ask(name: str, *arguments: Any) -> Any:
        return child.call(name, *arguments)

    def ask_caught(name: str, *arguments: Any) -> str:
        try:
            child.call(name, *arguments)
        except OwnError as error:
            return f"own: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "no error"

    def die(number: int) -> None:
        os.kill(os.getpid(), number)

    def is_asked_to_stop() -> bool:
        return child.is_interrupted

    def file_size_limit() -> tuple[int, int]:
        import resource

        return resource.getrlimit(resource.RLIMIT_FSIZE)

    def database(statement: str) -> str:
        import duckdb

        try:
            duckdb.connect().execute(statement)
        except duckdb.Error as error:
            return str(error)
        return "done"

    def ignores(number: int) -> bool:
        return signal.getsignal(number) is signal.SIG_IGN

    return {name: value for name, value in locals().items() if name not in ("child", "kept")}


def describe(error: Exception) -> dict[str, Any]:
    return {"type": type(error).__name__, "text": str(error)}


def restore(description: dict[str, Any]) -> Exception:
    return RuntimeError(description["text"])
