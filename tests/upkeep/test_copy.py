"""``lode.copy``: the same history in another place, whatever happens on the way."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.format.volume import swept_path
from lode.store import CountingStore, Fault, FaultStore, MemoryStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.store.protocol import Store
    from lode.testing.servers import S3Server

ROOT = "datasets/d/"
LAKES = Path(__file__).parents[1] / "golden" / "lakes"
# What is not part of a history: a reader can do without.
ASIDE = ("/intent.json", ".json.zst")


def written(store: Store, *, snapshots: int = 4) -> lode.Dataset:
    """By day, with checksums, one snapshot under a key, and one that adds a column."""
    dataset = lode.Dataset(
        "d",
        store,
        codec=lode.Parquet({"day": "string!", "n": "int64"}),
        layout=lode.HiveLayout("day"),
        checksum="md5",
    )
    dataset.write([{"day": "mon", "n": 1}, {"day": "tue", "n": 2}], {"source": "crawler"})
    dataset.write([{"day": "mon", "n": 3}], idempotency_key=("nightly", "1"))
    dataset.evolve(add={"country": "string"})
    for number in range(3, snapshots):
        dataset.write([{"day": "wed", "n": number, "country": "de"}])
    return dataset


def objects(store: Store, prefix: str = "") -> dict[str, bytes]:
    return {
        entry.path: store.get(entry.path)
        for entry in store.list(prefix)
        if not entry.path.endswith(ASIDE) and entry.path != f"{ROOT}latest.lock"
    }


def ids(store: Store, name: str = "d") -> list[str]:
    """The snapshots that a reader sees, oldest first; none if it finds no dataset."""
    try:
        return [snapshot.id for snapshot in lode.open_dataset(name, store).snapshots()]
    except lode.NotFoundError:
        return []


def assert_same(source: Store, target: Store) -> None:
    assert objects(target, ROOT) == objects(source, ROOT)
    assert lode.verify(lode.open_dataset("d", target)).problems == ()


class Hook(CountingStore):
    """Does something before the n-th call, once."""

    def __init__(self, inner: Store, at: int, do: Callable[[], Any]) -> None:
        super().__init__(inner)
        self._at, self._do = at, do

    def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
        self._at -= 1
        if self._at == 0:
            self._do()
        return super().around(method, path, call)


def calls(copy: Callable[[Store], object], target: MemoryStore) -> int:
    """How many calls a copy makes on a target."""
    counting = CountingStore(target)
    copy(counting)
    return counting.total + 1


# -- what is copied ----------------------------------------------------------------------------------


def test_a_copy_has_the_same_objects_and_the_same_rows() -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = written(source)
    report = lode.copy(dataset, target)
    assert (report.name, report.head, report.snapshots, report.files) == ("d", dataset.latest().id, 4, 4)
    assert report.bytes == sum(snapshot.size_bytes for snapshot in dataset.history())
    assert_same(source, target)
    copied = lode.open_dataset("d", target)
    assert copied.definition == dataset.definition
    assert copied.scan().read_all().sort_by("n") == dataset.scan().read_all().sort_by("n")


def test_a_second_copy_writes_nothing_and_a_third_only_what_is_new() -> None:
    source, target = MemoryStore(), CountingStore(MemoryStore())
    dataset = written(source)
    lode.copy(dataset, target)
    target.reset()
    assert lode.copy(dataset, target).snapshots == 0
    assert target.bytes_in == 0
    before = set(objects(target))
    dataset.write([{"day": "thu", "n": 9, "country": None}])
    target.reset()
    report = lode.copy(dataset, target)
    assert (report.snapshots, report.files, report.present) == (1, 1, 0)
    assert_same(source, target)
    new = set(objects(target)) - before
    touched = {path for method, path in target.events if method in ("put", "commit", "link")}
    assert new <= touched
    assert not touched & before


def test_a_copy_accepts_writes_and_keys_like_the_source() -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = written(source)
    lode.copy(dataset, target)
    copied = lode.open_dataset("d", target)
    again = copied.write([{"day": "mon", "n": 3}], idempotency_key=("nightly", "1"))
    assert again.id == dataset.snapshots()[1].id
    copied.write([{"day": "sun", "n": 8, "country": None}])
    assert lode.verify(copied).ok


def test_another_name_keeps_ids_rows_and_keys() -> None:
    store = MemoryStore()
    dataset = written(store)
    lode.copy(dataset, store, name="e")
    copied = lode.open_dataset("e", store)
    assert ids(store, "e") == ids(store, "d")
    assert lode.verify(copied).problems == ()
    assert copied.scan().read_all().sort_by("n") == dataset.scan().read_all().sort_by("n")
    assert all(path.startswith("datasets/e/") for path in copied.plan().paths)
    assert copied.write([{"day": "mon", "n": 3}], idempotency_key=("nightly", "1")).commit.replayed  # type: ignore[union-attr]  # it has just been committed
    dataset.write([{"day": "thu", "n": 9, "country": None}])
    assert lode.copy(dataset, store, name="e").snapshots == 1
    assert lode.verify(copied).ok


def test_history_up_to_a_snapshot_can_be_copied_and_the_rest_later() -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = written(source)
    first, second, *_ = dataset.snapshots()
    assert lode.copy(dataset, target, as_of=second).snapshots == 2
    assert ids(target) == [first.id, second.id]
    assert lode.copy(dataset, target, as_of=first.id).snapshots == 0
    assert lode.copy(dataset, target).snapshots == 2
    assert_same(source, target)


@pytest.mark.parametrize("layout", [lode.DefaultLayout(), lode.FlatLayout()])
def test_other_layouts_are_copied_too(layout: lode.DefaultLayout | lode.FlatLayout) -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = lode.Dataset("d", source, codec="jsonl", layout=layout)
    for number in range(18):
        dataset.write([{"n": number}])
    assert lode.copy(dataset, target).snapshots == 18
    assert objects(target) == objects(source)
    history = layout.chain("d").segment(16, 16)
    assert target.exists(history)
    assert lode.copy(dataset, target, name="e").snapshots == 18
    assert lode.open_dataset("e", target).scan().read_all().num_rows == 18


@pytest.mark.parametrize("name", ["default", "flat", "hive", "raw", "gzip-md5"])
def test_a_lake_of_the_go_implementation_is_copied_byte_for_byte(name: str) -> None:
    lake, target = lode.open_store(LAKES / name), MemoryStore()
    dataset = lode.open_dataset("weather", lake)
    assert lode.copy(dataset, target).snapshots == 2
    # Go's partitions have whole copies of the manifests, ours only the part that is theirs.
    parts = {path: data for path, data in objects(target).items() if b'"partition"' in data}
    assert bool(parts) == (name == "hive")
    assert objects(target) == objects(lake) | parts
    assert lode.verify(lode.open_dataset("weather", target)).problems == ()
    lode.copy(dataset, target, name="climate")
    assert lode.verify(lode.open_dataset("climate", target)).problems == ()


def test_a_lake_goes_to_an_object_store_and_back(s3_server: S3Server, tmp_path: Path) -> None:
    source = lode.open_store(tmp_path / "a")
    far = lode.open_store(s3_server.create("copied"), **s3_server.options)
    lode.copy(written(source, snapshots=6), far)
    assert lode.copy(lode.open_dataset("d", far), tmp_path / "b").snapshots == 6
    assert_same(source, lode.open_store(tmp_path / "b"))


def test_blobs_are_copied_in_bounded_memory(tmp_path: Path) -> None:
    dataset = lode.Dataset("d", tmp_path / "a", checksum="xxh3-128")
    with dataset.stream_write() as out:
        for _ in range(48):
            out.write(b"x" * (1 << 20))
        out.commit()
    seen: list[tuple[int, int | None]] = []
    tracemalloc.start()
    lode.copy(dataset, tmp_path / "b", progress=lambda done, total: seen.append((done, total)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 << 20
    assert seen[-1] == (48 << 20, 48 << 20)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert lode.verify(lode.open_dataset("d", tmp_path / "b")).ok


def test_a_dry_run_writes_nothing() -> None:
    target = CountingStore(MemoryStore())
    report = lode.copy(written(MemoryStore()), target, dry_run=True)
    assert (report.snapshots, report.files, report.dry_run) == (4, 4, True)
    assert not target.counts.keys() & {"put", "put_volatile", "open_writer", "compare_and_swap", "delete"}


# -- what is refused ---------------------------------------------------------------------------------


def test_another_dataset_of_that_name_is_left_alone() -> None:
    target = MemoryStore()
    other = lode.Dataset("d", target, codec="jsonl", layout=lode.HiveLayout("day"))
    other.write([{"day": "mon"}])
    before = objects(target)
    with pytest.raises(lode.DatasetExistsError, match=r"another dataset 'd'.*copy under another name"):
        lode.copy(written(MemoryStore()), target)
    assert objects(target) == before


def test_a_target_with_snapshots_of_its_own_is_left_alone() -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = written(source)
    lode.copy(dataset, target)
    lode.open_dataset("d", target).write([{"day": "mon", "n": 0, "country": None}])
    assert lode.copy(dataset, target).snapshots == 0
    dataset.write([{"day": "thu", "n": 9, "country": None}])
    before = objects(target)
    with pytest.raises(lode.DatasetExistsError):
        lode.copy(dataset, target)
    assert objects(target) == before


@pytest.mark.parametrize("layout", [lode.DefaultLayout(), lode.FlatLayout()])
def test_a_name_that_is_taken_in_another_layout_is_refused(
    layout: lode.DefaultLayout | lode.FlatLayout,
) -> None:
    target = MemoryStore()
    lode.Dataset("d", target, codec="jsonl", layout=layout).write([{"n": 1}])
    before = objects(target)
    with pytest.raises(lode.ComponentMismatchError, match="layout"):
        lode.copy(written(MemoryStore()), target)
    assert objects(target) == before


HOSTILE = [
    "datasets/d/latest",
    "datasets/d/segments/x/manifest.json",
    "datasets/other/partitions/day=mon/segments/x/data/f",
    "datasets/d/partitions/day=mon/../../../../secret/segments/x/data/f",
    "/etc/passwd",
    "datasets/d/partitions/day=mon/segments/x/data/",
]


@pytest.mark.parametrize("path", HOSTILE)
@pytest.mark.parametrize("name", ["d", "e"])
def test_a_manifest_that_names_anything_but_data_files_is_refused_before_a_write(
    path: str, name: str
) -> None:
    source, target = MemoryStore(), CountingStore(MemoryStore())
    dataset = written(source)
    place = dataset.chain.paths.manifest(dataset.latest().id)
    manifest = json.loads(source.get(place))
    manifest["files"][0]["path"] = path
    source.delete(place)
    source.put(place, json.dumps(manifest).encode())
    with pytest.raises((lode.DataError, lode.InvalidPathError)):
        lode.copy(lode.Dataset("d", source), target, name=name)
    assert target.bytes_in == 0
    assert ids(target, name) == []


def test_a_damaged_file_is_found_on_the_way_and_nothing_becomes_visible() -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = written(source)
    path = dataset.latest().files[0].path
    data = source.get(path)
    source.delete(path)
    source.put(path, b"X" + data[1:])
    with pytest.raises(lode.ChecksumMismatchError, match="damaged; run lode verify"):
        lode.copy(dataset, target)
    assert not target.exists(path)
    assert ids(target) == []
    source.delete(path)
    with pytest.raises(lode.DataError, match="missing"):
        lode.copy(dataset, target)
    source.put(path, data)
    lode.copy(dataset, target)
    assert_same(source, target)


def test_an_object_of_another_size_in_the_place_of_a_file_is_not_taken_for_it() -> None:
    target = MemoryStore()
    dataset = written(MemoryStore())
    target.put(dataset.latest().files[0].path, b"something else")
    with pytest.raises(lode.DataError, match="another object is in its place"):
        lode.copy(dataset, target)
    assert ids(target) == []


def test_a_field_of_a_later_version_keeps_its_bytes_and_refuses_another_name() -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = lode.Dataset("d", source, codec="jsonl")
    dataset.write([{"n": 1}])
    place = dataset.chain.paths.manifest(dataset.latest().id)
    manifest = json.loads(source.get(place))
    manifest |= {"later": [1], "x": {**manifest["x"], "vanishes": [{"files": ["datasets/d/x"]}]}}
    source.delete(place)
    source.put(place, json.dumps(manifest).encode())
    reopened = lode.Dataset("d", source)
    lode.copy(reopened, target)
    assert target.get(place) == source.get(place)
    with pytest.raises(lode.InvalidOptionError, match=r"'x\.vanishes'"):
        lode.copy(reopened, target, name="e")


def test_a_copy_onto_itself_and_a_source_that_is_none_are_refused(tmp_path: Path) -> None:
    dataset = lode.Dataset("d", tmp_path, codec="jsonl")
    with pytest.raises(lode.NoSnapshotsError):
        lode.copy(dataset, MemoryStore())
    dataset.write([{"n": 1}])
    with pytest.raises(lode.InvalidOptionError, match="onto itself"):
        lode.copy(dataset, tmp_path)
    with pytest.raises(lode.InvalidOptionError, match="Dataset or a Volume"):
        lode.copy("d", tmp_path)  # type: ignore[arg-type]  # a careless caller
    with pytest.raises(lode.InvalidPathError):
        lode.copy(dataset, MemoryStore(), name="../x")


def test_a_sweep_spares_a_copy_that_died_with_its_intents_there() -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = written(source)
    with pytest.raises(SimulatedCrash):
        lode.copy(dataset, FaultStore(target, Fault("compare_and_swap", f"{ROOT}latest")))
    assert (
        lode.sweep(lode.Dataset("d", target, layout=dataset.layout), timedelta(0), dry_run=False).leftovers
        == ()
    )
    lode.copy(dataset, target)
    assert_same(source, target)


def test_a_sweep_that_took_the_files_of_a_dead_copy_is_named_by_the_next_one() -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = written(source)
    with pytest.raises(SimulatedCrash):
        lode.copy(dataset, FaultStore(target, Fault("put", "*/intent.json")))
    assert (
        len(
            lode.sweep(
                lode.Dataset("d", target, layout=dataset.layout), timedelta(0), dry_run=False
            ).leftovers
        )
        == 4
    )
    with pytest.raises(
        lode.TransactionClosedError, match=r"swept.*remove datasets/d/segments/.*intent\.json"
    ):
        lode.copy(dataset, target)
    for entry in list(target.list()):
        if entry.path.endswith("intent.json"):
            target.delete(entry.path)
    lode.copy(dataset, target)
    assert_same(source, target)


def test_a_sweep_of_the_target_at_any_moment_of_a_copy_takes_no_file_of_it() -> None:
    source, _ = nothing_yet()
    dataset = lode.open_dataset("d", source)
    for nth in range(1, calls(lambda store: lode.copy(dataset, store), MemoryStore())):
        target = MemoryStore()

        def sweep(target: Store = target) -> None:
            lode.sweep(lode.Dataset("d", target, layout=dataset.layout), timedelta(0), dry_run=False)

        with suppress(lode.TransactionClosedError, lode.DataError):
            lode.copy(dataset, Hook(target, nth, sweep))
        if ids(target):
            assert_same(source, target)


# -- crashes, lost answers, others -------------------------------------------------------------------


def prefix_of_source() -> tuple[MemoryStore, MemoryStore]:
    """A source and a target that has its first two snapshots."""
    source, target = MemoryStore(), MemoryStore()
    dataset = written(source)
    lode.copy(dataset, target, as_of=dataset.snapshots()[1])
    return source, target


def nothing_yet() -> tuple[MemoryStore, MemoryStore]:
    source = MemoryStore()
    written(source)
    return source, MemoryStore()


def cloned(store: MemoryStore) -> MemoryStore:
    made = MemoryStore()
    for entry in store.list():
        made.put(entry.path, store.get(entry.path))
    return made


BEGINNINGS = pytest.mark.parametrize("begin", [nothing_yet, prefix_of_source])


@BEGINNINGS
@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_crash_at_any_call_readers_see_nothing_or_a_whole_history_and_a_second_run_finishes(
    begin: Callable[[], tuple[MemoryStore, MemoryStore]], when: Any
) -> None:
    source, start = begin()
    dataset = lode.open_dataset("d", source)
    before, after = ids(start), ids(source)
    for nth in range(1, calls(lambda store: lode.copy(dataset, store), cloned(start))):
        target = cloned(start)
        with suppress(SimulatedCrash):  # a call that finds nothing raises that, and there is no after
            lode.copy(dataset, FaultStore(target, Fault(nth=nth, when=when)))
        seen = ids(target)
        if begin is nothing_yet:
            # All, or all but one whose manifest the next writer publishes, or nothing.
            assert seen in ([], after, after[:-1])
        else:
            assert seen == after[: max(len(seen), len(before))]
        lode.copy(dataset, target)
        assert_same(source, target)


@BEGINNINGS
def test_a_lost_answer_at_any_call_is_an_error_or_no_harm(
    begin: Callable[[], tuple[MemoryStore, MemoryStore]],
) -> None:
    source, start = begin()
    dataset = lode.open_dataset("d", source)
    for nth in range(1, calls(lambda store: lode.copy(dataset, store), cloned(start))):
        target = cloned(start)
        lost = Fault(nth=nth, when="after", error=lode.OutcomeUnknownError("no answer"))
        try:
            lode.copy(dataset, FaultStore(target, lost))
        except lode.LodeError:
            lode.copy(dataset, target)
        assert_same(source, target)


@BEGINNINGS
def test_a_second_copy_at_any_moment_of_the_first_does_no_harm(
    begin: Callable[[], tuple[MemoryStore, MemoryStore]],
) -> None:
    source, start = begin()
    for nth in range(1, calls(lambda store: lode.copy(lode.open_dataset("d", source), store), cloned(start))):
        target, here = cloned(start), cloned(source)
        dataset = lode.open_dataset("d", here)

        def newer(dataset: lode.Dataset = dataset, target: Store = target) -> None:
            dataset.write([{"day": "fri", "n": 7, "country": None}])
            lode.copy(dataset, target)

        lode.copy(dataset, Hook(target, nth, newer))
        lode.copy(dataset, target)
        assert_same(here, target)


def test_two_copies_that_take_turns_both_arrive() -> None:
    """The other is ahead before each commit of ours: more often than a copy looks anew."""
    source, target = MemoryStore(), MemoryStore()
    dataset = written(source, snapshots=48)
    history = dataset.snapshots()
    lode.copy(dataset, target, as_of=history[1])

    class Rival(CountingStore):
        """Copies two snapshots more before each swap of the pointer."""

        def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
            if method == "compare_and_swap" and path == f"{ROOT}latest":
                there = len(ids(target))
                lode.copy(dataset, target, as_of=history[min(there + 1, len(history) - 1)])
            return super().around(method, path, call)

    lode.copy(dataset, Rival(target))
    assert_same(source, target)


def test_a_mirror_that_went_on_is_copied_back() -> None:
    source, mirror = MemoryStore(), MemoryStore()
    dataset = written(source)
    source.delete(f"{ROOT}latest")
    lode.open_dataset("d", source).write([{"day": "thu", "n": 5, "country": None}])
    assert (lode.open_dataset("d", source).latest().manifest.x or {}).get("expected") is not None
    lode.copy(lode.open_dataset("d", source), mirror)
    lode.open_dataset("d", mirror).write([{"day": "fri", "n": 6, "country": None}])
    assert lode.copy(lode.open_dataset("d", mirror), source).snapshots == 1
    assert ids(source) == ids(mirror)
    assert dataset.id == "d"


def test_one_bucket_name_on_two_services_is_not_one_place() -> None:
    class Elsewhere(CountingStore):
        url = "s3://lake/p"

    source, target = Elsewhere(MemoryStore()), Elsewhere(MemoryStore())
    lode.copy(written(source), target)
    assert ids(source) == ids(target)


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_source_whose_manifest_changes_while_it_is_copied_writes_to_no_other_dataset(nth: int) -> None:
    source, target = MemoryStore(), MemoryStore()
    dataset = lode.Dataset("d", source)
    snapshot = dataset.write(b"x")
    manifest = dataset.chain.paths.manifest(snapshot.id)
    hostile = source.get(manifest).replace(snapshot.manifest.files[0].path.encode(), b"datasets/d2/latest")
    source.put("datasets/d2/latest", b"x")

    class Changing(CountingStore):
        """Has another manifest from the n-th read on."""

        reads = 0

        def around(self, method: str, path: str, call: Callable[[], Any]) -> Any:
            answer = super().around(method, path, call)
            if method == "get" and path == manifest:
                self.reads += 1
                return hostile if self.reads >= nth else answer
            return answer

    with suppress(lode.LodeError):
        lode.copy(lode.open_dataset("d", Changing(source)), target)
    assert not target.exists("datasets/d2/latest")


@BEGINNINGS
def test_a_writer_in_the_target_at_any_moment_and_the_copy_never_fork_its_history(
    begin: Callable[[], tuple[MemoryStore, MemoryStore]],
) -> None:
    source, start = begin()
    dataset = lode.open_dataset("d", source)
    outcomes = set()
    for nth in range(1, calls(lambda store: lode.copy(dataset, store), cloned(start))):
        target = cloned(start)
        wrote: list[str] = []

        def write(target: Store = target, wrote: list[str] = wrote) -> None:
            codec = lode.Parquet({"day": "string!", "n": "int64"})
            other = lode.Dataset("d", target, codec=codec, layout=lode.HiveLayout("day"))
            try:
                wrote.append(other.write([{"day": "sat", "n": 5}]).id)
            except lode.LodeError:
                wrote.append("")

        try:
            lode.copy(dataset, Hook(target, nth, write))
            copied = True
        except lode.LodeError:
            copied = False
        found = lode.open_dataset("d", target)
        assert lode.verify(found).problems == ()
        assert [snapshot.id for snapshot in found.snapshots() if snapshot.id in wrote] == [
            id for id in wrote if id
        ]
        outcomes.add((copied, bool(wrote[0])))
    assert (False, True) in outcomes


def test_snapshots_that_are_committed_to_the_source_meanwhile_are_for_the_next_copy() -> None:
    source, _ = nothing_yet()
    total = calls(lambda store: lode.copy(lode.open_dataset("d", store), MemoryStore()), source)
    for nth in range(1, total):
        here, target = cloned(source), MemoryStore()
        plain = lode.open_dataset("d", here)
        write = partial(plain.write, [{"day": "fri", "n": 7, "country": None}])
        lode.copy(lode.open_dataset("d", Hook(here, nth, write)), target)
        assert ids(target) == ids(here)[: len(ids(target))]
        lode.copy(plain, target)
        assert_same(here, target)


# -- volumes -----------------------------------------------------------------------------------------


def filled(store: Store) -> lode.Volume:
    volume = lode.Volume("v", store, 100, checksum="sha256")
    volume.commit([volume.stage_write_at(0, b"abc")])
    volume.stage_write_at(50, b"abandoned")
    lode.sweep(volume, timedelta(0), dry_run=False)
    volume.commit([volume.stage_write_at(10, b"defg")], {"part": 2})
    return volume


def test_a_volume_is_copied_with_its_blocks_and_its_swept_lists() -> None:
    source, target = MemoryStore(), MemoryStore()
    volume = filled(source)
    report = lode.copy(volume, target)
    assert (report.snapshots, report.files, report.bytes) == (3, 2, 7)
    assert objects(target) == objects(source)
    copied = lode.open_volume("v", target)
    assert copied.read_at(copied.latest(), 10, 4, verify=True) == b"defg"
    assert lode.verify(copied).problems == ()
    volume.commit([volume.stage_write_at(20, b"h")])
    assert (lode.copy(volume, target).files, lode.copy(volume, target).snapshots) == (1, 0)
    assert objects(target) == objects(source)


def test_a_damaged_list_of_swept_blocks_is_not_copied() -> None:
    source, target = MemoryStore(), MemoryStore()
    volume = filled(source)
    digest = volume.latest().manifest.swept[0]
    path = swept_path("v", digest)
    source.delete(path)
    source.put(path, b"[]")
    with pytest.raises(lode.DataError, match="is not the list of that name"):
        lode.copy(volume, target)
    assert not target.exists(swept_path("v", digest))


def test_a_volume_can_have_another_name() -> None:
    store = MemoryStore()
    volume = filled(store)
    lode.copy(volume, store, name="w")
    copied = lode.open_volume("w", store)
    assert lode.verify(copied).problems == ()
    assert copied.read_at(copied.latest(), 0, 3, verify=True) == b"abc"
    copied.commit([copied.stage_write_at(90, b"z")])
    volume.commit([volume.stage_write_at(20, b"h")])
    with pytest.raises(lode.DatasetExistsError, match="another volume 'w'"):
        lode.copy(volume, store, name="w")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_volume_survives_a_crash_at_any_call(when: Any) -> None:
    source = MemoryStore()
    volume = filled(source)
    for nth in range(1, calls(lambda store: lode.copy(volume, store), MemoryStore())):
        target = MemoryStore()
        with suppress(SimulatedCrash):
            lode.copy(volume, FaultStore(target, Fault(nth=nth, when=when)))
        lode.copy(volume, target)
        assert objects(target) == objects(source)
        assert lode.verify(lode.open_volume("v", target)).ok


def test_a_volume_that_names_anything_but_blocks_is_refused() -> None:
    source, target = MemoryStore(), CountingStore(MemoryStore())
    volume = filled(source)
    place = volume.chain.paths.manifest(volume.latest().id)
    manifest = json.loads(source.get(place))
    manifest["blocks"][-1]["path"] = "volumes/v/latest"
    source.delete(place)
    source.put(place, json.dumps(manifest).encode())
    with pytest.raises(lode.DataError, match="no data file"):
        lode.copy(lode.open_volume("v", source), target)
    assert target.bytes_in == 0
