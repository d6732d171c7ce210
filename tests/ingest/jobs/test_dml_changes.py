"""SQL beside changes of rows: a statement keeps their numbers, so a late change stays without effect."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lode.store.memory import MemoryStore
from support.ingest.changes import KEYED, Change, create_keyed, decoded, delete, names_in, upsert
from support.ingest.engines import dataset_of, engine_on, refusal_of
from support.ingest.sql import counts, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.core.engine import Engine


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    create_keyed(store)
    return store


@pytest.fixture
def engine(store: MemoryStore, tmp_path: Path) -> Iterator[Engine]:
    engine = engine_on(store, tmp_path / "state")
    yield engine
    engine.close()


def send(engine: Engine, *changes: Change) -> None:
    for each in changes:
        batch = decoded(engine.catalog.table(KEYED), [each])
        assert refusal_of(engine.append(KEYED, batch)) is None


def test_an_updated_row_keeps_the_number_of_its_last_change(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a", "5"), upsert(2, "b", "5"))
    assert counts(run(engine, "UPDATE d.keyed SET name = 'sql' WHERE id = 1")) == (0, 1, 0)
    send(engine, upsert(1, "late", "4"), upsert(2, "late", "4"))
    assert names_in(store) == {1: "sql", 2: "b"}
    send(engine, upsert(1, "new", "6"))
    assert names_in(store) == {1: "new", 2: "b"}


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM d.keyed WHERE id = 1",
        "DELETE FROM d.keyed WHERE LENGTH(name) = 1",
        "UPDATE d.keyed SET id = 7 WHERE id = 1",
        "MERGE d.keyed USING (SELECT 1 AS id) AS s ON keyed.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_a_late_change_brings_no_row_back_that_a_statement_removed(
    statement: str, engine: Engine, store: MemoryStore
) -> None:
    send(engine, upsert(1, "a", "5"))
    run(engine, statement)
    send(engine, upsert(1, "late", "4"))
    assert 1 not in names_in(store)
    send(engine, upsert(1, "new", "6"))
    assert names_in(store)[1] == "new"


def test_a_statement_that_fails_forgets_no_row(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a", "5"), upsert(2, "0", "5"))
    with pytest.raises(Exception, match=r"(?i)division by zero"):
        run(engine, "DELETE FROM d.keyed WHERE 1 / CAST(IF(name = 'a', '1', name) AS INT64) > 0")
    send(engine, upsert(1, "late", "4"))
    assert names_in(store) == {1: "a", 2: "0"}
    send(engine, upsert(1, "new", "5"))
    assert names_in(store) == {1: "new", 2: "0"}


def test_truncate_begins_anew(engine: Engine, store: MemoryStore) -> None:
    send(engine, upsert(1, "a", "5"))
    assert run(engine, "TRUNCATE TABLE d.keyed").deleted == 1
    send(engine, upsert(1, "b", "1"))
    assert names_in(store) == {1: "b"}


IDS = st.integers(1, 3)
NAMES = st.sampled_from("abc")
NUMBERS = st.none() | st.integers(1, 9).map(str)


class SqlMachine(RuleBasedStateMachine):
    """Changes of clients, statements and compactions in any order, compared with a dict."""

    @initialize()
    def start(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.store = MemoryStore()
        create_keyed(self.store)
        self.engine = engine_on(self.store, self.directory)
        # By id: the name and the number of a row; and the largest number with which a row was removed.
        self.rows: dict[int, tuple[str, str | None]] = {}
        self.removed: dict[int, str] = {}

    @rule(id=IDS, name=NAMES, number=NUMBERS)
    def upsert(self, id: int, name: str, number: str | None) -> None:
        send(self.engine, upsert(id, name, number))
        if number is not None:
            if number < self.removed.get(id, ""):
                return
            before = self.rows.get(id)
            if before is not None and number < (before[1] or ""):
                return
        self.rows[id] = (name, number)

    @rule(id=IDS, number=NUMBERS)
    def delete(self, id: int, number: str | None) -> None:
        send(self.engine, delete(id, number))
        before = self.rows.get(id)
        is_late = number is not None and number < self.removed.get(id, "")
        if number is not None:
            self._remember(id, number)
        if before is None or is_late or (number is not None and number < (before[1] or "")):
            return
        del self.rows[id]

    @rule(id=IDS, name=NAMES, simple=st.booleans())
    def sql_update(self, id: int, name: str, simple: bool) -> None:
        if simple:
            run(self.engine, f"UPDATE d.keyed SET name = '{name}' WHERE id = {id}")
        else:
            run(
                self.engine,
                f"""MERGE d.keyed AS t USING (SELECT {id} AS id, '{name}' AS name) AS s ON t.id = s.id
                WHEN MATCHED THEN UPDATE SET name = s.name
                WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)""",
            )
        if id in self.rows or not simple:
            self.rows[id] = (name, self.rows[id][1] if id in self.rows else None)

    @rule(id=IDS)
    def sql_delete(self, id: int) -> None:
        assert run(self.engine, f"DELETE FROM d.keyed WHERE id = {id}").deleted == (id in self.rows)
        self._sql_removed(id)

    @rule(id=IDS, other=IDS)
    def sql_move(self, id: int, other: int) -> None:
        if id in self.rows and other not in self.rows:
            run(self.engine, f"UPDATE d.keyed SET id = {other} WHERE id = {id}")
            self.rows[other] = (self.rows[id][0], None)
            self._sql_removed(id)

    @rule()
    def compact(self) -> None:
        dataset = dataset_of(self.store, KEYED)
        if dataset.exists:
            dataset.compact()

    def _sql_removed(self, id: int) -> None:
        found = self.rows.pop(id, None)
        if found is not None and found[1] is not None:
            self._remember(id, found[1])

    def _remember(self, id: int, number: str) -> None:
        self.removed[id] = max(self.removed.get(id, ""), number)

    @invariant()
    def the_table_is_the_model(self) -> None:
        if hasattr(self, "rows"):
            assert names_in(self.store) == {id: name for id, (name, _) in self.rows.items()}

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
            shutil.rmtree(self.directory, ignore_errors=True)


TestSqlBesideChanges = SqlMachine.TestCase
TestSqlBesideChanges.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
