"""``lode ui``: the console over a lake. Its flags are the fields of ``lode.ui_settings.UiSettings``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.cli.failure import failing_as
from lode.cli.parameters import ROOT, STORE_OPTION, open_root
from lode.extras import needs
from lode.ui_settings import UiSettings

if TYPE_CHECKING:
    from collections.abc import Callable


def ui(root: str = ROOT, store_option: list[str] = STORE_OPTION, **given: Any) -> None:
    """Look at datasets and volumes in a browser.

    The page is served on this machine only, until the command is interrupted.
    """
    with failing_as("lode ui"):
        with needs("lode ui", "server"):
            from lode.ui.run import run
        run(open_root(root, store_option), UiSettings(**given))


def with_settings() -> Callable[..., None]:
    """Return the command with its flags, which help and completion of other commands do not need."""
    from lode.cli.flags import with_flags

    return with_flags(ui, UiSettings, "ui")
