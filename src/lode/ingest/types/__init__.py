"""A table's schema: BigQuery's columns, and the same as Arrow, as REST JSON and on the wire."""

from lode.ingest.types.columns import Column, TableSchema

__all__ = ["Column", "TableSchema"]
