"""``lode serve``: the ingest server. Its flags are the fields of ``lode.ingest.settings.Settings``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import typer

from lode.cli.failure import failing_as
from lode.cli.parameters import JSON, ROOT, STORE_OPTION, store_options
from lode.extras import needs

if TYPE_CHECKING:
    from collections.abc import Callable

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

# Fields without a flag: the root has its own options, and secrets do not belong on a command line.
NO_FLAGS: Final = frozenset({"root", "store_options", "tokens"})
LOG_LEVEL_VARIABLE: Final = "LODE_SERVE_LOG_LEVEL"

_LOG_LEVEL: Final[Any] = typer.Option(
    "warning", "--log-level", envvar=LOG_LEVEL_VARIABLE, help="The minimum severity of logged messages."
)


def serve(
    root: str = ROOT,
    store_option: list[str] = STORE_OPTION,
    log_level: LogLevel = _LOG_LEVEL,
    json: bool = JSON,
    **given: Any,
) -> None:
    """Run the ingest server: the BigQuery Storage APIs over snapshots.

    It runs until it receives SIGINT or SIGTERM. With --json, or if stdout is not a terminal, the addresses
    are one line of JSON.
    """
    from lode.ingest.settings import Settings

    with failing_as("lode serve"):
        settings = Settings(root=root, store_options=store_options(store_option), **given)
        with needs("lode serve", "server"):
            from lode.ingest.run import run
        run(settings, log_level=log_level, as_json=json)


def with_settings() -> Callable[..., None]:
    """Return the command with its flags, which help and completion of other commands do not need."""
    from lode.cli.flags import with_flags
    from lode.ingest.settings import Settings

    return with_flags(serve, Settings, "serve", skip=NO_FLAGS)
