"""How alike two pictures of a page are, whatever fonts the machine has.

Fonts change the shape of letters, and little else: line heights and boxes are fixed by the style sheet. So
pictures are compared by where they have edges. Each cell of a coarse grid holds the strength of the edges in
it; bands of cells over the whole width are compared one by one, so that a fault in one place is not lost in
the rest of a page.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Page

# A cell is wide, because the lengths of words depend on the font, and as high as a line of text.
CELL_WIDTH: Final = 60
CELL_HEIGHT: Final = 10
BAND_ROWS: Final = 16
# A text that needs a line more or less in another font moves what follows by so many rows of cells.
MAX_SHIFT: Final = 5

# Chromium decodes the pictures: no other decoder is needed for the tests.
_EDGES: Final = """async ([data, wide, high]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${data}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const { data: pixels } = context.getImageData(0, 0, image.width, image.height);
  const columns = Math.ceil(image.width / wide);
  const rows = Math.ceil(image.height / high);
  const cells = Array.from({ length: rows }, () => new Array(columns).fill(0));
  const light = (at) => 0.2126 * pixels[at] + 0.7152 * pixels[at + 1] + 0.0722 * pixels[at + 2];
  for (let y = 1; y < image.height; y += 1) {
    for (let x = 1; x < image.width; x += 1) {
      const at = 4 * (y * image.width + x);
      const here = light(at);
      const edge = Math.abs(here - light(at - 4)) + Math.abs(here - light(at - 4 * image.width));
      cells[Math.floor(y / high)][Math.floor(x / wide)] += Math.min(edge, 64);
    }
  }
  return { width: image.width, height: image.height, cells };
}"""


class Edges(NamedTuple):
    """The edges of a picture: rows of cells from its top to its bottom."""

    width: int
    height: int
    cells: list[list[float]]


def edges_of(page: Page, png: bytes) -> Edges:
    """Measure a picture, in a page of a browser that may be blank."""
    found = page.evaluate(_EDGES, [base64.b64encode(png).decode(), CELL_WIDTH, CELL_HEIGHT])
    return Edges(found["width"], found["height"], found["cells"])


def difference(one: Edges, other: Edges) -> float:
    """From 0, for the same picture, to 1: how different the two are in the band where they differ most."""
    if (one.width, one.height) != (other.width, other.height):
        return 1.0
    starts = range(0, max(1, len(one.cells) - BAND_ROWS + 1), BAND_ROWS // 2)
    return max(_nearest(one.cells[at : at + BAND_ROWS], other.cells, at) for at in starts)


def _nearest(band: list[list[float]], cells: list[list[float]], at: int) -> float:
    """How different a band is from the most similar one near its place in the other picture."""
    places = range(max(0, at - MAX_SHIFT), min(len(cells) - len(band), at + MAX_SHIFT) + 1)
    return min(_band(band, cells[place : place + len(band)]) for place in places)


def _band(one: list[list[float]], other: list[list[float]]) -> float:
    """The part of all edges that is not in the same cell of both."""
    mine = [cell for row in one for cell in row]
    theirs = [cell for row in other for cell in row]
    total = sum(mine) + sum(theirs)
    return sum(abs(a - b) for a, b in zip(mine, theirs, strict=True)) / total if total else 0.0
