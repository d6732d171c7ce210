"""Arrays of a writer made to fit a column: cast, completed and checked, as a whole and to any depth.

What fits already passes through untouched. Everything is decided once per writer's schema; per batch there
are only Arrow's kernels, and Python looks at single values only to say which are bad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lode.ingest.status import Code, Refused, StorageCode, invalid
from lode.ingest.types.columns import arrow_field, arrow_type
from lode.ingest.types.fit_cast import cast_for, takes
from lode.ingest.types.fit_check import check_for
from lode.lazy import pa, pt

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.types.columns import Column
    from lode.ingest.types.row_errors import Place

    Fit: TypeAlias = Callable[[pa.Array[Any], Place], pa.Array[Any]]

# Missing columns cost memory that a small request has not sent; this bounds it.
MAX_FILLED_VALUES: Final = 1 << 25
# What change data capture adds to a writer's columns.
_CHANGE_COLUMNS: Final = ("_change_type", "_change_sequence_number")


def fit_for(column: Column, kind: pa.DataType, path: str = "") -> Fit:
    """How arrays of an Arrow type become the column's; a type that does not fit is refused.

    The fit reports bad values to its place and goes on; what it returns is right only if there were none.
    Nulls in a REQUIRED column are not its matter: only its parent knows which of them count.
    """
    path = path or column.name
    if isinstance(kind, pa.BaseExtensionType):
        inner = fit_for(column, kind.storage_type, path)
        return _stored(inner)
    if pt.is_null(kind):
        return _nulls(column)
    if column.mode == "REPEATED":
        return _lists(column, kind, path)
    return _values(column, kind, path)


def _stored(fit: Fit) -> Fit:
    """The fit of an extension type, by what it is stored as."""

    def fit_storage(array: Any, place: Place) -> pa.Array[Any]:
        return fit(array.storage, place)

    return fit_storage


def match_children(columns: tuple[Column, ...], names: list[str], path: str = "") -> list[int | None]:
    """For each column the position of its name among the names, or None; names beyond them are refused."""
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        if name.lower() in positions:
            raise invalid(f"Column {path + name!r} appears twice in the writer's schema.", ends_call=True)
        positions[name.lower()] = position
    found = [positions.pop(column.name.lower(), None) for column in columns]
    for position in positions.values():
        raise extra_column(path + names[position])
    return found


def extra_column(path: str) -> Refused:
    """The refusal of a column that the table lacks."""
    if path.lower() in _CHANGE_COLUMNS:
        return Refused(
            Code.UNIMPLEMENTED,
            f"Column {path!r} asks for change data capture, which needs primary keys and upserts: "
            "Lode does not have them, send rows to append.",
            ends_call=True,
        )
    return Refused(
        Code.INVALID_ARGUMENT,
        f"Input schema has more fields than BigQuery schema, extra fields: '{path}'. "
        "Add the column to the table first.",
        storage=StorageCode.SCHEMA_MISMATCH_EXTRA_FIELDS,
        ends_call=True,
    )


def missing(column: Column, count: int) -> pa.Array[Any]:
    """The values of a column that was not sent: nulls, or empty lists where it is REPEATED."""
    kind: Any = arrow_field(column).type
    if column.mode != "REPEATED":
        return _absent(column, count)
    offsets = pa.repeat(pa.scalar(0, pa.int32()), count + 1)
    empty: pa.Array[Any] = pa.ListArray.from_arrays(offsets, pa.nulls(0, kind.value_type), type=kind)
    return empty


def _absent(column: Column, count: int) -> pa.Array[Any]:
    """Nulls, with structs whose REQUIRED fields are filled below them: Parquet takes no others."""
    kind: Any = arrow_type(column)
    if not column.children:
        nulls: pa.Array[Any] = pa.nulls(count, kind)
        return nulls
    below = [missing(child, count) for child in column.children]
    made = [
        _solid(value) if child.mode == "REQUIRED" else value
        for child, value in zip(column.children, below, strict=True)
    ]
    mask: Any = pa.repeat(pa.scalar(True), count)
    structs: pa.Array[Any] = pa.StructArray.from_arrays(made, fields=list(kind), mask=mask)
    return structs


def _solid(array: Any) -> pa.Array[Any]:
    """The array with whatever lies under its nulls in their place; for those that a null struct hides."""
    if pt.is_struct(array.type):
        below = [array.field(position) for position in range(array.type.num_fields)]
        structs: pa.Array[Any] = pa.StructArray.from_arrays(below, fields=list(array.type))
        return structs
    buffers = [None, *array.buffers()[1:]]
    values: pa.Array[Any] = pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset)
    return values


def check_affordable(values: int, path: str) -> None:
    """Refuse to make up more values than a request may cost."""
    if values > MAX_FILLED_VALUES:
        raise invalid(
            f"The request leaves out {values} values of {path}: send fewer rows in one request, "
            f"at most {MAX_FILLED_VALUES} values may be missing."
        )


def _nulls(column: Column) -> Fit:
    def fit(array: pa.Array[Any], place: Place) -> pa.Array[Any]:
        check_affordable(len(array), f"column {place.path!r}")
        return missing(column, len(array))

    return fit


def _values(column: Column, kind: pa.DataType, path: str) -> Fit:
    if column.children:
        return _structs(column, kind, path)
    if not takes(column, kind):
        raise _unfit(column, kind, path)
    cast, check = cast_for(column, kind), check_for(column)

    def fit(array: pa.Array[Any], place: Place) -> pa.Array[Any]:
        if cast is not None:
            array = cast(array, place)
        if check is not None:
            check(array, place)
        return array

    return fit


def _unfit(column: Column, kind: pa.DataType, path: str) -> Refused:
    repeated = "REPEATED " if column.mode == "REPEATED" else ""
    return invalid(
        f"Column {path!r} is {repeated}{column.type}, which the Arrow type {kind} does not fit.",
        ends_call=True,
    )


def _structs(column: Column, kind: Any, path: str) -> Fit:
    if not pt.is_struct(kind):
        raise _unfit(column, kind, path)
    target: Any = arrow_type(column)
    fields = list(target)
    sources = match_children(column.children, [field.name for field in kind], path + ".")
    plan = [
        (child, source, None if source is None else fit_for(child, kind[source].type, f"{path}.{child.name}"))
        for child, source in zip(column.children, sources, strict=True)
    ]
    left_out = sum(fit is None for _, _, fit in plan)
    same, check = kind == target, check_for(column)

    def fit(array: Any, place: Place) -> pa.Array[Any]:
        check_affordable(len(array) * left_out, f"column {place.path!r}")
        sent = array.flatten()
        made: list[pa.Array[Any]] = []
        untouched = same
        for child, source, fit_child in plan:
            below = place.child(child.name)
            if source is None or fit_child is None:
                value = missing(child, len(array))
            else:
                value = fit_child(sent[source], below)
            if child.mode == "REQUIRED" and value.null_count:
                _require(array, value, below)
                value = _solid(value)
            untouched = untouched and source is not None and value is sent[source]
            made.append(value)
        if not untouched:
            mask = array.is_null() if array.null_count else None
            array = pa.StructArray.from_arrays(made, fields=fields, mask=mask)
        if check is not None:
            check(array, place)
        fitted: pa.Array[Any] = array
        return fitted

    return fit


def _require(parent: pa.Array[Any], child: pa.Array[Any], place: Place) -> None:
    """Report the nulls of a REQUIRED field, except in structs that are null themselves."""
    import pyarrow.compute as pc

    absent: Any = pc.and_(child.is_null(), parent.is_valid())
    place.report_where(absent, "it is REQUIRED, and null.")


def _lists(column: Column, kind: Any, path: str) -> Fit:
    if not (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)):
        raise _unfit(column, kind, path)
    if pt.is_null(kind.value_type):
        # Nulls take no bytes on the wire, so a list of them could have any length.
        raise _unfit(column, kind, path)
    target: Any = arrow_field(column).type
    element = _element(column, kind.value_type, path)
    same = kind == target

    def fit(array: Any, place: Place) -> pa.Array[Any]:
        values = array.flatten()
        if not same or array.null_count:
            array = _list_array(array, values)
        inside = place.within(array)
        fitted = element(values, inside)
        if fitted.null_count:
            inside.report_where(fitted.is_null(), "an element of a REPEATED column is null.")
        if array.type == target and fitted is values:
            result: pa.Array[Any] = array
        else:
            result = _list_array(array, fitted, target)
        return result

    return fit


def _element(column: Column, kind: Any, path: str) -> Fit:
    """The fit of one element; elements of an extension type are fitted by their storage."""
    if isinstance(kind, pa.BaseExtensionType):
        inner = _values(column, kind.storage_type, path)
        return _stored(inner)
    return _values(column, kind, path)


def _list_array(lists: Any, values: pa.Array[Any], kind: Any = None) -> Any:
    """Lists of the same lengths over flattened values; null lists become empty ones."""
    import pyarrow.compute as pc

    lengths: Any = pc.cast(pc.fill_null(pc.list_value_length(lists), pa.scalar(0, pa.int32())), pa.int32())
    first = pa.array([0], pa.int32())
    offsets: Any = pa.concat_arrays([first, pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, values, type=kind)
