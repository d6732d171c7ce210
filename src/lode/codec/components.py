"""What every data file of a dataset passes through, and how people name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lode.codec.arrow import ArrowIPC
from lode.codec.checksum import checksum as checksum_of
from lode.codec.compress import compressor as compressor_of
from lode.codec.jsonl import JSONL
from lode.codec.parquet import Parquet
from lode.codec.protocol import Codec
from lode.errors import InvalidOptionError

if TYPE_CHECKING:
    from lode.codec.checksum import Checksum
    from lode.codec.compress import Compressor


@dataclass(frozen=True, slots=True)
class Components:
    """A codec (or none, for blobs), a compressor, and a checksum (or none)."""

    codec: Codec | None
    compressor: Compressor
    checksum: Checksum | None


def components_of(
    codec: Codec | str | None, compressor: Compressor | str, checksum: Checksum | str | None
) -> Components:
    """Return the components meant by names or objects."""
    return Components(_codec(codec), compressor_of(compressor), checksum_of(checksum))


def _codec(codec: Codec | str | None) -> Codec | None:
    match codec:
        case None:
            return None
        case "jsonl":
            return JSONL()
        case "parquet":
            return Parquet()
        case "arrow":
            return ArrowIPC()
        case str():
            raise InvalidOptionError(f"unknown codec {codec!r}: there are 'jsonl', 'parquet' and 'arrow'")
        case Codec():
            return codec
    raise InvalidOptionError(f"codec {codec!r} needs a name and decode(): see lode.codec.protocol")
