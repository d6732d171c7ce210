"""``lode.rename``, and copies of datasets with removals, floors, tags and drops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.store import MemoryStore
from lode.store.wrappers import FaultStore
from support.crashes import Between, When, crashed_at_each_call
from support.stores import contents

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store import Store

SCHEMA = {"p": "string", "n": "int64"}
LAYOUTS: list[dict[str, Any]] = [{}, {"partition_by": ["p"]}]


def written(store: Store, **options: Any) -> lode.Dataset:
    """Every operation once: single files, whole partitions, carried files, a restore; and a tag."""
    lode.Dataset.create("d", store, schema=SCHEMA, **options)
    made = lode.Dataset("d", store, codec=lode.Parquet(SCHEMA))
    for number in range(3):
        made.write([{"p": "a", "n": number}, {"p": "b", "n": 10 + number}])
    made.tag("v1", 3)
    made.delete("n = 1")
    made.merge([{"p": "a", "n": 0}, {"p": "a", "n": 20}], on=["n"])
    made.compact()
    made.overwrite([{"p": "b", "n": 30}], where="p = 'b'")
    made.restore("latest~1")
    made.write([{"p": "c", "n": 40}])
    return made


def rows(dataset: lode.Dataset, **options: Any) -> list[Any]:
    return sorted(tuple(row.values()) for row in dataset.scan(**options).read_all().to_pylist())


def states(dataset: lode.Dataset) -> list[list[Any]]:
    """The rows at each snapshot; an empty list for one that is expired."""
    found = []
    for snapshot in dataset.snapshots():
        try:
            found.append(rows(dataset, as_of=snapshot))
        except lode.SnapshotExpiredError:
            found.append([])
    return found


@pytest.mark.parametrize("options", LAYOUTS)
@pytest.mark.parametrize("name", [None, "renamed"])
def test_a_copy_has_the_same_rows_at_every_snapshot(options: dict[str, Any], name: str | None) -> None:
    dataset = written(MemoryStore(), **options)
    target = MemoryStore()
    lode.copy(dataset, target, name=name)
    copied = lode.Dataset(name or "d", target)
    assert states(copied) == states(dataset)
    assert [(tag.name, tag.snapshot_id) for tag in copied.tags()] == [("v1", dataset.snapshot(3).id)]
    assert lode.verify(copied).ok
    copied.write([{"p": "c", "n": 41}])
    copied.compact()
    assert rows(copied) == [*rows(dataset), ("c", 41)]


@pytest.mark.parametrize("options", LAYOUTS)
@pytest.mark.parametrize("name", [None, "renamed"])
def test_a_copy_leaves_out_what_is_expired(options: dict[str, Any], name: str | None) -> None:
    dataset = written(MemoryStore(), **options)
    lode.expire(dataset, keep=1, dry_run=False)
    target = MemoryStore()
    report = lode.copy(dataset, target, name=name)
    copied = lode.Dataset(name or "d", target)
    assert states(copied) == states(dataset)
    assert rows(copied, as_of="v1") == rows(dataset, as_of="v1")
    assert report.files == len([path for path in contents(dataset.store) if "/data/" in path])
    assert lode.verify(copied).ok
    assert lode.expire(copied, keep=1).files == 0


def test_a_copy_continues_over_an_expiry() -> None:
    dataset = written(MemoryStore())
    target = MemoryStore()
    lode.copy(dataset, target)
    lode.expire(dataset, keep=1, dry_run=False)
    dataset.write([{"p": "z", "n": 99}])
    lode.copy(dataset, target)
    copied = lode.Dataset("d", target)
    assert states(copied) == states(dataset)
    assert lode.expire(copied, keep=1, dry_run=False).files, "what the target had before"
    assert lode.verify(copied).ok


def test_a_copy_up_to_a_snapshot_of_before_the_expiry_is_refused() -> None:
    dataset = written(MemoryStore())
    lode.expire(dataset, keep=1, dry_run=False)
    target = MemoryStore()
    for ref in (2, "v1"):
        with pytest.raises(lode.SnapshotExpiredError, match="as_of"):
            lode.copy(dataset, target, as_of=ref)
    assert contents(target) == {}


def test_a_tag_that_names_another_snapshot_in_the_target_is_not_changed() -> None:
    dataset = written(MemoryStore())
    target = MemoryStore()
    lode.copy(dataset, target)
    dataset.untag("v1")
    dataset.tag("v1", 4)
    with pytest.raises(lode.TagExistsError, match="untag"):
        lode.copy(dataset, target)
    assert lode.Dataset("d", target).snapshot("v1").sequence == 3


@pytest.mark.parametrize("name", [None, "renamed"])
def test_a_dataset_that_follows_a_drop_is_copied_from_there_on(name: str | None) -> None:
    dataset = written(MemoryStore())
    dataset.drop(force=True)
    dataset = lode.Dataset("d", dataset.store, codec=lode.Parquet(SCHEMA))
    dataset.write([{"p": "x", "n": 1}])
    target = MemoryStore()
    lode.copy(dataset, target, name=name)
    dataset.write([{"p": "x", "n": 2}])
    assert lode.copy(dataset, target, name=name).snapshots == 1
    copied = lode.Dataset(name or "d", target)
    assert states(copied) == states(dataset)
    assert [each.id for each in copied.snapshots()] == [each.id for each in dataset.snapshots()]
    assert lode.verify(copied).ok


def test_nothing_is_copied_to_a_name_that_was_dropped() -> None:
    target = MemoryStore()
    lode.Dataset("d", target).write(b"x")
    lode.Dataset("d", target).drop()
    before = contents(target)
    with pytest.raises(lode.DatasetExistsError, match=r"dropped.*another name"):
        lode.copy(written(MemoryStore()), target)
    assert contents(target) == before


# -- rename ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", LAYOUTS)
def test_a_dataset_has_its_history_and_its_tags_under_the_new_name(options: dict[str, Any]) -> None:
    store = MemoryStore()
    dataset = written(store, **options)
    expected = states(dataset)
    renamed = lode.rename(dataset, "new")
    assert (renamed.id, states(renamed)) == ("new", expected)
    assert rows(renamed, as_of="v1") == expected[2]
    assert not dataset.exists
    assert lode.DatasetReader(store).list_datasets() == ["new"]
    assert not [path for path in contents(store) if path.startswith("datasets/d/") and "/data/" in path]
    assert lode.verify(renamed).ok


def test_to_rename_twice_is_the_same_as_once() -> None:
    store = MemoryStore()
    dataset = written(store)
    expected = rows(lode.rename(dataset, "new"))
    before = contents(store)
    assert rows(lode.rename(lode.Dataset("d", store), "new")) == expected
    assert contents(store) == before
    with pytest.raises(lode.NoSnapshotsError):
        lode.rename(dataset, "newer")
    assert lode.DatasetReader(store).list_datasets() == ["new"]


def test_a_name_that_is_in_use_or_was_dropped_is_refused_and_nothing_changes() -> None:
    store = MemoryStore()
    dataset = written(store)
    lode.Dataset("other", store).write(b"x")
    lode.Dataset("gone", store).write(b"x")
    lode.Dataset("gone", store).drop()
    before = contents(store)
    for name, error in (
        ("other", lode.DatasetExistsError),
        ("gone", lode.DatasetExistsError),
        ("d", lode.InvalidOptionError),
        ("a/b", lode.InvalidPathError),
        ("datasets", lode.InvalidPathError),
    ):
        with pytest.raises(error):
            lode.rename(dataset, name)
    with pytest.raises(lode.InvalidOptionError):
        lode.rename("d", "e")  # type: ignore[type-var]
    assert contents(store) == before


def test_what_others_commit_meanwhile_comes_along() -> None:
    store = MemoryStore()
    written(store)
    other = lode.Dataset("d", store)
    acts = [lambda: other.write([{"p": "x", "n": 77}]), lambda: other.delete("n = 40")]
    renamed = lode.rename(lode.Dataset("d", Between(store, *acts, pointer="/d/latest")), "new")
    assert ("x", 77) in rows(renamed)
    assert ("c", 40) not in rows(renamed)
    with pytest.raises(lode.DatasetDroppedError):
        other.write([{"p": "x", "n": 78}])


def test_a_volume_can_be_renamed() -> None:
    store = MemoryStore()
    volume = lode.Volume("v", store, 10)
    volume.commit([volume.stage_write_at(0, b"ab")])
    volume.tag("half")
    renamed = lode.rename(volume, "w")
    assert isinstance(renamed, lode.Volume)
    assert renamed.read_at("half", 0, 2) == b"ab"
    assert volume.snapshots() == []
    assert lode.rename(volume, "w").id == "w"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("options", LAYOUTS)
def test_a_rename_that_dies_at_any_call_loses_nothing_and_is_finished_by_the_next(
    options: dict[str, Any], when: When
) -> None:
    store = MemoryStore()
    lode.Dataset.create("d", store, schema=SCHEMA, **options)
    dataset = lode.Dataset("d", store)
    dataset.write([{"p": "a", "n": 1}])
    dataset.overwrite([{"p": "a", "n": 2}], where="p = 'a'")
    dataset.tag("v1", 2)
    expected = states(dataset)
    found = set()
    for crashed in crashed_at_each_call(
        store, lambda store: lode.rename(lode.Dataset("d", store), "new"), when
    ):
        names = lode.DatasetReader(crashed).list_datasets()
        assert names
        found.add(tuple(names))
        assert states(lode.Dataset("d" if "d" in names else "new", crashed)) == expected
        renamed = lode.rename(lode.Dataset("d", crashed), "new")
        assert lode.DatasetReader(crashed).list_datasets() == ["new"]
        assert states(renamed) == expected
        assert rows(renamed, as_of="v1") == expected[1]
        assert not [path for path in contents(crashed) if path.startswith("datasets/d/") and "/data/" in path]
    assert found == {("d",), ("d", "new"), ("new",)}


class _TagsBeforeDrop(FaultStore):
    """Lets another process tag the first snapshot just before the drop takes the pointer."""

    other: Any = None

    def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
        if method == "compare_and_swap" and self.other is not None and path == self.other.chain.paths.pointer:
            tagger, self.other = self.other, None
            tagger.tag("late", 1)
        return super().around(method, path, call)


@pytest.mark.parametrize("kind", ["dataset", "volume"])
def test_a_tag_that_is_made_between_the_copy_and_the_drop_comes_along(kind: str) -> None:
    inner = MemoryStore()
    store = _TagsBeforeDrop(inner)
    if kind == "dataset":
        source: Any = written(store)
        other: Any = lode.Dataset("d", inner)
    else:
        source = lode.Volume("d", store, total_length=8)
        source.commit([source.stage_write_at(0, b"x")])
        other = lode.Volume("d", inner, total_length=8)
    store.other = other
    renamed = lode.rename(source, "e")
    assert store.other is None
    assert "late" in [tag.name for tag in renamed.tags()]


def test_a_tag_comes_along_if_the_rename_died_after_its_drop() -> None:
    inner = MemoryStore()
    store = _TagsBeforeDrop(inner)
    source = written(store)
    store.other = lode.Dataset("d", inner)
    renamed = lode.Dataset("e", inner)

    class Dies(FaultStore):
        """Fails when the first tag is to be removed."""

        def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
            if method == "put" and path.endswith("e/tags/late.json"):
                raise lode.StoreError("gone")
            return super().around(method, path, call)

    with pytest.raises(lode.StoreError, match="gone"):
        lode.rename(lode.Dataset("d", Dies(store)), "e")
    assert source.exists is False
    lode.rename(lode.Dataset("d", inner), "e")
    assert [tag.name for tag in renamed.tags()] == ["late", "v1"]


def test_a_volume_that_was_dropped_cannot_be_tagged() -> None:
    inner = MemoryStore()
    volume = lode.Volume("d", inner, total_length=8)
    volume.commit([volume.stage_write_at(0, b"x")])

    class Late(FaultStore):
        """Lets a drop run just before the tag is put."""

        def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
            if method == "put" and "/tags/" in path:
                lode.Volume("d", inner, total_length=8).drop()
            return super().around(method, path, call)

    with pytest.raises(lode.SnapshotExpiredError):
        lode.Volume("d", Late(inner), total_length=8).tag("v1")
    assert volume.tags() == []
