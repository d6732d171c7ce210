"""REST v2: rows of a table, ``insertAll`` and ``tabledata.list``."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from cachetools import TTLCache
from starlette.concurrency import run_in_threadpool

from lode.extras import needs
from lode.ingest.api.rest.body import MAX_INSERT_ROWS
from lode.ingest.api.rest.call import RestCall, is_whole, page_token, parse_page_token, table_name
from lode.ingest.api.rest.cells import cells, page_of_cells
from lode.ingest.api.rest.tables import SUMMARY, select_columns
from lode.ingest.decode.json import NOT_A_RECORD, NOT_REPEATED, JsonRows
from lode.ingest.status import Code, Refused, RowProblem, invalid
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lode.ingest.api.rest.cells import TimestampFormat
    from lode.ingest.api.rest.contents import ContentCache
    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.names import TableName

    Append = Callable[[TableName, pa.RecordBatch], Awaitable[None]]

MAX_PAGE_ROWS: Final = 10_000
MAX_INSERT_ID_CHARS: Final = 128

_MAX_MESSAGE_CHARS: Final = 1_000
_TIMESTAMP_FORMATS: Final = ("TIMESTAMP_OUTPUT_FORMAT_UNSPECIFIED", "INT64", "FLOAT64", "ISO8601_STRING")
# Messages about a row in the words of the service. All others have its words already.
_WORDINGS: Final = {
    "no such field.": "no such field: {}.",
    "it is REQUIRED, and null or missing.": "Missing required field: {}.",
    "it is REQUIRED, and null.": "Missing required field: {}.",
    NOT_REPEATED: "Array specified for non-repeated field: {}.",
    NOT_A_RECORD: "This field: {} is not a record.",
}


_BAD_NUMBER: Final = re.compile(r"'(.*)' is (?:not a|out of the range of) ((?:BIG)?NUMERIC)\b.*", re.DOTALL)
# A column's name with a single quote is written between double quotes.
_COLUMN: Final = re.compile(r"""Column (?:'|")(.*?)(?:'|"): (.*)""", re.DOTALL)


class InsertIds:
    """The ids of recently inserted rows. A row with a known id is not stored again.

    Best effort, as in BigQuery: the window is bounded in time and number, and belongs to this process. An id
    is added after its row is stored: two concurrent requests store a row twice rather than not at all. Safe
    for threads.
    """

    def __init__(
        self, *, max_ids: int = 200_000, seconds: float = 60, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seen: TTLCache[tuple[str, str], None] = TTLCache(max_ids, ttl=seconds, timer=clock)
        self._lock = threading.Lock()

    def fresh(self, dataset_id: str, ids: Sequence[str | None]) -> list[int]:
        """Return the positions of unknown ids, for each id the first one."""
        found: list[int] = []
        own: set[str] = set()
        with self._lock:
            for position, insert_id in enumerate(ids):
                if insert_id is not None:
                    if insert_id in own or (dataset_id, insert_id) in self._seen:
                        continue
                    own.add(insert_id)
                found.append(position)
        return found

    def add(self, dataset_id: str, ids: Sequence[str | None]) -> None:
        with self._lock:
            for insert_id in ids:
                if insert_id is not None:
                    self._seen[dataset_id, insert_id] = None


class _Prepared(NamedTuple):
    """The rows that an ``insertAll`` stores, and its answer."""

    table: TableName
    dataset_id: str
    batch: pa.RecordBatch | None
    ids: list[str | None]
    answer: dict[str, Any]


class RowMethods:
    """The methods on rows.

    Args:
        catalog: The tables.
        contents: Their contents.
        append: Stores a batch in a table's ``schema.arrow``, and returns when it is visible.
    """

    def __init__(self, catalog: Catalog, contents: ContentCache, append: Append) -> None:
        self._catalog = catalog
        self._contents = contents
        self._append = append
        self._ids = InsertIds()

    async def prepare(self, call: RestCall) -> _Prepared:
        """Decode the rows of ``insertAll``."""
        return await run_in_threadpool(self._prepare, call)

    async def append(self, prepared: _Prepared) -> dict[str, Any]:
        """Append rows. If any is bad, nothing is stored unless ``skipInvalidRows`` is set."""
        if prepared.batch is not None and prepared.batch.num_rows:
            await self._append(prepared.table, prepared.batch)
            await run_in_threadpool(self._ids.add, prepared.dataset_id, prepared.ids)
        return prepared.answer

    def _prepare(self, call: RestCall) -> _Prepared:
        """Decode the rows. Runs on a thread."""
        rows, ids = _rows_of(call.body)
        definition = self._catalog.table(call.table)
        suffix = call.body.get("templateSuffix")
        if suffix:
            definition = self._from_template(definition, suffix)
        wanted = self._ids.fresh(definition.dataset_id, ids)
        skip, ignore = (bool(call.body.get(key)) for key in ("skipInvalidRows", "ignoreUnknownValues"))
        batch, stored, problems = _decoded(definition, rows, wanted, skip=skip, ignore_unknown=ignore)
        if problems and not skip:
            bad = {problem.index for problem in problems}
            problems += [RowProblem(index, "") for index in range(len(rows)) if index not in bad]
        answer: dict[str, Any] = {"kind": "bigquery#tableDataInsertAllResponse"}
        if problems:
            problems.sort(key=lambda problem: problem.index)
            answer["insertErrors"] = [_insert_error(problem) for problem in problems]
        kept = [ids[position] for position in stored]
        return _Prepared(definition.name, definition.dataset_id, batch, kept, answer)

    def _from_template(self, template: TableDefinition, suffix: Any) -> TableDefinition:
        """The table with the template's name and the suffix, created like the template if it is missing."""
        if not isinstance(suffix, str):
            raise invalid("Invalid value for templateSuffix: it must be text.")
        project, dataset, table = template.name
        name = table_name(project, dataset, table + suffix)
        try:
            return self._catalog.table(name)
        except Refused as missing:
            if missing.code is not Code.NOT_FOUND:
                raise
        try:
            return self._catalog.create_table(
                name, template.schema, partitioning=template.partitioning, info=template.info
            )
        except Refused as exists:
            if exists.code is not Code.ALREADY_EXISTS:
                raise
            return self._catalog.table(name, fresh=True)

    def list(self, call: RestCall) -> dict[str, Any]:
        """Return a page. The token keeps the snapshot of the first page: newer rows are left out."""
        if (name := call.summarized()) is not None:
            return self._partitions(self._catalog.table(name, fresh=True), call)
        ref = call.table_ref
        definition = self._catalog.table(ref.name, fresh=True).check_readable()
        fields = call.query.get("selectedFields", "")
        schema = select_columns(definition.schema, fields, definition.readable)
        timestamps = timestamps_of(call)
        content = self._contents.of(definition)
        snapshot, start = _position(call, definition, content.snapshot_id)
        content, total = self._contents.at(definition, content, snapshot)
        if ref.partition:
            content = self._contents.in_partition(definition, content, total, ref)
            total = content.rows
        limit = call.number("maxResults")
        stop = min(total, start + min(MAX_PAGE_ROWS, MAX_PAGE_ROWS if limit is None else limit))
        batches = self._contents.rows(definition, content, schema, start, stop)
        rows = page_of_cells(batches, schema, timestamps=timestamps)
        answer: dict[str, Any] = {
            "kind": "bigquery#tableDataList",
            "etag": definition.etag,
            "totalRows": str(total),
        }
        if rows:
            answer["rows"] = rows
        reached = start + len(rows)
        if rows and reached < total:
            answer["pageToken"] = page_token(f"{definition.generation}:{snapshot}:{reached}")
        return answer

    def _partitions(self, definition: TableDefinition, call: RestCall) -> dict[str, Any]:
        """Return the partitions of a table, in one page: a table has some thousands at most."""
        with needs("The list of partitions", "sql"):
            from lode.ingest.jobs.sql.information import partitions
        schema = select_columns(SUMMARY, call.query.get("selectedFields", ""))
        rows = [
            dict(
                zip(
                    SUMMARY.arrow.names,
                    (
                        *definition.name,
                        id,
                        definition.created_ms,
                        changed and int(changed.timestamp() * 1000),
                    ),
                    strict=True,
                )
            )
            for id, _, _, changed in partitions(self._catalog, definition)
        ]
        batch = pa.RecordBatch.from_pylist(rows, schema=schema.arrow)
        shown = cells(batch, schema, timestamps="INT64")
        return {"kind": "bigquery#tableDataList", "totalRows": str(len(shown)), "rows": shown}


def _rows_of(body: dict[str, Any]) -> tuple[list[Any], list[str | None]]:
    entries = body.get("rows")
    if not isinstance(entries, list) or not entries:
        raise invalid("No rows present in the request: send at least one.")
    if len(entries) > MAX_INSERT_ROWS:
        raise invalid(f"The request has {len(entries):,} rows, the limit is {MAX_INSERT_ROWS:,}: send fewer.")
    rows: list[Any] = []
    ids: list[str | None] = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict) or "json" not in entry:
            raise invalid(f"Row {index} has no json: send {{insertId, json}} for each row.")
        insert_id = entry.get("insertId")
        if isinstance(insert_id, int) and not isinstance(insert_id, bool):
            insert_id = str(insert_id)
        if insert_id is not None and not isinstance(insert_id, str):
            raise invalid(f"Row {index} has an insertId that is not text: send text, or none.")
        if insert_id is not None and len(insert_id) > MAX_INSERT_ID_CHARS:
            raise invalid(
                f"Row {index} has an insertId of more than {MAX_INSERT_ID_CHARS} characters: send a "
                "shorter one."
            )
        rows.append(entry["json"])
        ids.append(insert_id or None)
    return rows, ids


def _decoded(
    definition: TableDefinition, rows: list[Any], wanted: list[int], *, skip: bool, ignore_unknown: bool
) -> tuple[pa.RecordBatch | None, list[int], list[RowProblem]]:
    """Return the batch to store, the positions of its rows, and the problems of the others."""
    if not wanted:
        return None, [], []
    decoder = JsonRows(definition.schema, ignore_unknown=ignore_unknown)
    try:
        return decoder.decode([rows[position] for position in wanted]), wanted, []
    except Refused as refused:
        if not refused.rows:
            raise
        problems = [RowProblem(wanted[problem.index], problem.message) for problem in refused.rows]
    bad = {problem.index for problem in problems}
    good = [position for position in wanted if position not in bad]
    if not skip or not good:
        return None, [], problems
    return decoder.decode([rows[position] for position in good]), good, problems


def _insert_error(problem: RowProblem) -> dict[str, Any]:
    """Return the error of one row as the service words it. Without a problem of its own, a row is stopped."""
    error = {"reason": "stopped", "location": "", "debugInfo": "", "message": ""}
    if problem.message:
        match = _COLUMN.fullmatch(problem.message)
        location, sentence = match.groups() if match else ("", problem.message)
        location = location[:_MAX_MESSAGE_CHARS]
        message = _worded(location, sentence)[:_MAX_MESSAGE_CHARS]
        error |= {"reason": "invalid", "location": location, "message": message}
    return {"index": problem.index, "errors": [error]}


def _worded(location: str, sentence: str) -> str:
    """Return a message about a value in the words of the service."""
    if sentence in _WORDINGS:
        return _WORDINGS[sentence].format(location)
    match = _BAD_NUMBER.fullmatch(sentence)
    return f"Invalid {match[2]} value: {match[1]}" if match else sentence


def timestamps_of(call: RestCall) -> TimestampFormat:
    """The format of timestamps that a request asks for."""
    name = call.choice("formatOptions.timestampOutputFormat", _TIMESTAMP_FORMATS)
    if name and name != _TIMESTAMP_FORMATS[0]:
        return cast("TimestampFormat", name)
    return "INT64" if call.flag("formatOptions.useInt64Timestamp") else "FLOAT64"


def _position(call: RestCall, definition: TableDefinition, head: str) -> tuple[str, int]:
    """Return the snapshot and the first row of the page."""
    token = call.query.get("pageToken", "")
    if not token:
        return head, call.number("startIndex") or 0
    generation, _, rest = parse_page_token(token).partition(":")
    snapshot, _, row = rest.partition(":")
    if generation != str(definition.generation) or not is_whole(row):
        raise invalid("Invalid value for pageToken: it is not of this table, start again without one.")
    return snapshot, int(row)
