"""Datasets and tables: what they are, and where they are defined."""

from lode.ingest.catalog.catalog import Catalog
from lode.ingest.catalog.table import TableDefinition

__all__ = ["Catalog", "TableDefinition"]
