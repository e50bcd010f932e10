"""The five codecs of record batches: gzip by the standard library, the others by pyarrow.

kafka-python decodes snappy, LZ4 and zstd by three more packages; pyarrow is here anyway.
"""

import gzip
import struct
import zlib
from collections.abc import Callable
from typing import Final

import pyarrow as pa

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their number in a batch's attributes."""
_XERIAL: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = 16
_SNAPPY_RATIO: Final = 64
"""Three bytes of snappy are never more than 64 of what they stand for."""


def decompressed(data: memoryview, codec: str) -> bytes:
    """Return what was compressed.

    Raises:
        ValueError: the data are not of this codec, or end too early.
    """
    try:
        return _DECODERS[codec](data)
    except (OSError, EOFError, zlib.error, struct.error, IndexError) as error:  # OSError: pyarrow's, and gzip's
        raise ValueError(f"{codec} cannot be decompressed ({error})") from error


def _streamed(codec: str) -> Callable[[memoryview], bytes]:
    def decode(data: memoryview) -> bytes:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            return bytes(stream.read())

    return decode


def _snappy(data: memoryview) -> bytes:
    """Java's producers write xerial's blocks, each with its length before it; librdkafka writes one raw block."""
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        return _snappy_block(data)
    found, at = [], _XERIAL_HEADER
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if not 0 <= size <= len(data) - at:
            raise ValueError(f"a snappy block of {size} bytes where {len(data) - at} are left")
        found.append(_snappy_block(data[at : at + size]))
        at += size
    return b"".join(found)


def _snappy_block(data: memoryview) -> bytes:
    size, at = 0, 0  # a varint of what the block is when it is decompressed
    while True:
        size |= (data[at] & 0x7F) << 7 * at
        at += 1
        if not data[at - 1] & 0x80:
            break
    if size > _SNAPPY_RATIO * len(data):
        raise ValueError(f"{len(data)} bytes of snappy cannot be {size}")
    return bytes(pa.decompress(data, decompressed_size=size, codec="snappy", asbytes=True))


_DECODERS: Final[dict[str, Callable[[memoryview], bytes]]] = {
    "none": bytes,
    "gzip": gzip.decompress,
    "snappy": _snappy,
    "lz4": _streamed("lz4"),
    "zstd": _streamed("zstd"),
}
