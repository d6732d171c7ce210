"""EXPORT DATA: the rows of a query as files of a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from lode.ingest.jobs.buckets import destination, file_format
from lode.ingest.jobs.sql.outcome import Outcome
from lode.sandbox.peer import Rows
from lode.sql.errors import QueryError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.jobs.sql.context import Context

_FORMATS: Final = {
    "CSV": "CSV",
    "JSON": "NEWLINE_DELIMITED_JSON",
    "AVRO": "AVRO",
    "PARQUET": "PARQUET",
}
# The settings of extract jobs that do the same as options of the statement.
_SETTINGS: Final = {
    "format": "destinationFormat",
    "compression": "compression",
    "field_delimiter": "fieldDelimiter",
    "header": "printHeader",
    "use_avro_logical_types": "useAvroLogicalTypes",
}


def export(session: Context, tree: exp.Export, dry: bool) -> Outcome:
    """Run an EXPORT DATA statement."""
    if tree.args.get("connection"):
        raise UnsupportedError("EXPORT DATA WITH CONNECTION")
    options = dict(_options(tree))
    uri = str(options.pop("uri", ""))
    if not uri:
        raise QueryError("Option 'uri' is missing or empty.", location="")
    kind = str(options.get("format", "")).upper()
    if kind not in _FORMATS:
        shown = options.get("format", "")
        raise QueryError(f"'{shown}' is not a valid value; failed to set 'format' in EXPORT DATA OPTIONS")
    overwrite = bool(options.pop("overwrite", False))
    # Unlike extract jobs, the statement writes no header unless it is asked to.
    settings: dict[str, Any] = {"printHeader": False}
    settings |= {_SETTINGS[name]: value for name, value in options.items()}
    settings["destinationFormat"] = _FORMATS[kind]
    if "*" not in destination(uri)[-1]:
        raise QueryError(f"Invalid value: the uri {uri} needs a * in the name of its files")
    file_format(settings)
    if dry:
        session.sql.schema(tree.this)
        return Outcome("EXPORT_DATA", bytes=session.sql.bytes_processed)
    result = session.sql.run(tree.this)
    rows = Rows(result.schema, result.batches)
    exported = session.host.export(uri, settings, lambda: rows, overwrite=overwrite)
    return Outcome("EXPORT_DATA", bytes=result.bytes_processed, exported=exported)


def _options(tree: exp.Export) -> Iterator[tuple[str, Any]]:
    """The options by their names in lower case."""
    properties = tree.args.get("options")
    for each in properties.expressions if properties is not None else ():
        if isinstance(each, exp.FileFormatProperty):
            yield "format", each.name
            continue
        name, value = each.name.lower(), each.args.get("value")
        if name not in ("uri", "overwrite", *_SETTINGS):
            raise QueryError(f"Unknown option: {name} in EXPORT DATA OPTIONS")
        if not isinstance(value, exp.Expression):
            raise QueryError(f"Syntax error: the option {name} of EXPORT DATA has no value")
        yield name, bool(value.this) if isinstance(value, exp.Boolean) else value.name
