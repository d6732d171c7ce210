"""REST calls: bodies, paths, uploads, jobs that are kept, and connections."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from support.bombs import rest, sockets
from support.bombs.bomb import Bomb, at_once
from support.bombs.served import BASE, TABLE, End

if TYPE_CHECKING:
    from support.bombs.served import Served


def _post(path: str) -> Any:
    return lambda served, body, seconds: served.post(path, body, timeout=seconds)


def _everywhere(served: Served, body: bytes, seconds: float) -> End:
    """Send a body to all routes, one after the other; returns the worst end."""
    ends = []
    for verb, path in rest.ROUTES:
        end = served.post(path, body, verb=verb, timeout=seconds)
        ends.append(End(end.status, f"{verb} {path}: {end.text}"[:160]))
    return min(ends, key=lambda end: (end.status != 0, -end.status))


def _packed(served: Served, body: bytes, seconds: float) -> End:
    status, _, answer = served.call(
        "POST", f"{TABLE}/insertAll", body, timeout=seconds, Content_Encoding="gzip"
    )
    return End(status, answer[:100].decode("utf-8", "replace"))


def _get(path: str) -> Any:
    def get(served: Served, _: Any, seconds: float) -> End:
        status, _, answer = served.call("GET", path, timeout=seconds)
        return End(status, f"{len(answer):,} bytes")

    return get


def _begin(served: Served, source: str = "127.0.0.1") -> int:
    body = json.dumps({"configuration": {"load": {}}}).encode()
    path = f"/upload{BASE}/jobs?uploadType=resumable"
    return served.call("POST", path, body, source=source)[0]


def _sessions(served: Served, _: Any, seconds: float) -> End:
    """Begin many uploads without a byte. Then another client begins one."""
    until = time.monotonic() + seconds
    statuses: list[int] = []
    while len(statuses) < 1_200 and time.monotonic() < until:
        statuses.append(_begin(served))
    other = _begin(served, "127.0.0.2")
    refused = sum(status != 200 for status in statuses)
    return End(
        other,
        f"{len(statuses)} sessions, {refused} refused",
        "" if other == 200 else f"another client's upload was refused with {other}",
    )


def _kept_jobs(served: Served, statement: str, seconds: float) -> End:
    """Let twelve queries of 9.8 MB fail; then list them all."""
    until = time.monotonic() + seconds
    for _ in range(12):
        if time.monotonic() < until:
            served.query(statement, timeout=seconds)
    path = f"{BASE}/jobs?projection=full&maxResults=1000"
    status, _, answer = served.call("GET", path, timeout=seconds)
    size = f"the list has {len(answer):,} bytes"
    return End(status, size, size if len(answer) > _MAX_LIST_BYTES else "")


def _socket(work: Any) -> Any:
    return lambda served, _, _seconds: work(served)


# One page of a list is not larger than what a client may send.
_MAX_LIST_BYTES: Final = 20 << 20
_WRONG: Final = "SELECT x FROM d.missing /* " + "a" * 9_800_000 + " */"


def call_bombs() -> list[Bomb]:
    """All REST calls."""
    found = [
        Bomb("REST bodies", name, make, _post(f"{TABLE}/insertAll")) for name, make in rest.BODIES.items()
    ]
    found += [Bomb("REST bodies everywhere", name, make, _everywhere) for name, make in rest.BODIES.items()]
    found.append(Bomb("REST bodies", "a packed body of 2 GB", rest.packed_body, _packed))
    for family, path, bodies in (
        ("REST tables", f"{BASE}/datasets/d/tables", rest.TABLES),
        ("REST inserts", f"{TABLE}/insertAll", rest.INSERTS),
        ("REST routines", f"{BASE}/datasets/d/routines", rest.ROUTINES),
    ):
        found += [Bomb(family, name, make, _post(path)) for name, make in bodies.items()]
    many = rest.BODIES["a body of many zeros"]
    rows = rest.INSERTS["50,000 empty rows"]
    found += [
        Bomb("REST at once", "20 bodies of many zeros", many, at_once(_post(f"{TABLE}/insertAll"), 20)),
        Bomb("REST at once", "20 inserts of 50,000 rows", rows, at_once(_post(f"{TABLE}/insertAll"), 20)),
    ]
    found += [Bomb("REST paths", name, lambda: None, _get(path)) for name, path in rest.PATHS.items()]
    found += [
        Bomb("uploads", "1,200 sessions without a byte", lambda: None, _sessions),
        Bomb("jobs", "12 failed queries of 9.8 MB, listed", partial(str, _WRONG), _kept_jobs),
    ]
    found += [
        Bomb("connections", work.__name__.replace("_", " "), lambda: None, _socket(work))
        for work in sockets.ALL
    ]
    return found
