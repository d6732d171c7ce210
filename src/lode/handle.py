"""A dataset as one process has opened it: found on the store, checked against the caller's options, kept."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lode.codec.components import Components
from lode.codec.protocol import has_schema, takes_first_schema
from lode.errors import ComponentMismatchError, DataError, PathExistsError
from lode.evolution import adopt, check_columns, check_schema
from lode.format.ids import SnapshotIds, check_new_id
from lode.format.manifest import DROP, encode_manifest
from lode.format.paths import DefaultLayout
from lode.options import stricter, with_ids
from lode.read.define import LAYOUTS, Definitions, Located, components_named, locate
from lode.read.history import History
from lode.read.resolve import ANY_KEYS, Chain, Head, dataset_chain
from lode.read.state import States
from lode.runtime import ProcessLock, Runtime
from lode.snapshot import CommitReport, Snapshot
from lode.write.commit import Committer
from lode.write.dataset_draft import DatasetDraft
from lode.write.segments import is_boundary, write_segments
from lode.write.stage import Stager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    import pyarrow as pa

    from lode.codec.protocol import Chunk
    from lode.definition import Definition
    from lode.evolution import Evolution
    from lode.format.manifest import Manifest
    from lode.format.paths import Layout
    from lode.options import DatasetOptions
    from lode.store.protocol import Store
    from lode.write.removal import Removal
    from lode.write.retry import Retry


@dataclass(slots=True)
class FoundDataset:
    """A dataset as it was found on the store."""

    layout: Layout
    chain: Chain[Manifest]
    history: History
    committer: Committer[Manifest]
    definitions: Definitions
    states: States
    # Whether it exists. Until it does, another process may create it with any options.
    exists: bool
    # Components by the digest of their definition: making a codec for a schema is expensive.
    components: dict[str, Components]


class DatasetHandle:
    """Finds a dataset, and makes what reads and writes need: its components, its stagers, its commits.

    The dataset is looked up once, and again for as long as it does not exist.
    """

    def __init__(
        self,
        id: str,
        store: Store,
        given: DatasetOptions,
        *,
        writer: str | None,
        retry: Retry,
        observer: Callable[[str, CommitReport], None] | None,
        runtime: Runtime,
    ) -> None:
        self.id = id
        self.store = store
        self.given = given
        self.writer = writer
        self.retry = retry
        self.runtime = runtime
        self._observer = observer
        self._ids = SnapshotIds(runtime.now_ns, runtime.random_bits)
        # Whether the id may be written to. An id that may only be read is refused by each write.
        self._may_write = False
        self._found: FoundDataset | None = None
        # The history of a dataset that was dropped, if nothing was written since.
        self._dropped: Chain[Manifest] | None = None
        self._lock = ProcessLock()

    @property
    def exists(self) -> bool:
        """Whether the dataset has a snapshot now, also one that is committed and not yet published."""
        head = self.look()[1]
        return head.manifest is not None or head.pending is not None

    @property
    def layout(self) -> Layout:
        """The layout that was given, else the one on the store."""
        return self.find().layout if self.given.layout is None else self.given.layout

    def find(self) -> FoundDataset:
        """The dataset as it is on the store."""
        return self._find_with_head()[0]

    def look(self, *, refresh: bool = False) -> tuple[FoundDataset, Head[Manifest]]:
        """The dataset, and its head as it is now.

        Args:
            refresh: Whether the next commit expects that head.

        Raises:
            HistoryLostError: It had snapshots and has none; with ``refresh``, it had more.
        """
        found, head = self._find_with_head()
        if head is None:
            try:
                head = found.committer.refresh() if refresh else found.committer.look()
            except ComponentMismatchError:
                if self.given.layout is not None:
                    raise
            # It was dropped, and perhaps created anew with another layout.
            if head is None or head.dropped is not None:
                self.forget(found)
                return self.look(refresh=refresh)
        elif refresh:
            found.committer.expect(head)
        return found, head

    def find_to_write(self, *, wait: bool = True) -> tuple[FoundDataset, Head[Manifest]]:
        """The dataset, and the head that its next commit expects.

        Args:
            wait: Whether to wait for a commit of another thread. If not, the head may be the one before it.
        """
        if not self._may_write:
            check_new_id(self.id, kind="dataset")
            self._may_write = True
        found, head = self._find_with_head()
        if head is not None:
            self._adopt(found, head.dropped)
            found.committer.start_from(head)
        captured = found.committer.capture() if wait else found.committer.known_head()
        if head is None and captured.dropped is not None:
            self.forget(found)
            return self.find_to_write(wait=wait)
        return found, captured

    def _adopt(self, found: FoundDataset, dropped: Manifest | None) -> None:
        """Put the drop where the layout of the next history looks for it."""
        if dropped is not None and found.chain.manifest(dropped.snapshot_id) is None:
            with suppress(PathExistsError):
                self.store.put(found.chain.paths.manifest(dropped.snapshot_id), encode_manifest(dropped))

    def forget(self, found: FoundDataset) -> None:
        """Find the dataset anew: it was dropped, and what is written next may have other options."""
        with self._lock:
            if self._found is found:
                self._found = None

    def chain(self) -> Chain[Manifest]:
        """The history as objects on the store, also of a dataset whose definition or head is damaged."""
        try:
            found = self.find()
            is_there = found.exists or found.committer.has_head
            return self._dropped if self._dropped is not None and not is_there else found.chain
        except DataError:
            for layout in LAYOUTS if self.given.layout is None else (self.given.layout,):
                manifests = f"{layout.chain(self.id).manifests}/"
                if any(True for _ in self.store.list(manifests)):
                    return dataset_chain(self.store, self.id, layout)
            raise

    def _find_with_head(self) -> tuple[FoundDataset, Head[Manifest] | None]:
        """The dataset, and its head if this call has read it."""
        found = self._found
        if found is not None and (found.exists or found.committer.has_head):
            return found, None
        with self._lock:
            found = self._found
            if found is not None and (found.exists or found.committer.has_head):
                return found, None
            return self._locate(found)

    def _locate(self, found: FoundDataset | None) -> tuple[FoundDataset, Head[Manifest]]:
        known = None if found is None else found.committer.known
        located = locate(self.store, self.id, self.given.layout)
        head: Head[Manifest] = Head(None, None) if located is None else located.head
        self._dropped = None
        if located is not None and not located.exists:
            # It was dropped. A history with the same pointer continues after that.
            self._dropped = located.chain
            own = dataset_chain(self.store, self.id, self.given.layout or DefaultLayout())
            if own.paths.pointer != located.chain.paths.pointer:
                # Another place, where it may have been dropped too, under this layout or another.
                head = Head(None, None)
                with suppress(ComponentMismatchError):
                    head = own.resolve()
            located = None
        layout = self.given.layout or (located.layout if located else DefaultLayout())
        # Transactions that have begun use this committer, so it is kept while the layout is the same.
        if found is None or found.layout != layout:
            found, known = self._build(layout, located), None
        if located is not None:
            found = self._check(found, located)
            found.exists = True
        found.committer.saw(head, known)
        self._found = found
        return found, head

    def _check(self, found: FoundDataset, located: Located) -> FoundDataset:
        """Check the given options against what is stored; find the partition keys if they were not given."""
        if self.given.is_empty and found.layout is not ANY_KEYS:
            return found
        definition = found.definitions.at(located.newest)
        self.given.check(definition, self.id)
        if found.layout is ANY_KEYS and definition.keys:
            return self._build(definition.open_layout(), located, found.definitions)
        return found

    def _build(
        self, layout: Layout, located: Located | None, definitions: Definitions | None = None
    ) -> FoundDataset:
        chain = dataset_chain(self.store, self.id, layout)
        if located is not None:
            chain.take_remembered(located.chain)
        history = History(chain, self.runtime)
        definitions = definitions or Definitions(chain, self.id, layout, self.runtime, self.given.expected)
        states = States(
            chain, history, definitions, partial(layout.partition_of, self.id), self.components_of
        )

        def summarize(manifest: Manifest) -> None:
            if not is_boundary(manifest) or manifest.operation == DROP:
                return
            self.runtime.background(lambda: write_derived(manifest))

        def write_derived(manifest: Manifest) -> None:
            write_segments(chain, manifest)
            if states.is_due(manifest):
                states.write_checkpoint(manifest)

        committer = Committer(chain, self.runtime, self.retry, self._observer, summarize)
        return FoundDataset(layout, chain, history, committer, definitions, states, False, {})

    def components_of(self, manifest: Manifest) -> Components:
        """The codec, compressor and checksum of the files of one snapshot, by their names in its manifest."""
        named = components_named(manifest.codec, manifest.compressor, manifest.checksum_algorithm)
        given = self.given
        codec = given.codec if given.codec is not None and given.codec.name == manifest.codec else named.codec
        return Components(codec, named.compressor, given.checksum or named.checksum)

    def definition_at(self, found: FoundDataset, manifest: Manifest | None) -> Definition:
        """What the dataset is at a snapshot; without one, what it would be created as."""
        return self.given.definition() if manifest is None else found.definitions.at(manifest)

    def components(self, found: FoundDataset, definition: Definition) -> Components:
        """The codec, compressor and checksum of files of this definition."""
        known = found.components.get(definition.digest)
        if known is None:
            known = found.components[definition.digest] = self.given.components(definition)
        return known

    def follow_stored_schema(self) -> None:
        """Forget the schema that the caller has given: it has become, or changed, the stored one."""
        self.given = self.given.without_schema()
        if self._found is not None:
            self._found.components.clear()

    def stager(
        self,
        found: FoundDataset,
        base: Definition,
        target: Definition,
        schema: pa.Schema | None,
        snapshot_id: str | None,
        *,
        rewrites: bool = False,
    ) -> Stager:
        """Make a stager of files that fit ``target``, which was made from ``base``.

        Args:
            found: The dataset.
            base: Its definition as it is stored.
            target: Its definition once the files are committed.
            schema: The columns of the data, if they are known; they are checked here.
            snapshot_id: The id of the snapshot; a new one if not given.
            rewrites: Stored rows are rewritten, so a stricter schema that was given does not count.
        """
        components = self.components(found, target) if rewrites else self._components_to_write(found, target)
        if target.schema is not None and has_schema(components.codec):
            if schema is not None:
                check_columns(target, schema, self.id)
        elif schema is not None and takes_first_schema(components.codec) and has_schema(components.codec):
            components = replace(components, codec=components.codec.with_schema(schema))
        if target.columns is None and has_schema(components.codec) and components.codec.schema is not None:
            # This write gives the dataset its columns, so it also decides their ids.
            first = adopt(target, components.codec.schema)
            components = replace(components, codec=with_ids(components.codec, first))
        return Stager(
            self.store,
            self.id,
            found.layout,
            components,
            self._ids.next() if snapshot_id is None else snapshot_id,
            self.given.timestamp_column or target.timestamp_column,
            runtime=self.runtime,
            definition=base.digest,
            sort_by=target.sort_by,
        )

    def _components_to_write(self, found: FoundDataset, target: Definition) -> Components:
        """The components with the schema of the files: the dataset's, or a stricter one that was given."""
        key = f"{target.digest} to write"
        known = found.components.get(key)
        if known is None:
            known, given = self.components(found, target), self.given.schema
            if given is not None and target.schema is not None and has_schema(known.codec):
                check_schema(target, given, self.id)
                known = replace(known, codec=known.codec.with_schema(stricter(target.schema, given)))
            found.components[key] = known
        return known

    def define(self, found: FoundDataset, head: Head[Manifest], definition: Definition) -> bool:
        """Commit the derived definition of a dataset of 0.1 or Go, before a change that may rename columns.

        Files without a definition are read by the first one after them, which must not be the changed one.
        Returns whether there was anything to commit.
        """
        if head.manifest is None or head.manifest.definition is not None:
            return False
        self.commit_definition(found, head, definition, {}, "define", lambda unchanged: unchanged)
        return True

    def commit_unchanged(self, found: FoundDataset, operation: str, floor: int | None = None) -> None:
        """Commit a snapshot that changes neither rows nor columns, only what later snapshots know."""
        base = found.committer.settle()
        definition = self.definition_at(found, base.manifest)
        if self.define(found, base, definition):
            base = found.committer.settle()
        self.commit_definition(found, base, definition, {}, operation, lambda same: same, floor=floor)

    def commit_definition(
        self,
        found: FoundDataset,
        base: Head[Manifest],
        definition: Definition,
        metadata: dict[str, Any],
        operation: str,
        evolution: Evolution | None = None,
        removal: Removal | None = None,
        floor: int | None = None,
        suffix: str = "",
        *,
        creates: bool = False,
    ) -> Snapshot:
        """Commit a snapshot without files: it records what the dataset is, and what it removes."""
        components = self.components(found, definition)
        if has_schema(components.codec):
            # Nothing was staged, so there are no columns that must fit.
            components = Components(
                _Unwritten(components.codec.name), components.compressor, components.checksum
            )
        snapshot_id = self._ids.next() + suffix
        draft = DatasetDraft(
            snapshot_id,
            base,
            writer=self.writer,
            rebase=evolution is not None,
            stager=Stager(self.store, self.id, found.layout, components, snapshot_id, runtime=self.runtime),
            metadata=metadata,
            now_ns=self.runtime.now_ns,
            definitions=found.definitions,
            states=found.states,
            definition=definition,
            evolution=evolution,
            operation=operation,
            removal=removal,
            floor=floor,
            creates=creates,
        )
        committed = found.committer.commit(draft)
        return Snapshot(committed.manifest, committed.report)


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """The codec of a snapshot without files."""

    name: str

    def decode(self, source: BinaryIO) -> Iterator[Chunk]:
        return iter(())
