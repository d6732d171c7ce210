"""Keeps gRPC busy in several threads while Spark's Java process is started.

CHILDREN times with a command that ends at once, SESSIONS times with the real one. With ``fork`` as a third
argument it is started as pyspark does by itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import grpc
import pyspark.java_gateway
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

import lode.spark
from lode.spark import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLERS = 4


class Echo(grpc.GenericRpcHandler):
    def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        return grpc.stream_stream_rpc_method_handler(lambda requests, _: requests)


class Traffic:
    """Callers in threads of this process, each with one channel after the other."""

    def __init__(self, port: int) -> None:
        self._target = f"127.0.0.1:{port}"
        self._over = threading.Event()
        self.broken = 0
        self._threads = [threading.Thread(target=self._talk) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)

    def _requests(self) -> Iterator[bytes]:
        for _ in range(200):
            if self._over.is_set():
                return
            yield b"x" * 100

    def _talk(self) -> None:
        while not self._over.is_set():
            try:
                with grpc.insecure_channel(self._target) as channel:
                    call: Any = channel.stream_stream("/echo/echo")
                    for _ in call(self._requests()):
                        pass
            except grpc.RpcError:
                self.broken += 1


def _popen(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
    started: subprocess.Popen[bytes] = vars(pyspark.java_gateway)["Popen"](*arguments, **options)
    return started


def start_child() -> bool:
    """Start what pyspark would, but for the command; true if it ran."""

    def ignore_interrupts() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    options: dict[str, Any] = {"stdin": subprocess.PIPE, "preexec_fn": ignore_interrupts}
    with _popen(["/bin/true"], **options) as child:
        try:
            return child.wait(120) == 0
        except subprocess.TimeoutExpired:
            child.kill()
            return False


def start_session() -> bool:
    try:
        lode.spark.session("local[1]", settings={"spark.log.level": "ERROR"}).stop()
    except PySparkRuntimeError:
        return False
    # The next one starts Java anew.
    used, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    assert used is not None
    used.shutdown()
    used.proc.stdin.close()
    used.proc.wait(600)
    return True


def main(children: int, sessions: int, how: str = "") -> None:
    if how == "fork":
        for module in (gateway, sys.modules["lode.spark.session"]):
            vars(module)["without_fork"] = nullcontext
    server = grpc.server(ThreadPoolExecutor(2 * CALLERS), handlers=[Echo()])
    traffic = Traffic(server.add_insecure_port("127.0.0.1:0"))
    server.start()
    with gateway.without_fork():
        died = sum(not start_child() for _ in range(children))
    failed = sum(not start_session() for _ in range(sessions))
    traffic.stop()
    print(
        f"{died} of {children} children died, {failed} of {sessions} sessions failed, "
        f"{traffic.broken} calls broke",
        flush=True,
    )
    os._exit(0)  # gRPC's threads may not survive a fork


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
