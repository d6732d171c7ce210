"""``verify``, ``sweep``, ``doctor``, ``version``: checking and cleaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lode

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli.running import Run


@pytest.mark.usefixtures("visits")
def test_verify_is_content_with_a_whole_dataset(run: Run) -> None:
    ended = run("verify", "visits")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("visits: ok in 2 snapshots, 3 files, ")
    (told,) = run("verify", "visits", "--quick", "--json").json
    assert (told["ok"], told["problems"]) == (True, [])


def test_verify_names_every_problem_and_ends_with_5(run: Run, visits: lode.Dataset, lake: Path) -> None:
    first, second = visits.snapshots()
    (lake / first.files[0].path).unlink()
    damaged = lake / second.files[0].path
    damaged.write_bytes(damaged.read_bytes()[::-1])
    ended = run("verify", "visits")
    assert ended.code == 5
    assert ended.lines[0].startswith("visits: 2 problems in ")
    assert [line.split()[0] for line in ended.lines[2:]] == ["missing-file", "checksum"]
    quick = run("verify", "visits", "--quick", "--json")
    assert quick.code == 5
    assert [problem["kind"] for problem in quick.json[0]["problems"]] == ["missing-file"]


def test_sweep_lists_and_removes_only_when_told(run: Run, visits: lode.Dataset, lake: Path) -> None:
    assert run("sweep", "visits").out == "visits: nothing to sweep\n"
    stager = visits.stager()
    staged = stager.stage([{"day": "thu", "page": "/", "visits": 1}])
    assert run("sweep", "visits", "--delete").lines[1].startswith(f"left alone: {stager.snapshot_id}, ")
    left = lake / staged.files[0].path
    dry = run("sweep", "visits", "--older-than", "0s")
    assert dry.lines[0].endswith("; --delete removes them")
    assert left.exists()
    (told,) = run("sweep", "visits", "--older-than", "0s", "--delete", "--json").json
    assert told["removed"] is True
    assert staged.files[0].path in [item["path"] for item in told["leftovers"]]
    assert not left.exists()
    assert run("sweep", "visits", "--older-than", "soon").code == 2
    assert run("sweep", "visits", "--older-than", "9999-01-01").err == (
        "lode: 9999-01-01 is in the future: give a time that has passed\n"
    )
    assert run("sweep", "visits", "--older-than", "2026-13-01").code == 2


def test_doctor_tells_whether_a_store_keeps_its_promises(run: Run, lake: Path) -> None:
    ended = run("doctor")
    assert ended.code == 0
    assert "safe for concurrent writers" in ended.out
    assert "ok: of racing swaps exactly one wins" in ended.out
    assert list(lake.iterdir()) == []
    (told,) = run("doctor", "--json").json
    assert told["store"]["healthy"] is True
    assert told["versions"]["pyarrow"]


def test_doctor_ends_with_1_for_a_store_that_cannot_be_reached(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    ended = run("doctor", "--root", str(tmp_path / "file"))
    assert ended.code == 1
    assert "cannot be reached" in ended.lines[0]
    assert "safe" not in ended.lines[0]
    (told,) = run("doctor", "--root", str(tmp_path / "file"), "--json").json
    assert told["store"]["unreachable"]


def test_version_tells_what_is_installed(run: Run) -> None:
    (told,) = run("version", "--json").json
    assert run("--version").out == f"lode {told['lode']}\n"
    assert run("version").lines[0].split() == ["lode", told["lode"]]
    assert told["pyarrow"]


def test_verify_reports_a_history_that_cannot_even_be_opened(
    run: Run, visits: lode.Dataset, lake: Path
) -> None:
    newest = lake / visits.chain.paths.manifest(visits.latest().id)
    newest.write_text("{")
    ended = run("verify", "visits", "--json")
    assert ended.code == 5
    assert "manifest-invalid" in {problem["kind"] for problem in ended.json[0]["problems"]}
    assert run("log", "visits").code == 1


def test_a_damaged_dataset_does_not_hide_the_others(run: Run, visits: lode.Dataset, lake: Path) -> None:
    run("write", "events", stdin=b'{"n": 1}')
    (lake / visits.chain.paths.manifest(visits.latest().id)).write_text("{")
    ended = run("ls", "--json")
    shown = {line["name"]: "error" in line for line in ended.json}
    assert (ended.code, shown) == (1, {"events": False, "visits": True})
    assert "not a JSON document" in ended.out + ended.err


def test_volumes_are_verified_and_swept_by_name(run: Run, lake: Path) -> None:
    volume = lode.Volume("disk", lake, 100, checksum="md5")
    kept = volume.commit([volume.stage_write_at(0, b"kept")])
    lost = volume.stage_write_at(50, b"lost")
    ended = run("verify", "disk", "--volume")
    assert (ended.code, ended.out) == (0, "disk: ok in 1 snapshot, 1 block, 4 B\n")
    dry = run("sweep", "disk", "--volume", "--older-than", "0s")
    assert dry.lines[0].startswith("disk: 2 objects")
    assert (lake / lost.path).exists()
    (swept,) = run("sweep", "disk", "--volume", "--older-than", "0s", "--delete", "--json").json
    assert lost.path in [item["path"] for item in swept["leftovers"]]
    assert not (lake / lost.path).exists()
    (lake / kept.blocks[0].path).write_bytes(b"torn")
    (told,) = run("verify", "disk", "--volume", "--json").json
    assert [problem["kind"] for problem in told["problems"]] == ["checksum"]


def test_a_damaged_volume_is_verified_and_spared(run: Run, lake: Path) -> None:
    volume = lode.Volume("disk", lake, 100)
    kept = volume.commit([volume.stage_write_at(0, b"kept")])
    lost = volume.stage_write_at(50, b"lost")
    (lake / volume.chain.paths.manifest(kept.id)).write_text("{")
    ended = run("verify", "disk", "--volume", "--json")
    assert ended.code == 5
    assert {problem["kind"] for problem in ended.json[0]["problems"]} == {"manifest-invalid", "pointer"}
    assert "no block is removed" in run("sweep", "disk", "--volume", "--older-than", "0s", "--delete").out
    assert (lake / lost.path).exists()
    assert run("verify", "nothing", "--volume").code != 0


def test_a_dataset_whose_history_is_damaged_is_swept_of_what_is_safe(
    run: Run, visits: lode.Dataset, lake: Path
) -> None:
    staged = visits.stager().stage([{"day": "thu", "page": "/", "visits": 1}])
    files = [file.path for snapshot in visits.snapshots() for file in snapshot.files]
    (lake / visits.chain.paths.manifest(visits.latest().id)).write_text("{")
    ended = run("sweep", "visits", "--older-than", "0s", "--delete")
    assert "cannot be read" in ended.out
    assert not (lake / staged.files[0].path).exists()
    assert all((lake / path).exists() for path in files)
