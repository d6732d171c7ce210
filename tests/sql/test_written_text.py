"""The modules that write SQL for DuckDB put text of a tree into it only through functions that quote it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lode.sql

MODULES = ("dialect", "functions", "arrays", "engine", "structs", "dml", "rewrite", "decimals", "allowed")
# What gives text of a node as it is in the query.
TEXT = frozenset(["name", "this", "alias", "alias_or_name", "output_name", "text", "expression"])
# What quotes it, or writes a node. Errors show it to the client only.
QUOTING = frozenset(
    [
        *(
            "quoted",
            "text",
            "sql",
            "duck_type",
            "outward",
            "inward",
            "inner_type",
            "int",
            "len",
            "type",
            "position",
        ),
        *("QueryError", "UnsupportedError", "LimitError", "no_signature", "_call", "get", "isinstance"),
        *("to_identifier", "string", "number", "column", "alias_", "member_name", "_decimal_type", "_Inside"),
    ]
)


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def raw(node: ast.AST) -> ast.AST | None:
    """Text of a tree inside of an expression that nothing quotes."""
    if isinstance(node, ast.Call) and called(node) in QUOTING:
        return None
    if isinstance(node, ast.Call) and called(node) == "str":
        return node if isinstance(node.args[0], ast.Name | ast.Attribute) else raw(node.args[0])
    if isinstance(node, ast.Attribute) and node.attr in TEXT:
        return node
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return raw(node.elt)
    if isinstance(node, ast.IfExp):
        return raw(node.body) or raw(node.orelse)
    if isinstance(node, ast.Subscript):
        # A value of a list in the source.
        return raw(node.value)
    return next((found for child in ast.iter_child_nodes(node) if (found := raw(child)) is not None), None)


def faults(source: str) -> list[tuple[int, str]]:
    """The places where text of a tree is put into another text without quotes."""
    tree = ast.parse(source)
    shown: set[int] = set()
    for node in ast.walk(tree):
        # The text of an error, and of a key of a dictionary of this package.
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and called(node) in QUOTING):
            shown.update(map(id, ast.walk(node)))
    found = []
    for node in ast.walk(tree):
        if id(node) in shown:
            continue
        parts: list[ast.AST] = []
        if isinstance(node, ast.FormattedValue):
            parts = [node.value]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Call) and called(node) == "join":
            parts = list(node.args)
        found += [(place.lineno, ast.unparse(place)) for part in parts if (place := raw(part)) is not None]  # type: ignore[attr-defined]
    return found


# Text that is looked up in a list, or is no SQL.
KNOWN = {
    ("dialect", "expression.this"),
}


@pytest.mark.parametrize("module", MODULES)
def test_text_of_a_tree_is_written_through_a_function_that_quotes_it(module: str) -> None:
    path = Path(lode.sql.__file__).with_name(f"{module}.py")
    found = [each for each in faults(path.read_text("utf-8")) if (module, each[1]) not in KNOWN]
    assert not found, "\n".join(f"{path.name}:{line}: {text} is not quoted" for line, text in found)


@pytest.mark.parametrize(
    "source",
    [
        """fields.append(f'"{field.name}" {duck_type(field.args["kind"])}')""",
        """parameters = f"DECIMAL({', '.join(str(each) for each in kind.expressions)})" """,
        """name = f"WEEK_{part.name.upper()}" """,
        """values = {f"bq_interval_{each.this.name.lower()}": generator.sql(each.expression)}""",
        """made = "SELECT " + node.this""",
        """made = ", ".join(each.name for each in columns)""",
    ],
)
def test_the_walk_finds_each_of_the_faults_that_there_were(source: str) -> None:
    assert faults(source)
