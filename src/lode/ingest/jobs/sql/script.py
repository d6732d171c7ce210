"""Scripts: several statements, variables and control flow.

The text is cut into statements by its tokens, since the parser knows no blocks. Variables are temporary
tables with one row, which a statement reads in place of a column that no table has.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from lode.ingest.jobs.sql import routines
from lode.ingest.jobs.sql.blocks import CLOSED, Blocks, parameter
from lode.ingest.jobs.sql.names import is_procedure
from lode.ingest.jobs.sql.outcome import Outcome
from lode.ingest.jobs.sql.routines import Routine, read_routine
from lode.lazy import pa
from lode.sandbox.peer import Rows
from lode.sql.dialect import position
from lode.sql.errors import LimitError, QueryError, UnsupportedError
from lode.sql.parser import parse, parse_expression, parse_list, parse_one
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
# Rows of a statement that are kept in memory. The server keeps more of them on its disk.
MAX_KEPT_BYTES: Final = 8 << 20
# Statements that a script runs in all, with rounds of loops: some compute nothing and never wait.
MAX_STEPS: Final = 1_000_000
_UNSUPPORTED: Final = ("LOAD", "GRANT", "REVOKE", "COMMIT", "ROLLBACK")
_OWN: Final = (
    *("DECLARE", "SET", "CALL", "RAISE", "ASSERT", "EXECUTE"),
    *("BREAK", "LEAVE", "CONTINUE", "ITERATE", "RETURN"),
)


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
        self._steps: Iterator[int] = caller._steps if caller else itertools.count(1)
        self._parts = Blocks(text)
        # The values of @@row_count and the like.
        self._system: dict[str, exp.Expression] = {"row_count": exp.Null(), "error.message": exp.Null()}

    def run(self) -> Outcome:
        """Run all statements. The outcome is that of the last one with rows, or of the only one."""
        if self._parts.is_one_statement and self._parts.word(0) not in _BLOCKS:
            trees = parse(self._text)
            if not trees:
                raise QueryError("Syntax error: Unexpected end of script at [1:1]")
            self._bind(trees[0])
            if not self._dry and not isinstance(trees[0], exp.Query):
                self._session.host.note_alone()
            return self._session.run(trees[0], dry=self._dry)
        self._number_parameters()
        self._check()
        if self._dry:
            return Outcome("SCRIPT")
        self._all()
        last = self._outcomes[-1] if self._outcomes else Outcome("SCRIPT")
        return Outcome(
            "SCRIPT",
            None if last.ddl_operation else last.schema,
            last.batches,
            is_kept=last.is_kept,
            bytes=sum(each.bytes for each in self._outcomes),
            children=self._outcomes,
        )

    def _all(self) -> None:
        try:
            self._block(0, len(self._parts))
        except _Return:
            pass
        except (_Break, _Continue):
            raise QueryError("BREAK and CONTINUE need a loop around them") from None

    def _number_parameters(self) -> None:
        """Name positional parameters: each statement is bound by itself."""
        self._named |= {parameter(place): value for place, value in enumerate(self._positional)}

    def _check(self) -> None:
        """Refuse a script with a statement that cannot run, before any other has changed a table."""
        parts, stop = self._parts, len(self._parts)
        at = 0
        while at < stop:
            self._session.sql.check_time()
            word, following = parts.word(at), parts.word(at + 1)
            if word in (";", "ELSE", "LOOP", "REPEAT") or (
                word == "BEGIN" and not _is_transaction(following)
            ):
                at += 1
            elif word == "END":
                at += 2 if following in CLOSED else 1
            elif word == "EXCEPTION":
                at += 4  # EXCEPTION WHEN ERROR THEN
            elif word in ("IF", "ELSEIF", "CASE", "WHEN"):
                at = parts.required(at + 1, stop, "THEN") + 1
            elif word in ("WHILE", "FOR"):
                at = parts.required(at + 1, stop, "DO") + 1
            elif word == "UNTIL":
                at = parts.required(at + 1, stop, "END")
            elif word == "CREATE" and is_procedure(parts.source(at, min(at + 4, stop))):
                at = self._after_procedure(at, stop)
            else:
                end = parts.end_of(at, stop)
                self._check_statement(word, following, at, end)
                at = end

    def _check_statement(self, word: str, following: str, at: int, end: int) -> None:
        if following == ":":
            raise UnsupportedError("A label")
        if word in _UNSUPPORTED or word == "BEGIN":
            raise UnsupportedError(f"{word} TRANSACTION" if word in ("BEGIN", "COMMIT", "ROLLBACK") else word)
        if word not in _OWN:
            for tree in parse(self._parts.statement(at, end)):
                self._session.check(tree)

    # -- procedures ----------------------------------------------------------------------------

    def _after_procedure(self, at: int, stop: int) -> int:
        begin = self._parts.find(at, stop, "BEGIN")
        if begin is None:
            raise QueryError("Syntax error: the body of a procedure must be BEGIN … END")
        return self._parts.matching(begin, stop) + 1

    def _create_procedure(self, at: int, end: int) -> Outcome:
        text = self._parts.source(at, end)
        made = read_routine(text)
        dataset, name = routines.place(self._session.names, made.parts)
        done = routines.store(
            self._session.host.catalog,
            dataset,
            name,
            text,
            exists=made.exists,
            replace=made.replace,
        )
        return Outcome("CREATE_PROCEDURE", ddl_operation=done)

    def _call(self, at: int, end: int) -> None:
        """CALL a procedure: its arguments are variables of its own."""
        calls: Any = parse_list(self._parts.source(at + 1, end))
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
        self._check()
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
            if self._parts.word(at) == ";":
                at += 1
                continue
            at = self._statement(at, stop)

    def _statement(self, at: int, stop: int) -> int:
        """Run the statement at a token; returns the token after it."""
        word = self._parts.word(at)
        self._step()
        if word == "BEGIN":
            return self._begin(at, stop)
        if word in ("IF", "CASE"):
            return self._choose(word, at, stop)
        if word in ("WHILE", "LOOP", "REPEAT", "FOR"):
            return self._loop(word, at, stop)
        if word == "CREATE" and is_procedure(self._parts.source(at, min(at + 4, stop))):
            end = self._after_procedure(at, stop)
            self._outcomes.append(self._create_procedure(at, end))
            return end
        end = self._parts.end_of(at, stop)
        match word:
            case "BREAK" | "LEAVE":
                raise _Break
            case "CONTINUE" | "ITERATE":
                raise _Continue
            case "RETURN":
                raise _Return
            case "DECLARE":
                self._declare(at, end)
            case "SET":
                self._set(at, end)
            case "CALL":
                self._call(at, end)
            case "RAISE":
                self._raise(at, end)
            case "ASSERT":
                self._assert(at, end)
            case "EXECUTE":
                self._execute(at, end)
            case _:
                for tree in parse(self._parts.statement(at, end)):
                    self._bind(tree)
                    self._run(self._with_variables(tree))
        return end

    def _step(self) -> None:
        """End a script that is cancelled or late, also between two queries."""
        self._session.sql.check_time()
        if next(self._steps) > MAX_STEPS:
            raise LimitError(f"The script has run more than {MAX_STEPS:,} statements and rounds of loops")

    def _run(self, tree: exp.Expression) -> None:
        if len(self._outcomes) >= MAX_STATEMENTS:
            raise LimitError(f"The script has run more than {MAX_STATEMENTS:,} statements", reason="invalid")
        outcome = self._kept(self._session.run(tree))
        self._outcomes.append(outcome)
        if outcome.is_dml:
            self._system["row_count"] = exp.Literal.number(outcome.affected)

    def _execute(self, at: int, end: int) -> None:
        """EXECUTE IMMEDIATE: one statement that is the value of an expression. It sees no variables."""
        parts = self._parts
        if parts.word(at + 1) != "IMMEDIATE":
            raise QueryError("Syntax error: Expected keyword IMMEDIATE")
        into, using = parts.clause(at, end, "INTO"), parts.clause(at, end, "USING")
        stop = min(each for each in (into, using, end) if each is not None)
        text = self._value(parts.source(at + 2, stop))
        trees = parse(text) if isinstance(text, str) else []
        if len(trees) != 1:
            raise QueryError("EXECUTE IMMEDIATE needs the text of one statement")
        self._session.check(trees[0])
        named: dict[str, exp.Expression] = {}
        positional: list[exp.Expression] = []
        given = parse_list(parts.source(using + 1, end)) if using is not None else []
        for number, each in enumerate(given):
            query = exp.select(exp.alias_(each.unalias().copy(), "v"))
            self._bind(query)
            self.assign(f"using${number}", query)
            value = exp.Subquery(this=self.value_of(f"using${number}"))
            if each.alias:
                named[each.alias.lower()] = value
            else:
                positional.append(value)
        bind_parameters(trees[0], named, positional)
        if into is None:
            self._run(trees[0])
        else:
            targets = parts.source(into + 1, end if using is None else using)
            self._into([each.name for each in parse_list(targets)], trees[0])
        for number in range(len(given)):
            self._session.sql.forget(self._variables.pop(f"using${number}"))

    def _into(self, names: list[str], query: exp.Expression) -> None:
        """Give variables the values of the only row of a query, or NULL without one."""
        for name in names:
            if name.lower() not in self._variables:
                raise QueryError(f"Undeclared variable: {name}")
        if not isinstance(query, exp.Query):
            raise QueryError("EXECUTE IMMEDIATE … INTO needs a query")
        result = self._session.sql.run(query)
        rows = pa.Table.from_batches(list(result.batches), result.schema)
        if rows.num_rows > 1:
            raise QueryError("EXECUTE IMMEDIATE … INTO needs a query of at most one row")
        if rows.num_columns != len(names):
            raise QueryError(
                f"EXECUTE IMMEDIATE … INTO has {len(names)} variables, "
                f"the query has {rows.num_columns} columns"
            )
        for number, name in enumerate(names):
            self._session.names.temporary["for$row"] = rows.select([number]).rename_columns(["v"])
            self.assign(name.lower(), parse("SELECT v FROM `for$row`")[0])

    def _kept(self, outcome: Outcome) -> Outcome:
        """Compute the rows now: a later statement may change what they are read from.

        Only those of the last statement are kept, and many of them by the server, on its disk.
        """
        for each in self._outcomes:
            each.batches = None if each.batches is None else iter(())
            each.is_kept = False
        if outcome.batches is None or outcome.schema is None:
            return outcome
        first: list[pa.RecordBatch] = []
        size = 0
        for batch in outcome.batches:
            first.append(batch)
            size += batch.nbytes
            if size > MAX_KEPT_BYTES:
                self._session.host.keep(Rows(outcome.schema, itertools.chain(first, outcome.batches)))
                outcome.batches, outcome.is_kept = iter(()), True
                return outcome
        outcome.batches = iter(first)
        return outcome

    def _begin(self, at: int, stop: int) -> int:
        end = self._parts.matching(at, stop)
        names = dict(self._variables)
        handler = self._parts.find(at + 1, end, "EXCEPTION")
        body = end if handler is None else handler
        try:
            self._block(at + 1, body)
        except QueryError as error:
            # A script may not go on after its end.
            is_final = isinstance(error, LimitError) or error.reason in ("stopped", "backendError")
            if handler is None or is_final:
                raise
            self._system["error.message"] = exp.Literal.string(str(error))
            # EXCEPTION WHEN ERROR THEN
            self._block(handler + 4, end)
        finally:
            self._variables = {name: self._variables[name] for name in names}
        return end + 1

    def _choose(self, word: str, at: int, stop: int) -> int:
        """IF and CASE: run the first block whose condition is true."""
        parts = self._parts
        end = parts.matching(at, stop)
        marks = parts.marks(at + 1, end, "WHEN" if word == "CASE" else "ELSEIF", "ELSE")
        if word == "IF":
            marks = [at, *marks]
        elif not marks:
            raise QueryError("Syntax error: Expected keyword WHEN")
        subject = parts.source(at + 1, marks[0]) if word == "CASE" else ""
        for mark, following in itertools.pairwise([*marks, end]):
            begin = mark + 1
            if parts.word(mark) != "ELSE":
                then = parts.required(begin, following, "THEN")
                condition = parts.source(begin, then)
                begin = then + 1
                if self._value(f"({subject}) = ({condition})" if subject else condition) is not True:
                    continue
            self._block(begin, following)
            break
        return end + 2  # END IF

    def _loop(self, word: str, at: int, stop: int) -> int:
        end = self._parts.matching(at, stop)
        begin = at + 1
        if word in ("WHILE", "FOR"):
            begin = self._parts.required(at + 1, end, "DO") + 1
        until = self._parts.find(begin, end, "UNTIL") if word == "REPEAT" else None
        for _ in self._rounds(word, at, begin):
            self._step()
            try:
                self._block(begin, until if until is not None else end)
            except _Break:
                break
            except _Continue:
                pass
            if until is not None and self._value(self._parts.source(until + 1, end)) is True:
                break
        return end + 2  # END WHILE

    def _rounds(self, word: str, at: int, begin: int) -> Iterator[None]:
        if word == "FOR":
            name = self._parts.name(at + 1)
            listed = self._parts.source(at + 3, begin - 1).strip()
            query = parse_one(listed.removeprefix("(").removesuffix(")"))
            if not isinstance(query, exp.Query):
                raise QueryError("Syntax error: FOR … IN needs a query")
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
            if word == "WHILE" and self._value(self._parts.source(at + 1, begin - 1)) is not True:
                return
            yield
        raise QueryError(f"A loop of the script has run more than {MAX_STATEMENTS:,} times", reason="invalid")

    def _value(self, text: str) -> Any:
        """The value of an expression."""
        query = exp.select(parse_expression(text), copy=False)
        self._bind(query)
        _, value = self._session.sql.value(self._with_variables(query).expressions[0])
        return value

    def _raise(self, at: int, end: int) -> None:
        message = self._parts.find(at, end, "MESSAGE")
        if message is None:
            raise QueryError("Unhandled exception in the script")
        raise QueryError(str(self._value(self._parts.source(message + 2, end))))

    def _assert(self, at: int, end: int) -> None:
        word = self._parts.find(at + 1, end, "AS")
        if self._value(self._parts.source(at + 1, end if word is None else word)) is not True:
            text = self._parts.name(word + 1) if word is not None and word + 1 < end else "Assertion failed"
            raise QueryError(text)

    # -- variables -----------------------------------------------------------------------------

    def _declare(self, at: int, end: int) -> None:
        tree = parse_one(self._parts.source(at, end))
        if not isinstance(tree, exp.Declare):
            raise QueryError("Syntax error: a DECLARE needs names, and a type or a default")
        for item in tree.expressions:
            kind, default = item.args.get("kind"), item.args.get("default")
            value: exp.Expression = default.copy() if isinstance(default, exp.Expression) else exp.Null()
            if kind is not None:
                value = exp.Cast(this=value, to=kind.copy())
            query = exp.select(exp.alias_(value, "v"))
            self._bind(query)
            for name in item.this if isinstance(item.this, list) else [item.this]:
                self._variables.pop(name.name.lower(), None)
                self.assign(name.name.lower(), query)

    def _set(self, at: int, end: int) -> None:
        tree = parse_one(self._parts.source(at, end))
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


def _is_transaction(following: str) -> bool:
    """Whether BEGIN begins a transaction and not a block, by the word after it."""
    return following in ("TRANSACTION", ";", "")
