"""What several commands have in common: the dataset, the rows of files, and the report of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lode.cli.parameters import open_root
from lode.cli.terminal import print_json
from lode.describe import amount
from lode.errors import InvalidOptionError
from lode.units import count, size

if TYPE_CHECKING:
    from contextlib import ExitStack

    import pyarrow as pa

    from lode.change.result import Change
    from lode.dataset import Dataset
    from lode.volume import Volume


def open_existing(dataset: str, root: str, store_option: list[str]) -> Dataset:
    """Open the dataset of a command; it must exist."""
    from lode.discover import open_dataset

    return open_dataset(dataset, open_root(root, store_option))


def open_either(name: str, root: str, store_option: list[str], *, volume: bool) -> Dataset | Volume:
    """Open the dataset or, with ``--volume``, the volume of a command; it must exist."""
    from lode.discover import open_volume

    if volume:
        return open_volume(name, open_root(root, store_option))
    return open_existing(name, root, store_option)


class InputRows:
    """The rows of files, as an operation of the library takes them.

    Args:
        stack: Closes the files.
        names: The files; stdin if there are none.
        source: The format of files without a known suffix.
        target: The dataset whose rows change.
        whole: Give rows every column of the dataset. Otherwise only those that the files have.
    """

    def __init__(
        self, stack: ExitStack, names: list[str], source: str | None, target: Dataset, *, whole: bool
    ) -> None:
        from lode.cli.input_files import columns_of, open_input

        definition = target.definition
        if definition.codec is None:
            raise InvalidOptionError(
                f"dataset {target.id!r} holds blobs, which have no rows: write the next one with lode write"
            )
        self._inputs = [
            stack.enter_context(open_input(name, source, definition.schema)) for name in names or ["-"]
        ]
        self.has_rows = any(file.has_rows() for file in self._inputs)
        self.columns = columns_of(definition, self._inputs)
        if whole and self.columns is not None and definition.schema is not None:
            self.columns = _completed(self.columns, definition.schema)

    def data(self, *, reread: bool = False) -> Any:
        """The rows: a stream, or a table if they may be needed a second time."""
        from lode.cli.input_files import batches_of, records_of

        if self.columns is None:
            records = records_of(self._inputs)
            return list(records) if reread else records
        found = batches_of(self._inputs, self.columns)
        return found.read_all() if reread else found


def _completed(columns: pa.Schema, stored: pa.Schema) -> pa.Schema:
    """The columns of files, then those of the dataset that they lack."""
    from lode.lazy import pa

    return pa.schema([*columns, *(field for field in stored if field.name not in columns.names)])


def print_change(dataset: str, change: Change, *, json: bool, dry_run: bool) -> None:
    """Print what an operation changed, or would change."""
    snapshot = change.snapshot
    report = snapshot.commit if snapshot else None
    replayed = report is not None and report.replayed
    if json:
        print_json(
            {
                "dataset": dataset,
                "operation": change.operation,
                "dry_run": dry_run,
                "id": snapshot.id if snapshot else None,
                "sequence": snapshot.sequence if snapshot else None,
                "rows": change.rows,
                "removed": amount(change.removed),
                "added": amount(change.added),
                "rebases": report.rebases if report else 0,
                "replayed": replayed,
            }
        )
        return
    if replayed and snapshot is not None:
        print(f"{dataset}: this key was used before, by snapshot {snapshot.id}")
    elif snapshot is None and not dry_run:
        print(f"{dataset}: nothing to {change.operation}")
    else:
        made = "dry run" if snapshot is None else f"snapshot {snapshot.id}, number {snapshot.sequence}"
        print(f"{dataset}: {made}, {change.operation}: {_balance(change)}")


def _balance(change: Change) -> str:
    """How many rows the dataset has gained or lost, and the files out and in."""
    rows = f"{'+' if change.rows >= 0 else '-'}{count(abs(change.rows), 'row')}"
    # A dry run does not know how large the new files would be.
    sizes = f", {size(change.removed.bytes)} to {size(change.added.bytes)}" if change.added.bytes else ""
    return f"{rows}; {count(change.removed.files, 'file')} out, {change.added.files:,} in{sizes}"
