"""GEOGRAPHY: text that is a shape on a sphere is stored as BigQuery prints it, everything else is refused."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lode.ingest.types.columns import Column
from support.ingest.entry_points import TEXT_WAYS, by_arrow, by_json, problems

GEOGRAPHY = Column("x", "GEOGRAPHY")
SQUARE = "POLYGON((0 0, 1 0, 1 1, 0 1, 0 0))"
FORMS = {
    "POINT(1 2)": "POINT(1 2)",
    "  point ( 1.50   -2 ) ": "POINT(1.5 -2)",
    "POINT(-0 0)": "POINT(0 0)",
    "POINT(1e-20 1e1)": "POINT(0 10)",
    "POINT(0.1 47.649154)": "POINT(0.1 47.649154)",
    "LINESTRING(0 0,1 1)": "LINESTRING(0 0, 1 1)",
    "POLYGON((0 0,1 0,1 1,0 1,0 0))": SQUARE,
    # Shells are turned against the clock, holes with it.
    "POLYGON((0 0, 0 1, 1 1, 1 0, 0 0))": SQUARE,
    "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))": (
        "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1))"
    ),
    "MULTIPOINT(1 2, 3 4)": "MULTIPOINT(1 2, 3 4)",
    "MULTIPOINT((1 2), (3 4))": "MULTIPOINT(1 2, 3 4)",
    "MULTILINESTRING((0 0, 1 1), (2 2, 3 3))": "MULTILINESTRING((0 0, 1 1), (2 2, 3 3))",
    "MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))": (
        "MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))"
    ),
    "GEOMETRYCOLLECTION(POINT(1 2), MULTIPOINT(3 4, 5 6), LINESTRING(0 0, 1 1))": (
        "GEOMETRYCOLLECTION(POINT(1 2), MULTIPOINT(3 4, 5 6), LINESTRING(0 0, 1 1))"
    ),
    # There is one empty geography.
    "POINT EMPTY": "GEOMETRYCOLLECTION EMPTY",
    "POLYGON EMPTY": "GEOMETRYCOLLECTION EMPTY",
    "GEOMETRYCOLLECTION(POINT EMPTY)": "GEOMETRYCOLLECTION EMPTY",
    # A longitude is an angle.
    "POINT(190 5)": "POINT(-170 5)",
    "POINT(-540 5)": "POINT(-180 5)",
    "POINT(180 90)": "POINT(180 90)",
    "LINESTRING(170 0, 190 0)": "LINESTRING(170 0, -170 0)",
    '{"type": "Point", "coordinates": [1, 2.5]}': "POINT(1 2.5)",
    ' {"coordinates": [[0, 0], [1, 1]], "type": "LineString", "bbox": [0, 0, 1, 1]}': "LINESTRING(0 0, 1 1)",
    '{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}': SQUARE,
    '{"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [1, 2]}]}': (
        "GEOMETRYCOLLECTION(POINT(1 2))"
    ),
}
# Valid on a sphere, not on a map that is cut at the 180th meridian.
ROUND = [
    "POLYGON((179 0, -179 0, -179 1, 178 3, 179 0))",
    "POLYGON((178 0, -178 0, -178 4, 179 4, -179 3, 179 2, 178 4, 178 0))",
    # Around a pole, one with a hole.
    "POLYGON((0 80, 120 80, -120 80, 0 80))",
    "POLYGON((0 -60, 120 -60, -120 -60, 0 -60), (10 -70, 20 -70, 20 -75, 10 -70))",
]
REFUSED = {
    "garbage": "not a GEOGRAPHY",
    "": "not a GEOGRAPHY",
    "POINT": "not a GEOGRAPHY",
    "POINT(1)": "not a GEOGRAPHY",
    "POINT(1 2) POINT(3 4)": "not a GEOGRAPHY",
    "POINT(1 2)x": "not a GEOGRAPHY",
    "POINT(1 2)\0x": "NUL",
    "SRID=4326;POINT(1 2)": "not a GEOGRAPHY",
    "0101000000000000000000F03F0000000000000040": "not a GEOGRAPHY",
    "POINT(500 500)": "latitude",
    "POINT(0 90.000001)": "latitude",
    "POINT(nan nan)": "GEOGRAPHY|latitude",
    "POINT(inf 1)": "GEOGRAPHY|latitude",
    "POINT(1e400 1)": "GEOGRAPHY|latitude",
    "POINT Z (1 2 3)": "Z or M",
    "POINT(1 2 3)": "Z or M",
    "POINT M (1 2 3)": "Z or M",
    "LINEARRING(0 0, 1 0, 1 1, 0 0)": "type",
    "GEOMETRYCOLLECTION(LINEARRING(0 0, 1 0, 1 1, 0 0))": "type",
    "CIRCULARSTRING(0 0, 1 1, 2 0)": "type|GEOGRAPHY",
    "LINESTRING(0 0)": "GEOGRAPHY",
    "LINESTRING(0 0, 0 0)": "valid",
    "POLYGON((0 0, 1 0, 1 1, 0 1))": "GEOGRAPHY",
    "POLYGON((0 0, 1 1, 1 0, 0 1, 0 0))": "valid",
    "POLYGON((0 0, 1 0, 1 1, 0 1, 0 0), (5 5, 6 5, 6 6, 5 5))": "valid",
    "MULTIPOLYGON(((0 0, 2 0, 2 2, 0 0)), ((0 0, 2 0, 2 2, 0 0)))": "valid",
    "POLYGON((179 0, -179 1, -179 0, 179 1, 179 0))": "valid",
    '{"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}}': "GeoJSON",
    '{"type": "Point", "coordinates": [1, 2, 3]}': "GeoJSON",
    '{"type": "Point", "coordinates": [1]}': "GeoJSON",
    '{"type": "Point", "coordinates": ["1", "2"]}': "GeoJSON",
    '{"type": "Point", "coordinates": [1, 2]} x': "GeoJSON",
    '{"type": "Point", "coordinates": [1, 100]}': "latitude",
    '{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1]]]}': "GEOGRAPHY",
    "{}": "GeoJSON",
    "{": "GeoJSON",
    "GEOMETRYCOLLECTION(" * 40 + "POINT(1 2)" + ")" * 40: "nested deeper",
}


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_shapes_are_stored_as_bigquery_prints_them(way: str) -> None:
    assert TEXT_WAYS[way](GEOGRAPHY, [*FORMS, None]) == [*FORMS.values(), None]


def test_what_is_stored_is_read_as_itself() -> None:
    stored = sorted(set(FORMS.values()))
    assert by_json(GEOGRAPHY, stored) == stored


@pytest.mark.parametrize("way", TEXT_WAYS)
def test_text_that_is_no_shape_makes_its_row_bad(way: str) -> None:
    import re

    found = problems(lambda: TEXT_WAYS[way](GEOGRAPHY, ["POINT(1 2)", *REFUSED, None]))
    assert list(found) == list(range(1, len(REFUSED) + 1))
    for message, (text, says) in zip(found.values(), REFUSED.items(), strict=True):
        assert re.search(says, message), (text, message)
        assert message.startswith("Column 'x': ")


def test_polygons_across_the_180th_meridian_and_around_poles_are_valid() -> None:
    assert by_json(GEOGRAPHY, ROUND) == ROUND


def test_lists_and_records_of_shapes_are_read_alike() -> None:
    inner = (GEOGRAPHY, Column("many", "GEOGRAPHY", "REPEATED"))
    record = Column("record", "STRUCT", "REPEATED", inner)
    sent = [[{"x": "POINT (1 2)", "many": ["POINT (3 4)"]}], [{"x": None, "many": []}]]
    assert by_json(record, sent)[0] == [{"x": "POINT(1 2)", "many": ["POINT(3 4)"]}]
    bad = [[], [{"x": "POINT(1 2)", "many": ["POINT(1 2)", "nowhere"]}]]
    assert list(problems(lambda: by_json(record, bad))) == [1]


shapes = st.sampled_from([*FORMS, *ROUND, *REFUSED]).flatmap(
    lambda text: st.tuples(st.integers(0, len(text)), st.text("()[]{}0,. -aePZ\0é", max_size=3)).map(
        lambda change: text[: change[0]] + change[1] + text[change[0] + len(change[1]) :]
    )
)


@settings(deadline=None)
@given(st.lists(shapes | st.text(max_size=20), min_size=1, max_size=5))
def test_any_text_is_a_shape_that_is_read_again_or_a_bad_row(texts: list[str]) -> None:
    from lode.ingest.status import Refused

    try:
        stored = by_arrow(GEOGRAPHY, texts)
    except Refused as refused:
        bad, stored = refused.rows, []
    else:
        bad = ()
    assert bool(bad) != bool(stored)
    assert not stored or by_arrow(GEOGRAPHY, stored) == stored


def test_random_texts_do_not_crash_the_process() -> None:
    """In a process of its own: a crash in GEOS would take the tests with it."""
    script = """
import random

from support.ingest.entry_points import by_arrow
from lode.ingest.types.columns import Column
from lode.ingest.status import Refused

random.seed(5)
words = ["POINT", "LINESTRING", "POLYGON", "MULTIPOLYGON", "GEOMETRYCOLLECTION", "EMPTY", "Z", "(", ")", ",",
         "0", "1 2", "-5.5 7", "1e308 2", "nan nan", "inf", "((", "))", "{", '"type":"Polygon"', "[", "]",
         '"coordinates":', "[[[0,0],[1,1],[1,0],[0,0]]]", "}", "\\\\u0000", " "]
column = Column("x", "GEOGRAPHY")
for _ in range(20):
    texts = ["".join(random.choices(words, k=random.randint(1, 40))) for _ in range(100)]
    try:
        by_arrow(column, texts)
    except Refused as refused:
        assert refused.rows
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd="tests", timeout=120)


def zigzag(corners: int) -> str:
    """A ring whose edges are long diagonals beside each other: the boxes of all of them overlap."""
    there = [(i / corners, i / corners / 2 + 40 * (i % 2) - i / corners) for i in range(corners)]
    points = [(x + 40 * (i % 2), y) for i, (x, y) in enumerate(there)]
    points += [(60, -60), (-60, -60), points[0]]
    return "POLYGON((" + ", ".join(f"{x} {y}" for x, y in points) + "))"


HOSTILE = {
    "deep WKT": "GEOMETRYCOLLECTION(" * 500_000,
    "deep GeoJSON": '{"type":"GeometryCollection","geometries":[' * 200_000,
    "deep brackets": '{"type":"Polygon","coordinates":' + "[" * 5_000_000,
    "long garbage": "x" * 10_000_000,
    "long number": "POINT(" + "1" * 5_000_000 + " 2)",
    "edges close together": zigzag(100_000),
    "too many points": "MULTIPOINT(" + "0 0," * 2_000_000 + "0 0)",
    "too many points of GeoJSON": '{"type":"MultiPoint","coordinates":[' + "[0,0]," * 1_000_000 + "[0,0]]}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_refused_in_bounded_time(name: str) -> None:
    started = time.process_time()
    assert list(problems(lambda: by_json(GEOGRAPHY, ["POINT(1 2)", HOSTILE[name]]))) == [1]
    assert time.process_time() - started < 20


def test_large_shapes_that_are_what_they_should_be_are_stored() -> None:
    points = ", ".join(f"{i % 360 - 180} {i % 180 - 90}" for i in range(200_000))
    circle = [(f"{x:.6f}", f"{y:.6f}") for x, y in _circle(50_000)]
    ring = ", ".join(f"{x} {y}" for x, y in [*circle, circle[0]])
    islands = ", ".join(
        f"(({x} {y}, {x}.4 {y}, {x}.4 {y}.4, {x} {y}))" for x in range(170) for y in range(80)
    )
    sent = [f"MULTIPOINT({points})", f"POLYGON(({ring}))", f"MULTIPOLYGON({islands})"]
    stored = by_json(GEOGRAPHY, sent)
    assert [text.count(",") for text in stored] == [199_999, 50_000, 4 * 170 * 80 - 1]


def test_many_rows_are_read_some_at_a_time_and_bad_ones_keep_their_numbers() -> None:
    line = "LINESTRING(" + "0 0, 1 1, " * 20_000 + "0 0)"
    texts = [line if row % 2 else "POINT(1 2)" for row in range(60)]
    assert by_arrow(GEOGRAPHY, texts) == texts
    texts[5] = texts[57] = "garbage"
    assert list(problems(lambda: by_arrow(GEOGRAPHY, texts))) == [5, 57]


def _circle(corners: int) -> list[tuple[float, float]]:
    import math

    turn = 2 * math.pi / corners
    return [(50 * math.cos(i * turn), 50 * math.sin(i * turn)) for i in range(corners)]


WITHOUT_SHAPELY = """
import sys
sys.modules["shapely"] = None

import pyarrow as pa
from support.ingest.entry_points import by_arrow, by_json
from lode.ingest.api.rest.cells import cells
from lode.ingest.types.check import check_schema
from lode.ingest.types.columns import Column, TableSchema
from lode.ingest.status import Refused

column = Column("place", "GEOGRAPHY")
for act in (
    lambda: check_schema(TableSchema((column,))),
    lambda: by_arrow(column, ["POINT(1 2)"]),
    lambda: by_json(column, ["POINT(1 2)"]),
):
    try:
        act()
    except Refused as refused:
        print(refused.message)
assert by_json(column, [None]) == [None]
schema = TableSchema((column,))
stored = pa.RecordBatch.from_pylist([{"place": "garbage"}], schema.arrow)
assert cells(stored, schema) == [{"f": [{"v": "garbage"}]}]
assert "shapely" not in [name for name, module in sys.modules.items() if module]
"""


def test_without_shapely_a_table_and_a_write_say_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SHAPELY], capture_output=True, text=True, cwd="tests", timeout=120
    )
    assert done.stderr == ""
    assert (
        done.stdout.splitlines()
        == [
            "Column 'place' of type GEOGRAPHY needs shapely, which is not installed: "
            "pip install 'lode-store[geo]'."
        ]
        * 3
    )
