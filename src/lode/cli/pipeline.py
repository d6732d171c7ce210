"""``lode spark run``, ``validate``, ``status``, ``lineage`` and ``test``: projects of pipelines."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path  # noqa: TC003, typer reads the types of parameters
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.change import open_existing
from lode.cli.failure import FAILED, PROBLEMS, failing_as
from lode.cli.parameters import AS_OF, DATASET, JSON, JSON_LINES, ROOT, STORE_OPTION
from lode.cli.terminal import FAINT, TextTable, print_json, print_lines, printable, short_id
from lode.errors import InvalidOptionError
from lode.units import count, moment, spelled_seconds

if TYPE_CHECKING:
    from lode.lineage.flow import Origin
    from lode.lineage.runs import Run
    from lode.pipeline.batch import Batch
    from lode.pipeline.project import Project
    from lode.pipeline.status import Status

_PROJECT: Final[Any] = typer.Argument(
    ..., metavar="PROJECT", help="The YAML file; its folder is searched for steps."
)
_SELECT: Final[Any] = typer.Option(
    [],
    "--select",
    "-s",
    metavar="NAME",
    help="Only these: a name, name+ with all that read from it, +name with all before it. May be repeated.",
)
_ONCE: Final[Any] = typer.Option(False, "--once", help="Process what is waiting, then end: the default.")
_CONTINUOUS: Final[Any] = typer.Option(False, "--continuous", help="Go on until SIGINT or SIGTERM.")
_REFRESH: Final[Any] = typer.Option(
    [], "--full-refresh", metavar="NAME", help="Compute this pipeline anew. May be repeated."
)
_SINCE: Final[Any] = typer.Option(
    None, "--since", metavar="VALUE", help="Compute anew from this value of recompute_by on."
)
_UNTIL: Final[Any] = typer.Option(
    None, "--until", metavar="VALUE", help="Compute anew up to this value of recompute_by."
)
_DRY_RUN: Final[Any] = typer.Option(False, "--dry-run", help="Only say what would be done; starts no Spark.")
_SHOWN_VALUES: Final = 5
_NUMBERS: Final = ("batches", "rows in", "rows out", "time")


def run(
    project: Path = _PROJECT,
    select: list[str] = _SELECT,
    once: bool = _ONCE,
    continuous: bool = _CONTINUOUS,
    full_refresh: list[str] = _REFRESH,
    since: str | None = _SINCE,
    until: str | None = _UNTIL,
    dry_run: bool = _DRY_RUN,
    json: bool = JSON_LINES,
) -> None:
    """Run the pipelines of a project, each after those it reads from.

    Each batch is a line on stdout, then each pipeline. The exit code is 1 if a pipeline fails.
    """
    if once and continuous:
        raise InvalidOptionError("--once and --continuous contradict each other: give one of them")
    if (since is not None or until is not None) and not (select or full_refresh):
        raise InvalidOptionError("--since and --until compute a range anew: say of what with --select")
    with failing_as("lode"):
        found = _load(project)
        found.check()  # Spark takes long to start
        if dry_run:
            names, refresh = found.choose(select, full_refresh, since, until)
            _print_plans(found, names, refresh, json=json)
            return
        from lode.spark.session import stop as stop_session

        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        spark = found.session()
        try:
            runs = found.run(
                spark,
                select=select,
                continuous=continuous,
                full_refresh=full_refresh,
                since=since,
                until=until,
                progress=lambda name, batch: _print_batch(name, batch, json=json),
                stop=stop,
            )
        finally:
            stop_session(spark)
    _print_runs(runs, json=json)
    if any(run.state in ("failed", "skipped") for run in runs.values()):
        raise typer.Exit(FAILED)


def validate(project: Path = _PROJECT, json: bool = JSON_LINES) -> None:
    """Check a project without Spark: names, steps, SQL and columns.

    The exit code is 5 if there are problems.
    """
    from lode.pipeline.validate import problems_in

    try:
        found = _load(project)
    except InvalidOptionError as error:
        if json:
            print_json({"pipeline": None, "text": str(error), "certain": True})
        else:
            print_lines(printable(str(error)))
        raise typer.Exit(PROBLEMS) from None
    problems = problems_in(found)
    for problem in problems:
        if json:
            print_json(problem.as_dict())
        else:
            kind = "" if problem.certain else "perhaps: "
            print_lines(f"{problem.pipeline}: {kind}{printable(found.without_secrets(problem.text))}")
    if not problems and not json:
        print(f"{project}: {count(len(found.tasks), 'pipeline')}, no problems")
    if any(problem.certain for problem in problems):
        raise typer.Exit(PROBLEMS)


def status(project: Path = _PROJECT, select: list[str] = _SELECT, json: bool = JSON_LINES) -> None:
    """Show what waits for each pipeline, and how its last run ended."""
    from lode.pipeline.status import status_of

    _print_status(status_of(_load(project), select), json=json)


def _print_status(found: list[Status], *, json: bool) -> None:
    if json:
        for each in found:
            print_json(each.as_dict())
        return
    headings = ("pipeline", "waiting", "rows", "lag", "last run", "state", "not met", "remark")
    table = TextTable(*headings, right=("waiting", "rows"), cut=True)
    for each in found:
        last = each.last_run
        table.add(
            each.pipeline,
            f"{each.waiting:,}",
            f"{each.rows:,}",
            spelled_seconds(round(each.lag_seconds())) if each.oldest else "-",
            moment(last.ended_at) if last else "-",
            last.state if last else "-",
            ", ".join(f"{one.name} {one.failed:,}" for one in each.expectations),
            each.last_error or ("the steps have changed since" if each.steps_changed else ""),
        )
    print_lines(table)


def lineage(
    dataset: str = DATASET,
    root: str = ROOT,
    as_of: str | None = AS_OF,
    json: bool = JSON,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Show from which snapshots and by which steps a dataset was made."""
    import msgspec

    from lode.lineage.flow import origin_of

    found = open_existing(dataset, root, store_option)
    origin = origin_of(found, found.snapshot(as_of or "latest"))
    if json:
        print_json(msgspec.to_builtins(origin))
    else:
        print_lines(*_tree(origin))


def check_steps(project: Path = _PROJECT, select: list[str] = _SELECT, json: bool = JSON_LINES) -> None:
    """Run steps on the small frames in tests/ beside a project.

    The exit code is 1 if a case fails.
    """
    from lode.pipeline.cases import cases_of, run_case
    from lode.spark.session import stop as stop_session

    with failing_as("lode"):
        found = _load(project)
        found.check()
        cases = cases_of(found, select)
        if not cases:
            raise InvalidOptionError(
                f"{found.folder / 'tests'} has no cases: make tests/<pipeline>/<case>/expected.yaml"
            )
        spark = found.session()
        try:
            failed = 0
            for case in cases:
                result = run_case(found, spark, case)
                failed += not result.ok
                if json:
                    about = {"pipeline": case.pipeline, "case": case.name, "ok": result.ok}
                    more = {"problem": result.problem, "diff": result.diff(), "failed": result.failed}
                    print_json({**about, **more})
                    continue
                problem = "" if result.ok else f": {result.problem}"
                print_lines(f"{'ok    ' if result.ok else 'FAILED'}  {case.pipeline}/{case.name}{problem}")
                print_lines(*(f"    {printable(line)}" for line in result.diff()))
                print_lines(*(f"    {count(n, 'row')} not as {name}" for name, n in result.failed.items()))
        finally:
            stop_session(spark)
    if not json:
        print(f"{count(len(cases), 'case')}, {failed:,} failed")
    if failed:
        raise typer.Exit(FAILED)


def _load(path: Path) -> Project:
    from lode.pipeline import load

    return load(path)


def _print_plans(project: Project, names: list[str], refresh: set[str], *, json: bool) -> None:
    """What a run would do. A pipeline sees what those before it have written so far."""
    table = TextTable("pipeline", "action", "snapshots", "rows", "why", right=("snapshots", "rows"), cut=True)
    for name in names:
        plan = project.tasks[name].pipeline.plan()
        action = "refresh" if name in refresh else plan.action
        if json:
            print_json({"pipeline": name, **plan.as_dict(), "action": action})
            continue
        why = plan.reason or ""
        if plan.recompute is not None:
            more = ["…"] if len(plan.recompute) > _SHOWN_VALUES else []
            values = ", ".join([*plan.recompute[:_SHOWN_VALUES], *more])
            why = f"{project.tasks[name].pipeline.recompute_by} {values}"
        if plan.steps_changed_after:
            why += f"{why and '; '}the steps have changed: --full-refresh {name} computes all rows anew"
        table.add(name, action, f"{plan.snapshots:,}", f"{plan.rows:,}", project.without_secrets(why))
    if not json:
        print_lines(table)


def _print_batch(name: str, batch: Batch, *, json: bool) -> None:
    if json:
        print_json({"pipeline": name, **batch.as_dict()})
    else:
        print(
            f"{name} batch {batch.number}: {batch.snapshots_in} snapshots, {batch.rows_in:,} rows in, "
            f"{batch.rows_out:,} rows out, {batch.seconds:.1f} s → {batch.snapshot.id}"
            f"{' (had been done before)' if batch.replayed else ''}"
        )
    sys.stdout.flush()


def _print_runs(runs: dict[str, Run], *, json: bool) -> None:
    import msgspec

    if json:
        for name, run in runs.items():
            print_json({"pipeline": name, **msgspec.to_builtins(run)})
        return
    table = TextTable("pipeline", "state", "batches", "rows in", "rows out", "time", "error", right=_NUMBERS)
    for name, run in runs.items():
        seconds = (run.ended_at - run.started_at).total_seconds()
        tries = f" ({run.tries:,} tries)" if run.tries > 1 else ""
        cells = (f"{run.batches:,}", f"{run.rows_in:,}", f"{run.rows_out:,}", f"{seconds:.1f} s")
        table.add(name, run.state + tries, *cells, run.error or "")
    print_lines(table)


def _tree(origin: Origin, stem: str = "", joint: str = "") -> list[Any]:
    """A line for each dataset, with those that it was made from below it."""
    from rich.text import Text

    name = f"{origin.dataset} as {origin.table}" if origin.table else origin.dataset
    span = (
        f"{origin.after + 1:,} to {origin.up_to:,}"
        if origin.after + 1 < origin.up_to
        else f"{origin.up_to:,}"
    )
    head = Text.assemble((stem + joint, FAINT), (printable(name), "bold"))
    head.append(f"  snapshot{'s' if ' ' in span else ''} {span}" if joint else f"  snapshot {origin.up_to:,}")
    head.append(f"  {short_id(origin.snapshot)}", FAINT)
    below = stem + {"├─ ": "│  ", "└─ ": "   "}.get(joint, "")
    lines = [head]
    if origin.problem:
        lines.append(Text(f"{below}   {printable(origin.problem)}", "yellow"))
    if origin.repeated:
        head.append("  as above", FAINT)
    if origin.lineage is not None:
        stem_below = f"{below}{'│' if origin.inputs else ' '}  "
        made = f"{stem_below}by {origin.lineage.maker}"
        made += f", steps {origin.lineage.steps}" if origin.lineage.steps else ""
        lines.append(Text(printable(made) + (f", {moment(origin.made_at)}" if origin.made_at else ""), FAINT))
        read = (f"{stem_below}from {source.words}" for source in origin.lineage.sources)
        lines += [Text(printable(line), FAINT) for line in read]
    for number, each in enumerate(origin.inputs, 1):
        lines += _tree(each, below, "└─ " if number == len(origin.inputs) else "├─ ")
    return lines
