"""Draw docs/images/architecture.svg from the layers of the import contract in pyproject.toml.

python scripts/draw_architecture.py

The first line of each package's docstring is its caption, so the picture follows the code.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PICTURE: Final = ROOT / "docs" / "images" / "architecture.svg"

# The layers from the top, by the first module of the first layer in each band.
BANDS: Final = {
    "cli": ("entry points", "#e8f0fe"),
    "describe": ("the library", "#e6f4ea"),
    "write": ("the engine", "#fef7e0"),
    "filter": ("what is on storage", "#fce8e6"),
    "runtime": ("tools", "#f1f3f4"),
}
WIDTH: Final = 960
LEFT: Final = 130
ROW: Final = 34
GAP: Final = 6


def layers() -> list[list[str]]:
    """The layers of the package from the top; the modules of one layer do not import each other."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (each for each in settings["contracts"] if each.get("containers") == ["lode"])
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def caption(name: str) -> str:
    """The first sentence of the docstring of a package or module."""
    path = ROOT / "src" / "lode" / name
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = (ast.get_docstring(ast.parse(source.read_text())) or "").split("\n\n")[0].replace("\n", " ")
    return text.split(". ")[0].rstrip(".").replace("``", "")


def shortened(text: str, width: float) -> str:
    """As much of the text as fits; nothing if that would be a word or two."""
    room = int(width / 6.2)
    if room < 20:
        return ""
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


def drawing() -> str:
    """The picture as SVG."""
    parts: list[str] = []
    y, color, begun = 40, "", 0
    for layer in layers():
        if layer[0] in BANDS:
            band, color = BANDS[layer[0]]
            y += 10 if parts else 0
            parts.append(f'<text x="12" y="{y + 20}" class="band">{band}</text>')
            begun += 1
        width = (WIDTH - LEFT - 12 - GAP * (len(layer) - 1)) / len(layer)
        for index, name in enumerate(layer):
            x = LEFT + index * (width + GAP)
            words = shortened(caption(name), width - 30 - 8 * len(name))
            parts.append(f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{ROW}" fill="{color}"/>')
            parts.append(
                f'<text x="{x + 10:.0f}" y="{y + 22}"><tspan class="name">{name}</tspan>'
                f'<tspan class="caption" dx="8">{escape(words)}</tspan></text>'
            )
        y += ROW + GAP
    assert begun == len(BANDS), "every band begins with the first module of a layer"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 6}" role="img" '
        'aria-label="The layers of the package lode, from the command line down to errors">'
    )
    style = (
        "<style>rect{rx:5;stroke:#9aa0a6;stroke-width:.6}text{font:13px system-ui,sans-serif;fill:#202124}"
        ".name{font-weight:600}.caption{font-size:11px;fill:#5f6368}.band{font-size:12px;fill:#5f6368}</style>"
    )
    title = f'<rect width="{WIDTH}" height="{y + 6}" fill="#fff" stroke="none"/>'
    rule = f'<text x="{LEFT}" y="24" class="band">Each layer imports only the layers below it.</text>'
    return "\n".join([head, style, title, rule, *parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(drawing())
    print(PICTURE.relative_to(ROOT), file=sys.stderr)
