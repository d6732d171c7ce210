"""The statements of a query, and what is wrong with its syntax in the words of BigQuery."""

from __future__ import annotations

import re
from typing import Any, Final

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from lode.format.ids import shortened
from lode.sql.dialect import LakeSql
from lode.sql.errors import QueryError, UnsupportedError

MAX_QUERY_CHARS: Final = 1 << 20
# As the service has it.
MAX_COLUMNS: Final = 10_000
MAX_DEPTH: Final = 200
_END: Final = "Syntax error: Unexpected end of script at [1:1]"


def parse(query: str) -> list[exp.Expression]:
    """The statements of a query."""
    if len(query) > MAX_QUERY_CHARS:
        raise QueryError(
            f"The query is too large: {len(query):,} characters, the most is {MAX_QUERY_CHARS:,}."
        )
    try:
        made: list[Any] = [each for each in LakeSql().parse(query) if each is not None]
    except TokenError as error:
        raise QueryError(_token_message(query, error)) from None
    except ParseError as error:
        raise QueryError(_parse_message(query, error)) from None
    except RecursionError:
        raise QueryError("The query is nested too deep: write it with fewer levels.") from None
    except (AttributeError, TypeError, ValueError, IndexError, KeyError):
        # Of the parser, which does not expect some ends of a statement.
        raise QueryError(_END) from None
    for each in made:
        _check_tree(each)
    return made


def parse_one(query: str) -> exp.Expression:
    """The only statement of a text."""
    trees = parse(query)
    if not trees:
        raise QueryError(_END)
    if len(trees) > 1:
        raise QueryError("Syntax error: Expected end of input after one statement")
    return trees[0]


def parse_list(text: str) -> list[exp.Expression]:
    """Expressions that commas separate."""
    tree = parse_one(f"SELECT {text}")
    given = [name for name, value in tree.args.items() if value]
    if not isinstance(tree, exp.Select) or given not in ([], ["expressions"]):
        raise QueryError(f"Syntax error: Expected an expression but got {shortened(text.strip(), 60)}")
    if not tree.expressions:
        raise QueryError(_END)
    return list(tree.expressions)


def parse_expression(text: str) -> exp.Expression:
    """One expression, such as the default of a column."""
    found = parse_list(text)
    if len(found) > 1:
        raise QueryError(f"Syntax error: Expected one expression but got {shortened(text.strip(), 60)}")
    return found[0]


def view_query(text: str) -> exp.Expression:
    """The query of a view, as its definition has it."""
    tree = parse_one(text)
    if not isinstance(tree, exp.Query):
        raise QueryError("The definition of a view is not a query: create the view again.")
    return tree


def _check_tree(tree: exp.Expression) -> None:
    """Refuse a tree that is too large, or with a part that DuckDB would compute in another way."""
    level = [tree]
    for _ in range(MAX_DEPTH * 3):
        for node in level:
            if isinstance(node, exp.TableSample):
                raise UnsupportedError("TABLESAMPLE")
            if isinstance(node, exp.Select) and len(node.expressions) > MAX_COLUMNS:
                raise QueryError(
                    f"Too many columns: a SELECT has {len(node.expressions):,}, the most is {MAX_COLUMNS:,}."
                )
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return
    raise QueryError("The query is nested too deep: write it with fewer levels.")


def _token_message(query: str, error: Exception) -> str:
    at = re.search(r"(\d+):(\d+)", str(error))
    where = f"[{at[1]}:{at[2]}]" if at else "[1:1]"
    if (
        re.search(r"Missing\s+['\"`]|string|quot", str(error.__cause__ or error))
        or query.count("'") % 2
        or query.count('"') % 2
    ):
        return f"Syntax error: Unclosed string literal at {where}"
    return f"Syntax error: Illegal input at {where}"


def _parse_message(query: str, error: ParseError) -> str:
    found = error.errors[0] if error.errors else {}
    line, column = found.get("line") or 1, found.get("col") or 1
    token = str(found.get("highlight") or "")
    column = max(1, column - len(token) + 1)
    where = f" at [{line}:{column}]"
    first = re.match(r"\s*(?:--[^\n]*\n\s*)*([A-Za-z_]\w*)", query)
    if first is not None and first[1].upper() not in _STATEMENTS:
        line = 1 + query[: first.start(1)].count("\n")
        return f'Syntax error: Unexpected identifier "{first[1]}" at [{line}:1]'
    before = str(found.get("start_context") or "").split()
    if "Expecting )" in str(error):
        keyword = token.upper() if token.upper() in _KEYWORDS else before[-1].upper() if before else ""
        if keyword in _KEYWORDS:
            return f'Syntax error: Expected "," but got keyword {keyword}{where}'
        return f'Syntax error: Expected ")" but got {_described(token)}{where}'
    if not token:
        return f"Syntax error: Unexpected end of script{where}"
    return f"Syntax error: Unexpected {_described(token)}{where}"


_STATEMENTS: Final = frozenset(
    [
        "SELECT",
        "WITH",
        "FROM",
        "INSERT",
        "UPDATE",
        "DELETE",
        "MERGE",
        "CREATE",
        "DROP",
        "ALTER",
        "TRUNCATE",
        "DECLARE",
        "SET",
        "BEGIN",
        "IF",
        "WHILE",
        "LOOP",
        "FOR",
        "REPEAT",
        "CASE",
        "CALL",
        "EXECUTE",
        "EXPORT",
        "LOAD",
        "ASSERT",
        "RAISE",
        "RETURN",
        "BREAK",
        "LEAVE",
        "CONTINUE",
        "ITERATE",
        "COMMIT",
        "ROLLBACK",
        "GRANT",
        "REVOKE",
        "EXPLAIN",
    ]
)
_KEYWORDS: Final = frozenset(
    [
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "ORDER",
        "BY",
        "HAVING",
        "LIMIT",
        "AS",
        "ON",
        "JOIN",
        "AND",
        "OR",
        "NOT",
        "IN",
        "UNION",
        "ALL",
        "WITH",
        "END",
    ]
)


def _described(token: str) -> str:
    if token.upper() in _KEYWORDS:
        return f"keyword {token.upper()}"
    if re.fullmatch(r"[A-Za-z_]\w*", token):
        return f'identifier "{token}"'
    if token.isdigit():
        return f'integer literal "{token}"'
    return f'"{token}"'
