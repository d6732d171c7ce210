"""The folder of a lake goes away under load, an empty one takes its place, and it comes back."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from google.api_core.exceptions import ServiceUnavailable
from google.cloud.bigquery_storage_v1 import types

import lode
from lode.errors import HistoryLostError, StoreError
from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.catalog.lake import Lake
from lode.ingest.core.engine import Engine
from lode.ingest.core.strategies import StreamType
from lode.ingest.settings import Settings
from lode.ingest.status import Code, Refused
from support.ingest.appending import arrow_request, batch_of
from support.ingest.engines import PLAIN, lake
from support.ingest.processes import ServerProcess
from support.stores import contents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATIENCE = 120.0


def batch_rows(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": list(range(count)), "text": ["x"] * count})


def post(url: str, body: Any) -> tuple[int, Any]:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urlopen(request, timeout=PATIENCE) as response:
            return response.status, json.load(response)
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def status_of(url: str) -> int:
    try:
        with urlopen(url, timeout=PATIENCE) as response:
            return int(response.status)
    except HTTPError as error:
        with error:
            return error.code


class Inserts:
    """Threads that insert one row after the other, each with its own number."""

    def __init__(self, url: str, threads: int = 4) -> None:
        self._url = url
        self._stop = threading.Event()
        self.acknowledged: list[int] = []
        self.refusals: Counter[int] = Counter()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(threads)]
        for thread in self._threads:
            thread.start()

    def _run(self, first: int) -> None:
        number = first
        while not self._stop.is_set():
            number += len(self._threads)
            row = {"json": {"id": number, "name": "x"}}
            status, answer = post(self._url, {"rows": [row]})
            if status == 200 and "insertErrors" not in answer:
                self.acknowledged.append(number)
            else:
                self.refusals[status] += 1

    def wait(self, until: Callable[[], bool]) -> None:
        give_up = time.monotonic() + PATIENCE
        while not until():
            assert time.monotonic() < give_up, (len(self.acknowledged), self.refusals)
            self._stop.wait(0.01)

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)


def test_every_row_that_was_acknowledged_is_there_once_when_the_lake_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    with ServerProcess(folder, "--state", str(tmp_path / "state")) as server:
        base = f"{server.http_url}/bigquery/v2/projects/p/datasets"
        of_dataset = {"projectId": "p", "datasetId": "d"}
        assert post(base, {"datasetReference": of_dataset})[0] == 200
        columns = [{"name": "id", "type": "INTEGER"}, {"name": "name", "type": "STRING"}]
        for table in ("rows", "staged"):
            described = {"tableReference": {**of_dataset, "tableId": table}, "schema": {"fields": columns}}
            assert post(f"{base}/d/tables", described)[0] == 200
        client = server.write_client()
        parent = "projects/p/datasets/d/tables/staged"
        stream = client.create_write_stream(
            parent=parent, write_stream=types.WriteStream(type_=types.WriteStream.Type.BUFFERED)
        ).name
        answers = list(client.append_rows(iter([arrow_request(stream, batch_of(range(10)), offset=0)])))
        assert answers[0].append_result.offset == 0
        inserts = Inserts(f"{base}/d/tables/rows/insertAll")
        try:
            inserts.wait(lambda: len(inserts.acknowledged) >= 20)
            folder.rename(tmp_path / "away")
            folder.mkdir()
            before = inserts.refusals.total()
            inserts.wait(lambda: inserts.refusals.total() >= before + 20)
            with pytest.raises(ServiceUnavailable):
                client.flush_rows(request={"write_stream": stream, "offset": 9}, retry=None, timeout=PATIENCE)
            inserts.wait(lambda: status_of(f"{server.http_url}/readyz") == 503)  # it is asked once a second
            assert list(folder.iterdir()) == []
            folder.rmdir()
            (tmp_path / "away").rename(folder)
            before = len(inserts.acknowledged)
            inserts.wait(lambda: len(inserts.acknowledged) >= before + 20)
        finally:
            inserts.end()
        assert set(inserts.refusals) == {503}
        client.flush_rows(request={"write_stream": stream, "offset": 9}, timeout=PATIENCE)
    found = Counter(lode.Dataset("p.d.rows", folder).scan(columns=["id"]).read_all()["id"].to_pylist())
    assert {number for number in inserts.acknowledged if found[number] != 1} == set()
    staged = lode.Dataset("p.d.staged", folder).scan(columns=["id"]).read_all()["id"].to_pylist()
    assert Counter(staged) == Counter(range(10))
    assert lode.verify(lode.Dataset("p.d.rows", folder)).ok


# -- a store that cannot tell -----------------------------------------------------------------------


class Emptied:
    """An engine on a store in memory whose objects are taken away, as of an emptied bucket."""

    def __init__(self, tmp_path: Path) -> None:
        self.store = lake()
        self.state = tmp_path / "state"
        self.engine = self.start()

    def start(self) -> Engine:
        opened = Lake(self.store)
        opened.open(self.state)
        settings = Settings(root=self.store, state=self.state)
        return Engine(self.store, self.state, settings, opened)

    def take_away(self) -> dict[str, bytes]:
        found = contents(self.store)
        for path in found:
            self.store.delete(path)
        return found

    def bring_back(self, objects: dict[str, bytes]) -> None:
        self.take_away()
        for path, data in objects.items():
            self.store.put(path, data)

    def rows(self) -> int:
        return lode.Dataset("p.d.plain", self.store).count()


@pytest.fixture
def emptied(tmp_path: Path) -> Any:
    made = Emptied(tmp_path)
    yield made
    made.engine.close()


def test_a_table_that_was_served_gets_no_second_first_snapshot(emptied: Emptied) -> None:
    engine, rows = emptied.engine, batch_rows(3)
    engine.append(PLAIN, rows).result()
    objects = emptied.take_away()
    for _ in range(3):
        with pytest.raises((Refused, StoreError)) as refused:
            engine.append(PLAIN, rows).result()
        assert getattr(refused.value, "code", Code.UNAVAILABLE) is Code.UNAVAILABLE
    assert not [path for path in contents(emptied.store) if path.endswith(("/latest", "/manifest.json"))]
    emptied.bring_back(objects)
    engine.append(PLAIN, rows).result()
    assert emptied.rows() == 6


def test_a_table_without_rows_gets_no_first_snapshot_while_the_lake_is_away(emptied: Emptied) -> None:
    engine = emptied.engine
    definition = engine.catalog.table(PLAIN)
    writer = engine.writer(definition)
    emptied.take_away()
    with pytest.raises(Refused) as refused:
        writer.commit(lambda *_: None, {})
    assert refused.value.code is Code.UNAVAILABLE
    assert "the lake is missing" in str(refused.value)
    assert not emptied.store.exists("datasets/p.d.plain/latest")


def test_a_writer_that_opened_its_dataset_again_still_knows_that_it_had_snapshots(emptied: Emptied) -> None:
    engine = emptied.engine
    engine.append(PLAIN, batch_rows(1)).result()
    writer = engine.writer(engine.catalog.table(PLAIN))
    marker = emptied.store.get("catalog/lake.json")
    writer._opened = None  # as after another program renamed a column
    emptied.take_away()
    emptied.store.put("catalog/lake.json", marker)  # only the dataset is gone
    with pytest.raises(Refused, match="bring the lake back") as refused:
        writer.commit(lambda *_: None, {})
    assert isinstance(refused.value.__cause__, HistoryLostError)


def test_nothing_is_said_to_be_missing_while_the_lake_is_away(emptied: Emptied) -> None:
    catalog = emptied.engine.catalog
    emptied.take_away()
    asked: list[Callable[[], object]] = [
        lambda: catalog.table(PLAIN, fresh=True),
        lambda: catalog.list_datasets("p"),
        lambda: catalog.list_tables(DatasetName("p", "d")),
        catalog.list_projects,
        lambda: catalog.create_dataset(DatasetName("p", "new")),
    ]
    for ask in asked:
        with pytest.raises(StoreError, match="the lake is missing"):
            ask()
    assert list(emptied.store.list()) == []


def test_no_stream_is_removed_while_the_lake_is_away(emptied: Emptied) -> None:
    engine = emptied.engine
    stream = engine.create_stream(PLAIN, StreamType.BUFFERED)
    stream.append(batch_rows(5), 0).result()
    objects = emptied.take_away()
    stream.last_used -= 10 * engine.settings.stream_ttl
    assert engine.expire() == 0
    emptied.bring_back(objects)
    assert engine.expire() == 0
    engine.flush(stream.name, 4)
    assert emptied.rows() == 5


def test_a_server_does_not_start_on_an_empty_lake_with_the_state_of_another(emptied: Emptied) -> None:
    engine = emptied.engine
    stream = engine.create_stream(PLAIN, StreamType.BUFFERED)
    stream.append(batch_rows(5), 0).result()
    engine.close()
    objects = emptied.take_away()
    with pytest.raises(lode.InvalidOptionError, match="emptied or is not mounted: bring it back"):
        emptied.start()
    opened = Lake(emptied.store)
    opened._content = objects["catalog/lake.json"]
    settings = Settings(root=emptied.store, state=emptied.state)
    with pytest.raises(StoreError, match="the lake is missing"):  # it went away just after it was opened
        Engine(emptied.store, emptied.state, settings, opened)
    emptied.bring_back(objects)
    emptied.engine = emptied.start()
    emptied.engine.flush(stream.name, 4)
    assert emptied.rows() == 5


def test_a_definition_that_was_seen_and_is_missing_is_no_deleted_table() -> None:
    store = lake()
    catalog = Catalog(store, max_age=-1)
    catalog.table(PLAIN)
    for path in contents(store):
        store.delete(path)
    with pytest.raises(StoreError, match="was there and is missing"):
        catalog.table(PLAIN)
