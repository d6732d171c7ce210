"""The codec, the compressor and the checksum of a dataset's files, as objects or by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lode.codec.arrow import ArrowIPC
from lode.codec.checksum import checksum as checksum_of
from lode.codec.compress import compressor as compressor_of
from lode.codec.jsonl import JSONL
from lode.codec.parquet import Parquet
from lode.codec.protocol import Codec, extension_of, is_native
from lode.codec.registry import Registry
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

    @property
    def extension(self) -> str:
        """The end of the name of a new data file: the codec's extension, then the compressor's."""
        return f"{extension_of(self.codec)}{self.compressor.extension}"

    @property
    def is_native(self) -> bool:
        """Whether pyarrow's scanner can read the files."""
        return is_native(self.codec) and self.compressor.name == "noop"

    @property
    def is_plain_parquet(self) -> bool:
        """Whether any reader of Parquet can read the files."""
        return isinstance(self.codec, Parquet) and self.compressor.name == "noop"


CODECS: Final[Registry[Codec]] = Registry("codec", {kind.name: kind for kind in (Parquet, JSONL, ArrowIPC)})

DEFAULT_CODEC: Final = Parquet.name


def codec_named(name: str | None) -> Codec | None:
    """Return the codec with this name, to ask for its capabilities; None for blobs and unknown codecs."""
    try:
        return None if name is None else CODECS.find(name)
    except InvalidOptionError:
        return None  # reading a file reports the reason


def components_of(
    codec: Codec | str | None, compressor: Compressor | str, checksum: Checksum | str | None
) -> Components:
    """Return the components meant by names or objects."""
    return Components(_codec(codec), compressor_of(compressor), checksum_of(checksum))


def _codec(codec: Codec | str | None) -> Codec | None:
    if isinstance(codec, str):
        return CODECS.get(codec)
    # Not isinstance with the protocol: the first time in a process it takes as long as reading a manifest.
    if codec is None or (hasattr(codec, "name") and hasattr(codec, "decode")):
        return codec
    raise InvalidOptionError(f"codec {codec!r} needs a name and decode(): see lode.codec.protocol")
