"""The shape of job configurations: every property has a type, which is checked before there is a job.

Values are checked where they are used. Properties that are not named here are checked there too, or ignored.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from lode.ingest.status import invalid

# The limit of the service.
MAX_QUERY_BYTES: Final = 1 << 20

Text: TypeAlias = str | None
# Clients write 64-bit integers as numbers or as text.
Whole: TypeAlias = (
    Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    | Annotated[str, Meta(max_length=40, pattern="^[-0-9]*$")]
    | None
)
Flag: TypeAlias = bool | str | int | float | None
Scalar: TypeAlias = str | int | float | bool | None


class _Shape(msgspec.Struct, kw_only=True, rename="camel"):
    """A JSON object with names in camel case."""


class _Dataset(_Shape):
    dataset_id: Text = None
    project_id: Text = None


class _Table(_Dataset):
    table_id: Text = None


class _Type(_Shape):
    type: Text = None
    array_type: _Type | None = None
    struct_types: list[_Member] | None = None
    range_element_type: _Type | None = None


class _Member(_Shape):
    name: Text = None
    type: _Type | None = None


class _Ends(_Shape):
    start: _Value | None = None
    end: _Value | None = None


class _Value(_Shape):
    value: Scalar = None
    array_values: list[_Value] | None = None
    struct_values: dict[str, _Value | None] | None = None
    range_value: _Ends | None = None


class _Parameter(_Shape):
    parameter_type: _Type
    name: Text = None
    parameter_value: _Value | None = None


class _Query(_Shape):
    use_legacy_sql: Flag = None
    use_query_cache: Flag = None
    default_dataset: _Dataset | None = None
    query_parameters: list[_Parameter] | None = None
    parameter_mode: Text = None
    maximum_bytes_billed: Whole = None
    connection_properties: list[dict[str, Scalar]] | None = None
    destination_table: _Table | None = None
    write_disposition: Text = None
    create_disposition: Text = None
    schema_update_options: list[str] | None = None
    priority: Text = None


class _Extract(_Shape):
    destination_uri: Text = None
    destination_uris: list[str] | None = None
    destination_format: Text = None
    compression: Text = None
    field_delimiter: Text = None
    print_header: Flag = None
    use_avro_logical_types: Flag = None


class _Configuration(_Shape):
    labels: dict[str, Text] | None = None
    job_timeout_ms: Whole = None
    dry_run: Flag = None
    query: _Query | None = None
    extract: _Extract | None = None


def check_shape(configuration: dict[str, Any]) -> None:
    """Refuse a configuration with a value of another type, or with a query that is too long."""
    try:
        msgspec.convert(_plain(configuration), _Configuration)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        where = f"configuration.{path.rstrip('`')}" if path else "configuration"
        raise invalid(f"Invalid value for {where}: {problem[0].lower()}{problem[1:]}.") from None
    settings = configuration.get("query") or {}
    table = settings.get("destinationTable")
    if table and not (table.get("datasetId") and table.get("tableId")):
        raise invalid("Required parameter is missing: destinationTable.datasetId or tableId.")
    text = settings.get("query")
    if isinstance(text, str) and len(text.encode(errors="replace")) > MAX_QUERY_BYTES:
        raise invalid(
            f"The query is too large. The maximum query length is {MAX_QUERY_BYTES:,} bytes, including "
            "comments and white space characters: send a shorter one."
        )


def _plain(value: Any) -> Any:
    """The value with plain numbers."""
    match value:
        case Decimal():
            return float(value)
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case list():
            return [_plain(item) for item in value]
    return value
