"""Reads the files of load jobs, in a process with limits: see ``lode.sandbox``.

A file decides how much memory and time it takes, and a damaged one can crash its reader.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.ingest.jobs.formats.avro import Avro
from lode.ingest.jobs.formats.columnar import Orc, Parquet
from lode.ingest.jobs.formats.csv_text import BLOCK_BYTES, Csv, csv_options, integer
from lode.ingest.jobs.formats.json_lines import JsonLines
from lode.ingest.jobs.formats.source import FORMATS, BadRecords, TooManyErrors, bounded, cut
from lode.ingest.status import Code, Refused
from lode.lazy import pa
from lode.sandbox.peer import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.jobs.formats.remote import Request
    from lode.ingest.jobs.formats.source import Source
    from lode.ingest.types.columns import TableSchema
    from lode.sandbox.child import Child

_MAX_TEXT_CHARS: Final = 4000


class _Load:
    """The files of one load job. The first is opened at once, the others when their rows are read."""

    def __init__(self, child: Child, request: Request) -> None:
        self._child = child
        self._request = request
        tolerated = integer(request.settings, "maxBadRecords") or 0
        self.bad = BadRecords(FORMATS[request.format], tolerated)
        self.first = self._open(request.paths[0])

    def _open(self, path: Path) -> Source:
        settings, given = self._request.settings, self._request.given
        ignore = settings.get("ignoreUnknownValues") in (True, "true")
        autodetect = settings.get("autodetect") in (True, "true") and given is None
        match self._request.format:
            case "PARQUET":
                return Parquet(path, self.bad, ignore_unknown=ignore)
            case "ORC":
                return Orc(path, self.bad, ignore_unknown=ignore)
            case "AVRO":
                logical = settings.get("useAvroLogicalTypes") in (True, "true")
                return Avro(path, self.bad, ignore_unknown=ignore, logical_types=logical)
            case "NEWLINE_DELIMITED_JSON":
                return JsonLines(path, self.bad, ignore_unknown=ignore, autodetect=autodetect)
        options = csv_options(settings, ignore_unknown=ignore, autodetect=autodetect)
        return Csv(path, self.bad, options, given)

    def rows(self, schema: TableSchema) -> Iterator[pa.RecordBatch]:
        self.bad.begin()
        for batch in bounded(cut(self._batches(schema)), self._request.size):
            if self._child.is_interrupted:
                raise Refused(Code.CANCELLED, "The job was stopped.", reason="stopped")
            yield batch
        pa.default_memory_pool().release_unused()  # the process waits for the next job

    def _batches(self, schema: TableSchema) -> Iterator[pa.RecordBatch]:
        yield from self.first.batches(schema)
        for path in self._request.paths[1:]:
            yield from self._open(path).batches(schema)


def handlers(child: Child) -> dict[str, Any]:
    """What a server may call: ``open``, then the others."""
    opened: list[_Load] = []
    csv.field_size_limit(BLOCK_BYTES)

    def begin_files(request: Request) -> None:
        opened.clear()
        opened.append(_Load(child, request))

    def schema() -> dict[str, Any]:
        source = opened[0].first
        return {
            "schema": msgspec.to_builtins(source.schema()),
            "named": not isinstance(source, Csv) or source.has_header,
        }

    def rows(wanted: TableSchema) -> Rows:
        return Rows(wanted.arrow, opened[0].rows(wanted))

    def bad() -> dict[str, Any]:
        return {"count": opened[0].bad.count, "errors": opened[0].bad.errors}

    return {"open": begin_files, "schema": schema, "rows": rows, "bad": bad}


def describe(error: Exception) -> dict[str, Any]:
    """An error as the server restores it: see ``remote.py``."""
    if isinstance(error, MemoryError):
        return {"type": "memory"}
    if not isinstance(error, Refused):
        return {"type": "other", "text": _text(f"{type(error).__name__}: {error}")}
    return {
        "type": "refused",
        "code": int(error.code),
        "text": _text(error.message),
        "reason": error.reason,
        "location": error.location,
        "errors": error.errors if isinstance(error, TooManyErrors) else None,
    }


def restore(description: dict[str, Any]) -> Exception:
    """The error of a function of the server. There are none."""
    raise NotImplementedError(description)


def _text(message: str) -> str:
    # A message may repeat input of any length, which UTF-8 may not be able to encode.
    return message[:_MAX_TEXT_CHARS].encode(errors="replace").decode()
