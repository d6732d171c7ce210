"""``lode copy``: a dataset, a volume or a whole lake to another store, with its history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.failure import exit_code, report
from lode.cli.parameters import AS_OF, JSON_LINES, ROOT, STORE_OPTION, VOLUME, complete_dataset, open_root
from lode.cli.terminal import BYTES, print_json, progress
from lode.errors import InvalidOptionError, LodeError
from lode.units import count, size

if TYPE_CHECKING:
    from lode.store.protocol import Store
    from lode.upkeep.copy import CopyReport

_DATASET: Final[Any] = typer.Argument(
    None, metavar="[DATASET]", help="The name of the dataset.", autocompletion=complete_dataset
)
_TO: Final[Any] = typer.Option(
    None, "--to", metavar="URL", help="The store to copy to. Default: the same store, under another name."
)
_TO_OPTION: Final[Any] = typer.Option(
    [], "--to-option", metavar="KEY=VALUE", help="An option of the store to copy to. May be repeated."
)
_AS: Final[Any] = typer.Option(None, "--as", metavar="NAME", help="The name of the copy.")
_ALL: Final[Any] = typer.Option(
    False, "--all", help="Copy every dataset and every volume that lode ls lists."
)
_DRY_RUN: Final[Any] = typer.Option(False, "--dry-run", help="Only report what would be copied.")


def copy(
    dataset: str | None = _DATASET,
    root: str = ROOT,
    to: str | None = _TO,
    name: str | None = _AS,
    as_of: str | None = AS_OF,
    everything: bool = _ALL,
    volume: bool = VOLUME,
    dry_run: bool = _DRY_RUN,
    json: bool = JSON_LINES,
    store_option: list[str] = STORE_OPTION,
    to_option: list[str] = _TO_OPTION,
) -> None:
    """Copy a dataset with its history to another store.

    Copies only what is missing: run it again to finish an interrupted copy, or to copy new snapshots. Every
    file is checked against its checksum.
    """
    if (dataset is None) is not everything:
        raise InvalidOptionError("name one dataset to copy, or give --all for all of them")
    if to is None and name is None:
        raise InvalidOptionError("there is no destination: add --to URL, or --as NAME for the same store")
    if everything and (name is not None or as_of is not None or volume):
        raise InvalidOptionError("--all copies everything as it is: leave --as, --as-of and --volume out")
    if to is None and to_option:
        raise InvalidOptionError("--to-option is for the store of --to: give --to, or leave it out")
    source = open_root(root, store_option)
    target = source if to is None else open_root(to, to_option, create=True)
    if dataset is not None:
        made = _copied(dataset, source, target, name=name, as_of=as_of, is_volume=volume, dry_run=dry_run)
        _print(dataset, made, target, json=json)
        return
    _copy_all(source, target, dry_run=dry_run, json=json)


def _copy_all(source: Store, target: Store, *, dry_run: bool, json: bool) -> None:
    """Copy one after the other. A failure does not stop the others; the first one sets the exit code."""
    from lode.discover import dataset_names, volume_names

    names = [(name, False) for name in dataset_names(source)]
    names += [(name, True) for name in volume_names(source)]
    failed: LodeError | None = None
    for name, is_volume in names:
        try:
            made = _copied(name, source, target, is_volume=is_volume, dry_run=dry_run)
            _print(name, made, target, json=json)
        except LodeError as error:
            report(error, debug=False)
            failed = failed or error
    if failed is not None:
        raise typer.Exit(exit_code(failed))
    if not names and not json:
        print(f"{source.url} has no datasets and no volumes")


def _copied(dataset: str, source: Store, target: Store, *, is_volume: bool, **options: Any) -> CopyReport:
    from lode.discover import open_dataset, open_volume
    from lode.upkeep.copy import copy as copy_history

    opened = open_volume(dataset, source) if is_volume else open_dataset(dataset, source)
    with progress(f"copying {dataset}", BYTES) as advance:
        return copy_history(opened, target, progress=advance, **options)


def _print(dataset: str, made: CopyReport, target: Store, *, json: bool) -> None:
    from dataclasses import fields

    if json:
        report = {field.name: getattr(made, field.name) for field in fields(made)}
        print_json({"dataset": dataset, "to": target.url, **report})
        return
    where = f"{target.url} as {made.name}" if made.name != dataset else target.url
    if not made.snapshots:
        print(f"{dataset}: nothing to copy, {where} has snapshot {made.head}")
        return
    what = f"{count(made.snapshots, 'snapshot')}, {count(made.files, 'file')}, {size(made.bytes)}"
    there = f", {count(made.present, 'file')} there already" if made.present else ""
    print(f"{dataset}: {what} {'to be copied' if made.dry_run else 'copied'} to {where}{there}")
