"""What the rows of an import or of a micro-batch were read from, as far as Spark says it."""

from __future__ import annotations

import json
import logging
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from lode.errors import LodeError, NotFoundError
from lode.lineage.position import Position
from lode.lineage.record import Input, Source
from lode.read.source import get_bounded
from lode.spark.options import Options, store_options
from lode.spark.session import is_connect
from lode.store.open import open_store
from lode.store.urls import shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lode.dataset import Dataset
    from lode.store.protocol import Store

logger = logging.getLogger("lode.spark")

# How many files a lineage names.
_MAX_PATHS: Final = 20
_MAX_OFFSET_CHARS: Final = 1_000
# A log of files is left out if it is larger.
_MAX_LOG_BYTES: Final = 16 << 20
_OBJECT_STORES: Final = ("s3", "s3a", "gs", "gcs", "az", "abfss")
# What Spark writes for a source that has no offset yet.
_NO_OFFSET: Final = "-"


class Origins(NamedTuple):
    """The ranges of datasets, and everything else that was read."""

    inputs: tuple[Input, ...] = ()
    sources: tuple[Source, ...] = ()


def files_read(frame: DataFrame) -> tuple[Source, ...]:
    """The files that a frame reads; empty if it reads none, or something else than files."""
    if is_connect(frame.sparkSession):
        paths = frame.inputFiles()
        return _files(paths[:_MAX_PATHS], len(paths))
    # One by one over the socket to Java, so only the first.
    found: Any = frame._jdf.inputFiles()
    return _files([found[index] for index in range(min(len(found), _MAX_PATHS))], len(found))


def _files(paths: list[str], number: int) -> tuple[Source, ...]:
    if not paths:
        return ()
    clean = tuple(shown(path)[1:-1] for path in paths)
    # A folder for each level that all have in common, such as file:, "", "", tmp.
    levels = zip(*(path.split("/")[:-1] for path in clean), strict=False)
    common = [names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels)]
    return (Source("/".join(common) or "several folders", number, clean),)


def stream_offset(dataset: Dataset, after: dict[str, Any], up_to: Position) -> dict[str, Any]:
    """The offset at the end of a batch of a dataset, with what the sink needs for its lineage.

    Without new snapshots it is the offset before, as it is: Spark compares them as text.
    """
    before = Position.from_json(after)
    if before == up_to:
        return after
    return {
        **up_to.to_json(),
        "after": before.to_json(),
        "dataset": dataset.id,
        "store": dataset.store.url,
    }


def batch_origins(options: Options, batch: int) -> Origins:
    """What a micro-batch was made from, by the checkpoint of its query.

    Spark writes the offsets there before the batch begins. Lineage is for people: a checkpoint that this
    process cannot read gives none, and the batch is committed as always.
    """
    place = options.text("checkpointLocation")
    if place is None:
        return Origins()
    shared = place.partition("://")[0] in _OBJECT_STORES
    try:
        store = open_store(_local(place), **(store_options(options) if shared else {}))
        ends = _offsets(store, batch)
        starts = _offsets(store, batch - 1) if batch else []
        return _origins(store, starts, ends)
    except (LodeError, OSError, ValueError, KeyError, TypeError, ImportError) as error:
        logger.debug("the checkpoint %s cannot be read for the lineage: %s", shown(place), error)
        return Origins()


def _local(place: str) -> str:
    """Hadoop's spelling of a local folder, ``file:/…``, as ours."""
    if place.startswith("file:") and not place.startswith("file://"):
        return place.removeprefix("file:")
    return place


def _offsets(store: Store, batch: int) -> list[str]:
    """The offset of each source at the end of a batch: a line each, after the version and the settings."""
    text = get_bounded(store, f"offsets/{batch}", _MAX_LOG_BYTES).decode()
    return text.split("\n")[2:]


def _origins(store: Store, starts: list[str], ends: list[str]) -> Origins:
    inputs: list[Input] = []
    sources: list[Source] = []
    for number, end in enumerate(ends):
        start = starts[number] if number < len(starts) else _NO_OFFSET
        if end in (start, _NO_OFFSET, ""):
            continue  # nothing new of this one
        try:
            known = json.loads(end)
        except json.JSONDecodeError:
            known = None
        if isinstance(known, dict) and {"dataset", "store", "after", "sequence"} <= known.keys():
            after, up_to = Position.from_json(known["after"]), Position.from_json(known)
            inputs.append(Input(str(known["store"]), str(known["dataset"]), after, up_to))
        elif isinstance(known, dict) and known.keys() == {"logOffset"}:
            sources += _log_files(store, number, start, known["logOffset"])
        else:
            before = "" if start == _NO_OFFSET else _short(start)
            sources.append(Source(f"source {number}", after=before, up_to=_short(end)))
    return Origins(tuple(inputs), tuple(sources))


class _LogEntry(msgspec.Struct, frozen=True):
    """A file in the log of Spark's file source."""

    path: str
    batchId: int  # noqa: N815 - Spark's name


def _log_files(store: Store, number: int, start: str, end: int) -> tuple[Source, ...]:
    """The files that Spark's file source found between two offsets."""
    first = json.loads(start)["logOffset"] + 1 if start != _NO_OFFSET else 0
    found = [
        entry.path
        for batch in range(max(first, 0), end + 1)
        for entry in _log(store, number, batch)
        if entry.batchId == batch
    ]
    return _files(found[:_MAX_PATHS], len(found))


def _log(store: Store, number: int, batch: int) -> list[_LogEntry]:
    for name in (f"{batch}", f"{batch}.compact"):
        try:
            text = get_bounded(store, f"sources/{number}/{name}", _MAX_LOG_BYTES)
        except NotFoundError:
            continue
        return [msgspec.json.decode(line, type=_LogEntry) for line in text.split(b"\n")[1:] if line]
    return []


def _short(offset: str) -> str:
    text = " ".join(offset.split())
    return text if len(text) <= _MAX_OFFSET_CHARS else f"{text[: _MAX_OFFSET_CHARS - 1]}…"
