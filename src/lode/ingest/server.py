"""The server: gRPC and HTTP over one engine, on one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import threading
from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError
from lode.extras import needs
from lode.ingest.settings import check_buckets

with needs("lode.ingest.server", "server"):
    import grpc
    import uvicorn
    from grpc_health.v1 import health, health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha import reflection

    from lode.http_framing import StrictHttp
    from lode.ingest.api.audit import Audit
    from lode.ingest.api.auth import TokenInterceptor, Tokens
    from lode.ingest.api.grpc_read.service import ReadService
    from lode.ingest.api.http import application
    from lode.ingest.api.listen import address_of, check_tls, listen
    from lode.ingest.api.readiness import Readiness, open_lake
    from lode.ingest.api.reflection import SERVICE_NAMES, described_services
    from lode.ingest.api.rest.tables import table_properties
    from lode.ingest.api.write_service import WriteService
    from lode.ingest.core.compactor import Compactor
    from lode.ingest.core.engine import Engine
    from lode.ingest.jobs.buckets import Buckets
    from lode.ingest.jobs.copy import CopyJobs
    from lode.ingest.jobs.extract import ExtractJobs
    from lode.ingest.jobs.load import LoadJobs
    from lode.ingest.jobs.registry import Jobs
    from lode.ingest.jobs.uploads import Uploads
    from lode.sandbox.processes import Processes
    from lode.sandbox.restrict import can_refuse_changes

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from typing import Self

    from lode.ingest.jobs.sql.apart import SqlApart
    from lode.ingest.settings import Settings

_NOT_SERVING: Final = health_pb2.HealthCheckResponse.NOT_SERVING
_WATCH_INTERVAL_SECONDS: Final = 2.0
_MINUTE_SECONDS: Final = 60.0
_HOUR_SECONDS: Final = 3600.0
# A message above gRPC's own limit ends the call without an explanation, so the server's limit is lower.
_REFUSAL_MARGIN_BYTES: Final = 16 << 20

logger = logging.getLogger("lode.ingest")


class Server:
    """One server for one lake. ``start`` and ``stop`` run on one event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.grpc_address = ""
        self.http_address = ""

    async def start(self) -> None:
        """Recover the streams, then open both ports."""
        settings = self.settings
        tokens = Tokens(settings.all_tokens())
        store = settings.open_root()
        state = settings.state_directory(store)
        check_tls(settings)
        check_buckets(settings.buckets, store, state)
        lake = await open_lake(store, state)
        self._readiness = Readiness(lake)
        with ExitStack() as undo:
            self._audit = Audit(settings.audit_log)
            undo.callback(self._audit.close)
            listening = listen(settings.host, settings.http_port, "--http-port")
            undo.callback(listening.close)
            self.engine = await asyncio.to_thread(Engine, store, state, settings, lake)
            undo.callback(self.engine.close)
            self.jobs = await asyncio.to_thread(Jobs, settings.location, state / "jobs", self._audit.finished)
            undo.callback(self.jobs.close)
            if not can_refuse_changes():
                logger.warning(
                    "this system has no Landlock: processes that run queries and read files cannot write "
                    "into files, but could remove them"
                )
            self._processes = Processes()
            undo.callback(self._processes.close)
            self._sql: SqlApart | None = None
            self.uploads = await asyncio.to_thread(
                Uploads,
                state / "uploads",
                self.engine.staged,
                most=settings.uploads,
                of_client=settings.client_uploads,
            )
            buckets = Buckets(settings.buckets)
            self.jobs.register("load", LoadJobs(self.engine, table_properties, buckets, self._processes))
            if find_spec("duckdb") and find_spec("sqlglot"):  # the extra sql
                from lode.ingest.jobs.query import QueryJobs, limits_of
                from lode.ingest.jobs.sql.apart import SqlApart as Apart

                self._sql = Apart(
                    self._processes, self.jobs.queue, store, settings.location, limits_of(settings)
                )
                queries = QueryJobs(self.engine, table_properties, buckets, self.jobs.list, self._sql)
                self.jobs.register("query", queries)
            self.jobs.register("copy", CopyJobs(self.engine))
            self.jobs.register("extract", ExtractJobs(self.engine, buckets))
            await self._start_grpc(tokens)
            undo.pop_all()
        await self._start_http(tokens, listening)
        self._compactor = Compactor(self.engine.writers, self.engine.metrics)
        if settings.compact:
            self._compactor.start()
        self._expiries = [
            asyncio.create_task(_repeat(self.engine.expire, every_seconds=_expiry_seconds(settings))),
            asyncio.create_task(
                _repeat(
                    self.engine.expire_partitions, every_seconds=_HOUR_SECONDS, after_seconds=_MINUTE_SECONDS
                )
            ),
            asyncio.create_task(_repeat(self.uploads.expire, every_seconds=_MINUTE_SECONDS)),
            asyncio.create_task(_repeat(self._read.expire, every_seconds=_HOUR_SECONDS, after_seconds=0)),
        ]

    async def _start_grpc(self, tokens: Tokens) -> None:
        settings = self.settings
        self._write = WriteService(self.engine, tokens.client_of, self._audit)
        self._grpc = grpc.aio.server(
            interceptors=[TokenInterceptor(tokens, self._audit)],
            options=[
                ("grpc.max_receive_message_length", settings.request_bytes + _REFUSAL_MARGIN_BYTES),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
                # Clients keep idle calls open for hours, and send keepalive pings.
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.max_ping_strikes", 0),
            ],
        )
        self._read = ReadService(
            self.engine.catalog, self.engine.store, self._sql, self.jobs.queue, tokens.client_of
        )
        self._grpc.add_generic_rpc_handlers((self._write.handlers(), self._read.handlers()))
        self._health = _Health(self._readiness)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._grpc)
        await self._health.update()
        shown = (*SERVICE_NAMES, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(shown, self._grpc, pool=described_services())
        self.grpc_address = address_of(settings.host, self._listen())
        await self._grpc.start()

    async def stop(self) -> None:
        """Answer accepted requests, end the calls, close the ports, and save the state."""
        self._readiness.stopping = True
        await asyncio.to_thread(self.jobs.stop_checks)
        for expiry in self._expiries:
            expiry.cancel()
        await self._health.enter_graceful_shutdown()
        stopping = asyncio.create_task(self._grpc.stop(self.settings.grace))
        self._write.drain()
        await stopping
        self._read.close()
        self._http.should_exit = True
        await self._serving_http
        await asyncio.to_thread(self._compactor.stop)
        await asyncio.to_thread(self.jobs.close)
        await asyncio.to_thread(self._processes.close)
        await asyncio.to_thread(self.uploads.close)
        await asyncio.to_thread(self.engine.close)
        self._audit.close()

    def _listen(self) -> int:
        settings = self.settings
        address = address_of(settings.host, settings.port)
        # gRPC would only log the reason of a failure.
        listen(settings.host, settings.port, "--port").close()
        try:
            if settings.tls_cert is None or settings.tls_key is None:
                return int(self._grpc.add_insecure_port(address))
            ca = settings.client_ca.read_bytes() if settings.client_ca else None
            pair = (settings.tls_key.read_bytes(), settings.tls_cert.read_bytes())
            credentials = grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)
            return int(self._grpc.add_secure_port(address, credentials))
        except RuntimeError as error:
            raise InvalidOptionError(
                f"cannot listen on {address} ({error}): choose another port with --port"
            ) from None

    async def _start_http(self, tokens: Tokens, listening: socket.socket) -> None:
        settings = self.settings
        address, port = listening.getsockname()[:2]
        config = uvicorn.Config(
            application(
                self.engine,
                self.jobs,
                self.uploads,
                tokens,
                self._readiness,
                self._sql.signatures if self._sql is not None else None,
                hosts=settings.known_hosts(address),
                audit=self._audit,
            ),
            http=StrictHttp,
            ws="none",
            log_config=None,  # its loggers are those of the process
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=max(1, int(settings.grace)),
            ssl_certfile=str(settings.tls_cert) if settings.tls_cert else None,
            ssl_keyfile=str(settings.tls_key) if settings.tls_key else None,
            ssl_ca_certs=str(settings.client_ca) if settings.client_ca else None,
            ssl_cert_reqs=ssl.CERT_REQUIRED if settings.client_ca else ssl.CERT_NONE,
        )
        self._http = _Http(config)
        self.http_address = address_of(settings.host, port)
        self._serving_http = asyncio.create_task(self._http.serve([listening]))
        await self._http.opened.wait()


def _expiry_seconds(settings: Settings) -> float:
    return min(_MINUTE_SECONDS, settings.stream_ttl, settings.empty_stream_ttl)


async def _repeat(
    expire: Callable[[], int], *, every_seconds: float, after_seconds: float | None = None
) -> None:
    await asyncio.sleep(every_seconds if after_seconds is None else after_seconds)
    while True:
        try:
            await asyncio.to_thread(expire)
        except Exception:  # the next round tries again
            logger.exception("removing expired streams, uploads, partitions or sessions failed")
        await asyncio.sleep(every_seconds)


class _Health(health.aio.HealthServicer):  # type: ignore[misc,unused-ignore]  # it has no types
    """gRPC's health service: the same as ``/readyz``, for the server and for each service."""

    def __init__(self, readiness: Readiness) -> None:
        super().__init__()
        self._readiness = readiness

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        await self.update()
        return await super().Check(request, context)

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802 - gRPC's name
        await self.update()
        watching = asyncio.create_task(self._update_regularly())
        try:
            await super().Watch(request, context)
        finally:
            watching.cancel()

    async def update(self) -> None:
        """Update the statuses."""
        serving = await self._readiness.problem() is None
        status = health_pb2.HealthCheckResponse.SERVING if serving else _NOT_SERVING
        for name in ("", *SERVICE_NAMES):
            await self.set(name, status)

    async def _update_regularly(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_SECONDS)
            await self.update()


class _Http(uvicorn.Server):
    """uvicorn without its signal handlers: signals belong to the process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.opened = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.opened.set()


class RunningServer:
    """A server in a thread of this process, for tests and notebooks; a context manager."""

    def __init__(self, settings: Settings) -> None:
        self._server = Server(settings)
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="lode-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error

    @property
    def grpc_address(self) -> str:
        """``host:port`` of gRPC."""
        return self._server.grpc_address

    @property
    def http_url(self) -> str:
        """The base URL of REST, health and metrics."""
        scheme = "https" if self._server.settings.tls_cert else "http"
        return f"{scheme}://{self._server.http_address}"

    @property
    def engine(self) -> Engine:
        return self._server.engine

    def stop(self) -> None:
        """Stop it gracefully. Idempotent."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # its loop may have ended meanwhile
                self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            await self._server.start()
        except BaseException as error:
            self._error = error
            return
        finally:
            self._ready.set()
        await self._stopping.wait()
        await self._server.stop()
