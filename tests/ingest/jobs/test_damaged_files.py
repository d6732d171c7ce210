"""Statements, changes and jobs of the server do not write the rows of a damaged file again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lode.errors import ChecksumMismatchError
from lode.ingest.jobs.origin import Origin
from lode.ingest.jobs.tables import parse_reference
from lode.ingest.names import TableName
from lode.store.memory import MemoryStore
from lode.upkeep.verify import verify
from support.ingest.changes import KEYED, create_keyed, decoded, delete, upsert
from support.ingest.engines import dataset_of, engine_on, refusal_of
from support.ingest.sql import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import lode
    from lode.ingest.core.engine import Engine

TABLE = TableName("p", "d", "t")


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    create_keyed(store)
    return store


@pytest.fixture(params=["small", "large"])
def engine(
    request: pytest.FixtureRequest, store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Engine]:
    if request.param == "large":
        monkeypatch.setattr("lode.read.small.MAX_SMALL_BYTES", 1)
    engine = engine_on(store, tmp_path / "state")
    run(engine, "CREATE TABLE d.t (n INT64, s STRING)")
    run(engine, "INSERT INTO d.t SELECT x, CAST(x AS STRING) FROM UNNEST(GENERATE_ARRAY(1, 50)) AS x")
    yield engine
    engine.close()


def damage(store: MemoryStore, dataset: lode.Dataset) -> tuple[str, bytes]:
    """Flip one bit of the footer: every page stays intact, and every row can be read."""
    path = dataset.plan().files[0].path
    whole = store.get(path)
    damaged = bytearray(whole)
    # The name of the writer in the footer: it changes no row.
    damaged[whole.rindex(b"parquet-cpp-arrow")] ^= 1
    store.delete(path)
    store.put(path, damaged)
    return path, whole


def repair(store: MemoryStore, path: str, whole: bytes) -> None:
    store.delete(path)
    store.put(path, whole)


def refused_by(call: Any) -> str:
    """The text of the refusal, whatever class carries it."""
    with pytest.raises(Exception) as refused:
        call()
    causes: list[BaseException | None] = [refused.value]
    while causes[-1] is not None:
        causes.append(causes[-1].__cause__ or causes[-1].__context__)
    assert any(isinstance(each, ChecksumMismatchError) for each in causes), causes
    return " ".join(map(str, causes))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE d.t SET s = 'new' WHERE n = 7",
        "UPDATE d.t SET s = 'new' WHERE n > 0",
        "DELETE FROM d.t WHERE n = 7",
        "DELETE FROM d.t WHERE MOD(n, 7) = 0",
        "MERGE d.t AS t USING (SELECT 7 AS n) AS o ON t.n = o.n WHEN MATCHED THEN UPDATE SET s = 'new'",
        "MERGE d.t AS t USING (SELECT 7 AS n) AS o ON t.n = o.n WHEN MATCHED THEN DELETE",
    ],
)
def test_a_statement_refuses_rows_of_a_damaged_file(
    engine: Engine, store: MemoryStore, statement: str
) -> None:
    dataset = dataset_of(store, TABLE)
    before = dataset.latest()
    path, whole = damage(store, dataset)
    assert path in refused_by(lambda: run(engine, statement))
    assert dataset.latest() == before
    assert [problem.kind for problem in verify(dataset).problems] == ["checksum"]
    repair(store, path, whole)
    run(engine, statement)
    assert dataset.latest() != before
    assert verify(dataset).ok


def test_changes_of_rows_refuse_a_damaged_file(engine: Engine, store: MemoryStore) -> None:
    definition = engine.catalog.table(KEYED)
    assert refusal_of(engine.append(KEYED, decoded(definition, [upsert(id, "a") for id in range(9)]))) is None
    dataset = dataset_of(store, KEYED)
    before = dataset.latest()
    path, whole = damage(store, dataset)
    refused = engine.append(KEYED, decoded(definition, [upsert(1, "b"), delete(2)])).exception(timeout=120)
    assert refused is not None
    assert dataset.latest() == before
    assert [problem.kind for problem in verify(dataset).problems] == ["checksum"]
    repair(store, path, whole)
    assert refusal_of(engine.append(KEYED, decoded(definition, [upsert(1, "b"), delete(2)]))) is None
    assert verify(dataset).ok


def test_a_copy_job_refuses_a_damaged_file(engine: Engine, store: MemoryStore) -> None:
    path, whole = damage(store, dataset_of(store, TABLE))
    source = parse_reference({"projectId": "p", "datasetId": "d", "tableId": "t"}, "p", "sourceTable")
    with pytest.raises(ChecksumMismatchError, match=path):
        list(Origin(engine, source).stored())
    repair(store, path, whole)
    assert sum(batch.num_rows for batch in Origin(engine, source).stored()) == 50
