"""The two columns by which rows are changes: their names, their values, and how sequence numbers compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.ingest.types.columns import Column
from lode.lazy import pa, pc

if TYPE_CHECKING:
    from lode.ingest.types.row_errors import Origin

CHANGE_TYPE: Final = "_CHANGE_TYPE"
# Also the column of a dataset in which a row keeps the number of its last change.
CHANGE_SEQUENCE: Final = "_CHANGE_SEQUENCE_NUMBER"
CHANGE_COLUMNS: Final = (Column(CHANGE_TYPE, "STRING"), Column(CHANGE_SEQUENCE, "STRING"))
UPSERT: Final = "UPSERT"
DELETE: Final = "DELETE"
INSERT: Final = "INSERT"

_SECTIONS: Final = 4
_DIGITS: Final = 16
_PATTERN: Final = rf"^[0-9A-Fa-f]{{1,{_DIGITS}}}(/[0-9A-Fa-f]{{1,{_DIGITS}}}){{0,{_SECTIONS - 1}}}$"


def is_changes(batch: pa.RecordBatch) -> bool:
    """Whether the rows of a batch are changes."""
    return batch.schema.get_field_index(CHANGE_TYPE) >= 0


def comparable_sequences(sent: Any, origin: Origin) -> Any:
    """Sequence numbers as text of 64 hexadecimal digits, which compares as the numbers do.

    A number has up to four sections of up to 16 digits, such as ``18F2EBB6480/3C/0``. Sections are compared
    one after the other; a missing one is zero.
    """
    is_valid = pc.match_substring_regex(sent, _PATTERN)
    if not pc.all(is_valid, min_count=0).as_py():
        origin.report_where(
            pc.fill_null(pc.invert(is_valid), False),
            f"it must be up to {_SECTIONS} sections of up to {_DIGITS} hexadecimal digits, separated by '/'.",
        )
        sent = pc.if_else(is_valid, sent, None)
    missing = "/0" * (_SECTIONS - 1)
    padded = pc.binary_join_element_wise(pc.fill_null(sent, "0"), missing, "")
    sections = pc.list_slice(pc.split_pattern(padded, "/"), 0, _SECTIONS)
    digits = pc.utf8_lpad(pc.list_flatten(sections), _DIGITS, "0")
    offsets = pa.array(range(0, _SECTIONS * (len(sent) + 1), _SECTIONS), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, digits), "")
    return pc.if_else(pc.is_valid(sent), pc.utf8_upper(joined), None)
