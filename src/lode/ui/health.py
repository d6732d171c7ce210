"""Health in the console.

Over a store it only reads, and names the command that probes the store by writing, ``lode doctor``. A server
writes to its lake anyway, so there the doctor's findings are part of the page.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from lode.describe import versions
from lode.errors import LodeError
from lode.store.protocol import SupportsCompareAndSwap, SupportsDurability
from lode.ui.snippets import doctor_command
from lode.units import moment, spelled_bytes, spelled_seconds
from lode.upkeep.doctor import diagnose

if TYPE_CHECKING:
    from lode.store.protocol import Store
    from lode.ui.live import LiveEngine

# The name of a limit, its unit, and what it bounds.
_LIMITS: Final = (
    ("request_bytes", "bytes", "The largest append request."),
    ("unpacked_bytes", "bytes", "The memory that the rows of one append may take."),
    ("window_bytes", "bytes", "All requests that wait for their answers, together."),
    ("staged_bytes", "bytes", "What PENDING and BUFFERED streams may have on disk, together."),
    ("streams", "count", "Open write streams."),
    ("stream_ttl", "seconds", "An unused stream is removed after this time."),
    ("grace", "seconds", "The time that calls have to end when the server stops."),
)


class Doctor:
    """The findings of ``lode doctor`` about the store of a server, probed when they are first asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._checks: list[dict[str, Any]] = []

    def checks(self) -> list[dict[str, Any]]:
        """One check for each promise of the store; none while it cannot be reached."""
        with self._lock:
            if not self._checks:
                detail = f"probed {moment(datetime.now(UTC))}"
                self._checks = [
                    _check(found.promise[:1].upper() + found.promise[1:], found.kept, found.detail or detail)
                    for found in diagnose(self._store).findings
                ]
            return self._checks


def health(store: Store, engine: LiveEngine | None, doctor: Doctor | None = None) -> dict[str, Any]:
    """The health of the store and of the server."""
    checks = [_answers(store), *_promises(store)]
    probed = doctor.checks() if doctor is not None and checks[0]["ok"] else []
    return {
        "store": store.url,
        "live": engine is not None,
        "checks": [*checks, *probed, *(_streams(engine) if engine is not None else ())],
        "probed": bool(probed),
        "doctor": doctor_command(store.url),
        "versions": [[name, version] for name, version in versions().items()],
        "limits": _limits(engine.settings) if engine is not None else [],
        "access": _access(engine.settings) if engine is not None else [],
    }


def ready_check(problem: str | None) -> dict[str, Any]:
    """The readiness of the server, as in ``/readyz``."""
    return _check("The server takes writes", problem is None, problem or "ready")


def _check(name: str, ok: bool, detail: str) -> dict[str, Any]:
    return {"check": name, "ok": ok, "detail": detail}


def _answers(store: Store) -> dict[str, Any]:
    name = "The store answers"
    began = time.perf_counter()
    try:
        next(store.list("datasets/"), None)
    except LodeError as error:
        return _check(name, False, str(error))
    return _check(name, True, f"a listing took {(time.perf_counter() - began) * 1000:.0f} ms")


def _promises(store: Store) -> list[dict[str, Any]]:
    can_swap = isinstance(store, SupportsCompareAndSwap)
    found = [
        _check(
            "The store can compare and swap",
            can_swap,
            "safe for many writers" if can_swap else "allow one writer at a time on this store",
        )
    ]
    if isinstance(store, SupportsDurability):
        detail = "writes reach the disk before they count" if store.durable else "opened with durable=false"
        found.append(_check("Writes survive a power failure", store.durable, detail))
    return found


def _streams(engine: LiveEngine) -> list[dict[str, Any]]:
    damaged = len(engine.quarantine)
    detail = f"{damaged} refused: the server's log says why" if damaged else "no damaged stream logs"
    return [_check("Every write stream was recovered", damaged == 0, detail)]


def _limits(settings: Any) -> list[dict[str, Any]]:
    """The limits, each also as the flags of ``lode serve`` spell it."""
    spelled = {"bytes": spelled_bytes, "seconds": spelled_seconds, "count": "{:,}".format}
    return [
        {"name": name, "unit": unit, "help": text, "value": value, "text": spelled[unit](value)}
        for name, unit, text in _LIMITS
        for value in [getattr(settings, name)]
    ]


def _access(settings: Any) -> list[list[str]]:
    """How clients authenticate, without paths of secrets and without tokens."""
    asks = settings.token_file is not None or bool(settings.tokens)
    return [
        ["Encryption", "TLS" if settings.tls_cert is not None else "none"],
        ["Client certificate", "required" if settings.client_ca is not None else "not required"],
        ["Token", "required" if asks else "not required"],
        ["Location", settings.location],
    ]
