"""Codecs turn records into file bytes and back; compressors and checksums work on those bytes."""

from lode.codec.arrow import ArrowIPC
from lode.codec.checksum import Checksum, Hasher, HashingSink, Md5, Sha256, Xxh3, checksum
from lode.codec.columnar import arrow_batches, to_batch
from lode.codec.compress import ClosableSink, Compressor, Gzip, Noop, Zstd, compressor
from lode.codec.jsonl import JSONL
from lode.codec.parquet import Parquet
from lode.codec.protocol import (
    Codec,
    ColumnarCodec,
    ConformingCodec,
    NativeCodec,
    ParallelCodec,
    SchemaCodec,
    Sink,
    StatisticalCodec,
    StatisticalStreamEncoder,
    StreamEncoder,
    StreamingCodec,
    WholeFileCodec,
    rows_of,
)
from lode.codec.records import chunks_of
from lode.codec.schema import to_schema
from lode.codec.stats import from_json_value, to_json_value
from lode.codec.timestamps import Timestamped, TimestampRange

__all__ = [
    "JSONL",
    "ArrowIPC",
    "Checksum",
    "ClosableSink",
    "Codec",
    "ColumnarCodec",
    "Compressor",
    "ConformingCodec",
    "Gzip",
    "Hasher",
    "HashingSink",
    "Md5",
    "NativeCodec",
    "Noop",
    "ParallelCodec",
    "Parquet",
    "SchemaCodec",
    "Sha256",
    "Sink",
    "StatisticalCodec",
    "StatisticalStreamEncoder",
    "StreamEncoder",
    "StreamingCodec",
    "TimestampRange",
    "Timestamped",
    "WholeFileCodec",
    "Xxh3",
    "Zstd",
    "arrow_batches",
    "checksum",
    "chunks_of",
    "compressor",
    "from_json_value",
    "rows_of",
    "to_batch",
    "to_json_value",
    "to_schema",
]
