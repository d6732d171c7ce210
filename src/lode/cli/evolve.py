"""``lode evolve``: change the columns of a dataset without rewriting a file."""

from __future__ import annotations

from typing import Any, Final

import typer

from lode.cli.change import open_existing
from lode.cli.columns import (
    changes_as_json,
    changes_between,
    changes_table,
    columns_table,
    definition_as_json,
)
from lode.cli.parameters import DATASET, JSON, METADATA, ROOT, STORE_OPTION, key_values, parse_metadata
from lode.cli.terminal import print_json, print_lines
from lode.errors import InvalidOptionError

_ADD: Final[Any] = typer.Option(
    [], "--add", metavar="COLUMN=TYPE", help="Add a column; existing rows have null there."
)
_WIDEN: Final[Any] = typer.Option(
    [], "--widen", metavar="COLUMN=TYPE", help="Widen a type, such as int32 to int64."
)
_RELAX: Final[Any] = typer.Option([], "--relax", metavar="COLUMN", help="Allow null in a required column.")
_RENAME: Final[Any] = typer.Option([], "--rename", metavar="OLD=NEW", help="Rename a column.")
_DROP: Final[Any] = typer.Option([], "--drop", metavar="COLUMN", help="Hide a column from readers.")
_DRY_RUN: Final[Any] = typer.Option(
    False, "--dry-run", help="Show the columns before and after, and change nothing."
)


def evolve(
    dataset: str = DATASET,
    root: str = ROOT,
    add: list[str] = _ADD,
    widen: list[str] = _WIDEN,
    relax: list[str] = _RELAX,
    rename: list[str] = _RENAME,
    drop: list[str] = _DROP,
    dry_run: bool = _DRY_RUN,
    metadata: list[str] = METADATA,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Change the columns of a dataset. No file is rewritten.

    Columns are renamed, dropped, added, widened and relaxed, in that order, so --widen and --relax take the
    new name of a renamed column. Every option may be repeated.
    """
    from lode import evolution

    merged = parse_metadata(metadata)
    wanted: dict[str, Any] = {
        "add": key_values(add, "--add"),
        "widen": key_values(widen, "--widen"),
        "relax": relax,
        "rename": key_values(rename, "--rename"),
        "drop": drop,
    }
    if not any(wanted.values()):
        raise InvalidOptionError(
            "there is nothing to change: use --add, --widen, --relax, --rename or --drop"
        )
    opened = open_existing(dataset, root, store_option)
    before = opened.definition
    if dry_run:
        after, snapshot = evolution.evolve(before, **wanted), None
    else:
        snapshot = opened.evolve(**wanted, metadata=merged)
        after = opened.definition_at(snapshot)
    changes = changes_between(before, after)
    if json:
        result = {"dataset": dataset, "id": snapshot.id if snapshot else None, **changes_as_json(changes)}
        print_json({**result, "before": definition_as_json(before), "after": definition_as_json(after)})
        return
    if not changes:
        print_lines(f"{dataset}: the columns are as asked already, nothing was changed")
        return
    if snapshot is None:
        print_lines("before", columns_table(before), "", "after", columns_table(after), "")
        print_lines(f"{dataset}: would change, without --dry-run")
    else:
        print_lines(f"{dataset}: changed by snapshot {snapshot.id}")
    print_lines(changes_table(changes))
