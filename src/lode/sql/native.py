"""DuckDB's functions that a translated query may call. Those that macros call are not here."""

from __future__ import annotations

from typing import Final

NATIVE: Final = frozenset(
    [
        *(
            "+",
            "-",
            "*",
            "/",
            "&",
            "|",
            "~",
            "xor",
            "like_escape",
            "not_like_escape",
            "row",
            "nullif",
            "error",
        ),
        *("any_value", "arg_max", "arg_min", "avg", "count", "count_star", "max", "min", "sum", "string_agg"),
        *("bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "histogram", "list", "array_agg"),
        *("corr", "covar_pop", "covar_samp", "quantile_cont", "quantile_disc"),
        *("stddev_pop", "stddev_samp", "var_pop", "var_samp"),
        *("cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead", "nth_value", "ntile"),
        *("percent_rank", "rank", "row_number", "grouping"),
        *("array_to_string", "flatten", "generate_subscripts", "len", "list_concat", "list_contains"),
        *("list_distinct", "list_filter", "list_reverse_sort", "list_slice", "list_sort", "list_transform"),
        *("list_value", "map_entries", "struct_pack", "unnest"),
        *("date_diff", "date_sub", "now", "timezone", "to_days"),
        *("decode", "encode", "from_hex", "json_array", "json_object", "md5", "string_split", "to_json"),
    ]
)
