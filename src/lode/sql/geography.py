"""GEOGRAPHY: points, lines and polygons on a sphere. Inside of a query a value is its well-known text.

Edges are the shortest lines on the sphere. Lengths and areas are computed with vectors. Questions about two
shapes are answered in a plane: the gnomonic projection of a hemisphere makes these edges straight, so the
answer of shapely is that of the sphere. Shapes that do not fit into one hemisphere together are refused.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lode.errors import MissingDependencyError
from lode.extras import needs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Point = tuple[float, float]
Vector = tuple[float, float, float]

# The sphere of the service.
RADIUS: Final = 6_371_010.0
MAX_POINTS: Final = 100_000
MAX_PAIRS: Final = 200_000
_MAX_DEPTH: Final = 16
# Planar edges of GeoJSON may be this far from the edges of the sphere.
_GEOJSON_METERS: Final = 10.0
_TOKEN: Final = re.compile(r"\s*([A-Za-z]+|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[(),])")
_EMPTY: Final = "GEOMETRYCOLLECTION EMPTY"


class Shape(NamedTuple):
    """The parts of a geography; collections are flat. Rings of polygons are closed."""

    points: tuple[Point, ...] = ()
    lines: tuple[tuple[Point, ...], ...] = ()
    polygons: tuple[tuple[tuple[Point, ...], ...], ...] = ()

    def vertices(self) -> Iterator[Point]:
        yield from self.points
        for line in self.lines:
            yield from line
        for polygon in self.polygons:
            for ring in polygon:
                yield from ring

    def chains(self) -> Iterator[tuple[Point, ...]]:
        """The lines, and the rings of polygons."""
        yield from self.lines
        for polygon in self.polygons:
            yield from polygon


# -- text ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def read(text: str) -> Shape:
    """Read well-known text, or raise ``ValueError``."""
    found: list[str] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"Invalid WKT: unexpected {text[at : at + 20]!r}")
        found.append(match[1])
        at = match.end()
    if found.count(",") > MAX_POINTS:
        raise ValueError(f"A GEOGRAPHY has more than {MAX_POINTS:,} points")
    reader = _Reader(found)
    shape = reader.shape(0)
    reader.end()
    return shape


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def shape(self, depth: int) -> Shape:
        kind = self._next().upper()
        if depth > _MAX_DEPTH:
            raise ValueError("Invalid WKT: collections are nested too deep")
        if self._peek().upper() == "EMPTY" and kind in _KINDS:
            self._at += 1
            return Shape()
        match kind:
            case "POINT":
                return Shape(points=tuple(self._list(self._point)))
            case "MULTIPOINT":
                return Shape(points=tuple(self._list(self._point)))
            case "LINESTRING":
                return Shape(lines=(self._line(),))
            case "MULTILINESTRING":
                return Shape(lines=tuple(self._list(self._line)))
            case "POLYGON":
                return Shape(polygons=(self._polygon(),))
            case "MULTIPOLYGON":
                return Shape(polygons=tuple(self._list(self._polygon)))
            case "GEOMETRYCOLLECTION":
                return joined(self._list(lambda: self.shape(depth + 1)))
        raise ValueError(f"Invalid WKT: {kind[:20]!r} is no type of GEOGRAPHY")

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise ValueError(f"Invalid WKT: unexpected {self._tokens[self._at][:20]!r}")

    def _list(self, part: Callable[[], Any]) -> list[Any]:
        self._expect("(")
        found = [part()]
        while self._peek() == ",":
            self._at += 1
            found.append(part())
        self._expect(")")
        return found

    def _point(self) -> Point:
        enclosed = self._peek() == "("
        self._at += enclosed
        made = checked(self._number(), self._number())
        if enclosed:
            self._expect(")")
        return made

    def _line(self) -> tuple[Point, ...]:
        return as_line(self._list(self._point))

    def _polygon(self) -> tuple[tuple[Point, ...], ...]:
        return tuple(as_ring(each) for each in self._list(lambda: self._list(self._point)))

    def _number(self) -> float:
        try:
            return float(self._next())
        except ValueError:
            raise ValueError("Invalid WKT: a coordinate is no number") from None

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        self._at += 1
        if self._at > len(self._tokens):
            raise ValueError("Invalid WKT: the text ends too early")
        return self._tokens[self._at - 1]

    def _expect(self, sign: str) -> None:
        if self._next() != sign:
            raise ValueError(f"Invalid WKT: expected {sign!r}")


_KINDS: Final = (
    *("POINT", "MULTIPOINT", "LINESTRING", "MULTILINESTRING", "POLYGON", "MULTIPOLYGON"),
    "GEOMETRYCOLLECTION",
)


def checked(longitude: float, latitude: float) -> Point:
    """A point with its longitude from -180 to 180."""
    if not (math.isfinite(longitude) and math.isfinite(latitude)):
        raise ValueError("A coordinate of a GEOGRAPHY must be finite")
    if abs(latitude) > 90:
        raise ValueError(f"Latitude must be between -90 and 90 degrees, but was {latitude:g}")
    if abs(longitude) > 180:
        longitude = math.remainder(longitude, 360)
    return longitude, latitude


def as_line(points: list[Point]) -> tuple[Point, ...]:
    """A line of points, without those that repeat the one before."""
    made = [point for number, point in enumerate(points) if not number or point != points[number - 1]]
    if len(made) < 2:
        raise ValueError("Invalid geography: a line needs two different points")
    return tuple(made)


def as_ring(points: list[Point]) -> tuple[Point, ...]:
    """A closed line of three different points or more."""
    made = as_line(points)
    if made[0] != made[-1] or len(made) < 4:
        raise ValueError(
            "Invalid polygon loop: a ring needs three different points, and ends where it begins"
        )
    return made


def joined(shapes: list[Shape]) -> Shape:
    """One shape with the parts of several."""
    return Shape(
        tuple(part for shape in shapes for part in shape.points),
        tuple(part for shape in shapes for part in shape.lines),
        tuple(part for shape in shapes for part in shape.polygons),
    )


def _number(value: float) -> str:
    return f"{value:.15g}" if value else "0"


def write(shape: Shape) -> str:
    """Well-known text as the service prints it."""
    parts = list(_parts(shape))
    if not parts:
        return _EMPTY
    kinds = {kind for kind, _ in parts}
    if len(parts) == 1:
        return parts[0][0] + parts[0][1]
    if len(kinds) == 1:
        inside = ", ".join(part[1:-1] if kind == "POINT" else part for kind, part in parts)
        return f"MULTI{kinds.pop()}({inside})"
    return f"GEOMETRYCOLLECTION({', '.join(kind + inside for kind, inside in parts)})"


def _parts(shape: Shape) -> Iterator[tuple[str, str]]:
    def row(points: tuple[Point, ...]) -> str:
        return f"({', '.join(f'{_number(x)} {_number(y)}' for x, y in points)})"

    yield from (("POINT", row((point,))) for point in shape.points)
    yield from (("LINESTRING", row(line)) for line in shape.lines)
    yield from (("POLYGON", f"({', '.join(map(row, polygon))})") for polygon in shape.polygons)


def kind_of(shape: Shape) -> str:
    """``ST_GEOMETRYTYPE``."""
    names = [name for name, part in zip(("Point", "LineString", "Polygon"), shape, strict=True) if part]
    if len(names) != 1:
        return "ST_GeometryCollection"
    return f"ST_{'Multi' if sum(map(len, shape)) > 1 else ''}{names[0]}"


def as_geojson(shape: Shape) -> str:
    def row(points: tuple[Point, ...]) -> str:
        return "[ " + ", ".join(f"[{_number(x)}, {_number(y)}]" for x, y in _planar(points)) + " ]"

    def rows(rings: tuple[tuple[Point, ...], ...]) -> str:
        return f"[ {', '.join(map(row, rings))} ]"

    def one(shape: Shape) -> str:
        points, lines, polygons = shape
        if points:
            made = [f"[{_number(x)}, {_number(y)}]" for x, y in points]
        else:
            made = [row(line) for line in lines] or [rows(polygon) for polygon in polygons]
        inside = made[0] if len(made) == 1 else f"[ {', '.join(made)} ]"
        return f'{{ "type": "{kind_of(shape)[3:]}", "coordinates": {inside} }}'

    if sum(map(bool, shape)) == 1:
        return one(shape) + " "
    each = [Shape(points=(part,)) for part in shape.points]
    each += [Shape(lines=(part,)) for part in shape.lines] + [
        Shape(polygons=(part,)) for part in shape.polygons
    ]
    inside = ", ".join(map(one, each))
    return f'{{ "type": "GeometryCollection", "geometries": [ {inside}{" " if inside else ""}] }} '


def _planar(points: tuple[Point, ...]) -> Iterator[Point]:
    """The points of a chain, with more between those whose straight line in degrees is far from the edge."""
    yield points[0]
    for one, two in pairwise(points):
        yield from _between(one, two, 0)
        yield two


def _between(one: Point, two: Point, depth: int) -> Iterator[Point]:
    if depth > 10 or abs(one[0] - two[0]) > 180:
        return
    middle = _degrees(_unit(_sum(vector(one), vector(two))))
    straight = ((one[0] + two[0]) / 2, (one[1] + two[1]) / 2)
    if _angle(vector(middle), vector(straight)) * RADIUS <= _GEOJSON_METERS:
        return
    yield from _between(one, middle, depth + 1)
    yield middle
    yield from _between(middle, two, depth + 1)


def from_geojson(text: str) -> Shape:
    try:
        found = json.loads(text)
        return _from_json(found, 0)
    except (TypeError, KeyError, AttributeError, RecursionError, json.JSONDecodeError):
        raise ValueError("Invalid GeoJSON: a geometry needs a type and coordinates") from None


def _from_json(found: Any, depth: int) -> Shape:
    kind = found["type"]
    if kind == "GeometryCollection":
        if depth > _MAX_DEPTH:
            raise ValueError("Invalid GeoJSON: collections are nested too deep")
        return joined([_from_json(each, depth + 1) for each in found["geometries"]])
    given = found["coordinates"]
    match kind:
        case "Point":
            return Shape(points=(_pair(given),) if given else ())
        case "MultiPoint":
            return Shape(points=tuple(map(_pair, given)))
        case "LineString":
            return Shape(lines=(as_line(list(map(_pair, given))),))
        case "MultiLineString":
            return Shape(lines=tuple(as_line(list(map(_pair, each))) for each in given))
        case "Polygon":
            return Shape(polygons=(_rings(given),))
        case "MultiPolygon":
            return Shape(polygons=tuple(map(_rings, given)))
    raise ValueError(f"Invalid GeoJSON: {str(kind)[:20]!r} is no type of GEOGRAPHY")


def _pair(given: Any) -> Point:
    return checked(float(given[0]), float(given[1]))


def _rings(given: Any) -> tuple[tuple[Point, ...], ...]:
    return tuple(as_ring(list(map(_pair, ring))) for ring in given)


# -- vectors ------------------------------------------------------------------------------------------------


def vector(point: Point) -> Vector:
    longitude, latitude = math.radians(point[0]), math.radians(point[1])
    return (
        math.cos(latitude) * math.cos(longitude),
        math.cos(latitude) * math.sin(longitude),
        math.sin(latitude),
    )


def _degrees(v: Vector) -> Point:
    return math.degrees(math.atan2(v[1], v[0])), math.degrees(math.atan2(v[2], math.hypot(v[0], v[1])))


def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _sum(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def _difference(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def _scaled(a: Vector, by: float) -> Vector:
    return a[0] * by, a[1] * by, a[2] * by


def _length(a: Vector) -> float:
    return math.sqrt(_dot(a, a))


def _unit(a: Vector) -> Vector:
    size = _length(a)
    if size < 1e-15:
        raise ValueError(
            "A geography has points on opposite sides of the earth, so its middle is not defined"
        )
    return _scaled(a, 1 / size)


def _angle(a: Vector, b: Vector) -> float:
    return math.atan2(_length(_cross(a, b)), _dot(a, b))


def length(shape: Shape) -> float:
    """``ST_LENGTH``, in meters."""
    return sum(_chain_length(line) for line in shape.lines)


def perimeter(shape: Shape) -> float:
    return sum(_chain_length(ring) for polygon in shape.polygons for ring in polygon)


def _chain_length(points: tuple[Point, ...]) -> float:
    return RADIUS * sum(_angle(a, b) for a, b in pairwise(map(vector, points)))


def _ring_area(ring: tuple[Point, ...]) -> float:
    """The area left of a ring of the unit sphere, negative if it is to the right; of both the smaller one."""
    first, *rest = map(vector, ring[:-1])
    total = 0.0
    for a, b in pairwise(rest):
        # Of differences, which have more digits if the triangle is small.
        volume = _dot(first, _cross(_difference(a, first), _difference(b, first)))
        total += 2 * math.atan2(volume, 1 + _dot(first, a) + _dot(a, b) + _dot(b, first))
    return math.remainder(total, 4 * math.pi)


def area(shape: Shape) -> float:
    """``ST_AREA``, in square meters."""
    found = (
        abs(_ring_area(polygon[0])) - sum(abs(_ring_area(hole)) for hole in polygon[1:])
        for polygon in shape.polygons
    )
    return float(RADIUS * RADIUS * sum(found))


def centroid(shape: Shape) -> Shape:
    """The middle of the parts with the highest dimension."""
    total: Vector = (0.0, 0.0, 0.0)
    for polygon in shape.polygons:
        for number, ring in enumerate(polygon):
            # Holes count against the shell, in whichever direction they are written.
            sign = math.copysign(1, _ring_area(ring)) * (-1 if number else 1)
            for a, b in pairwise(map(vector, ring)):
                normal = _cross(a, b)
                size = _length(normal)
                if size:
                    total = _sum(total, _scaled(normal, sign * _angle(a, b) / size))
    for line in shape.lines if not shape.polygons else ():
        for a, b in pairwise(map(vector, line)):
            half = _angle(a, b) / 2
            total = _sum(total, _scaled(_unit(_sum(a, b)), 2 * math.sin(half)))
    for point in shape.points if not shape.polygons and not shape.lines else ():
        total = _sum(total, vector(point))
    return Shape(points=(_degrees(_unit(total)),)) if any(shape) else Shape()


def _nearest(point: Vector, a: Vector, b: Vector) -> float:
    """The angle from a point to an edge."""
    normal = _cross(a, b)
    if _dot(_cross(normal, a), point) > 0 and _dot(_cross(b, normal), point) > 0:
        size = _length(normal)
        return abs(math.asin(max(-1.0, min(1.0, _dot(normal, point) / size)))) if size else _angle(a, point)
    return min(_angle(a, point), _angle(b, point))


def distance(one: Shape, two: Shape) -> float | None:
    """The smallest distance in meters; None if one is empty."""
    if not any(one) or not any(two):
        return None
    _check_pairs(one, two)
    if (one.lines or one.polygons or two.lines or two.polygons) and relate("intersects", one, two):
        return 0.0
    best = math.pi
    for own, other in ((one, two), (two, one)):
        points = [vector(point) for point in own.vertices()]
        for chain in other.chains():
            for a, b in pairwise(map(vector, chain)):
                best = min(best, *(_nearest(point, a, b) for point in points))
        for point in map(vector, other.points):
            best = min(best, *(_angle(point, each) for each in points))
    return best * RADIUS


def max_distance(one: Shape, two: Shape) -> float | None:
    if not any(one) or not any(two):
        return None
    _check_pairs(one, two)
    others = [vector(point) for point in two.vertices()]
    return RADIUS * max(_angle(vector(point), other) for point in one.vertices() for other in others)


def _check_pairs(one: Shape, two: Shape) -> None:
    pairs = sum(1 for _ in one.vertices()) * sum(1 for _ in two.vertices())
    if pairs > MAX_PAIRS:
        raise ValueError(f"Two geographies have more than {MAX_PAIRS:,} pairs of points: simplify them")


# -- in a plane ---------------------------------------------------------------------------------------------


def _middle(shape: Shape) -> tuple[Vector, float]:
    """The middle of a shape, and the angle to its farthest point."""
    points = [vector(point) for point in shape.vertices()]
    total: Vector = (0.0, 0.0, 0.0)
    for point in points:
        total = _sum(total, point)
    middle = _unit(total)
    return middle, max(_angle(middle, point) for point in points)


def relate(question: str, one: Shape, two: Shape) -> bool:
    """Ask shapely a question about two shapes that are not empty."""
    _check_pairs(one, two)
    (first, reach), (second, other) = _middle(one), _middle(two)
    if _angle(first, second) > reach + other + 1e-12:
        return question == "disjoint"
    plane = _Plane(_unit(_sum(first, second)))
    return bool(getattr(plane.projected(one), question)(plane.projected(two)))


def combined(operation: str, one: Shape, two: Shape) -> Shape:
    """The intersection, union or difference of two shapes."""
    if not any(one) or not any(two):
        return Shape() if operation == "intersection" else one if any(one) or operation != "union" else two
    _check_pairs(one, two)
    plane = _Plane(_unit(_sum(_middle(one)[0], _middle(two)[0])))
    return plane.unprojected(getattr(plane.projected(one), operation)(plane.projected(two)))


def convex_hull(shape: Shape) -> Shape:
    if not any(shape):
        return shape
    plane = _Plane(_middle(shape)[0])
    return plane.unprojected(plane.projected(shape).convex_hull)


class _Plane:
    """The gnomonic projection of the hemisphere around a point."""

    def __init__(self, middle: Vector) -> None:
        self._up = middle
        axis: Vector = (0.0, 0.0, 1.0) if abs(middle[2]) < 0.9 else (1.0, 0.0, 0.0)
        self._east = _unit(_cross(axis, middle))
        self._north = _cross(middle, self._east)
        # The points that were projected, so that they come back as they were.
        self._known: dict[tuple[float, float], Point] = {}

    def projected(self, shape: Shape) -> Any:
        shapely = need_shapely()
        made = [shapely.Point(self._flat(point)) for point in shape.points]
        made += [shapely.LineString(list(map(self._flat, line))) for line in shape.lines]
        for shell, *holes in shape.polygons:
            rings = [list(map(self._flat, hole)) for hole in holes]
            made.append(shapely.Polygon(list(map(self._flat, shell)), rings))
        if any(not each.is_valid for each in made):
            raise ValueError("Invalid polygon: its edges cross")
        return made[0] if len(made) == 1 else shapely.unary_union(made)

    def _flat(self, point: Point) -> tuple[float, float]:
        found = vector(point)
        height = _dot(found, self._up)
        if height < 0.01:
            raise ValueError("Geographies that do not fit into one hemisphere are not supported")
        flat = (_dot(found, self._east) / height, _dot(found, self._north) / height)
        self._known.setdefault(flat, point)
        return flat

    def unprojected(self, found: Any) -> Shape:
        parts = [found] if not hasattr(found, "geoms") else list(found.geoms)
        made = []
        for part in parts:
            if part.is_empty:
                continue
            if part.geom_type == "Polygon":
                rings = (part.exterior, *part.interiors)
                made.append(Shape(polygons=(tuple(self._ring(list(ring.coords)) for ring in rings),)))
            elif part.geom_type == "Point":
                made.append(Shape(points=self._round(list(part.coords))))
            elif hasattr(part, "geoms"):
                made.append(self.unprojected(part))
            else:
                made.append(Shape(lines=(self._round(list(part.coords)),)))
        return joined(made)

    def _ring(self, points: list[tuple[float, float]]) -> tuple[Point, ...]:
        """A ring counterclockwise from its smallest point, as the service prints it."""
        ring = self._round(points)
        ring = ring[::-1][:-1] if _ring_area(ring) < 0 else ring[:-1]
        start = ring.index(min(ring))
        return (*ring[start:], *ring[: start + 1])

    def _round(self, points: list[tuple[float, float]]) -> tuple[Point, ...]:
        return tuple(self._known.get(each) or self._back(*each) for each in points)

    def _back(self, x: float, y: float) -> Point:
        return _degrees(_unit(_sum(self._up, _sum(_scaled(self._east, x), _scaled(self._north, y)))))


def need_shapely() -> Any:
    try:
        with needs("This function of GEOGRAPHY", "geo"):
            import shapely
    except MissingDependencyError as error:
        raise ValueError(str(error)) from None
    return shapely
