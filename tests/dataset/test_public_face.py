"""The signatures that users meet are consistent: same names, same order, typed results, exported types."""

from __future__ import annotations

import ast
import inspect
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.store import CountingStore, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lode.testing.servers import S3Server

SCHEMA = {"day": "string", "n": "int64"}


@pytest.fixture
def visits() -> lode.Dataset:
    """Four snapshots of two rows each, the days a to d."""
    dataset = lode.Dataset("visits", CountingStore(MemoryStore()), codec=lode.Parquet(SCHEMA))
    for number, day in enumerate("abcd"):
        dataset.write([{"day": day, "n": 2 * number}, {"day": day, "n": 2 * number + 1}])
    return dataset


@pytest.fixture
def volume() -> lode.Volume:
    """A volume of three snapshots with one block each."""
    made = lode.Volume("disk", MemoryStore(), 30)
    for number in range(3):
        made.commit([made.stage_write_at(10 * number, b"0123456789")])
    return made


@pytest.mark.parametrize(("limit", "numbers"), [(0, []), (3, [0, 1, 2]), (8, [*range(8)]), (99, [*range(8)])])
def test_a_scan_stops_after_limit_rows(visits: lode.Dataset, limit: int, numbers: list[int]) -> None:
    assert visits.scan(limit=limit).read_all()["n"].to_pylist() == numbers


def test_a_limit_counts_the_rows_that_match(visits: lode.Dataset) -> None:
    assert visits.scan(where="n IN (1, 3, 5)", limit=2, columns=["n"]).read_all()["n"].to_pylist() == [1, 3]


@pytest.mark.parametrize("limit", [-1, True, 1.5, "3"])
def test_a_limit_that_is_no_count_is_refused(visits: lode.Dataset, limit: Any) -> None:
    with pytest.raises(lode.InvalidOptionError, match="limit"):
        visits.scan(limit=limit)


def test_count_needs_no_data_file_without_a_filter(visits: lode.Dataset) -> None:
    store = visits.store
    assert isinstance(store, CountingStore)
    store.events.clear()
    assert visits.count() == 8
    assert not [path for _, path in store.events if "/data/" in path]


def test_count_takes_the_arguments_of_a_scan(visits: lode.Dataset) -> None:
    assert visits.count(where="n > 4") == 3
    assert visits.count(as_of=2) == 4
    assert visits.count(since=1, as_of=2, where="n = 3") == 1


def test_count_of_blobs_is_refused_as_a_scan_is() -> None:
    dataset = lode.Dataset("blobs", MemoryStore())
    dataset.write(b"x")
    with pytest.raises(lode.InvalidOptionError, match="blobs"):
        dataset.count()


def test_count_of_a_dataset_that_does_not_exist_is_refused_as_a_scan_is() -> None:
    with pytest.raises(lode.NoSnapshotsError):
        lode.Dataset("nothing", MemoryStore()).count()


def test_to_pandas_is_a_scan_as_a_data_frame(visits: lode.Dataset) -> None:
    frame = visits.to_pandas(where="n < 3", columns=["n"])
    assert frame["n"].tolist() == [0, 1, 2]


def test_snapshots_changes_and_history_have_the_same_ends(visits: lode.Dataset) -> None:
    a, b, c, d = visits.snapshots()
    assert visits.snapshots(since=a, as_of=c) == visits.changes(a, as_of=c) == [b, c]
    assert visits.snapshots(as_of=b) == [a, b]
    assert list(visits.history(as_of=c)) == [c, b, a]
    assert list(visits.history(since=b)) == [d, c]
    assert list(visits.history(since=2, as_of=3)) == [c]


def test_a_lazy_history_names_a_start_that_it_does_not_have(visits: lode.Dataset) -> None:
    with pytest.raises(lode.NotFoundError, match="no-such"):
        list(visits.history(since="no-such"))


def test_the_old_name_of_the_end_of_changes_still_works(visits: lode.Dataset) -> None:
    with pytest.warns(DeprecationWarning, match=r"changes\(until=…\) is deprecated: use as_of=…"):
        assert visits.changes(since=1, until=2) == visits.snapshots()[1:2]
    with pytest.raises(lode.InvalidOptionError, match="until"):
        visits.changes(until=2, as_of=2)


def test_a_volume_has_the_history_of_a_dataset(volume: lode.Volume) -> None:
    a, b, c = volume.snapshots()
    assert list(volume.history()) == [c, b, a]
    assert list(volume.history(as_of=b)) == [b, a]
    assert volume.snapshots(since=a) == volume.changes(a) == [b, c]
    assert volume.snapshots(since=1, as_of=2) == [b]
    with pytest.raises(lode.NotFoundError):
        volume.snapshots(since=c, as_of=b)
    assert lode.Volume("none", MemoryStore(), 1).snapshots() == []


@pytest.mark.parametrize("target", ["visits", "volume"])
def test_verify_and_sweep_take_a_dataset_and_a_volume(target: str, request: pytest.FixtureRequest) -> None:
    opened = request.getfixturevalue(target)
    assert lode.verify(opened).ok
    assert lode.sweep(opened, older_than=timedelta(days=1)).leftovers == ()


def test_a_store_and_a_name_still_work_for_sweep(visits: lode.Dataset) -> None:
    with pytest.warns(DeprecationWarning, match=r"lode\.sweep\(lode\.open_dataset"):
        found = lode.sweep(visits.store, "visits", timedelta(days=1))
    assert found == lode.sweep(visits, timedelta(days=1))


def test_options_of_a_store_are_given_with_its_url(s3_server: S3Server) -> None:
    bucket, options = "s3://lake/options-of-a-store", s3_server.options
    dataset = lode.Dataset("rows", bucket, codec="jsonl", store_options=options)
    dataset.write([{"n": 1}])
    assert lode.open_dataset("rows", bucket, store_options=options).count() == 1
    assert lode.DatasetReader(bucket, store_options=options).list_datasets() == ["rows"]
    volume = lode.Volume("disk", bucket, 4, store_options=options)
    volume.commit([volume.stage_write_at(0, b"abcd")])
    assert lode.open_volume("disk", bucket, store_options=options).is_complete()
    assert lode.Dataset.create("made", bucket, schema=SCHEMA, store_options=options).exists


def test_options_of_an_open_store_are_refused(tmp_path: Path) -> None:
    with pytest.raises(lode.InvalidOptionError, match="durable"):
        lode.Dataset("d", MemoryStore(), store_options={"durable": False})
    assert lode.Dataset("d", tmp_path, store_options={"durable": False}).store is not None


def _imported(module: ast.Module) -> dict[str, str]:
    """The names of Lode that a module imports or defines, also for type checkers alone."""
    found: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lode."):
            found |= {each.asname or each.name: str(node.module) for each in node.names}
    defined = (node.name for node in module.body if isinstance(node, ast.ClassDef))
    aliases = (
        node.target.id
        for node in module.body
        if isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation)
        if isinstance(node.target, ast.Name)
    )
    return found | dict.fromkeys((*defined, *aliases), "this module")


def _signatures() -> Iterator[tuple[str, str, set[str]]]:
    """Each public function and method: its name, its module, and the names in its annotations."""
    for name in lode.__all__:
        thing = getattr(lode, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        tree = ast.parse(inspect.getsource(thing))
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or (node.name[0] == "_" and node.name != "__init__"):
                continue
            given = [*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs]
            notes = [each.annotation for each in given if each.annotation] + (
                [node.returns] if node.returns else []
            )
            used = {part.id for note in notes for part in ast.walk(note) if isinstance(part, ast.Name)}
            yield f"{name}.{node.name}", thing.__module__, used


INTERNAL = {
    "Chain",  # for tools: verify, sweep and the console read the objects of a history through it
    *("ChainPaths", "ManifestPlace"),  # layouts give them to the library
    *("ArrowEncoder", "JSONLEncoder", "ParquetEncoder", "Sink", "ClosableSink", "Hasher"),  # codecs use them
    *("Footer", "FooterReader", "Unchanged"),  # rewriting copies row groups with them
    *("FieldIds", "PartitionValue"),  # datasets give them to codecs, and rewriting to stagers
    *("Committer", "DatasetDraft", "DataFile", "RecordFile"),  # stagers and transactions are made by datasets
}


def test_every_type_in_a_public_signature_is_exported() -> None:
    missing = set()
    for name, module, used in _signatures():
        source = ast.parse(inspect.getsource(sys.modules[module]))
        ours = _imported(source).keys() & used
        missing |= {(name, each) for each in ours - set(lode.__all__) - INTERNAL if each[0].isupper()}
    assert missing == set()
