"""SQL on DuckDB over datasets, in BigQuery's dialect: ``parse`` a query, then run it with ``Engine``."""

from lode.sql.engine import Engine, Limits, Resolver, Result, Source, parse
from lode.sql.errors import LimitError, QueryError, UnsupportedError

__all__ = [
    "Engine",
    "LimitError",
    "Limits",
    "QueryError",
    "Resolver",
    "Result",
    "Source",
    "UnsupportedError",
    "parse",
]
