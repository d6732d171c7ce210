"""The names of resources: tables and write streams, as they appear in requests."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from lode.format.ids import is_utf8, shortened
from lode.ingest.status import invalid

DEFAULT_STREAM: Final = "_default"
# A table's name and generation form one segment of a path, which file systems limit to 255 bytes.
MAX_ID_BYTES: Final = 240

_PROJECT = r"[^/\s]{1,255}"
_DATASET = r"[A-Za-z0-9_]{1,1024}"
_TABLE = r"[^/.\\\x00-\x1f\x7f]{1,1024}"
_TABLE_NAME = re.compile(rf"projects/({_PROJECT})/datasets/({_DATASET})/tables/({_TABLE})")
# The form of ids that the engine creates. Any other id is malformed, not unknown.
_STREAM_ID = r"s-[0-9a-f]{32}"
# Java clients omit ``streams/`` for the default stream.
_STREAM_NAME = re.compile(
    rf"({_TABLE_NAME.pattern})/(?:streams/({_STREAM_ID}|{DEFAULT_STREAM})|{DEFAULT_STREAM})"
)
_ESCAPES: Final = str.maketrans({chr(code): f"%{code:02X}" for code in (*range(32), 127, *map(ord, "%/\\."))})
_DECORATORS: Final = {"$": "a partition", "@": "a moment of the past"}


class TableName(NamedTuple):
    """``projects/{project}/datasets/{dataset}/tables/{table}``."""

    project: str
    dataset: str
    table: str

    def __str__(self) -> str:
        return f"projects/{self.project}/datasets/{self.dataset}/tables/{self.table}"

    @property
    def short(self) -> str:
        """``project.dataset.table``, which is also the id of the dataset with its rows."""
        return f"{self.project}.{self.dataset}.{self.table}"

    @property
    def default_stream(self) -> StreamName:
        return StreamName(self, DEFAULT_STREAM)


class StreamName(NamedTuple):
    """``{table}/streams/{stream}``; the default stream is called ``_default``."""

    table: TableName
    stream: str

    def __str__(self) -> str:
        return f"{self.table}/streams/{self.stream}"

    @property
    def is_default(self) -> bool:
        return self.stream == DEFAULT_STREAM


def parse_table(name: str) -> TableName:
    """Parse a table's name, or refuse it."""
    match = _TABLE_NAME.fullmatch(name)
    if match is None:
        raise invalid(
            f"Invalid table name {shortened(name)}: it must be "
            "projects/<project>/datasets/<dataset>/tables/<table>.",
            ends_call=True,
        )
    return _checked(TableName(*match.groups()))


@lru_cache(8192)
def parse_stream(name: str) -> StreamName:
    """Parse a write stream's name, or refuse it. The default stream's has two forms."""
    match = _STREAM_NAME.fullmatch(name)
    if match is None:
        raise invalid(f"Invalid stream name. Entity: {name}", ends_call=True)
    _, project, dataset, table, stream = match.groups()
    return StreamName(_checked(TableName(project, dataset, table)), stream or DEFAULT_STREAM)


def check_project(project: str) -> str:
    """Return a valid name of a project, or refuse it."""
    return parse_table(f"projects/{project}/datasets/d/tables/t").project


@lru_cache(8192)
def _checked(name: TableName) -> TableName:
    """Refuse decorators, and names that cannot be part of a path."""
    if not is_utf8(name.project + name.table):
        raise invalid(
            "Invalid table name: it has a lone surrogate, which UTF-8 cannot carry.", ends_call=True
        )
    for mark, meaning in _DECORATORS.items():
        if mark in name.table:
            raise invalid(
                f"Invalid table name {shortened(name.table)}: after {mark} it names {meaning}, which is not "
                "supported yet: name the table without it.",
                ends_call=True,
            )
    size = len(".".join(map(escaped, name)).encode())
    if size > MAX_ID_BYTES:
        raise invalid(
            f"Invalid table name {shortened(str(name))}: project, dataset and table together have {size:,} "
            f"bytes, and may have {MAX_ID_BYTES}.",
            ends_call=True,
        )
    return name


@lru_cache(8192)
def escaped(name: str) -> str:
    """A name as part of a path or an id, with the characters that are special there percent-escaped."""
    return name.translate(_ESCAPES)
