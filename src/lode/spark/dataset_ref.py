"""A reference to a dataset, for pipelines and jobs: its path, its id and options of ``format("lode")``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from lode.dataset import Dataset
from lode.errors import InvalidOptionError
from lode.spark.options import STORE_PREFIX, Options, dataset_of, exists, file_options
from lode.spark.read import read
from lode.spark.write import write
from lode.store.protocol import SupportsLocalPath
from lode.store.urls import shown

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from lode.read.incremental import OnRemoval
    from lode.snapshot import Snapshot
    from lode.store.protocol import Store


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DatasetRef:
    """A reference to a dataset: its store, its id, and the options of ``format("lode")``. Pickles.

    Args:
        path: The store, as a URL or a directory.
        dataset: The dataset's id.
        options: More of ``format("lode")``, such as ``partitionBy="day"`` or ``codec="jsonl"``; names with a
            dot go in a mapping: ``**{"store.endpoint": …}``.
    """

    path: str
    dataset: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __init__(self, path: str | os.PathLike[str], dataset: str, **options: Any) -> None:
        object.__setattr__(self, "path", str(path))
        object.__setattr__(self, "dataset", dataset)
        object.__setattr__(self, "options", {name: _text(value) for name, value in options.items()})

    def __repr__(self) -> str:
        # Options of the store may be secrets.
        hidden = {
            name: "…" if name.lower().startswith(STORE_PREFIX) else value
            for name, value in self.options.items()
        }
        return f"DatasetRef({shown(self.path)}, {self.dataset!r}, {hidden})"

    @property
    def given(self) -> dict[str, str]:
        """All of it, as options of ``format("lode")``."""
        return {**self.options, "path": self.path, "dataset": self.dataset}

    @property
    def store_options(self) -> dict[str, str]:
        """Only the options of the store."""
        return {name: value for name, value in self.options.items() if name.lower().startswith(STORE_PREFIX)}

    def without(self, names: Iterable[str]) -> DatasetRef:
        """The same reference without some options."""
        left_out = {name.lower() for name in names}
        return DatasetRef(
            self.path, self.dataset, **{k: v for k, v in self.options.items() if k.lower() not in left_out}
        )

    @property
    def exists(self) -> bool:
        """Whether the dataset has a snapshot now."""
        return exists(Options(self.given))

    def open(self) -> Dataset:
        """The dataset."""
        return dataset_of(Options(self.given))

    def read(
        self,
        spark: SparkSession,
        *,
        since: str | None = None,
        as_of: str | None = None,
        on_removal: OnRemoval = "fail",
        where: Column | None = None,
    ) -> DataFrame:
        """Read what came after ``since`` up to ``as_of``, both given by id."""
        return read(
            spark,
            self.path,
            self.dataset,
            since=since,
            as_of=as_of,
            on_removal=on_removal,
            where=where,
            options=self.options,
        )

    def write(
        self,
        frame: DataFrame,
        metadata: dict[str, Any],
        *,
        key: tuple[str, str],
        dataset: Dataset | None = None,
        before_commit: Callable[[], object] | None = None,
    ) -> Snapshot:
        """Append a DataFrame as one snapshot, once for each key."""
        options = Options(self.given)
        return write(
            dataset or self.open(),
            frame,
            metadata,
            idempotency_key=key,
            on_conflict="append",
            evolve=options.flag("mergeSchema"),
            before_commit=before_commit,
            **file_options(options),
        )


Where: TypeAlias = "DatasetRef | Dataset | Mapping[str, Any]"


def dataset_ref(where: Where) -> DatasetRef:
    """Return the reference that a mapping of options, or a dataset on a local disk, stands for."""
    if isinstance(where, DatasetRef):
        return where
    if not isinstance(where, Dataset):
        rest = {str(name): value for name, value in where.items()}
        missing = [name for name in ("path", "dataset") if not rest.get(name)]
        if missing:
            raise InvalidOptionError(
                f"a dataset needs 'path' and 'dataset', got {sorted(rest)}: add {missing[0]!r}"
            )
        return DatasetRef(str(rest.pop("path")), str(rest.pop("dataset")), **rest)
    if isinstance(where.store, SupportsLocalPath):
        return DatasetRef(where.store.url, where.id)
    raise InvalidOptionError(
        f"{where!r} has a store that was opened with options, which Spark's readers need too: give a "
        "lode.spark.DatasetRef with them instead"
    )


def opened(where: Where) -> Dataset:
    """Open the dataset that ``where`` refers to."""
    return where if isinstance(where, Dataset) else dataset_ref(where).open()


def is_same(one: Dataset, other: Dataset) -> bool:
    """Whether two objects are the same dataset, opened with whatever options."""
    return one.id == other.id and root_of(one.store) == root_of(other.store)


def root_of(store: Store) -> str:
    """Where a store is, in one spelling."""
    if isinstance(store, SupportsLocalPath):
        return str(store.local_path("datasets").parent.resolve())
    return store.url


def _text(value: Any) -> str:
    """Write a value of YAML or Python as the text of an option."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
