"""What the package shows, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import lode.codec
from lode.codec.protocol import (
    Codec,
    ConformingCodec,
    StatisticalStreamEncoder,
    StreamingCodec,
    WholeFileCodec,
)


def test_all_is_sorted_and_whole() -> None:
    names = lode.codec.__all__
    assert all(hasattr(lode.codec, name) for name in names)
    assert len(set(names)) == len(names)


def test_importing_leaves_the_heavy_parts_unloaded() -> None:
    heavy = "{'pyarrow.parquet', 'pyarrow.compute', 'pyarrow.dataset', 'zstandard', 'xxhash', 'pandas'}"
    code = f"import sys, lode.codec; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_each_codec_keeps_the_protocols_it_should() -> None:
    for codec in (lode.codec.JSONL(), lode.codec.Parquet(), lode.codec.ArrowIPC()):
        assert isinstance(codec, Codec)
        assert isinstance(codec, StreamingCodec)
        assert not isinstance(codec, WholeFileCodec)
    assert isinstance(lode.codec.Parquet(), ConformingCodec)
    assert isinstance(lode.codec.ArrowIPC(), ConformingCodec)
    assert isinstance(lode.codec.JSONL(), ConformingCodec)


def test_only_columnar_encoders_report_statistics() -> None:
    class Sink:
        def write(self, _: object, /) -> int:
            return 0

    assert isinstance(lode.codec.Parquet().stream_encoder(Sink()), StatisticalStreamEncoder)
    assert isinstance(lode.codec.ArrowIPC().stream_encoder(Sink()), StatisticalStreamEncoder)
    assert not isinstance(lode.codec.JSONL().stream_encoder(Sink()), StatisticalStreamEncoder)
