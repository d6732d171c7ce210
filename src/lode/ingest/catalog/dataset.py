"""What a BigQuery dataset is here: a name for tables to be in, and what people say about it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class DatasetName(NamedTuple):
    """``projects/{project}/datasets/{dataset}``."""

    project: str
    dataset: str

    def __str__(self) -> str:
        return f"projects/{self.project}/datasets/{self.dataset}"


class DatasetDefinition(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="lode-tables"):
    """One state of a dataset's definition; ``version`` counts its changes."""

    format_version: str = "1.0.0"
    name: DatasetName
    location: str
    # What REST clients say about it and the server only keeps: description, labels and the like.
    info: dict[str, Any] = {}
    version: int = 1
    generation: int = 1
    # Changes with every table made in it, so that deleting an empty dataset cannot miss a new one.
    tables_created: int = 0
    created_ms: int
    modified_ms: int
    etag: str
    # Makes every state unlike any other, also where the etag stays as it is.
    nonce: str


class DeletedDataset(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="lode-tables-deleted"):
    """What stays of a deleted dataset: its generation, which its tables do not outlive."""

    format_version: str = "1.0.0"
    name: DatasetName
    generation: int
    deleted_ms: int
    etag: str
