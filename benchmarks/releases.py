"""What each release measured, in one small file of numbers each, and the table that compares them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.aim import MET
from benchmarks.aims import AIMS
from benchmarks.markdown import grid
from benchmarks.results import HOME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.aim import Aim
    from benchmarks.table import PartResult

FOLDER: Final = HOME / "releases"
_NAME: Final = re.compile(r"\d+(\.\d+)*")


class ReleaseError(Exception):
    """A release that cannot be kept."""


class Release(msgspec.Struct, frozen=True):
    """What was measured for a release: when each part began, and the number of each aim by its words."""

    name: str
    parts: dict[str, str]
    aims: dict[str, float]

    @property
    def days(self) -> str:
        found = sorted({started[:10] for started in self.parts.values()})
        return " to ".join(dict.fromkeys((found[0], found[-1]))) if found else "not measured"


def keep(name: str, results: Mapping[str, PartResult], folder: Path = FOLDER) -> Path:
    """Keep the newest results as those of a release."""
    if not _NAME.fullmatch(name):
        raise ReleaseError(f"a release is numbers with dots between them, such as 0.2, and not {name!r}")
    path = folder / f"{name}.json"
    if path.exists():
        raise ReleaseError(f"the results of {name} are kept already: remove {path} to replace them")
    folder.mkdir(parents=True, exist_ok=True)
    made = msgspec.json.encode(of(name, results))
    path.write_bytes(msgspec.json.format(made, indent=1) + b"\n")
    return path


def of(name: str, results: Mapping[str, PartResult]) -> Release:
    """The numbers of the aims in these results."""
    numbers = {aim.what: aim.measured(results) for aim in AIMS}
    return Release(
        name,
        {part: result.started for part, result in results.items()},
        {what: round(value, 4) for what, value in numbers.items() if value is not None},
    )


def load(folder: Path = FOLDER) -> list[Release]:
    """The releases, oldest first."""
    found = [msgspec.json.decode(path.read_bytes(), type=Release) for path in folder.glob("*.json")]
    return sorted(found, key=lambda release: [int(number) for number in release.name.split(".")])


def table(results: Mapping[str, PartResult], releases: Sequence[Release]) -> str:
    """Every aim with its number in each release, and what has been measured since the last one."""
    last = releases[-1].parts if releases else {}
    since = {part: each for part, each in results.items() if each.started != last.get(part)}
    shown = [*releases, of("Unreleased", since)]
    measured = "; ".join(f"{release.name}: {release.days}" for release in shown)
    body = [[aim.what, aim.said, *(_cell(aim, release) for release in shown)] for aim in AIMS]
    met = [f"{sum(_is_met(aim, release) for aim in AIMS)} of {len(AIMS)}" for release in shown]
    lines = grid(["", "the aim", *(release.name for release in shown)], [["**met**", "", *met], *body])
    return "\n".join([f"Measured on: {measured}.", "", *lines])


def _cell(aim: Aim, release: Release) -> str:
    value = release.aims.get(aim.what)
    if value is None:
        return "not measured"
    return aim.text(value) if _is_met(aim, release) else f"{aim.text(value)}, missed"


def _is_met(aim: Aim, release: Release) -> bool:
    value = release.aims.get(aim.what)
    return value is not None and aim.verdict(value) == MET
