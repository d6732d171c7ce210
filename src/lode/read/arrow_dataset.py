"""The files of a scan as a ``pyarrow.dataset.Dataset``, for other query engines."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs

from lode.codec.protocol import is_native
from lode.errors import InvalidOptionError
from lode.read.filesystem import arrow_filesystem, local_path
from lode.read.prune import guarantee
from lode.store.protocol import check_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow.compute as pc

    from lode.codec.components import Components
    from lode.filter import Filter
    from lode.format.manifest import FileRef
    from lode.read.plan import FileSpan
    from lode.store.protocol import Store


def dataset_of(
    store: Store,
    dataset_id: str,
    components: Components,
    schema: pa.Schema,
    spans: Sequence[FileSpan],
    partition_of: Callable[[FileRef], str],
    where: Filter | None,
) -> pads.Dataset:
    """The files of a scan, each with all that is known of its rows. No file is opened.

    Raises:
        InvalidOptionError: pyarrow cannot read the files as they are, or cannot filter them so.
    """
    _check_codec(dataset_id, components)
    if where is not None:
        if not where.fits_row_groups:
            raise InvalidOptionError(
                f"where={str(where.where)[:120]} may be true of what statistics leave out, such as NaN, "
                "and pyarrow.dataset would skip them: use scan(where=…), or filter afterwards"
            )
        spans = [replace(span, files=span.matching(partition_of, schema, where)) for span in spans]
    _check_names(dataset_id, spans)
    files = [file for span in spans for file in span.files]
    known = [guarantee(file, partition_of(file), schema) for file in files]
    whole = native_dataset(store, components, files, schema, known)
    return whole if where is None else whole.filter(where.where)


class EngineDataset(pads.FileSystemDataset):  # type: ignore[misc, unused-ignore]  # pyarrow is untyped
    """A dataset whose readers never wait for themselves.

    ``Scanner.to_reader`` of pyarrow keeps the interpreter's lock while it waits for threads that open files.
    A file system in Python needs that lock, which is a deadlock. DuckDB makes such readers. Here they
    pull batches, for which pyarrow releases the lock.
    """

    def scanner(self, *arguments: Any, **options: Any) -> Any:
        return _EngineScanner(super().scanner(*arguments, **options))

    def __reduce__(self) -> Any:
        return EngineDataset, super().__reduce__()[1]


class _EngineScanner:
    """A scanner of pyarrow with another ``to_reader``."""

    def __init__(self, scanner: pads.Scanner) -> None:
        self._scanner = scanner

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._scanner.projected_schema, self._scanner.to_batches())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scanner, name)


def native_dataset(
    store: Store,
    components: Components,
    files: Sequence[FileRef],
    schema: pa.Schema,
    known: Sequence[pc.Expression | None] = (),
) -> pads.FileSystemDataset:
    """Files as a pyarrow dataset. Their sizes are checked when they are opened.

    Args:
        store: Where they are.
        components: Their codec.
        files: The files.
        schema: What their columns become; one that a file lacks is null.
        known: For each file, what is true of all of its rows. A filter that contradicts it leaves the file
            out.
    """
    codec = components.codec
    assert is_native(codec)
    form = codec.arrow_format()
    filesystem = arrow_filesystem(store, files)
    fragments: list[pads.Fragment] = [
        form.make_fragment(check_path(file.path), filesystem, fact)
        for file, fact in zip(files, known or repeat(None), strict=False)
    ]
    return EngineDataset(fragments, schema, form, filesystem)


def scanner_of(
    store: Store,
    components: Components,
    files: Sequence[FileRef],
    schema: pa.Schema,
    columns: list[str],
    where: pc.Expression | None,
    *,
    check_pages: bool = False,
) -> pads.Scanner:
    """A scanner of files that exist now. Files of this machine are opened without Python.

    ``check_pages`` compares the pages of Parquet with their checksums, which takes 4 to 13 % of the time.
    """
    found = (local_path(store, check_path(file.path), file) for file in files)
    paths = [path for path in found if path is not None]
    if len(paths) < len(files):
        whole = native_dataset(store, components, files, schema)
        return whole.scanner(columns=columns, filter=where, **_page_options(whole.format, check_pages))
    codec = components.codec
    assert is_native(codec)
    form, filesystem = codec.arrow_format(), pafs.LocalFileSystem()
    fragments: list[pads.Fragment] = [form.make_fragment(path, filesystem) for path in paths]
    whole = pads.FileSystemDataset(fragments, schema, form, filesystem)
    return whole.scanner(columns=columns, filter=where, **_page_options(form, check_pages))


def _page_options(form: pads.FileFormat, check_pages: bool) -> dict[str, Any]:
    if not check_pages or not isinstance(form, pads.ParquetFileFormat):
        return {}
    return {"fragment_scan_options": pads.ParquetFragmentScanOptions(page_checksum_verification=True)}


def _check_codec(dataset_id: str, components: Components) -> None:
    """Refuse files that pyarrow.dataset does not read."""
    if not components.is_native:
        assert components.codec is not None
        name, wrapper = components.codec.name, components.compressor.name
        raise InvalidOptionError(
            f"dataset {dataset_id!r} is stored as {name}{'' if wrapper == 'noop' else f' inside {wrapper}'}, "
            "and pyarrow.dataset reads Parquet without a compressor: use scan(), to_pandas() or to_polars()"
        )


def _check_names(dataset_id: str, spans: Iterable[FileSpan]) -> None:
    """Refuse files in which a column has another name: pyarrow.dataset reads all files by one schema."""
    for span in spans:
        if span.names is not None and span.files:
            now, then = next((now, then) for now, then in span.names.items() if now != then)
            other = "is another column" if then is None else f"is called {then!r}"
            raise InvalidOptionError(
                f"column {now!r} of dataset {dataset_id!r} {other} in older files, and pyarrow.dataset reads "
                "all files by one name: use scan(), to_pandas() or to_polars(), which read each by its own"
            )
