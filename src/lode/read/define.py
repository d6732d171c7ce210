"""Find out what a dataset is: where its history is stored, and its definition at a snapshot.

Snapshots of 0.1 and of the Go implementation reference no definition. Theirs is derived: the layout from
where the manifests are, codec and compressor from the newest manifest, the columns from the files.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lode.codec.components import CODECS, Components, components_of
from lode.codec.protocol import has_file_schema
from lode.definition import Definition, decode_definition, layout_name, with_fields
from lode.errors import (
    ComponentMismatchError,
    InvalidFormatError,
    InvalidOptionError,
    InvalidPathError,
    ManifestInvalidError,
    NotFoundError,
    PathExistsError,
)
from lode.format.manifest import MAX_MANIFEST_BYTES
from lode.format.paths import DefaultLayout, FlatLayout, partition_values
from lode.lazy import pa
from lode.read.history import History
from lode.read.resolve import ANY_KEYS, Chain, Head, dataset_chain, head_at
from lode.read.source import get_bounded, open_file
from lode.runtime import REAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from lode.codec.protocol import Chunk, Codec
    from lode.format.manifest import FileRef, Manifest
    from lode.format.paths import ChainPaths, Layout
    from lode.runtime import Runtime
    from lode.store.protocol import Store

LAYOUTS: Final[tuple[Layout, ...]] = (DefaultLayout(), ANY_KEYS, FlatLayout())
MAX_CACHED_DEFINITIONS: Final = 64


@dataclass(frozen=True, slots=True)
class Located:
    """A dataset that exists, or was dropped: the layout of its history, and its head."""

    layout: Layout
    chain: Chain[Manifest]
    head: Head[Manifest]

    @property
    def exists(self) -> bool:
        """Whether it has a snapshot. Otherwise it was dropped, and nothing was written since."""
        return self.head.manifest is not None or self.head.pending is not None

    @property
    def newest(self) -> Manifest:
        """The newest snapshot, also one that is committed and not yet published."""
        found = self.head.manifest or (self.head.pending.manifest if self.head.pending else None)
        assert found is not None, "what is located has a snapshot"
        return found


def locate(store: Store, dataset_id: str, layout: Layout | None = None) -> Located | None:
    """Find a dataset under any layout: two reads, a few more if there is none or a writer is committing.

    Args:
        store: The store.
        dataset_id: The dataset.
        layout: The layout that the caller believes it has.

    Raises:
        ComponentMismatchError: It exists under another layout than ``layout``.
    """
    chains = [(each, dataset_chain(store, dataset_id, each)) for each in _candidates(layout, dataset_id)]
    own = chains[0][1].paths.root
    inside = [each for each in chains if each[1].paths.root == own]
    outside = [each for each in chains if each[1].paths.root != own]
    found = _among(inside, guessing=layout is None)
    if found is None or not found.exists:
        found = _among(outside, thorough=layout is None) or found
    if (
        found is not None
        and found.exists
        and layout is not None
        and found.chain.paths != layout.chain(dataset_id)
    ):
        raise ComponentMismatchError(
            f"dataset {dataset_id!r} in {store.url} has the layout {layout_name(found.layout)!r} and is "
            f"opened with {layout_name(layout)!r}: leave the layout out, or give the one it has"
        )
    return found


def _candidates(layout: Layout | None, dataset_id: str) -> list[Layout]:
    """The layouts to look under, the most likely first, no place twice."""
    found: dict[ChainPaths, Layout] = {} if layout is None else {layout.chain(dataset_id): layout}
    for each in LAYOUTS:
        with suppress(InvalidPathError):  # a name that this layout refuses is not stored under it
            found.setdefault(each.chain(dataset_id), each)
    return list(found.values())


def _among(
    chains: Sequence[tuple[Layout, Chain[Manifest]]], *, thorough: bool = True, guessing: bool = False
) -> Located | None:
    """Find the history among layouts that share one pointer.

    Args:
        chains: The layouts, the most likely first.
        thorough: Also list the store for a history whose pointer is lost.
        guessing: Any of them may be it, so look for a published snapshot under each first.
    """
    if not chains:
        return None
    pointer = chains[0][1].pointer()
    if pointer is None and not thorough:
        return None
    for layout, chain in chains if pointer is not None and guessing else ():
        manifest = chain.manifest(chain.named_by(pointer)) if pointer is not None else None
        if manifest is not None:
            return Located(layout, chain, head_at(pointer, manifest))
    for layout, chain in chains:
        try:
            head = chain.resolve(pointer=pointer)
        except ComponentMismatchError:
            continue  # it is under another of these layouts
        if head.parent is not None or head.pending is not None:
            return Located(layout, chain, head)
        if head.pointer is None:
            return None  # the look for a lost history covers all layouts of one pointer
    return None


class Definitions:
    """The definitions of one dataset, each read once.

    Args:
        chain: Its history.
        dataset_id: Its name.
        layout: Its layout.
        runtime: Its threads open files if a definition is derived from them.
        expected: Returns what the dataset probably is. If a snapshot has its digest, nothing is read.
    """

    def __init__(
        self,
        chain: Chain[Manifest],
        dataset_id: str,
        layout: Layout,
        runtime: Runtime,
        expected: Callable[[], Definition | None] = lambda: None,
    ) -> None:
        self._chain = chain
        self._store = chain.store
        self._dataset_id = dataset_id
        self._layout = layout
        self._runtime = runtime
        self._expected = expected
        # Not an LRUCache: each commit and each snapshot of a scan looks here, which costs 0.1 µs in a dict,
        # without a lock, and 0.7 µs there.
        self._loaded: dict[str, Definition] = {}
        self._derived: tuple[str, Definition] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Threads and what was read are of this process; the copy has its own.
        return _definitions, (self._store, self._dataset_id, self._layout)

    def at(self, manifest: Manifest) -> Definition:
        """What the dataset is at a snapshot."""
        reference = (manifest.x or {}).get("definition")
        known = self._loaded.get(reference) if isinstance(reference, str) else None
        if known is not None:
            return known
        digest = manifest.definition
        if digest is not None:
            if not self._loaded:
                # A digest in a snapshot is that of a stored definition: it was put before the snapshot.
                expected = self._expected()
                if expected is not None and expected.digest == digest:
                    self._keep(expected)
                    return expected
            return self.load(digest)
        if self._derived is None or self._derived[0] != manifest.snapshot_id:
            self._derived = (manifest.snapshot_id, self._without_reference(manifest))
        return self._derived[1]

    def load(self, digest: str) -> Definition:
        """The definition with this digest; one read the first time."""
        known = self._loaded.get(digest)
        if known is not None:
            return known
        path = self._chain.paths.definition(digest)
        try:
            found = decode_definition(get_bounded(self._store, path, MAX_MANIFEST_BYTES), digest, path)
        except NotFoundError:
            raise ManifestInvalidError(
                f"{self._chain.name}: {path} is missing, and snapshots refer to it: restore it from a backup"
            ) from None
        self._keep(found)
        return found

    def save(self, definition: Definition) -> None:
        """Store a definition unless it is known to be stored: one put when a dataset changes."""
        if definition.digest in self._loaded:
            return
        with suppress(PathExistsError):  # the same content: the name is its digest
            self._store.put(self._chain.paths.definition(definition.digest), definition.data)
        self._keep(definition)

    def by_manifest(self, manifests: Sequence[Manifest]) -> list[Definition | None]:
        """The definition under which the files of each of these snapshots, oldest first, were written.

        A snapshot without one was written by 0.1 or Go: it has the definition of the nearest snapshot before
        it that has one, else of the first after it. None if no snapshot here has one.
        """
        digests = [manifest.definition for manifest in manifests]
        current = next((digest for digest in digests if digest is not None), None)
        if digests and digests[0] is None:
            current = self.reference_before(manifests[0]) or current
        found: list[Definition | None] = []
        for digest in digests:
            current = digest or current
            found.append(None if current is None else self.load(current))
        return found

    def floor_at(self, manifest: Manifest) -> int:
        """The sequence of the oldest snapshot that can be read once this one is the newest.

        Each commit repeats it. Those of Go do not: theirs is that of the nearest snapshot before them.
        """
        if manifest.definition is not None or manifest.parent_snapshot_id is None:
            return manifest.floor
        defined = self._nearest_defined(manifest)
        return 1 if defined is None else defined.floor

    def _keep(self, definition: Definition) -> None:
        if len(self._loaded) >= MAX_CACHED_DEFINITIONS:
            self._loaded.clear()
        self._loaded[definition.digest] = definition

    def _without_reference(self, manifest: Manifest) -> Definition:
        digest = self.reference_before(manifest)
        return self._derive(manifest) if digest is None else self.load(digest)

    def reference_before(self, manifest: Manifest) -> str | None:
        """The digest in the nearest snapshot up to this one that has one."""
        if manifest.parent_snapshot_id is None:
            return manifest.definition
        defined = self._nearest_defined(manifest)
        return None if defined is None else defined.definition

    def _nearest_defined(self, manifest: Manifest) -> Manifest | None:
        """The nearest snapshot up to this one that has a definition."""
        if not any(True for _ in self._store.list(self._chain.paths.definitions)):
            return None
        ancestors = History(self._chain, self._runtime).newest_first(manifest)
        return next((each for each in ancestors if each.definition is not None), None)

    def _derive(self, newest: Manifest) -> Definition:
        history = History(self._chain, self._runtime).up_to(newest)
        files = [file for manifest in history for file in manifest.files]
        keys = self._layout.keys
        if self._layout is ANY_KEYS:
            first = files[0].path if files else ""
            keys = tuple(partition_values(self._layout.partition_of(self._dataset_id, first)))
        definition = Definition(
            layout=layout_name(self._layout),
            keys=keys,
            codec=newest.codec,
            compressor=newest.compressor,
            checksum=newest.checksum_algorithm,
        )
        components = components_named(newest.codec, newest.compressor, newest.checksum_algorithm)
        if not has_file_schema(components.codec) or not files:
            return definition
        schema = schema_of_files(self._store, files, components, self._dataset_id, self._runtime)
        return definition.with_schema(schema)


def _definitions(store: Store, dataset_id: str, layout: Layout) -> Definitions:
    return Definitions(dataset_chain(store, dataset_id, layout), dataset_id, layout, REAL)


def components_named(codec: str | None, compressor: str, checksum: str | None) -> Components:
    """What files pass through, by the names in manifests; a codec that is not installed can only be named."""
    chosen: Codec | None
    try:
        chosen = None if codec is None else CODECS.find(codec) or Foreign(codec)
    except InvalidOptionError as error:
        chosen = Foreign(codec or "", str(error))
    try:
        return components_of(chosen, compressor, checksum)
    except InvalidOptionError:
        # A checksum that is not installed: files can be read without it.
        return components_of(chosen, compressor, None)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A codec that is not installed. Everything but the records can be read without it."""

    name: str
    reason: str = "which no installed distribution has: install it, or pass the codec as an object"

    def decode(self, source: BinaryIO) -> Iterator[Chunk]:
        raise InvalidFormatError(f"written with the codec {self.name!r}, {self.reason}")


def schema_of_files(
    store: Store,
    files: Sequence[FileRef],
    components: Components,
    dataset_id: str,
    runtime: Runtime = REAL,
    *,
    every: bool = False,
) -> pa.Schema:
    """The columns of files of a columnar codec, oldest first; of files that look alike two are opened.

    Args:
        store: Where they are.
        files: Not none.
        components: What they pass through.
        dataset_id: For errors.
        runtime: Its threads open them.
        every: Open all of them.
    """
    asked = list(files)[::-1] if every else one_of_each_shape(files)
    found = runtime.each(lambda file: file_schema(store, file, components), asked)
    return _united(found, files, dataset_id)


def one_of_each_shape(files: Iterable[FileRef]) -> list[FileRef]:
    """The newest and the oldest of the files whose statistics name the same columns; all without statistics.

    Statistics leave out nested columns, so the oldest is asked too: it shows one that came or went since.
    """
    newest: dict[tuple[str, ...], FileRef] = {}
    oldest: dict[tuple[str, ...], FileRef] = {}
    unknown: list[FileRef] = []
    for file in files:
        if file.stats is None:
            unknown.append(file)
            continue
        columns = tuple(sorted(column.name for column in file.stats.columns))
        oldest.setdefault(columns, file)
        newest.pop(columns, None)
        newest[columns] = file
    others = [file for columns, file in oldest.items() if newest[columns] is not file]
    return [*others, *unknown, *newest.values()][::-1]


def file_schema(store: Store, file: FileRef, components: Components) -> pa.Schema:
    """The columns of one file of a columnar codec; of a plain file only the footer or header is read."""
    codec = components.codec
    assert has_file_schema(codec)
    with open_file(store, file) as stored, components.compressor.decompress(stored) as plain:
        try:
            return codec.file_schema(plain)
        except (pa.ArrowException, OSError, EOFError) as error:
            raise InvalidFormatError(f"{file.path}: not a file of its codec: {error}") from error


def _united(schemas: Sequence[pa.Schema], files: Iterable[FileRef], dataset_id: str) -> pa.Schema:
    """All columns of some files, newest first; nullable where a file has nulls or lacks the column."""
    try:
        whole = pa.unify_schemas(list(schemas), promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidFormatError(
            f"the files of dataset {dataset_id!r} disagree about a column ({error}): read its snapshots one "
            "by one with read(), and write what you need to a new dataset"
        ) from None
    with_nulls = {
        column.name
        for file in files
        for column in (file.stats.columns if file.stats else ())
        if column.null_count
    }
    nullable = {
        name
        for name in whole.names
        if name in with_nulls or any(name not in each.names or each.field(name).nullable for each in schemas)
    }
    return with_fields(whole, [field.with_nullable(field.name in nullable) for field in whole])
