"""``lode doctor``: whether a store is safe for concurrent writers, and what is installed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lode.cli.failure import FAILED, PROBLEMS
from lode.cli.parameters import JSON, PROBED_ROOT, STORE_OPTION, open_root
from lode.cli.terminal import print_json, progress
from lode.cli.version import java, print_versions
from lode.describe import versions

if TYPE_CHECKING:
    from lode.upkeep.doctor import Diagnosis


def doctor(root: str | None = PROBED_ROOT, json: bool = JSON, store_option: list[str] = STORE_OPTION) -> None:
    """Probe a store, and show what is installed here.

    The probes check what concurrent writers need. The exit code is 5 if the store fails one, and 1 if it
    cannot be reached.
    """
    from lode.upkeep.doctor import diagnose

    diagnosis: Diagnosis | None = None
    if root is not None:
        with progress(f"probing {root}", "probes") as advance:
            diagnosis = diagnose(open_root(root, store_option, create=True), progress=advance)
    installed = {**versions(), "java": java()}
    if json:
        store = diagnosis and {
            "url": diagnosis.url,
            "healthy": diagnosis.healthy,
            "unreachable": diagnosis.unreachable,
            "findings": diagnosis.findings,
        }
        print_json({"store": store, "versions": installed})
    else:
        if diagnosis is not None:
            print(f"{diagnosis}\n")
        print_versions(installed)
    if diagnosis is not None and not diagnosis.healthy:
        raise typer.Exit(PROBLEMS if diagnosis.unreachable is None else FAILED)
