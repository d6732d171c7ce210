"""The last runs of a pipeline, as one small object in the lake: ``pipelines/<name>.json``.

What a pipeline has done is in the snapshots it made. A run that failed or found nothing makes none, so it is
noted here. The notes are for people: nothing depends on them, and a lost one is no harm.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from lode.errors import LodeError, NotFoundError
from lode.store.protocol import SupportsCompareAndSwap

if TYPE_CHECKING:
    from lode.store.protocol import Store

logger = logging.getLogger("lode.pipeline")

FOLDER: Final = "pipelines/"
KEPT: Final = 20
MAX_ERROR_CHARACTERS: Final = 2_000
_ATTEMPTS: Final = 5

State: TypeAlias = Literal["done", "failed", "skipped", "stopped", "running"]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a pipeline.

    ``running`` is a continuous run at the time of ``ended_at``. ``skipped`` means that a pipeline it reads
    from has failed.
    """

    state: State
    started_at: datetime
    ended_at: datetime
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    tries: int = 1
    error: str | None = None


class _Notes(msgspec.Struct, frozen=True, kw_only=True):
    pipeline: str
    runs: tuple[Run, ...] = ()


def runs_of(store: Store, pipeline: str) -> tuple[Run, ...]:
    """The last runs of a pipeline, newest first; none if there are no notes that can be read."""
    try:
        return _decoded(store.get(_path(pipeline)), pipeline)
    except NotFoundError:
        return ()


def pipelines_with_runs(store: Store) -> list[str]:
    """The names of all pipelines with notes, sorted."""
    return sorted(
        unquote(info.path.removeprefix(FOLDER).removesuffix(".json"))
        for info in store.list(FOLDER)
        if info.path.endswith(".json")
    )


def note_run(store: Store, pipeline: str, run: Run) -> None:
    """Put a run first. One of the same start is replaced. A store that refuses is only logged."""
    if run.error is not None:
        run = msgspec.structs.replace(run, error=run.error[:MAX_ERROR_CHARACTERS])
    if not isinstance(store, SupportsCompareAndSwap):
        return
    path = _path(pipeline)
    try:
        for _ in range(_ATTEMPTS):
            try:
                before = store.get(path)
            except NotFoundError:
                before = None
            earlier = () if before is None else _decoded(before, pipeline)
            others = [each for each in earlier if each.started_at != run.started_at]
            notes = _Notes(pipeline=pipeline, runs=(run, *others)[:KEPT])
            if store.compare_and_swap(path, before, msgspec.json.encode(notes)):
                return
    except LodeError as error:
        logger.warning("the run of pipeline %r cannot be noted: %s", pipeline, error)


def _decoded(content: bytes, pipeline: str) -> tuple[Run, ...]:
    try:
        return msgspec.json.decode(content, type=_Notes).runs
    except msgspec.DecodeError as error:
        logger.warning("the notes on the runs of pipeline %r cannot be read: %s", pipeline, error)
        return ()


def _path(pipeline: str) -> str:
    return f"{FOLDER}{quote(pipeline, safe='')}.json"
