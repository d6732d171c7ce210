"""What a tree may consist of when it is written for DuckDB.

The generator of sqlglot writes a text of a tree as it is wherever a tree has a text instead of a node: hints,
variables, kinds of joins. So the nodes, their parts, and the words that a part may be are a list. All else
is refused before a character is written.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from lode.sql.errors import UnsupportedError

_TEXT: Final = "$text"
_UNARY: Final = "this"
_BINARY: Final = "this expression"
# By the name of a node: its parts that may be nodes, or have one of the words behind a colon.
_PARTS: Final = {
    # -- queries
    "Select": (
        "expressions distinct from_ joins where group having windows qualify order limit offset with_ "
        "kind:STRUCT|VALUE"
    ),
    **dict.fromkeys(("Union", "Except", "Intersect"), "this expression order limit offset with_"),
    "Subquery": "this alias joins pivots array$ with_ order limit offset",
    "With": "expressions",
    "CTE": "this alias",
    "Table": "this alias joins pivots",
    "TableAlias": "this columns",
    "From": "this",
    "Join": "this on using side:LEFT|RIGHT|FULL kind:CROSS|INNER|OUTER",
    "Where": "this",
    "Group": "expressions cube rollup grouping_sets",
    **dict.fromkeys(("Cube", "Rollup", "GroupingSets"), "expressions"),
    **dict.fromkeys(("Having", "Qualify"), "this"),
    "Order": "this expressions",
    "Ordered": "this",
    "Limit": "this expression",
    "Offset": "this expression",
    "Distinct": "expressions",
    "Values": "expressions alias",
    "Unnest": "expressions",
    "Pivot": ("expressions fields columns alias pivot_column_naming:agg_name_if_aliased"),
    "PivotAlias": "this alias",
    "Window": "this partition_by order spec alias over:OVER",
    "WindowSpec": (
        "start:UNBOUNDED|CURRENT␣ROW end:UNBOUNDED|CURRENT␣ROW kind:ROWS|RANGE "
        "start_side:PRECEDING|FOLLOWING end_side:PRECEDING|FOLLOWING"
    ),
    # -- changes of temporary tables
    "Insert": "this expression with_",
    "Update": "this expressions where from_ with_",
    "Delete": "this where with_",
    "Merge": "this using on whens with_",
    "Whens": "expressions",
    "When": "condition then",
    "Schema": "this expressions",
    # -- names and values
    "Identifier": f"this:{_TEXT}",
    "Literal": f"this:{_TEXT}",
    "RawString": f"this:{_TEXT}",
    "ByteString": f"this:{_TEXT}",
    "HexString": f"this:{_TEXT}",
    "Var": f"this:{_TEXT}",
    "Parameter": "this",
    "Placeholder": "",
    "Boolean": "",
    "Null": "",
    "Star": "except_ replace",
    "Column": "this table db catalog",
    "Alias": "this alias",
    "Dot": _BINARY,
    "Array": "expressions",
    "Struct": "expressions",
    "Tuple": "expressions",
    "PropertyEQ": _BINARY,
    "Kwarg": _BINARY,
    "Interval": "this unit",
    "IntervalSpan": _BINARY,
    "WeekStart": "this",
    "ParseJSON": "this",
    # The kind of a type is an enumeration, which ``duck_type`` looks up.
    "DataType": f"this:{_TEXT} expressions",
    "DataTypeParam": "this",
    "ColumnDef": "this kind",
    "Cast": "this to format",
    "TryCast": "this to format",
    # -- operators
    **dict.fromkeys(
        (
            *("Add", "Sub", "Mul", "Div", "And", "Or", "EQ", "NEQ", "GT", "GTE", "LT", "LTE"),
            *("NullSafeEQ", "NullSafeNEQ", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
            *("BitwiseLeftShift", "BitwiseRightShift", "Is"),
        ),
        _BINARY,
    ),
    "DPipe": "this expression",
    **dict.fromkeys(("Neg", "Not", "BitwiseNot", "Paren", "Any", "All", "Exists"), _UNARY),
    "Between": "this low high",
    "In": "this expressions query unnest field",
    "Like": "this expression",
    "Bracket": "this expressions offset:0|1",
    "Case": "this ifs default",
    "If": "this true false",
    "AtTimeZone": "this zone",
    "Extract": _BINARY,
    # -- functions, which are looked up by name
    "Anonymous": f"this:{_TEXT} expressions",
    **dict.fromkeys(("SafeFunc", "NetFunc"), _UNARY),
    **dict.fromkeys(("Coalesce", "Greatest", "Least"), "this expressions"),
    "Nullif": _BINARY,
    **dict.fromkeys(("CurrentDate", "CurrentDatetime", "CurrentTime", "CurrentTimestamp"), _UNARY),
    # -- aggregates and window functions
    **dict.fromkeys(
        (
            *("AnyValue", "ApproxDistinct", "ArrayAgg", "ArrayConcatAgg", "Avg", "CountIf", "Max", "Min"),
            *("BitwiseAndAgg", "BitwiseOrAgg", "BitwiseXorAgg", "LogicalAnd", "LogicalOr", "Sum"),
            *("Stddev", "StddevPop", "StddevSamp", "Variance", "VariancePop"),
            *("FirstValue", "LastValue", "Ntile", "IgnoreNulls", "RespectNulls"),
        ),
        _UNARY,
    ),
    "Count": "this expressions",
    **dict.fromkeys(("Corr", "CovarPop", "CovarSamp", "PercentileCont", "PercentileDisc"), _BINARY),
    **dict.fromkeys(("ApproxQuantiles", "ApproxTopK"), _BINARY),
    "GroupConcat": "this separator",
    "Grouping": "expressions",
    "HavingMax": "this expression",
    "NthValue": "this offset",
    **dict.fromkeys(("Lag", "Lead"), "this offset default"),
    **dict.fromkeys(("RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist"), ""),
}


def _read(parts: str) -> dict[str, frozenset[str] | None]:
    """The parts of a node; with None, a part has any text."""
    made: dict[str, frozenset[str] | None] = {}
    for each in parts.split():
        name, _, words = each.partition(":")
        made[name] = (
            None if words == _TEXT else frozenset(words.replace("␣", " ").split("|") if words else ())
        )
    return made


# By class and not by name: other packages could have a class of the same name.
_SHAPES: Final = {getattr(exp, name): _read(parts) for name, parts in _PARTS.items()}


def check_tree(tree: exp.Expression) -> None:
    """Refuse a tree with anything that is not in the list."""
    for node in tree.walk():
        shape = _SHAPES.get(type(node))
        if shape is None:
            raise UnsupportedError(_shown(node))
        for key, value in node.args.items():
            for each in value if isinstance(value, list) else (value,):
                # Without text: what was not written in the query, and marks.
                if each is None or isinstance(each, bool) or each == "":
                    continue
                words = shape.get(key, ())
                if words is None or (key in shape and isinstance(each, exp.Expr)):
                    continue
                if isinstance(each, exp.Expr) or str(each).upper() not in words:
                    raise UnsupportedError(f"{key.strip('_').upper()} of {_shown(node)}")


def _shown(node: exp.Expr) -> str:
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()
