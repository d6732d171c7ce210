"""Decodes Arrow messages with random bytes changed; run by test_rows_arrow.py in a process of its own."""

from __future__ import annotations

import datetime as dt
import random
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from lode.ingest.decode.arrow import ArrowRows
from lode.ingest.status import Refused
from lode.ingest.types.columns import Column, TableSchema

ROWS = 40
TABLE = TableSchema(
    (
        Column("id", "INT64", "REQUIRED"),
        Column("name", "STRING"),
        Column("body", "BYTES"),
        Column("ok", "BOOL"),
        Column("at", "TIMESTAMP"),
        Column("time", "TIME"),
        Column("price", "NUMERIC"),
        Column("large", "BIGNUMERIC"),
        Column("doc", "JSON"),
        Column("tags", "STRING", "REPEATED"),
        Column("s", "STRUCT", fields=(Column("x", "INT64", "REQUIRED"), Column("l", "STRING", "REPEATED"))),
        Column("many", "STRUCT", "REPEATED", (Column("d", "DATE"), Column("z", "STRING"))),
        Column("view", "STRING"),
        Column("unsigned", "INT64"),
        Column("fixed", "BYTES"),
    )
)
OTHER_TYPES: dict[str, pa.DataType] = {
    "view": pa.string_view(),
    "unsigned": pa.uint64(),
    "fixed": pa.binary(3),
}
WRITER = pa.schema([pa.field(field.name, OTHER_TYPES.get(field.name, field.type)) for field in TABLE.arrow])


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": "n" * number if number % 5 else None,
        "body": b"x" * number,
        "ok": number % 2 == 0,
        "at": dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
        "time": dt.time(1, 2, 3),
        "price": Decimal(number),
        "large": Decimal(number),
        "doc": f'{{"a": {number}}}',
        "tags": ["a", "bb"] * (number % 3),
        "s": {"x": number, "l": ["q"] * (number % 2)} if number % 4 else None,
        "many": [{"d": dt.date(2024, 2, 29), "z": "zz"}] * (number % 3),
        "view": "longer than what fits into a view" * (number % 2),
        "unsigned": number,
        "fixed": b"abc",
    }


def streams(batch: pa.RecordBatch) -> list[bytes]:
    """The batch alone, and whole streams of it, compressed and not."""
    sent = [batch.serialize().to_pybytes()]
    for compression in (None, "lz4", "zstd"):
        sink = pa.BufferOutputStream()
        with ipc.new_stream(sink, WRITER, options=ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_batch(batch)
        sent.append(sink.getvalue().to_pybytes())
    return sent


def flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
        place = chance.randrange(len(changed))
        changed[place] = chance.choice(
            [changed[place] ^ 1 << chance.randrange(8), chance.randrange(256), 0, 255]
        )
    if chance.random() < 0.05:
        changed = changed[: chance.randrange(len(changed))]
    return bytes(changed)


def main(seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    schema = WRITER.serialize().to_pybytes()
    sent = streams(pa.RecordBatch.from_pylist([row(number) for number in range(ROWS)], WRITER))
    rows = ArrowRows(TABLE, schema)
    assert all(rows.decode(stream).num_rows == ROWS for stream in sent)
    decoded = refused = 0
    for _ in range(rounds):
        stream = chance.choice(sent)
        try:
            if chance.random() < 0.3:
                batch = ArrowRows(TABLE, flipped(schema, chance)).decode(stream)
            else:
                batch = rows.decode(flipped(stream, chance))
        except Refused:
            refused += 1
            continue
        # What is taken must be sound, down to every value. A BIGNUMERIC has more digits than Arrow allows.
        batch.drop_columns(["large"]).validate(full=True)
        batch.column("large").view(pa.binary(32)).validate(full=True)
        batch.to_pylist()
        assert batch.schema.equals(TABLE.arrow)
        decoded += 1
    print(decoded, refused)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
