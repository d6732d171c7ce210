"""The names of resources: tables and write streams, as they appear in requests."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lode.ingest.status import invalid

DEFAULT_STREAM: Final = "_default"

_PROJECT = r"[^/\s]{1,255}"
_DATASET = r"[A-Za-z0-9_]{1,1024}"
_TABLE = r"[^/.\\\x00-\x1f\x7f]{1,1024}"
_TABLE_NAME = re.compile(rf"projects/({_PROJECT})/datasets/({_DATASET})/tables/({_TABLE})")
# The ids that the engine makes: any other id is malformed, and not merely unknown.
_STREAM_ID = r"s-[0-9a-f]{32}"
# Java clients leave out ``streams/`` for the default stream.
_STREAM_NAME = re.compile(
    rf"({_TABLE_NAME.pattern})/(?:streams/({_STREAM_ID}|{DEFAULT_STREAM})|{DEFAULT_STREAM})"
)


class TableName(NamedTuple):
    """``projects/{project}/datasets/{dataset}/tables/{table}``."""

    project: str
    dataset: str
    table: str

    def __str__(self) -> str:
        return f"projects/{self.project}/datasets/{self.dataset}/tables/{self.table}"

    @property
    def short(self) -> str:
        """As people write it, ``project.dataset.table``, and as the snapshots' dataset is called."""
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
    """Read a table's name, or refuse it."""
    match = _TABLE_NAME.fullmatch(name)
    if match is None:
        raise invalid(
            f"Invalid table name {name!r}: it must be projects/<project>/datasets/<dataset>/tables/<table>.",
            ends_call=True,
        )
    return TableName(*match.groups())


def parse_stream(name: str) -> StreamName:
    """Read a write stream's name, in either form of the default stream's, or refuse it."""
    match = _STREAM_NAME.fullmatch(name)
    if match is None:
        raise invalid(f"Invalid stream name. Entity: {name}", ends_call=True)
    _, project, dataset, table, stream = match.groups()
    return StreamName(TableName(project, dataset, table), stream or DEFAULT_STREAM)
