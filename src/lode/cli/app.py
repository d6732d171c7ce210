"""The command ``lode`` put together: its commands, what they have in common, and how it ends.

Nothing heavy is imported before a command needs it, so that help and completion answer at once.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

from lode.cli import (
    bench,
    cat,
    create,
    demo,
    diff,
    doctor,
    evolve,
    log,
    ls,
    schema,
    serve,
    show,
    spark,
    sql,
    sweep,
    ui,
    verify,
    version,
    write,
)
from lode.cli.failure import report

if TYPE_CHECKING:
    from collections.abc import Sequence

# What a shell reports for a program whose reader went away.
_READER_GONE: Final = 141
_DEBUG: Final = "--debug"

HELP: Final = """Snapshots on plain object storage: look at them, read them, write them, check them.

Say where they lie with --root, or once with the environment variable LODE_ROOT.
"""

EPILOG: Final = (
    "Exit codes: 0 done, 1 failed, 2 called wrongly, 3 not found, 4 another writer was faster, 5 problems "
    "found, 6 a write that may have landed."
)


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        """Run the command; a reader that has seen enough, such as head, is no failure to complain about."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _let_go_of_stdout()
            raise typer.Exit(_READER_GONE) from None
        return result


app: Final = typer.Typer(
    cls=_Commands,
    name="lode",
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    # Plain help: it starts in half the time, and can be read in any pipe.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_VERSION: Any = typer.Option(
    False, "--version", callback=version.told_at_once, is_eager=True, help="Say which."
)
_DEBUG_OPTION: Any = typer.Option(False, _DEBUG, help="Show where an error comes from.")


@app.callback()
def _common(debug: bool = _DEBUG_OPTION, version: bool = _VERSION) -> None:
    """Take what goes before every command; ``main`` acts on it."""


app.command("ls")(ls.ls)
app.command("log")(log.log)
app.command("show")(show.show)
app.command("diff")(diff.diff)
app.command("cat")(cat.cat)
app.command("schema")(schema.schema)
app.command("sql")(sql.sql)
app.command("create")(create.create)
app.command("evolve")(evolve.evolve)
app.command("write")(write.write)
app.command("verify")(verify.verify)
app.command("sweep")(sweep.sweep)
app.command("doctor")(doctor.doctor)
app.command("bench")(bench.bench)
app.add_typer(spark.app, name="spark")
app.command("serve", context_settings=serve.PASSED_ON, add_help_option=False)(serve.serve)
app.command("ui", context_settings=serve.PASSED_ON, add_help_option=False)(ui.ui)
app.command("demo", context_settings=serve.PASSED_ON, add_help_option=False)(demo.demo)
app.command("version")(version.version)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``lode`` and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = _DEBUG in given
    if debug:  # people add it at the end of the line that failed
        given = [_DEBUG, *(word for word in given if word != _DEBUG)]
    try:
        ended = app(given, prog_name="lode", standalone_mode=False)
    except SystemExit as asked:
        return asked.code if isinstance(asked.code, int) else int(asked.code is not None)
    except Exception as error:
        return report(error, debug=debug)
    return ended if isinstance(ended, int) else 0


def _let_go_of_stdout() -> None:
    """Python flushes stdout once more when it ends; there must be somebody to take it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
