"""The dataset a command writes to: what it is, if it is there, else what the command line makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.codec.arrow import ArrowIPC
from lode.codec.jsonl import JSONL
from lode.codec.parquet import Parquet
from lode.codec.schema import to_schema
from lode.dataset import Dataset
from lode.errors import InvalidOptionError
from lode.format.paths import DefaultLayout, HiveLayout
from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lode.cli.intake import Intake
    from lode.codec.protocol import Codec
    from lode.format.paths import Layout
    from lode.store.protocol import Store
    from lode.write.retry import Retry

BLOB: Final = "blob"


@dataclass(frozen=True, slots=True)
class Target:
    """How a dataset is to be opened for writing. ``known`` are the columns it has, if that is known."""

    store: Store
    dataset: str
    codec: str | None
    layout: Layout
    compressor: str
    checksum: str | None
    known: pa.Schema | None
    declared: bool

    @staticmethod
    def of(
        store: Store,
        dataset: str,
        *,
        codec: str | None = None,
        partition_by: str | None = None,
        compressor: str | None = None,
        checksum: str | None = None,
        schema: str | None = None,
    ) -> Target:
        """Bring together what is stored and what the options say; they may not contradict each other."""
        found = Dataset(dataset, store)
        keys = tuple(key.strip() for key in partition_by.split(",")) if partition_by is not None else None
        declared = None if schema is None else _declared(schema)
        if not found.exists:
            name = None if codec == BLOB else codec or "parquet"
            layout: Layout = HiveLayout(*keys) if keys else DefaultLayout()
            return Target(
                store, dataset, name, layout, compressor or "noop", checksum, declared, schema is not None
            )
        stored = found.definition
        _agree("--codec", codec, stored.codec or BLOB, dataset)
        _agree("--partition-by", ",".join(keys) if keys else None, ",".join(stored.keys), dataset)
        _agree("--compressor", compressor, stored.compressor, dataset)
        return Target(
            store,
            dataset,
            stored.codec,
            found.layout,
            stored.compressor,
            checksum or stored.checksum,
            declared if declared is not None else stored.schema,
            schema is not None,
        )

    def schema_for(self, intakes: Sequence[Intake]) -> pa.Schema | None:
        """The columns to write: those said or there already, and new ones of the files behind them.

        JSON needs none, and keeps records as they are.
        """
        if self.declared or self.codec == "jsonl":
            return self.known if self.declared else None
        columns = {field.name: field for field in (self.known or ())}
        for intake in intakes:
            for field in intake.schema():
                columns.setdefault(field.name, field)
        return pa.schema(list(columns.values()))

    def open(
        self,
        schema: pa.Schema | None = None,
        *,
        retry: Retry | None = None,
        timestamp_column: str | None = None,
    ) -> Dataset:
        return Dataset(
            self.dataset,
            self.store,
            codec=_codec(self.codec, schema),
            layout=self.layout,
            compressor=self.compressor,
            checksum=self.checksum,
            retry=retry,
            timestamp_column=timestamp_column,
        )


def _codec(name: str | None, schema: pa.Schema | None) -> Codec | None:
    match name:
        case None:
            return None
        case "parquet":
            return Parquet(schema)
        case "arrow":
            return ArrowIPC(schema)
        case "jsonl":
            return JSONL(schema)
    raise InvalidOptionError(
        f"the dataset has the codec {name!r}, which only the program that brought it can write"
    )


def _agree(option: str, said: str | None, stored: str, dataset: str) -> None:
    if said is not None and said != stored:
        raise InvalidOptionError(
            f"{option} is {said!r}, but dataset {dataset!r} has {stored!r}: leave the option out"
        )


def _declared(schema: str) -> pa.Schema:
    try:
        return to_schema(msgspec.json.decode(schema, type=dict[str, Any]))
    except msgspec.MsgspecError as error:
        raise InvalidOptionError(f"--schema is not a JSON object of columns: {error}") from None
