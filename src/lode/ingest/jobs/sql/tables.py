"""CREATE, ALTER and DROP."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from sqlglot import exp

from lode.ingest.catalog.dataset import DatasetName
from lode.ingest.jobs.sql import routines
from lode.ingest.jobs.sql.declared import (
    OPTIONS,
    check_properties,
    column,
    declared_columns,
    declared_keys,
    read_properties,
)
from lode.ingest.jobs.sql.names import as_query_error
from lode.ingest.jobs.sql.outcome import Outcome
from lode.ingest.status import Code, Refused
from lode.ingest.types.arrow import from_arrow
from lode.ingest.types.columns import TableSchema
from lode.sandbox.peer import Rows
from lode.sql.errors import QueryError, UnsupportedError
from lode.sql.parser import parse_one
from lode.sql.partition_filter import allow_unfiltered

if TYPE_CHECKING:
    from collections.abc import Callable

    from lode.ingest.catalog.table import TableDefinition
    from lode.ingest.jobs.sql.context import Context
    from lode.ingest.names import TableName

_COPY: Final = re.compile(
    r"CREATE\s+(?:SNAPSHOT\s+)?TABLE\s+(IF\s+NOT\s+EXISTS\s+)?(\S+)\s+(?:CLONE|COPY)\s+(\S+)(.*)",
    re.IGNORECASE | re.DOTALL,
)
# Properties that a table shares with the one that it is made like.
_COPIED: Final = (
    *("clustering", "description", "friendlyName", "labels"),
    *("maxStaleness", "requirePartitionFilter", "tableConstraints"),
)
_KINDS: Final = {
    exp.Create: ("TABLE", "VIEW", "SCHEMA", "FUNCTION"),
    exp.Drop: ("TABLE", "SNAPSHOT TABLE", "VIEW", "SCHEMA", "FUNCTION", "PROCEDURE"),
    exp.Alter: ("TABLE", "VIEW"),
}


def check(session: Context, tree: exp.Expression) -> None:
    """Refuse a statement of a kind that is not supported."""
    if isinstance(tree, exp.Command):
        if _COPY.fullmatch(_text(tree)) is None:
            words = [word for word in _text(tree).upper().split()[:3] if word.isalpha()]
            raise UnsupportedError(" ".join(words) or "This statement")
        return
    kind = str(tree.args.get("kind", "")).upper()
    if kind not in _KINDS[type(tree)]:
        raise UnsupportedError(f"{type(tree).__name__.upper()} {kind}")
    if kind == "FUNCTION" and isinstance(tree, exp.Create):
        routines.check_function(tree)
    properties = tree.args.get("properties")
    check_properties(kind, properties.expressions if properties is not None and kind in OPTIONS else ())
    actions = tree.args.get("actions") or ()
    for action in actions:
        if isinstance(action, exp.AlterRename) and len(actions) == 1:
            continue
        if not isinstance(action, exp.Drop):
            _change(session, action)


def create(session: Context, tree: exp.Create, dry: bool) -> Outcome:
    """CREATE of a table, a view, a dataset or a function."""
    kind = str(tree.args.get("kind", "")).upper()
    if kind == "SCHEMA":
        return _create_dataset(session, tree, dry)
    if kind == "FUNCTION":
        return _create_function(session, tree, dry)
    properties = list((tree.args.get("properties") or exp.Properties()).expressions)
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    temporary = any(isinstance(each, exp.TemporaryProperty) for each in properties)
    materialized = any(isinstance(each, exp.MaterializedProperty) for each in properties)
    if kind == "VIEW":
        return _create_view(session, tree, table, properties, dry, materialized=materialized)
    if temporary:
        return _create_temporary(session, tree, table, dry)
    name = session.names.name(tuple(part.name for part in table.parts))
    existing = _existing(session, name)
    query = tree.args.get("expression")
    outcome = Outcome("CREATE_TABLE_AS_SELECT" if query is not None else "CREATE_TABLE", table=name)
    if existing is not None and not tree.args.get("replace"):
        if query is not None and not dry and session.host.is_written(session.key, existing):
            outcome.ddl_operation = "CREATE"  # by this job, before a restart
        elif tree.args.get("exists"):
            outcome.ddl_operation = "SKIP"
        else:
            raise already_exists(name)
        outcome.schema, outcome.batches = existing.schema.arrow, iter(())
        return outcome
    outcome.ddl_operation = "REPLACE" if existing is not None else "CREATE"
    source = next((each.this for each in properties if isinstance(each, exp.LikeProperty)), None)
    clone = tree.args.get("clone")
    result = None
    schema: TableSchema | None = None
    declared = read_properties(kind, properties, session.evaluate)
    partitioning, info = declared.partitioning, {}
    if isinstance(tree.this, exp.Schema):
        schema = declared_columns(tree.this)
        keys = declared_keys(tree.this.expressions, schema, session.names.name)
        info = {"tableConstraints": keys} if keys else {}
    origin = source if source is not None else clone.this if clone is not None else None
    if origin is not None:
        like = session.names.definition(session.names.name(tuple(part.name for part in origin.parts)))
        schema, partitioning = like.schema, partitioning or like.partitioning
        info = {key: like.info[key] for key in _COPIED if key in like.info}
    partitioning, info = declared.applied(partitioning, info)
    if clone is not None:
        query = allow_unfiltered(exp.select("*").from_(clone.this.copy()))
    if query is not None:
        if dry:
            outcome.schema = session.sql.schema(query)
            outcome.bytes = session.sql.bytes_processed
            return outcome
        result = session.sql.run(query)
        found = from_arrow(result.schema)
        schema = schema or found
        outcome.bytes = result.bytes_processed
    if schema is None:
        raise QueryError(f"CREATE TABLE {name.short} has no columns", reason="invalid")
    outcome.schema, outcome.batches = schema.arrow, iter(())
    if dry:
        return outcome
    wanted = schema
    catalog = session.host.catalog

    def decide(current: TableDefinition | None) -> TableDefinition:
        if current is None:
            return catalog.draft_table(name, wanted, partitioning=partitioning, info=info, apart=True)
        if not tree.args.get("replace"):
            raise already_exists(name)
        return catalog.draft_replacement(current, wanted, partitioning=partitioning, info=info)

    try:
        if query is not None:
            runs = iter([result])

            def rows() -> Rows:
                found = next(runs, None) or session.sql.run(query)
                return Rows(found.schema, found.batches)

            session.host.write(name, "WRITE_TRUNCATE", session.key, decide, rows)
        else:
            _store(session, existing, decide(existing))
    except (Refused, QueryError) as error:
        refusal = _refusal(error) if isinstance(error, Refused) else error
        if not (
            tree.args.get("exists") and isinstance(refusal, QueryError) and refusal.reason == "duplicate"
        ):
            raise refusal from None
        outcome.ddl_operation = "SKIP"  # another request has just created it
    return outcome


def _store(session: Context, existing: TableDefinition | None, wanted: TableDefinition) -> None:
    """Create a table without rows, or put it in the place of another."""
    catalog = session.host.catalog
    if existing is not None:
        catalog.replace_table(existing, wanted)
    else:
        catalog.create_table(wanted.name, wanted.schema, partitioning=wanted.partitioning, info=wanted.info)


def already_exists(name: TableName) -> QueryError:
    return QueryError(
        f"Already Exists: Table {name.project}:{name.dataset}.{name.table}", reason="duplicate", location=""
    )


def _refusal(refused: Refused) -> Exception:
    if refused.code is Code.NOT_FOUND:
        return as_query_error(refused)
    if refused.code is Code.ALREADY_EXISTS:
        return QueryError(refused.message, reason="duplicate", location="")
    return refused


def _existing(session: Context, name: TableName) -> TableDefinition | None:
    try:
        return session.host.catalog.table(name, fresh=True)
    except Refused as refused:
        if refused.code is not Code.NOT_FOUND:
            raise
        if "Dataset" in refused.message:
            raise as_query_error(refused) from None
        return None


def _create_temporary(session: Context, tree: exp.Create, table: exp.Table, dry: bool) -> Outcome:
    query = tree.args.get("expression")
    outcome = Outcome(
        "CREATE_TABLE_AS_SELECT" if query is not None else "CREATE_TABLE", ddl_operation="CREATE"
    )
    if dry:
        return outcome
    if query is not None:
        session.sql.keep(table.name, query)
    elif isinstance(tree.this, exp.Schema):
        session.sql.declare(table.name, declared_columns(tree.this).arrow)
    return outcome


def _create_view(
    session: Context,
    tree: exp.Create,
    table: exp.Table,
    properties: list[Any],
    dry: bool,
    *,
    materialized: bool,
) -> Outcome:
    name = session.names.name(tuple(part.name for part in table.parts))
    outcome = Outcome("CREATE_MATERIALIZED_VIEW" if materialized else "CREATE_VIEW", table=name)
    existing = _existing(session, name)
    if existing is not None and tree.args.get("exists"):
        outcome.ddl_operation = "SKIP"
        return outcome
    if existing is not None and not tree.args.get("replace"):
        raise already_exists(name)
    if not isinstance(tree.expression, exp.Query):
        raise QueryError(f"Syntax error: CREATE VIEW {name.short} needs a query")
    query = allow_unfiltered(_qualified(session, tree.expression))
    schema = from_arrow(session.sql.schema(query))
    outcome.ddl_operation = "REPLACE" if existing is not None else "CREATE"
    outcome.schema, outcome.batches = schema.arrow, iter(())
    if dry:
        return outcome
    _, info = read_properties("VIEW", properties, session.evaluate).applied(None, {})
    info["materializedView" if materialized else "view"] = {
        "query": query.sql("bigquery"),
        "useLegacySql": False,
    }
    info["view"] = {"query": query.sql("bigquery"), "useLegacySql": False}
    catalog = session.host.catalog
    _store(
        session,
        existing,
        catalog.draft_table(name, schema, info=info)
        if existing is None
        else catalog.draft_replacement(existing, schema, info=info),
    )
    return outcome


def _qualified(session: Context, tree: exp.Expr) -> Any:
    """The query of a view with full names, so that it means the same to everyone."""
    from lode.sql.rewrite import sources

    query: Any = tree.copy()
    for table in sources(query):
        parts = tuple(part.name for part in table.parts)
        if any("INFORMATION_SCHEMA" in part.upper() for part in parts):
            continue
        name = session.names.name(parts)
        if not table.args.get("alias"):
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        for key, part in zip(("catalog", "db", "this"), name, strict=True):
            table.set(key, exp.to_identifier(part, quoted=True))
    return query


def _create_dataset(session: Context, tree: exp.Create, dry: bool) -> Outcome:
    name = _dataset(session, tree.this)
    outcome = Outcome("CREATE_SCHEMA", ddl_operation="CREATE")
    if dry:
        return outcome
    properties = list((tree.args.get("properties") or exp.Properties()).expressions)
    location = next((each.this.name for each in properties if isinstance(each, exp.LocationProperty)), "")
    _, info = read_properties("SCHEMA", properties, session.evaluate).applied(None, {})
    try:
        session.host.catalog.create_dataset(name, location=location, info=info)
    except Refused as refused:
        if refused.code is not Code.ALREADY_EXISTS:
            raise
        if not tree.args.get("exists"):
            raise QueryError(
                f"Already Exists: Dataset {name.project}:{name.dataset}", reason="duplicate", location=""
            ) from None
        outcome.ddl_operation = "SKIP"
    return outcome


def _dataset(session: Context, table: exp.Table) -> DatasetName:
    parts = [
        piece for part in table.parts if part is not None and part.name for piece in part.name.split(".")
    ]
    return DatasetName(parts[-2] if len(parts) > 1 else session.names.project, parts[-1])


def _create_function(session: Context, tree: exp.Create, dry: bool) -> Outcome:
    properties = (tree.args.get("properties") or exp.Properties()).expressions
    outcome = Outcome("CREATE_FUNCTION", ddl_operation="CREATE")
    if any(isinstance(each, exp.TemporaryProperty) for each in properties):
        if not dry:
            session.sql.functions[tree.this.this.name.lower()] = tree
        return outcome
    dataset, name = routines.place(session.names, tuple(routines.name_parts(tree.this.this)))
    outcome.ddl_operation = routines.store(
        session.host.catalog,
        dataset,
        name,
        tree.sql("bigquery"),
        exists=bool(tree.args.get("exists")),
        replace=bool(tree.args.get("replace")),
        dry=dry,
    )
    return outcome


# -- ALTER and DROP -----------------------------------------------------------------------------------------


def drop(session: Context, tree: exp.Drop, dry: bool) -> Outcome:
    kind = str(tree.args.get("kind", "")).upper()
    target = (tree.args.get("tables") or [tree.this])[0]
    catalog = session.host.catalog
    if kind == "SCHEMA":
        dataset = _dataset(session, target)
        outcome = Outcome("DROP_SCHEMA", ddl_operation="DROP")
        if dry:
            return outcome
        try:
            catalog.delete_dataset(dataset, delete_contents=bool(tree.args.get("cascade")))
        except Refused as refused:
            if type(refused).__name__ == "DatasetInUse":
                raise QueryError(
                    f"Dataset {dataset.project}:{dataset.dataset} is still in use",
                    reason="resourceInUse",
                    location="",
                ) from None
            if refused.code is not Code.NOT_FOUND or not tree.args.get("exists"):
                raise _refusal(refused) from None
            outcome.ddl_operation = "SKIP"
        return outcome
    if kind in ("FUNCTION", "PROCEDURE"):
        return _drop_routine(session, tree, target, kind, dry)
    if kind == "SNAPSHOT TABLE":
        kind = "TABLE"
    parts = tuple(part.name for part in target.parts)
    shown = "MATERIALIZED_VIEW" if tree.args.get("materialized") else kind
    outcome = Outcome(f"DROP_{shown}", ddl_operation="DROP")
    if len(parts) == 1 and parts[0].lower() in session.sql.local:
        session.sql.local.pop(parts[0].lower())
        return outcome
    outcome.table = name = session.names.name(parts)
    existing = _existing(session, name)
    if existing is None:
        if not tree.args.get("exists"):
            raise QueryError(
                f"Not found: Table {name.project}:{name.dataset}.{name.table} was not found in location US",
                reason="notFound",
                location="",
            )
        outcome.ddl_operation = "SKIP"
    elif not dry:
        catalog.delete_table(name)
    return outcome


def alter(session: Context, tree: exp.Alter, dry: bool) -> Outcome:
    kind = str(tree.args["kind"]).upper()
    name = session.names.name(tuple(part.name for part in tree.this.parts))
    outcome = Outcome(f"ALTER_{kind}", ddl_operation="ALTER", table=name)
    if _existing(session, name) is None:
        if tree.args.get("exists"):
            outcome.ddl_operation = "SKIP"
            return outcome
        raise QueryError(
            f"Not found: Table {name.project}:{name.dataset}.{name.table} was not found in location US",
            reason="notFound",
            location="",
        )
    actions = tree.args.get("actions") or ()
    dropped = [
        each for action in actions if isinstance(action, exp.Drop) for each in _dropped(session, name, action)
    ]
    renamed = [action for action in actions if isinstance(action, exp.AlterRename)]
    changes = [_change(session, each) for each in actions if not isinstance(each, exp.Drop | exp.AlterRename)]
    if dry:
        return outcome
    if renamed:
        _rename(session, name, renamed[0])
        return outcome
    if dropped:
        _drop_columns(session, name, dropped)

    def change(current: TableDefinition) -> TableDefinition:
        for each in changes:
            current = each(current)
        return current

    session.host.catalog.update_table(name, change)
    return outcome


def _rename(session: Context, name: TableName, action: exp.AlterRename) -> None:
    parts = action.this.parts
    if len(parts) > 1:
        raise QueryError("ALTER TABLE … RENAME TO needs a name without a dataset", reason="invalid")
    if session.names.definition(name).kind != "TABLE":
        raise UnsupportedError("ALTER TABLE … RENAME TO of a view")
    try:
        session.host.catalog.rename_table(
            name, session.names.name((name.project, name.dataset, parts[0].name))
        )
    except Refused as refused:
        raise _refusal(refused) from None


def _dropped(session: Context, name: TableName, action: exp.Drop) -> list[str]:
    """The columns that ALTER TABLE … DROP COLUMN names, as the table spells them."""
    schema = session.names.definition(name).schema
    found = []
    for each in action.args.get("tables") or [action.this]:
        if each is None:
            raise QueryError("Syntax error: DROP COLUMN needs the name of a column")
        place = schema.positions.get(each.name.lower())
        if place is not None:
            found.append(schema.columns[place].name)
        elif not action.args.get("exists"):
            raise QueryError(f"Column not found: {each.name}", reason="invalid")
    return found


def _drop_columns(session: Context, name: TableName, dropped: list[str]) -> None:
    """Drop columns from the rows, then from the table: a new column of the name does not show old values."""
    definition = session.names.definition(name)
    used = {definition.partitioning.column} if definition.partitioning is not None else set()
    used |= set(definition.info.get("clustering", {}).get("fields", ()))
    for each in dropped:
        if each in used:
            raise QueryError(
                f"Column {each} is used for partitioning or clustering and cannot be dropped",
                reason="invalid",
            )
    session.host.drop_columns(definition, dropped)
    session.host.catalog.update_table(
        name,
        lambda now: msgspec.structs.replace(
            now, schema=TableSchema(tuple(each for each in now.schema if each.name not in dropped))
        ),
        replace_schema=True,
    )


def _change(session: Context, action: exp.Expression) -> Callable[[TableDefinition], TableDefinition]:
    """What an action of ALTER TABLE makes of a table. One that is not supported is refused."""
    match action:
        case exp.ColumnDef():
            added = column(action)

            def add(current: TableDefinition) -> TableDefinition:
                if added.name.lower() in current.schema.positions:
                    if action.args.get("exists"):
                        return current
                    raise QueryError(f"Column already exists: {added.name}", reason="invalid")
                return msgspec.structs.replace(current, schema=TableSchema((*current.schema.columns, added)))

            return add
        case exp.AlterColumn() if action.args.get("allow_null"):
            relaxed = action.this.name.lower()
            return lambda current: _edited(current, relaxed, mode="NULLABLE")
        case exp.AlterColumn() if action.args.get("default") is not None:
            default = action.args["default"].sql("bigquery")
            name = action.this.name.lower()
            return lambda current: _edited(current, name, default=default)
        case exp.AlterColumn() if action.args.get("drop"):
            name = action.this.name.lower()
            return lambda current: _edited(current, name, default="")
        case exp.AlterSet():
            options = [each for part in action.expressions if part is not None for each in part.expressions]
            if not options:
                raise QueryError("Syntax error: SET needs OPTIONS (…)")
            check_properties("VIEW", options)
            return partial(_with_options, session, options)
        case exp.AddConstraint():
            return partial(_with_keys, session, action.expressions)
        case exp.Command() if _text(action).upper().split()[:3] == ["DROP", "PRIMARY", "KEY"]:
            return partial(_without_primary_key, exists="EXISTS" in _text(action).upper())
    raise UnsupportedError(f"ALTER TABLE … {action.sql('bigquery')[:40].upper()}")


def _with_options(
    session: Context, options: list[exp.Expression], current: TableDefinition
) -> TableDefinition:
    declared = read_properties("TABLE", options, session.evaluate)
    partitioning, info = declared.applied(current.partitioning, current.info)
    return msgspec.structs.replace(current, partitioning=partitioning, info=info)


def _with_keys(session: Context, added: list[exp.Expression], current: TableDefinition) -> TableDefinition:
    known = current.info.get("tableConstraints", {})
    new = declared_keys(added, current.schema, session.names.name)
    if "primaryKey" in known and "primaryKey" in new:
        raise QueryError(
            f"Already Exists: Primary key of table {current.name.short}", reason="duplicate", location=""
        )
    foreign = [*known.get("foreignKeys", ()), *new.get("foreignKeys", ())]
    merged = {**known, **new, **({"foreignKeys": foreign} if foreign else {})}
    return msgspec.structs.replace(current, info={**current.info, "tableConstraints": merged})


def _without_primary_key(current: TableDefinition, *, exists: bool) -> TableDefinition:
    kept = dict(current.info.get("tableConstraints", {}))
    if kept.pop("primaryKey", None) is None and not exists:
        raise QueryError(
            f"Not found: Primary key of table {current.name.short}", reason="notFound", location=""
        )
    return msgspec.structs.replace(current, info={**current.info, "tableConstraints": kept})


def _edited(current: TableDefinition, name: str, **changes: Any) -> TableDefinition:
    if name not in current.schema.positions:
        raise QueryError(f"Column not found: {name}", reason="invalid")
    columns = tuple(
        msgspec.structs.replace(each, **changes) if each.name.lower() == name else each
        for each in current.schema
    )
    return msgspec.structs.replace(current, schema=TableSchema(columns))


def _drop_routine(session: Context, tree: exp.Drop, target: exp.Expression, kind: str, dry: bool) -> Outcome:
    if isinstance(target, exp.UserDefinedFunction):
        target = target.this
    dataset, name = routines.place(session.names, tuple(routines.name_parts(target)))
    done = routines.remove(session.host.catalog, dataset, name, exists=bool(tree.args.get("exists")), dry=dry)
    return Outcome(f"DROP_{kind}", ddl_operation=done)


def _text(tree: exp.Command) -> str:
    rest = tree.expression.name if isinstance(tree.expression, exp.Expression) else tree.expression or ""
    return f"{tree.name} {rest}".strip()


def command(session: Context, tree: exp.Expression, dry: bool) -> Outcome:
    """CREATE TABLE … CLONE or COPY, which the parser keeps as text."""
    text = _text(tree) if isinstance(tree, exp.Command) else ""
    match = _COPY.fullmatch(text)
    target = parse_one(f"SELECT * FROM {match[2]}").find(exp.Table) if match is not None else None
    if match is None or target is None:
        raise QueryError("Syntax error: CREATE TABLE … COPY needs the names of two tables")
    query = allow_unfiltered(parse_one(f"SELECT * FROM {match[3]} {match[4]}"))
    made = exp.Create(this=target, kind="TABLE", expression=query, exists=bool(match[1]))
    outcome = create(session, made, dry)
    outcome.statement = (
        "CREATE_SNAPSHOT_TABLE" if "SNAPSHOT" in text.upper().split()[1] else "CREATE_TABLE_AS_SELECT"
    )
    return outcome
