"""The messages and enums of a writer's descriptor, found by the names its fields use for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lode.ingest.status import invalid

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto

Path: TypeAlias = tuple[str, ...]

# What a client may name without sending it along.
WELL_KNOWN: Final = "google.protobuf."
# A table has at most 10,000 columns, and Java clients wrap each enum in a message of its own.
MOST_TYPES: Final = 30_000
MOST_ENUM_VALUES: Final = 100_000
_MOST_PARTS: Final = 200
_LONGEST_SHOWN: Final = 300


class Types:
    """What is declared inside one descriptor, the descriptor itself included.

    A bare descriptor knows neither its file nor its package, yet its fields name types as the file did:
    ``Inner``, ``Row.Inner``, ``.Row.Inner`` or ``.package.Row.Inner``. Java clients also move types to
    places from which the rules of protobuf's scopes would not find them.
    """

    def __init__(self, root: DescriptorProto) -> None:
        self._declared: dict[Path, Any] = {}
        # By the last one and the last two names of a path; None where several end in them.
        self._by_end: dict[Path, Path | None] = {}
        enum_values = 0
        waiting: list[tuple[Path, DescriptorProto]] = [((root.name,), root)]
        while waiting:
            path, message = waiting.pop()
            self._declare(path, message)
            more = len(message.nested_type) + len(message.enum_type)
            enum_values += sum(len(enum.value) for enum in message.enum_type)
            if len(self._declared) + len(waiting) + more > MOST_TYPES or enum_values > MOST_ENUM_VALUES:
                raise invalid(
                    f"The descriptor is too large: {MOST_TYPES} types and {MOST_ENUM_VALUES} values of enums "
                    "are the most.",
                    ends_call=True,
                )
            for enum in message.enum_type:
                self._declare((*path, enum.name), enum)
            waiting.extend(((*path, nested.name), nested) for nested in message.nested_type)

    def _declare(self, path: Path, declared: Any) -> None:
        if path in self._declared:
            raise invalid(f"The descriptor declares {brief('.'.join(path))!r} twice.", ends_call=True)
        self._declared[path] = declared
        for end in (path[-1:], path[-2:]):
            self._by_end[end] = path if self._by_end.get(end, path) == path else None

    def find(self, name: str, scope: Path) -> tuple[Path, Any] | None:
        """Return what ``name`` means in the message at ``scope``, with its path, or None."""
        parts = tuple(name.lstrip(".").split("."))
        if len(parts) > _MOST_PARTS:
            return None
        if not name.startswith("."):
            for end in range(len(scope), 0, -1):
                if (path := scope[:end] + parts) in self._declared:
                    return path, self._declared[path]
        for start in range(len(parts)):  # with a package in front that only the writer's file knew
            if (path := parts[start:]) in self._declared:
                return path, self._declared[path]
        only = self._by_end.get(parts)
        return None if only is None else (only, self._declared[only])


def brief(name: str) -> str:
    """A name for a message: clients may send names of any length, and a status has room for few."""
    return name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "…"


def well_known(name: str) -> str | None:
    """``Int64Value`` for ``google.protobuf.Int64Value``, and for what Java clients make of that name."""
    plain = name.lstrip(".").rpartition("google_protobuf_")
    name = WELL_KNOWN + plain[2] if plain[1] else name.lstrip(".")
    return name.removeprefix(WELL_KNOWN) if name.startswith(WELL_KNOWN) else None
