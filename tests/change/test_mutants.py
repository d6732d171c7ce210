"""The explorer would notice: each rule of conflicts, broken alone, is seen to lose, double or revive rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lode.format.manifest import CheckpointRef, Manifest
from lode.read.state import States
from lode.testing.explore import Scenario, Violation, explore
from lode.testing.walk import walks
from lode.write import removal
from lode.write.rebase import recent_commits
from lode.write.removal import Compaction, Removal
from support.change.actors import (
    LAYOUTS,
    Operation,
    Serial,
    append,
    compact,
    delete,
    first,
    in_one_thread,
    merge,
    overwrite,
)

if TYPE_CHECKING:
    from lode.format.paths import Layout


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    in_one_thread(monkeypatch)


def made(layout: Layout, operations: dict[str, Operation]) -> Scenario:
    initial = first(layout)
    actors = {
        name: each.actor(number, layout, initial) for number, (name, each) in enumerate(operations.items(), 1)
    }
    return Scenario(actors=actors, initial=initial)


def breaks(layout: str, *operations: Operation, match: str) -> None:
    named = {f"a{number}": each for number, each in enumerate(operations)}
    chosen = LAYOUTS[layout]
    with pytest.raises(Violation, match=match):
        explore(made(chosen, named), check=Serial(chosen, named))


def test_a_deletion_that_follows_an_overlap_misses_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Removal, "overlap", lambda _self, _later: None)
    breaks("whole", delete(1, 4), append("a", 4), match=r"has .*, not")


def test_a_merge_that_follows_an_overlap_inserts_a_key_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Removal, "overlap", lambda _self, _later: None)
    breaks("whole", merge(4), merge(4), match=r"has .*, not")


def test_a_deletion_that_is_not_redone_after_a_compaction_doubles_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overlap: Any = Removal.overlap

    def careless(self: Removal, later: Any) -> str | None:
        found: str | None = overlap(self, [each for each in later if each.operation != "compact"])
        return found

    monkeypatch.setattr(Removal, "overlap", careless)
    breaks("whole", delete(3), compact(), match=r"has .*, not")


def test_a_compaction_that_keeps_groups_whose_files_are_gone_revives_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Compaction, "_is_hit", lambda *_: False)
    breaks("whole", delete(3), compact(), match=r"has .*, not")


def test_a_compaction_that_only_looks_at_files_revives_an_overwritten_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        Compaction, "_is_hit", lambda _self, group, removes: bool(group.inputs.intersection(removes.files))
    )
    breaks("split", overwrite("a", 5), compact(), match=r"has .*, not")


def test_a_compaction_that_names_a_partition_in_which_others_have_committed_loses_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(removal, "MAX_NAMED_FILES", 0)
    monkeypatch.setattr(removal, "common_partition", lambda *_: None)
    breaks("whole", append("a", 4), compact(), match=r"has .*, not")


def test_a_compaction_that_names_the_whole_dataset_after_others_have_committed_loses_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Compaction, "is_late", property(lambda _: False, lambda _self, _value: None))
    monkeypatch.setattr(removal, "common_partition", lambda *_: None)
    breaks("whole", append("a", 4), compact(), match=r"has .*, not")


def test_a_deletion_that_only_looks_at_files_misses_a_compaction_that_names_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(removal, "MAX_NAMED_FILES", 0)
    monkeypatch.setattr(
        Removal, "_has_lost", lambda self, removes: bool(self.files.intersection(removes.files))
    )
    breaks("whole", delete(3), compact(), match=r"has .*, not")


def test_a_compaction_that_conflicts_instead_of_giving_up_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compaction, "overlap", lambda _self, _later: "another writer was first")
    named = {"d": append("a", 4), "c": compact()}
    with pytest.raises(Violation, match="SnapshotConflictError"):
        explore(
            Scenario(**{**vars(made(LAYOUTS["whole"], named)), "raises": ()}),
            check=Serial(LAYOUTS["whole"], named),
        )


def test_a_summary_of_commits_that_remove_hides_them_from_a_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a compactor that is two commits behind reads the summary: too far for every interleaving."""
    named = {"c": compact(), "d": overwrite("a", 5), "a": append("b", 4), "b": append("b", 5)}
    layout = LAYOUTS["split"]
    walks(made(layout, named), range(8), check=Serial(layout, named))

    def forgetful(parent: Any, layout: Any, *, crowded: bool) -> dict[str, list[str]]:
        with monkeypatch.context() as patched:
            patched.setattr(Manifest, "is_append", property(lambda _: True))
            return recent_commits(parent, layout, crowded=crowded)

    monkeypatch.setattr("lode.write.dataset_draft.recent_commits", forgetful)
    with pytest.raises(Violation, match=r"has .*, not"):
        walks(made(layout, named), range(40, 60), check=Serial(layout, named))


def test_a_checkpoint_that_is_named_behind_another_parent_hides_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction that lost its place twice names the checkpoint that it wrote for the first place."""
    named = {"c": compact(), "d": overwrite("a", 5), "a": append("b", 4), "b": append("b", 5)}
    layout = LAYOUTS["split"]
    written = States.checkpoint_with

    def remembered(states: States, child: Manifest, parent: Manifest) -> CheckpointRef | None:
        monkeypatch.setattr(states, "_written", written(states, child, parent))
        return states._written

    monkeypatch.setattr(States, "checkpoint_with", remembered)
    with pytest.raises(Violation, match=r"has .*, not"):
        walks(made(layout, named), range(8), check=Serial(layout, named))
