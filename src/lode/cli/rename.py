"""``lode rename``: give a dataset or a volume another name."""

from __future__ import annotations

from typing import Any, Final

import typer

from lode.cli.change import open_either
from lode.cli.parameters import DRY_RUN, JSON, ROOT, STORE_OPTION, VOLUME, complete_dataset
from lode.cli.terminal import BYTES, print_json, print_lines, progress

_OLD: Final[Any] = typer.Argument(
    ..., metavar="OLD", help="The name it has.", autocompletion=complete_dataset
)
_NEW: Final[Any] = typer.Argument(..., metavar="NEW", help="The name it gets; nothing may have it.")


def rename(
    old: str = _OLD,
    new: str = _NEW,
    root: str = ROOT,
    volume: bool = VOLUME,
    dry_run: bool = DRY_RUN,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Give a dataset another name, with its history and its tags.

    Its files are copied, since their paths have the name in them. Writers that use the old name are refused
    afterwards.
    """
    from lode.upkeep.rename import rename as rename_history

    source: Any = open_either(old, root, store_option, volume=volume)
    with progress(f"renaming {old}", BYTES) as advance:
        renamed = rename_history(source, new, dry_run=dry_run, progress=advance)
    newest = (source if dry_run else renamed).latest().id
    if json:
        print_json({"from": old, "to": new, "latest": newest, "renamed": not dry_run})
    else:
        print_lines(f"{old}: {'would be renamed' if dry_run else 'renamed'} to {new}")
