"""Row restrictions: filters as clients of the Read API write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lode.errors import InvalidOptionError
from lode.filter import Filter, parse_filter
from lode.ingest.status import invalid

if TYPE_CHECKING:
    from lode.ingest.types.columns import TableSchema


# What must be true of a row, with the columns, by path, that it is about.
Restriction: TypeAlias = Filter


def parse_restriction(text: str, schema: TableSchema, now_micros: int | None = None) -> Restriction | None:
    """Read a restriction on a table's columns, or refuse it; None if it is empty.

    Args:
        text: The restriction.
        schema: The table's columns.
        now_micros: What CURRENT_TIMESTAMP() is, in microseconds since 1970; now if not given.
    """
    if not text.strip():
        return None
    try:
        return parse_filter(
            text, schema.arrow, name="row_restriction", double_quotes=False, now_micros=now_micros
        )
    except InvalidOptionError as error:
        raise invalid(f"{error}.") from None
