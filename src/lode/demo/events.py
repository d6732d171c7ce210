"""Events of a web shop, as Arrow batches and as Protobuf rows."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from lode.lazy import pa

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT, DATASET, TABLE = "shop", "web", "events"
NAME: Final = f"{PROJECT}.{DATASET}.{TABLE}"
RESOURCE: Final = f"projects/{PROJECT}/datasets/{DATASET}/tables/{TABLE}"
FIELDS: Final = [
    {"name": "id", "type": "INT64", "mode": "REQUIRED"},
    {"name": "at", "type": "TIMESTAMP", "mode": "REQUIRED"},
    {"name": "kind", "type": "STRING"},
    {"name": "page", "type": "STRING"},
    {"name": "country", "type": "STRING"},
    {"name": "amount", "type": "FLOAT64"},
]

_DAY: Final = 86_400_000_000
_FIRST_DAY: Final = 1_794_700_800_000_000  # 2026-11-15, in microseconds
_KINDS: Final = ("view", "view", "view", "view", "search", "cart", "buy")
_PAGES: Final = ("/", "/shoes", "/hats", "/coats", "/sale", "/basket", "/help")
_COUNTRIES: Final = ("DE", "FR", "PL", "NL", "ES", "IT", "SE")

Row = tuple[int, int, str, str, str, float | None]


def rows(first: int, count: int, *, day: int) -> Iterator[Row]:
    """Events with ids from ``first``, spread over one day; the same every time."""
    chance = random.Random(first)
    for number in range(first, first + count):
        kind = chance.choice(_KINDS)
        at = _FIRST_DAY + day * _DAY + int(chance.random() * _DAY)
        amount = round(chance.lognormvariate(3.5, 0.8), 2) if kind == "buy" else None
        yield number, at, kind, chance.choice(_PAGES), chance.choice(_COUNTRIES), amount


def arrow_batch(first: int, count: int, *, day: int) -> pa.RecordBatch:
    """The events as a client that speaks Arrow sends them."""
    columns = list(zip(*rows(first, count, day=day), strict=True))
    kinds: list[Any] = [
        pa.int64(),
        pa.timestamp("us", "UTC"),
        pa.string(),
        pa.string(),
        pa.string(),
        pa.float64(),
    ]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[field["name"] for field in FIELDS])


def descriptor() -> descriptor_pb2.DescriptorProto:
    """The message a client that speaks Protobuf writes: a timestamp is an int64 of microseconds."""
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"INT64": field.TYPE_INT64, "TIMESTAMP": field.TYPE_INT64, "FLOAT64": field.TYPE_DOUBLE}
    described = descriptor_pb2.DescriptorProto(name="Event")
    for number, column in enumerate(FIELDS, 1):
        kind = kinds.get(column["type"], field.TYPE_STRING)
        described.field.add(name=column["name"], number=number, type=kind, label=field.LABEL_OPTIONAL)
    return described


class ProtoEvents:
    """Makes serialized Protobuf rows."""

    def __init__(self) -> None:
        file = descriptor_pb2.FileDescriptorProto(name="event.proto", syntax="proto2")
        file.message_type.add().CopyFrom(descriptor())
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        self._event: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("Event"))

    def rows(self, first: int, count: int, *, day: int) -> list[bytes]:
        names = [field["name"] for field in FIELDS]
        return [
            self._event(**dict(zip(names, row, strict=True))).SerializeToString()
            for row in rows(first, count, day=day)
        ]
