"""What the statements of one query share: names, the database, and what each of them answers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from sqlglot import exp

from lode.ingest.jobs.sql.job_rows import VIEWS as JOB_VIEWS
from lode.ingest.jobs.sql.names import CatalogTables
from lode.ingest.jobs.sql.routines import routine_rows
from lode.sql.database import Database
from lode.sql.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.jobs.sql.host import Host
    from lode.sql.database import Limits


class Context:
    """One query on the tables of a server. Use it in ``with``: leaving ends its database.

    Args:
        host: The server.
        project: The project of names without one.
        dataset: The dataset of names without one.
        key: The idempotency key of what it writes.
        limits: What it may use.
        cancelled: Whether it was asked to stop.
        open_database: Opens the database that computes it.
    """

    def __init__(
        self,
        host: Host,
        project: str,
        dataset: str | None,
        *,
        key: tuple[str, str],
        limits: Limits,
        cancelled: Callable[[], bool] = lambda: False,
        open_database: Callable[[Limits], Database] = Database,
    ) -> None:
        self.host = host
        self.names = CatalogTables(host.catalog, project, dataset)
        self.names.views["ROUTINES"] = partial(routine_rows, host.catalog)
        self.names.views |= dict.fromkeys(
            JOB_VIEWS, lambda own, dataset: host.job_rows(own) if dataset is None else None
        )
        self.sql = Engine(self.names, limits, cancelled, open_database=open_database)
        self.sql.stored = self.names.function
        self._key = key
        self.number = 0

    def __enter__(self) -> Self:
        self.sql.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self.sql.__exit__(*details)

    def evaluate(self, value: exp.Expression, kind: str) -> Any:
        """The value of an expression of a statement, cast to a type."""
        return self.sql.value(exp.cast(value.copy(), kind, dialect="bigquery"))[1]

    @property
    def key(self) -> tuple[str, str]:
        """The key of the statement that runs: a job may have several."""
        return self._key if self.number <= 1 else (self._key[0], f"{self._key[1]}#{self.number}")
