"""A Spark cluster on the loopback interface, from nothing but the pyspark package, and a driver for it."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyspark

from lode import java
from lode.testing.servers import end_process
from support import SUPPORT

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import IO, Self

T = TypeVar("T")

HOME = Path(pyspark.__file__).parent
DRIVER = Path(__file__).with_name("cluster_driver.py")
SECONDS = 600.0


def wait_for(what: str, look: Callable[[], T | None]) -> T:
    """Look until there is something; ``what`` is said if there never is."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise TimeoutError(f"there never was {what}")


def environment() -> dict[str, str]:
    java.use()
    return {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(SUPPORT.parent), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }


class Cluster:
    """A master and its workers, each a process of its own, from entering the block to leaving it."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.url = ""
        self._count = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start("master.Master", "master")
            self.url = wait_for("a master", lambda: self._told(r"Starting Spark master at (\S+)"))[0]
            for number in range(self._count):
                work = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / f"work-{number}")]
                self._start("worker.Worker", f"worker-{number}", *work, self.url)
            wait_for(
                "a worker for each process",
                lambda: len(self._told("Registering worker (.*)")) == self._count,
            )
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the processes that were started here, the workers first: they end their executors."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            end_process(process, patience=20)
        self._processes = []

    def executors(self) -> set[int]:
        """The executors that this cluster's workers have started and that are alive."""
        workers = {process.pid for process in self._processes[1:]}
        return {
            pid
            for pid, (parent, command) in _processes().items()
            if parent in workers and "CoarseGrainedExecutorBackend" in command
        }

    def python_workers(self) -> set[int]:
        """The Python processes of the executors, also those that wait for tasks."""
        processes, above = _processes(), self.executors()
        found: set[int] = set()
        while above:
            below = {pid for pid, (parent, _) in processes.items() if parent in above}
            above = {pid for pid in below if "pyspark" in processes[pid][1]}
            found |= above
        return found

    def executor_above(self, pid: int) -> int:
        """The executor of this cluster for which this Python process works."""
        processes, executors = _processes(), self.executors()
        while pid not in executors:
            assert pid in processes, "the process belongs to no executor of this cluster"
            pid = processes[pid][0]
        return pid

    def kill_executor(self, pid: int) -> None:
        assert pid in self.executors()
        os.kill(pid, signal.SIGKILL)

    def _start(self, role: str, name: str, *arguments: str) -> None:
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
        with (self.folder / f"{name}.log").open("wb") as log:
            # The script ends by becoming the JVM, so the process's id is the JVM's.
            self._processes.append(
                subprocess.Popen(
                    command,
                    env=environment(),
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _told(self, pattern: str) -> list[str]:
        log = (self.folder / "master.log").read_text(errors="replace")
        for process in self._processes:
            assert process.poll() is None, f"a process of the cluster has ended:\n{log[-4000:]}"
        return re.findall(pattern, log)


class Driver:
    """The process with the cluster's session; it does one job after another."""

    def __init__(self, cluster: Cluster) -> None:
        self._log = cluster.folder / "driver.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(DRIVER), cluster.url],
                env=environment(),
                cwd=cluster.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def run(self, job: str, **arguments: Any) -> Any:
        self.begin(job, **arguments)
        return self.result()

    def begin(self, job: str, **arguments: Any) -> None:
        stream = self._stream(self._process.stdin)
        stream.write(json.dumps([job, arguments]) + "\n")
        stream.flush()

    def result(self) -> Any:
        """What the job that was begun last returned."""
        stream = self._stream(self._process.stdout)
        ready, _, _ = select.select([stream], [], [], SECONDS)
        answer = stream.readline() if ready else ""
        log = self._log.read_text(errors="replace")
        assert answer, f"the driver did not answer:\n{log[-4000:]}"
        outcome = json.loads(answer)
        assert "error" not in outcome, outcome["error"]
        return outcome["result"]

    def stop(self) -> None:
        try:
            # Without more jobs the driver ends.
            self._process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream


def _processes() -> dict[int, tuple[int, str]]:
    """The parent and the command of every process."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return {int(pid): (int(parent), "".join(command)) for pid, parent, *command in rows}
