"""A local Spark session that suits Lode, with a Java to run it on."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped, unused-ignore]
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lode import java
from lode.errors import SparkLostError
from lode.spark.gateway import without_fork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BYTES_PER_BATCH: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
# To Spark this very number means no bound. Below it, Spark asks every column for its size after every row,
# which takes longer than everything else on the way to Python together.
UNBOUNDED: Final = "2147483647"

SETTINGS: Final[Mapping[str, str]] = {
    # Rows alone, Spark's 10,000, bound an Arrow batch.
    BYTES_PER_BATCH: UNBOUNDED,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Files that a filter rules out are not opened.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # Everything of a local session stays on this machine.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    master: str = "local[*]", *, name: str = "lode", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Build a session, or return the one there is, with settings that suit Lode.

    Args:
        master: Where it runs; ``sc://host`` is a server of Spark Connect.
        name: The application's name.
        settings: More settings, or others than ``lode.spark.session.SETTINGS``.
    """
    if is_remote_url(master):
        return _remote_session(master, settings or {})
    _forget_dead_java()
    # spark-submit has started Java already.
    if SparkSession.getActiveSession() is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        java.use()
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Its tasks need what this process has installed, wherever PATH leads.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    with without_fork():
        return builder.getOrCreate()


def is_remote_url(master: str) -> bool:
    """Whether this names a server of Spark Connect."""
    return master.startswith("sc://")


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect: it has no Java of its own."""
    return not hasattr(spark, "_jsparkSession")


def functions_of(spark: SparkSession) -> Any:
    """Spark's functions, as a session takes their columns: pyspark's own choice is one for the process."""
    name = "pyspark.sql.connect.functions" if is_connect(spark) else "pyspark.sql.functions"
    return import_module(name)


def stop(spark: SparkSession) -> None:
    """Stop a session; one whose Java process has died is forgotten."""
    if is_connect(spark) or _java_lives():
        spark.stop()
    else:
        _forget_dead_java()


@contextmanager
def noticing_loss(spark: SparkSession) -> Iterator[None]:
    """Raise one error for all those that follow from the end of a session.

    Raises:
        SparkLostError: Instead of any error, if the session has ended meanwhile.
    """
    try:
        yield
    except SparkLostError:
        raise
    except Exception as error:
        if is_connect(spark):
            raise  # its client finds the server again
        if not _java_lives():
            raise SparkLostError(
                "the Java process of the Spark session has ended, killed or out of memory: run again; what "
                "was committed stays"
            ) from error
        if spark.sparkContext._jsc is None or spark.sparkContext._jsc.sc().isStopped():
            raise SparkLostError(
                "the Spark session was stopped during the work, by a caller or by its master: run again; "
                "what was committed stays"
            ) from error
        raise


def _java_lives() -> bool:
    """Whether the Java process of this one answers, if there is one."""
    machine: Any = SparkContext._jvm
    if machine is None:
        return True
    try:
        machine.System.nanoTime()
    except (Py4JError, OSError):
        return False
    return True


def _forget_dead_java() -> None:
    """Let pyspark start another Java process: by itself it asks the dead one for its session."""
    context: Any = SparkContext._active_spark_context
    if _java_lives():
        return
    if context is not None:
        context._jsc = None
        context.stop()  # ends its threads
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _remote_session(url: str, settings: Mapping[str, str]) -> SparkSession:
    builder: Any = SparkSession.builder
    if SparkContext._active_spark_context is not None:
        # pyspark refuses both kinds in one process, though they do not disturb each other.
        from pyspark.sql.connect.session import SparkSession as RemoteSession

        builder = RemoteSession.builder
    builder = builder.remote(url)
    # The rest is the server's.
    own = {name: value for name, value in SETTINGS.items() if name.startswith("spark.sql.")}
    for key, value in {**own, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()  # type: ignore[no-any-return]  # pyspark types the client as Any


@contextmanager
def temporary_setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a setting of a session for a while.

    Threads share the settings of a session. If several do this at once, the last to leave restores the value
    that the first one found.
    """
    key = (id(spark), name)
    with _lock:
        users, before = _changed.get(key, (0, None))
        if not users:
            before = spark.conf.get(name)
        _changed[key] = (users + 1, before)
        spark.conf.set(name, value)
    try:
        yield
    finally:
        with _lock:
            users, before = _changed.pop(key)
            if users > 1:
                _changed[key] = (users - 1, before)
            elif before is not None:
                spark.conf.set(name, before)


def setting_before(spark: SparkSession, name: str) -> str | None:
    """The value of a setting, whatever ``temporary_setting`` has made of it."""
    with _lock:
        found = _changed.get((id(spark), name))
    return found[1] if found is not None else spark.conf.get(name)


_lock: Final = threading.Lock()
# How many threads have changed a setting of a session, and its value before.
_changed: dict[tuple[int, str], tuple[int, str | None]] = {}
