"""``lode doctor``: does this store keep its promises, and what is installed here?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lode.cli.failure import FAILED, PROBLEMS
from lode.cli.parameters import JSON, PROBED_ROOT, STORE_OPTION
from lode.cli.terminal import as_json, facts, show

if TYPE_CHECKING:
    from lode.upkeep.doctor import Diagnosis


def doctor(root: str | None = PROBED_ROOT, json: bool = JSON, store_option: list[str] = STORE_OPTION) -> None:
    """Probe a store, and say what is installed here.

    The store is asked for what concurrent writers need. The exit code is 5 if it does not keep it, and 1 if
    it cannot be reached.
    """
    from lode.cli.progress import progress
    from lode.cli.root import open_root
    from lode.cli.version import java, versions
    from lode.upkeep.doctor import diagnose

    diagnosis: Diagnosis | None = None
    if root is not None:
        with progress(f"probing {root}", "probes") as advance:
            diagnosis = diagnose(open_root(root, store_option, create=True), progress=advance)
    told: dict[str, str | None] = {**versions(), "java": java()}
    if json:
        store = diagnosis and {
            "url": diagnosis.url,
            "healthy": diagnosis.healthy,
            "unreachable": diagnosis.unreachable,
            "findings": diagnosis.findings,
        }
        as_json({"store": store, "versions": told})
    else:
        if diagnosis is not None:
            print(f"{diagnosis}\n")
        show(*facts((name, version or "not installed") for name, version in told.items()))
    if diagnosis is not None and not diagnosis.healthy:
        raise typer.Exit(PROBLEMS if diagnosis.unreachable is None else FAILED)
