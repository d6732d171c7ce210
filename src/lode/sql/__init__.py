"""SQL on DuckDB over datasets, in BigQuery's dialect: ``parse`` a query, then run it with ``Engine``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lode.sql.database import Limits
    from lode.sql.engine import Engine, Resolver, Result, Source
    from lode.sql.errors import LimitError, QueryError, UnsupportedError
    from lode.sql.parser import parse

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


def __getattr__(name: str) -> Any:
    """A process for queries uses the database alone, without the parser."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "errors" if name.endswith("Error") else "parser" if name == "parse" else "engine"
    return getattr(import_module(f"lode.sql.{module}"), name)
