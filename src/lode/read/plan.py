"""Plan a scan: which files to read, the names of their columns, and the filter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from lode.errors import InvalidOptionError
from lode.format.ids import shortened
from lode.lazy import pa, pc
from lode.near import column_hint
from lode.read.prune import matching, mentioned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyarrow.compute import Expression

    from lode.definition import Definition
    from lode.filter import Filter
    from lode.format.manifest import FileRef, Manifest
    from lode.read.define import Definitions

_FLOAT: Final = re.compile("float|double")
# Operations that may be true of NaN, which the statistics of row groups leave out: all except comparisons,
# AND and OR.
_TRUE_OF_NAN: Final = re.compile(r"!=|\) (?:[=<>])|\b(?!is_in|is_null|is_valid|and|or|FieldRef)\w+\(")


@dataclass(frozen=True, slots=True)
class FileSpan:
    """Consecutive files that were written under one definition.

    ``names`` maps each column of the dataset to its name in these files, or to None if they do not have it.
    It is None itself if all names are the same.
    """

    files: list[FileRef]
    names: dict[str, str | None] | None = None

    def matching(
        self, partition_of: Callable[[FileRef], str], schema: pa.Schema, where: Filter
    ) -> list[FileRef]:
        """The files that may contain a row for which ``where`` is true."""
        if self.names is None:
            return matching(self.files, partition_of, schema, where.where)
        renamed = [with_present_names(file, self.names) for file in self.files]
        paths = {file.path for file in matching(renamed, partition_of, schema, where.where)}
        return [file for file in self.files if file.path in paths]


def spans_of(
    manifests: Sequence[Manifest], now: Definition | None, definitions: Definitions | None
) -> list[FileSpan]:
    """The files of these snapshots, in order, grouped by the definition under which they were written.

    One span if ``now``, the present definition, has no columns, or if no column has another name.
    """
    if now is None or now.columns is None or definitions is None:
        return [FileSpan([file for manifest in manifests for file in manifest.files])]
    spans: list[FileSpan] = []
    last: object = None
    for manifest, then in zip(manifests, definitions.by_manifest(manifests), strict=True):
        surplus = manifest.surplus
        kind = (then.digest if then is not None else None, surplus)
        if not spans or kind != last:
            spans.append(FileSpan([], _other_names(now, then, surplus)))
        spans[-1].files.extend(manifest.files)
        last = kind
    if any(span.names is not None for span in spans):
        return spans
    return [FileSpan([file for span in spans for file in span.files])]


def _other_names(
    now: Definition, then: Definition | None, surplus: Sequence[str]
) -> dict[str, str | None] | None:
    """The names that the columns of ``now`` had under ``then``; None if they are all the same."""
    if then is None or then.digest == now.digest or then.columns is None:
        return None
    names = {name: then.names.get(id) for name, id in now.ids.items()}
    # A name that means another column in these files must not be read.
    taken = {*then.ids, *surplus}
    same = all(old == name or (old is None and name not in taken) for name, old in names.items())
    return None if same else names


def with_present_names(file: FileRef, names: dict[str, str | None]) -> FileRef:
    """The file with its statistics under the present names of their columns."""
    if file.stats is None:
        return file
    present = {then: now for now, then in names.items() if then is not None}
    columns = tuple(
        msgspec.structs.replace(column, name=present[column.name])
        for column in file.stats.columns
        if column.name in present
    )
    return msgspec.structs.replace(file, stats=msgspec.structs.replace(file.stats, columns=columns))


def check_options(columns: object, where: object, limit: object) -> None:
    """Refuse ``columns`` and ``where`` of other types."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidOptionError(f"limit is {shortened(limit)}: it must be a whole number of rows, 0 or more")
    if isinstance(columns, str):
        raise InvalidOptionError(f"columns is a list of names: write columns=[{columns!r}]")
    if where is not None and not isinstance(where, pc.Expression | str):
        raise InvalidOptionError(
            f"where is {shortened(where)}: give SQL such as \"day = 'mon'\", or a pyarrow expression"
        )


def filter_of(where: Expression | str | None, schema: pa.Schema) -> Filter | None:
    """Parse ``where``, which may be SQL or an expression."""
    if where is None:
        return None
    from lode.filter import Filter, parse_filter

    if isinstance(where, str):
        return parse_filter(where, schema)
    columns = mentioned(schema, where)
    floats = any(_FLOAT.search(str(column.type)) for column in columns)
    return Filter(where, tuple(columns.names), not floats or _TRUE_OF_NAN.search(str(where)) is None)


def projected(schema: pa.Schema, columns: Sequence[str] | None, dataset_id: str) -> pa.Schema:
    """The schema with only these columns, in this order."""
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise InvalidOptionError(
            f"dataset {dataset_id!r} has no column {unknown[0]!r}: {column_hint(unknown[0], schema.names)}"
        )
    return pa.schema([schema.field(name) for name in columns]).with_metadata(schema.metadata)
