"""GEOGRAPHY: shapes on a sphere, against formulas of their own and facts of the earth."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lode.sql import Engine, QueryError, parse
from lode.sql.geography import RADIUS, Shape, area, distance, read, relate, write


class NoTables:
    def table(self, parts: tuple[str, ...], as_of: object) -> Any:
        raise QueryError(f"Not found: Table {'.'.join(parts)}")


@pytest.fixture(scope="module")
def engine() -> Any:
    with Engine(NoTables()) as made:
        yield made


def value(engine: Engine, expression: str) -> Any:
    (batch,) = engine.run(parse(f"SELECT {expression} AS v")[0]).batches
    return batch.column(0)[0].as_py()


SQUARE = "ST_GEOGFROMTEXT('POLYGON((0 0, 10 0, 10 50, 0 50, 0 0))')"
ACROSS = "ST_GEOGFROMTEXT('POLYGON((170 -10, -170 -10, -170 10, 170 10, 170 -10))')"
POLAR = "ST_GEOGFROMTEXT('POLYGON((0 80, 90 80, 180 80, -90 80, 0 80))')"

ANSWERS: dict[str, Any] = {
    "ST_ASTEXT(ST_GEOGPOINT(1.5, -2))": "POINT(1.5 -2)",
    "ST_ASTEXT(ST_GEOGPOINT(190, 0))": "POINT(-170 0)",
    "ST_GEOGPOINT(NULL, 1) IS NULL": True,
    "ST_ASTEXT(ST_GEOGFROMTEXT(' multipoint (1 2,(3 4)) '))": "MULTIPOINT(1 2, 3 4)",
    "ST_ASTEXT(ST_GEOGFROMTEXT('GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(0 0, 1 1))'))": (
        "GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(0 0, 1 1))"
    ),
    "ST_ASTEXT(ST_GEOGFROMTEXT('POINT EMPTY'))": "GEOMETRYCOLLECTION EMPTY",
    "ST_ASTEXT(ST_GEOGFROMGEOJSON(ST_ASGEOJSON(ST_GEOGPOINT(3, 4))))": "POINT(3 4)",
    "ST_ASTEXT(ST_GEOGFROMWKB(ST_ASBINARY(ST_GEOGFROMTEXT('LINESTRING(1 2, 3 4)'))))": "LINESTRING(1 2, 3 4)",
    "ST_X(ST_GEOGPOINT(1.25, 2))": 1.25,
    "ST_X(ST_GEOGFROMTEXT('POINT EMPTY')) IS NULL": True,
    # An edge is the shortest line, and so is north of its parallel.
    f"ST_CONTAINS({SQUARE}, ST_GEOGPOINT(5, 50.1))": True,
    f"ST_CONTAINS({SQUARE}, ST_GEOGPOINT(5, 50.2))": False,
    f"ST_CONTAINS({SQUARE}, ST_GEOGPOINT(0, 0))": False,
    f"ST_COVERS({SQUARE}, ST_GEOGPOINT(0, 0))": True,
    f"ST_WITHIN(ST_GEOGPOINT(180, 0), {ACROSS})": True,
    f"ST_WITHIN(ST_GEOGPOINT(0, 0), {ACROSS})": False,
    f"ST_COVEREDBY(ST_GEOGPOINT(33, 90), {POLAR})": True,
    f"ST_INTERSECTS({SQUARE}, {POLAR})": False,
    f"ST_DISJOINT({SQUARE}, {ACROSS})": True,
    "ST_INTERSECTS(ST_GEOGFROMTEXT('LINESTRING(0 0, 2 2)'), ST_GEOGFROMTEXT('LINESTRING(0 2, 2 0)'))": True,
    f"ST_TOUCHES({SQUARE}, ST_GEOGFROMTEXT('LINESTRING(0 0, -2 -2)'))": True,
    "ST_EQUALS(ST_GEOGFROMTEXT('LINESTRING(0 0, 1 1)'), ST_GEOGFROMTEXT('LINESTRING(1 1, 0 0)'))": True,
    "ST_DWITHIN(ST_GEOGPOINT(0, 0), ST_GEOGPOINT(0, 1), 112000)": True,
    "ST_DWITHIN(ST_GEOGPOINT(0, 0), ST_GEOGPOINT(0, 1), 111000)": False,
    f"ST_DISTANCE(ST_GEOGPOINT(5, 5), {SQUARE})": 0.0,
    "ST_DISTANCE(ST_GEOGPOINT(1, 1), ST_GEOGFROMTEXT('POINT EMPTY')) IS NULL": True,
    "ST_GEOMETRYTYPE(ST_UNION(ST_GEOGPOINT(0, 0), ST_GEOGPOINT(1, 1)))": "ST_MultiPoint",
    "ST_NPOINTS(ST_MAKELINE([ST_GEOGPOINT(0, 0), ST_GEOGPOINT(1, 1), ST_GEOGPOINT(2, 0)]))": 3,
    "ST_ASTEXT(ST_ENDPOINT(ST_GEOGFROMTEXT('LINESTRING(1 2, 3 4)')))": "POINT(3 4)",
    "ARRAY_LENGTH(ST_DUMP(ST_GEOGFROMTEXT('MULTIPOINT(0 0, 1 1)')))": 2,
    "ST_INTERSECTSBOX(ST_GEOGPOINT(179, 0), 170, -1, 190, 1)": True,
}


@pytest.mark.parametrize("expression", ANSWERS)
def test_a_function_answers_as_on_a_sphere(engine: Engine, expression: str) -> None:
    assert value(engine, expression) == ANSWERS[expression]


COORDINATES = st.tuples(st.floats(-180, 180), st.floats(-90, 90))


@settings(deadline=None)
@given(COORDINATES, COORDINATES)
def test_a_distance_of_points_is_that_of_the_haversine_formula(
    one: tuple[float, float], two: tuple[float, float]
) -> None:
    (x, y), (u, v) = (tuple(map(math.radians, point)) for point in (one, two))
    half = math.sin((v - y) / 2) ** 2 + math.cos(y) * math.cos(v) * math.sin((u - x) / 2) ** 2
    expected = 2 * RADIUS * math.asin(min(1.0, math.sqrt(half)))
    found = distance(Shape(points=(one,)), Shape(points=(two,)))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-3 if expected < 1e7 else 1.0)


def test_areas_and_lengths_are_those_of_the_sphere(engine: Engine) -> None:
    octant = "ST_GEOGFROMTEXT('POLYGON((0 0, 90 0, 0 90, 0 0))')"
    assert value(engine, f"ST_AREA({octant})") == pytest.approx(math.pi / 2 * RADIUS**2)
    assert value(engine, f"ST_PERIMETER({octant})") == pytest.approx(1.5 * math.pi * RADIUS)
    assert value(engine, "ST_LENGTH(ST_GEOGFROMTEXT('LINESTRING(0 0, 180 0)'))") == pytest.approx(
        math.pi * RADIUS
    )
    holed = read("POLYGON((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1))")
    hole = read("POLYGON((1 1, 2 1, 2 2, 1 2, 1 1))")
    assert area(holed) == pytest.approx(area(Shape(polygons=(holed.polygons[0][:1],))) - area(hole))
    assert not relate("contains", holed, read("POINT(1.5 1.5)"))


@settings(deadline=None, max_examples=50)
@given(st.lists(COORDINATES, min_size=2, max_size=5, unique=True))
def test_text_is_read_as_it_was_written(points: list[tuple[float, float]]) -> None:
    text = write(Shape(points=tuple(points), lines=(tuple(points),)))
    assert write(read(text)) == text


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("ST_GEOGPOINT(0, 91)", "Latitude must be between -90 and 90"),
        ("ST_GEOGPOINT(1e999, 0)", "must be finite|out of range|Could not"),
        ("ST_GEOGFROMTEXT('POINT(1)')", "Invalid WKT"),
        ("ST_GEOGFROMTEXT('CIRCLE(1 2)')", "'CIRCLE' is no type"),
        ("ST_GEOGFROMTEXT('POLYGON((0 0, 1 1, 0 0))')", "a ring needs three different points"),
        ("ST_GEOGFROMTEXT('POINT(1 2) x')", "unexpected 'x'"),
        ("ST_GEOGFROMTEXT(REPEAT('GEOMETRYCOLLECTION(', 5000))", "nested too deep"),
        (
            "ST_GEOGFROMTEXT(CONCAT('MULTIPOINT(', REPEAT('1 1,', 200000), '1 1)'))",
            "more than 100,000 points",
        ),
        ("ST_GEOGFROMGEOJSON('[1]')", "Invalid GeoJSON"),
        ("ST_GEOGFROMGEOJSON(REPEAT('[', 100000))", "Invalid GeoJSON"),
        ("ST_GEOGFROMWKB(b'\\x01')", "Invalid WKB"),
        ("ST_X(ST_GEOGFROMTEXT('LINESTRING(0 0, 1 1)'))", "must be a single point"),
        (
            "ST_CONTAINS(ST_GEOGFROMTEXT('POLYGON((-80 -60, 80 -60, 80 60, -80 60, -80 -60))'), "
            "ST_GEOGFROMTEXT('LINESTRING(70 0, 150 0)'))",
            "do not fit into one hemisphere",
        ),
        ("ST_AREA(ST_GEOGFROMTEXT(1))", "No matching|ST_GEOGFROMTEXT|st_geogfromtext|VARCHAR|Invalid WKT"),
        ("ST_BUFFER(ST_GEOGPOINT(0, 0), 1)", "Function not found: ST_BUFFER"),
    ],
)
def test_what_is_no_geography_is_refused(engine: Engine, expression: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        value(engine, expression)
