"""Datasets as temporary views of a session, for SQL.

A temporary view of Spark keeps the plan it was made with, and with it the snapshot. So views are registered
again to read newer snapshots, when the caller says so.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lode.dataset import Dataset
from lode.errors import DataError, InvalidOptionError, NoManifestsError, NotFoundError
from lode.near import did_you_mean
from lode.reader import DatasetReader
from lode.spark.options import Options, store_options
from lode.spark.read import read
from lode.spark.schema import known_schema
from lode.spark.write import quoted
from lode.store.open import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from lode.reads import SnapshotRef

logger = logging.getLogger("lode.spark")


def attach(
    spark: SparkSession,
    url: str | os.PathLike[str],
    *,
    datasets: Iterable[str] | None = None,
    prefix: str = "",
    options: Mapping[str, str] | None = None,
) -> AttachedLake:
    """Register the datasets of a store as temporary views, each on its newest snapshot.

    A view has the name of its dataset. Datasets without columns, such as blobs, have none.

    Args:
        spark: The session.
        url: The store.
        datasets: Only these. Default: all, also those that are created before a ``refresh``.
        prefix: Begins the name of every view.
        options: Options of ``format("lode")`` for all of them, such as ``{"store.endpoint": …}``.

    Raises:
        NotFoundError: There is no dataset of a given name.
    """
    lake = AttachedLake(spark, str(url), None if datasets is None else tuple(datasets), prefix, options or {})
    lake.refresh()
    return lake


class AttachedLake:
    """The datasets of a store as views of a session: the result of ``attach``."""

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        datasets: tuple[str, ...] | None,
        prefix: str,
        options: Mapping[str, str],
    ) -> None:
        self._spark = spark
        self._url = url
        self._datasets = datasets
        self._prefix = prefix
        self._options = dict(options)
        self._store = open_store(url, **store_options(Options(options)))
        self._at: dict[str, str] = {}

    @property
    def snapshots(self) -> dict[str, str]:
        """The snapshot that each view reads, by the name of its dataset."""
        return dict(self._at)

    def refresh(self) -> list[str]:
        """Let every view read the newest snapshot of its dataset, and return the names of those that changed.

        Views of new datasets are added, those of dropped ones removed. DataFrames that were made from a view
        stay at the snapshot they were made at.
        """
        there = self._there()
        for name in [name for name in self._at if name not in there]:
            self._remove(name)
        return [name for name in there if self._register(name)]

    def read(
        self, dataset: str, *, as_of: SnapshotRef | None = None, since: SnapshotRef | None = None
    ) -> DataFrame:
        """A dataset at another point of its history.

        Args:
            dataset: Its name.
            as_of: Up to this snapshot; None is the newest.
            since: Leave out this snapshot and everything before it.
        """
        return read(self._spark, self._url, dataset, as_of=as_of, since=since, options=self._options)

    def view(self, name: str, dataset: str, *, as_of: SnapshotRef) -> None:
        """Register a view on a dataset at a point of its history, which ``refresh`` leaves alone.

        Args:
            name: The name of the view.
            dataset: The name of the dataset.
            as_of: The snapshot, or a time.
        """
        if name.removeprefix(self._prefix) in self._at:
            raise InvalidOptionError(
                f"view {name!r} reads the newest snapshot of a dataset: choose another name"
            )
        self.read(dataset, as_of=as_of).createOrReplaceTempView(quoted(name))

    def detach(self) -> None:
        """Remove the views."""
        for name in list(self._at):
            self._remove(name)

    def _there(self) -> list[str]:
        try:
            there = DatasetReader(self._store).list_datasets()
        except NoManifestsError:
            there = []
        if self._datasets is None:
            return there
        for name in self._datasets:
            if name not in there:
                hint = did_you_mean(name, there) or "check its name, or write it first"
                raise NotFoundError(f"no dataset {name!r} in {self._store.url}: {hint}")
        return list(self._datasets)

    def _register(self, name: str) -> bool:
        """Make or replace a view; False if it is as it was, or cannot be."""
        dataset = Dataset(name, self._store)
        try:
            newest = next(dataset.history(), None)
            if newest is None or newest.id == self._at.get(name):
                return False
            if dataset.definition.codec is None or known_schema(dataset.plan(as_of=newest)) is None:
                return False
        except DataError as error:
            logger.warning("dataset %r has no view: %s", name, error)
            return False
        self.read(name, as_of=newest).createOrReplaceTempView(quoted(self._prefix + name))
        self._at[name] = newest.id
        return True

    def _remove(self, name: str) -> None:
        del self._at[name]
        self._spark.catalog.dropTempView(self._prefix + name)  # a name, not SQL
