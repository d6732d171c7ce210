"""The flags of serve and ui come from their settings: help, environment and documentation agree."""

# Annotations are values here, not text: flags are made from them.

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import lode
from lode.cli.flags import described, flags_of, with_flags
from lode.cli.parameters import store_options
from lode.cli.serve import NO_FLAGS
from lode.ingest.settings import Settings
from lode.ui_settings import UiSettings
from lode.units import Bytes, Seconds, age, byte_count, seconds, spelled_bytes, spelled_seconds
from support.cli.running import Run

CLI = (Path(__file__).parents[2] / "docs/reference/cli.md").read_text()
COMMANDS = pytest.mark.parametrize(
    ("command", "settings", "skip"),
    [("serve", Settings, NO_FLAGS), ("ui", UiSettings, frozenset())],
    ids=["serve", "ui"],
)


@COMMANDS
def test_every_setting_is_a_flag_a_variable_and_a_row_of_the_documentation(
    run: Run, command: str, settings: type, skip: frozenset[str]
) -> None:
    names = {field.name for field in dataclasses.fields(settings)}
    assert skip < names or not skip
    flags = list(flags_of(settings, command, skip=skip))
    assert {flag.field for flag in flags} == names - skip
    shown = " ".join(run(command, "--help").out.split())
    section = CLI.partition(f"\n## {command}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(--[\w-]+)` \| `(\w+)` \| (.*?) \| (.*) \|$", section, re.MULTILINE)
    for flag in flags:
        assert flag.help.endswith(".")
        assert f"{flag.option} " in shown
        assert f"{flag.help} [env var: {flag.environment}" in shown
        if flag.default:
            assert re.search(rf"{flag.environment}; default: \(?{re.escape(flag.default)}\)?\]", shown)
        assert (flag.option, flag.environment, flag.default, flag.help) in [
            (option, variable, default.strip(), text) for option, variable, default, text in rows
        ]
    documented = {option for option, *_ in rows} - {"--log-level"}
    assert documented == {flag.option for flag in flags}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """Settings of every kind.

    Args:
        name: A name.
        port: A port.
        room: A size.
        pause: A time, on
            two lines.
        folder: A folder.
        hosts: Some hosts.
        loud: Be loud.
    """

    name: str = "x"
    port: int = 1
    room: Bytes = 1 << 20
    pause: Seconds = 10.0
    folder: Path | None = None
    hosts: tuple[str, ...] = ()
    loud: bool = False


def given(*arguments: str, **environment: str) -> Any:
    """The settings that a command with these flags receives; the error text if it refuses them."""
    received: list[Example] = []
    app = typer.Typer(rich_markup_mode=None)

    def command(**given: Any) -> None:
        received.append(Example(**given))

    app.command()(with_flags(command, Example, "example"))
    result = CliRunner().invoke(app, arguments, env=environment)
    return received[0] if received else result.output


def test_defaults_are_those_of_the_settings() -> None:
    assert given() == Example()


def test_values_come_from_the_line_and_from_the_environment() -> None:
    expected = Example(
        name="y", port=2, room=64 << 20, pause=259200.0, folder=Path("z"), hosts=("a", "b"), loud=True
    )
    values = ["--name=y", "--port=2", "--room=64MiB", "--pause=3d", "--folder=z", "--host=a", "--host=b"]
    assert given(*values, "--loud") == expected
    variables = {"NAME": "y", "PORT": "2", "ROOM": "64MiB", "PAUSE": "3d", "FOLDER": "z"}
    variables |= {"HOST": "a b", "LOUD": "1"}
    assert given(**{f"LODE_EXAMPLE_{name}": value for name, value in variables.items()}) == expected
    assert given("--port", "3", LODE_EXAMPLE_PORT="2").port == 3


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--room", "64 elephants"], "'64 elephants' is no size: write a number of bytes"),
        (["--room", "1.5B"], "is no size"),
        (["--pause", "soon"], "'soon' is no length of time"),
        (["--pause", "nan"], "is no length of time"),
        (["--port", "many"], "'many' is not a whole number"),
    ],
)
def test_a_value_of_another_kind_is_refused(flags: list[str], sentence: str) -> None:
    assert sentence in " ".join(given(*flags).split())


def test_help_is_read_from_the_docstring() -> None:
    assert described(Example)["pause"] == "A time, on two lines."
    assert described(Settings).keys() == {field.name for field in dataclasses.fields(Settings)}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-5", -5),
        ("1kB", 1000),
        ("1.5 KiB", 1536),
        ("64mib", 64 << 20),
        ("2GB", 2 * 10**9),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_sizes(text: str, number: int) -> None:
    assert byte_count(text) == number


@pytest.mark.parametrize("number", [0, 1, 1000, 1024, 20 << 20, 64 << 30, (1 << 20) + 1])
def test_a_size_is_spelled_so_that_it_reads_back(number: int) -> None:
    assert byte_count(spelled_bytes(number)) == number


@pytest.mark.parametrize("number", [0.0, 0.5, 10.0, 90.0, 3600.0, 259200.0, 604800.0])
def test_a_time_is_spelled_so_that_it_reads_back(number: float) -> None:
    assert seconds(spelled_seconds(number)) == number


def test_serve_reads_its_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LODE_SERVE_PORT", "70000")
    ended = run("serve")
    assert (ended.code, ended.err) == (1, "lode serve: port is 70000: ports go from 0 to 65535\n")
    monkeypatch.setenv("LODE_SERVE_STREAM_TTL", "-3d")
    assert "stream_ttl is -259200.0" in run("serve", "--port", "0").err


@pytest.mark.parametrize("text", ["1e308TB", f"{'9' * 400}", f"{'9' * 308}w"])
def test_a_number_beyond_all_bounds_is_no_size_and_no_time(text: str) -> None:
    for read in (byte_count, seconds):
        with pytest.raises(ValueError, match="is no"):
            read(f"{text}")


def test_a_store_option_with_a_value_takes_no_inner_option() -> None:
    with pytest.raises(lode.InvalidOptionError, match="--store-option a has a value"):
        store_options(["a=1", "a.b=2"])


def test_an_age_beyond_all_bounds_is_refused() -> None:
    with pytest.raises(lode.InvalidOptionError, match="too long a time"):
        age(f"{'9' * 30}d")
