"""GEOGRAPHY: well-known text and GeoJSON, checked by shapely, as the text that BigQuery prints.

shapely reads and writes shapes of a plane, all rows of a column at once. This module adds the rules of a
sphere: latitudes are bounded, longitudes wrap, and polygons may cross the 180th meridian or contain a pole.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lode.errors import MissingDependencyError
from lode.extras import needs
from lode.ingest.status import Code, Refused
from lode.ingest.types.row_errors import shown
from lode.lazy import pa, pc

if TYPE_CHECKING:
    from types import ModuleType

    from lode.ingest.types.row_errors import Origin

# GEOS reads nested collections by recursion, so a long text could exhaust the stack.
MAX_DEPTH: Final = 32
# Of one value, and of the rows that are read at a time: GEOS takes up to 300 bytes for a point.
MAX_POINTS: Final = 500_000
# Pairs of edges that GEOS may compare for one request, at about 40 ns each: two seconds in the largest one.
MAX_PAIRS: Final = 50_000_000
# Small requests may take less time than large ones: this many pairs, and more for each vertex.
FREE_PAIRS: Final = 5_000_000
PAIRS_PER_VERTEX: Final = 200
# The cost, in pairs of edges, of a hole for each vertex of its shell, and of two rings whose boxes overlap.
_HOLE_COST: Final = 0.1
_RINGS_COST: Final = 4
_SAMPLES: Final = 64
# Limits of the reasons that GEOS returns: characters of one, and their number in a request.
_MAX_REASON_CHARACTERS: Final = 100
_MAX_REASONS: Final = 100
_REMEDY: Final = "write WKT such as POINT(1 2), or a GeoJSON geometry"
EMPTY: Final = "GEOMETRYCOLLECTION EMPTY"
# shapely's numbers of the types that a GEOGRAPHY can have; 2 is a ring outside of a polygon.
_TYPES: Final = (0, 1, 3, 4, 5, 6, 7)
_OTHER_TYPES: Final = r"LINEARRING|CIRCULARSTRING|CURVE|SURFACE|TRIANGLE|TIN"
_MULTIPOINT: Final = re.compile(r"MULTIPOINT\(\(([^A-Z]*?)\)\)")
# Smaller values are rounded to zero when 15 digits after the point are written.
_ALMOST_ZERO: Final = 5e-16


def need_shapely(path: str) -> ModuleType:
    """Import shapely, or refuse a column that cannot be checked without it."""
    try:
        with needs(f"Column {path!r} of type GEOGRAPHY", "geo"):
            import shapely
    except MissingDependencyError as error:
        raise Refused(Code.UNIMPLEMENTED, f"{error}.") from None
    return shapely


def geographies_of_text(array: Any, origin: Origin) -> Any:
    """The texts as BigQuery prints them; bad ones are reported."""
    if array.null_count == len(array):
        return array
    shapely = need_shapely(origin.path)
    import numpy as np

    points = _points(array)
    parts = np.cumsum(np.minimum(points, MAX_POINTS + 1)) // MAX_POINTS
    starts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(array)]
    left: float = min(MAX_PAIRS, FREE_PAIRS + PAIRS_PER_VERTEX * int(points.sum()))
    bad: dict[int, str] = {}
    written = []
    for start, stop in pairwise(starts):
        # Numbers that are too large are found by the checks of ranges.
        with np.errstate(all="ignore"):
            found = _Geographies(array.slice(start, stop - start), points[start:stop], shapely, left)
            written.append(found.written())
        bad |= {start + index: message for index, message in found.bad.items()}
        left = found.left
    origin.report(sorted(bad), lambda index: f"{shown(array, index)} {bad[index]}.")
    return pa.concat_arrays(written)


def _points(array: Any) -> Any:
    """An estimate of the points in each text."""
    counts: Any = pc.if_else(_is_json(array), pc.count_substring(array, "["), pc.count_substring(array, ","))
    return pc.add(pc.fill_null(counts, 0), 1).to_numpy(zero_copy_only=False)


def _is_json(array: Any) -> Any:
    return pc.starts_with(pc.utf8_ltrim_whitespace(array), "{")


class _Geographies:
    """The geographies of some rows; each step skips the rows that earlier steps found bad.

    Args:
        array: Their texts.
        points: The estimated number of their points.
        shapely: The module.
        left: How many pairs of edges may be compared; the rest is left for the next rows.
    """

    def __init__(self, array: Any, points: Any, shapely: Any, left: float) -> None:
        import numpy as np

        self._np = np
        self._shapely = shapely
        self._texts = array.to_numpy(zero_copy_only=False)
        # Messages by row. They continue a sentence that begins with the value.
        self.bad: dict[int, str] = {}
        self.left = left
        self._refuse(np.flatnonzero(points > MAX_POINTS), f"has more than {MAX_POINTS} points: split it")
        self._check_texts(array)
        self._shapes = self._read(array)
        self._check_types()
        self._points, self._rows = shapely.get_coordinates(self._shapes, return_index=True)
        self._check_coordinates()
        self._check_shapes()

    def _refuse(self, rows: Any, message: str) -> None:
        for row in rows:
            self._refuse_one(int(row), message)

    def _refuse_one(self, row: int, message: str) -> None:
        self.bad.setdefault(row, message)
        self._texts[row] = None

    def _drop_bad(self) -> None:
        """Remove the shapes and points of bad rows."""
        if not self.bad:
            return
        self._shapes[list(self.bad)] = None
        self._points, self._rows = self._shapely.get_coordinates(self._shapes, return_index=True)

    def _check_texts(self, array: Any) -> None:
        # GEOS stops reading at the first NUL.
        self._refuse(_where(pc.match_substring(array, "\0")), "holds a NUL character")
        opened: Any = pc.count_substring_regex(array, r"[(\[{]")
        for row in _where(pc.greater(opened, pa.scalar(MAX_DEPTH, opened.type))):
            if self._texts[row] is not None and self._depth(self._texts[row]) > MAX_DEPTH:
                self._refuse_one(row, f"is nested deeper than {MAX_DEPTH} levels")

    def _depth(self, text: str) -> int:
        data = self._np.frombuffer(text.encode(), self._np.uint8)
        return int(self._np.cumsum(_steps()[data], dtype=self._np.int32).max())

    def _read(self, array: Any) -> Any:
        is_json = _is_json(array)
        for row in _where(is_json):
            if self._texts[row] is not None and (wrong := _not_geojson(self._texts[row])):
                self._refuse_one(row, wrong)
        json = pc.fill_null(is_json, False).to_numpy(zero_copy_only=False)
        shapes = self._np.full(len(array), None, object)
        for rows, read in ((~json, self._shapely.from_wkt), (json, self._shapely.from_geojson)):
            try:
                shapes[rows] = read(self._texts[rows], on_invalid="ignore")
            except NotImplementedError:  # for types of GEOS that shapely lacks
                shapes[rows] = [self._read_one(read, text)[0] for text in self._texts[rows]]
            for unread in self._np.flatnonzero(rows & self._shapely.is_missing(shapes)):
                text = self._texts[unread]
                if text is not None:
                    # Reading it again for the reason takes longer than all other checks.
                    why = f" ({self._read_one(read, text)[1]})" if len(self.bad) < _MAX_REASONS else ""
                    self._refuse_one(int(unread), f"is not a GEOGRAPHY{why}: {_REMEDY}")
        return shapes

    def _read_one(self, read: Any, text: str | None) -> tuple[Any, str]:
        """The shape of a text, or the reason why it is none."""
        try:
            return read(text), ""
        except (self._shapely.errors.ShapelyError, NotImplementedError) as why:
            return None, _brief(str(why))

    def _check_types(self) -> None:
        np, shapely = self._np, self._shapely
        more = shapely.has_z(self._shapes) | shapely.has_m(self._shapes)
        self._refuse(
            np.flatnonzero(more), "has Z or M coordinates: a GEOGRAPHY has longitudes and latitudes only"
        )
        there = ~shapely.is_missing(self._shapes)
        known = np.isin(shapely.get_type_id(self._shapes), _TYPES)
        self._refuse(np.flatnonzero(there & ~known), "is of a type that a GEOGRAPHY does not have")
        self._shapes[list(self.bad)] = None

    def _check_coordinates(self) -> None:
        np = self._np
        longitude, latitude = self._points.T
        wrong = ~((np.abs(latitude) <= 90) & np.isfinite(longitude))
        points = np.flatnonzero(wrong)
        rows, first = np.unique(self._rows[points], return_index=True)
        for row, point in zip(rows, points[first], strict=True):
            self._refuse_one(
                int(row),
                f"has the point ({longitude[point]:g} {latitude[point]:g}): "
                "a latitude is between -90 and 90, a longitude is finite",
            )
        self._drop_bad()

    def _check_shapes(self) -> None:
        """Refuse rings that cross themselves or others."""
        np, shapely = self._np, self._shapely
        self._refuse(self._too_complex(), "has too many edges close to each other to be checked: split it")
        self._drop_bad()
        invalid = ~shapely.is_missing(self._shapes) & ~shapely.is_valid(self._shapes)
        for row in np.flatnonzero(invalid):
            shape = self._shapes[row]
            if not self._is_valid_on_a_sphere(shape):
                why = _brief(shapely.is_valid_reason(shape))
                self._refuse_one(int(row), f"is not a valid GEOGRAPHY ({why})")
        self._drop_bad()

    def _too_complex(self) -> list[int]:
        """The rows that take too long to check: GEOS compares edges and rings whose boxes overlap."""
        np, shapely = self._np, self._shapely
        count = np.bincount(self._rows, minlength=len(self._shapes)).astype(float)
        count[shapely.get_dimensions(self._shapes) != 2] = 0
        if (most := (count**2).sum() / 2) <= self.left:
            self.left -= most
            return []
        found = []
        for row in np.flatnonzero(count):
            pairs = self._pairs(int(row)) if count[row] > _SAMPLES else 0
            if pairs > self.left:
                found.append(int(row))
            else:
                self.left -= pairs
        return found

    def _pairs(self, row: int) -> float:
        """The estimated cost of checking a shape, in pairs of edges."""
        np, shapely = self._np, self._shapely
        start, stop = np.searchsorted(self._rows, (row, row + 1))
        points = self._points[start:stop]
        edges = np.minimum(points[:-1], points[1:]), np.maximum(points[:-1], points[1:])
        polygons = shapely.get_parts(shapely.get_parts(self._shapes[row]))
        boxes = shapely.bounds(shapely.get_rings(polygons))
        rings = self._overlaps(boxes[:, :2], boxes[:, 2:])
        holes = shapely.get_num_interior_rings(polygons) * shapely.get_num_coordinates(polygons)
        return self._overlaps(*edges) + _RINGS_COST * rings + _HOLE_COST * float(holes.sum())

    def _overlaps(self, low: Any, high: Any) -> float:
        """An estimate of the pairs of boxes that overlap."""
        np = self._np
        count = len(low)
        # At random: a client could evade a fixed choice.
        chosen = np.random.default_rng().integers(0, count, min(count, _SAMPLES))
        seen = sum(
            int(np.count_nonzero(((low <= high[one]) & (high >= low[one])).all(axis=1))) for one in chosen
        )
        return float(seen) / max(1, len(chosen)) * count / 2

    def _is_valid_on_a_sphere(self, shape: Any) -> bool:
        """Whether polygons are valid that shapely refuses: longitudes jump at the 180th meridian."""
        np, shapely = self._np, self._shapely
        parts = shapely.get_parts(shape)
        are_polygons = (shapely.get_type_id(parts) == 3).all()
        jumps = (np.abs(np.diff(shapely.get_coordinates(shape)[:, 0])) > 180).any()
        return bool(are_polygons and jumps) and all(self._is_valid_unrolled(part) for part in parts)

    def _is_valid_unrolled(self, polygon: Any) -> bool:
        shapely = self._shapely
        shell, *holes = (self._unrolled(ring) for ring in shapely.get_rings(polygon))
        start = shell[:, 0].min()
        for hole in holes:
            hole[:, 0] += 360 * self._np.ceil((start - hole[:, 0].min()) / 360)
        return bool(shapely.is_valid(shapely.Polygon(shell, holes)))

    def _unrolled(self, ring: Any) -> Any:
        """A ring whose longitudes continue beyond 180; one around a pole is closed along it."""
        np = self._np
        points = self._shapely.get_coordinates(ring)
        points[:, 0] = np.unwrap(points[:, 0], period=360)
        if abs(points[0, 0] - points[-1, 0]) < 180:
            return points
        pole = 90.0 if points[:, 1].mean() > 0 else -90.0
        ends = [[points[-1, 0], pole], [points[0, 0], pole], points[0]]
        return np.concatenate([points, ends])

    def written(self) -> Any:
        """The texts, null for bad rows."""
        np, shapely = self._np, self._shapely
        self._normalise()
        empty = shapely.is_empty(self._shapes)
        texts: Any = pa.array(
            shapely.to_wkt(self._shapes, rounding_precision=15, trim=True, output_dimension=2), pa.string()
        )
        self._refuse(_where(pc.match_substring_regex(texts, _OTHER_TYPES)), "has a part of another type")
        texts = pc.replace_substring_regex(texts, r"([A-Z]) \(", r"\1(")
        if pc.any(pc.match_substring(texts, "MULTIPOINT"), min_count=0).as_py():
            texts = pa.array([None if text is None else _flat_points(text) for text in texts.to_pylist()])
        if empty.any():
            texts = pc.if_else(pa.array(empty), EMPTY, texts)
        if self.bad:
            texts = pc.if_else(
                pa.array(np.isin(np.arange(len(texts)), list(self.bad))), pa.scalar(None, pa.string()), texts
            )
        return texts

    def _normalise(self) -> None:
        """Wrap longitudes to -180 to 180; orient shells counterclockwise and holes clockwise."""
        np, shapely = self._np, self._shapely
        points, rows = self._points, self._rows
        jumps = (np.abs(np.diff(points[:, 0])) > 180) & (rows[1:] == rows[:-1])
        plain = ~np.isin(np.arange(len(self._shapes)), rows[1:][jumps])
        plain &= ~shapely.is_missing(self._shapes)
        self._shapes[plain] = shapely.orient_polygons(self._shapes[plain])
        far = np.abs(points[:, 0]) > 180
        almost = (np.abs(points) < _ALMOST_ZERO) & ((points != 0) | np.signbit(points))
        changed = np.unique(rows[far | almost.any(axis=1)])
        if not len(changed):
            return
        shapes = self._shapes[changed]
        points = shapely.get_coordinates(shapes)
        longitude = points[:, 0]
        points[:, 0] = np.where(np.abs(longitude) > 180, (longitude + 180) % 360 - 180, longitude)
        points[np.abs(points) < _ALMOST_ZERO] = 0
        self._shapes[changed] = shapely.set_coordinates(shapes, points)


def _where(mask: Any) -> list[int]:
    found: list[int] = pc.indices_nonzero(mask).to_pylist()
    return found


def _brief(why: str) -> str:
    line = why.split("\n", 1)[0]
    return line if len(line) <= _MAX_REASON_CHARACTERS else line[:_MAX_REASON_CHARACTERS] + "…"


def _flat_points(text: str) -> str:
    """``MULTIPOINT(1 2, 3 4)`` for GEOS's ``MULTIPOINT((1 2), (3 4))``."""
    return _MULTIPOINT.sub(lambda match: f"MULTIPOINT({match[1].replace('), (', ', ')})", text)


@cache
def _steps() -> Any:
    """The change of depth at each byte of a text."""
    import numpy as np

    steps = np.zeros(256, np.int8)
    steps[[ord(sign) for sign in "([{"]] = 1
    steps[[ord(sign) for sign in ")]}"]] = -1
    return steps


class _Point(msgspec.Struct, tag_field="type", tag="Point"):
    coordinates: tuple[float, float]


class _Line(msgspec.Struct, tag_field="type", tag="LineString"):
    coordinates: list[tuple[float, float]]


class _Polygon(msgspec.Struct, tag_field="type", tag="Polygon"):
    coordinates: list[list[tuple[float, float]]]


class _Points(msgspec.Struct, tag_field="type", tag="MultiPoint"):
    coordinates: list[tuple[float, float]]


class _Lines(msgspec.Struct, tag_field="type", tag="MultiLineString"):
    coordinates: list[list[tuple[float, float]]]


class _Polygons(msgspec.Struct, tag_field="type", tag="MultiPolygon"):
    coordinates: list[list[list[tuple[float, float]]]]


class _Collection(msgspec.Struct, tag_field="type", tag="GeometryCollection"):
    geometries: list[_Point | _Line | _Polygon | _Points | _Lines | _Polygons | _Collection]


# GEOS also reads features, and positions of any length. BigQuery reads geometries of two numbers each.
_GEOJSON: Final = msgspec.json.Decoder(_Point | _Line | _Polygon | _Points | _Lines | _Polygons | _Collection)


def _not_geojson(text: str) -> str:
    """The error in a GeoJSON geometry; empty if there is none."""
    try:
        _GEOJSON.decode(text)
    except (msgspec.MsgspecError, RecursionError) as why:
        return f"is not a GeoJSON geometry ({_brief(str(why))})"
    return ""
