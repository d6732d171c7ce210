"""The files that jobs read and write: ``gs://bucket/file`` is ``bucket/file`` in a directory."""

from __future__ import annotations

import os
import re
import uuid
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from lode.format.ids import shortened
from lode.ingest.jobs.formats.write import COMPRESSIONS, open_writer
from lode.ingest.status import Code, Refused, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from lode.ingest.types.columns import TableSchema

_URI: Final = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,220})/(.+)", re.DOTALL)
_NOT_IN_PATHS: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_MAX_PART_BYTES: Final = 200
# Rows of one file, if the address has a wildcard; the service has the same limit.
MAX_FILE_BYTES: Final = 1 << 30
# Files of one load job; the service has the same limit.
MAX_FILES: Final = 10_000
# Names of files that are being written.
_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{32}\.part")


class Buckets:
    """The buckets of a server.

    Args:
        root: The directory with one folder for each bucket. None refuses all jobs that need it.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = root

    @property
    def root(self) -> Path:
        if self._root is None:
            raise Refused(
                Code.UNIMPLEMENTED,
                "Files of buckets need a directory that has them: start the server with --buckets DIR, or "
                "upload the file with the request, as load_table_from_file does.",
            )
        return self._root

    def find(self, uris: list[str]) -> list[Path]:
        """The files of some addresses, each with at most one ``*``, in order; refuses if there are none."""
        found: list[Path] = []
        for uri in uris:
            bucket, name = parse_uri(uri, "source")
            matching = sorted(self._matching(bucket, name))
            if not matching:
                raise Refused(Code.NOT_FOUND, f"Not found: URI {shortened(uri)[1:-1]}")
            found += matching
            if len(found) > MAX_FILES:
                raise invalid(f"The job has more than {MAX_FILES:,} files: load them in several jobs.")
        return found

    def _matching(self, bucket: str, name: str) -> Iterator[Path]:
        prefix, star, suffix = name.partition("*")
        folder = self.root / bucket
        if not star:
            if self._is_inside(folder / name):
                yield folder / name
            return
        # As in the service, a wildcard also matches what is in folders.
        for place, _, files in os.walk(folder / prefix.rpartition("/")[0]):
            for file in files:
                path = folder.joinpath(place, file)
                own = path.relative_to(folder).as_posix()
                if (
                    len(own) >= len(prefix) + len(suffix)
                    and own.startswith(prefix)
                    and own.endswith(suffix)
                    and _UNFINISHED.fullmatch(file) is None
                    and self._is_inside(path)
                ):
                    yield path

    def _is_inside(self, path: Path) -> bool:
        """Whether it is a file, and no link leads out of the directory."""
        return path.is_file() and path.resolve().is_relative_to(self.root.resolve())

    def write(
        self,
        uri: str,
        schema: TableSchema,
        batches: Iterator[pa.RecordBatch],
        settings: dict[str, Any],
        check: Callable[[], None],
        *,
        overwrite: bool = True,
    ) -> tuple[int, int]:
        """Write rows to one file, or to several if the address has a ``*``.

        The files get their names when all of them are written.

        Args:
            uri: The address.
            schema: The columns.
            batches: The rows in ``schema.arrow``.
            settings: The format, its compression and options, as extract jobs name them.
            check: Called between the batches; what it raises ends the job.
            overwrite: Replace files; otherwise the job is refused if there are some.

        Returns:
            The number of files and of rows.
        """
        path = self.root.joinpath(*destination(uri))
        if not overwrite and any(self._matching(*parse_uri(uri, "destination"))):
            raise invalid(
                f"Invalid value: {shortened(uri)} has files already: set overwrite, or choose another."
            )
        done: list[tuple[Path, Path]] = []
        rows = 0
        with ExitStack() as undo:
            batch = next(batches, None)
            while True:
                target = self._target(path, len(done))
                new = target.with_name(f".{uuid.uuid4().hex}.part")
                undo.callback(_remove, new)
                batch, count = _one(new, schema, settings, batch, batches, check, many="*" in uri)
                rows += count
                done.append((new, target))
                if batch is None:
                    break
            for new, target in done:
                new.replace(target)
        return len(done), rows

    def _target(self, path: Path, number: int) -> Path:
        name = path.name.replace("*", f"{number:012d}")
        target = path.with_name(name)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise invalid(f"The folder of {shortened(name)} cannot be created: {error.strerror}.") from None
        # A link below the directory may lead out of it.
        if not target.parent.resolve().is_relative_to(self.root.resolve()) or target.is_symlink():
            raise invalid(f"The address of {shortened(name)} leads out of the directory of --buckets.")
        if target.is_dir():
            raise invalid(f"The address of {shortened(name)} is a folder: choose another.")
        return target


def _one(
    path: Path,
    schema: TableSchema,
    settings: dict[str, Any],
    batch: pa.RecordBatch | None,
    batches: Iterator[pa.RecordBatch],
    check: Callable[[], None],
    *,
    many: bool,
) -> tuple[pa.RecordBatch | None, int]:
    """Write one file; returns the first batch of the next, and the number of rows."""
    kind, compression = file_format(settings)
    size = rows = 0
    with open_writer(path, kind, compression, schema, settings) as write:
        while batch is not None:
            check()
            write(batch)
            size, rows = size + batch.nbytes, rows + batch.num_rows
            batch = next(batches, None)
            if batch is not None and size >= MAX_FILE_BYTES:
                if many:
                    return batch, rows
                raise invalid(
                    f"The table has more than {MAX_FILE_BYTES:,} bytes of rows, too many for one file: "
                    "extract it to several with * in the address."
                )
    return None, rows


def parse_uri(uri: str, what: str) -> tuple[str, str]:
    """The bucket and the name of an address with at most one ``*``, or a refusal."""
    match = _URI.fullmatch(uri)
    if (
        match is None
        or _NOT_IN_PATHS.search(uri)
        or ".." in match[1]
        or match[2].count("*") > 1
        or any(
            part in ("", ".", "..") or len(part.encode(errors="replace")) > _MAX_PART_BYTES
            for part in match[2].split("/")
        )
    ):
        raise invalid(
            f"Invalid {what} URI {shortened(uri)}: write gs://bucket/folder/file-*.csv, with at most one *, "
            "in the name of the file."
        )
    return match[1], match[2]


def destination(uri: str) -> list[str]:
    """The parts of an address that is written to, or a refusal."""
    bucket, name = parse_uri(uri, "destination")
    *folders, file = name.split("/")
    if "*" in "".join(folders):
        raise invalid(f"Invalid destination URI {shortened(uri)}: * must be in the name of the file.")
    return [bucket, *folders, file]


def file_format(settings: dict[str, Any]) -> tuple[str, str]:
    """The format and the compression of files that are written, or a refusal."""
    kind = settings.get("destinationFormat") or "CSV"
    if kind not in COMPRESSIONS:
        raise invalid(
            f"Invalid value for destinationFormat: {shortened(str(kind))} is not one of "
            f"{', '.join(COMPRESSIONS)}."
        )
    compression = settings.get("compression") or "NONE"
    if compression not in COMPRESSIONS[kind]:
        raise invalid(
            f"Invalid value for compression: {shortened(str(compression))} of {kind} is not one of "
            f"{', '.join(COMPRESSIONS[kind])}."
        )
    return kind, compression


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
