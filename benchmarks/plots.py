"""The plots that tables ask for, as SVG files that are the same for the same numbers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from benchmarks.aim import MISSING
from benchmarks.markdown import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from benchmarks.table import Curve, Row, Table

_SETTINGS: Final = {
    "svg.hashsalt": "lode",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "legend.frameon": False,
}
_COLOURS: Final = {
    "Lode": "#0b5fff",
    "floor": "#8a8a8a",
    "Delta": "#e07b00",
    "Iceberg": "#00a39b",
    "Lance": "#c2308f",
    "DuckLake": "#8e5bd0",
    # What others do at the least is a floor too.
    "pyarrow": "#8a8a8a",
    "Spark": "#8a8a8a",
    "DuckDB's reader on Lode's files": "#8a8a8a",
}
_OTHERS: Final = (
    "#7a5c00",
    "#3f3f74",
    "#4f8a10",
    "#b03a2e",
    "#5d6d7e",
    "#117864",
    "#8e5bd0",
    "#d4a017",
    "#2e86c1",
    "#a04000",
)
_PANELS_IN_A_ROW: Final = 2
_MAX_ROUNDS: Final = 7


def write_plots(figures: Mapping[str, list[tuple[Table, Curve]]], folder: Path) -> list[Path]:
    """Draw every figure, and remove what was drawn of others."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("bench-*.svg"):
        old.unlink()
    paths = []
    for name, panels in figures.items():
        path = folder / f"bench-{name}.svg"
        _draw(panels, path)
        paths.append(path)
    return paths


def _draw(panels: list[tuple[Table, Curve]], path: Path) -> None:
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("svg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    across = min(_PANELS_IN_A_ROW, len(panels))
    down = -(-len(panels) // across)
    height = max(_height(table, curve) for table, curve in panels)
    with matplotlib.rc_context(_SETTINGS):
        figure, axes = pyplot.subplots(
            down, across, figsize=(5.4 * across, height * down), squeeze=False, layout="constrained"
        )
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        for axis, (table, curve) in zip(axes.flat, panels, strict=False):
            axis.set_title(curve.title)
            (_lines if curve.kind == "lines" else _bars)(axis, table, curve)
        for axis in axes.flat[len(panels) :]:
            axis.remove()
        _legend(figure, axes.flat[: len(panels)])
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def _legend(figure: Any, axes: Iterable[Any]) -> None:
    """One for all panels, below them: each name once."""
    named: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    if named:
        figure.legend(
            named.values(), named.keys(), loc="outside lower center", ncols=min(7, len(named)), fontsize=9
        )


def _height(table: Table, curve: Curve) -> float:
    return 3.6 if curve.kind == "lines" else 1.1 + 0.36 * max(2, len(_points(table, curve)))


def _rows(table: Table, curve: Curve) -> list[Row]:
    chosen = [row for row in table.rows if not curve.rows or row.name in curve.rows]
    return [row for row in chosen if not curve.ratio or row.against is not None]


def _value(table: Table, curve: Curve, row: Row, column: str) -> float | None:
    return table.ratio(row, column) if curve.ratio else table.value(row, column)


def _lines(axis: Any, table: Table, curve: Curve) -> None:
    columns = curve.columns or table.columns
    drawn: list[float] = []
    for row in _rows(table, curve):
        points = [
            (column, value) for column in columns if (value := _value(table, curve, row, column)) is not None
        ]
        if points:
            at = [_place(column) for column, _ in points]
            values = [value for _, value in points]
            drawn += values
            axis.plot(at, values, marker="o", markersize=4, label=row.name, **_style(row.name, table))
            for column, place in zip([column for column, _ in points], at, strict=True):
                if (spread := _spread(table, curve, row, column)) is not None:
                    axis.vlines(place, *spread, color=_style(row.name, table)["color"], alpha=0.3)
    if curve.log_x:
        axis.set_xscale("log")
    ticker: Any = importlib.import_module("matplotlib.ticker")
    if curve.log_y and drawn and min(drawn) > 0:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_xticks([_place(column) for column in columns], columns)
    axis.xaxis.set_minor_locator(ticker.NullLocator())
    axis.yaxis.set_major_formatter(ticker.FuncFormatter(_tick))
    axis.yaxis.set_minor_formatter(ticker.NullFormatter())
    axis.set_xlabel(curve.x)
    axis.set_ylabel(curve.y)


def _place(column: str) -> float:
    return float(column.replace(",", ""))


def _spread(table: Table, curve: Curve, row: Row, column: str) -> tuple[float, float] | None:
    """From the lowest to the highest round; a ratio has none, and the many of single commits only blur it."""
    samples = row.cells[table.columns.index(column)].samples
    return (min(samples), max(samples)) if 1 < len(samples) <= _MAX_ROUNDS and not curve.ratio else None


def _points(table: Table, curve: Curve) -> list[tuple[Row, str, float | None]]:
    """What bars show, and None for a contender without a number, so that it is not left out.

    With several columns only those that are there are shown.
    """
    columns = curve.columns or table.columns
    return [
        (row, column, value)
        for row in _rows(table, curve)
        for column in columns
        if (value := _value(table, curve, row, column)) is not None or len(columns) == 1
    ]


def _bars(axis: Any, table: Table, curve: Curve) -> None:
    points = _points(table, curve)
    if not points:
        axis.text(0.5, 0.5, MISSING, ha="center", va="center", transform=axis.transAxes)
        axis.set_axis_off()
        return
    several_rows = len({row.name for row, _, _ in points}) > 1
    several_columns = len({column for _, column, _ in points}) > 1
    labels = [
        ": ".join([row.name] * (several_rows or not several_columns) + [column] * several_columns)
        for row, column, _ in points
    ]
    colours = [_style(row.name, table)["color"] for row, _, _ in points]
    places = range(len(points))
    drawn = axis.barh(places, [value or 0.0 for _, _, value in points], color=colours, height=0.62)
    axis.bar_label(drawn, [_label(row, value) for row, _, value in points], padding=3, fontsize=9)
    for place, (row, column, value) in enumerate(points):
        if value is not None and (spread := _spread(table, curve, row, column)) is not None:
            axis.hlines(place + 0.2, *spread, color="#222222", linewidth=1)
    axis.set_yticks(places, labels)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.margins(x=0.12)
    ticker: Any = importlib.import_module("matplotlib.ticker")
    axis.xaxis.set_major_locator(ticker.MaxNLocator(5))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(_tick))
    if curve.ratio:
        axis.axvline(1, color="#444444", linewidth=1)
    axis.set_xlabel(curve.y)


def _label(row: Row, value: float | None) -> str:
    """A bar's number, or in a word why there is none."""
    if value is not None:
        return number(value)
    return row.failed.partition(":")[0] if row.failed else "not measured"


def _style(name: str, table: Table) -> dict[str, Any]:
    """A contender's colour; what it does otherwise, synced for example, is dashed."""
    contender = name.partition(",")[0]
    others = [row.name for row in table.rows if row.name.partition(",")[0] not in _COLOURS]
    if contender in _COLOURS:
        return {"color": _COLOURS[contender], "linestyle": "--" if "," in name else "-"}
    return {"color": _OTHERS[others.index(name) % len(_OTHERS)], "linestyle": "-"}


def _tick(value: float, _: object) -> str:
    """A number at an axis, without an exponent."""
    return f"{value:,.12g}"
