"""``lode tag``, ``lode untag`` and ``lode tags``: names that people give to snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.change import open_either
from lode.cli.parameters import (
    DATASET,
    DRY_RUN,
    JSON,
    JSON_LINES,
    ROOT,
    SNAPSHOT,
    STORE_OPTION,
    VOLUME,
    complete_tag,
)
from lode.cli.terminal import TextTable, print_json, print_lines
from lode.units import moment

if TYPE_CHECKING:
    from lode.read.tags import Tag

_NEW: Final[Any] = typer.Argument(
    ..., metavar="NAME", help="The name. It must not look like a number or date."
)
_OLD: Final[Any] = typer.Argument(..., metavar="NAME", help="The tag.", autocompletion=complete_tag)


def tag(
    dataset: str = DATASET,
    name: str = _NEW,
    snapshot: str = SNAPSHOT,
    root: str = ROOT,
    volume: bool = VOLUME,
    dry_run: bool = DRY_RUN,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Give a snapshot a name. Commands accept it wherever they take a snapshot.

    lode expire keeps the files of tagged snapshots.
    """
    made = open_either(dataset, root, store_option, volume=volume).tag(name, snapshot, dry_run=dry_run)
    if json:
        print_json({**_as_json(made), "made": not dry_run})
    else:
        verb = "would be" if dry_run else "is"
        print_lines(f"{dataset}: {made.name} {verb} snapshot {made.snapshot_id}, number {made.sequence}")


def untag(
    dataset: str = DATASET,
    name: str = _OLD,
    root: str = ROOT,
    volume: bool = VOLUME,
    dry_run: bool = DRY_RUN,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Remove a tag. The snapshot stays until lode expire."""
    open_either(dataset, root, store_option, volume=volume).untag(name, dry_run=dry_run)
    if json:
        print_json({"dataset": dataset, "name": name, "removed": not dry_run})
    else:
        print_lines(f"{dataset}: tag {name} {'would be removed' if dry_run else 'removed'}")


def tags(
    dataset: str = DATASET,
    root: str = ROOT,
    volume: bool = VOLUME,
    json: bool = JSON_LINES,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """List the tags of a dataset."""
    found = open_either(dataset, root, store_option, volume=volume).tags()
    if json:
        for each in found:
            print_json(_as_json(each))
    elif not found:
        print(f"{dataset}: no tags")
    else:
        table = TextTable("tag", "#", "snapshot", "made", right=("#",))
        for each in found:
            table.add(each.name, each.sequence, each.snapshot_id, moment(each.created_at))
        print_lines(table)


def _as_json(tag: Tag) -> dict[str, Any]:
    return {"name": tag.name, "id": tag.snapshot_id, "sequence": tag.sequence, "created_at": tag.created_at}
