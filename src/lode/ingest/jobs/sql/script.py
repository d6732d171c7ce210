"""Scripts: several statements, variables and control flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lode.ingest.jobs.sql.context import Outcome
from lode.sql.engine import parse
from lode.sql.errors import QueryError
from lode.sql.rewrite import bind_parameters

if TYPE_CHECKING:
    from sqlglot import exp

    from lode.ingest.jobs.sql.session import Session


class Script:
    def __init__(
        self,
        session: Session,
        text: str,
        named: dict[str, exp.Expression],
        positional: list[exp.Expression],
        *,
        dry: bool = False,
    ) -> None:
        self._session = session
        self._text = text
        self._named = named
        self._positional = positional
        self._dry = dry

    def run(self) -> Outcome:
        trees = parse(self._text)
        if not trees:
            raise QueryError("Syntax error: Unexpected end of script at [1:1]")
        outcomes = []
        for number, tree in enumerate(trees):
            bind_parameters(tree, self._named, self._positional)
            outcome = self._session.run(tree, dry=self._dry)
            if number < len(trees) - 1 and outcome.batches is not None:
                outcome.batches = iter(list(outcome.batches))
            outcomes.append(outcome)
        if len(outcomes) == 1:
            return outcomes[0]
        last = outcomes[-1]
        return Outcome(
            "SCRIPT",
            last.schema,
            last.batches,
            last.inserted,
            last.updated,
            last.deleted,
            last.is_dml,
            bytes=sum(each.bytes for each in outcomes),
            children=outcomes,
        )
