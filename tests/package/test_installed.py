"""The wheel alone and with each extra: what is installed works, what is missing is named."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from lode.extras import MODULES
from package.conftest import FEATURES, Environments, checked, run

if TYPE_CHECKING:
    from pathlib import Path

    from lode.testing.servers import S3Server

# A statement, the extra that it needs, and the subject of its sentence without it.
STATEMENTS: dict[str, tuple[str, str]] = {
    "import lode.spark": ("spark", "lode.spark"),
    "import lode.pipeline": ("spark", "lode.pipeline"),
    "import pyspark_lode": ("spark", "lode.spark"),
    "import lode.ui": ("server", "lode.ui"),
    "import lode.ingest.server": ("server", "lode.ingest.server"),
    "import lode.testing.store_suite": ("testing", "lode.testing.store_suite"),
    "import lode.testing.plugin": ("testing", "lode.testing.plugin"),
    "from lode.testing.servers import S3Server; S3Server().command()": ("testing", "S3Server"),
    "import lode; lode.open_store('s3://b/p', skip_signature=True)": ("s3", "s3://"),
    "import lode; lode.open_store('gs://b/p', skip_signature=True)": ("gcs", "gs://"),
    "import lode; lode.open_store('az://b/p', account_name='a')": ("azure", "az://"),
    "from lode.ingest.types.geography import need_shapely; need_shapely('place')": (
        "geo",
        "Column 'place' of type GEOGRAPHY",
    ),
}
SENTENCE = re.compile(r"(.+) needs (\S+), which is not installed: pip install 'lode-store\[(.+)\]'")
# What the extra "all" is: every extra but those for tests.
INCLUDED = set(MODULES) - {"testing", "node"}
# The same requirement, which ``test_metadata.py`` compares: each of them installs the others.
BUCKETS = {"s3", "gcs", "azure"}
ENVIRONMENTS = [(), ("sql",), ("s3",), ("server",), ("spark",), ("testing",)]

# A command, how it ends without its extras, and what it says to install.
COMMANDS: dict[str, tuple[str, str]] = {
    "lode serve --root lake": ("lode serve needs grpc", "server"),
    "lode ui --root lake": ("lode ui needs starlette", "server"),
    "lode demo": ("lode demo needs grpc", "server,spark"),
    "lode sql SELECT --root lake": ("lode sql needs duckdb", "sql"),
    "lode spark verify x --root lake": ("lode.spark needs pyspark", "spark"),
    "lode spark run x.yaml": ("lode.pipeline needs pyspark", "spark"),
    "lode ls --root s3://bucket/lake": ("s3:// needs obstore", "s3"),
    "python -m lode.ingest --root lake": ("lode serve needs grpc", "server"),
    "python -m lode.demo": ("lode demo needs grpc", "server,spark"),
}
# Packages that cannot be imported: Python shows a traceback first.
IMPORTED: dict[str, tuple[str, str]] = {
    "python -m lode.ui": ("lode.ui needs starlette", "server"),
    "python -m lode.spark": ("lode.spark needs pyspark", "spark"),
}


@pytest.mark.parametrize("extras", ENVIRONMENTS, ids=lambda extras: "-".join(extras) or "base")
def test_each_missing_extra_is_named_with_the_command_that_installs_it(
    extras: tuple[str, ...], environments: Environments, tmp_path: Path
) -> None:
    installed = environments(*extras)
    present = {*extras, *(BUCKETS if BUCKETS & set(extras) else ())}
    words = [str(installed.python), str(FEATURES / "missing.py"), json.dumps(list(STATEMENTS))]
    said: dict[str, str | None] = json.loads(checked(run(words, cwd=tmp_path)))
    for statement, (extra, subject) in STATEMENTS.items():
        sentence = said[statement]
        if extra in present:
            assert sentence is None, statement
            continue
        found = SENTENCE.fullmatch(sentence or "")
        assert found is not None, (statement, sentence)
        assert (found[1], found[3]) == (subject, extra)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_lacks_its_extra_ends_with_one_sentence(
    command: str, environments: Environments, tmp_path: Path
) -> None:
    program, *words = command.split()
    done = run([environments().command(program), *words], cwd=tmp_path)
    beginning, extra = COMMANDS[command]
    program, _, sentence = done.stderr.partition(": ")
    assert program in ("lode", "lode serve")
    assert sentence == f"{beginning}, which is not installed: pip install 'lode-store[{extra}]'\n"
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize("command", IMPORTED)
def test_a_module_that_lacks_its_extra_ends_with_that_sentence(
    command: str, environments: Environments, tmp_path: Path
) -> None:
    program, *words = command.split()
    done = run([environments().command(program), *words], cwd=tmp_path)
    beginning, extra = IMPORTED[command]
    assert done.stderr.endswith(
        f"MissingDependencyError: {beginning}, which is not installed: pip install 'lode-store[{extra}]'\n"
    )


@pytest.mark.parametrize("extra", [*(each for each in MODULES if each not in ("gcs", "azure")), "all"])
def test_every_extra_alone_installs_all_that_it_names(
    extra: str, environments: Environments, tmp_path: Path
) -> None:
    needed = MODULES.get(extra) or {module for one in INCLUDED for module in MODULES[one]}
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    checked(run([environments(extra).python, "-c", code, "lode", *needed], cwd=tmp_path))


def test_without_extras_the_library_and_the_command_line_work(
    environments: Environments, tmp_path: Path
) -> None:
    environments().feature("base", cwd=tmp_path)


def test_a_bucket_needs_its_extra_alone(
    environments: Environments, tmp_path: Path, s3_server: S3Server
) -> None:
    environments("s3").feature("s3", s3_server.endpoint, "lake", cwd=tmp_path)


def test_lode_sql_needs_its_extra_alone(environments: Environments, tmp_path: Path) -> None:
    environments("sql").feature("sql", cwd=tmp_path)


def test_the_server_and_the_console_need_their_extra_alone(
    environments: Environments, tmp_path: Path
) -> None:
    environments("server").feature("server", cwd=tmp_path)


def test_a_geography_needs_the_server_and_its_extra(environments: Environments, tmp_path: Path) -> None:
    environments("server", "geo").feature("geo", cwd=tmp_path)


@pytest.mark.slow
def test_spark_needs_its_extra_alone(environments: Environments, tmp_path: Path) -> None:
    environments("spark").feature("spark", cwd=tmp_path)


def test_spark_without_java_names_the_extra_that_brings_one(
    environments: Environments, tmp_path: Path
) -> None:
    code = "import lode.spark; lode.spark.session('local[1]')"
    nowhere = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    done = run([environments("spark").python, "-c", code], cwd=tmp_path, env=nowhere)
    assert done.stderr.splitlines()[-1].endswith(
        "Spark needs Java 17 or newer, and this machine has none: "
        "pip install 'lode-store[spark,java]' brings one"
    )


def test_the_extra_for_java_has_a_java_that_starts(environments: Environments, tmp_path: Path) -> None:
    environments("java").feature("java", cwd=tmp_path)


TESTS = """
from lode.store.memory import MemoryStore
from lode.testing.store_suite import StoreSuite, race


def test_without_the_fixture():
    pass


def test_with_the_fixture(lode_server):
    pass
"""


def test_pytest_runs_without_the_server_and_the_fixture_names_its_extra(
    environments: Environments, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    done = run([environments("testing").command("pytest"), "-q", "-W", "error", tmp_path], cwd=tmp_path)
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    found = re.search(r"MissingDependencyError: (the pytest fixture .*)", done.stdout)
    sentence = SENTENCE.fullmatch(found[1]) if found else None
    assert sentence is not None, done.stdout
    assert (sentence[1], sentence[3]) == ("the pytest fixture lode_server", "server")
