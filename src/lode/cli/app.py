"""The application ``lode``: its commands in groups, the common options, and exit codes.

Heavy packages are imported only by commands that need them, so help and completion stay fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

from lode.cli import (
    bench,
    cat,
    compact,
    copy,
    create,
    delete,
    demo,
    diff,
    doctor,
    drop,
    evolve,
    expire,
    log,
    ls,
    merge,
    overwrite,
    rename,
    restore,
    schema,
    serve,
    show,
    spark,
    sql,
    sweep,
    tags,
    ui,
    verify,
    version,
    write,
)
from lode.cli.failure import report
from lode.cli.parameters import COMMON_JSON, COMMON_ROOT, COMMON_STORE_OPTION
from lode.cli.terminal import set_quiet
from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# The codes that a shell reports for SIGPIPE and SIGINT.
_PIPE_CLOSED: Final = 141
_INTERRUPTED: Final = 130
_DEBUG: Final = "--debug"
# Options of the application that are accepted anywhere in the line.
_ANYWHERE: Final = (_DEBUG, "--quiet")

HELP: Final = """Snapshots on plain object storage: list, read, write and check them.

Name the store with --root, before or after the command, or with the environment variable LODE_ROOT.
"""

EPILOG: Final = (
    "Exit codes: 0 done, 1 failed, 2 called wrongly, 3 not found, 4 another writer was faster, 5 problems "
    "found, 6 a write that may have landed."
)


class _Commands(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LateCommands()

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        """Run the command. A closed pipe, as by ``head``, prints no error."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_stdout()
            raise typer.Exit(_PIPE_CLOSED) from None
        return result

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; refuse ``--json`` before a command without it instead of ignoring it."""
        name, command, rest = super().resolve_command(ctx, args)
        if ctx.params.get("json") and command is not None and not hasattr(command, "commands"):
            takes = {parameter.name for parameter in command.params}
            if "json" not in takes:
                raise InvalidOptionError(f"lode {name} has no --json: leave it out")
        return name, command, rest

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """List the commands by group, without building them."""
        # One width for all groups puts the descriptions into one column.
        width = max(map(len, self.commands))
        room = formatter.width - width - 4
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:{width}}", shorten(_first_line(made), room, placeholder="…"))
                        for name, made in commands.items()
                    ]
                )


class _LateCommands(MutableMapping[str, Any]):
    """The commands by name, each built on first use: building all takes longer than running most."""

    def __init__(self) -> None:
        self._functions = {name: made for commands in _GROUPS.values() for name, made in commands.items()}
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _command(name, self._functions[name])
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


def _command(name: str, made: Callable[..., None] | typer.Typer) -> Any:
    if isinstance(made, typer.Typer):
        return typer.main.get_command(made)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name)(_WITH_SETTINGS[name]() if name in _WITH_SETTINGS else made)
    return typer.main.get_command(single)


def _first_line(made: Callable[..., None] | typer.Typer) -> str:
    text = made.info.help if isinstance(made, typer.Typer) else made.__doc__
    return (text or "").partition("\n")[0]


app: Final = typer.Typer(
    cls=_Commands,
    name="lode",
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    # Plain help starts in half the time and is readable in any pipe.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_VERSION: Any = typer.Option(
    False, "--version", callback=version.print_version, is_eager=True, help="Print the version."
)
_DEBUG_OPTION: Any = typer.Option(False, _DEBUG, help="Print the traceback of an error.")
_QUIET: Any = typer.Option(False, "--quiet", callback=set_quiet, help="Show no progress.")


@app.callback()
def _common(
    root: str | None = COMMON_ROOT,
    store_option: list[str] = COMMON_STORE_OPTION,
    json: bool = COMMON_JSON,
    quiet: bool = _QUIET,
    debug: bool = _DEBUG_OPTION,
    version: bool = _VERSION,
) -> None:
    """Accept the common options before the command; see ``parameters.py``."""


_GROUPS: Final[dict[str, dict[str, Callable[..., None] | typer.Typer]]] = {
    "Look": {
        "ls": ls.ls,
        "schema": schema.schema,
        "log": log.log,
        "show": show.show,
        "diff": diff.diff,
    },
    "Read": {"cat": cat.cat, "sql": sql.sql},
    "Write": {
        "create": create.create,
        "evolve": evolve.evolve,
        "write": write.write,
        "copy": copy.copy,
    },
    "Change": {
        "overwrite": overwrite.overwrite,
        "delete": delete.delete,
        "merge": merge.merge,
        "restore": restore.restore,
        "compact": compact.compact,
        "expire": expire.expire,
        "drop": drop.drop,
    },
    "Name": {
        "tag": tags.tag,
        "untag": tags.untag,
        "tags": tags.tags,
        "rename": rename.rename,
    },
    "Check": {
        "verify": verify.verify,
        "sweep": sweep.sweep,
        "doctor": doctor.doctor,
        "bench": bench.bench,
    },
    "Run": {
        "serve": serve.serve,
        "ui": ui.ui,
        "spark": spark.app,
        "demo": demo.demo,
        "version": version.version,
    },
}
# Commands whose flags come from a dataclass.
_WITH_SETTINGS: Final = {"serve": serve.with_settings, "ui": ui.with_settings}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``lode`` and return its exit code."""
    given = _anywhere_first(list(sys.argv[1:] if arguments is None else arguments))
    debug = _DEBUG in given[: len(_ANYWHERE)]
    try:
        ended = app(given, prog_name="lode", standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (KeyboardInterrupt, typer.Abort):
        return _INTERRUPTED
    except Exception as error:
        return report(error, debug=debug)
    return ended if isinstance(ended, int) else 0


def _anywhere_first(words: list[str]) -> list[str]:
    """Move the options of ``_ANYWHERE`` to the front, except after ``--``."""
    end = words.index("--") if "--" in words else len(words)
    found = [word for word in _ANYWHERE if word in words[:end]]
    return [*found, *(word for word in words[:end] if word not in found), *words[end:]]


def _discard_stdout() -> None:
    """Point stdout to ``/dev/null``, since Python flushes it once more at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
