"""``lode ui``: the console over a lake. Its flags are the fields of ``lode.ui_settings.UiSettings``."""

from __future__ import annotations

from typing import Any, Final

from lode.cli.flags import with_flags
from lode.cli.parameters import ROOT, STORE_OPTION
from lode.ui_settings import UiSettings


def _ui(root: str = ROOT, store_option: list[str] = STORE_OPTION, **given: Any) -> None:
    """Look at datasets and volumes in a browser.

    The page is served on this machine only, until the command is interrupted.
    """
    from lode.cli.extras import needs
    from lode.cli.failing import failing_as
    from lode.cli.root import open_root

    with failing_as("lode ui", usage=False):
        store = open_root(root, store_option)
        with needs("server", "ui"):
            from lode.ui.run import run
        run(store, UiSettings(**given))


ui: Final = with_flags(_ui, UiSettings, "ui")
