"""YAML with bounds: aliases that stand for billions of values are refused before they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lode.errors import InvalidOptionError
from lode.extras import needs

if TYPE_CHECKING:
    from typing import IO

MAX_VALUES: Final = 100_000
MAX_DEPTH: Final = 100


def load_yaml(text: str | IO[str], what: str, loader: Any = None) -> Any:
    """The content of a YAML text.

    Args:
        text: The text, or a file that has it.
        what: What needs it, for the error if pyyaml is missing.
        loader: The class that constructs the values; that of ``safe_load`` if not given.

    Raises:
        InvalidOptionError: It is not YAML, or stands for too many values.
    """
    with needs(what, "spark"):
        import yaml  # type: ignore[import-untyped, unused-ignore]

    try:
        reader = (loader or yaml.SafeLoader)(text)
        node = reader.get_single_node()
        if node is None:
            return None
        _count(node, {}, 0)
        return reader.construct_document(node)
    except yaml.YAMLError as error:
        raise InvalidOptionError(f"it is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise _too_deep() from None


def _count(node: Any, known: dict[int, int | None], depth: int) -> int:
    """The number of values that a node stands for, with each alias as often as it is used."""
    if depth > MAX_DEPTH:
        raise _too_deep()
    if isinstance(node.value, str):
        return 1
    if id(node) in known:
        found = known[id(node)]
        if found is None:
            raise InvalidOptionError(f"line {node.start_mark.line + 1}: an alias contains itself")
        return found
    known[id(node)] = None
    total = 1
    for entry in node.value:
        for inner in entry if isinstance(entry, tuple) else (entry,):
            total += _count(inner, known, depth + 1)
        if total > MAX_VALUES:
            raise InvalidOptionError(
                f"line {node.start_mark.line + 1}: it stands for more than {MAX_VALUES:,} values with its "
                "aliases: write fewer"
            )
    known[id(node)] = total
    return total


def _too_deep() -> InvalidOptionError:
    return InvalidOptionError(f"it is nested more than {MAX_DEPTH} levels deep: write fewer levels")
