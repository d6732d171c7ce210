"""Routines of datasets: SQL functions and procedures.

A routine is stored as the statement that created it, in the definition of its dataset.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from sqlglot import exp
from sqlglot.errors import TokenError

from lode.format.ids import shortened
from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.jobs.sql.information import as_table, datasets
from lode.ingest.jobs.sql.names import is_procedure
from lode.ingest.status import Code, Refused
from lode.sql.dialect import ScriptSql
from lode.sql.errors import QueryError, UnsupportedError
from lode.sql.parser import parse, parse_expression

if TYPE_CHECKING:
    import pyarrow as pa

    from lode.ingest.catalog.catalog import Catalog
    from lode.ingest.catalog.dataset import DatasetDefinition
    from lode.ingest.jobs.sql.names import CatalogTables

MAX_ROUTINES: Final = 1000
MAX_ROUTINE_CHARS: Final = 64 << 10
MODES: Final = ("IN", "OUT", "INOUT")


class Token(NamedTuple):
    """A word or a sign of a script."""

    text: str
    upper: str
    start: int
    end: int
    quoted: bool


class Argument(NamedTuple):
    """An argument of a routine. ``kind`` is None for ANY TYPE."""

    name: str
    kind: exp.DataType | None
    mode: str = "IN"


class Routine(NamedTuple):
    """A statement that creates a routine. The body of a function is an expression, of a procedure a block."""

    parts: tuple[str, ...]
    arguments: tuple[Argument, ...]
    body: str
    returns: exp.DataType | None = None
    exists: bool = False
    replace: bool = False


def tokens(text: str) -> list[Token]:
    """The words and signs of a script."""
    try:
        found = ScriptSql().tokenize(text)
    except TokenError:
        raise QueryError("Syntax error: Unclosed string literal at [1:1]") from None
    return [
        Token(
            each.text,
            each.text.upper(),
            each.start,
            each.end + 1,
            text[each.start] in "'\"`" or each.text == "",
        )
        for each in found
    ]


def check_function(tree: exp.Create) -> None:
    """Refuse a function that is no SQL expression."""
    properties = list((tree.args.get("properties") or exp.Properties()).expressions)
    if any(isinstance(each, exp.LanguageProperty) for each in properties):
        raise UnsupportedError("CREATE FUNCTION … LANGUAGE")
    if tree.expression is None or isinstance(tree.expression, exp.Literal | exp.RawString | exp.Heredoc):
        raise UnsupportedError("CREATE FUNCTION without an SQL expression")
    if isinstance(tree.expression, exp.Query) and not isinstance(tree.expression, exp.Subquery):
        raise UnsupportedError("CREATE TABLE FUNCTION")
    if any(isinstance(each, exp.ReturnsProperty) and each.args.get("is_table") for each in properties):
        raise UnsupportedError("CREATE TABLE FUNCTION")


def read_routine(text: str) -> Routine:
    """Read a statement that creates a routine, or raise ``QueryError``."""
    if is_procedure(text):
        return _Procedure(text).read()
    trees = parse(text)
    tree: Any = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Create) or tree.args.get("kind") != "FUNCTION":
        raise QueryError("A routine must be one CREATE FUNCTION or CREATE PROCEDURE statement.")
    check_function(tree)
    returns = next(
        (
            each.this
            for each in (tree.args.get("properties") or exp.Properties()).find_all(exp.ReturnsProperty)
        ),
        None,
    )
    body = tree.expression.unnest() if isinstance(tree.expression, exp.Paren) else tree.expression
    return Routine(
        tuple(name_parts(tree.this.this)),
        tuple(Argument(each.name, _kind(each.args.get("kind"))) for each in tree.this.expressions),
        body.sql("bigquery"),
        _kind(returns),
        bool(tree.args.get("exists")),
        bool(tree.args.get("replace")),
    )


def _kind(kind: Any) -> exp.DataType | None:
    # ANY TYPE is a VARIANT.
    untyped = not isinstance(kind, exp.DataType) or kind.this in (exp.DType.USERDEFINED, exp.DType.VARIANT)
    return None if untyped else kind


def name_parts(node: exp.Expression) -> list[str]:
    """The parts of the name of a routine."""
    if isinstance(node, exp.Table):
        given = [part.name for part in node.parts]
    elif isinstance(node, exp.Dot):
        given = [*name_parts(node.this), node.expression.name]
    else:
        given = [node.name]
    return [piece for part in given for piece in part.split(".")]


class _Procedure:
    """Reads CREATE PROCEDURE, which the parser does not know."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._at = 0

    def read(self) -> Routine:
        self._expect("CREATE")
        replace = self._take("OR", "REPLACE")
        self._expect("PROCEDURE")
        exists = self._take("IF", "NOT", "EXISTS")
        parts = [self._name()]
        while self._take("."):
            parts.append(self._name())
        arguments = tuple(map(self._argument, self._list()))
        if self._take("OPTIONS"):
            self._list()
        for word in ("EXTERNAL", "WITH", "LANGUAGE"):
            if self._take(word):
                raise UnsupportedError(f"CREATE PROCEDURE … {word}")
        if not arguments_differ(arguments):
            raise QueryError("Two arguments of a procedure have the same name.")
        start = self._tokens[self._at].start if self._at < len(self._tokens) else len(self._text)
        self._expect("BEGIN")
        end = self._tokens[-1]
        if end.upper == ";":
            end = self._tokens[-2]
        if end.upper != "END" or end.quoted:
            raise QueryError("Syntax error: the body of a procedure must be BEGIN … END")
        names = tuple(piece for part in parts for piece in part.split("."))
        return Routine(names, arguments, self._text[start : end.end], exists=exists, replace=replace)

    def _argument(self, found: list[Token]) -> Argument:
        mode = "IN"
        if len(found) > 2 and found[0].upper in MODES and not found[0].quoted:
            mode, found = found[0].upper, found[1:]
        if len(found) < 2:
            raise QueryError("Syntax error: an argument of a procedure needs a name and a type")
        name = found[0].text
        shown = self._text[found[1].start : found[-1].end]
        if shown.upper().split() == ["ANY", "TYPE"]:
            return Argument(name, None, mode)
        tree: Any = parse_expression(f"CAST(NULL AS {shown})")
        if type(tree) is not exp.Cast:
            raise QueryError(f"Syntax error: {shown[:60]} is no type")
        return Argument(name, tree.to, mode)

    def _list(self) -> list[list[Token]]:
        """The parts between the next parentheses, which commas separate."""
        self._expect("(")
        found: list[list[Token]] = [[]]
        depth = 0
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token.upper == ")" and not depth:
                return [part for part in found if part]
            depth += (token.upper in ("(", "<")) - (token.upper in (")", ">")) - 2 * (token.upper == ">>")
            if token.upper == "," and not depth:
                found.append([])
            else:
                found[-1].append(token)
        raise QueryError('Syntax error: Expected ")" but got end of script')

    def _name(self) -> str:
        if self._at >= len(self._tokens):
            raise QueryError("Syntax error: the name of a procedure is missing")
        self._at += 1
        return self._tokens[self._at - 1].text

    def _take(self, *words: str) -> bool:
        found = [each.upper for each in self._tokens[self._at : self._at + len(words)] if not each.quoted]
        if found != list(words):
            return False
        self._at += len(words)
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            found = self._tokens[self._at].text if self._at < len(self._tokens) else "end of script"
            raise QueryError(f"Syntax error: Expected {word} but got {found[:60]}")


def arguments_differ(arguments: tuple[Argument, ...]) -> bool:
    return len({each.name.lower() for each in arguments}) == len(arguments)


# -- in the catalog -----------------------------------------------------------------------------------------


def place(names: CatalogTables, parts: tuple[str, ...]) -> tuple[DatasetName, str]:
    """The dataset and the name of a routine."""
    *path, name = parts
    if not path and names.dataset is None:
        raise QueryError(f'Routine name "{name}" missing dataset while no default dataset is set')
    dataset = path[-1] if path else str(names.dataset)
    return DatasetName(path[0] if len(path) > 1 else names.project, dataset), name


def etag_of(text: str, info: dict[str, Any]) -> str:
    """The etag of a routine. One of an older server has none of its own."""
    return str(info.get("etag") or hashlib.sha256(text.encode()).hexdigest()[:16])


def store(
    catalog: Catalog,
    dataset: DatasetName,
    name: str,
    text: str,
    *,
    exists: bool = False,
    replace: bool = False,
    info: dict[str, Any] | None = None,
    etag: str | None = None,
    dry: bool = False,
) -> str:
    """Store a routine; returns what was done: CREATE, REPLACE or SKIP.

    Args:
        catalog: The datasets.
        dataset: Its dataset.
        name: Its name.
        text: The statement that creates it.
        exists: Leave one that exists as it is.
        replace: Replace one that exists.
        info: Its other properties in the REST API.
        etag: The etag of the one to be replaced, if it must not have changed.
        dry: Only check it.
    """
    if len(text) > MAX_ROUTINE_CHARS:
        raise QueryError(f"Routine {name} has more than {MAX_ROUTINE_CHARS:,} characters")
    key = name.lower()
    done = "CREATE"

    def change(current: DatasetDefinition) -> DatasetDefinition:
        nonlocal done
        done = "CREATE" if key not in current.routines else "SKIP" if exists else "REPLACE"
        if done == "SKIP":
            return current
        if done == "REPLACE" and not replace:
            raise QueryError(
                f"Already Exists: Routine {dataset.project}:{dataset.dataset}.{name}",
                reason="duplicate",
                location="",
            )
        if len(current.routines) >= MAX_ROUTINES and done == "CREATE":
            raise QueryError(f"Dataset {dataset.dataset} has {MAX_ROUTINES:,} routines: drop some")
        now = str(time.time_ns() // 1_000_000)
        before = current.routine_info.get(key, {})
        if etag is not None and etag != etag_of(current.routines.get(key, ""), before):
            raise Refused(
                Code.FAILED_PRECONDITION,
                f"Precondition check failed: the etag of routine {name} is not {shortened(etag)}. "
                "Get it again, then change it.",
            )
        made = {
            **(info or {}),
            "id": name,
            "creationTime": before.get("creationTime", now),
            "lastModifiedTime": now,
            "etag": secrets.token_hex(8),
        }
        return msgspec.structs.replace(
            current,
            routines={**current.routines, key: text},
            routine_info={**current.routine_info, key: made},
        )

    if dry:
        change(catalog.dataset(dataset))
    else:
        catalog.update_dataset(dataset, change)
    return done


def remove(
    catalog: Catalog, dataset: DatasetName, name: str, *, exists: bool = False, dry: bool = False
) -> str:
    """Remove a routine; returns what was done: DROP, or SKIP if there is none and ``exists`` allows that."""
    key = name.lower()
    done = "DROP"

    def change(current: DatasetDefinition) -> DatasetDefinition:
        nonlocal done
        done = "DROP"
        if key not in current.routines:
            if not exists:
                raise QueryError(
                    f"Not found: Routine {dataset.project}:{dataset.dataset}.{name} was not found",
                    reason="notFound",
                    location="",
                )
            done = "SKIP"
        return msgspec.structs.replace(
            current,
            routines={own: text for own, text in current.routines.items() if own != key},
            routine_info={own: each for own, each in current.routine_info.items() if own != key},
        )

    if dry:
        change(catalog.dataset(dataset))
    else:
        catalog.update_dataset(dataset, change)
    return done


_COLUMNS: Final = dict.fromkeys(
    [
        *("specific_catalog", "specific_schema", "specific_name"),
        *("routine_catalog", "routine_schema", "routine_name"),
        *("routine_type", "data_type", "routine_body", "routine_definition"),
    ],
    "text",
)


def routine_rows(catalog: Catalog, project: str, dataset: str | None) -> pa.Table:
    """INFORMATION_SCHEMA.ROUTINES."""
    names = [dataset] if dataset else [each.name.dataset for each in datasets(catalog, project)]
    found = []
    for each in names:
        for text in catalog.dataset(DatasetName(project, each)).routines.values():
            made = read_routine(text)
            name = (project, each, made.parts[-1])
            kind = "PROCEDURE" if is_procedure(text) else "FUNCTION"
            returns = made.returns.sql("bigquery") if made.returns is not None else None
            found.append((*name, *name, kind, returns, "SQL", made.body))
    return as_table(_COLUMNS, found)
