"""Queries in every way that SQL reaches a server."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from support.bombs import sql
from support.bombs.bomb import Bomb, at_once
from support.bombs.served import BASE, End

if TYPE_CHECKING:
    from support.bombs.served import Served


def _query(served: Served, statement: str, seconds: float) -> End:
    return served.query(statement, timeout=seconds)


def _dry(served: Served, statement: str, seconds: float) -> End:
    return served.query(statement, timeout=seconds, dryRun=True)


def _cancelled(served: Served, statement: str, seconds: float) -> End:
    """Start a query, cancel it half a second later, and wait for its end."""
    until = time.monotonic() + seconds
    body = {"configuration": {"query": {"query": statement, "useLegacySql": False}}}
    id = f"c{time.monotonic_ns()}"
    body["jobReference"] = {"projectId": "p", "jobId": id}  # type: ignore[dict-item]
    end = served.post(f"{BASE}/jobs", body, timeout=seconds)
    if end.status != 200:
        return end
    time.sleep(0.5)
    began = time.monotonic()
    end = served.post(f"{BASE}/jobs/{id}/cancel", {}, timeout=seconds)
    if end.status != 200:
        return end
    end = served.finished(id, until)
    late = time.monotonic() - began
    return End(end.status, end.text, f"it ended {late:.0f} s after its cancellation" if late > 5 else "")


def _view(served: Served, statement: str, seconds: float) -> End:
    """Create a view by the REST method."""
    reference = {"projectId": "p", "datasetId": "d", "tableId": f"v{time.monotonic_ns()}"}
    body = {"tableReference": reference, "view": {"query": statement, "useLegacySql": False}}
    return served.post(f"{BASE}/datasets/d/tables", body, timeout=seconds)


# One or two of each kind: all constructs take the same path, and each is thrown as a query already.
_ELSEWHERE: Final = {
    "nesting": ("nested SAFE.ABS", "nested GREATEST", "nested brackets", "nested UNNEST WITH OFFSET"),
    "chains": ("CTEs that join the one before twice", "CTEs that double a record"),
    "width": ("100,000 conditions", "10,000 columns"),
    "growth": ("REPEAT", "GENERATE_ARRAY"),
    "functions": ("a regex of large counts", "FORMAT with a huge width"),
}
_CANCELLED: Final = {
    "nesting": ("nested GREATEST",),
    "width": ("100,000 conditions",),
    "growth": ("CROSS JOIN", "REPEAT", "ORDER BY", "rows of 100 kB", "endless rows"),
    "functions": ("REGEXP_EXTRACT_ALL", "NORMALIZE", "many buffers", "EDIT_DISTANCE"),
    "scripts": ("an endless loop", "an empty loop", "SELECTs in a loop"),
}


def _some(chosen: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(name, sql.FAMILIES[family][name]) for family, names in chosen.items() for name in names]


def _doubling_views(served: Served, _: Any, seconds: float) -> End:
    end = End(200, "")
    until = time.monotonic() + seconds
    for statement in sql.doubling_views():
        end = served.query(statement, timeout=max(1.0, until - time.monotonic()))
        if end.status != 200:
            break
    return end


def sql_bombs() -> list[Bomb]:
    """Queries; dry runs, views and cancelled jobs of some of them; and many at once."""
    found = [
        Bomb(f"SQL {family}", name, partial(str, statement), _query)
        for family, statements in sql.FAMILIES.items()
        for name, statement in statements.items()
    ]
    for name, statement in _some(_ELSEWHERE):
        found.append(Bomb("SQL dry run", name, partial(str, statement), _dry))
        found.append(Bomb("SQL view", name, partial(str, statement), _view))
        created = f"CREATE OR REPLACE VIEW d.w AS {statement}"
        found.append(Bomb("SQL CREATE VIEW", name, partial(str, created), _query))
    found += [
        Bomb("SQL cancelled", name, partial(str, statement), _cancelled)
        for name, statement in _some(_CANCELLED)
    ]
    safe, greatest = (sql.FAMILIES["nesting"][f"nested {name}"] for name in ("SAFE.ABS", "GREATEST"))
    cross = sql.FAMILIES["growth"]["CROSS JOIN"]
    found += [
        Bomb("SQL at once", "40 dry runs", partial(str, "SELECT COUNT(*) FROM d.t"), at_once(_dry, 40)),
        Bomb("SQL at once", "42 of SAFE.ABS", partial(str, safe), at_once(_query, 42)),
        Bomb("SQL at once", "42 dry runs of GREATEST", partial(str, greatest), at_once(_dry, 42)),
        Bomb("SQL at once", "8 CROSS JOINs", partial(str, cross), at_once(_query, 8)),
        Bomb("SQL at once", "views that double", lambda: None, _doubling_views),
    ]
    return found
