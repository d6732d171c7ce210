"""The text of a script as tokens: where its statements and blocks begin and end."""

from __future__ import annotations

from typing import Final

from lode.ingest.jobs.sql.names import is_procedure
from lode.ingest.jobs.sql.routines import tokens
from lode.sql.errors import QueryError

# What follows END at the end of a block.
CLOSED: Final = ("IF", "WHILE", "LOOP", "REPEAT", "FOR", "CASE")
_OPENING: Final = ("BEGIN", "IF", "WHILE", "LOOP", "REPEAT", "FOR")
# Lines and columns of messages are exact up to here; behind it they are those of the statement.
_MAX_LINES: Final = 500
_BEFORE_STATEMENT: Final = (";", "BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT")


class Blocks:
    """A script. Its parts are named by the numbers of their first token and of the one after the last.

    Args:
        text: The script.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        marks = [number for number in range(len(self)) if self.word(number) == "?"]
        self._parameters = {number: parameter(place) for place, number in enumerate(marks)}

    def __len__(self) -> int:
        return len(self._tokens)

    def word(self, number: int) -> str:
        """A keyword or sign in upper case; empty for a quoted name and behind the end."""
        if number >= len(self._tokens) or self._tokens[number].quoted:
            return ""
        return self._tokens[number].upper

    def name(self, number: int) -> str:
        """A name as it is written, without quotes."""
        return self._tokens[number].text

    def source(self, at: int, end: int) -> str:
        """The text of a part. Positional parameters have names, by their place in the script."""
        if end <= at:
            return ""
        found = []
        start = self._tokens[at].start
        for number in range(at, end):
            if number in self._parameters:
                found += [self._text[start : self._tokens[number].start], f"@{self._parameters[number]}"]
                start = self._tokens[number].end
        return "".join([*found, self._text[start : self._tokens[end - 1].end]])

    def statement(self, at: int, end: int) -> str:
        """The text of a statement, at the line and column of the script, which messages name."""
        before = self._text[: self._tokens[at].start]
        lines, column = before.count("\n"), len(before) - before.rfind("\n") - 1
        is_near = lines < _MAX_LINES and column < _MAX_LINES
        return ("\n" * lines + " " * column if is_near else "") + self.source(at, end)

    @property
    def is_one_statement(self) -> bool:
        """Whether it is a query of one statement, and no script."""
        if self.word(1) == ":" or is_procedure(self._text):
            return False
        return all(self.word(number) == ";" for number in range(self.end_of(0, len(self)), len(self)))

    def end_of(self, at: int, stop: int) -> int:
        """The end of a statement without blocks."""
        found = self.clause(at, stop, ";")
        return stop if found is None else found

    def clause(self, at: int, stop: int, word: str) -> int | None:
        """A keyword of a statement itself, not between its parentheses."""
        depth = 0
        for number in range(at, stop):
            found = self.word(number)
            depth += (found == "(") - (found == ")")
            if found == word and depth <= 0:
                return number
        return None

    def matching(self, at: int, stop: int) -> int:
        """The END of a block that begins at a token."""
        depth = 0
        number = at
        while number < stop:
            if self._opens(number, at):
                depth += 1
            elif self.word(number) == "END":
                depth -= 1
                if not depth:
                    return number
                number += self.word(number + 1) in CLOSED
            number += 1
        raise QueryError("Syntax error: Unexpected end of script: a block has no END")

    def find(self, at: int, stop: int, *words: str) -> int | None:
        """The first of some keywords of a block itself, not of the blocks inside."""
        depth = 0
        number = at
        while number < stop:
            if not depth and self.word(number) in words:
                return number
            if self._opens(number, -1):
                depth += 1
            elif self.word(number) == "END":
                depth -= 1
                number += self.word(number + 1) in CLOSED
            number += 1
        return None

    def required(self, at: int, stop: int, word: str) -> int:
        """A keyword that the block must have."""
        found = self.find(at, stop, word)
        if found is None:
            raise QueryError(f"Syntax error: Expected keyword {word}")
        return found

    def marks(self, at: int, stop: int, *words: str) -> list[int]:
        """All places of keywords of a block, such as the ELSEIF and ELSE of an IF."""
        found = []
        mark = self.find(at, stop, *words)
        while mark is not None:
            found.append(mark)
            mark = self.find(mark + 1, stop, *words)
        return found

    def _opens(self, number: int, first: int) -> bool:
        word = self.word(number)
        if word == "CASE":
            return True
        if word not in _OPENING:
            return False
        return number == first or (not number or self.word(number - 1) in _BEFORE_STATEMENT)


def parameter(place: int) -> str:
    """The name of a positional parameter."""
    return f"_positional_{place}"
