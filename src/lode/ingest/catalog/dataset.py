"""The definition of a BigQuery dataset: a namespace of tables, with a location and info."""

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
    """One version of a dataset's definition; ``version`` counts its changes."""

    format_version: str = "1.0.0"
    name: DatasetName
    location: str
    # Fields of REST clients that the server only stores: description, labels and the like.
    info: dict[str, Any] = {}
    # The statements that created its SQL functions and procedures, by their names in lower case.
    routines: dict[str, str] = {}
    # Their other properties in the REST API, such as the name as it was written and the time of creation.
    routine_info: dict[str, dict[str, Any]] = {}
    version: int = 1
    generation: int = 1
    # Changes with every table that is created, so that deleting an empty dataset cannot miss a new one.
    tables_created: int = 0
    created_ms: int
    modified_ms: int
    etag: str
    # Makes every version unique, also if the etag does not change.
    nonce: str


class DeletedDataset(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="lode-tables-deleted"):
    """The tombstone of a dataset. It keeps the generation, which its tables do not outlive."""

    format_version: str = "1.0.0"
    name: DatasetName
    generation: int
    deleted_ms: int
    etag: str
