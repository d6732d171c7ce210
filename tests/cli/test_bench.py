"""``lode bench``: the table, and the JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.cli.running import Run


def test_bench_shows_a_table(run: Run) -> None:
    ended = run("bench", "memory://bench-of-the-command", "--seconds", "0.2", "--writers", "2")
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[0] == "memory://bench-of-the-command"
    assert ended.lines[2].split() == ["lode", "floor", "lode", "/", "floor"]
    assert "every row is there once" in ended.out


def test_bench_tells_scripts_the_same(run: Run) -> None:
    (told,) = run("bench", "memory://bench-for-scripts", "--seconds", "0.2", "--json").json
    assert set(told) == {"url", "commits", "contention", "opening", "blobs"}
    assert (told["contention"]["writers"], told["contention"]["lost"], told["contention"]["doubled"]) == (
        4,
        0,
        0,
    )
    assert run("bench", "memory://", "--seconds", "0").code == 2
