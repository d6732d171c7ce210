"""Find mistakes in a project without Spark: options, steps, SQL and columns, as far as they can be known."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lode.errors import LodeError
from lode.near import column_hint
from lode.pipeline.definition import SOURCE_OPTIONS
from lode.pipeline.inputs import refuse_renamed
from lode.pipeline.step import INPUT, plain_sql, reference

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from lode.pipeline.project import Project
    from lode.pipeline.step import Step
    from lode.pipeline.task import Task
    from lode.spark.dataset_ref import DatasetRef

# The names of columns; None if they are not known.
_Columns: TypeAlias = "tuple[str, ...] | None"

_DIALECT: Final = "spark"


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake. One that is not ``certain`` may be a construct of Spark that is not understood here."""

    pipeline: str
    text: str
    certain: bool = True

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def problems_in(project: Project) -> list[Problem]:
    """The mistakes in a project. Columns are followed through SQL, but not through functions.

    SQL is checked if sqlglot is installed, which the extra ``sql`` does.
    """
    found: list[Problem] = []
    made: dict[tuple[str, str], _Columns] = {}
    for name in project.graph.order:
        task = project.tasks[name]
        try:
            task.pipeline.check()
            refuse_renamed(task.pipeline, project.tasks)
        except LodeError as error:
            found.append(Problem(name, str(error)))
            continue
        checker = _Checker(task, made)
        found += checker.problems()
        made[_key(task.pipeline.sink_ref)] = checker.output
    return found


class _Checker:
    """The columns of one pipeline, step by step."""

    def __init__(self, task: Task, made: Mapping[tuple[str, str], _Columns]) -> None:
        self._task = task
        self._pipeline = task.pipeline
        self._made = made
        self.output: _Columns = None

    def problems(self) -> Iterator[Problem]:
        pipeline = self._pipeline
        try:
            inputs = {name: self._columns(ref) for name, ref in pipeline.inputs.items()}
            tables = {name: self._columns(ref) for name, ref in pipeline.table_refs.items()}
            stored = self._columns(pipeline.sink_ref)
        except LodeError as error:
            yield self._problem(str(error))
            return
        if pipeline.recompute_by is not None:
            for name, columns in inputs.items():
                shown = self._task.input_name or name
                yield from self._missing([pipeline.recompute_by], columns, f"recompute_by: input {shown!r}")
        frames = {**inputs, **tables}
        if len(inputs) == 1:
            frames[INPUT] = next(iter(inputs.values()))
        for number, step in enumerate(pipeline.steps, 1):
            frames[INPUT] = yield from self._step(step, frames, f"step {number}")
        self.output = frames.get(INPUT)
        if self.output is None:
            self.output = stored
        keys = pipeline.sink_ref.options.get("partitionBy", "")
        wanted = {
            "recompute_by": [pipeline.recompute_by] if pipeline.recompute_by else [],
            "partition_by": [key.strip() for key in keys.split(",") if key.strip()],
            "on": list(pipeline.on),
        }
        for option, names in wanted.items():
            yield from self._missing(names, self.output, f"{option}: the output")
        for name, expectation in pipeline.expect.items():
            text = f"SELECT 1 FROM {INPUT} WHERE {expectation.check}"
            yield from self._sql(text, {INPUT: self.output}, f"expectation {name!r}", [])

    def _step(
        self, step: Step, frames: Mapping[str, _Columns], what: str
    ) -> Generator[Problem, None, _Columns]:
        """Yield what is wrong with a step, and return the columns that it makes."""
        if not isinstance(step, str) or reference(step) is not None:
            return None
        made: list[str] = []
        yield from self._sql(plain_sql(step, list(frames)), frames, what, made)
        return tuple(made) if made else None

    def _sql(
        self, text: str, frames: Mapping[str, _Columns], what: str, made: list[str]
    ) -> Iterator[Problem]:
        """Parse SQL and resolve its columns; the names of its result are added to ``made``."""
        try:
            import sqlglot
            from sqlglot import exp
            from sqlglot.errors import SqlglotError
            from sqlglot.optimizer.qualify import qualify
        except ModuleNotFoundError:
            return
        try:
            parsed = sqlglot.parse_one(text, dialect=_DIALECT)
        except SqlglotError as error:
            yield self._problem(f"{what} is not SQL: {_sentence(error)}")
            return
        if not isinstance(parsed, exp.Query):
            yield self._problem(f"{what} is no query: it begins with {text.split(None, 1)[0]!r}")
            return
        read = {table.name for table in parsed.find_all(exp.Table)}
        known = {name: columns for name, columns in frames.items() if columns is not None}
        if not read & set(frames) <= set(known):
            return
        schema: dict[str, object] = {
            name: dict.fromkeys(columns, "string") for name, columns in known.items()
        }
        try:
            resolved = qualify(parsed, dialect=_DIALECT, schema=schema, quote_identifiers=False)
        except SqlglotError as error:
            yield self._problem(f"{what}: {_sentence(error)}", certain=False)
            return
        except Exception:  # it does not understand everything that Spark does
            return
        names = resolved.named_selects if isinstance(resolved, exp.Query) else []
        if names and "*" not in names and "" not in names:
            made += names

    def _missing(self, wanted: Sequence[str], columns: _Columns, what: str) -> Iterator[Problem]:
        for name in wanted if columns is not None else ():
            if name not in (columns or ()):
                yield self._problem(f"{what} has no column {name!r}: {column_hint(name, columns or ())}")

    def _columns(self, ref: DatasetRef) -> _Columns:
        """The columns of a dataset: as it is stored, or as a pipeline before this one makes it."""
        place = ref.without(SOURCE_OPTIONS)
        if not place.exists:
            return self._made.get(_key(ref))
        columns = place.open().definition.columns
        return None if columns is None else tuple(column.name for column in columns)

    def _problem(self, text: str, *, certain: bool = True) -> Problem:
        return Problem(self._pipeline.name, text, certain)


def _key(ref: DatasetRef) -> tuple[str, str]:
    return ref.path, ref.dataset


def _sentence(error: Exception) -> str:
    """The first line of an error of sqlglot, without its marks for terminals."""
    return re.sub(r"\x1b\[\d+m", "", str(error)).strip().partition("\n")[0].rstrip(".")
