"""The processes of a server: started when they are needed, reused, watched and ended."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from lode.sandbox.child import NUMBER
from lode.sandbox.frames import MAX_FRAME_BYTES, read_frame, write_frame
from lode.sandbox.peer import Peer, PeerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Reason: TypeAlias = Literal["", "time", "stopped", "memory", "closing"]

# What Python and its libraries take before there is any work.
BASE_BYTES: Final = 512 << 20
_COMMAND: Final = (sys.executable, "-P", "-m", "lode.sandbox.child")
_WATCH_SECONDS: Final = 0.1
# A task that was asked to stop, or whose time is over, may end by itself for so long.
_GRACE_SECONDS: Final = 2.0
_IDLE_SECONDS: Final = 300.0
# A process that had used this part of its memory when it was killed from outside lacked memory.
_FULL: Final = 0.7
_CRASHES: Final = (signal.SIGSEGV, signal.SIGFPE, signal.SIGILL)
# A single thread is given so much processor time more than its time, before the kernel ends it.
_SPARE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of process.

    Attributes:
        module: What it does: a module as ``Child.load`` needs it.
        memory_bytes: The memory of its work. It has ``BASE_BYTES`` more for itself.
        network: Whether it may open connections, as it has to for a store of objects.
        threads: How many threads of it may compute at the same time.
    """

    module: str
    memory_bytes: int
    network: bool = False
    threads: int = 1


class ProcessLostError(Exception):
    """A process has ended before its work has.

    Attributes:
        reason: Why it was ended; empty if it has ended by itself.
        is_crash: Whether a fault of the memory's contents has ended it, such as a library makes on damaged
            files.
    """

    def __init__(self, reason: Reason, text: str, *, is_crash: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        self.is_crash = is_crash


def _described(error: Exception) -> dict[str, Any]:
    return {"type": "other", "text": f"{type(error).__name__}: {error}"}


class Processes:
    """The processes of one server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Process] = []
        self._all: set[Process] = set()
        self._watch: threading.Thread | None = None
        self._is_closed = threading.Event()

    def open(
        self,
        profile: Profile,
        handlers: Mapping[str, Callable[..., Any]],
        *,
        seconds: float,
        is_cancelled: Callable[[], bool] = lambda: False,
        describe: Callable[[Exception], dict[str, Any]] = _described,
    ) -> Process:
        """A process for one task. Use it in ``with``.

        Args:
            profile: What it can do.
            handlers: What it may call.
            seconds: The time of the task.
            is_cancelled: Whether the task was asked to stop.
            describe: An error of a handler as it is sent to the process.
        """
        while True:
            with self._lock:
                if self._is_closed.is_set():
                    raise ProcessLostError("closing", "The server stops: send the request again.")
                known = next((each for each in reversed(self._idle) if each.profile == profile), None)
                if known is not None:
                    self._idle.remove(known)
                process = known or Process(profile, self)
                self._all.add(process)
                if self._watch is None:
                    self._watch = threading.Thread(target=self._run, name="lode-processes", daemon=True)
                    self._watch.start()
            process.handlers, process.describe_error = handlers, describe
            try:
                process.begin(seconds, is_cancelled)
            except PeerError as error:  # its module cannot be imported
                self.give_back(process, usable=False)
                raise ProcessLostError("", f"A process cannot begin: {error}") from None
            except ProcessLostError:
                self.give_back(process, usable=False)
                if known is None:  # one that had nothing to do may have ended, a new one has a fault
                    raise
            else:
                return process

    def give_back(self, process: Process, *, usable: bool) -> None:
        """Take a process after its task."""
        with self._lock:
            if usable and not self._is_closed.is_set():
                self._idle.append(process)
                return
            self._all.discard(process)
        process.end()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._is_closed.set()
            ending = list(self._all)
            idle = self._idle.copy()
            self._idle.clear()
            self._all.clear()
        for process in ending:
            process.kill("closing")
        for process in idle:
            process.end()

    def _run(self) -> None:
        while not self._is_closed.wait(_WATCH_SECONDS):
            with self._lock:
                now = time.monotonic()
                old = [each for each in self._idle if now - each.since > _IDLE_SECONDS]
                self._idle = [each for each in self._idle if each not in old]
                self._all -= set(old)
                busy = self._all - set(self._idle)
            for process in busy:
                process.check()
            for process in old:
                process.end()


class Process(Peer):
    """One process, and the task that it has. It ends with its pipes, so also if the server is killed."""

    def __init__(self, profile: Profile, owner: Processes) -> None:
        super().__init__({})
        self.profile = profile
        self.describe_error: Callable[[Exception], dict[str, Any]] = _described
        self.since = time.monotonic()
        self._owner = owner
        self._reason: Reason = ""
        self._task = 0
        self._deadline = self._stop_at = float("inf")
        self._is_cancelled: Callable[[], bool] = lambda: False
        self._limit = profile.memory_bytes + BASE_BYTES
        # Kept while the process number belongs to this process.
        self._ending = threading.Lock()
        self._is_waited = False
        self._peak = 0
        self._start()

    def _start(self) -> None:
        # Its modules are those of this process. It reserves no memory in advance, since that counts as used.
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MALLOC_ARENA_MAX": "1",
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        }
        theirs, self._interrupts = os.pipe()
        os.set_blocking(self._interrupts, False)
        network = "network" if self.profile.network else "alone"
        command = (*_COMMAND, self.profile.module, str(self._limit), network, str(theirs))
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=None if os.environ.get("LODE_SANDBOX_STDERR") else nothing,
                bufsize=0,
                env=environment,
                pass_fds=[theirs],
            )
        except OSError as error:
            os.close(self._interrupts)
            raise ProcessLostError("", f"No process can be started ({error}): try again.") from None
        finally:
            os.close(theirs)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, seconds: float, is_cancelled: Callable[[], bool]) -> None:
        """Begin the next task."""
        self._task += 1
        self._reason = ""
        self._is_cancelled = is_cancelled
        self._stop_at = float("inf")
        self._deadline = time.monotonic() + seconds + _GRACE_SECONDS
        self.call("begin", self._task, seconds * (self.profile.threads + 1) + _SPARE_SECONDS)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._deadline = self._stop_at = float("inf")
        self._is_cancelled = lambda: False
        self.handlers = {}
        self.since = time.monotonic()
        # After a call that was interrupted, or rows that were not read, it is in the middle of an answer.
        usable = not (self._reason or self._is_waited or self.is_reading)
        usable = usable and (kind is None or issubclass(kind, Exception))
        # Libraries may keep the memory of a large task.
        usable = usable and _resident(self.pid) <= BASE_BYTES
        self._owner.give_back(self, usable=usable)

    # -- the watch -----------------------------------------------------------------------------

    def check(self) -> None:
        """Stop a task that is late, too large or cancelled. Called by another thread."""
        now = time.monotonic()
        if now > self._deadline:
            self.kill("time")
        elif now > self._stop_at:
            self.kill("stopped")
        elif self._measured() > self._limit:
            self.kill("memory")
        elif self._is_cancelled():
            self._stop_at = min(self._stop_at, now + _GRACE_SECONDS)
            self.interrupt()  # again: after rows have ended, interrupts have another number

    def _measured(self) -> int:
        """The memory that the process uses. The most is noted for its end."""
        found = _resident(self.pid)
        self._peak = max(self._peak, found)
        return found

    def interrupt(self) -> None:
        """Ask the task to stop."""
        with self._ending, suppress(OSError):
            if not self._is_waited:
                os.write(self._interrupts, NUMBER.pack(self._task))

    def kill(self, reason: Reason) -> None:
        """End the process. A caller that waits for it gets ``ProcessLostError``."""
        with self._ending:
            self._reason = self._reason or reason
            if not self._is_waited:
                os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the number is its own

    def end(self) -> None:
        """End the process, and wait until it has. Called by the owner of its task, or when it has none."""
        with self._ending:
            if self._is_waited:
                return
            os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the number is its own
            self._process.wait()
            self._is_waited = True
            os.close(self._interrupts)
            for pipe in (self._requests, self._answers):
                with suppress(OSError):
                    pipe.close()

    # -- calls ---------------------------------------------------------------------------------

    def send(self, kind: bytes, content: bytes | memoryview) -> None:
        try:
            write_frame(self._requests.fileno(), kind, content)
        except (OSError, ValueError):
            raise self._lost() from None

    def receive(self) -> tuple[bytes, bytearray]:
        try:
            frame = read_frame(self._answers, MAX_FRAME_BYTES)  # type: ignore[arg-type]  # not buffered
        except OSError:
            frame = None
        except ValueError:
            self.kill("memory")  # a frame that is too large
            frame = None
        if frame is None:
            raise self._lost()
        return frame

    def encode(self, value: Any) -> bytes:
        return pickle.dumps(value, protocol=5)

    def decode(self, content: bytearray) -> Any:
        return msgspec.json.decode(content)

    def describe(self, error: Exception) -> dict[str, Any]:
        if isinstance(error, ProcessLostError):
            raise error
        if isinstance(error, PeerError):
            return {"own": True}  # the process has it still
        return self.describe_error(error)

    def raised(self, description: dict[str, Any]) -> Exception:
        if description.get("type") == "memory":
            self._reason = "memory"  # libraries may fail later: it is not used again
        return PeerError(description)

    def abandon(self) -> None:
        self.interrupt()
        before, self._stop_at = self._stop_at, min(self._stop_at, time.monotonic() + _GRACE_SECONDS)
        super().abandon()
        self._stop_at = before

    def end_rows(self) -> None:
        self._task += 1

    def _lost(self) -> ProcessLostError:
        """The error of a task whose process has ended."""
        self.end()
        code = self._process.returncode
        # A process that no one has killed lacked memory: that is how libraries end then.
        if not self._reason and (code != -signal.SIGKILL or self._peak > self._limit * _FULL):
            self._reason = "memory"
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ProcessLostError(
            self._reason, f"The process has ended ({self._reason or how})", is_crash=-code in _CRASHES
        )


def _resident(pid: int) -> int:
    """The memory that a process uses; 0 if that is unknown."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
