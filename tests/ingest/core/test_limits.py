"""Limits are exact under concurrency, and count only streams that are in use."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.bigquery_storage_v1 import types

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.core.strategies import StreamType
from lode.ingest.status import Code, Refused
from lode.testing.plugin import LodeServer
from support.ingest.engines import PARTS, PLAIN, append, create_table, engine_on, lake, refusal_of, rows
from support.ingest.tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lode.ingest.core.engine import Engine
    from lode.ingest.core.streams import Stream
    from lode.ingest.names import TableName

MOST = 5
ASKING = 16


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = engine_on(lake(), tmp_path, streams=MOST)
    yield engine
    engine.close()


def created_at_once(
    engine: Engine, count: int = ASKING, kind: StreamType = StreamType.PENDING
) -> list[Stream]:
    """Create streams concurrently; returns those that were created."""
    together = threading.Barrier(count)

    def create() -> Stream | None:
        together.wait(120)
        try:
            return engine.create_stream(PLAIN, kind)
        except Refused as refusal:
            if refusal.code is not Code.RESOURCE_EXHAUSTED:
                raise
            return None

    with ThreadPoolExecutor(count) as pool:
        made = [pool.submit(create) for _ in range(count)]
    return [stream for answer in made if (stream := answer.result()) is not None]


def active(engine: Engine) -> dict[str, float]:
    found = re.findall(
        r'^lode_write_streams_active\{stream_type="(\w+)"\} (\S+)$',
        engine.metrics.text().decode(),
        re.MULTILINE,
    )
    return {kind: float(count) for kind, count in found}


def test_concurrent_creations_do_not_exceed_the_limit_of_streams(engine: Engine) -> None:
    assert len(created_at_once(engine)) == MOST
    assert len(engine.streams()) == MOST


def test_one_of_many_concurrent_creations_gets_the_last_stream(engine: Engine) -> None:
    first, *_ = created_at_once(engine, MOST, StreamType.COMMITTED)
    engine.finalize(first.name)
    assert len(created_at_once(engine)) == 1


def test_a_stream_that_could_not_be_created_does_not_count(tmp_path: Path) -> None:
    engine = engine_on(lake(), tmp_path, streams=MOST)
    logs = tmp_path / "streams"
    logs.rename(tmp_path / "away")
    logs.write_text("in the way")
    for _ in range(2 * MOST):
        with pytest.raises(OSError):
            engine.create_stream(PLAIN, StreamType.COMMITTED)
    logs.unlink()
    (tmp_path / "away").rename(logs)
    assert len(created_at_once(engine)) == MOST
    engine.close()


def delete_table(catalog: Catalog) -> None:
    catalog.delete_table(PLAIN)


def delete_dataset(catalog: Catalog) -> None:
    catalog.delete_dataset(DatasetName("p", "d"), delete_contents=True)


def replace_table(catalog: Catalog) -> None:
    catalog.delete_table(PLAIN)
    create_table(catalog, PLAIN)


@pytest.mark.parametrize("delete", [delete_table, delete_dataset, replace_table])
def test_streams_of_a_deleted_table_are_not_active(engine: Engine, delete: Callable[[Catalog], None]) -> None:
    for kind in (StreamType.COMMITTED, StreamType.PENDING, StreamType.BUFFERED):
        engine.create_stream(PLAIN, kind)
    assert active(engine) == {"COMMITTED": 1.0, "PENDING": 1.0, "BUFFERED": 1.0}
    delete(engine.catalog)
    assert active(engine) == {"COMMITTED": 0.0, "PENDING": 0.0, "BUFFERED": 0.0}


def test_streams_of_a_deleted_table_are_removed_with_their_staged_rows(
    engine: Engine, tmp_path: Path
) -> None:
    append(engine.create_stream(PLAIN, StreamType.PENDING), [0, 1], 0)
    other = engine.create_stream(PARTS, StreamType.PENDING)
    append(other, [2], 0)
    engine.catalog.delete_table(PLAIN)
    engine.expire()
    assert [stream.name for stream in engine.streams()] == [other.name]
    assert {path.name for path in (tmp_path / "streams").iterdir()} == {other.id}
    assert {path.name for path in (tmp_path / "acknowledged").iterdir()} == {other.id}
    assert other.log is not None
    assert engine.staged.bytes == other.log.bytes


def test_streams_of_a_table_that_another_server_deleted_do_not_count(tmp_path: Path) -> None:
    store = lake()
    engine = engine_on(store, tmp_path, streams=MOST)
    engine.catalog._tables._max_age = engine.catalog._datasets._max_age = 0.0
    assert len(created_at_once(engine)) == MOST
    Catalog(store).delete_table(PLAIN)
    assert engine.create_stream(PARTS, StreamType.PENDING).name.table == PARTS
    assert active(engine) == {"COMMITTED": 0.0, "PENDING": 1.0, "BUFFERED": 0.0}
    engine.close()


def test_a_table_that_cannot_be_read_keeps_its_streams(tmp_path: Path) -> None:
    store = lake()
    engine = engine_on(store, tmp_path)
    engine.catalog._tables._max_age = 0.0
    stream = engine.create_stream(PLAIN, StreamType.PENDING)
    append(stream, [0], 0)
    # As if the lake is not mounted: there is no table, but none was deleted either.
    path = next(info.path for info in store.list("catalog/") if info.path.endswith("plain.json"))
    content = store.get(path)
    store.delete(path)
    engine.expire()
    store.put(path, content)
    assert append(engine.stream(stream.name), [1], 1) == 1
    engine.close()


def staged_at_once(engine: Engine, table: TableName = PLAIN) -> int:
    """Send many appends to many streams at once; returns the number of accepted ones."""
    streams = [engine.create_stream(table, StreamType.PENDING) for _ in range(8)]
    answers = []
    for _ in range(30):
        for stream in streams:
            try:
                answers.append(stream.append(rows(range(200)), None))
            except Refused as refusal:
                if refusal.code is not Code.RESOURCE_EXHAUSTED:
                    raise
    return sum(refusal_of(answer) is None for answer in answers)


def test_appends_in_flight_count_as_staged_bytes(tmp_path: Path) -> None:
    limit = 200_000
    engine = engine_on(lake(), tmp_path, staged_bytes=limit)
    stored = staged_at_once(engine)
    held = sum(stream.log.bytes for stream in engine.streams() if stream.log is not None)
    assert stored > 8
    assert engine.staged.bytes == held <= limit
    engine.close()


def test_a_refused_append_does_not_count_as_staged_bytes(tmp_path: Path) -> None:
    engine = engine_on(lake(), tmp_path, staged_bytes=200_000)
    stream = engine.create_stream(PLAIN, StreamType.PENDING)
    before = engine.staged.bytes
    for _ in range(50):
        with pytest.raises(Refused, match="beyond stream"):
            append(stream, range(200), 7)
    assert engine.staged.bytes == before
    engine.close()


def test_an_append_above_the_limit_of_staged_bytes_is_refused(tmp_path: Path) -> None:
    engine = engine_on(lake(), tmp_path, staged_bytes=10_000)
    stream = engine.create_stream(PLAIN, StreamType.BUFFERED)
    with pytest.raises(Refused, match="the limit is 10,000") as refused:
        append(stream, range(2000), 0)
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    assert append(stream, range(5), 0) == 0
    engine.close()


def test_no_thread_of_a_server_outlives_it(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    server = LodeServer(tmp_path / "lake")
    table = Table(server)
    table.append(table.stream("pending"), [1])
    table.append(table.default, [2])
    reader: Any = server.read_client()  # some of its methods have no types
    wanted = types.ReadSession(table=table.name, data_format=types.DataFormat.ARROW)
    session = reader.create_read_session(parent="projects/p", read_session=wanted)
    assert sum(answer.row_count for answer in reader.read_rows(session.streams[0].name)) == 1
    server.stop()
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("lode"):
            thread.join(120)
            assert not thread.is_alive(), thread.name
