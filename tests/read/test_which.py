"""Which snapshot: every snapshot can be named in every way, and all ways agree."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lode
from lode.read.which import ExactId, Moment, as_text, parsed
from lode.runtime import Runtime
from lode.store import CountingStore, MemoryStore
from lode.times import rfc3339_to_ns
from lode.ui.timeline import DatasetTimeline

if TYPE_CHECKING:
    from collections.abc import Callable

NOON = 1_794_830_400_000_000_000  # 2026-11-16T12:00Z
DAY = 86_400 * 10**9
TOKYO = timezone(timedelta(hours=9))


def written(steps: list[int], store: lode.Store | None = None) -> tuple[lode.Dataset, list[lode.Snapshot]]:
    """A history whose snapshots are so many nanoseconds apart, with its segments."""
    clock = [NOON]

    def now() -> int:
        return clock[0]

    dataset = lode.Dataset(
        "events",
        MemoryStore() if store is None else store,
        runtime=Runtime(now_ns=now, background=lambda chore: chore()),
    )
    snapshots = []
    for step in steps:
        clock[0] += step
        snapshots.append(dataset.write(b"x"))
    return dataset, snapshots


def names(snapshots: list[lode.Snapshot], index: int) -> list[Any]:
    """Everything that names a snapshot, but times that a later one shares."""
    snapshot = snapshots[index]
    back = len(snapshots) - 1 - index
    found: list[Any] = [snapshot, snapshot.id, index + 1, str(index + 1), f"latest~{back}"]
    found += ["latest"] if not back else []
    others = [other.id for other in snapshots if other.id != snapshot.id]
    start = next(
        length
        for length in range(13, len(snapshot.id) + 1)
        if not any(other.startswith(snapshot.id[:length]) for other in others)
    )
    found += [snapshot.id[:length] for length in {start, len(snapshot.id) - 1} if length >= start]
    written_at = snapshot.manifest.created_at
    if back and snapshots[index + 1].created_at == snapshot.created_at:
        # Only a text of more than six digits means less than a whole microsecond.
        return [*found, written_at] if len(written_at.partition(".")[2]) > len("123456Z") else found
    found.append(written_at)
    moment = snapshot.created_at
    found += [moment, moment.astimezone(TOKYO), moment.isoformat(), moment.astimezone(TOKYO).isoformat()]
    found += [moment.isoformat(sep=" "), moment.replace(tzinfo=None).isoformat()]
    return found


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([1, 999, 1_000, 10**6, 10**9, DAY]), min_size=1, max_size=40), st.data())
def test_every_snapshot_is_named_in_every_way_and_all_agree(steps: list[int], data: st.DataObject) -> None:
    dataset, snapshots = written(steps)
    index = data.draw(st.integers(0, len(snapshots) - 1))
    wanted = snapshots[index]
    # Another object has to find what the first one has in memory.
    cold = lode.Dataset("events", dataset.store)
    for name in names(snapshots, index):
        assert cold.snapshot(name) == wanted, name
        assert next(cold.history(as_of=name)) == wanted, name
        assert cold.plan(as_of=name).manifests[-1] == wanted.manifest, name
        assert cold.plan_snapshot(name).manifests == [wanted.manifest], name
        assert cold.changes(since=name) == snapshots[index + 1 :], name
        assert cold.changes(as_of=name) == snapshots[: index + 1], name
        assert cold.definition_at(name) == cold.definition, name
        if not isinstance(name, lode.Snapshot):
            assert cold.snapshot(as_text(name)) == wanted, name


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([1, 10**6, DAY // 2, DAY]), min_size=1, max_size=20), st.integers(-2, 12))
def test_a_date_is_when_the_day_begins(steps: list[int], after: int) -> None:
    dataset, snapshots = written(steps)
    day = date(2026, 11, 16) + timedelta(days=after)
    began = datetime(day.year, day.month, day.day, tzinfo=UTC)
    before = [snapshot for snapshot in snapshots if snapshot.created_at <= began]
    assert dataset.changes(since=day) == dataset.changes(since=str(day)) == snapshots[len(before) :]
    for name in (day, str(day), f"{day}T00:00", f"{day} 00:00Z", began):
        if before:
            assert dataset.snapshot(name) == before[-1]
        else:
            with pytest.raises(lode.NoSnapshotsError, match=f"had no snapshots at {day}"):
                dataset.snapshot(name)


@settings(max_examples=300)
@given(
    st.text(max_size=40) | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.,+Zz-]*)?", fullmatch=True)
)
def test_any_text_is_a_reference_or_a_usage_error(text: str) -> None:
    with suppress(lode.UsageError):
        assert parsed(text) is not None


def test_more_digits_than_microseconds_tell_snapshots_of_one_microsecond_apart() -> None:
    dataset, (first, second) = written([500, 1])
    assert first.created_at == second.created_at
    assert dataset.snapshot(first.manifest.created_at) == first
    assert dataset.snapshot(first.created_at) == second


def test_the_beginning_of_several_ids_names_the_candidates() -> None:
    dataset = lode.Dataset("events", MemoryStore())
    for id in ("night-1", "night-2", "day-1"):
        with dataset.transaction(snapshot_id=id) as transaction:
            transaction.stage(b"x")
            transaction.commit()
    for ask in (dataset.snapshot, lambda name: dataset.changes(since=name)):
        with pytest.raises(lode.InvalidOptionError, match=r"2 snapshots .*'night' \(night-1, night-2\)"):
            ask("night")
    assert dataset.snapshot("day").id == "day-1"
    assert [snapshot.id for snapshot in dataset.changes(since="night-1", as_of="night-2")] == ["night-2"]


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("nightly", lode.NotFoundError, "dataset 'events' has no snapshot 'nightly' in memory://"),
        ("lastest", lode.NotFoundError, "did you mean 'latest'?"),
        ("4", lode.NotFoundError, "no snapshot '4' .*: it has 3, numbered from 1"),
        (0, lode.NotFoundError, "no snapshot '0'"),
        (-1, lode.NotFoundError, "no snapshot '-1'"),
        ("latest~3", lode.NotFoundError, "no snapshot 'latest~3'"),
        ("latest~x", lode.InvalidOptionError, "write latest~2 for two back"),
        ("latest~9999999999999", lode.InvalidOptionError, "write latest~2 for two back"),
        ("2026-02-30", lode.InvalidOptionError, "'2026-02-30' is not a date or a time"),
        ("2026-02-03T25:00", lode.InvalidOptionError, "is not a date or a time"),
        ("2001-01-01", lode.NoSnapshotsError, "the first is of 2026-11-16T12.*a date means 00:00 UTC"),
        (datetime(2026, 11, 16), lode.InvalidOptionError, "has no time zone"),
        (True, lode.InvalidPathError, "got True"),
        (None, lode.InvalidPathError, "got None"),
        (1.5, lode.InvalidPathError, r"got 1\.5"),
        ("", lode.InvalidPathError, "non-empty"),
        ("a/b", lode.InvalidPathError, "path separator"),
    ],
)
def test_what_names_no_snapshot_says_why(name: Any, error: type[Exception], said: str) -> None:
    dataset, _ = written([1, 1, 1])
    with pytest.raises(error, match=said):
        dataset.snapshot(name)


@pytest.mark.parametrize("name", ["latest", "latest~1", "7", "2026-11-16", "2026-11-16T12:00"])
def test_a_new_snapshot_cannot_have_an_id_that_names_another(name: str) -> None:
    dataset = lode.Dataset("events", MemoryStore())
    with pytest.raises(lode.InvalidPathError, match="choose another"):
        dataset.transaction(snapshot_id=name)


def test_an_empty_history_says_so_whatever_is_named() -> None:
    dataset = lode.Dataset("events", MemoryStore())
    for name in ("latest", "2026-11-16"):
        with pytest.raises(lode.NoSnapshotsError):
            dataset.snapshot(name)
    for name in ("1", "1794830400000000000"):
        with pytest.raises(lode.NotFoundError, match="'events' has no snapshot"):
            dataset.snapshot(name)


@pytest.mark.parametrize(
    ("ask", "reads"),
    [
        (lambda dataset, snapshots: dataset.snapshot(snapshots[0].id), 1),
        (lambda dataset, _: dataset.snapshot("latest"), 2),
        (lambda dataset, _: dataset.snapshot("latest~2"), 4),
        (lambda dataset, _: dataset.snapshot(1), 18),
        (lambda dataset, _: dataset.snapshot("latest~599"), 18),
        (lambda dataset, snapshots: dataset.snapshot(snapshots[0].created_at), 18),
        (lambda dataset, snapshots: dataset.snapshot(snapshots[0].id[:-1]), 20),
    ],
)
def test_a_name_costs_few_reads_in_a_long_history(
    long_history: tuple[MemoryStore, list[lode.Snapshot]],
    ask: Callable[[lode.Dataset, list[lode.Snapshot]], object],
    reads: int,
) -> None:
    store, snapshots = long_history
    counting = CountingStore(store)
    dataset = lode.Dataset("events", counting, layout=lode.DefaultLayout())
    assert dataset.exists
    counting.reset()
    ask(dataset, snapshots)
    assert counting.counts["get"] <= reads
    assert "list" not in counting.counts


@pytest.fixture(scope="module")
def long_history() -> tuple[MemoryStore, list[lode.Snapshot]]:
    """600 snapshots, with segments of 256 and of 16."""
    store = MemoryStore()
    return store, written([1_000] * 600, store)[1]


def test_a_volume_has_the_same_names() -> None:
    volume = lode.Volume("disk", MemoryStore(), 100)
    snapshots = [volume.commit([volume.stage_write_at(offset, b"x")]) for offset in range(3)]
    for index, snapshot in enumerate(snapshots):
        found: list[Any] = [index + 1, str(index + 1), f"latest~{2 - index}", snapshot.id, snapshot.id[:-1]]
        for name in [*found, snapshot, snapshot.manifest.created_at]:
            assert volume.snapshot(name) == snapshot, name
            assert volume.read_at(name, index, 1) == b"x"
            assert volume.missing(name) == [(index + 1, 99 - index)]
    with pytest.raises(lode.NotFoundError, match=r"volume 'disk' has no snapshot '4' .*: it has 3"):
        volume.snapshot("4")
    with pytest.raises(lode.NoSnapshotsError, match="volume 'disk' had no snapshots at 2001-01-01T00:00Z"):
        volume.snapshot("2001-01-01")


def test_times_are_read_to_the_nanosecond() -> None:
    for text in (
        "2026-11-16T12:00:00.123456789Z",
        "2026-11-16 12:00:00,123456789",
        "2026-11-16t12:00:00.123456789z",
    ):
        found = parsed(text)
        assert isinstance(found, Moment)
        assert found.nanoseconds == rfc3339_to_ns("2026-11-16T12:00:00.123456789Z")


def with_ids_of_version_0_1(monkeypatch: pytest.MonkeyPatch) -> tuple[lode.Dataset, list[lode.Snapshot]]:
    """Version 0.1 let programs choose any id, also one that means something else now."""
    monkeypatch.setattr("lode.writes.check_new_snapshot_id", lambda id: id)
    dataset = lode.Dataset("events", MemoryStore())
    snapshots = []
    for id in ("2", "3", "latest", "2026-11-15"):
        transaction = dataset.transaction(snapshot_id=id)
        transaction.stage(id.encode())
        snapshots.append(transaction.commit())
    return dataset, snapshots


def test_an_id_that_looks_like_a_number_is_found_by_its_number_or_as_an_exact_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset, snapshots = with_ids_of_version_0_1(monkeypatch)
    assert dataset.snapshot("2") == snapshots[1]
    assert [dataset.snapshot(ExactId(each.id)) for each in snapshots] == snapshots
    assert dataset.changes(since=ExactId("2"), as_of=ExactId("latest")) == snapshots[1:3]
    with pytest.raises(lode.InvalidOptionError, match="'2026-11-15' means another snapshot as text"):
        as_text(snapshots[3])


def test_an_exact_id_is_never_the_beginning_of_another() -> None:
    dataset, [snapshot] = written([0])
    with pytest.raises(lode.NotFoundError, match="has no snapshot"):
        dataset.snapshot(ExactId(snapshot.id[:-1]))


def test_changes_since_an_exact_id_or_a_snapshot_take_no_beginning() -> None:
    dataset, other = (lode.Dataset("events", MemoryStore()) for _ in range(2))
    for id in ("first", "run-10", "third"):
        transaction = dataset.transaction(snapshot_id=id)
        transaction.stage(b"x")
        transaction.commit()
    transaction = other.transaction(snapshot_id="run-1")
    transaction.stage(b"x")
    foreign = transaction.commit()
    assert [each.id for each in dataset.changes(since="run-1")] == ["third"]
    for since in (ExactId("run-1"), foreign):
        with pytest.raises(lode.NotFoundError, match="'run-1' is not in the history"):
            dataset.changes(since=since)


@pytest.mark.parametrize("id", ["latest~x", "latest~", "latest~1234567890123"])
def test_a_new_id_cannot_begin_like_a_step_back(id: str) -> None:
    with pytest.raises(lode.InvalidPathError, match="choose another"):
        lode.Dataset("events", MemoryStore()).transaction(snapshot_id=id)


@pytest.mark.parametrize(
    "clock",
    ["T12.5Z", "T12:00.5Z", "T12:00:00.1.2Z", "T12:00:00+01:00:00.5", f"T{'1' * 100_000}", "T12:00:00."],
)
def test_a_time_with_a_fraction_of_anything_but_seconds_is_refused(clock: str) -> None:
    with pytest.raises(lode.InvalidOptionError, match="is not a date or a time"):
        parsed(f"2026-11-15{clock}")


def test_the_console_shows_the_snapshot_of_an_id_that_looks_like_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dataset, snapshots = with_ids_of_version_0_1(monkeypatch)
    view = DatasetTimeline(dataset.store, "events").look()
    assert [view.snapshot(each.id).id for each in snapshots] == [each.id for each in snapshots]
    assert view.snapshot("latest~1").id == "latest"
