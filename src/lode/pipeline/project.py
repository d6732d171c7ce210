"""A project: the pipelines of a lake, and how they are run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError, UsageError
from lode.lineage.runs import note_run
from lode.near import did_you_mean
from lode.pipeline.definition import SOURCE_OPTIONS
from lode.pipeline.expectation import Expectation
from lode.pipeline.graph import Graph, Node
from lode.pipeline.graph_run import GraphRun
from lode.pipeline.inputs import refuse_renamed
from lode.pipeline.modules import function_in
from lode.pipeline.pipeline import Pipeline
from lode.pipeline.step import INPUT, Step, reference
from lode.pipeline.task import Task
from lode.pipeline.values import dataset_of, flat, hidden, listed, mapping
from lode.spark.dataset_ref import DatasetRef, root_of
from lode.spark.options import DESCRIPTIONS, FILE_OPTIONS, Options, store_options
from lode.spark.session import is_remote_url, session
from lode.store.open import open_store
from lode.store.urls import shown

if TYPE_CHECKING:
    import threading

    from pyspark.sql import SparkSession

    from lode.lineage.runs import Run
    from lode.pipeline.batch import Batch
    from lode.pipeline.task import OnFailure
    from lode.store.protocol import Store

PIPELINE_KEYS: Final = (
    "from",
    "tables",
    "steps",
    "expect",
    "quarantine",
    "into",
    "recompute_by",
    "retries",
    "on_failure",
)
_PLACE_KEYS: Final = ("dataset", "lake", "store")
_READ_KEYS: Final = (*_PLACE_KEYS, "as")
_SINK_OPTIONS: Final = (*DESCRIPTIONS, *FILE_OPTIONS, "targetFileBytes", "sortBy", "mergeSchema")
_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*")


class Project:
    """The pipelines of a lake: defined in ``lake.yaml`` and read by ``load``, or in Python.

    Args:
        lake: Where the datasets are: a URL, or a directory relative to ``folder``.
        store_options: Options of the store, as for ``open_store``.
        master: Where Spark runs; ``sc://host`` is a server of Spark Connect.
        settings: Settings of Spark.
        folder: Where steps such as ``cleaning:without_robots`` and ``sql/gold.sql`` are found.
        parallel: How many pipelines run at once at most.
        every: Seconds between looks for new snapshots, in continuous mode.
        secrets: Texts that must not be in any message, beside the options of the store.
    """

    def __init__(
        self,
        lake: str | os.PathLike[str],
        *,
        store_options: Mapping[str, Any] | None = None,
        master: str = "local[*]",
        settings: Mapping[str, str] | None = None,
        folder: str | os.PathLike[str] = ".",
        parallel: int = 4,
        every: float = 5.0,
        secrets: Iterable[str] = (),
    ) -> None:
        self.folder = Path(folder).resolve()
        self.lake = _absolute(os.fspath(lake), self.folder)
        self.master = master
        self.settings = dict(settings or {})
        self.parallel = parallel
        self.every = every
        self.tasks: dict[str, Task] = {}
        self._store = flat(store_options or {})
        self._secrets = tuple(secrets)

    def __repr__(self) -> str:
        return f"Project({shown(self.lake)}, {list(self.tasks)})"

    def add(
        self,
        name: str,
        *,
        from_: Any,
        into: Any,
        tables: Any = None,
        steps: Step | Iterable[Step] = (),
        expect: Mapping[str, Any] | None = None,
        quarantine: Any = None,
        recompute_by: str | None = None,
        retries: int = 0,
        on_failure: str | OnFailure | None = None,
    ) -> Pipeline:
        """Add a pipeline. The arguments are the keys of ``lake.yaml``.

        Args:
            name: Names the work in the sink's history; another name begins anew.
            from_: The dataset whose new snapshots are read, or several: each a name, a mapping with
                ``dataset`` and options such as ``max_snapshots_per_batch``, or a ``DatasetRef``.
            into: The dataset that is written: a name, a mapping with ``dataset``, ``write``, ``on`` and
                options such as ``partition_by``, or a ``DatasetRef``.
            tables: Datasets that are read whole, by the names that steps give them; or a list of names.
            steps: SQL, ``sql/file.sql``, ``module:function`` or functions.
            expect: Conditions on the rows of the result, by name: each SQL, a mapping with ``check`` and
                ``on_fail``, or an ``Expectation``.
            quarantine: The dataset of rows that do not meet an expectation with ``on_fail: quarantine``.
            recompute_by: The column of which each value is computed again when its input rows change.
            retries: How often a run is tried again after an error that may pass.
            on_failure: Called with the pipeline's name and the error: a function or ``module:function``.

        Raises:
            InvalidOptionError: Something is wrong, or there is a pipeline of this name.
        """
        if not _NAME.fullmatch(name):
            raise InvalidOptionError(
                f"pipeline {name!r} cannot be named so: a letter, then letters, digits, '_', '-' and '.'"
            )
        if name in self.tasks:
            raise InvalidOptionError(f"there are two pipelines of the name {name!r}: rename one of them")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise InvalidOptionError(f"'retries' is {retries!r}: it is a whole number from 0")
        sink, write, on = self._sink(into)
        sources = self._sources(from_)
        made = [self._step(step) for step in listed(steps)]
        single = next(iter(sources)) if len(sources) == 1 else None
        also = self._tables(tables)
        if single in also:
            raise InvalidOptionError(f"{single!r} is an input and a table: give the table another name")
        pipeline = Pipeline(
            name,
            source=sources[single] if single else None,
            sources={} if single else sources,
            sink=sink,
            steps=[_named_input(step, single) for step in made] if single else made,
            tables=also,
            expect={
                key: _expectation(key, value) for key, value in mapping(expect or {}, "'expect'").items()
            },
            quarantine=None if quarantine is None else self._ref(quarantine, "'quarantine'", _PLACE_KEYS, ()),
            write=write,  # type: ignore[arg-type]  # it is checked there
            on=on,
            recompute_by=recompute_by,
        )
        hook = None if on_failure is None else function_in(self.folder, on_failure, "'on_failure'")
        self.tasks[name] = Task(pipeline, retries, hook, single)
        self.__dict__.pop("graph", None)
        return pipeline

    def pipeline(
        self,
        *,
        from_: Any,
        into: Any,
        name: str | None = None,
        steps: Step | Iterable[Step] = (),
        **given: Any,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a function that is the last step of a pipeline, with the arguments of ``add``.

        The parameters of the function are inputs and tables by their names.
        """

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            self.add(
                name or function.__name__, from_=from_, into=into, steps=[*listed(steps), function], **given
            )
            return function

        return decorate

    @property
    def store(self) -> Store:
        """The store of the lake."""
        return open_store(self.lake, **store_options(Options(self._store)))

    @cached_property
    def graph(self) -> Graph:
        """Which pipeline reads from which.

        Raises:
            InvalidOptionError: They read from each other in a ring, or replace rows of one dataset.
        """
        return Graph({name: _node(task.pipeline) for name, task in self.tasks.items()})

    def session(self) -> SparkSession:
        """The Spark session of the project."""
        # A server of Spark Connect has its own.
        fair = {} if is_remote_url(self.master) else {"spark.scheduler.mode": "FAIR"}
        return session(self.master, name=f"lode {self.folder.name}", settings={**fair, **self.settings})

    def run(
        self,
        spark: SparkSession,
        *,
        select: Iterable[str] = (),
        continuous: bool = False,
        full_refresh: Iterable[str] = (),
        since: str | None = None,
        until: str | None = None,
        progress: Callable[[str, Batch], None] | None = None,
        stop: threading.Event | None = None,
    ) -> dict[str, Run]:
        """Run the pipelines, each after those that it reads from, and return how each run ended.

        A pipeline that fails stops only those that read from it. The last runs are noted in the lake.

        Args:
            spark: The session for all of them.
            select: Only these: names, ``name+`` with all that read from it, ``+name`` with all before it.
            continuous: Go on until ``stop`` is set. An error is logged and noted, and the pipeline goes on.
            full_refresh: Pipelines that are computed anew from all of their input.
            since: Compute only this range of ``recompute_by`` anew: from here. Without ``full_refresh``,
                of all that are selected.
            until: Up to here, inclusive.
            progress: Called with the pipeline's name after each batch; one call at a time.
            stop: Ends the run after the batches that are running.
        """
        names, refresh = self.choose(select, full_refresh, since, until)
        if refresh and continuous:
            raise InvalidOptionError("a continuous run computes nothing anew: do that once, then go on")
        for name in names:
            refuse_renamed(self.tasks[name].pipeline, self.tasks)
        store = self.store
        run = GraphRun(
            spark,
            {
                name: replace(task, pipeline=replace(task.pipeline, every=self.every, mode="continuous"))
                if continuous
                else task
                for name, task in self.tasks.items()
            },
            self.graph,
            names,
            parallel=self.parallel,
            refresh=refresh,
            since=since,
            until=until,
            progress=progress,
            note=lambda name, noted: note_run(store, name, noted),
            shown=self.without_secrets,
            stop=stop,
        )
        return run.forever() if continuous else run.once()

    def choose(
        self,
        select: Iterable[str] = (),
        full_refresh: Iterable[str] = (),
        since: str | None = None,
        until: str | None = None,
    ) -> tuple[list[str], set[str]]:
        """The pipelines that a run with these arguments runs, in order, and those that it computes anew."""
        names = self.graph.select(select)
        if not names:
            raise InvalidOptionError("the project has no pipelines: add one")
        refresh = {self.graph.check_name(name) for name in full_refresh}
        if refresh - set(names):
            raise InvalidOptionError(
                f"{min(refresh - set(names))!r} is to be computed anew, but is not selected"
            )
        in_range = since is not None or until is not None
        return names, set(names) if in_range and not refresh else refresh

    def check(self) -> None:
        """Check everything that needs no Spark: options, steps, and that nothing is in a ring.

        Raises:
            InvalidOptionError: Something is wrong.
        """
        self.graph  # noqa: B018 - refuses rings and shared sinks
        for name, task in self.tasks.items():
            try:
                task.pipeline.check()
                refuse_renamed(task.pipeline, self.tasks)
            except UsageError as error:
                raise InvalidOptionError(f"pipeline {name!r}: {self.without_secrets(str(error))}") from None

    def without_secrets(self, text: str) -> str:
        """A message without values of the environment that may be secrets."""
        return hidden(text, self._secrets)

    def _sources(self, given: Any) -> dict[str, DatasetRef]:
        found: dict[str, DatasetRef] = {}
        for each in given if isinstance(given, list | tuple) else [given]:
            ref = self._ref(each, "'from'", _READ_KEYS, SOURCE_OPTIONS)
            name = str(each["as"]) if isinstance(each, Mapping) and each.get("as") else ref.dataset
            if name in found:
                raise InvalidOptionError(f"'from' has {name!r} twice: name one of them otherwise with 'as'")
            found[name] = ref
        return found

    def _tables(self, given: Any) -> dict[str, DatasetRef]:
        if not isinstance(given, Mapping):
            given = {dataset_of(each, "'tables'"): each for each in listed(given or ())}
        return {
            str(name): self._ref(each, f"table {name!r}", _PLACE_KEYS, ()) for name, each in given.items()
        }

    def _sink(self, given: Any) -> tuple[DatasetRef, str, list[str]]:
        ref = self._ref(given, "'into'", (*_PLACE_KEYS, "write", "on"), _SINK_OPTIONS)
        if not isinstance(given, Mapping):
            return ref, "append", []
        return (
            ref,
            str(given.get("write") or "append"),
            listed(given.get("on") or ()),
        )

    def _ref(self, given: Any, what: str, keys: tuple[str, ...], options: tuple[str, ...]) -> DatasetRef:
        """The reference that a name or a mapping stands for."""
        if isinstance(given, DatasetRef):
            return given
        described: dict[str, Any] = {"dataset": given} if isinstance(given, str) else mapping(given, what)
        spelled = {_snake(option): option for option in options}
        for key in described:
            if key not in keys and key not in spelled:
                names = (*keys, *spelled)
                hint = did_you_mean(key, names) or f"there are {', '.join(names)}"
                raise InvalidOptionError(f"{key!r} is unknown in {what}: {hint}")
        dataset = dataset_of(described, what)
        chosen = {
            spelled[key]: value for key, value in described.items() if key in spelled and value is not None
        }
        store = mapping(described.get("store") or {}, f"'store' in {what}")
        if described.get("lake") is not None:
            lake = _absolute(str(described["lake"]), self.folder)
            return DatasetRef(lake, dataset, **chosen, **flat(store))
        if store:
            raise InvalidOptionError(f"{what} has 'store' without 'lake': say of which lake its options are")
        return DatasetRef(self.lake, dataset, **chosen, **self._store)

    def _step(self, step: Any) -> Step:
        if callable(step):
            return step  # type: ignore[no-any-return]
        if not isinstance(step, str) or not step.strip():
            raise InvalidOptionError(
                f"a step is SQL, 'sql/file.sql', 'module:function' or a function, got {step!r}"
            )
        if step.strip().lower().endswith(".sql") and "\n" not in step.strip():
            return self._read(step.strip())
        return step if reference(step) is None else function_in(self.folder, step, "a step")

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOptionError(f"step {name} cannot be read: {error}") from None


def _node(pipeline: Pipeline) -> Node:
    sink, quarantine = pipeline.sink_ref, pipeline.quarantine_ref
    # An attempt replaces what an earlier one has put in quarantine.
    aside = [] if quarantine is None else [quarantine]
    return Node(
        frozenset(_identity(ref) for ref in (*pipeline.inputs.values(), *pipeline.table_refs.values())),
        frozenset(_identity(ref) for ref in (sink, *aside)),
        frozenset(_identity(ref) for ref in ([sink, *aside] if pipeline.replaces else aside)),
    )


def _identity(ref: DatasetRef) -> Hashable:
    """The same for all references to one dataset, whatever their options are."""
    return root_of(open_store(ref.path, **store_options(Options(ref.store_options)))), ref.dataset


def _named_input(step: Step, name: str) -> Step:
    """SQL in which the only input has its own name: as ``{input}``, it is what the step before has made."""
    if not isinstance(step, str):
        return step
    return re.sub(rf"(?<!\{{)\{{{re.escape(name)}\}}(?!\}})", f"{{{INPUT}}}", step)


def _expectation(name: str, given: Any) -> Expectation:
    if isinstance(given, Expectation):
        return given
    if isinstance(given, str):
        return Expectation(given)
    described = mapping(given, f"expectation {name!r}", ("check", "on_fail"))
    if not described.get("check"):
        raise InvalidOptionError(f"expectation {name!r} has no 'check': give a condition in SQL")
    return Expectation(described["check"], described.get("on_fail", "warn"))


def _absolute(lake: str, folder: Path) -> str:
    """The lake; a relative directory begins at the folder of the project."""
    return lake if "://" in lake or lake.startswith("file:") else str(folder / lake)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", name)
