"""Load jobs of every format."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from support.bombs import avro, orc, parquet, text
from support.bombs.bomb import Bomb

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.bombs.bomb import Throw


def _sentence(make: Any) -> str:
    return str(make.__name__).replace("_", " ")


def _load(kind: str, **more: Any) -> Throw:
    return lambda served, data, seconds: served.load(data, kind, timeout=seconds, **more)


def _loads(family: str, kind: str, makes: tuple[Callable[[], bytes], ...], **more: Any) -> list[Bomb]:
    return [Bomb(family, _sentence(make), make, _load(kind, **more)) for make in makes]


_TEXT: Final = [{"name": "a", "type": "STRING"}]
_NUMBER: Final = [{"name": "a", "type": "INT64"}]
_NUMBERS: Final = [{"name": "a", "type": "INT64", "mode": "REPEATED"}]


def load_bombs() -> list[Bomb]:
    """Files of every format, with a schema and without."""
    found = _loads(
        "load Parquet",
        "PARQUET",
        (
            parquet.nulls_in_a_list,
            parquet.repeated_value,
            parquet.null_rows,
            parquet.claimed_page,
            parquet.shared_column,
            parquet.shared_groups,
            parquet.deep_schema,
            parquet.claimed_footer,
            parquet.claimed_schema,
        ),
    )
    found += [
        Bomb(
            "load Parquet", f"a page of 1 GiB in {name}", partial(parquet.large_page, codec), _load("PARQUET")
        )
        for name, codec in (("gzip", parquet.GZIP), ("zstd", parquet.ZSTD))
    ]
    found += _loads(
        "load Avro",
        "AVRO",
        (
            avro.array_of_empty_fixed,
            avro.array_of_nulls,
            avro.array_of_empty_records,
            avro.array_with_a_size,
            avro.array_of_empty_arrays,
            avro.map_of_nulls,
            avro.rows_of_nothing,
            avro.rows_without_fields,
            avro.millions_of_empty_blocks,
            avro.doubling_schema,
            avro.recursive_schema,
            avro.recursive_array,
            avro.deep_schema,
            avro.wide_schema,
            avro.wide_union,
            avro.wide_enum,
            avro.large_decimals,
            avro.claimed_text,
            avro.claimed_block,
            avro.claimed_meta,
            avro.deflated,
            avro.zstandard_block,
            avro.many_frames,
            avro.claimed_snappy,
            avro.full_block,
        ),
    )
    # The columns of these are not those of the table, and are read nevertheless.
    found += _loads(
        "load Avro, ignored",
        "AVRO",
        (
            avro.array_of_nulls,
            avro.array_of_empty_records,
            avro.array_with_a_size,
            avro.array_of_empty_arrays,
            avro.rows_of_nothing,
            avro.wide_union,
        ),
        fields=_NUMBER,
        ignoreUnknownValues=True,
    )
    found += _loads(
        "load ORC",
        "ORC",
        (
            orc.repeated_value,
            orc.constant_numbers,
            orc.nulls_in_lists,
            orc.many_columns,
            orc.deep_columns,
            orc.damaged_lengths,
        ),
    )
    csv = (
        text.equal_names,
        text.long_line,
        text.open_quote,
        text.many_quotes,
        text.many_columns,
        text.many_delimiters,
        text.line_breaks,
        text.short_rows,
        text.zeros,
        text.empty_members,
        text.long_cells,
        text.long_numbers,
    )
    found += _loads("load CSV, detected", "CSV", csv)
    found += _loads("load CSV with a schema", "CSV", csv, fields=_TEXT, allowQuotedNewlines=True)
    found += _loads(
        "load CSV with a schema", "CSV", (text.bad_rows,), fields=_NUMBER, maxBadRecords=2_000_000_000
    )
    json = (
        text.many_keys,
        text.equal_keys,
        text.deep_lists,
        text.deep_objects,
        text.many_deep_lines,
        text.long_number,
        text.large_exponent,
        text.long_text,
        text.many_items,
        text.many_empty_objects,
        text.packed_items,
        text.empty_rows,
        text.new_keys_on_every_line,
        text.blank_text,
        text.line_breaks,
        text.empty_members,
    )
    found += _loads("load JSON, detected", "NEWLINE_DELIMITED_JSON", json)
    found += _loads(
        "load JSON with a schema",
        "NEWLINE_DELIMITED_JSON",
        json,
        fields=_NUMBERS,
        ignoreUnknownValues=True,
    )
    return found
