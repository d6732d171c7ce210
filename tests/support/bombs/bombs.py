"""All bombs: what is made, how it is thrown, and when it must have ended."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from support.bombs import avro, orc, parquet, sql, text
from support.bombs.served import BASE, End, QUERY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.bombs.served import Served

    Throw = Callable[[Served, Any, float], End]


@dataclass(frozen=True, slots=True)
class Bomb:
    """One bomb.

    Args:
        family: What it is for.
        name: How it grows.
        make: Makes it, before the watch begins.
        throw: Sends it, and returns how it ended.
    """

    family: str
    name: str
    make: Callable[[], Any]
    throw: Throw

    @property
    def id(self) -> str:
        return f"{self.family}: {self.name}"


def _sentence(make: Any) -> str:
    return str(make.__name__).replace("_", " ")


def _load(format: str, **more: Any) -> Throw:
    return lambda served, data, seconds: served.load(data, format, timeout=seconds, **more)


def _loads(family: str, format: str, makes: tuple[Callable[[], bytes], ...], **more: Any) -> list[Bomb]:
    return [Bomb(family, _sentence(make), make, _load(format, **more)) for make in makes]


_TEXT: Final = [{"name": "a", "type": "STRING"}]
_NUMBER: Final = [{"name": "a", "type": "INT64"}]
_NUMBERS: Final = [{"name": "a", "type": "INT64", "mode": "REPEATED"}]


def load_bombs() -> list[Bomb]:
    """Files of every format, with a schema and without."""
    found = _loads(
        "load Parquet",
        "PARQUET",
        (
            parquet.nulls_in_a_list,
            parquet.repeated_value,
            parquet.null_rows,
            parquet.claimed_page,
            parquet.shared_column,
            parquet.shared_groups,
            parquet.deep_schema,
            parquet.claimed_footer,
            parquet.claimed_schema,
        ),
    )
    found += [
        Bomb("load Parquet", f"a page of 1 GiB in {name}", partial(parquet.large_page, codec), _load("PARQUET"))
        for name, codec in (("gzip", parquet.GZIP), ("zstd", parquet.ZSTD))
    ]
    found += _loads(
        "load Avro",
        "AVRO",
        (
            avro.array_of_empty_fixed,
            avro.array_of_nulls,
            avro.array_of_empty_records,
            avro.array_with_a_size,
            avro.array_of_empty_arrays,
            avro.map_of_nulls,
            avro.rows_of_nothing,
            avro.rows_without_fields,
            avro.millions_of_empty_blocks,
            avro.doubling_schema,
            avro.recursive_schema,
            avro.recursive_array,
            avro.deep_schema,
            avro.wide_schema,
            avro.wide_union,
            avro.wide_enum,
            avro.large_decimals,
            avro.claimed_text,
            avro.claimed_block,
            avro.claimed_meta,
            avro.deflated,
            avro.zstandard_block,
            avro.many_frames,
            avro.claimed_snappy,
            avro.full_block,
        ),
    )
    found += _loads(
        "load ORC",
        "ORC",
        (
            orc.repeated_value,
            orc.constant_numbers,
            orc.nulls_in_lists,
            orc.many_columns,
            orc.deep_columns,
            orc.damaged_lengths,
        ),
    )
    csv = (
        text.equal_names,
        text.long_line,
        text.open_quote,
        text.many_quotes,
        text.many_columns,
        text.many_delimiters,
        text.line_breaks,
        text.short_rows,
        text.zeros,
        text.empty_members,
        text.long_cells,
        text.long_numbers,
    )
    found += _loads("load CSV, detected", "CSV", csv)
    found += _loads("load CSV with a schema", "CSV", csv, fields=_TEXT, allowQuotedNewlines=True)
    found += _loads(
        "load CSV with a schema", "CSV", (text.bad_rows,), fields=_NUMBER, maxBadRecords=2_000_000_000
    )
    json = (
        text.many_keys,
        text.equal_keys,
        text.deep_lists,
        text.deep_objects,
        text.many_deep_lines,
        text.long_number,
        text.large_exponent,
        text.long_text,
        text.many_items,
        text.many_empty_objects,
        text.packed_items,
        text.empty_rows,
        text.new_keys_on_every_line,
        text.blank_text,
        text.line_breaks,
        text.empty_members,
    )
    found += _loads("load JSON, detected", "NEWLINE_DELIMITED_JSON", json)
    found += _loads(
        "load JSON with a schema",
        "NEWLINE_DELIMITED_JSON",
        json,
        fields=_NUMBERS,
        ignoreUnknownValues=True,
    )
    return found


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
    end = served.post(f"{BASE}/jobs/{id}/cancel", {}, timeout=seconds)
    return end if end.status != 200 else served.finished(id, until)


def _view(served: Served, statement: str, seconds: float) -> End:
    """Create a view by the REST method."""
    reference = {"projectId": "p", "datasetId": "d", "tableId": f"v{time.monotonic_ns()}"}
    body = {"tableReference": reference, "view": {"query": statement, "useLegacySql": False}}
    return served.post(f"{BASE}/datasets/d/tables", body, timeout=seconds)


def at_once(throw: Throw, count: int) -> Throw:
    """Throw the same bomb many times at once; returns the worst end."""

    def thrown(served: Served, made: Any, seconds: float) -> End:
        ends: list[End] = []
        threads = [
            threading.Thread(target=lambda: ends.append(throw(served, made, seconds))) for _ in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        worst = min(ends, key=lambda end: (end.status != 0, -end.status))
        return End(worst.status, f"{count} at once, the worst: {worst.text}")

    return thrown


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
        Bomb("SQL at once", "20 CROSS JOINs", partial(str, cross), at_once(_query, 20)),
        Bomb("SQL at once", "views that double", lambda: None, _doubling_views),
    ]
    return found


def all_bombs() -> list[Bomb]:
    """Every bomb, in the order of the report."""
    return [*load_bombs(), *sql_bombs()]
