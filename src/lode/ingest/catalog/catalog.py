"""The catalog: the datasets and tables of a lake, as objects on its store.

``catalog/<project>/<dataset>/dataset.json`` and ``catalog/<project>/<dataset>/tables/<table>.json`` are
changed only by compare-and-swap, so servers on one store agree without knowing of each other. A deleted
dataset or table leaves a tombstone with its generation. Deleting a dataset with its tables is one swap: a
table records the generation of its dataset, and is deleted with it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import msgspec

from lode.ingest.catalog.dataset import DatasetDefinition, DatasetName, DeletedDataset
from lode.ingest.catalog.expiry import check_expiry, with_default_expiry, without_expiry
from lode.ingest.catalog.objects import Objects
from lode.ingest.catalog.partitioning import Partitioning, check_partitioning
from lode.ingest.catalog.paths import (
    ROOT,
    check_table_name,
    dataset_of,
    dataset_path,
    display_name,
    no_dataset,
    no_table,
    table_path,
    tables_prefix,
)
from lode.ingest.catalog.table import DeletedTable, TableDefinition
from lode.ingest.names import TableName, escaped
from lode.ingest.status import Code, Refused, invalid
from lode.ingest.types.check import check_evolution, check_schema
from lode.read.names import folders_below
from lode.runtime import REAL, Runtime
from lode.store.open import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from lode.ingest.types.columns import TableSchema
    from lode.store.protocol import Store


T = TypeVar("T")


class DatasetInUse(Refused):
    """The dataset still has tables."""


class Catalog:
    """Datasets and tables on one store. Thread-safe, and safe for any number of servers on the store.

    Args:
        store: A URL, a path or a store that can compare and swap.
        location: The location of datasets that are created without one.
        max_age: How many seconds a cached definition is valid; changes by this process are always visible
            at once.
        confirm: Raises if the store is not that of this lake, before anything counts as missing.
        runtime: Clock, randomness and threads.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Store,
        *,
        location: str = "US",
        max_age: float = 1.0,
        confirm: Callable[[], None] = lambda: None,
        runtime: Runtime = REAL,
    ) -> None:
        self._store = open_store(store)
        self._location = location
        self._confirm = confirm
        self._runtime = runtime
        self._datasets: Objects[DatasetDefinition | DeletedDataset] = Objects(
            self._store,
            DatasetDefinition | DeletedDataset,
            confirm=confirm,
            max_age=max_age,
            runtime=runtime,
        )
        self._tables: Objects[TableDefinition | DeletedTable] = Objects(
            self._store,
            TableDefinition | DeletedTable,
            check=_check_table,
            confirm=confirm,
            max_age=max_age,
            runtime=runtime,
        )

    @property
    def store(self) -> Store:
        return self._store

    @property
    def location(self) -> str:
        """The location of datasets that are created without one."""
        return self._location

    def location_of(self, name: TableName | DatasetName) -> str:
        """The location of a dataset, or of a table's dataset."""
        return self.dataset(DatasetName(name.project, name.dataset)).location

    # -- tables --------------------------------------------------------------------------------

    def table(self, name: TableName, *, fresh: bool = False) -> TableDefinition:
        """The table's definition, at most ``max_age`` seconds old; ``fresh`` bypasses the cache."""
        record = self._tables.read(table_path(name), fresh=fresh)
        if isinstance(record, TableDefinition):
            dataset = self._datasets.read(dataset_path(dataset_of(name)), fresh=fresh)
            if self._holds(dataset, record):
                return record
        raise no_table(name)

    def is_known_deleted(self, name: TableName, generation: int) -> bool:
        """Whether this process knows that the table was deleted. Does not read the store."""
        record = self._tables.recent(table_path(name))
        if isinstance(record, DeletedTable) or (record is not None and record.generation > generation):
            return True
        dataset = self._datasets.recent(dataset_path(dataset_of(name)))
        return record is not None and dataset is not None and not self._holds(dataset, record)

    def create_table(
        self,
        name: TableName,
        schema: TableSchema,
        *,
        partitioning: Partitioning | None = None,
        info: dict[str, Any] | None = None,
    ) -> TableDefinition:
        """Create a table, or refuse it with ALREADY_EXISTS."""
        created = self._tables.change(table_path(name), self._creation(name, schema, partitioning, info))
        self._count_table(created)
        return created

    def draft_table(
        self,
        name: TableName,
        schema: TableSchema,
        *,
        partitioning: Partitioning | None = None,
        info: dict[str, Any] | None = None,
        apart: bool = False,
    ) -> TableDefinition:
        """What ``create_table`` would create now. Nothing is stored.

        With ``apart`` its rows are in a dataset that only this draft names, and ``publish_table`` stores it
        when they are written.
        """
        create = self._creation(name, schema, partitioning, info, apart=apart)
        return create(self._tables.read(table_path(name), fresh=True))

    def reserve_table(self, wanted: TableDefinition) -> None:
        """Reserve the dataset of a draft: any other table of this name has another generation.

        Raises:
            Refused: FAILED_PRECONDITION if a table of that name was created, or its dataset deleted, since.
        """

        def reserve(found: TableDefinition | DeletedTable | None) -> DeletedTable:
            self._check_next(found, wanted)
            return DeletedTable(
                name=wanted.name,
                version=1 if found is None else found.version + 1,
                generation=wanted.generation,
                deleted_ms=self._now_ms(),
                etag=wanted.etag,
            )

        self._tables.change(table_path(wanted.name), reserve)

    def publish_table(self, wanted: TableDefinition) -> TableDefinition:
        """Store a draft of a table with its rows, in one step; the errors are those of ``reserve_table``."""

        def create(found: TableDefinition | DeletedTable | None) -> TableDefinition:
            self._check_next(found, wanted)
            return wanted

        created = self._tables.change(table_path(wanted.name), create)
        self._count_table(created)
        return created

    def draft_replacement(
        self,
        current: TableDefinition,
        schema: TableSchema,
        *,
        partitioning: Partitioning | None = None,
        info: dict[str, Any] | None = None,
    ) -> TableDefinition:
        """The next generation of a table, which ``replace_table`` stores when its rows are written."""
        create = self._creation(current.name, schema, partitioning, info, replaces=True, apart=True)
        return create(current)

    def replace_table(self, current: TableDefinition, wanted: TableDefinition) -> TableDefinition:
        """Put the draft of a replacement in the place of a table, in one step.

        Raises:
            Refused: FAILED_PRECONDITION if the table was changed since, NOT_FOUND if it was deleted.
        """

        def swap(found: TableDefinition | DeletedTable | None) -> TableDefinition:
            now = self._current(current.name, found, current.etag)
            return msgspec.structs.replace(
                wanted, version=now.version + 1, modified_ms=self._now_ms(), etag=self._etag()
            )

        return self._tables.change(table_path(current.name), swap)

    def _creation(
        self,
        name: TableName,
        schema: TableSchema,
        partitioning: Partitioning | None,
        info: dict[str, Any] | None,
        *,
        replaces: bool = False,
        apart: bool = False,
    ) -> Callable[[TableDefinition | DeletedTable | None], TableDefinition]:
        check_table_name(name)
        check_schema(schema)
        checked = None if partitioning is None else check_partitioning(partitioning, schema)

        def create(current: TableDefinition | DeletedTable | None) -> TableDefinition:
            # Read after the table: with an older dataset definition, a table of the next generation would
            # look deleted.
            dataset = self.dataset(dataset_of(name), fresh=True)
            if isinstance(current, TableDefinition) and self._holds(dataset, current) and not replaces:
                raise Refused(Code.ALREADY_EXISTS, f"Already Exists: Table {display_name(name)}")
            now = self._now_ms()
            check_expiry(info or {}, now)
            expiring, expires = with_default_expiry(checked, info or {}, dataset.info, now)
            return TableDefinition(
                name=name,
                schema=schema,
                partitioning=expiring,
                info=expires,
                generation=1 if current is None else current.generation + 1,
                storage=self._etag()[:8] if apart else "",
                dataset_generation=dataset.generation,
                created_ms=now,
                modified_ms=now,
                etag=self._etag(),
            )

        return create

    def update_table(
        self,
        name: TableName,
        change: Callable[[TableDefinition], TableDefinition],
        *,
        etag: str | None = None,
        replace_schema: bool = False,
    ) -> TableDefinition:
        """Change a table's schema or its info.

        Args:
            name: The table.
            change: Makes the new definition of the current one; called again after a conflict.
            etag: Refuse with FAILED_PRECONDITION if the table has another etag.
            replace_schema: Allow any new schema, for a table whose rows were all replaced.
        """

        def update(found: TableDefinition | DeletedTable | None) -> TableDefinition:
            current = self._current(name, found, etag)
            wanted = change(current)
            if without_expiry(wanted.partitioning) != without_expiry(current.partitioning):
                raise invalid(
                    f"The partitioning of {display_name(name)} cannot change: create another table."
                )
            if wanted.expires_ms != current.expires_ms:
                check_expiry(wanted.info, self._now_ms())
            if wanted.schema != current.schema:
                check_schema(wanted.schema)
                if not replace_schema:
                    check_evolution(current.schema, wanted.schema)
            return msgspec.structs.replace(
                current,
                schema=wanted.schema,
                partitioning=wanted.partitioning,
                info=wanted.info,
                version=current.version + 1,
                modified_ms=self._now_ms(),
                etag=self._etag(),
            )

        return self._tables.change(table_path(name), update)

    def rename_table(self, name: TableName, wanted: TableName) -> TableDefinition:
        """Give a table another name in its dataset. Its rows and snapshots stay where they are.

        The table has both names for a moment, also if the server ends there: the same call then removes
        the first one.
        """
        renamed = self.table(name, fresh=True)

        def create(found: TableDefinition | DeletedTable | None) -> TableDefinition:
            is_there = isinstance(found, TableDefinition) and self._holds(
                self.dataset(dataset_of(wanted), fresh=True), found
            )
            if isinstance(found, TableDefinition) and is_there:
                if found.dataset_id == renamed.dataset_id:
                    return found
                raise Refused(Code.ALREADY_EXISTS, f"Already Exists: Table {display_name(wanted)}")
            return msgspec.structs.replace(
                renamed,
                name=wanted,
                generation=1 if found is None else found.generation + 1,
                rows_in=renamed.dataset_id,
                modified_ms=self._now_ms(),
                etag=self._etag(),
            )

        check_table_name(wanted)
        created = self._tables.change(table_path(wanted), create)
        self._count_table(created)
        try:
            self.delete_table(name, etag=renamed.etag)
        except Refused:
            self.delete_table(wanted, etag=created.etag)  # changed meanwhile: the change must not be lost
            raise
        return created

    def delete_table(self, name: TableName, *, etag: str | None = None) -> None:
        """Delete a table; its snapshots stay on the store, and the library can still read them."""

        def delete(found: TableDefinition | DeletedTable | None) -> DeletedTable:
            current = self._current(name, found, etag)
            return DeletedTable(
                name=name,
                version=current.version + 1,
                generation=current.generation,
                deleted_ms=self._now_ms(),
                etag=self._etag(),
            )

        self._tables.change(table_path(name), delete)

    def list_tables(
        self, name: DatasetName, *, after: str = "", limit: int | None = None
    ) -> list[TableDefinition]:
        """The tables of a dataset in the order of their paths, starting after the table ``after``."""
        dataset = self.dataset(name, fresh=True)
        start = table_path(TableName(*name, after)) if after else ""
        paths = (info.path for info in self._store.list(tables_prefix(name), after=start))
        found = (
            record
            for record in self._tables.each(paths)
            if isinstance(record, TableDefinition) and self._holds(dataset, record)
        )
        return self._listed(list(islice(found, limit)))

    # -- datasets ------------------------------------------------------------------------------

    def dataset(self, name: DatasetName, *, fresh: bool = False) -> DatasetDefinition:
        """The dataset's definition, at most ``max_age`` seconds old; ``fresh`` bypasses the cache."""
        record = self._datasets.read(dataset_path(name), fresh=fresh)
        if not isinstance(record, DatasetDefinition):
            raise no_dataset(name)
        return record

    def create_dataset(
        self, name: DatasetName, *, location: str = "", info: dict[str, Any] | None = None
    ) -> DatasetDefinition:
        """Create a dataset, or refuse it with ALREADY_EXISTS."""
        check_table_name(TableName(*name, "t"))

        def create(current: DatasetDefinition | DeletedDataset | None) -> DatasetDefinition:
            if isinstance(current, DatasetDefinition):
                raise Refused(Code.ALREADY_EXISTS, f"Already Exists: Dataset {name.project}:{name.dataset}")
            now = self._now_ms()
            return DatasetDefinition(
                name=name,
                location=location or self._location,
                info=info or {},
                generation=1 if current is None else current.generation + 1,
                created_ms=now,
                modified_ms=now,
                etag=self._etag(),
                nonce=self._etag(),
            )

        return self._datasets.change(dataset_path(name), create)

    def update_dataset(
        self,
        name: DatasetName,
        change: Callable[[DatasetDefinition], DatasetDefinition],
        *,
        etag: str | None = None,
    ) -> DatasetDefinition:
        """Change a dataset's info or routines; the arguments are those of ``update_table``."""

        def update(current: DatasetDefinition | DeletedDataset | None) -> DatasetDefinition:
            if not isinstance(current, DatasetDefinition):
                raise no_dataset(name)
            _check_etag(current.etag, etag)
            wanted = change(current)
            if wanted.location != current.location:
                raise invalid(f"The location of dataset {name.project}:{name.dataset} cannot change.")
            return msgspec.structs.replace(
                current,
                info=wanted.info,
                routines=wanted.routines,
                routine_info=wanted.routine_info,
                version=current.version + 1,
                modified_ms=self._now_ms(),
                etag=self._etag(),
                nonce=self._etag(),
            )

        return self._datasets.change(dataset_path(name), update)

    def delete_dataset(
        self, name: DatasetName, *, delete_contents: bool = False, etag: str | None = None
    ) -> None:
        """Delete a dataset, with ``delete_contents`` also its tables; snapshots stay on the store."""

        def delete(current: DatasetDefinition | DeletedDataset | None) -> DeletedDataset:
            if not isinstance(current, DatasetDefinition):
                raise no_dataset(name)
            _check_etag(current.etag, etag)
            # A table that is created after this listing changes the dataset's counter, and the swap fails.
            if not delete_contents and self.list_tables(name, limit=1):
                raise DatasetInUse(
                    Code.INVALID_ARGUMENT,
                    f"Dataset {name.project}:{name.dataset} is still in use: delete its tables first, or ask "
                    "for deleteContents.",
                )
            return DeletedDataset(
                name=name, generation=current.generation, deleted_ms=self._now_ms(), etag=self._etag()
            )

        self._datasets.change(dataset_path(name), delete)

    def list_datasets(
        self, project: str, *, after: str = "", limit: int | None = None, hidden: bool = True
    ) -> list[DatasetDefinition]:
        """The datasets of a project in the order of their paths, starting after the dataset ``after``.

        Those that begin with ``_``, such as the one with results of queries, are ``hidden``.
        """
        prefix = f"{ROOT}{escaped(project)}/"
        start = f"{prefix}{escaped(after)}0" if after else ""
        found_below = filter(None, folders_below(self._store, prefix, after=start))
        folders = (each for each in found_below if hidden or not each.startswith("_"))
        paths = (f"{prefix}{folder}/dataset.json" for folder in folders)
        found = (each for each in self._datasets.each(paths) if isinstance(each, DatasetDefinition))
        return self._listed(list(islice(found, limit)))

    def list_projects(self) -> list[str]:
        """The projects that have, or had, a dataset."""
        return self._listed([unquote(folder) for folder in folders_below(self._store, ROOT) if folder])

    # -- internals -----------------------------------------------------------------------------

    def _listed(self, found: list[T]) -> list[T]:
        """What a listing has found. If that is nothing, the lake may only be away."""
        if not found:
            self._confirm()
        return found

    def _current(
        self, name: TableName, found: TableDefinition | DeletedTable | None, etag: str | None
    ) -> TableDefinition:
        dataset = self.dataset(dataset_of(name), fresh=True)
        if not isinstance(found, TableDefinition) or not self._holds(dataset, found):
            raise no_table(name)
        _check_etag(found.etag, etag)
        return found

    def _check_next(self, found: TableDefinition | DeletedTable | None, wanted: TableDefinition) -> None:
        """Refuse a draft that is not the next table of its name any more."""
        dataset = self.dataset(dataset_of(wanted.name), fresh=True)
        generation = 1 if found is None else found.generation + 1
        if isinstance(found, DeletedTable) and found.etag == wanted.etag:
            generation = found.generation  # reserved for it
        if (generation, dataset.generation) != (wanted.generation, wanted.dataset_generation):
            raise Refused(Code.FAILED_PRECONDITION, f"{display_name(wanted.name)} was created meanwhile.")

    def _count_table(self, table: TableDefinition) -> None:
        """Change the dataset's counter, so that a concurrent deletion of the empty dataset fails."""
        name = dataset_of(table.name)

        def count(current: DatasetDefinition | DeletedDataset | None) -> DatasetDefinition:
            if not isinstance(current, DatasetDefinition) or not self._holds(current, table):
                raise no_dataset(name)
            return msgspec.structs.replace(
                current, tables_created=current.tables_created + 1, nonce=self._etag()
            )

        self._datasets.change(dataset_path(name), count)

    def _holds(self, dataset: DatasetDefinition | DeletedDataset | None, table: TableDefinition) -> bool:
        """Whether a table is there: its dataset was not deleted since, and the table has not expired."""
        if not isinstance(dataset, DatasetDefinition) or dataset.generation != table.dataset_generation:
            return False
        return table.expires_ms is None or table.expires_ms > self._now_ms()

    def _now_ms(self) -> int:
        return self._runtime.now_ns() // 1_000_000

    def _etag(self) -> str:
        return f"{self._runtime.random_bits(64):016x}"


def _check_table(record: TableDefinition | DeletedTable) -> None:
    """Raise if the columns of a table are not valid."""
    if isinstance(record, TableDefinition) and record.partitioning is not None and record.partitioning.column:
        record.arrow.field(record.partitioning.column)
    elif isinstance(record, TableDefinition):
        record.arrow  # noqa: B018, computed and cached here


def _check_etag(current: str, wanted: str | None) -> None:
    if wanted is not None and wanted != current:
        raise Refused(
            Code.FAILED_PRECONDITION,
            f"Precondition check failed: its etag is {current}, not {wanted}. Get it again, then change it.",
        )
