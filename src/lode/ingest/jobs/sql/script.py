"""Scripts: several statements, variables and control flow.

The text is cut into statements by its tokens, since the parser knows no blocks. Variables are temporary
tables with one row, which a statement reads in place of a column that no table has.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from lode.ingest.jobs.sql import routines
from lode.ingest.jobs.sql.context import Outcome
from lode.ingest.jobs.sql.names import is_procedure
from lode.ingest.jobs.sql.routines import Routine, Token, read_routine, tokens
from lode.lazy import pa
from lode.sql.dialect import position
from lode.sql.errors import QueryError, UnsupportedError
from lode.sql.parser import parse
from lode.sql.rewrite import bind_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lode.ingest.jobs.sql.session import Session

MAX_STATEMENTS: Final = 10_000
_BLOCKS: Final = (
    "BEGIN",
    "IF",
    "WHILE",
    "LOOP",
    "REPEAT",
    "FOR",
    "DECLARE",
    "SET",
    "CALL",
    "RAISE",
    "BREAK",
    "LEAVE",
    "CASE",
    "ASSERT",
    "EXECUTE",
)
MAX_CALLS: Final = 50
_UNSUPPORTED: Final = {"EXECUTE", "LOAD", "GRANT", "REVOKE", "COMMIT", "ROLLBACK", "CASE"}


class _Break(Exception):  # noqa: N818, control flow of a script
    """BREAK or LEAVE."""


class _Continue(Exception):  # noqa: N818, control flow of a script
    """CONTINUE or ITERATE."""


class _Return(Exception):  # noqa: N818, control flow of a script
    """RETURN."""


class Script:
    """The statements of one query, in order.

    Args:
        session: Runs them.
        text: The query.
        named: Its named parameters.
        positional: Its other parameters.
        dry: Only check the statements.
        caller: The script that calls this one, which is the body of a procedure.
    """

    def __init__(
        self,
        session: Session,
        text: str,
        named: dict[str, exp.Expression],
        positional: list[exp.Expression],
        *,
        dry: bool = False,
        caller: Script | None = None,
    ) -> None:
        self._depth: int = caller._depth + 1 if caller else 0
        self._session = session
        self._text = text
        self._named = named
        self._positional = positional
        self._dry = dry
        self._variables: dict[str, str] = {}
        # Shared with procedures: all temporary tables of a session have different names.
        self._assigned: Iterator[int] = caller._assigned if caller else itertools.count()
        self._outcomes: list[Outcome] = caller._outcomes if caller else []
        self._tokens: list[Token] = []
        # The values of @@row_count and the like.
        self._system: dict[str, exp.Expression] = {"row_count": exp.Null(), "error.message": exp.Null()}

    def run(self) -> Outcome:
        """Run all statements. The outcome is that of the last one with rows, or of the only one."""
        first = _first_word(self._text)
        if first not in _BLOCKS and not is_procedure(self._text) and not _is_labelled(self._text):
            trees = parse(self._text)
            if not trees:
                raise QueryError("Syntax error: Unexpected end of script at [1:1]")
            if len(trees) == 1:
                self._bind(trees[0])
                return self._session.run(trees[0], dry=self._dry)
        self._tokens = tokens(self._text)
        if self._dry:
            return Outcome("SCRIPT")
        self._all()
        last = self._outcomes[-1] if self._outcomes else Outcome("SCRIPT")
        return Outcome(
            "SCRIPT",
            None if last.ddl_operation else last.schema,
            last.batches,
            bytes=sum(each.bytes for each in self._outcomes),
            children=self._outcomes,
        )

    def _all(self) -> None:
        try:
            self._block(0, len(self._tokens))
        except _Return:
            pass
        except (_Break, _Continue):
            raise QueryError("BREAK and CONTINUE need a loop around them") from None

    # -- procedures ----------------------------------------------------------------------------

    def _after_procedure(self, at: int, stop: int) -> int:
        begin = self._find(at, stop, "BEGIN")
        if begin is None:
            raise QueryError("Syntax error: the body of a procedure must be BEGIN … END")
        return self._matching(begin, stop) + 1

    def _create_procedure(self, at: int, end: int) -> Outcome:
        text = self._source(at, end)
        made = read_routine(text)
        dataset, name = routines.place(self._session.names, made.parts)
        done = routines.store(
            self._session.tables.catalog,
            dataset,
            name,
            text,
            exists=made.exists,
            replace=made.replace,
        )
        return Outcome("CREATE_PROCEDURE", ddl_operation=done)

    def _call(self, at: int, end: int) -> None:
        """CALL a procedure: its arguments are variables of its own."""
        calls: Any = parse(f"SELECT {self._source(at + 1, end)}")[0].expressions
        call = calls[0] if len(calls) == 1 else None
        inner = call.expression if isinstance(call, exp.Dot) else call
        if not isinstance(inner, exp.Anonymous):
            raise QueryError("Syntax error: CALL is written CALL dataset.procedure(arguments)")
        path = tuple(routines.name_parts(call.this)) if isinstance(call, exp.Dot) else ()
        parts = (*path, inner.name)
        if tuple(part.upper() for part in parts) == ("BQ", "REFRESH_MATERIALIZED_VIEW"):
            return  # a view is always computed anew
        text = self._session.names.routine(parts)
        if text is None or not is_procedure(text):
            raise QueryError(f"Procedure is not found: {'.'.join(parts)}", reason="notFound", location="")
        if self._depth >= MAX_CALLS:
            raise QueryError(f"Procedures call each other more than {MAX_CALLS} levels deep.")
        self._run_procedure(".".join(parts), read_routine(text), list(inner.expressions))

    def _run_procedure(self, name: str, made: Routine, given: list[exp.Expression]) -> None:
        if len(given) != len(made.arguments):
            raise QueryError(
                f"Number of arguments does not match for procedure {name}: it has {len(made.arguments)}, "
                f"{len(given)} were given"
            )
        body = Script(self._session, made.body, {}, [], caller=self)
        back: list[tuple[str, str]] = []
        for argument, value in zip(made.arguments, given, strict=True):
            own = argument.name.lower()
            if argument.mode != "IN":
                if not isinstance(value, exp.Column) or value.name.lower() not in self._variables:
                    raise QueryError(
                        f"The argument {argument.name} of procedure {name} is {argument.mode}: give the "
                        "name of a variable"
                    )
                back.append((value.name.lower(), own))
            start: exp.Expression = exp.Null() if argument.mode == "OUT" else value.copy()
            if argument.kind is not None:
                start = exp.Cast(this=start, to=argument.kind.copy())
            query = exp.select(exp.alias_(start, "v"))
            self._bind(query)
            body.assign(own, self._with_variables(query))
        body.run_body()
        for variable, own in back:
            self.assign(variable, body.value_of(own))
        body.forget()

    def run_body(self) -> None:
        """Run the statements as the body of a procedure."""
        self._tokens = tokens(self._text)
        self._all()

    def value_of(self, name: str) -> exp.Expression:
        """A query of the value of a variable."""
        table = exp.Table(this=exp.to_identifier(self._variables[name], quoted=True))
        return exp.select(exp.column("v")).from_(table)

    def forget(self) -> None:
        """Drop all variables."""
        for table in self._variables.values():
            self._session.sql.forget(table)
        self._variables = {}

    # -- control flow --------------------------------------------------------------------------

    def _block(self, start: int, stop: int) -> None:
        at = start
        while at < stop:
            if self._tokens[at].upper == ";":
                at += 1
                continue
            at = self._statement(at, stop)

    def _statement(self, at: int, stop: int) -> int:
        """Run the statement at a token; returns the token after it."""
        word = self._tokens[at].upper if not self._tokens[at].quoted else ""
        following = self._tokens[at + 1].upper if at + 1 < stop else ""
        if word == "BEGIN" and following not in ("TRANSACTION", ";"):
            return self._begin(at, stop)
        if word == "IF" and following != "EXISTS":
            return self._if(at, stop)
        if word in ("WHILE", "LOOP", "REPEAT", "FOR"):
            return self._loop(word, at, stop)
        if word == "CREATE" and is_procedure(self._source(at, min(at + 4, stop))):
            end = self._after_procedure(at, stop)
            self._outcomes.append(self._create_procedure(at, end))
            return end
        end = self._end_of(at, stop)
        if word in ("BREAK", "LEAVE"):
            raise _Break
        if word in ("CONTINUE", "ITERATE"):
            raise _Continue
        if word == "RETURN":
            raise _Return
        if word == "DECLARE":
            self._declare(at, end)
        elif word == "SET":
            self._set(at, end)
        elif word == "CALL":
            self._call(at, end)
        elif word == "RAISE":
            self._raise(at, end)
        elif word == "ASSERT":
            self._assert(at, end)
        elif following == ":":
            raise UnsupportedError("A label")
        elif word in _UNSUPPORTED or (word == "BEGIN" and following in ("TRANSACTION", ";")):
            raise UnsupportedError(word if word != "BEGIN" else "BEGIN TRANSACTION")
        else:
            self._plain(at, end)
        return end

    def _plain(self, at: int, end: int) -> None:
        for tree in parse(self._source(at, end)):
            self._bind(tree)
            if len(self._outcomes) >= MAX_STATEMENTS:
                raise QueryError(
                    f"The script has run more than {MAX_STATEMENTS:,} statements", reason="invalid"
                )
            outcome = self._kept(self._session.run(self._with_variables(tree)))
            self._outcomes.append(outcome)
            if outcome.is_dml:
                self._system["row_count"] = exp.Literal.number(outcome.affected)

    def _kept(self, outcome: Outcome) -> Outcome:
        """Compute the rows now: a later statement may change what they are read from."""
        for each in self._outcomes:
            each.batches = None if each.batches is None else iter(())
        if outcome.batches is not None:
            outcome.batches = iter(list(outcome.batches))
        return outcome

    def _begin(self, at: int, stop: int) -> int:
        end = self._matching(at, stop)
        names = dict(self._variables)
        handler = self._find(at + 1, end, "EXCEPTION")
        body = end if handler is None else handler
        try:
            self._block(at + 1, body)
        except QueryError as error:
            if handler is None:
                raise
            self._system["error.message"] = exp.Literal.string(str(error))
            # EXCEPTION WHEN ERROR THEN
            self._block(handler + 4, end)
        finally:
            self._variables = {name: self._variables[name] for name in names}
        return end + 1

    def _if(self, at: int, stop: int) -> int:
        end = self._matching(at, stop)
        marks = [at, *self._marks(at + 1, end), end]
        done = False
        for mark, following in itertools.pairwise(marks):
            if done:
                break
            word = self._tokens[mark].upper
            begin = mark + 1
            if word in ("IF", "ELSEIF"):
                then = self._find(mark + 1, following, "THEN")
                if then is None:
                    raise QueryError("Syntax error: Expected keyword THEN")
                if not self._is_true(mark + 1, then):
                    continue
                begin = then + 1
            self._block(begin, following)
            done = True
        return end + 2  # END IF

    def _loop(self, word: str, at: int, stop: int) -> int:
        end = self._matching(at, stop)
        begin = at + 1
        if word in ("WHILE", "FOR"):
            do = self._find(at + 1, end, "DO")
            if do is None:
                raise QueryError("Syntax error: Expected keyword DO")
            begin = do + 1
        until = self._find(begin, end, "UNTIL") if word == "REPEAT" else None
        for _ in self._rounds(word, at, begin):
            try:
                self._block(begin, until if until is not None else end)
            except _Break:
                break
            except _Continue:
                pass
            if until is not None and self._is_true(until + 1, end):
                break
        return end + 2  # END WHILE

    def _rounds(self, word: str, at: int, begin: int) -> Iterator[None]:
        if word == "FOR":
            name = self._tokens[at + 1].text
            query = parse(self._source(at + 3, begin - 1).strip().removeprefix("(").removesuffix(")"))[0]
            self._bind(query)
            result = self._session.sql.run(self._with_variables(query))
            rows = pa.Table.from_batches(list(result.batches), result.schema)
            for number in range(rows.num_rows):
                self._session.names.temporary["for$row"] = rows.slice(number, 1)
                row = parse("SELECT t AS v FROM `for$row` AS t")[0]
                self.assign(name.lower(), row)
                yield
            return
        for _ in range(MAX_STATEMENTS):
            if word == "WHILE" and not self._is_true(at + 1, begin - 1):
                return
            yield
        raise QueryError(f"A loop of the script has run more than {MAX_STATEMENTS:,} times", reason="invalid")

    def _is_true(self, at: int, end: int) -> bool:
        condition = parse(f"SELECT {self._source(at, end)}")[0].expressions[0]
        holder = exp.select(condition)
        self._bind(holder)
        _, value = self._session.sql.value(self._with_variables(holder).expressions[0])
        return value is True

    def _raise(self, at: int, end: int) -> None:
        message = self._find(at, end, "MESSAGE")
        if message is None:
            raise QueryError("Unhandled exception in the script")
        value = parse(f"SELECT {self._source(message + 2, end)}")[0]
        self._bind(value)
        _, text = self._session.sql.value(self._with_variables(value).expressions[0])
        raise QueryError(str(text))

    def _assert(self, at: int, end: int) -> None:
        word = self._find(at + 1, end, "AS")
        if not self._is_true(at + 1, end if word is None else word):
            text = self._tokens[word + 1].text if word is not None and word + 1 < end else "Assertion failed"
            raise QueryError(text)

    # -- variables -----------------------------------------------------------------------------

    def _declare(self, at: int, end: int) -> None:
        tree = parse(self._source(at, end))[0]
        if not isinstance(tree, exp.Declare):
            raise QueryError("Syntax error: a DECLARE needs names, and a type or a default")
        for item in tree.expressions:
            kind, default = item.args.get("kind"), item.args.get("default")
            value: exp.Expression = default.copy() if isinstance(default, exp.Expression) else exp.Null()
            if kind is not None:
                value = exp.Cast(this=value, to=kind.copy())
            for name in item.this if isinstance(item.this, list) else [item.this]:
                self._variables.pop(name.name.lower(), None)
                self.assign(name.name.lower(), exp.select(exp.alias_(value.copy(), "v")))

    def _set(self, at: int, end: int) -> None:
        tree = parse(self._source(at, end))[0]
        if not isinstance(tree, exp.Set):
            raise UnsupportedError("SET of this form")
        for item in tree.expressions:
            target, value = item.this.this, item.this.expression
            if isinstance(value, exp.Var):
                value = exp.column(value.name)  # the name of a variable
            names = (
                [each.name for each in target.expressions] if isinstance(target, exp.Tuple) else [target.name]
            )
            values = (
                list(value.expressions)
                if isinstance(target, exp.Tuple) and isinstance(value, exp.Tuple)
                else [value]
            )
            if len(names) != len(values):
                raise UnsupportedError("SET of several variables by one value")
            for name in names:
                if name.lower() not in self._variables:
                    raise QueryError(f"Undeclared variable: {name}{position(item)}")
            queries = [exp.select(exp.alias_(each.copy(), "v")) for each in values]
            for name, query in zip(names, queries, strict=True):
                self._bind(query)
                self.assign(name.lower(), query)

    def assign(self, name: str, query: exp.Expression) -> None:
        """Give a variable the value of a query."""
        table = f"variable${name}${next(self._assigned)}"
        before = self._variables.get(name)
        self._session.sql.keep(table, self._with_variables(query))
        self._variables[name] = table
        if before:
            self._session.sql.forget(before)

    def _bind(self, tree: exp.Expression) -> None:
        """Replace parameters and system variables by their values."""
        for node in [each for each in tree.find_all(exp.Parameter) if isinstance(each.this, exp.Parameter)]:
            parent = node.parent
            name = node.this.name.lower()
            whole: exp.Expression = node
            if isinstance(parent, exp.Dot) and parent.this is node:
                name, whole = f"{name}.{parent.expression.name.lower()}", parent
            if name not in self._system:
                raise UnsupportedError(f"@@{name}")
            whole.replace(self._system[name].copy())
        bind_parameters(tree, self._named, self._positional)

    def _with_variables(self, tree: exp.Expression) -> exp.Expression:
        """Replace names of variables that are no columns of a table around them."""
        if not self._variables:
            return tree
        tree = tree.copy()
        for node in list(tree.find_all(exp.Column)):
            name, rest = node.parts[0].name.lower(), node.parts[1:]
            table = self._variables.get(name)
            if not table or self._is_column(node, name):
                continue
            value: exp.Expression = exp.Subquery(
                this=exp.select(exp.column("v")).from_(exp.Table(this=exp.to_identifier(table, quoted=True)))
            )
            for part in rest:
                value = exp.Dot(this=value, expression=part.copy())
            if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
                value = exp.Alias(this=value, alias=exp.to_identifier(node.name, quoted=True))
            node.replace(value)
        return tree

    def _is_column(self, node: exp.Expression, name: str) -> bool:
        """Whether a table around a node has a column of this name."""
        select: Any = node.find_ancestor(exp.Select, exp.Update, exp.Delete, exp.Merge)
        while select is not None:
            if node.find_ancestor(exp.Set) is None:
                for table in select.find_all(exp.Table):
                    if self._has_column(table, name):
                        return True
                    if table.alias_or_name.lower() == name:
                        return True
                if any(each.alias.lower() == name for each in select.find_all(exp.Unnest) if each.alias):
                    return True
            select = select.parent.find_ancestor(exp.Select) if select.parent is not None else None
        return False

    def _has_column(self, table: exp.Table, name: str) -> bool:
        parts = tuple(part.name for part in table.parts)
        local = self._session.sql.local.get(parts[-1].lower()) if len(parts) == 1 else None
        try:
            schema = local[1] if local is not None else self._session.names.table(parts, None).schema
        except QueryError:
            return False
        return any(each.name.lower() == name for each in schema)

    # -- tokens --------------------------------------------------------------------------------

    def _source(self, at: int, end: int) -> str:
        return self._text[self._tokens[at].start : self._tokens[end - 1].end] if end > at else ""

    def _end_of(self, at: int, stop: int) -> int:
        depth = 0
        for number in range(at, stop):
            upper = self._tokens[number].upper
            depth += (upper == "(") - (upper == ")")
            if upper == ";" and depth <= 0:
                return number
        return stop

    def _matching(self, at: int, stop: int) -> int:
        """The END of a block that begins at a token."""
        depth = 0
        number = at
        while number < stop:
            if self._opens(number, at):
                depth += 1
            elif self._tokens[number].upper == "END" and not self._tokens[number].quoted:
                depth -= 1
                if not depth:
                    return number
                following = self._tokens[number + 1].upper if number + 1 < stop else ""
                if following in ("IF", "WHILE", "LOOP", "REPEAT", "FOR", "CASE"):
                    number += 1
            number += 1
        raise QueryError("Syntax error: Unexpected end of script: a block has no END")

    def _opens(self, number: int, first: int) -> bool:
        token = self._tokens[number]
        if token.quoted:
            return False
        if token.upper == "CASE":
            return True
        if token.upper not in ("BEGIN", "IF", "WHILE", "LOOP", "REPEAT", "FOR"):
            return False
        before = self._tokens[number - 1].upper if number else ";"
        following = self._tokens[number + 1].upper if number + 1 < len(self._tokens) else ""
        if (
            token.upper == "IF"
            and following in ("EXISTS", "NOT")
            and before in ("TABLE", "VIEW", "SCHEMA", "COLUMN")
        ):
            return False
        return number == first or before in (";", "BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT")

    def _find(self, at: int, stop: int, word: str) -> int | None:
        """A keyword of a block itself, not of the blocks inside."""
        depth = 0
        number = at
        while number < stop:
            token = self._tokens[number]
            if not depth and token.upper == word and not token.quoted:
                return number
            if self._opens(number, -1):
                depth += 1
            elif token.upper == "END" and not token.quoted:
                depth -= 1
                following = self._tokens[number + 1].upper if number + 1 < stop else ""
                if following in ("IF", "WHILE", "LOOP", "REPEAT", "FOR", "CASE"):
                    number += 1
            number += 1
        return None

    def _marks(self, at: int, stop: int) -> list[int]:
        """The ELSEIF and ELSE of an IF."""
        found = []
        number = at
        while number < stop:
            marks = [
                place
                for place in (self._find(number, stop, "ELSEIF"), self._find(number, stop, "ELSE"))
                if place is not None
            ]
            if not marks:
                break
            found.append(min(marks))
            number = min(marks) + 1
        return found


def _first_word(text: str) -> str:
    found = tokens(text)
    return found[0].upper if found else ""


def _is_labelled(text: str) -> bool:
    """Whether a script begins with a label."""
    found = tokens(text)
    return len(found) > 1 and found[1].upper == ":"
