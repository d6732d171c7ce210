"""Paths: escaping as Go's PathEscape has it, and layouts that recognise exactly what they write."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lode.errors import InvalidOptionError, InvalidPathError, SchemaViolationError
from lode.format.ids import LAKE_FOLDERS, check_new_id
from lode.format.paths import (
    NULL_PARTITION,
    ChainPaths,
    DefaultLayout,
    FlatLayout,
    HiveLayout,
    Layout,
    ManifestPlace,
    canonical_partition,
    partition_path,
    partition_text,
    partition_values,
)
from lode.format.volume import block_path, volume_chain
from lode.store.protocol import check_path
from support import golang

# What url.PathEscape of Go's standard library returns for each text.
GO_PATH_ESCAPE = {
    "plain": "plain",
    "eu/west 1": "eu%2Fwest%201",
    "a=b": "a=b",
    "a:b": "a:b",
    "a@b": "a@b",
    "a&b": "a&b",
    "a+b": "a+b",
    "$5": "$5",
    "100%": "100%25",
    "%2F": "%252F",
    "a;b": "a%3Bb",
    "a,b": "a%2Cb",
    "a?b": "a%3Fb",
    "a#b": "a%23b",
    "-_.~": "-_.~",
    "!*'()": "%21%2A%27%28%29",
    "[x]": "%5Bx%5D",
    '"': "%22",
    "<>": "%3C%3E",
    "back\\slash": "back%5Cslash",
    "^`{|}": "%5E%60%7B%7C%7D",
    "tab\t": "tab%09",
    "line\n": "line%0A",
    "nul\0": "nul%00",
    "zürich": "z%C3%BCrich",
    "東京": "%E6%9D%B1%E4%BA%AC",
    "🙂": "%F0%9F%99%82",
    "..": "..",
    ".": ".",
}


@pytest.mark.parametrize("text", GO_PATH_ESCAPE)
def test_text_is_escaped_as_go_does(text: str) -> None:
    assert partition_path(["k"], [text]) == f"k={GO_PATH_ESCAPE[text]}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (date(2026, 1, 2), "2026-01-02"),
        (date(1, 2, 3), "0001-02-03"),
        (datetime(2026, 1, 2, 23, 59), "2026-01-02"),
        (datetime(2026, 1, 2, 23, 59, tzinfo=UTC), "2026-01-02"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-7, "-7"),
        (2**80, str(2**80)),
        (1.5, "1.5"),
        (2.0, "2"),
        (-0.25, "-0.25"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-05, "1e-05"),
        (Decimal("1.50"), "1.50"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (None, NULL_PARTITION),
        ("", NULL_PARTITION),
    ],
)
def test_values_become_text(value: Any, text: str) -> None:
    assert partition_path(["k"], [value]) == f"k={text}"


@pytest.mark.parametrize("value", [b"x", [1], {"a": 1}, object()])
def test_a_value_that_cannot_name_a_partition_says_so(value: Any) -> None:
    with pytest.raises(SchemaViolationError, match="partition column 'k'") as caught:
        partition_path(["k"], [value])
    assert caught.value.column == "k"


def test_text_that_utf8_cannot_carry_cannot_name_a_partition() -> None:
    with pytest.raises(SchemaViolationError, match="partition column 'k'"):
        partition_path(["k"], ["\ud800"])


def test_several_keys_nest_in_their_order() -> None:
    assert partition_path(["day", "region"], [date(2026, 1, 2), "eu/west 1"]) == (
        "day=2026-01-02/region=eu%2Fwest%201"
    )


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=1, max_size=3))
def test_texts_come_back_from_their_partition(values: list[str]) -> None:
    keys = [f"k{number}" for number in range(len(values))]
    path = partition_path(keys, values)
    assert check_path(path) == path
    assert path.count("/") == len(keys) - 1
    back = partition_values(path)
    assert [back[key] for key in keys] == [
        None if value in ("", NULL_PARTITION, "<nil>") else value for value in values
    ]


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_two_texts_share_a_partition_only_if_they_are_one(one: str, other: str) -> None:
    same = (one or NULL_PARTITION) == (other or NULL_PARTITION)
    assert (partition_path(["k"], [one]) == partition_path(["k"], [other])) == same


SNAP = "1794769330294366391"
HIVE = HiveLayout("day", "region")
MANIFEST_PLACES: list[tuple[Layout, str, ManifestPlace | None]] = [
    (DefaultLayout(), f"datasets/e/snapshots/{SNAP}/manifest.json", ManifestPlace("e", SNAP, "")),
    (DefaultLayout(), f"datasets/e/snapshots/{SNAP}/intent.json", None),
    (DefaultLayout(), f"datasets/e/snapshots/{SNAP}/data/manifest.json", None),
    (DefaultLayout(), f"datasets/e/segments/{SNAP}/manifest.json", None),
    (DefaultLayout(), f"datasets/e/{SNAP}/manifest.json", None),
    (DefaultLayout(), f"other/datasets/e/snapshots/{SNAP}/manifest.json", None),
    (DefaultLayout(), f"volumes/e/snapshots/{SNAP}/manifest.json", None),
    (DefaultLayout(), "datasets/e/snapshots/manifest.json", None),
    (DefaultLayout(), "manifest.json", None),
    (FlatLayout(), f"e/{SNAP}/manifest.json", ManifestPlace("e", SNAP, "")),
    (FlatLayout(), f"e/{SNAP}/data/manifest.json", None),
    (FlatLayout(), "e/manifest.json", None),
    (FlatLayout(), f"e/{SNAP}/manifest.json.bak", None),
    (HIVE, f"datasets/e/segments/{SNAP}/manifest.json", ManifestPlace("e", SNAP, "")),
    (
        HIVE,
        f"datasets/e/partitions/day=1/region=eu%2Fwest/segments/{SNAP}/manifest.json",
        ManifestPlace("e", SNAP, "day=1/region=eu%2Fwest"),
    ),
    (HIVE, f"datasets/e/partitions/segments/{SNAP}/manifest.json", None),
    (HIVE, f"datasets/e/partitions/day/segments/{SNAP}/manifest.json", None),
    (HIVE, f"datasets/e/partitions/day=1/region=2/{SNAP}/manifest.json", None),
    (HIVE, f"datasets/e/partitions/day=1/region=2/segments/{SNAP}/data/manifest.json", None),
    (HIVE, f"datasets/e/snapshots/{SNAP}/manifest.json", None),
]


@pytest.mark.parametrize(("layout", "path", "place"), MANIFEST_PLACES)
def test_a_layout_recognises_exactly_its_own_manifests(
    layout: Layout, path: str, place: ManifestPlace | None
) -> None:
    assert layout.place(path) == place


@pytest.mark.parametrize("layout", [DefaultLayout(), FlatLayout(), HIVE])
def test_a_layout_recognises_what_it_places(layout: Layout) -> None:
    assert layout.place(layout.chain("e").manifest(SNAP)) == ManifestPlace("e", SNAP, "")
    for path in layout.copies("e", SNAP, ["day=1/region=2"]):
        assert layout.place(path) == ManifestPlace("e", SNAP, "day=1/region=2")
    data = layout.data_path("e", SNAP, "day=1/region=2", "data.gz")
    assert layout.place(data) is None
    assert layout.partition_of("e", data) == ("day=1/region=2" if layout.keys else "")


@pytest.mark.parametrize(
    ("layout", "root", "manifests", "data"),
    [
        (DefaultLayout(), "datasets/e", "datasets/e/snapshots", f"datasets/e/snapshots/{SNAP}/data/d"),
        (FlatLayout(), "e", "e", f"e/{SNAP}/data/d"),
        (HIVE, "datasets/e", "datasets/e/segments", f"datasets/e/partitions/p=1/segments/{SNAP}/data/d"),
    ],
)
def test_a_layout_has_its_paths(layout: Layout, root: str, manifests: str, data: str) -> None:
    chain = layout.chain("e")
    assert chain == ChainPaths(root, manifests)
    assert chain.pointer == f"{root}/latest"
    assert chain.manifest(SNAP) == f"{manifests}/{SNAP}/manifest.json"
    assert chain.intent(SNAP) == f"{manifests}/{SNAP}/intent.json"
    assert layout.data_path("e", SNAP, "p=1", "d") == data
    assert isinstance(layout, Layout)


def test_the_objects_beside_a_history_do_not_pass_for_manifests() -> None:
    chain = FlatLayout().chain("e")
    assert chain.snapshot_of(chain.manifest(SNAP)) == SNAP
    for path in (chain.pointer, chain.intent(SNAP), chain.key("w", "k"), chain.segment(16, 16)):
        assert chain.snapshot_of(path) is None
        assert FlatLayout().place(path) is None


@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))
def test_an_idempotency_key_has_one_object_of_its_own(a: str, b: str, c: str, d: str) -> None:
    chain = DefaultLayout().chain("e")
    try:
        paths = chain.key(a, b), chain.key(c, d)
    except UnicodeEncodeError:
        return
    assert (paths[0] == paths[1]) == ((a, b) == (c, d))
    assert check_path(paths[0])


@pytest.mark.parametrize(
    "keys", [(), ("",), ("a/b",), ("a=b",), ("a\\b",), ("a", "a"), ("a\0",), ("\ud800",)]
)
def test_keys_that_cannot_be_in_a_path_are_refused(keys: tuple[str, ...]) -> None:
    with pytest.raises(InvalidOptionError, match="partition key"):
        HiveLayout(*keys)


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats()
    | st.floats(-1e9, 1e9).map(round)
    | st.sampled_from([0.0, -0.0, 1e6, 1234567.0, 1e20, 1e21, 1e-5, 0.0001, 5e-324, 1.7976931348623157e308])
    | st.dates(date(1000, 1, 1))
    | st.text(st.characters(codec="utf-8"), max_size=6)
    | st.sampled_from(["<nil>", "NaN", "007", "1.10", "+1", "1e6", "1E+06", "_", "%2F", "é", "e\u0301"])
)


def meaning(value: Any) -> Any:
    """What Go and Python mean by a partition value, as far as a path can tell."""
    match value:
        case None | "" | "<nil>" | "__HIVE_DEFAULT_PARTITION__":
            return None
        case bool():
            return "true" if value else "false"
        case date():
            return value.isoformat()
        case float() if math.isnan(value):
            return "nan"
        case float() if math.isinf(value):
            return str(value)
        case str():
            # A text that is what a number looks like cannot be told from the number.
            for number in (int, float):
                try:
                    found = number(value)
                except (ValueError, OverflowError):
                    continue
                if value in (golang.sprint(found), partition_text("k", found)):
                    return meaning(found)
            return value
    return int(value) if value == int(value) else value


def both(value: Any) -> set[str]:
    """The path of a value as Python and as Go have it."""
    return {partition_path(["k"], [value]), golang.partition(["k"], {"k": value})}


@given(VALUES, VALUES)
def test_a_canonical_partition_is_one_exactly_if_the_values_are(one: Any, other: Any) -> None:
    here = set(map(canonical_partition, both(one)))
    there = set(map(canonical_partition, both(other)))
    assert len(here) == len(there) == 1
    assert (here == there) == (meaning(one) == meaning(other))


@given(VALUES)
def test_a_canonical_partition_is_canonical_and_a_path(value: Any) -> None:
    for path in both(value):
        canonical = canonical_partition(path)
        assert canonical_partition(canonical) == canonical
        assert canonical_partition(f"a=1/{path}/b=2") == f"a=1/{canonical}/b=2"
        assert check_path(canonical)


@pytest.mark.parametrize(
    ("one", "other"),
    [("k=%2f", "k=%2F"), ("k=a%3db", "k=a=b"), ("k=%31", "k=1"), ("k=", "k=%3Cnil%3E"), ("k=-Inf", "k=-inf")],
)
def test_paths_that_spell_one_value_differently_are_one_partition(one: str, other: str) -> None:
    assert canonical_partition(one) == canonical_partition(other)


@pytest.mark.parametrize("snapshot_id", ["segments", "data", "partitions", "k=v", SNAP])
@pytest.mark.parametrize("value", ["segments", "partitions", "/segments/", "data"])
def test_a_partition_is_read_from_a_path_whatever_is_around_it(snapshot_id: str, value: str) -> None:
    layout = HiveLayout("segments", "partitions")
    partition = partition_path(layout.keys, [value, value])
    path = layout.data_path("partitions", snapshot_id, partition, "data")
    assert layout.partition_of("partitions", path) == partition


SPECIAL = (
    "a b e 16 k=v datasets volumes catalog latest latest.lock keys history definition tags data partitions "
    "segments snapshots manifest.json intent.json x.lock"
)
NAMES = st.sampled_from(SPECIAL.split()) | st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)


def allowed(kind: str) -> st.SearchStrategy[str]:
    def fits(id: str) -> bool:
        try:
            return bool(check_new_id(id, kind=kind))
        except InvalidPathError:
            return False

    return NAMES.filter(fits)


KEYS = NAMES.filter(lambda key: not set(key) & set("/=\\\0"))
UNPARTITIONED: list[Layout] = [DefaultLayout(), FlatLayout()]
LAYOUTS: st.SearchStrategy[Layout] = st.sampled_from(UNPARTITIONED) | st.lists(
    KEYS, min_size=1, max_size=2, unique=True
).map(lambda keys: HiveLayout(*keys))


@st.composite
def histories(draw: st.DrawFn) -> tuple[Layout, str, ChainPaths, set[str]]:
    """A dataset, or a volume, with the paths of its objects; a volume has no layout of its own."""
    snapshot_id = draw(allowed("snapshot"))
    layout: Layout = DefaultLayout()
    if draw(st.booleans()):
        id = draw(allowed("volume"))
        chain, data = volume_chain(id), {block_path(id, 0, 8, "0")}
    else:
        layout, id = draw(LAYOUTS), draw(allowed("dataset"))
        assume(not isinstance(layout, FlatLayout) or id.casefold() not in LAKE_FOLDERS)
        partition = partition_path(layout.keys, [draw(NAMES) for _ in layout.keys])
        chain = layout.chain(id)
        data = {layout.data_path(id, snapshot_id, partition, "data")}
        data |= set(layout.copies(id, snapshot_id, [partition]))
        assert layout.partition_of(id, next(iter(data))) == partition
    beside = {f"{chain.root}/definition/0.json", f"{chain.root}/tags/a", f"{chain.pointer}.lock"}
    own = {chain.pointer, chain.manifest(snapshot_id), chain.intent(snapshot_id), chain.key("w", "k")}
    return layout, id, chain, own | data | beside | {chain.segment(16, 16)}


@given(histories(), histories())
def test_no_object_has_a_path_that_another_history_takes_for_its_own(
    one: tuple[Layout, str, ChainPaths, set[str]], other: tuple[Layout, str, ChainPaths, set[str]]
) -> None:
    _, _, _, paths = one
    layout, _, chain, _ = other
    if one[2].root != chain.root:
        for path in paths:
            assert not path.startswith(f"{chain.root}/")
            assert chain.snapshot_of(path) is None
            place = layout.place(path)
            assert place is None or layout.chain(place.dataset_id) != chain


@given(histories())
def test_no_object_of_a_history_is_the_folder_of_another(
    one: tuple[Layout, str, ChainPaths, set[str]],
) -> None:
    paths = one[3]
    assert not any(path.startswith(f"{other}/") for path in paths for other in paths)
