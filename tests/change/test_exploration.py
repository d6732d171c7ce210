"""Every interleaving of two changes of one dataset, and walks of many, with crashes and lost answers.

The actors are the library itself. ``Serial`` checks after every step that each snapshot has the rows of the
one before it, changed by the operation that committed it, that every snapshot can be read as it was, and that
every promise made to a caller is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lode.errors import NotFoundError
from lode.format.manifest import decode_struct
from lode.read.checkpoint import Checkpoint
from lode.read.segment import decompress
from lode.testing.explore import Report, Scenario, Violation, explore
from lode.testing.walk import walks
from lode.write import removal
from support.change.actors import (
    LAST,
    LAYOUTS,
    RECOVERY,
    Operation,
    Serial,
    append,
    compact,
    delete,
    expire,
    first,
    in_one_thread,
    liar,
    merge,
    overwrite,
    reader,
    restore,
)

if TYPE_CHECKING:
    from lode.format.paths import Layout


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


def scenario(
    layout: Layout,
    operations: dict[str, Operation],
    *,
    reads: bool = False,
    recovers: bool = False,
    expires: bool = False,
    **options: Any,
) -> Scenario:
    initial = first(layout)
    kept = {} if expires else initial
    actors = {
        name: each.actor(number, layout, kept) for number, (name, each) in enumerate(operations.items(), 1)
    }
    if reads:
        actors["r"] = reader(layout, kept)
    if recovers:
        options["recovery"] = append(*LAST[0][:2]).actor(RECOVERY, layout, kept)
    return Scenario(actors=actors, initial=initial, **options)


def explored(layout: Layout, operations: dict[str, Operation], **options: Any) -> Report:
    return explore(scenario(layout, operations, **options), check=Serial(layout, operations))


OPERATIONS = {
    "append": append("a", 4),
    "overwrite": overwrite("a", 5),
    "delete": delete(1, 3),
    "merge": merge(1, 6),
    "compact": compact(),
    "restore": restore(2),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_operation_fails_because_of_a_compaction_and_no_compaction_fails(name: str) -> None:
    """Exhaustive without troubles: nobody raises, the rows are never doubled and never come back."""
    layout = LAYOUTS["whole" if name in ("merge", "restore") else "split"]
    report = explored(layout, {"c": compact(), "o": OPERATIONS[name]})
    assert report.count(lambda view: view.raised) == 0


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_compaction_that_names_partitions_removes_no_row_of_others(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does instead of naming thousands of files."""
    monkeypatch.setattr(removal, "MAX_NAMED_FILES", 0)
    layout = LAYOUTS["whole" if name in ("append", "delete") else "split"]
    report = explored(layout, {"c": compact(), "o": OPERATIONS[name]})
    assert report.count(lambda view: view.raised) == 0


@pytest.mark.parametrize(
    ("one", "two"),
    [("overwrite", "delete"), ("delete", "merge"), ("append", "delete"), ("overwrite", "restore")],
)
def test_of_two_operations_on_the_same_rows_at_most_one_conflicts(one: str, two: str) -> None:
    report = explored(LAYOUTS["whole"], {"one": OPERATIONS[one], "two": OPERATIONS[two]})
    assert report.count(lambda view: len(view.raised) > 1) == 0
    assert report.count(lambda view: view.raised) > 0


def test_operations_on_different_partitions_both_succeed() -> None:
    report = explored(LAYOUTS["split"], {"one": overwrite("b", 5), "two": merge(1, 6)})
    assert report.count(lambda view: view.raised) == 0


def test_a_redone_deletion_and_an_append_both_succeed() -> None:
    report = explored(LAYOUTS["whole"], {"one": delete(1, 4, redo=True), "two": append("a", 4)})
    assert report.count(lambda view: view.raised) == 0


def test_a_compactor_and_a_deleter_under_a_crash() -> None:
    report = explored(LAYOUTS["whole"], {"c": compact(), "o": delete(3)}, crashes=1, recovers=True)
    assert report.count(lambda view: view.raised) == 0


def test_a_compactor_and_a_deleter_whose_answers_are_lost() -> None:
    """Requests that land late as well are left to the walks: they take as long as all the others."""
    explored(LAYOUTS["whole"], {"c": compact(), "o": delete(3)}, unknown=1)


EVERYBODY = {
    "a1": append("a", 4),
    "a2": append("b", 5),
    "o": overwrite("b", 6, redo=True),
    "d": delete(1, 4, 9, redo=True),
    "m": merge(2, 7, redo=True),
    "c": compact(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_everybody_at_once_on_random_walks(layout: str) -> None:
    made = scenario(
        LAYOUTS[layout],
        EVERYBODY,
        reads=True,
        crashes=2,
        unknown=2,
        delayed=True,
        failures=1,
        max_calls=2000,
    )
    walks(made, range(6), check=Serial(LAYOUTS[layout], EVERYBODY))


def test_everybody_without_troubles_succeeds_whatever_the_order() -> None:
    made = scenario(LAYOUTS["split"], EVERYBODY, max_calls=2000, raises=())
    walks(made, range(100, 104), check=Serial(LAYOUTS["split"], EVERYBODY))


def test_snapshots_above_the_floor_can_be_read_while_others_expire() -> None:
    operations = {
        "d": delete(1, 9, redo=True),
        "c": compact(),
        "a": append("a", 4),
        "e": expire(1),
        "f": expire(2),
        "s": restore(3),
    }
    layout = LAYOUTS["split"]
    made = scenario(
        layout, operations, reads=True, expires=True, crashes=1, unknown=1, delayed=True, max_calls=2000
    )
    walks(made, range(200, 206), check=Serial(layout, operations, expires=True))


# What a compaction leaves is not everything that there is, so it writes a checkpoint.
LIED_TO = {
    "c": compact(),
    "e": compact(),
    "d": delete(2, 9, redo=True),
    "m": merge(1, 7, redo=True),
    "a": append("b", 5),
    "b": append("b", 6),
}


def test_a_lying_checkpoint_changes_no_answer_and_no_commit() -> None:
    layout = LAYOUTS["split"]
    made = scenario(layout, LIED_TO, reads=True, crashes=1, unknown=1, max_calls=2000)
    made = replace(made, actors={**made.actors, "liar": liar})
    walks(made, range(300, 305), check=Serial(layout, LIED_TO))


def test_the_walks_notice_if_a_lying_checkpoint_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    def believed(chain: Any, ref: Any) -> Any:
        try:
            plain = decompress(chain.store.get(chain.paths.state(ref.sha256)))
        except NotFoundError:
            return None
        return list(decode_struct(plain, Checkpoint, origin="").manifests)

    monkeypatch.setattr("lode.read.state.load_checkpoint", believed)
    layout = LAYOUTS["split"]
    made = scenario(layout, LIED_TO, reads=True, max_calls=2000)
    made = replace(made, actors={**made.actors, "liar": liar})
    with pytest.raises(Violation):
        walks(made, range(300, 340), check=Serial(layout, LIED_TO))
