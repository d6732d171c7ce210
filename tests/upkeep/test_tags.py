"""Tags: names for snapshots, which keep what they name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.store import Fault, FaultStore, MemoryStore
from support.crashes import When, crashed_at_each_call

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = {"n": "int64"}


@pytest.fixture
def dataset() -> lode.Dataset:
    """Four snapshots of one row each."""
    made = lode.Dataset("d", MemoryStore(), codec=lode.Parquet(SCHEMA))
    for number in range(1, 5):
        made.write([{"n": number}])
    return made


@pytest.fixture
def volume() -> lode.Volume:
    """Two snapshots of one block each."""
    made = lode.Volume("v", MemoryStore(), 10)
    made.commit([made.stage_write_at(0, b"ab")])
    made.commit([made.stage_write_at(5, b"cd")])
    return made


def numbers(dataset: lode.Dataset, **options: Any) -> list[int]:
    found: list[Any] = dataset.scan(**options).read_all()["n"].to_pylist()
    return sorted(found)


def test_a_tag_is_accepted_wherever_a_snapshot_is(dataset: lode.Dataset) -> None:
    dataset.tag("v1", 2)
    assert dataset.snapshot("v1").sequence == 2
    assert numbers(dataset, as_of="v1") == [1, 2]
    assert numbers(dataset, since="v1") == [3, 4]
    assert dataset.plan_snapshot("v1").count() == 1
    assert [each.sequence for each in dataset.history(as_of="v1")] == [2, 1]
    assert dataset.restore("v1").snapshot
    assert numbers(dataset) == [1, 2]


def test_a_tag_names_the_newest_snapshot_by_default(dataset: lode.Dataset) -> None:
    made = dataset.tag("now")
    assert (made.name, made.snapshot_id, made.sequence) == ("now", dataset.latest().id, 4)
    dataset.write([{"n": 5}])
    assert dataset.snapshot("now").sequence == 4


def test_tags_are_listed_by_name_and_no_snapshots(dataset: lode.Dataset) -> None:
    for name in ("b", "a", "ä c"):
        dataset.tag(name, 1)
    assert [tag.name for tag in dataset.tags()] == ["a", "b", "ä c"]
    assert dataset.latest().sequence == 4


def test_the_same_tag_twice_is_the_same_as_once(dataset: lode.Dataset) -> None:
    assert dataset.tag("v1", 2) == dataset.tag("v1", 2)


def test_a_tag_of_another_snapshot_is_refused_with_the_remedy(dataset: lode.Dataset) -> None:
    dataset.tag("v1", 2)
    with pytest.raises(lode.TagExistsError, match="untag"):
        dataset.tag("v1", 3)
    dataset.untag("v1")
    assert dataset.tag("v1", 3).sequence == 3


def test_an_id_comes_before_a_tag_and_a_tag_before_the_beginning_of_an_id(dataset: lode.Dataset) -> None:
    ids = [each.id for each in dataset.snapshots()]
    beginning = ids[3][:-1]
    dataset.tag(beginning, 1)
    assert dataset.snapshot(beginning).id == ids[0]
    assert dataset.snapshot(ids[3]).id == ids[3]
    dataset.untag(beginning)
    assert dataset.snapshot(beginning).id == ids[3]


def test_a_name_that_is_not_there_suggests_a_tag(dataset: lode.Dataset) -> None:
    dataset.tag("release-2", 2)
    with pytest.raises(lode.NotFoundError, match="did you mean 'release-2'"):
        dataset.snapshot("relaese-2")
    with pytest.raises(lode.NotFoundError, match="did you mean 'release-2'"):
        dataset.untag("release2")


@pytest.mark.parametrize(
    "name",
    [
        *("", "3", "007", "latest", "latest~2", "latest~x", "2026-11-15", "2026-11-15T12:00Z"),
        *("a/b", "..", "a\nb", "manifest", "Intent", "x" * 251, " a", "a.", ".lode-x", 3, None),
    ],
)
def test_a_name_that_means_something_else_or_cannot_be_stored_is_refused(
    dataset: lode.Dataset, name: Any
) -> None:
    with pytest.raises(lode.InvalidPathError):
        dataset.tag(name)
    assert dataset.tags() == []


def test_a_name_that_is_the_id_of_a_snapshot_is_refused(dataset: lode.Dataset) -> None:
    with pytest.raises(lode.InvalidPathError, match="id of a snapshot"):
        dataset.tag(dataset.snapshot(1).id)


def test_what_does_not_exist_cannot_be_tagged(dataset: lode.Dataset) -> None:
    with pytest.raises(lode.NotFoundError):
        dataset.tag("v1", 9)
    with pytest.raises(lode.NoSnapshotsError):
        lode.Dataset("none", dataset.store).tag("v1")
    assert dataset.tags() == []


def test_a_volume_has_tags_too(volume: lode.Volume) -> None:
    volume.tag("half", 1)
    assert volume.snapshot("half").sequence == 1
    assert volume.missing("half") == [(2, 8)]
    assert [tag.name for tag in volume.tags()] == ["half"]
    volume.untag("half")
    with pytest.raises(lode.NotFoundError):
        volume.snapshot("half")


# -- damaged and hostile tags ------------------------------------------------------------------

GARBAGE: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "empty": lambda _: b"",
    "no JSON": lambda _: b"{",
    "a list": lambda _: b"[]",
    "huge": lambda _: b" " * 100_000,
    "another name": lambda tag: json.dumps({**tag, "name": "v2"}).encode(),
    "another format": lambda tag: json.dumps({**tag, "schema_name": "lode-manifest"}).encode(),
    "a newer version": lambda tag: json.dumps({**tag, "format_version": "2.0.0"}).encode(),
    "a path as id": lambda tag: json.dumps({**tag, "snapshot_id": "../../latest"}).encode(),
    "a missing snapshot": lambda tag: json.dumps({**tag, "snapshot_id": "gone"}).encode(),
    "sequence 0": lambda tag: json.dumps({**tag, "sequence": 0}).encode(),
    "no time": lambda tag: json.dumps({**tag, "created_at": "yesterday"}).encode(),
    "deep": lambda _: b"[" * 50_000,
}


def damage(dataset: lode.Dataset, name: str, how: str) -> None:
    path = dataset.chain.paths.tag(name)
    tag = json.loads(dataset.store.get(path))
    dataset.store.delete(path)
    dataset.store.put(path, GARBAGE[how](tag))


@pytest.mark.parametrize("how", GARBAGE)
def test_a_damaged_tag_is_named_with_its_remedy_and_hides_no_snapshot(
    dataset: lode.Dataset, how: str
) -> None:
    dataset.tag("v1", 2)
    damage(dataset, "v1", how)
    with pytest.raises(lode.ManifestInvalidError, match=r"tag 'v1' is damaged.*untag"):
        dataset.snapshot("v1")
    assert numbers(dataset) == [1, 2, 3, 4]
    assert [problem.kind for problem in lode.verify(dataset).problems] == ["tag"]
    dataset.untag("v1")
    assert dataset.tag("v1", 2).sequence == 2


@pytest.mark.parametrize("how", GARBAGE)
def test_nothing_expires_while_a_tag_is_damaged(dataset: lode.Dataset, how: str) -> None:
    dataset.compact()
    dataset.tag("v1", 2)
    damage(dataset, "v1", how)
    before = [entry.path for entry in dataset.store.list()]
    with pytest.raises(lode.ManifestInvalidError, match="untag"):
        lode.expire(dataset, keep=1, dry_run=False)
    assert [entry.path for entry in dataset.store.list()] == before


def test_a_tag_with_a_wrong_number_keeps_its_files(dataset: lode.Dataset) -> None:
    dataset.tag("v1", 2)
    path = dataset.chain.paths.tag("v1")
    tag = json.loads(dataset.store.get(path))
    dataset.store.delete(path)
    dataset.store.put(path, json.dumps({**tag, "sequence": 1000}).encode())
    dataset.compact()
    lode.expire(dataset, keep=1, dry_run=False)
    assert numbers(dataset, as_of="v1") == [1, 2]


def test_other_objects_beside_tags_are_left_alone(dataset: lode.Dataset) -> None:
    dataset.tag("v1", 2)
    for name in ("note.txt", "a/b.json", ".json"):
        dataset.store.put(f"{dataset.chain.paths.tags}{name}", b"x")
    assert [tag.name for tag in dataset.tags()] == ["v1"]


# -- races and crashes -------------------------------------------------------------------------


def test_a_tag_that_comes_while_its_snapshot_expires_is_refused_and_removed(dataset: lode.Dataset) -> None:
    dataset.compact()
    other = lode.Dataset("d", dataset.store)

    class Late(FaultStore):
        """Lets an expiry run just before the tag is put."""

        def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
            if method == "put" and "/tags/" in path:
                lode.expire(other, keep=1, dry_run=False)
            return super().around(method, path, call)

    with pytest.raises(lode.SnapshotExpiredError, match="cannot be tagged"):
        lode.Dataset("d", Late(dataset.store)).tag("v1", 2)
    assert dataset.tags() == []


def test_a_tag_that_was_put_before_the_expiry_reads_the_tags_keeps_its_files(dataset: lode.Dataset) -> None:
    dataset.compact()
    other = lode.Dataset("d", dataset.store)

    class Early(FaultStore):
        """Puts a tag just before the expiry commits its floor."""

        def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
            if method == "compare_and_swap":
                other.tag("v1", 2)
            return super().around(method, path, call)

    lode.expire(lode.Dataset("d", Early(dataset.store)), keep=1, dry_run=False)
    assert numbers(dataset, as_of="v1") == [1, 2]


def test_a_tagged_snapshot_can_get_a_second_tag_after_it_expired(dataset: lode.Dataset) -> None:
    dataset.compact()
    dataset.tag("v1", 2)
    lode.expire(dataset, keep=1, dry_run=False)
    dataset.tag("v2", "v1")
    dataset.untag("v1")
    lode.expire(dataset, keep=1, dry_run=False)
    assert numbers(dataset, as_of="v2") == [1, 2]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_tagger_that_dies_at_any_call_leaves_the_tag_or_nothing(dataset: lode.Dataset, when: When) -> None:
    assert isinstance(dataset.store, MemoryStore)
    outcomes = set()
    for store in crashed_at_each_call(
        dataset.store, lambda store: lode.Dataset("d", store).tag("v1", 2), when
    ):
        again = lode.Dataset("d", store)
        outcomes.add(len(again.tags()))
        assert again.tag("v1", 2).sequence == 2
        assert numbers(again, as_of="v1") == [1, 2]
    assert outcomes == {0, 1}


def test_a_put_without_an_answer_is_found_again(dataset: lode.Dataset) -> None:
    store = FaultStore(
        dataset.store, Fault("put", "*/tags/*", when="after", error=lode.OutcomeUnknownError("no answer"))
    )
    assert lode.Dataset("d", store).tag("v1", 2).sequence == 2


def test_a_snapshot_cannot_take_the_name_of_a_tag(dataset: lode.Dataset) -> None:
    dataset.tag("v1", 2)
    with pytest.raises(lode.InvalidPathError, match="is a tag"):
        dataset.transaction(snapshot_id="v1")
