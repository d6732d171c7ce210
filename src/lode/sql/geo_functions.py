# ruff: noqa: E501, macros are one line each
"""BigQuery's functions of GEOGRAPHY: macros of DuckDB, which call Python functions of well-known text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from lode.sql import geography as geo
from lode.sql.geography import Shape, read, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.sql.geography import Point

_G: Final = 'STRUCT("geo$" VARCHAR)'


def _point(x: float, y: float) -> str:
    return write(Shape(points=(geo.checked(x, y),)))


def _from_wkb(value: bytes) -> str:
    shapely = geo.need_shapely()
    try:
        found = shapely.from_wkb(value)
    except shapely.errors.GEOSException:
        raise ValueError("Invalid WKB") from None
    return write(read(shapely.to_wkt(found, rounding_precision=-1).replace(" Z ", " ")))


def _as_binary(text: str) -> bytes:
    shapely = geo.need_shapely()
    return bytes(shapely.to_wkb(shapely.from_wkt(text), byte_order=1))


def _coordinate(number: int) -> Callable[[str], float | None]:
    def compute(text: str) -> float | None:
        shape = read(text)
        if not any(shape):
            return None
        if len(shape.points) != 1 or shape.lines or shape.polygons:
            raise ValueError(f"{'ST_Y' if number else 'ST_X'}: the geography must be a single point")
        return shape.points[0][number]

    return compute


def _related(question: str, empty: bool = False) -> Callable[[str, str], bool]:
    def compute(one: str, two: str) -> bool:
        first, second = read(one), read(two)
        return geo.relate(question, first, second) if any(first) and any(second) else empty

    return compute


def _equals(one: str, two: str) -> bool:
    first, second = read(one), read(two)
    if not any(first) or not any(second):
        return not any(first) and not any(second)
    return one == two or geo.relate("equals", first, second)


def _in_box(text: str, west: float, south: float, east: float, north: float) -> bool:
    shape = read(text)
    if not any(shape):
        return False
    if not west < east < west + 180 or not -90 <= south <= north <= 90:
        raise ValueError("ST_INTERSECTSBOX: a box must be less than 180 degrees wide, from west to east")
    if not shape.lines and not shape.polygons:
        return any((x - west) % 360 <= east - west and south <= y <= north for x, y in shape.points)
    raise ValueError("ST_INTERSECTSBOX is only supported for points")


def _dimension(text: str) -> int:
    return max((number for number, part in enumerate(read(text)) if part), default=-1)


def _is_closed(text: str) -> bool:
    shape = read(text)
    return any(shape) and not shape.polygons and all(line[0] == line[-1] for line in shape.lines)


def _is_ring(text: str) -> bool:
    shape = read(text)
    if len(shape.lines) != 1 or shape.points or shape.polygons:
        return False
    line = shape.lines[0]
    return line[0] == line[-1] and len(set(line[1:])) == len(line) - 1


def _vertex(text: str, number: int) -> str | None:
    shape = read(text)
    if len(shape.lines) != 1 or shape.points or shape.polygons:
        return None
    line = shape.lines[0]
    at = number - 1 if number > 0 else len(line) + number
    return write(Shape(points=(line[at],))) if number and 0 <= at < len(line) else None


def _make_line(texts: list[str]) -> str:
    points: list[Point] = []
    for text in texts:
        shape = read(text)
        if shape.polygons or len(shape.points) + len(shape.lines) != 1:
            raise ValueError("ST_MAKELINE takes points and lines")
        points += shape.points or shape.lines[0]
    return write(Shape(lines=(geo.as_line(points),)))


def _make_polygon(shell: str, holes: list[str] | None) -> str:
    rings = [read(text).lines for text in (shell, *(holes or ()))]
    if any(len(lines) != 1 for lines in rings):
        raise ValueError("ST_MAKEPOLYGON takes lines")
    closed = [(*line, line[0]) if line[0] != line[-1] else line for (line,) in rings]
    return write(Shape(polygons=(tuple(geo.as_ring(list(ring)) for ring in closed),)))


def _dump(text: str) -> list[str]:
    points, lines, polygons = read(text)
    parts = [Shape(points=(each,)) for each in points] + [Shape(lines=(each,)) for each in lines]
    return [write(each) for each in (*parts, *(Shape(polygons=(each,)) for each in polygons))]


def _boundary(text: str) -> str:
    shape = read(text)
    ends = tuple(end for line in shape.lines if line[0] != line[-1] for end in (line[0], line[-1]))
    return write(Shape(points=ends, lines=tuple(ring for polygon in shape.polygons for ring in polygon)))


def _snap(text: str, size: float) -> str:
    if not size > 0:
        raise ValueError("ST_SNAPTOGRID: the size of the grid must be greater than 0")

    def snapped(point: Point) -> Point:
        x, y = (round(value / size) for value in point)
        digits = max(0, -math.floor(math.log10(size))) + 2
        return round(x * size, digits), max(-90.0, min(90.0, round(y * size, digits)))

    shape = read(text)
    if shape.lines or shape.polygons:
        raise ValueError("ST_SNAPTOGRID is only supported for points")
    return write(Shape(points=tuple(dict.fromkeys(map(snapped, shape.points)))))


def _of(function: Callable[[Shape], Any]) -> Callable[[str], Any]:
    return lambda text: function(read(text))


def _combined(operation: str) -> Callable[[str, str], str]:
    return lambda one, two: write(geo.combined(operation, read(one), read(two)))


def _is_collection(shape: Shape) -> bool:
    return sum(map(len, shape)) > 1


_T: Final = "VARCHAR"
GEO_UDFS: Final[dict[str, tuple[Callable[..., Any], tuple[str, ...], str]]] = {
    "geo_point": (_point, ("DOUBLE", "DOUBLE"), _T),
    "geo_text": (lambda text: write(read(text)), (_T,), _T),
    "geo_from_json": (lambda text: write(geo.from_geojson(text)), (_T,), _T),
    "geo_from_wkb": (_from_wkb, ("BLOB",), _T),
    "geo_binary": (_as_binary, (_T,), "BLOB"),
    "geo_json": (_of(geo.as_geojson), (_T,), _T),
    "geo_x": (_coordinate(0), (_T,), "DOUBLE"),
    "geo_y": (_coordinate(1), (_T,), "DOUBLE"),
    "geo_area": (_of(geo.area), (_T,), "DOUBLE"),
    "geo_length": (_of(geo.length), (_T,), "DOUBLE"),
    "geo_perimeter": (_of(geo.perimeter), (_T,), "DOUBLE"),
    "geo_distance": (lambda one, two: geo.distance(read(one), read(two)), (_T, _T), "DOUBLE"),
    "geo_max_distance": (lambda one, two: geo.max_distance(read(one), read(two)), (_T, _T), "DOUBLE"),
    "geo_contains": (_related("contains"), (_T, _T), "BOOLEAN"),
    "geo_covers": (_related("covers"), (_T, _T), "BOOLEAN"),
    "geo_intersects": (_related("intersects"), (_T, _T), "BOOLEAN"),
    "geo_disjoint": (_related("disjoint", empty=True), (_T, _T), "BOOLEAN"),
    "geo_touches": (_related("touches"), (_T, _T), "BOOLEAN"),
    "geo_equals": (_equals, (_T, _T), "BOOLEAN"),
    "geo_in_box": (_in_box, (_T, "DOUBLE", "DOUBLE", "DOUBLE", "DOUBLE"), "BOOLEAN"),
    "geo_dimension": (_dimension, (_T,), "BIGINT"),
    "geo_points": (_of(lambda shape: sum(1 for _ in shape.vertices())), (_T,), "BIGINT"),
    "geo_parts": (_of(lambda shape: sum(map(len, shape))), (_T,), "BIGINT"),
    "geo_kind": (_of(geo.kind_of), (_T,), _T),
    "geo_is_collection": (_of(_is_collection), (_T,), "BOOLEAN"),
    "geo_is_closed": (_is_closed, (_T,), "BOOLEAN"),
    "geo_is_ring": (_is_ring, (_T,), "BOOLEAN"),
    "geo_vertex": (_vertex, (_T, "BIGINT"), _T),
    "geo_line": (_make_line, ("VARCHAR[]",), _T),
    "geo_polygon": (_make_polygon, (_T, "VARCHAR[]"), _T),
    "geo_dump": (_dump, (_T,), "VARCHAR[]"),
    "geo_boundary": (_boundary, (_T,), _T),
    "geo_snap": (_snap, (_T, "DOUBLE"), _T),
    "geo_centroid": (_of(lambda shape: write(geo.centroid(shape))), (_T,), _T),
    "geo_hull": (_of(lambda shape: write(geo.convex_hull(shape))), (_T,), _T),
    "geo_intersection": (_combined("intersection"), (_T, _T), _T),
    "geo_union": (_combined("union"), (_T, _T), _T),
    "geo_difference": (_combined("difference"), (_T, _T), _T),
}
GEO_GIVES_NULL: Final = ("geo_x", "geo_y", "geo_distance", "geo_max_distance", "geo_vertex")
GEO_TAKES_NULL: Final = ("geo_polygon",)


def _made(call: str) -> str:
    """An expression with a GEOGRAPHY of a text."""
    return f'CASE WHEN {call} IS NOT NULL THEN struct_pack("geo$" := {call}) END'


def _one(udf: str, *, makes: bool = False) -> tuple[str, ...]:
    call = f'bq_{udf}(x."geo$")'
    return (f"(x {_G}) AS {_made(call) if makes else call}",)


def _two(udf: str, *, flipped: bool = False, makes: bool = False) -> tuple[str, ...]:
    call = f'bq_{udf}(y."geo$", x."geo$")' if flipped else f'bq_{udf}(x."geo$", y."geo$")'
    return (f"(x {_G}, y {_G}) AS {_made(call) if makes else call}",)


_LISTED: Final = 'list_transform(x, lambda e: e."geo$")'
GEO_MACROS: Final[dict[str, tuple[str, ...]]] = {
    "st_geogpoint": (f"(x DOUBLE, y DOUBLE) AS {_made('bq_geo_point(x, y)')}",),
    "st_geogfromtext": (f"(x VARCHAR) AS {_made('bq_geo_text(x)')}",),
    "st_geogfromgeojson": (f"(x VARCHAR) AS {_made('bq_geo_from_json(x)')}",),
    "st_geogfromwkb": (
        f"(x BLOB) AS {_made('bq_geo_from_wkb(x)')}",
        f"(x VARCHAR) AS {_made('bq_geo_from_wkb(unhex(x))')}",
    ),
    "st_astext": (f'(x {_G}) AS x."geo$"',),
    "st_asbinary": _one("geo_binary"),
    "st_asgeojson": _one("geo_json"),
    "st_x": _one("geo_x"),
    "st_y": _one("geo_y"),
    "st_area": _one("geo_area"),
    "st_length": _one("geo_length"),
    "st_perimeter": _one("geo_perimeter"),
    "st_distance": _two("geo_distance"),
    "st_maxdistance": _two("geo_max_distance"),
    "st_dwithin": (
        f'(x {_G}, y {_G}, z DOUBLE) AS COALESCE(bq_geo_distance(x."geo$", y."geo$") <= z, CASE WHEN x IS NOT NULL AND y IS NOT NULL AND z IS NOT NULL THEN FALSE END)',
    ),
    "st_contains": _two("geo_contains"),
    "st_within": _two("geo_contains", flipped=True),
    "st_covers": _two("geo_covers"),
    "st_coveredby": _two("geo_covers", flipped=True),
    "st_intersects": _two("geo_intersects"),
    "st_disjoint": _two("geo_disjoint"),
    "st_touches": _two("geo_touches"),
    "st_equals": _two("geo_equals"),
    "st_intersectsbox": (
        f'(x {_G}, a DOUBLE, b DOUBLE, c DOUBLE, d DOUBLE) AS bq_geo_in_box(x."geo$", a, b, c, d)',
    ),
    "st_dimension": _one("geo_dimension"),
    "st_npoints": _one("geo_points"),
    "st_numpoints": _one("geo_points"),
    "st_numgeometries": _one("geo_parts"),
    "st_geometrytype": _one("geo_kind"),
    "st_isempty": (f"(x {_G}) AS x.\"geo$\" = 'GEOMETRYCOLLECTION EMPTY'",),
    "st_iscollection": _one("geo_is_collection"),
    "st_isclosed": _one("geo_is_closed"),
    "st_isring": _one("geo_is_ring"),
    "st_pointn": (f"(x {_G}, n BIGINT) AS " + _made('bq_geo_vertex(x."geo$", n)'),),
    "st_startpoint": (f"(x {_G}) AS " + _made('bq_geo_vertex(x."geo$", 1)'),),
    "st_endpoint": (f"(x {_G}) AS " + _made('bq_geo_vertex(x."geo$", -1)'),),
    "st_makeline": (
        f"(x {_G}, y {_G}) AS " + _made('bq_geo_line([x."geo$", y."geo$"])'),
        f"(x {_G}[]) AS {_made(f'bq_geo_line({_LISTED})')}",
    ),
    "st_makepolygon": (
        f"(x {_G}) AS " + _made('bq_geo_polygon(x."geo$", NULL)'),
        f"(x {_G}, y {_G}[]) AS " + _made('bq_geo_polygon(x."geo$", list_transform(y, lambda e: e."geo$"))'),
    ),
    "st_dump": (f'(x {_G}) AS list_transform(bq_geo_dump(x."geo$"), lambda e: struct_pack("geo$" := e))',),
    "st_boundary": _one("geo_boundary", makes=True),
    "st_snaptogrid": (f"(x {_G}, size DOUBLE) AS " + _made('bq_geo_snap(x."geo$", size)'),),
    "st_centroid": _one("geo_centroid", makes=True),
    "st_convexhull": _one("geo_hull", makes=True),
    "st_intersection": _two("geo_intersection", makes=True),
    "st_union": _two("geo_union", makes=True),
    "st_difference": _two("geo_difference", makes=True),
}
