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


def _begin(served: Served, seconds: float) -> int:
    body = json.dumps({"configuration": {"load": {}}}).encode()
    path = f"/upload{BASE}/jobs?uploadType=resumable"
    return served.call("POST", path, body, timeout=seconds)[0]


def _sessions(served: Served, count: int, seconds: float) -> End:
    """Begin many uploads without a byte. Then another client loads a file, and begins an upload."""
    until = time.monotonic() + seconds
    statuses = []
    for _ in range(count):
        if time.monotonic() > until:
            break
        statuses.append(_begin(served, seconds))
    loaded = served.load(b"a,b\n1,2\n", "CSV", timeout=10)
    refused = sum(status != 200 for status in statuses)
    # A client that was refused is a client that waits. All others must not.
    return End(loaded.status, f"{len(statuses)} sessions, {refused} refused; then a load: {loaded}"[:160])


def _kept_jobs(served: Served, statement: str, seconds: float) -> End:
    """Let 60 queries of 9.8 MB fail; then list them all."""
    until = time.monotonic() + seconds
    for _ in range(60):
        if time.monotonic() > until:
            break
        served.query(statement, timeout=seconds)
    status, _, answer = served.call("GET", f"{BASE}/jobs?projection=full&maxResults=1000", timeout=seconds)
    # One page of a list is not larger than what a client may send.
    if len(answer) > 20 << 20:
        return End(500, f"the list has {len(answer):,} bytes")
    return End(status, f"the list has {len(answer):,} bytes")


def _socket(work: Any) -> Any:
    return lambda served, _, _seconds: work(served)


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
        Bomb(
            "uploads", "1,200 sessions without a byte", lambda: None, lambda s, _, t: _sessions(s, 1_200, t)
        ),
        Bomb("jobs", "60 failed queries of 9.8 MB, listed", partial(str, _WRONG), _kept_jobs),
    ]
    found += [
        Bomb("connections", work.__name__.replace("_", " "), lambda: None, _socket(work))
        for work in sockets.ALL
    ]
    return found
