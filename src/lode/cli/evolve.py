"""``lode evolve``: other columns for a dataset, without rewriting a file."""

from __future__ import annotations

from typing import Any, Final

import typer

from lode.cli.parameters import DATASET, JSON, METADATA, ROOT, STORE_OPTION
from lode.cli.terminal import as_json, show

_ADD: Final[Any] = typer.Option(
    [], "--add", metavar="COLUMN=TYPE", help="A new column; rows that exist have null there."
)
_WIDEN: Final[Any] = typer.Option(
    [], "--widen", metavar="COLUMN=TYPE", help="A wider type, such as int64 for int32."
)
_RELAX: Final[Any] = typer.Option([], "--relax", metavar="COLUMN", help="A required column may be null.")
_RENAME: Final[Any] = typer.Option([], "--rename", metavar="OLD=NEW", help="Another name for a column.")
_DROP: Final[Any] = typer.Option([], "--drop", metavar="COLUMN", help="A column that readers no longer see.")
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

    Columns are renamed, dropped, added, widened and relaxed, in that order, so that --widen and --relax take
    the new name of a renamed column. Every option may be given several times.
    """
    from lode import evolution
    from lode.cli import key_values
    from lode.cli.columns import (
        changes_as_json,
        changes_between,
        changes_listing,
        columns_listing,
        definition_as_json,
    )
    from lode.cli.root import open_root
    from lode.discover import open_dataset
    from lode.errors import InvalidOptionError

    said = key_values.metadata(metadata)
    wanted: dict[str, Any] = {
        "add": key_values.texts(add, "--add"),
        "widen": key_values.texts(widen, "--widen"),
        "relax": relax,
        "rename": key_values.texts(rename, "--rename"),
        "drop": drop,
    }
    if not any(wanted.values()):
        raise InvalidOptionError(
            "there is nothing to change: use --add, --widen, --relax, --rename or --drop"
        )
    opened = open_dataset(dataset, open_root(root, store_option))
    before = opened.definition
    if dry_run:
        after, snapshot = evolution.evolve(before, **wanted), None
    else:
        snapshot = opened.evolve(**wanted, metadata=said)
        after = opened.definition_at(snapshot)
    changes = changes_between(before, after)
    if json:
        told = {"dataset": dataset, "id": snapshot.id if snapshot else None, **changes_as_json(changes)}
        as_json({**told, "before": definition_as_json(before), "after": definition_as_json(after)})
        return
    if not changes:
        show(f"{dataset}: the columns are as asked already, nothing was changed")
        return
    if snapshot is None:
        show("before", columns_listing(before), "", "after", columns_listing(after), "")
        show(f"{dataset}: would change, without --dry-run")
    else:
        show(f"{dataset}: changed by snapshot {snapshot.id}")
    show(changes_listing(changes))
