"""What the tab key offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import lode
    from support.cli.running import Run


def offered(run: Run, monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    monkeypatch.setenv("_LODE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    return run().out.split()


def test_commands_datasets_and_snapshots_are_offered(
    run: Run, visits: lode.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offered(run, monkeypatch, "lode ve") == ["verify", "version"]
    assert offered(run, monkeypatch, "lode log v") == ["visits"]
    assert offered(run, monkeypatch, "lode log x") == []
    assert offered(run, monkeypatch, "lode evolve v") == ["visits"]
    assert offered(run, monkeypatch, "lode create v") == ["visits"]
    assert offered(run, monkeypatch, "lode show visits ") == [snapshot.id for snapshot in visits.history()]
    assert offered(run, monkeypatch, "lode cat visits --format j") == ["jsonl"]
    assert offered(run, monkeypatch, "lode serve --log-level d") == ["debug"]
    assert offered(run, monkeypatch, "lode serve --tls-c") == ["--tls-cert"]


@pytest.mark.usefixtures("visits")
def test_the_root_of_the_line_counts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LODE_ROOT")
    assert offered(run, monkeypatch, "lode log -r lake ") == ["visits"]
    assert offered(run, monkeypatch, "lode -r lake log ") == ["visits"]
    assert offered(run, monkeypatch, "lode --root lake copy v") == ["visits"]
    assert offered(run, monkeypatch, "lode -r nowhere log -r lake ") == ["visits"]
    assert offered(run, monkeypatch, "lode -r nowhere log ") == []
    assert offered(run, monkeypatch, "lode log ") == []
    assert offered(run, monkeypatch, "lode log -r nowhere ") == []
