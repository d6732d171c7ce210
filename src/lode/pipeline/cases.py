"""Tests of steps: small frames in files beside a project, and the rows that they must become.

tests/<pipeline>/<case>/<input or table>.yaml, .json or .csv, and expected.yaml, .json or .csv; and, if an
expectation puts rows aside, quarantined.yaml, .json or .csv
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError, NotFoundError
from lode.pipeline.expectation import FAILED, bits_of, with_failed
from lode.pipeline.values import mapping
from lode.pipeline.yaml_text import load_yaml
from lode.spark.session import functions_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lode.pipeline.expectation import Expectation
    from lode.pipeline.project import Project

FOLDER: Final = "tests"
EXPECTED: Final = "expected"
QUARANTINED: Final = "quarantined"
_FORMATS: Final = (".json", ".yaml", ".yml", ".csv")
_SHOWN_ROWS: Final = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A folder with the inputs of a pipeline's steps and the rows that they must become."""

    pipeline: str
    path: Path

    @property
    def name(self) -> str:
        return self.path.name


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How a case ended: ``problem`` is None if the rows are those expected.

    ``missing`` are expected rows that were not made, ``unexpected`` are the others, as JSON. ``failed`` is
    the number of rows that fail each expectation, if some do.
    """

    case: Case
    problem: str | None = None
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    failed: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.problem is None

    def diff(self) -> list[str]:
        """The rows that differ, as lines that begin with - or +."""
        lines = [f"- {row}" for row in self.missing] + [f"+ {row}" for row in self.unexpected]
        rest = len(lines) - _SHOWN_ROWS
        return [*lines[:_SHOWN_ROWS], *([f"… and {rest:,} more"] if rest > 0 else [])]


@dataclass(frozen=True, slots=True)
class _Rows:
    rows: list[dict[str, Any]]
    schema: str | None


def cases_of(project: Project, select: Iterable[str] = ()) -> list[Case]:
    """The cases of the chosen pipelines, in order.

    Raises:
        InvalidOptionError: A folder below ``tests`` has the name of no pipeline.
    """
    root = project.folder / FOLDER
    names = project.graph.select(select)
    for folder in _folders(root):
        try:
            project.graph.check_name(folder.name)
        except NotFoundError as error:
            raise InvalidOptionError(f"{folder} holds tests of {error}") from None
    return [Case(name, folder) for name in names for folder in _folders(root / name)]


def run_case(project: Project, spark: SparkSession, case: Case) -> CaseResult:
    """Run the steps on the frames of a case, and compare the rows in any order."""
    task = project.tasks[case.pipeline]
    pipeline = task.pipeline
    try:
        files = _files(case.path)
        expected = _read(_only(files, EXPECTED, case))
        names = [*task.input_names, *pipeline.tables]
        has_quarantine = any(each.on_fail == "quarantine" for each in pipeline.expect.values())
        results = (EXPECTED, QUARANTINED) if has_quarantine else (EXPECTED,)
        for name in files:
            if name not in (*names, *results):
                raise InvalidOptionError(f"{files[name].name} is no input: there are {', '.join(names)}")
        frames = {name: _frame(spark, _read(_only(files, name, case))) for name in names}
        made = task.output(frames)
        if not pipeline.expect:
            return _compared(case, spark, made, expected)
        checked = _checked(made, pipeline.expect)
        if checked.refused:
            return CaseResult(case, checked.refused, failed=checked.failed)
        result = _compared(case, spark, checked.written, expected)
        if result.ok and has_quarantine and QUARANTINED in files:
            result = _compared(case, spark, checked.quarantined, _read(files[QUARANTINED]))
            if not result.ok:
                result = replace(result, problem=f"of the quarantine, {result.problem}")
        return replace(result, failed=checked.failed)
    except Exception as error:  # a case that cannot run has failed, and the others go on
        text = str(error).strip().partition("\n")[0]
        kind = "" if isinstance(error, InvalidOptionError) else f"{type(error).__name__}: "
        return CaseResult(case, project.without_secrets(kind + text))


@dataclass(frozen=True, slots=True)
class _Checked:
    """What expectations make of rows. ``refused`` says why nothing would be written."""

    written: DataFrame
    quarantined: DataFrame
    failed: dict[str, int]
    refused: str | None


def _checked(made: DataFrame, expect: Mapping[str, Expectation]) -> _Checked:
    rows = with_failed(made, expect, None).persist()
    bits = functions_of(made.sparkSession).col(FAILED)
    failed, refused = {}, None
    for number, (name, each) in enumerate(expect.items()):
        wrong = rows.where(bits.bitwiseAND(1 << number) != 0)
        if count := wrong.count():
            failed[name] = count
            if each.on_fail == "fail":
                refused = refused or f"{count:,} rows fail expectation {name!r} ({each.check})"
    written = rows.where(bits.bitwiseAND(bits_of(expect, "drop", "quarantine")) == 0)
    quarantined = rows.where(bits.bitwiseAND(bits_of(expect, "quarantine")) != 0)
    return _Checked(written.drop(FAILED), quarantined.drop(FAILED), failed, refused)


def _compared(case: Case, spark: SparkSession, made: DataFrame, expected: _Rows) -> CaseResult:
    wanted = list(dict.fromkeys(name for row in expected.rows for name in row))
    for name in wanted:
        if name not in made.columns:
            return CaseResult(case, f"column {name!r} is expected: there are {', '.join(made.columns)}")
    if wanted and (more := [name for name in made.columns if name not in wanted]):
        return CaseResult(case, f"column {more[0]!r} is not expected")
    # Read with the types that were made, so that 1 and 1.0, or a date and its text, are the same.
    right = _rows_of(_typed(spark, expected.rows, made.schema)) if expected.rows else Counter()
    found = _rows_of(made)
    missing, unexpected = tuple((right - found).elements()), tuple((found - right).elements())
    if not missing and not unexpected:
        return CaseResult(case)
    problem = f"{len(missing):,} rows are missing, {len(unexpected):,} are not expected"
    return CaseResult(case, problem, missing, unexpected)


def _rows_of(frame: DataFrame) -> Counter[str]:
    return Counter(
        json.dumps(_plain(row.asDict(recursive=True)), default=str, ensure_ascii=False)
        for row in frame.collect()
    )


def _plain(value: Any) -> Any:
    """A value that compares well: sums of floats differ in their last digits by the order of their rows."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def _frame(spark: SparkSession, read: _Rows) -> DataFrame:
    if read.schema is not None:
        return _typed(spark, read.rows, read.schema)
    if not read.rows:
        raise InvalidOptionError("a file without rows needs its columns: {schema: 'id long', rows: []}")
    return spark.createDataFrame(_widened(read.rows))  # type: ignore[type-var]  # pyspark takes dicts too


def _widened(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in which 1 and 1.5 of a column are of one type."""
    fractions = {name for row in rows for name, value in row.items() if isinstance(value, float)}
    return [
        {
            name: float(value) if name in fractions and isinstance(value, int) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _typed(spark: SparkSession, rows: list[dict[str, Any]], schema: str | StructType) -> DataFrame:
    """Rows with the types of a schema. JSON is what reads dates, times and decimals from text."""
    from pyspark.sql.types import StructType

    texts = [(json.dumps(row, default=str),) for row in rows]
    frame = spark.createDataFrame(texts, "value string")
    # A value that does not fit fails; without this it would be null. Null is allowed everywhere.
    kind = schema.simpleString() if isinstance(schema, StructType) else schema
    return frame.select(
        functions_of(spark).from_json("value", kind, {"mode": "FAILFAST"}).alias("row")
    ).select("row.*")


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(("_", ".")))


def _files(folder: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in _FORMATS:
            if path.stem in found:
                raise InvalidOptionError(f"{path.name} and {found[path.stem].name} are the same input")
            found[path.stem] = path
    return found


def _only(files: Mapping[str, Path], name: str, case: Case) -> Path:
    if name not in files:
        raise InvalidOptionError(f"{case.path / name}.yaml is missing: .json and .csv are fine too")
    return files[name]


def _read(path: Path) -> _Rows:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix.lower() == ".csv":
            rows = [
                {name: _value(value) for name, value in row.items()}
                for row in csv.DictReader(text.splitlines())
            ]
            return _Rows(rows, None)
        if path.suffix.lower() == ".json":
            content = json.loads(text)
        else:
            try:
                content = load_yaml(text, "tests in YAML")
            except InvalidOptionError as error:
                raise InvalidOptionError(f"{path}: {error}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidOptionError):
            raise
        raise InvalidOptionError(f"{path} cannot be read: {error}") from None
    schema = None
    if isinstance(content, Mapping):
        described = mapping(content, path.name, ("schema", "rows"))
        schema, content = str(described.get("schema") or "") or None, described.get("rows") or []
    if not isinstance(content, list) or not all(isinstance(row, Mapping) for row in content):
        raise InvalidOptionError(f"{path} is a list of rows, or {{schema: 'id long', rows: […]}}")
    return _Rows([{str(key): value for key, value in row.items()} for row in content], schema)


def _value(text: str | None) -> Any:
    """A value of CSV: a number if it looks like one, null if it is empty."""
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
