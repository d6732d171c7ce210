"""``ls --streams``: the write streams, as a lake and the state of its server tell of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.core.strategies import StreamType
from lode.store import LocalStore
from support.ingest.engines import PLAIN, create_table, engine_on, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.ingest.core.engine import Engine
    from support.cli.running import Run

DATASET = PLAIN.short


@pytest.fixture
def engine(lake: Path) -> Iterator[Engine]:
    """A server's engine at work on the lake, with its state where it is unless another is given."""
    store = LocalStore(lake, durable=False)
    catalog = Catalog(store)
    catalog.create_dataset(DatasetName("p", "d"))
    create_table(catalog, PLAIN)
    engine = engine_on(store, lake / "ingest-state")
    yield engine
    engine.close()


def append(engine: Engine, kind: StreamType, count: int) -> str:
    stream = engine.create_stream(PLAIN, kind)
    stream.append(rows(range(count)), 0).result()
    return stream.id


def test_streams_of_each_type_are_listed_with_what_is_staged_and_what_is_visible(
    run: Run, engine: Engine
) -> None:
    committed = append(engine, StreamType.COMMITTED, 3)
    pending = append(engine, StreamType.PENDING, 4)
    buffered = append(engine, StreamType.BUFFERED, 5)
    stream = next(stream for stream in engine.streams() if stream.id == buffered)
    engine.flush(stream.name, 1)
    found = {line["id"]: line for line in run("ls", "--streams", "--json").json}
    shown = {id: (line["type"], line["state"], line["rows"], line["visible"]) for id, line in found.items()}
    assert shown == {
        committed: ("COMMITTED", "open", 3, 3),
        pending: ("PENDING", "open", 4, 0),
        buffered: ("BUFFERED", "open", 5, 2),
    }
    assert {line["table"] for line in found.values()} == {DATASET}


def test_a_stream_is_finalized_and_then_committed(run: Run, engine: Engine) -> None:
    append(engine, StreamType.PENDING, 4)
    (stream,) = engine.streams()
    engine.finalize(stream.name)
    assert [line["state"] for line in run("ls", "--streams", "--json").json] == ["finalized"]
    engine.batch_commit(PLAIN, [stream.name])
    (line,) = run("ls", "--streams", "--json").json
    assert (line["state"], line["rows"], line["visible"]) == ("committed", 4, 4)


def test_streams_are_a_table_for_people_and_names_for_scripts(run: Run, engine: Engine) -> None:
    append(engine, StreamType.COMMITTED, 3)
    (stream,) = engine.streams()
    heading, line = run("ls", "-s").lines
    assert heading.split()[:4] == ["table", "stream", "type", "state"]
    assert line.split()[:6] == [DATASET, stream.id, "COMMITTED", "open", "3", "3"]
    assert run("ls", DATASET, "--streams", "--names").lines == [str(stream.name)]


def test_ls_says_that_there_are_streams(run: Run, engine: Engine) -> None:
    append(engine, StreamType.COMMITTED, 3)
    assert run("ls").lines[-1] == "and 1 write stream: see lode ls --streams"
    assert len(run("ls", "--json").lines) == 1


def test_without_its_state_a_stream_is_told_by_the_snapshots_alone(
    run: Run, engine: Engine, tmp_path: Path
) -> None:
    id = append(engine, StreamType.COMMITTED, 3)
    (line,) = run("ls", "--streams", "--state", str(tmp_path / "nowhere"), "--json").json
    assert (line["id"], line["type"], line["state"], line["visible"]) == (id, None, None, 3)


def test_looking_changes_nothing_in_the_state(run: Run, engine: Engine, lake: Path) -> None:
    append(engine, StreamType.PENDING, 4)
    files = [path for path in (lake / "ingest-state").rglob("*") if path.is_file()]
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
    run("ls", "--streams")
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files} == before


def test_a_record_that_is_cut_short_is_not_counted(run: Run, engine: Engine, lake: Path) -> None:
    append(engine, StreamType.PENDING, 4)
    (log,) = (lake / "ingest-state" / "streams").glob("*/*.log")
    log.write_bytes(log.read_bytes()[:-8])
    assert [line["rows"] for line in run("ls", "--streams", "--json").json] == [0]


@pytest.mark.usefixtures("visits")
def test_a_lake_without_a_server_has_no_streams(run: Run) -> None:
    assert run("ls", "--streams").out.startswith("no write streams in file://")
    assert run("ls", "--streams", "--json").out == ""
    assert run("ls", "nobody", "--streams").code == 3
