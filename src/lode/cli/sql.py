"""``lode sql``: DuckDB over the datasets of a store. Every dataset is a view under its name."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from lode.cli.emit import Format, chosen, emit
from lode.cli.parameters import AS_OF, FORMAT, LIMIT, ROOT, STORE_OPTION

if TYPE_CHECKING:
    from lode.errors import LodeError
    from lode.read.scan import Scan
    from lode.store.protocol import Store

_QUERY: Final[Any] = typer.Argument(..., metavar="QUERY", help="The query; - reads it from stdin.")
_ALSO: Final[Any] = typer.Option(
    [], "--dataset", "-d", metavar="NAME", help="Another dataset, if lode ls cannot list it (a flat layout)."
)
# "events@3" is one snapshot of events.
_ONE_SNAPSHOT: Final = re.compile(r'"([^"]+)@([^"@]+)"')


def sql(
    query: str = _QUERY,
    root: str = ROOT,
    as_of: str | None = AS_OF,
    dataset: list[str] = _ALSO,
    limit: int | None = LIMIT,
    form: Format | None = FORMAT,
    store_option: list[str] = STORE_OPTION,
) -> None:
    """Ask datasets in SQL, through DuckDB.

    Each dataset is a view under its name: its whole history, or that up to --as-of. In double quotes,
    "events@3" is snapshot 3 alone.
    """
    from lode.cli.root import open_root
    from lode.extras import needs

    with needs("lode sql", "sql"):
        import duckdb
    form = chosen(form)
    text = sys.stdin.read() if query == "-" else query
    with duckdb.connect(":memory:") as connection:
        sources, broken = _sources(open_root(root, store_option), text, as_of, dataset)
        for name, source in sources.items():
            connection.register(name, source)
        try:
            answer: Any = connection.sql(text)
            if answer is None:  # a statement that has no rows
                return
            reader = answer.to_arrow_reader(65_536)
            emit(reader, form, limit=limit, schema=reader.schema)
        except duckdb.CatalogException as error:
            # A table that is not there may be a dataset that cannot be read.
            missing = str(error).lower()
            raise next(
                (fault for name, fault in broken.items() if name.lower() in missing), _in_our_words(error)
            ) from error
        except duckdb.Error as error:
            raise _in_our_words(error) from error


def _sources(
    store: Store, query: str, as_of: str | None, also: list[str]
) -> tuple[dict[str, Any], dict[str, LodeError]]:
    """The datasets that the query names and single snapshots of them, and those that cannot be read."""
    from lode.cli.named import point_named, snapshot_named
    from lode.discover import dataset_names, open_dataset
    from lode.errors import LodeError

    found: dict[str, Any] = {}
    broken: dict[str, LodeError] = {}
    for name, snapshot in _ONE_SNAPSHOT.findall(query):
        opened = open_dataset(name, store)
        found[f"{name}@{snapshot}"] = _source(opened.plan_snapshot(snapshot_named(opened, snapshot)))
    for name in [*dataset_names(store), *also]:
        # A name in a text or a column costs a look at its history, and does no harm.
        if name in also or re.search(rf"(?<!\w){re.escape(name)}(?![\w@])", query, re.IGNORECASE):
            try:
                opened = open_dataset(name, store)
                if opened.components.codec is not None:
                    found[name] = _source(opened.plan(as_of=point_named(opened, as_of)))
            except LodeError as error:
                if name in also:
                    raise
                broken[name] = error
    return found, broken


def _source(scan: Scan) -> Any:
    """Parquet is read in place, as far as the query needs it; all else is brought to memory."""
    if not scan.is_plain_parquet:
        return scan.read().read_all()
    from lode.read.source import check_sizes

    check_sizes(scan.store, scan.files)
    schema = scan.schema()
    return scan.arrow_dataset(scan.files, schema, schema)


def _in_our_words(error: Exception) -> Exception:
    import duckdb

    from lode.errors import InvalidOptionError, LodeError, NotFoundError

    sentence = " ".join(str(error).split("\n\n")[0].split())
    if isinstance(error, duckdb.CatalogException):
        return NotFoundError(f"{sentence} See lode ls for the datasets there are.")
    if isinstance(error, duckdb.ProgrammingError):
        return InvalidOptionError(sentence)
    return LodeError(sentence)
